"""The models for those who work with scikit-learn and with pandas.

`from_frame` turns a long table into observations. `PNClassifier` and `PNRegressor` are scikit-learn
estimators; they take observations as one array, made by `pack`, which scikit-learn can split.
"""

import warnings
from collections.abc import Mapping

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d

from tfpn.contract import KEYS, check_observations, observations
from tfpn.layers.base import check_count


def from_frame(
    frame, *, example, points, value, channel=None, variance=None, examples=None, channels=None
):
    """Turns a long table, a row for each reading, into observations.

    Args:
        frame: a pandas DataFrame.
        example: name of the column that says which example a reading belongs to.
        points: name of the column of coordinates, or a list of d names. Numbers: of times subtract
            each example's own start (a common one only if all share a clock) and divide by a unit,
            such as ``(t - t.groupby(frame["id"]).transform("min")) / pandas.Timedelta("1h")`` of
            a column ``t``, where the column "id" says the example.
        value: name of the column of values. Rows where it is NaN are left out: nothing was read.
        channel: name of the column that says what was read, or None if there is one channel.
        variance: variance of the readings' noise: the name of a column, or as for
            `tfpn.observations` a number or one for each channel.
        examples: the examples in the order wanted, such as the index of a table of outcomes. One
            without readings comes out without points, and readings of others are left out. By
            default those of the table, sorted.
        channels: the channels in the order wanted, such as those of the training data; readings of
            others are left out. By default those of the table, sorted.

    Warns:
        UserWarning: if one of ``channels`` is never read while readings of others are left out, as
            after a misspelling.

    Returns:
        The observations dict in float64, the list of examples [B] and the list of channels [c].
        Channels that are read at one point stand in one row, several readings of a channel at one
        point in several rows. The points of an example are in sorted order.

    Raises:
        TypeError: if coordinates, values or variances are not numbers, or if ``examples`` or
            ``channels`` is one text.
        ValueError: if there is no such column, if a reading has no example, point, channel or
            variance, if ``examples`` or ``channels`` name one twice or none of the table's (text
            is no number: "7" is not 7), or if nothing was read.

    Example:

    >>> import pandas as pd, tfpn
    >>> table = pd.DataFrame({
    ...     "patient": ["a", "a", "b"],
    ...     "hour": [0.5, 0.5, 2.0],
    ...     "variable": ["pulse", "lactate", "pulse"],
    ...     "value": [88.0, 1.2, 70.0],
    ... })
    >>> x, patients, variables = tfpn.wrappers.from_frame(
    ...     table, example="patient", points="hour", channel="variable", value="value")
    >>> patients, variables
    (['a', 'b'], ['lactate', 'pulse'])
    >>> x["values"].tolist()  # lactate of the second patient was not read
    [[[1.2, 88.0]], [[0.0, 70.0]]]
    """
    points = [points] if isinstance(points, str) else list(points)
    noise = [variance] if isinstance(variance, str) else []
    labels = [example] if channel is None else [example, channel]
    frame = _readings(frame, labels, points, value, noise)
    examples = _order("examples", examples, frame[example])
    if channel is None:
        places, channels = np.zeros(len(frame), int), [value]
    else:
        channels = _order("channels", channels, frame[channel])
        _warn_of_misspelt(channels, frame[channel])
        place_of = {name: place for place, name in enumerate(channels)}
        frame = frame[frame[channel].isin(place_of)]
        places = frame[channel].map(place_of).to_numpy(int)
    # A second reading of a channel at the same point has the turn 1, and so on.
    turns = frame.groupby([*labels, *points]).cumcount().to_numpy()
    where = np.column_stack([frame[points].to_numpy(float), turns])
    readings = frame[[value, *noise]].to_numpy(float)
    rows_of = frame.groupby(example).indices

    tables = []
    for name in examples:
        rows = rows_of.get(name, np.array([], int))
        distinct, row = np.unique(where[rows], axis=0, return_inverse=True)
        table = np.full((1 + len(noise), len(distinct), len(channels)), np.nan)
        table[:, row.ravel(), places[rows]] = readings[rows].T
        tables.append((distinct[:, :-1], *table))
    lists = [list(column) for column in zip(*tables, strict=True)]
    x = observations(*lists) if noise else observations(*lists, variance)
    return x, examples, channels


