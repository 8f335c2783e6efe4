"""Models as files for other runtimes: ONNX.

For TensorFlow itself there is Keras's ``model.export(path)``, a SavedModel with free numbers of
examples and points, and for Keras ``model.save("model.keras")``.
"""

from tfpn.exporting._onnx import onnx

__all__ = ["onnx"]
