"""Models for deployment: ONNX files for other runtimes, and fast predictions within Python.

For TensorFlow without tfpn use Keras's ``model.export(path)``, which writes a SavedModel with free
numbers of examples and points. For Keras use ``model.save("model.keras")``.
"""

from tfpn.exporting._frozen import FrozenModel
from tfpn.exporting._onnx import onnx

__all__ = ["FrozenModel", "onnx"]
