"""Training without targets: hides some readings, and the model learns to predict them."""

import math
import numbers
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np

from tfpn.checks import check_choice, check_count, check_positive
from tfpn.contract import check_observations
from tfpn.losses import GaussianNLL
from tfpn.types import Array, Model, Observations, Verbose

BY = ("point", "reading")


def hide(
    x: Observations,
    share: float | Sequence[float] = (0.2, 0.5),
    *,
    by: str = "point",
    seed: Any = None,
) -> tuple[dict[str, Array], Array]:
    """Hides a random part of each example's readings, and makes them the targets.

    Args:
        x: observations.
        share: the part of an example's points (or readings) to hide, or a range from which it is
            drawn for each example. At least one stays. If there are two or more, at least one is
            hidden.
        by: "point" hides all channels of a point: choose it to predict places without readings.
            "reading" hides channel by channel: choose it to fill gaps in tables.
        seed: an integer or a `numpy.random.Generator`.

    Returns:
        The model's input, and targets [B, M, c]. The input is the observations without the hidden
        readings, and a "query" [B, M, d] of their points. The targets are the hidden readings, and
        NaN elsewhere. M is the largest number of points that could be hidden, so that it is the
        same in each call. Spare query points repeat a point, with targets of NaN.

    Raises:
        TypeError, ValueError: if ``x`` are not observations, or for a bad argument.

    Example:

    >>> import numpy as np, tfpn
    >>> x = tfpn.observations(np.arange(10.0).reshape(1, 10, 1), np.arange(10.0).reshape(1, 10))
    >>> given, hidden = tfpn.tasks.hide(x, 0.3, seed=0)
    >>> int(np.isfinite(given["variance"]).sum()), given["query"].shape
    (7, (1, 3, 1))
    >>> np.array_equal(given["query"], hidden)  # the values are the points here
    True
    """
    low, high = _read_share(share)
    check_choice("by", by, BY)
    x = check_observations(x)
    rng = np.random.default_rng(seed)
    observed = np.isfinite(x["variance"])
    units = observed.any(axis=-1, keepdims=True) if by == "point" else observed
    examples, size, channels = units.shape
    counts = units.sum(axis=(1, 2))
    wanted = np.ceil(rng.uniform(low, high, examples) * counts)
    wanted = np.minimum(np.maximum(wanted, 1), np.maximum(counts - 1, 0))
    # The units with the smallest random numbers are hidden.
    lots = np.where(units, rng.uniform(size=units.shape), np.inf).reshape(examples, -1)
    ranks = np.argsort(np.argsort(lots, axis=1), axis=1)
    hidden = (ranks < wanted[:, None]).reshape(units.shape) & units
    largest = math.ceil(high * size * channels)
    room = max(1, min(size, largest))
    where = hidden.any(axis=-1)
    order = np.argsort(~where, axis=1, kind="stable")[:, :room]
    filled = np.take_along_axis(where, order, axis=1)
    place = np.where(filled, order, order[:, :1])[..., None]
    query = np.take_along_axis(x["points"], place, axis=1)
    query = np.where(np.isfinite(query), query, 0)
    asked = np.take_along_axis(hidden & observed, place, axis=1) & filled[..., None]
    values = np.take_along_axis(x["values"], place, axis=1)
    targets = np.where(asked, values, np.nan).astype(x["values"].dtype)
    variance = np.where(hidden, np.inf, x["variance"]).astype(x["variance"].dtype)
    return {**x, "variance": variance, "query": query}, targets