def _readings(frame, labels, points, value, noise):
    """The rows of the table that hold a reading, after checks."""
    columns = [*labels, *points, value, *noise]
    if not hasattr(frame, "columns"):
        raise TypeError(f"frame must be a pandas DataFrame, found {type(frame).__name__}.")
    if not frame.columns.is_unique:
        twice = frame.columns[frame.columns.duplicated()].tolist()
        raise ValueError(f"frame has more than one column {twice}: give them different names.")
    missing = [name for name in columns if name not in frame.columns]
    if missing:
        raise ValueError(f"frame has no column {missing}; it has {list(frame.columns)}.")
    for name in (*points, value, *noise):
        if frame[name].dtype.kind not in "biuf":
            raise TypeError(
                f"column {name!r} holds {frame[name].dtype}; give numbers (of times subtract "
                "each example's own start and divide by a unit, and text goes through "
                "pandas.to_numeric)."
            )
    frame = frame[frame[value].notna()]
    for name in columns:
        empty = frame[name].isna()
        if empty.any():
            row = frame.index[empty].tolist()[0]
            raise ValueError(
                f"column {name!r} is empty in the row {row!r}, which holds a value: fill it or "
                "drop the row."
            )
    if frame.empty:
        raise ValueError(f"column {value!r} of frame holds no value; there is nothing to observe.")
    return frame


def _order(name, wanted, found):
    """The labels in the order wanted."""
    if wanted is None:
        return sorted(found.unique().tolist())
    if isinstance(wanted, str):
        raise TypeError(f"{name} must be a list of names, found {wanted!r}; give [{wanted!r}].")
    wanted = list(wanted)
    if not wanted or len(set(wanted)) < len(wanted):
        raise ValueError(f"{name} must name at least one and each once, found {wanted}.")
    if not found.isin(wanted).any():
        raise ValueError(
            f"{name} begins with {wanted[:3]}, and none of them is in the column {found.name!r}, "
            f"which holds {found.unique().tolist()[:3]} and so on; give the same names, in the "
            "same type."
        )
    return wanted


def _warn_of_misspelt(channels, found):
    """Warns if a wanted channel is never read while others are left out."""
    present = found.unique().tolist()
    unread = [name for name in channels if name not in present]
    left_out = [name for name in present if name not in channels]
    if unread and left_out:
        warnings.warn(
            f"channels: found no reading of {unread}, and readings of {left_out} are left out; "
            "check the names.",
            stacklevel=3,
        )


def pack(x):
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


