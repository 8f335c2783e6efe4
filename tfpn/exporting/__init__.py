"""Writes models as ONNX files for other runtimes.

For TensorFlow use Keras's ``model.export(path)``, which writes a SavedModel with free numbers of
examples and points. For Keras use ``model.save("model.keras")``.
"""

from tfpn.exporting._onnx import onnx

__all__ = ["onnx"]
