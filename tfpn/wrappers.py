"""The models for those who work with scikit-learn and with pandas.

`from_frame` turns a long table into observations. `PNClassifier` and `PNRegressor` are scikit-learn
estimators. They take observations as the dict, or as one array that `pack` makes. Only the array
works with `cross_val_score` and other functions of scikit-learn that split examples.
"""

import math
import random
from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_consistent_length, check_is_fitted, column_or_1d

from tfpn.augmentation import check_thinning
from tfpn.checks import check_count, check_number
from tfpn.contract import KEYS, check_observations
from tfpn.long_tables import from_frame
from tfpn.types import Array, ArrayLike, Observations

__all__ = ["PNClassifier", "PNRegressor", "from_frame", "pack", "unpack"]


def pack(x: Observations) -> Array:
    """Observations as one array, for scikit-learn, which splits examples along the first axis.

    Args:
        x: the observations dict, with points [B, N, d], values and variance [B, N, c].

    Returns:
        An array [B, N, d + 2c]: points, values and variance (+inf where nothing was observed).

    Raises:
        TypeError, ValueError: as `tfpn.contract.check_observations`, and for statics.

    Example:

    >>> import tfpn
    >>> tfpn.wrappers.pack(tfpn.observations([[[0.5, 0.2]]], [[3.0]], 0.1)).tolist()
    [[[0.5, 0.2, 3.0, 0.1]]]
    """
    if isinstance(x, dict) and "statics" in x:
        raise ValueError(
            "x holds statics, which the wrappers do not take: train models with statics by their "
            "own fit."
        )
    x = check_observations(x)
    return np.concatenate([x[key] for key in KEYS], axis=-1)


def unpack(X: ArrayLike, spatial_dim: int) -> dict[str, Array]:
    """Turns the array that `pack` made back into the observations dict.

    Args:
        X: an array [B, N, d + 2c].
        spatial_dim: d.

    Raises:
        ValueError: for an array of another shape.

    Example:

    >>> import tfpn
    >>> tfpn.wrappers.unpack([[[0.5, 0.2, 3.0, 0.1]]], spatial_dim=2)["points"].tolist()
    [[[0.5, 0.2]]]
    """
    X, dim = np.asarray(X), check_count("spatial_dim", spatial_dim)
    channels, odd = divmod(X.shape[-1] - dim, 2) if X.ndim == 3 else (0, 0)
    if channels < 1 or odd:
        raise ValueError(
            f"X has the shape {X.shape}, expected [B, N, {dim} + 2c] for c channels, as "
            "tfpn.wrappers.pack makes it of observations."
        )
    parts = np.split(X, [dim, dim + channels], axis=-1)
    return dict(zip(KEYS, parts, strict=True))


def _packed(X):
    """``X`` as one array, if it is an observations dict."""
    return pack(X) if isinstance(X, Mapping) else X


def _is_missing(label):
    """Whether a label is None, NaN or pandas.NA, whose comparisons are neither true nor false."""
    same = label == label
    return label is None or not (isinstance(same, (bool, np.bool_)) and same)


