"""Models in the TensorFlow Lite (LiteRT) format."""

import os
import re

import tensorflow as tf
from tensorflow.lite.python.convert import ConverterError

from tfpn.exporting._signature import input_signature
from tfpn.types import Model, PathLike


def tflite(model: Model, path: PathLike, select_ops: bool = True) -> None:
    """Writes a model's predictions as a TensorFlow Lite file, by Keras's ``model.export``.

    Everything that conditions a Gaussian process needs a Cholesky factorisation, which TensorFlow
    Lite has only among its select TensorFlow operations: the program that runs the file has to be
    linked with the Flex delegate, which the Python interpreter of TensorFlow 2.21 is not.
    The file's signature takes float32 arrays by the names of the model's inputs, with free numbers
    of examples and points.

    Args:
        model: a Keras model whose input is a dict of float32 tensors.
        path: the file to write, ending in ".tflite".
        select_ops: whether the file may use select TensorFlow operations.

    Raises:
        TypeError: if ``model`` is not a Keras model with known inputs.
        ValueError: if inputs are not float32, if ``path`` does not end in ".tflite", or with
            ``select_ops=False`` if the model has operations that TensorFlow Lite has not.

    Example:

    >>> import os, tempfile, keras, tfpn
    >>> x = {key: keras.Input((None, 2), name=key) for key in ("points", "values", "variance")}
    >>> model = keras.Model(x, tfpn.layers.ProbReLU()(x))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     tfpn.exporting.tflite(model, os.path.join(folder, "m.tflite"), select_ops=False)
    ...     os.listdir(folder)
    ['m.tflite']
    """
    input_signature(model)  # checks the inputs; Keras finds the same one
    path = os.fspath(path)
    if not path.endswith(".tflite"):
        raise ValueError(f"path: must end in '.tflite', found {path!r}.")
    operations = [tf.lite.OpsSet.TFLITE_BUILTINS]
    if select_ops:
        operations.append(tf.lite.OpsSet.SELECT_TF_OPS)
    try:
        model.export(
            path, format="litert", verbose=False, target_spec={"supported_ops": operations}
        )
    except ConverterError as error:
        missing = sorted(set(re.findall(r"'tf\.(\w+)' op is neither a custom op", str(error))))
        if select_ops or not missing:
            raise
        raise ValueError(
            f"model: {model.name} has operations that TensorFlow Lite has not: "
            f"{', '.join(missing)}. Use select_ops=True, and run the file where the Flex delegate "
            "is linked."
        ) from error
