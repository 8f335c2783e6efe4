"""Targets and sample weights: what a loss takes, and which targets were not measured."""

import numbers
from collections.abc import Mapping
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from tfpn.losses import FUNCTIONS
from tfpn.types import Tensor

# Losses that are means over the last axis of a function of a single target and output.
_ENTRYWISE = (
    keras.losses.mean_squared_error,
    keras.losses.mean_absolute_error,
    keras.losses.mean_absolute_percentage_error,
    keras.losses.mean_squared_logarithmic_error,
    keras.losses.huber,
    keras.losses.log_cosh,
    keras.losses.binary_crossentropy,
)
_DISTRIBUTIONS = (
    keras.losses.categorical_crossentropy,
    keras.losses.categorical_focal_crossentropy,
    keras.losses.kl_divergence,
)
# Reductions to a mean of entries: a mean over some of the entries is then well defined.
_MEANS = ("sum_over_batch_size", "mean", "mean_with_sample_weight")


class Rule(NamedTuple):
    """The targets that a loss takes."""

    loss: str  # its name, for messages
    classes: int | None = None  # targets are labels, from 0 to this less 1
    ignored: int | None = None  # the label that the loss passes over
    shape: tuple | None = None  # the targets' shape, with None for free axes; None for any shape
    probabilities: bool = False  # targets lie in [0, 1]
    missing: bool = False  # NaN is left out of the loss
    moments: bool = False  # it takes mean and variance of each output
    means: bool = False  # of outputs that are means and variances it takes the means


def rule_of(loss: Any, outputs: Any, several: bool, moments: bool = False) -> "Rule":
    """The rule of a compiled loss.

    Args:
        loss: the loss given to `compile`: a name, a function, a `keras.losses.Loss`, or one of them
            in a list or dict.
        outputs: the model's symbolic outputs.
        several: whether an example has several targets, so that some may not be measured.
        moments: whether the outputs are means and variances, along a last axis of their own.
    """
    losses = keras.tree.flatten(loss)
    if loss is None or len(losses) != 1 or len(outputs) != 1:
        return Rule("the loss")
    loss, shape = keras.losses.get(losses[0]), tuple(outputs[0].shape)
    shape = shape[:-1] if moments else shape
    rule = _rule_of(loss, shape, several, moments)
    return rule._replace(means=moments and is_keras(loss))


def _rule_of(loss, shape, several, moments):
    function = _function(loss)
    name = str(getattr(loss, "name", None) or getattr(loss, "__name__", ""))
    if getattr(loss, "axis", -1) != -1:
        return Rule(name)
    if function is keras.losses.sparse_categorical_crossentropy:
        ignored = getattr(loss, "ignore_class", None)
        return Rule(name, classes=shape[-1], ignored=ignored, shape=shape[:-1])
    if function in _DISTRIBUTIONS:
        return Rule(name, shape=shape)
    if moments and takes_moments(loss):
        missing = getattr(loss, "reduction", _MEANS[0]) in _MEANS
        return Rule(name, shape=shape, missing=missing, moments=True)
    if function in _ENTRYWISE:
        reduction = getattr(loss, "reduction", _MEANS[0])
        return Rule(
            name,
            shape=shape,
            probabilities=function is keras.losses.binary_crossentropy,
            missing=several and reduction in _MEANS,
        )
    return Rule(name)


def _function(loss):
    """Keras's function of a loss, or the loss itself if it is not Keras's."""
    plain = getattr(type(loss), "call", None) is keras.losses.MeanSquaredError.call
    return loss.fn if plain else loss


def read_targets(y: Any, name: str = "y") -> Any:
    """An array of numbers as a NumPy array; missing entries of pandas become NaN.

    Raises:
        ValueError: for lists, texts and objects, which Keras refuses without a name.
    """
    if isinstance(y, (list, tuple)):
        raise ValueError(
            f"{name} is a {type(y).__name__}; give an array of labels or targets: "
            f"numpy.asarray({name})."
        )
    array = np.asarray(y)
    texts = array.dtype.kind in "US" or (
        array.dtype.kind == "O" and any(isinstance(entry, str) for entry in array.flat)
    )
    if texts:
        raise ValueError(
            f"{name} holds texts; labels are whole numbers 0 to K - 1: give those of "
            f"numpy.unique({name}, return_inverse=True)."
        )
    if array.dtype.kind == "O" and hasattr(y, "isna"):  # pandas's own missing values
        try:
            array = y.to_numpy(dtype=np.float64, na_value=np.nan)
        except (TypeError, ValueError):
            pass
    if array.dtype.kind not in "biuf":
        raise ValueError(
            f"{name} has the dtype {array.dtype}; give an array of numbers, {name}.astype(int) for "
            "labels, after leaving out examples without one."
        )
    return array