class _PNEstimator(BaseEstimator):
    """The base of the estimators."""

    def __init__(
        self,
        model: Any,
        model_kwargs: Mapping[str, Any] | None = None,
        fit_kwargs: Mapping[str, Any] | None = None,
        thin: Sequence[float] | None = None,
        drop_channels: float = 0.0,
    ) -> None:
        self.model = model
        self.model_kwargs = model_kwargs
        self.fit_kwargs = fit_kwargs
        self.thin = thin
        self.drop_channels = drop_channels

    def _fit(self, X, y, outputs, arguments, targets=None, strata=None):
        """Builds, adapts and trains the model.

        Args:
            X, y: packed observations, and the class numbers or targets that the model takes.
            outputs: number of classes or outputs.
            arguments: arguments of Keras's `fit`, in place of ``fit_kwargs``.
            targets: the targets for `adapt`, for a regression.
            strata: [B], groups. ``validation_split`` takes the same part of each.
        """
        if hasattr(self.model, "predict"):
            raise TypeError(
                f"model is a {type(self.model).__name__}; give a function that takes the number of "
                "classes or outputs and returns a compiled model."
            )
        arguments = {"verbose": 0, **(self.fit_kwargs or {}), **arguments}
        X = _packed(X)
        self.model_ = self.model(outputs, **(self.model_kwargs or {}))
        self.__dict__.pop("n_features_in_", None)  # from an earlier fit
        try:
            self._train(X, y, arguments, targets, strata)
        except Exception:
            del self.model_  # it is not trained
            raise
        return self

    def _train(self, X, y, arguments, targets, strata):
        """Adapts and trains the model that was built."""
        x = self._unpack(X)
        self.n_features_in_ = np.shape(X)[-1]
        check_consistent_length(X, y, arguments.get("sample_weight"))
        if isinstance(arguments.get("validation_data"), (tuple, list)):
            arguments["validation_data"] = self._validation(*arguments["validation_data"])
        if self.thin is not None:
            check_thinning(self.thin, drop_channels=self.drop_channels)
        elif self.drop_channels:
            raise ValueError("drop_channels needs thin; give thin=(1.0, 1.0) to drop them alone.")
        if arguments.get("validation_split") is not None:
            check_number("validation_split", arguments["validation_split"], low=0.0, high=1.0)
        self.model_.adapt(x, targets)
        if arguments.get("validation_split"):
            # Keras takes the last examples. In a sorted table these have one class.
            order = _mixed_order(np.zeros(len(y)) if strata is None else strata)
            x, y = {key: array[order] for key, array in x.items()}, y[order]
            if arguments.get("sample_weight") is not None:
                arguments["sample_weight"] = np.asarray(arguments["sample_weight"])[order]
        fit = self.model_.fit if self.thin is None else self._fit_thinned
        self.history_ = fit(x, y, **arguments).history

    def _fit_thinned(
        self, x, y, *, batch_size=None, sample_weight=None, validation_split=0.0, shuffle=True,
        callbacks=(), **arguments,
    ):  # fmt: skip
        """Keras's fit on examples thinned anew in every epoch; held-back examples stay whole."""
        import keras

        from tfpn.training import ShuffledBatches

        if not shuffle:
            raise ValueError("shuffle=False does not go with thin: batches are drawn anew.")
        parts = [x, y] if sample_weight is None else [x, y, np.asarray(sample_weight)]
        if validation_split:  # The last examples, as Keras does it.
            start = math.floor(len(y) * (1.0 - validation_split))
            held = [_examples(part, slice(start, None)) for part in parts]
            parts = [_examples(part, slice(start)) for part in parts]
            arguments["validation_data"] = tuple(held)
            arguments.setdefault("validation_batch_size", batch_size)
        x, y, *weights = parts
        seed = random.randrange(2**31)  # `keras.utils.set_random_seed` determines it
        batches = ShuffledBatches(
            x, y, batch_size or 32, seed, weights=weights[0] if weights else None, thin=self.thin,
            drop_channels=self.drop_channels,
            together=self.model_.get_config()["input_noise"] == "shared",
        )  # fmt: skip
        anew = keras.callbacks.LambdaCallback(
            on_epoch_begin=lambda epoch, _: batches.set_epoch(epoch)
        )
        return self.model_.fit(
            batches, shuffle=False, callbacks=[anew, *(callbacks or ())], **arguments
        )

    def _validation(self, X, y=None, *weights):
        """``validation_data`` in the form that the model takes."""
        if y is None:
            raise ValueError("validation_data must be (X, y) or (X, y, weights), found no y in it.")
        return self._unpack(_packed(X)), self._encoded("validation_data", y), *weights

    def _unpack(self, X):
        check_is_fitted(self, "model_")
        features = getattr(self, "n_features_in_", np.shape(X)[-1])
        if np.ndim(X) == 3 and np.shape(X)[-1] != features:
            raise ValueError(
                f"X has {np.shape(X)[-1]} features (coordinates, values and variances on the last "
                f"axis), but {type(self).__name__} is expecting {features} features as input."
            )
        return unpack(X, self.model_.inputs_dict["points"].shape[-1])


def _examples(part, chosen):
    """Some examples of an array or of a dict of arrays."""
    if isinstance(part, Mapping):
        return {key: array[chosen] for key, array in part.items()}
    return part[chosen]