class HiddenReadings(keras.utils.PyDataset):
    """Batches of `hide`, with other readings hidden in every epoch.

    Args:
        x: observations.
        share, by: as in `hide`.
        batch_size: number of examples in a batch.
        repeats: how often each example appears in an epoch, for data with few examples.
        seed: an integer.

    Raises:
        TypeError, ValueError: as `hide`, or if no example has two readings.

    Example:

    >>> import numpy as np, tfpn
    >>> rng = np.random.default_rng(0)
    >>> x = tfpn.observations(rng.uniform(size=(5, 9, 2)), rng.normal(size=(5, 9)))
    >>> batches = tfpn.tasks.HiddenReadings(x, 0.3, batch_size=2)
    >>> given, hidden = batches[0]
    >>> len(batches), given["query"].shape, hidden.shape
    (3, (2, 3, 2), (2, 3, 1))
    """

    def __init__(
        self,
        x: Observations,
        share: float | Sequence[float] = (0.2, 0.5),
        *,
        by: str = "point",
        batch_size: int = 16,
        repeats: int = 1,
        seed: int = 0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self._x = check_observations(x)
        self._options = {"share": _read_share(share), "by": check_choice("by", by, BY)}
        read = np.isfinite(self._x["variance"])
        units = read.any(axis=-1) if by == "point" else read
        if units.reshape(len(units), -1).sum(axis=1).max() < 2:
            raise ValueError(
                f"x: no example has two {by}s that were read, so none can be hidden: give examples "
                "of several readings."
            )
        self._size = check_count("batch_size", batch_size)
        self._repeats = check_count("repeats", repeats)
        self._seed, self._epoch = seed, 0
        self._shuffle()

    def _shuffle(self):
        examples = np.tile(np.arange(len(self._x["points"])), self._repeats)
        self._order = np.random.default_rng([self._seed, self._epoch]).permutation(examples)

    def __len__(self):
        return math.ceil(len(self._order) / self._size)

    def __getitem__(self, index):
        chosen = self._order[index * self._size : (index + 1) * self._size]
        batch = {key: array[chosen] for key, array in self._x.items()}
        seed = np.random.default_rng([self._seed, self._epoch, index])
        return hide(batch, seed=seed, **self._options)

    def on_epoch_end(self) -> None:
        """Draws other readings and another order."""
        self._epoch += 1
        self._shuffle()


def train(
    model: Model,
    x: Observations,
    *,
    epochs: int = 20,
    share: float | Sequence[float] = (0.2, 0.5),
    by: str = "point",
    batch_size: int = 16,
    repeats: int = 1,
    learning_rate: float = 3e-3,
    validation: Observations | None = None,
    adapt: bool = True,
    seed: int = 0,
    verbose: Verbose = "auto",
) -> Any:
    """Trains a field model on readings alone: it learns to predict readings that are hidden.

    A model that is not compiled gets the Gaussian likelihood, and Adam with a learning rate that
    falls to 0 like a cosine.

    Args:
        model: a model with ``output="field"`` and at most as many outputs as input channels.
        x: observations to learn from.
        epochs, batch_size, verbose: as in Keras's ``fit``.
        share, by, repeats, seed: as in `HiddenReadings`.
        learning_rate: the first learning rate, if the model is not compiled.
        validation: other observations. They hide the same readings in every epoch. The model keeps
            the weights of the epoch with the smallest loss on them, or those before training.
        adapt: whether the model starts from the data (`PNCNN.adapt`).

    Returns:
        Keras's history.

    Raises:
        ValueError: if the model does not predict fields, or has more outputs than the input has
            channels; if no example has two readings; or for bad arguments.

    Example:

    >>> import numpy as np, tfpn
    >>> rng = np.random.default_rng(0)
    >>> x = tfpn.observations(rng.uniform(size=(8, 12, 1)), rng.normal(size=(8, 12)))
    >>> model = tfpn.models.PNCNN(
    ...     None, num_outputs=1, output="field", spatial_dim=1, channels=2, num_blocks=1)
    >>> history = tfpn.tasks.train(model, x, epochs=1, verbose=0)
    >>> filled = tfpn.tasks.interpolate(model, x, [[[0.5]]])
    >>> filled.mean.shape, filled.std.shape
    ((8, 1, 1), (8, 1, 1))
    """
    check_field(model)
    check_positive("learning_rate", learning_rate)
    epochs = check_count("epochs", epochs)
    channels = model.inputs_dict["values"].shape[-1]
    if model.output.shape[-2] > channels:
        raise ValueError(
            f"train learns the input's channels. There are {channels}, but the model has "
            f"{model.output.shape[-2]} outputs: give num_outputs={channels}, or fit it with "
            "targets of your own."
        )
    batches = _Outputs(x, share, by=by, batch_size=batch_size, repeats=repeats, seed=seed)
    batches.outputs = model.output.shape[-2]
    if adapt:  # after the checks, because it takes longer
        model.adapt(x, verbose=verbose)
    if not model.compiled:
        steps = epochs * len(batches)
        rate = keras.optimizers.schedules.CosineDecay(learning_rate, steps)
        model.compile(keras.optimizers.Adam(rate, clipnorm=1.0), GaussianNLL())
    held, callbacks = None, []
    if validation is not None:
        given, hidden = hide(validation, share, by=by, seed=seed)
        held = given, hidden[..., : model.output.shape[-2]]
        before = model.evaluate(*held, verbose=0, return_dict=True)["task_loss"]
        callbacks = [_BestWeights(before, model.get_weights())]
    return model.fit(
        batches, epochs=epochs, validation_data=held, callbacks=callbacks, verbose=verbose
    )


class _Outputs(HiddenReadings):
    """`HiddenReadings` of the channels that the model predicts."""

    outputs: int

    def __getitem__(self, index):
        given, targets = super().__getitem__(index)
        return given, targets[..., : self.outputs]


class _BestWeights(keras.callbacks.Callback):
    """Keeps the weights with the smallest validation loss: of an epoch, or those before."""

    def __init__(self, loss, weights):
        super().__init__()
        self._least, self._weights = loss, weights

    def on_epoch_end(self, epoch, logs=None):
        loss = logs.get("val_task_loss", math.inf)
        if loss < self._least:
            self._least, self._weights = loss, self.model.get_weights()

    def on_train_end(self, logs=None):
        self.model.set_weights(self._weights)


def check_field(model: Model) -> None:
    """Raises ValueError unless the model predicts fields."""
    if getattr(model, "_field", None) is None:
        raise ValueError(
            f"{getattr(model, 'name', model)!r} predicts no field: build the model with "
            "num_classes=None, num_outputs=... and output='field'."
        )


def _read_share(share):
    ends = (share, share) if np.ndim(share) == 0 else tuple(share)
    if len(ends) != 2 or not all(isinstance(end, numbers.Real) for end in ends):
        raise ValueError(f"share must be a number or a range (low, high), found {share!r}.")
    low, high = map(float, ends)
    if not 0.0 < low <= high < 1.0:
        raise ValueError(f"share must be above 0 and below 1, low before high, found {share!r}.")
    return low, high