def check_targets(y: Any, rule: Any, examples: int, points: Tensor | None = None) -> None:
    """Raises ValueError for an array that the loss does not take; it names the first example.

    Args:
        y: from `read_targets`.
        rule: from `rule_of`.
        examples: number of examples.
        points: number of query points, if there are any.
    """
    check_shape(y.shape, rule, examples, points)
    if y.dtype.kind == "f":
        _check_finite(y, rule)
    if rule.classes is not None:
        wrong = (y < 0) | (y >= rule.classes) | (y != np.round(y))
        if rule.ignored is not None:
            wrong &= y != rule.ignored
        found = _first(wrong)
        if found:
            raise ValueError(
                f"y is {y[found]:g} for example {found[0]}; {rule.loss} takes the labels 0 to "
                f"{rule.classes - 1}, whole numbers."
            )
    if rule.probabilities:
        found = _first((y < 0) | (y > 1))
        if found:
            raise ValueError(
                f"y is {y[found]:g} {_place(found)}; {rule.loss} takes numbers from 0 to 1."
            )


def _check_finite(y, rule):
    missing = np.isnan(y)
    wrong = np.unique(np.argwhere(missing)[:, 0])
    if len(wrong) and not rule.missing:
        raise ValueError(
            f"y is NaN for {len(wrong)} of {len(y)} examples, the first of them {wrong[0]}: "
            f"leave out examples without a label or target. {_WHERE_MISSING}"
        )
    if missing.all():
        raise ValueError("y is NaN throughout: there is nothing to learn from; give targets.")
    with np.errstate(over="ignore"):
        infinite = _first(np.isinf(y.astype(keras.config.floatx())))
    if infinite:
        raise ValueError(
            f"y is {y[infinite]:g} {_place(infinite)}; targets must be finite in "
            f"{keras.config.floatx()}, to which Keras casts them: leave it out or scale it."
        )


_WHERE_MISSING = (
    "NaN means not measured only if the model has several outputs or predicts fields, and the loss "
    "is a mean over single entries, such as mse or mae."
)


def check_shape(
    found: Tensor, rule: Any, examples: int | None = None, points: Tensor | None = None
) -> None:
    """Raises ValueError if the known part of the targets' shape does not fit the loss."""
    if examples is not None and (not found or found[0] != examples):
        raise ValueError(
            f"y has the shape {tuple(found)}, but x has {examples} examples: give as many targets."
        )
    if rule.shape is None:
        return
    expected = (examples, *rule.shape[1:])
    if points is not None and len(expected) > 1:
        expected = (examples, points, *expected[2:])
    # As in Keras, an axis of length 1 may be left out or added at the end.
    forms = [expected, (*expected, 1)] + [expected[:-1]] * (len(expected) > 1 == expected[-1])
    if not any(tf.TensorShape(found).is_compatible_with(form) for form in forms):
        sizes = ("B" if examples is None else examples, *expected[1:])
        wanted = ", ".join("M" if size is None else str(size) for size in sizes)
        advice = ""
        if rule.classes is not None and len(found) == len(rule.shape) + 1:
            advice = "; one-hot targets go with CategoricalCrossentropy"
        raise ValueError(
            f"y has the shape {tuple(found)}; {rule.loss} takes [{wanted}] with this model's "
            f"output{advice}."
        )


def check_class_weight(weights: Any) -> None:
    """Raises ValueError unless class weights are None, or numbers of at least 0 by label."""
    if weights is None:
        return
    if not isinstance(weights, Mapping):
        raise ValueError(
            f"class_weight must be a dict of weights by label, such as {{0: 1.0, 1: 3.0}}, found "
            f"{weights!r}; sklearn.utils.class_weight.compute_class_weight finds balanced ones."
        )
    for label, weight in weights.items():
        if not isinstance(label, numbers.Integral):
            raise ValueError(
                f"class_weight has the key {label!r}; keys are the labels 0, 1 and so on."
            )
        if not (isinstance(weight, numbers.Real) and 0.0 <= float(weight) < np.inf):
            raise ValueError(
                f"class_weight is {weight!r} for the label {label}; give finite weights of at "
                "least 0."
            )


def check_weights(weights: Any, examples: int, rule: Any, points: int | None = None) -> None:
    """Raises ValueError for sample weights below 0, not finite, or of a shape without meaning.

    Args:
        weights: from `read_targets`.
        examples, rule, points: as in `check_targets`.
    """
    name = "sample_weight"
    if not weights.shape or len(weights) != examples:
        raise ValueError(
            f"{name} has the shape {weights.shape}, but x has {examples} examples: give each a "
            "weight."
        )
    if rule.shape is not None:
        # The axes of the loss's values; if targets may be missing, each entry has a weight.
        kept = len(rule.shape) - (rule.classes is None and not rule.missing)
        inner = (points if size is None else size for size in rule.shape[1:kept])
        sizes = (examples, *inner)
        forms = [sizes[:length] for length in range(1, len(sizes) + 1)]
        if not any(weights.shape in (form, (*form, 1)) for form in forms):
            raise ValueError(
                f"{name} has the shape {weights.shape}; {rule.loss} takes "
                f"{' or '.join(str(list(form)) for form in forms)} with this model's output."
            )
    found = _first(~(np.isfinite(weights) & (weights >= 0)))
    if found:
        raise ValueError(
            f"{name} is {weights[found]} {_place(found)}; weights are finite and not negative: "
            "give 0 to leave an entry out."
        )