def _mixed_order(strata, seed=0):
    """Orders the examples: every beginning and every end has the same share of each group.

    The k-th of a group's n examples, in random order, comes at the place (k + 1/2) / n of the
    whole. Groups that tie come in random order. So a group of one stands in the middle.
    """
    rng = np.random.default_rng(seed)
    place = np.empty(len(strata))
    for group in np.unique(strata):
        members = rng.permutation(np.flatnonzero(strata == group))
        place[members] = (np.arange(len(members)) + 0.5) / len(members)
    return np.lexsort((rng.random(len(strata)), place))


class PNClassifier(ClassifierMixin, _PNEstimator):
    """A classifier of this library as a scikit-learn estimator.

    Use it with `sklearn.model_selection.cross_val_score`, `GridSearchCV` and the like. Keras's own
    `keras.wrappers.SKLearnClassifier` takes only tables of finite numbers, and has no
    probabilities.

    Args:
        model: a function that takes the number of classes, and ``model_kwargs``, and returns a
            compiled model of two or more logits. Its input has the three keys of observations. To
            get the same model each time, begin it with ``keras.utils.set_random_seed(0)``.
        model_kwargs: dict of further arguments of ``model``, which a search can vary.
        fit_kwargs: dict of arguments of Keras's `fit`, such as ``epochs`` and ``batch_size``.
            ``class_weight`` is a dict by label here, of any kind, and labels it lacks weigh 1; or
            it is "balanced", as in scikit-learn. ``validation_split`` takes its part of every
            class, chosen at random with a fixed seed. ``validation_data`` is a tuple of packed (or
            a dict of) observations and labels of the same kind as ``y``.
        thin: (lowest, highest) share of an example's readings to keep, such as (0.1, 1.0), drawn
            anew in every epoch. One example in eight stays whole (`tfpn.augmentation.thin`). Use it
            for a model that will meet sparser data than ``X``. Held-out examples stay whole. None
            trains on ``X`` as it is.
        drop_channels: probability that ``thin`` drops a whole channel, like a dead sensor.

    Attributes:
        model_: the fitted Keras model; `fit` calls its `adapt` first.
        classes_: the labels, sorted.
        n_features_in_: length of the last axis of ``X``, d + 2c.
        history_: what Keras's `fit` recorded.

    Example:

    >>> import keras, numpy as np, tfpn
    >>> def build(num_classes, channels=2):
    ...     model = tfpn.models.PNCNN(
    ...         num_classes, spatial_dim=1, channels=channels, num_blocks=1, num_basis=1)
    ...     model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    ...     return model
    >>> rng = np.random.default_rng(0)
    >>> x = tfpn.observations(rng.uniform(size=(8, 5, 1)), rng.normal(size=(8, 5)))
    >>> X = tfpn.wrappers.pack(x)
    >>> estimator = tfpn.wrappers.PNClassifier(build, fit_kwargs={"epochs": 1})
    >>> estimator.fit(X, ["ill", "well"] * 4).predict_proba(X).shape
    (8, 2)
    """

    def fit(self, X: ArrayLike, y: ArrayLike, **kwargs: Any) -> Self:
        """Builds a model, adapts it and trains it.

        Args:
            X: array [B, N, d + 2c] from `pack`, or the observations dict.
            y: labels [B] of any kind.
            **kwargs: of Keras's `fit`, such as ``sample_weight``, in place of ``fit_kwargs``.

        Raises:
            ValueError: if there are fewer than two classes in ``y``; if it holds NaN, None or
                numbers that are not labels; if ``class_weight`` or ``validation_data`` have other
                labels; or for another shape of ``X`` or ``y``.
            TypeError: if ``model`` is a model rather than a function that makes one.
        """
        # Before they become one array: among texts NaN would turn into the text "nan".
        given, y = y, column_or_1d(y)
        missing = sum(map(_is_missing, np.asarray(given, object).flat))
        if missing:
            raise ValueError(f"y: found NaN or None for {missing} examples; drop these examples.")
        check_classification_targets(y)
        self.classes_, codes = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(f"y holds only the class {self.classes_.tolist()}; give two or more.")
        arguments = {**(self.fit_kwargs or {}), **kwargs}
        if arguments.get("class_weight") is not None:
            kwargs["class_weight"] = self._weights(arguments["class_weight"], y)
        return self._fit(X, codes, len(self.classes_), kwargs, strata=codes)

    def _encoded(self, name, labels):
        """Class numbers of labels."""
        labels = np.asarray(labels, object).ravel()
        numbers = {label: code for code, label in enumerate(self.classes_.tolist())}
        unknown = list(dict.fromkeys(label for label in labels if label not in numbers))
        if unknown:
            raise ValueError(
                f"{name} has the labels {unknown[:5]}, which are not in y; y has "
                f"{self.classes_.tolist()}."
            )
        return np.array([numbers[label] for label in labels])

    def _weights(self, by_label, y):
        """Class weights by number, as Keras takes them."""
        labels = self.classes_.tolist()
        if not isinstance(by_label, Mapping):  # "balanced"; scikit-learn refuses anything else
            weights = compute_class_weight(by_label, classes=self.classes_, y=y)
            return dict(enumerate(weights.tolist()))
        unknown = [label for label in by_label if label not in labels]
        if unknown:
            raise ValueError(
                f"class_weight has the keys {unknown}, which are not labels; y has {labels}."
            )
        return {code: by_label.get(label, 1.0) for code, label in enumerate(labels)}

    def predict_proba(self, X: ArrayLike) -> Array:
        """Probabilities [B, classes], in the order of ``classes_``; X as in `fit`."""
        x = self._unpack(_packed(X))
        return self.model_.predict_proba(x, verbose=0)

    def predict(self, X: ArrayLike) -> Array:
        """The most probable labels [B]; X as in `fit`."""
        best = self.predict_proba(X).argmax(-1)
        return self.classes_[best]


