"""What the models share: their inputs, the checks of them, and the start from data."""

import functools
import os
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfpn.contract import KEYS, check_observations, check_query
from tfpn.degrees import warn_of_degrees
from tfpn.files import write_by
from tfpn.layers.base import GPPosteriorLayer
from tfpn.models.checked import Checked
from tfpn.models.head import domain_unit
from tfpn.models.predictive import Predictive, not_calibrated
from tfpn.models.readings_seen import ReadingsSeen
from tfpn.models.target_scale import TargetScale, first_targets
from tfpn.models.temperature import Temperature
from tfpn.models.trainable import Trainable
from tfpn.spacing import point_extent, point_spacing, typical_number
from tfpn.types import Array, ArrayLike, Config, DType, Layer, PathLike, Tensor

# Examples smaller than this are in too large a unit for flows to be learnt.
_LEAST_EXTENT = 0.1


class PNNetwork(Checked, Trainable, Predictive, ReadingsSeen, keras.Model):
    """Base of the models: a functional Keras model from observations.

    A subclass's constructor builds the layers and hands over those that more is asked of.

    Args:
        inputs: from `network_inputs`.
        outputs: the model's symbolic output.
        config: all arguments of the subclass's constructor, but for ``trainable``, in a form that
            saving can write down.
        blocks: list of `Block`, in order.
        pooling: the layer that integrates the last block's features, or None.
        head: the layer that follows it, or None.
        moments: symbolic dict of the means and variances from which the outputs' come: of the
            pooled features, or of a field.
        calibrated: None, or for each output the number of the calibration that it shares.
        trainable: as Keras's.
    """

    def __init__(
        self,
        inputs: Any,
        outputs: Any,
        *,
        config: Config,
        blocks: Sequence[Any],
        pooling: Layer | None,
        head: Layer | None,
        moments: Any,
        calibrated: Any,
        trainable: bool,
    ) -> None:
        target_scale, fields = None, calibrated
        if config.get("num_outputs") is not None:
            fields = range(config["num_outputs"])
        if fields is not None:
            target_scale = TargetScale(list(map(int, fields)), dtype=outputs.dtype, name="targets")
            outputs = target_scale(outputs)
        temperature = None
        if (config.get("num_classes") or 0) > 1:
            temperature = Temperature(dtype=outputs.dtype, name="temperature")
            outputs = temperature(outputs)
        super().__init__(inputs=inputs, outputs=outputs, name=config["name"])
        self._target_scale, self._temperature = target_scale, temperature
        self._blocks, self._pooling, self._head = tuple(blocks), pooling, head
        self.trainable = trainable
        self._prepare_training()
        self._moments_output = moments
        self._calibrated = calibrated
        self._calibration = None
        if calibrated is not None:
            # log of the factor of the network's variance, log of the targets' noise variance
            self._calibration = self.add_weight(
                name="calibration", shape=(2, max(calibrated) + 1), initializer=not_calibrated,
                trainable=False,
            )  # fmt: skip
        self._prepare_readings()
        self._config = {**config, "name": self.name}

    def __call__(self, inputs, *args, **kwargs):
        """Keras's, after a look at the keys: Keras takes what it finds in their order.

        A list of symbolic tensors is taken in the order of ``inputs``, as Keras's functional models
        are put together. A list of arrays is refused: nothing says which is which.
        """
        if isinstance(inputs, (list, tuple)):
            if len(inputs) != len(self.inputs) or not all(map(keras.utils.is_keras_tensor, inputs)):
                self._refuse_arrays(inputs)
            inputs = dict(zip(self.inputs_dict, inputs, strict=True))
        if isinstance(inputs, dict):
            self._check_keys(inputs)
            inputs = {
                key: np.asarray(value, given.dtype) if isinstance(value, (list, tuple)) else value
                for (key, value), given in (
                    (item, self.inputs_dict[item[0]]) for item in inputs.items()
                )
            }
            if all(_is_concrete(inputs[key]) for key in ("points", "query") if key in inputs):
                self._check_query(inputs)
        return super().__call__(inputs, *args, **kwargs)

    def _check_missing(self, variance):
        """Raises ValueError where channels that go together are observed in part."""
        if self._config["input_noise"] == "shared":
            check_shared(variance)

    def _check_query(self, x):
        if "query" in self.inputs_dict:
            dim = self.inputs_dict["query"].shape[-1]
            check_query(x["query"], examples=len(x["points"]), spatial_dim=dim)

    def _block_noise(self, variance):
        """The variances [B, N, blocks] of what may differ in variance; warns where some do."""
        return variance

    @property
    def blocks(self) -> list[Any]:
        """The network's blocks, a list of `tfpn.models.blocks.Block`."""
        return list(self._blocks)

    @property
    def pn_layers(self) -> list[Layer]:
        """The layers that hold a GP prior: the blocks' convolutions first, and then all others."""
        first = [layer for block in self.blocks for layer, _ in block.convolutions]
        others = [layer for layer in self.layers if isinstance(layer, GPPosteriorLayer)]
        return first + [layer for layer in others if layer not in first]

    @property
    def inputs_dict(self) -> dict[str, Tensor]:
        """The symbolic inputs by name, for building sub-models."""
        return {tensor.name: tensor for tensor in self.inputs}

    def adapt(self, data: Any, targets: ArrayLike | None = None) -> None:
        """Starts length scales, flows, signal and noise level from the data, before training.

        All convolutions and the pooling take the data's spacing, the median distance to the second
        nearest neighbour; the first convolution, which sees the raw values, takes their root mean
        square as well; and the pooling measures its integral in units of its box or disc, or of the
        volume that the points fill. So what a model predicts now does not depend on the units of
        points and values. Training does somewhat on that of points: drifts and diffusions are
        learnt in it, so that an optimiser's step moves them far where examples are far smaller than
        1, and hardly where they are far larger.

        A regression model takes the targets' means and standard deviations besides (of a field
        that rotates one deviation for all components, and no mean). From then on its outputs,
        their distributions and metrics are in the targets' unit, saved and exported models too,
        while the loss compares targets and outputs in units of the deviations: so training is the
        same for ``a * targets + b`` as for ``targets``.

        Args:
            data: the observations dict, or a `tf.data.Dataset` of such dicts or of tuples that
                begin with one, of which enough batches for 256 examples are read. Other keys, such
                as "query", are not read.
            targets: of a regression model, [B, num_outputs] (or [B] for one output) or
                [B, M, channels] of fields, NaN where nothing was measured. None leaves the outputs'
                scale as it is, or takes those of a data set of tuples (observations, targets).

        Raises:
            ValueError: if the data are not observations (as `tfpn.observations` makes them) of the
                model's dimension and channels, if some points are observed in some channels only
                and the model's ``input_noise`` is "shared", if no example has two distinct
                observed points, if the square of their spacing is beyond the model's dtype, or for
                an unbatched data set; for targets of another shape or number, infinite ones, an
                output without any, and targets of a classifier.
            TypeError: if the data are neither a dict nor a data set, or targets no numbers.

        Warns:
            UserWarning: if the points are so far from the origin that their differences have lost
                their digits, if examples are smaller than 0.1 in the points' unit, if channels of
                a point differ in variance and "shared" averages it, if points look like degrees on
                both sides of the date line, or if targets are so far from 0 that their differences
                have lost their digits.
        """
        inputs, given = self.inputs_dict, data
        if isinstance(data, tf.data.Dataset):
            data = first_examples(data)
        elif not isinstance(data, dict):
            raise TypeError(
                "data must be the observations dict of tfpn.observations or a tf.data.Dataset, "
                f"found {type(data).__name__}."
            )
        else:
            data = {key: value for key, value in data.items() if key in KEYS or key not in inputs}
        data = check_observations(
            data, spatial_dim=inputs["points"].shape[-1], channels=inputs["values"].shape[-1]
        )
        warn_of_degrees(data["points"], data["variance"])
        self._adapt_targets(given, targets)
        observed = np.isfinite(data["variance"])
        self._check_missing(data["variance"])
        noise = self._block_noise(data["variance"])
        if self._config["input_noise"] == "shared":
            _warn_of_unequal(noise)
        spacing = point_spacing(data["points"], data["variance"])
        dtype = inputs["points"].dtype
        if not float(np.finfo(dtype).tiny) < spacing**2 < float(np.finfo(dtype).max):
            raise ValueError(
                f"the points are {spacing:.2g} apart, whose square {dtype} cannot hold: give the "
                "points in another unit."
            )
        resolution = np.finfo(dtype).eps * np.abs(data["points"][observed.any(-1)]).max()
        if resolution > 1e-3 * spacing:
            warnings.warn(
                f"points lie up to {resolution / np.finfo(dtype).eps:.3g} from the origin, where "
                f"{dtype} resolves {resolution:.2g}, but they are {spacing:.2g} apart: subtract an "
                "origin from the points, or use dtype='float64' (see there how to hand data over).",
                stacklevel=2,
            )
        extent = point_extent(data["points"], data["variance"])
        if extent < _LEAST_EXTENT:
            warnings.warn(
                f"an example's points typically span {extent:.2g}; in so large a unit an "
                "optimiser's steps move drifts and diffusions over many spacings: give the points "
                "in a unit in which an example spans 1 or more.",
                stacklevel=2,
            )
        self._adapt_readings(data["variance"])
        first, *others = self.pn_layers
        first.adapt(data)
        for layer in others:
            layer.set_spacing(spacing)
        if self._pooling is not None:
            dim = inputs["points"].shape[-1]
            filled = typical_number(data["points"], data["variance"]) ** (1.0 / dim)
            self._pooling.set_unit(domain_unit(self._config["pooling"], dim) or spacing * filled)

    def _adapt_targets(self, data, targets):
        """Sets the outputs' offsets and scales, from a data set of pairs too."""
        layer = self._target_scale
        if layer is None:
            if targets is not None:
                raise ValueError(
                    f"{self.name} has no outputs to scale, so it takes no targets: leave targets "
                    "out, or build a regression model by num_classes=None and num_outputs or "
                    "out_fields."
                )
            return
        if targets is None and isinstance(data, tf.data.Dataset):
            targets = first_targets(data, layer)
        elif targets is not None and isinstance(data, dict):
            found, expected = len(np.asarray(targets)), len(data["points"])
            if found != expected:
                raise ValueError(f"targets has {found} examples, but the data have {expected}.")
        if targets is not None:
            layer.adapt(targets)

    def _unit(self):
        """Offset and scale of the outputs in float64, [outputs]; 0 and 1 without targets."""
        if self._temperature is not None:
            temperature, offsets = self._temperature.numbers
            return offsets, 1.0 / temperature
        layer = self._target_scale
        if layer is None:
            return 0.0, 1.0
        return tuple(np.asarray(weight, np.float64) for weight in (layer.offset, layer.scale))

    def save(
        self, filepath: PathLike, overwrite: bool = True, zipped: bool | None = None, **kwargs: Any
    ) -> None:
        """Keras's, for its own format: the older .h5 cannot be loaded again.

        A file that is replaced stays as it was until all is written (`tfpn.files.write`).
        """
        if str(filepath).endswith((".h5", ".hdf5")):
            raise ValueError(
                f"filepath must end in .keras, found {str(filepath)!r}: Keras cannot load this "
                "model from the older format. save_weights('....weights.h5') keeps weights alone."
            )
        save = functools.partial(super().save, overwrite=overwrite, zipped=zipped, **kwargs)
        _save(save, filepath, overwrite and zipped is not False)

    def save_weights(
        self, filepath: PathLike, overwrite: bool = True, max_shard_size: Any = None
    ) -> None:
        """Keras's; a file that is replaced stays as it was until all is written."""
        options = {"overwrite": overwrite, "max_shard_size": max_shard_size}
        save = functools.partial(super().save_weights, **options)
        _save(save, filepath, overwrite and max_shard_size is None)

    def get_config(self) -> Config:
        config = {**self._config, "trainable": self.trainable}
        frozen = [layer.name for layer in self.layers if not layer.trainable]
        if self.trainable and frozen:
            config["frozen"] = frozen
        return config

    @classmethod
    def from_config(cls, config: Config, custom_objects: Mapping[str, Any] | None = None) -> Any:
        """The model of a `get_config`, its frozen layers frozen."""
        config = dict(config)
        frozen = config.pop("frozen", ())
        model = cls(**config)
        for name in frozen:
            model.get_layer(name).trainable = False
        return model