def assertions(y: Any, weights: Any, rule: Any) -> Any:
    """Assertions that `check_targets` would accept a batch's targets and weights."""
    found = []

    def want(good, message):
        axes = list(range(1, len(good.shape)))
        good = tf.reduce_all(good, axis=axes)
        first = tf.where(~good)[:1, 0]  # the batch may be empty on a replica
        found.append(tf.debugging.Assert(tf.reduce_all(good), [message, first]))

    if y is not None:
        check_shape(y.shape, rule)
        if y.dtype.is_floating:
            infinite = tf.math.is_inf(y)
            if rule.missing:
                want(~infinite, "y is infinite; targets are finite numbers. First example:")
            else:
                want(
                    ~(infinite | tf.math.is_nan(y)),
                    "y is NaN or infinite: leave out examples without a label or target. "
                    f"{_WHERE_MISSING} First example:",
                )
        if rule.classes is not None and y.dtype != tf.bool:
            good = (y >= 0) & (y < rule.classes)
            if y.dtype.is_floating:
                good &= tf.equal(y, tf.round(y))
            if rule.ignored is not None:
                good |= tf.equal(y, tf.cast(rule.ignored, y.dtype))
            want(
                good,
                f"y holds a label that {rule.loss} does not take; it takes whole numbers from 0 to "
                f"{rule.classes - 1}. First example:",
            )
        if rule.probabilities and y.dtype != tf.bool:
            want(
                ~((y < 0) | (y > 1)),  # NaN may be left out
                f"y holds a number that {rule.loss} does not take; it takes numbers from 0 to 1. "
                "First example:",
            )
    if weights is not None and weights.dtype.is_floating:
        want(
            tf.math.is_finite(weights) & (weights >= 0),
            "sample_weight is NaN, infinite or negative; give 0 to leave an entry out. First "
            "example:",
        )
    return found


def takes_moments(loss: Any) -> bool:
    """Whether a loss, or a metric by its function, is one of `tfpn.losses`."""
    return loss in FUNCTIONS or getattr(loss, "fn", getattr(loss, "_fn", None)) in FUNCTIONS


def is_keras(loss: Any) -> bool:
    """Whether a loss or metric is Keras's own, and no function of somebody else."""
    function = getattr(loss, "fn", getattr(loss, "_fn", None))
    if function is not None:
        return is_keras(function)
    own = loss if hasattr(loss, "__name__") else type(loss)
    return str(own.__module__).partition(".")[0] == "keras"


def entries(y: Any, y_pred: Tensor, weights: Any, *, pairs: bool = False) -> Any:
    """Targets and outputs with a last axis of length 1, and weights of 0 where y is NaN.

    In this form an entrywise loss or metric is a function of each single entry. Its weighted mean
    over all entries is then the mean over the entries that were measured.

    Args:
        y: targets, NaN where not measured.
        y_pred: outputs of the shape [B, ..., K].
        weights: None, or sample weights that begin with B.
        pairs: whether outputs are means and variances [B, ..., K, 2], which stay as they are.

    Returns:
        Targets and outputs [B, ..., K, 1], weights in the shape of ``y_pred`` or None, and in the
        same shape the mask of measured targets.
    """
    y_pred = tf.convert_to_tensor(y_pred)
    outputs = y_pred if pairs else y_pred[..., None]
    y_pred = outputs[..., 0]
    y = tf.cast(tf.reshape(y, tf.shape(y_pred)), y_pred.dtype)
    measured = ~tf.math.is_nan(y)
    y = tf.where(measured, y, tf.stop_gradient(y_pred))  # any finite number serves
    if weights is not None:
        weights = tf.cast(weights, y_pred.dtype)
        ones = [1] * (len(y_pred.shape) - len(weights.shape))
        weights = tf.reshape(weights, tf.concat([tf.shape(weights), ones], axis=0))
    return y[..., None], outputs, weights, measured


def is_entrywise(metric: Any) -> bool:
    """Whether a metric is a mean over entries, so that it can be one over some of them."""
    if type(metric) is keras.metrics.RootMeanSquaredError:
        return True
    plain = type(metric).update_state is keras.metrics.MeanSquaredError.update_state
    return plain and metric._fn in (*_ENTRYWISE, *FUNCTIONS)


def _first(wrong):
    """The index of the first True, or None."""
    return tuple(int(i) for i in np.argwhere(wrong)[0]) if wrong.any() else None


def _place(index):
    """An entry in words."""
    example, *others = index
    return f"for example {example}" + (f", entry {others}" if others else "")