def unpack(X, spatial_dim):
    """What `pack` made of observations, as the dict again.

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


def _is_missing(label):
    """Whether a label is None, NaN or pandas.NA, whose comparisons are neither true nor false."""
    same = label == label
    return label is None or not (isinstance(same, (bool, np.bool_)) and same)


class _PNEstimator(BaseEstimator):
    """What the estimators share."""

    def __init__(self, model, model_kwargs=None, fit_kwargs=None):
        self.model = model
        self.model_kwargs = model_kwargs
        self.fit_kwargs = fit_kwargs

    def _fit(self, X, y, outputs, arguments):
        if hasattr(self.model, "predict"):
            raise TypeError(
                f"model is a {type(self.model).__name__}; give a function that takes the number of "
                "classes or outputs and returns a compiled model."
            )
        self.model_ = self.model(outputs, **(self.model_kwargs or {}))
        x = self._unpack(X)
        self.model_.adapt(x)
        arguments = {"verbose": 0, **(self.fit_kwargs or {}), **arguments}
        self.history_ = self.model_.fit(x, y, **arguments).history
        return self

    def _unpack(self, X):
        check_is_fitted(self, "model_")
        return unpack(X, self.model_.inputs_dict["points"].shape[-1])


class PNClassifier(ClassifierMixin, _PNEstimator):
    """A classifier of this library as a scikit-learn estimator.

    For `sklearn.model_selection.cross_val_score`, `GridSearchCV` and their like. Keras's own
    `keras.wrappers.SKLearnClassifier` takes tables of finite numbers only, and has no
    probabilities.

    Args:
        model: a function that takes the number of classes, and ``model_kwargs``, and returns a
            compiled model of two or more logits. Its input has the three keys of observations. To
            have the same model each time let it begin with ``keras.utils.set_random_seed(0)``.
        model_kwargs: dict of further arguments of ``model``, for a search to vary.
        fit_kwargs: dict of arguments of Keras's `fit`, such as ``epochs`` and ``batch_size``. Here
            ``class_weight`` has labels for keys, whatever kind they are, and labels it lacks weigh
            1; or it is "balanced", as in scikit-learn.

    Attributes:
        model_: the fitted Keras model; `fit` calls its `adapt` first.
        classes_: the labels, sorted.
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

    def fit(self, X, y, **kwargs):
        """Builds a model, adapts it and trains it.

        Args:
            X: array [B, N, d + 2c] from `pack`.
            y: labels [B] of any kind.
            **kwargs: of Keras's `fit`, such as ``sample_weight``, in place of ``fit_kwargs``.

        Raises:
            ValueError: if there are fewer than two classes in ``y``, if it holds NaN, None or
                numbers that are no labels, if ``class_weight`` has other keys than labels, or for
                another shape of ``X`` or ``y``.
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
            raise ValueError(f"y holds the class {self.classes_.tolist()} alone; give two or more.")
        arguments = {**(self.fit_kwargs or {}), **kwargs}
        if arguments.get("class_weight") is not None:
            kwargs["class_weight"] = self._weights(arguments["class_weight"], y)
        return self._fit(X, codes, len(self.classes_), kwargs)

    def _weights(self, by_label, y):
        """Class weights by number, as Keras takes them."""
        labels = self.classes_.tolist()
        if not isinstance(by_label, Mapping):  # "balanced"; scikit-learn refuses anything else
            weights = compute_class_weight(by_label, classes=self.classes_, y=y)
            return dict(enumerate(weights.tolist()))
        unknown = [label for label in by_label if label not in labels]
        if unknown:
            raise ValueError(
                f"class_weight has the keys {unknown}, which are no labels; y has {labels}."
            )
        return {code: by_label.get(label, 1.0) for code, label in enumerate(labels)}

    def predict_proba(self, X):
        """Probabilities [B, classes], in the order of ``classes_``."""
        x = self._unpack(X)
        return self.model_.predict_proba(x)

    def predict(self, X):
        """The most probable labels [B]."""
        best = self.predict_proba(X).argmax(-1)
        return self.classes_[best]


class PNRegressor(RegressorMixin, _PNEstimator):
    """A regression model of this library as a scikit-learn estimator.

    Args:
        model: as in `PNClassifier`; it takes the number of outputs.
        model_kwargs, fit_kwargs: as in `PNClassifier`.

    Attributes:
        model_, history_: as in `PNClassifier`.

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

    def fit(self, X, y, **kwargs):
        """Builds a model, adapts it and trains it on targets [B] or [B, outputs]."""
        y = np.asarray(y)
        if y.ndim not in (1, 2):
            raise ValueError(f"y has the shape {y.shape}, expected [B] or [B, outputs].")
        self._shape = y.shape[1:]
        return self._fit(X, y.reshape(len(y), -1), *(self._shape or (1,)), kwargs)

    def predict(self, X, return_std=False):
        """Predictions in the shape of ``y``.

        Args:
            X: array [B, N, d + 2c] from `pack`.
            return_std: whether to return standard deviations besides, by the model's own
                `predict_distribution` (as `sklearn.gaussian_process.GaussianProcessRegressor`
                does). They hold no noise of the targets unless ``model_.calibrate`` was called.
        """
        x = self._unpack(X)
        shape = len(X), *self._shape
        if not return_std:
            return self.model_.predict(x, verbose=0).reshape(shape)
        predicted = self.model_.predict_distribution(x)
        mean, deviation = predicted.mean().numpy(), predicted.stddev().numpy()
        return mean.reshape(shape), deviation.reshape(shape)
