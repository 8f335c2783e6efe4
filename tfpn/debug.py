"""Search for the examples that break a training step."""

import numpy as np
import tensorflow as tf

from tfpn.models.network import PNNetwork
from tfpn.types import Array, ArrayLike, Model, Observations


def check_gradients(
    model: Model, x: Observations, y: ArrayLike, sample_weight: ArrayLike | None = None
) -> Array:
    """Checks that the loss and gradient of each example alone are finite.

    A training step adds up the gradients of a batch. A NaN from one example makes every weight NaN,
    and Keras goes on. This function names the example. It runs outside of compiled functions and
    takes about a tenth of a second for each example.

    Args:
        model: a compiled model of `tfpn.models`. Its layers compute as in `evaluate`. No weight,
            average or metric changes.
        x: the input dict, arrays [B, ...].
        y: targets, an array [B, ...].
        sample_weight: an array [B, ...] as in Keras's `fit`, or None.

    Returns:
        A float64 array [B]: the norm of each example's gradient by all trainable weights.

    Raises:
        TypeError: if the model is not a model of `tfpn.models`, or ``x`` is not a dict.
        ValueError: if the model is not compiled; if ``x`` is not the model's input (see its
            `predict`); if ``y`` or ``sample_weight`` has another number of examples; or if the
            output, the loss or the gradient of an example is not finite. The message names the
            example.

    Example:

    >>> import numpy as np, tfpn
    >>> x = tfpn.observations([[[0.1], [0.6]], [[0.3], [0.5]]], [[1.0, 2.0], [3.0, 4.0]])
    >>> model = tfpn.models.PNCNN(
    ...     None, num_outputs=1, channels=2, num_blocks=1, num_basis=3, spatial_dim=1)
    >>> model.compile("sgd", "mse")
    >>> tfpn.debug.check_gradients(model, x, np.array([[0.5], [1.0]])).shape
    (2,)
    >>> tfpn.debug.check_gradients(model, x, np.array([[0.5], [np.nan]]))
    Traceback (most recent call last):
    ...
    ValueError: example 1: the loss is nan; look at its targets, weights and values.
    """
    if not isinstance(model, PNNetwork) or not isinstance(x, dict):
        raise TypeError(
            "check_gradients takes a model of tfpn.models and its input dict; found "
            f"{type(model).__name__} and {type(x).__name__}."
        )
    if not model.compiled or model.loss is None:
        raise ValueError(f"{model.name} has no loss: call its compile(optimizer, loss) first.")
    x = {key: np.asarray(value) for key, value in model._checked(x).items()}
    count = len(x["points"])
    data = {"y": np.asarray(y)}
    if sample_weight is not None:
        data["sample_weight"] = np.asarray(sample_weight)
    for name, array in data.items():
        if array.shape[:1] != (count,):
            raise ValueError(
                f"{name} has shape {array.shape}, but there are {count} examples: give "
                f"[{count}, ...]."
            )
    metrics = [(variable, variable.numpy()) for variable in model.metrics_variables]
    try:
        return np.array([_gradient_norm(model, x, data, index) for index in range(count)])
    finally:
        for variable, value in metrics:
            variable.assign(value)


def _gradient_norm(model, x, data, index):
    """The norm of one example's gradient; raises ValueError unless it is finite."""
    one = slice(index, index + 1)
    x = {key: value[one] for key, value in x.items()}
    data = {key: value[one] for key, value in data.items()}
    with tf.GradientTape() as tape:
        try:
            output = model(x, training=False)
        except tf.errors.InvalidArgumentError as error:
            raise ValueError(f"example {index}: {error.message}") from error
        try:
            loss = model.compute_loss(x, y_pred=output, training=False, **data)
        except (tf.errors.InvalidArgumentError, ValueError) as error:
            raise ValueError(f"example {index}: its loss cannot be computed: {error}") from error
    if not np.isfinite(loss):
        raise ValueError(
            f"example {index}: the loss is {float(loss)}; look at its targets, weights and values."
        )
    weights = model.trainable_weights
    gradients = tape.gradient(loss, [w.value for w in weights], unconnected_gradients="zero")
    squares = [np.sum(np.square(np.asarray(g, np.float64))) for g in gradients]
    bad = [w.path for w, square in zip(weights, squares, strict=True) if not np.isfinite(square)]
    if bad:
        raise ValueError(
            f"example {index}: the gradient is not finite, by {', '.join(bad[:3])}"
            f"{f' and {len(bad) - 3} more weights' if len(bad) > 3 else ''}; look at values far "
            "larger than those of others."
        )
    return np.sqrt(np.sum(squares))
