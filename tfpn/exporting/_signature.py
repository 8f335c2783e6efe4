"""What both formats share: the exported function and its input."""

from typing import Any

import keras
import tensorflow as tf

from tfpn.types import Model


def input_signature(model: Model) -> Any:
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
