"""Models in the ONNX format."""

import os
from typing import Any

import keras
import tensorflow as tf

from tfpn.types import Model, PathLike


def onnx(model: Model, path: PathLike) -> None:
    """Writes a model's predictions as an ONNX file, with free numbers of examples and points.

    The file computes the same as ``model(x, training=False)``, but without the checks of the data:
    a negative variance or NaN goes unnoticed. ONNX has no Cholesky factorisation and no triangular
    solver. The file holds them as functions made of ONNX's own operations. Their loops take longer
    than TensorFlow's kernels. Inputs are float32 arrays with the names of the model's inputs. The
    output is "output", or "output_values" and so on if the model returns a dict.

    You can export a `PNCNN` with ``uncertainty="diagonal"`` or "none", noise of both kinds, and
    pooling over the space, a box or a ball. You can also export models of the same layers. An error
    names what has no ONNX form: the eigenvectors of "low_rank", the random numbers of "sampled",
    the Bessel functions of a disc, the complex matrices of `SteerablePNConv`, and the loop over
    channels with their own priors in `PNTimeSeries`, in which tf2onnx loses the shapes.

    Args:
        model: a Keras model whose input is a dict of float32 tensors.
        path: the file to write.

    Raises:
        ImportError: if the packages onnx and tf2onnx are missing.
        TypeError: if ``model`` is not a Keras model with known inputs.
        ValueError: if inputs are not float32, or if operations of the model have no ONNX form. Then
            nothing is written.

    Example:

    >>> import os, tempfile, keras, tfpn
    >>> x = {key: keras.Input((None, 2), name=key) for key in ("points", "values", "variance")}
    >>> model = keras.Model(x, tfpn.layers.ProbReLU()(x))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     tfpn.exporting.onnx(model, os.path.join(folder, "model.onnx"))
    ...     os.listdir(folder)
    ['model.onnx']
    """
    signature = _input_signature(model)
    try:
        from tfpn.exporting import _translation
    except ImportError as error:
        raise ImportError(
            f"ONNX export needs the packages onnx and tf2onnx ({error}): pip install 'tfpn[onnx]'."
        ) from error

    @tf.function(input_signature=[signature], autograph=False)
    def predict(x):
        output = model(x, training=False)
        # In ONNX an output must not have the name of an input.
        if isinstance(output, dict):
            return {f"output_{key}": tensor for key, tensor in output.items()}
        return {"output": output}

    translated, unknown = _translation.translate(predict.get_concrete_function())
    if unknown:
        raise ValueError(
            f"model: {model.name} has operations without an ONNX form: {', '.join(unknown)}. "
            "Use model.export(path), a TensorFlow SavedModel, or a model without them (see "
            "tfpn.exporting.onnx)."
        )
    _translation.write(translated, os.fspath(path))


def _input_signature(model: Model) -> Any:
    """The specification of a model's input dict, with free numbers of examples and points.

    Raises:
        TypeError: if ``model`` is not a functional Keras model.
        ValueError: if an input is not float32 or has no name of its own.
    """
    if not isinstance(model, keras.Model) or not getattr(model, "inputs", None):
        raise TypeError(
            "model: give a Keras model with known inputs, such as those of tfpn.models or "
            f"keras.Model(inputs, outputs); found {type(model).__name__}."
        )
    wide = [tensor.name for tensor in model.inputs if tensor.dtype != "float32"]
    if wide:
        raise ValueError(
            f"model: the inputs {', '.join(wide)} are not float32; build the model with "
            "dtype='float32' and copy the weights with set_weights."
        )
    structure = model.input
    if not isinstance(structure, dict):
        raise ValueError(
            "model: its input is not a dict; name the inputs, as in "
            "keras.Model({'points': points, 'values': values, 'variance': variance}, outputs)."
        )
    return {key: tf.TensorSpec(t.shape, t.dtype, name=key) for key, t in structure.items()}