def check_outputs(num_classes: int | None, num_outputs: int | None) -> None:
    """Raises ValueError if a model is to be a classifier and a regressor."""
    if num_classes is not None and num_outputs is not None:
        raise ValueError(
            f"give num_classes or num_outputs, not both: found {num_classes} and "
            f"{num_outputs}; for regression set num_classes=None."
        )


def _is_concrete(value):
    """Whether it holds numbers now: an array, or a tensor outside of traced functions."""
    return isinstance(value, np.ndarray) or hasattr(value, "numpy")


def network_inputs(dim: int, channels: int, dtype: DType, query: bool = False) -> dict[str, Any]:
    """Symbolic inputs by name: points, values, variance and, if asked for, query points."""
    sizes = {"points": dim, "values": channels, "variance": channels}
    if query:
        sizes["query"] = dim
    return {key: keras.Input((None, size), dtype=dtype, name=key) for key, size in sizes.items()}


def check_shared(variance: Tensor) -> None:
    """Raises ValueError if a point is observed in some channels only."""
    observed = np.isfinite(variance)
    if np.any(observed.any(-1) != observed.all(-1)):
        raise ValueError(
            "some points are observed in some channels only, which input_noise='shared' cannot "
            "represent: build the model with input_noise='channel'."
        )


def _warn_of_unequal(variance):
    known = variance[np.isfinite(variance).all(-1)]
    low, high = known.min(-1), known.max(-1)
    if np.any(low < 0.9 * high):
        warnings.warn(
            "the channels of some points have different variances, of which "
            "input_noise='shared' takes the mean: build the model with input_noise='channel' "
            "to keep them apart.",
            stacklevel=3,
        )


def first_examples(dataset: Any, count: int = 256) -> dict[str, Array]:
    """The first ``count`` examples of a batched data set as one dict."""
    batches, examples = [], 0
    for element in dataset:
        batch = element[0] if isinstance(element, (tuple, list)) else element
        if len(batch["points"].shape) != 3:
            raise ValueError(
                f"adapt needs a batched data set; its points have shape {batch['points'].shape}, "
                "expected [B, N, d]: call .batch() on it."
            )
        batches.append({key: np.asarray(value) for key, value in batch.items()})
        examples += len(batches[-1]["points"])
        if examples >= count:
            break
    size = max(batch["points"].shape[1] for batch in batches)

    def padded(array, fill):
        return np.pad(array, [(0, 0), (0, size - array.shape[1]), (0, 0)], constant_values=fill)

    fills = {"points": 0.0, "values": 0.0, "variance": np.inf}
    return {
        key: np.concatenate([padded(batch[key], fill) for batch in batches])
        for key, fill in fills.items()
    }


def _save(save, path, single):
    """Lets Keras write a local file by way of memory, and anything else its own way."""
    if single and isinstance(path, str | os.PathLike) and "://" not in str(path):
        write_by(save, path)
    else:
        save(path)