class PNRegressor(RegressorMixin, _PNEstimator):
    """A regression model of this library as a scikit-learn estimator.

    Targets may be in any unit: `fit` hands them to the model's `adapt`, which gives the outputs
    their means and deviations. ``validation_split`` takes its part at random, with a fixed seed.

    Args:
        model: as in `PNClassifier`; it takes the number of outputs.
        model_kwargs, fit_kwargs, thin, drop_channels: as in `PNClassifier`.

    Attributes:
        model_, n_features_in_, history_: as in `PNClassifier`.

    Example:

    >>> import numpy as np, tfpn
    >>> def build(num_outputs):
    ...     model = tfpn.models.PNCNN(None, num_outputs=num_outputs, spatial_dim=1, channels=2,
    ...         num_blocks=1, num_basis=1, pooling=(0, 1))
    ...     model.compile("adam", "mse")
    ...     return model
    >>> tfpn.wrappers.PNRegressor(build).get_params()["fit_kwargs"] is None
    True
    """

    def fit(self, X: ArrayLike, y: ArrayLike, **kwargs: Any) -> Self:
        """Builds a model, adapts it and trains it on targets [B] or [B, outputs]."""
        y = np.asarray(y)
        if y.ndim not in (1, 2):
            raise ValueError(f"y has the shape {y.shape}, expected [B] or [B, outputs].")
        self._shape = y.shape[1:]
        y = y.reshape(len(y), -1)
        return self._fit(X, y, y.shape[1], kwargs, targets=y)

    def _encoded(self, name, targets):
        """Targets [B, outputs]."""
        targets = np.asarray(targets)
        if targets.shape[1:] != self._shape:
            raise ValueError(
                f"{name} has targets of the shape {targets.shape}, but y has [B, "
                f"{', '.join(map(str, self._shape))}]."
            )
        return targets.reshape(len(targets), -1)

    def predict(self, X: ArrayLike, return_std: bool = False) -> Array | tuple[Array, Array]:
        """Predictions in the shape of ``y``.

        Args:
            X: array [B, N, d + 2c] from `pack`, or the observations dict.
            return_std: whether to return standard deviations too, from the model's own
                `predict_distribution` (as `sklearn.gaussian_process.GaussianProcessRegressor`
                does). They hold no noise of the targets unless you called ``model_.calibrate``, or
                the model has output="normal".
        """
        X = _packed(X)
        x = self._unpack(X)
        shape = len(X), *self._shape
        if not return_std:
            found = self.model_.predict(x, verbose=0)
            return (found[..., 0] if self.model_.has_moments else found).reshape(shape)
        predicted = self.model_.predict_distribution(x, verbose=0)
        mean, deviation = predicted.mean().numpy(), predicted.stddev().numpy()
        return mean.reshape(shape), deviation.reshape(shape)
