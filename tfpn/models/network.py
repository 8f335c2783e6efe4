"""The base of the models: their inputs, checks, and the start from data."""

import functools
import os
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfpn.checks import check_flag
from tfpn.contract import KEYS, check_observations, check_query
from tfpn.degrees import warn_of_degrees
from tfpn.files import write_by
from tfpn.gone import without_gone
from tfpn.layers.base import GPPosteriorLayer
from tfpn.math.posterior import NOISE
from tfpn.models.checked import Checked
from tfpn.models.field_layers import FieldScale
from tfpn.models.head import domain_unit
from tfpn.models.inputs import (
    are_merged,
    check_shared,
    first_examples,
    warn_of_offsets,
    warn_of_sizes,
    warn_of_unequal,
)
from tfpn.models.predictive import Predictive, not_calibrated
from tfpn.models.prior_start import fit_first_prior
from tfpn.models.readings_seen import ReadingsSeen
from tfpn.models.target_scale import TargetScale, first_targets
from tfpn.models.temperature import Temperature
from tfpn.models.trainable import Trainable
from tfpn.spacing import point_spacing, typical_number
from tfpn.types import ArrayLike, Config, Layer, PathLike, Tensor, Verbose


class PNNetwork(Checked, Trainable, Predictive, ReadingsSeen, keras.Model):
    """Base of the models: a functional Keras model from observations.

    A subclass's constructor builds the layers, and passes those that the methods use.

    Args:
        inputs: from `network_inputs`.
        outputs: the model's symbolic output.
        config: all arguments of the subclass's constructor except ``trainable``, in the form for
            saving.
        blocks: list of `Block`, in order.
        pooling: the layer that integrates the last block's features, or None.
        head: the layer that follows it, or None.
        moments: symbolic dict of means and variances, of the pooled features or of a field. Those
            of the outputs come from them.
        calibrated: None, or for each output the number of the calibration that it shares.
        trainable: as Keras's.
        field: the `FieldPath` around the network, which makes its outputs, or None.
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
        field: Any = None,
    ) -> None:
        for flag in {"normalization", "clock", "common_points"} & set(config):
            check_flag(flag, config[flag])
        check_flag("trainable", trainable)
        scale, fields = None, calibrated
        if config.get("num_outputs") is not None:
            fields = range(config["num_outputs"])
        if fields is not None:
            scale_of = TargetScale if field is None else field.target_scale
            if config.get("output") == "normal":
                scale_of = FieldScale
            scale = scale_of(list(map(int, fields)), dtype=outputs.dtype, name="targets")
            outputs = scale(outputs)
        temperature = None
        if (config.get("num_classes") or 0) > 1:
            temperature = Temperature(dtype=outputs.dtype, name="temperature")
            outputs = temperature(outputs)
        super().__init__(inputs=inputs, outputs=outputs, name=config["name"])
        self._target_scale, self._temperature = scale, temperature
        self._blocks, self._pooling, self._head = tuple(blocks), pooling, head
        self._field = field
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
        """Keras's, after a check of the keys: Keras takes arrays without keys in their order.

        A list of symbolic tensors has the order of ``inputs``, as in Keras's functional models. A
        list of arrays raises an error, because it does not name its arrays.
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
                inputs = self._check_query(inputs)
        return super().__call__(inputs, *args, **kwargs)

    def _check_missing(self, variance):
        """Raises ValueError if only some of the channels that go together are observed."""
        if not NOISE[self._config["input_noise"]].each:
            check_shared(variance)

    def _check_query(self, x):
        """Checks the entries of the input dict other than the observations, and returns the dict.

        Query points [1, M, d] become those of all examples.
        """
        if "query" in self.inputs_dict:
            examples, query = len(x["points"]), x["query"]
            asked = self.inputs_dict["query"]
            dim, dtype = asked.shape[-1], asked.dtype
            checked = check_query(query, examples=examples, spatial_dim=dim, dtype=dtype)
            if len(query) != examples:  # a tensor may have a gradient
                query = tf.repeat(query, examples, 0) if tf.is_tensor(query) else checked
                x = {**x, "query": query}
        return x

    def _block_noise(self, variance):
        """The variances [B, N, blocks] of parts that may differ; warns if parts of a block do."""
        return variance

    def _scalar_channels(self):
        """The input's channels from which a constant may be subtracted."""
        return range(self.inputs_dict["values"].shape[-1])

    @property
    def blocks(self) -> list[Any]:
        """The network's blocks, a list of `tfpn.models.blocks.Block`."""
        return list(self._blocks)

    @property
    def pn_layers(self) -> list[Layer]:
        """The layers that hold a GP prior: the blocks' convolutions, and then all others."""
        first = [layer for block in self.blocks for layer, _ in block.convolutions]
        others = [layer for layer in self.layers if isinstance(layer, GPPosteriorLayer)]
        return first + [layer for layer in others if layer not in first]

    @property
    def inputs_dict(self) -> dict[str, Tensor]:
        """The symbolic inputs by name, for building sub-models."""
        return {tensor.name: tensor for tensor in self.inputs}

    def adapt(
        self,
        data: Any,
        targets: ArrayLike | None = None,
        *,
        fit_priors: bool = True,
        verbose: Verbose = "auto",
    ) -> None:
        """Starts length scales, flows, signal and noise level from the data, before training.

        All convolutions and the pooling take the data's spacing, the median distance to the second
        nearest neighbour. If blocks look at other points (``query``, ``num_query``), the later
        layers take the spacing of those. So do the flows of the first one if it is the longer. The
        first convolution sees the raw values, and takes their root mean square, too. With
        ``fit_priors`` it takes the length scale, signal and noise of the largest marginal
        likelihood (`tfpn.fitting.fit_prior`). So it knows the signal, and not only the sampling.
        The pooling measures its integral in units of its region, or of the volume that the points
        fill. So neither predictions nor training depend on the unit of the points: drifts and
        diffusions are learnt in units of eight spacings. Nor do they depend on the unit of the
        values, of all channels together or, if each has its own prior, of each channel.

        A regression model also takes the targets' means and standard deviations. (A field that
        rotates takes one deviation for all components, and no mean.) From then on its outputs,
        their distributions and metrics are in the targets' unit. This holds for saved and exported
        models, too. The loss compares targets and outputs in units of the deviations. So training
        is the same for ``a * targets + b`` as for ``targets``.

        Args:
            data: the observations dict, or a `tf.data.Dataset` of such dicts or of tuples that
                begin with one. Enough batches for 256 examples are read. Other keys, such as
                "query", are not read.
            targets: targets of a regression model, [B, num_outputs] (or [B] for one output), or
                [B, M, channels] for fields, NaN where nothing was measured. None leaves the
                outputs' scale, or takes the targets of a data set of tuples (observations,
                targets).
            fit_priors: whether to fit the first convolution's prior, which takes some seconds.
            verbose: 0 shows no progress. Otherwise a fit that takes longer than a few seconds
                shows it on standard error, with the remaining time: as a line that is rewritten,
                or with 2 and in log files as a new line now and then.

        Raises:
            ValueError: if the data are not observations (as `tfpn.observations` makes them) of the
                model's dimension and channels; if some points are observed in some channels only
                and the model's ``input_noise`` is "shared"; if no example has two distinct observed
                points; if the model's dtype cannot hold the square of their spacing, or makes one
                of several points, because they are far from the origin; for a bad ``verbose`` or an
                unbatched data set; for targets of another shape or number, for
                infinite targets, for an output without a target; or for targets of a classifier.
            TypeError: if the data are neither a dict nor a data set, or targets are not numbers.

        Warns:
            UserWarning: if the points are so far from the origin that their differences have lost
                digits; if channels of a point differ in variance and "shared" averages it; if
                points look like degrees on both sides of the date line; if readings look
                independent of each other (their length scale then starts at half of their spacing);
                if a channel's mean is more than ten of its standard deviations from 0; if one of
                the channels that share a prior is a hundred times as large as another; if flows
                reach beyond the halos of conditioning="local"; or if targets are so far from 0 that
                their differences have lost their digits.
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
        self._check_missing(data["variance"])
        noise = self._block_noise(data["variance"])
        if not NOISE[self._config["input_noise"]].each:
            warn_of_unequal(noise)
        data = self._enter(data, fit_priors, verbose)
        observed = np.isfinite(data["variance"])  # of the examples that are left
        warn_of_offsets(data["values"], data["variance"], self._scalar_channels())
        if np.ndim(self.pn_layers[0].log_length_scale) == 0:  # one prior for all channels
            warn_of_sizes(data["values"], data["variance"])
        spacing = point_spacing(data["points"], data["variance"])
        dtype = inputs["points"].dtype
        if not float(np.finfo(dtype).tiny) < spacing**2 < float(np.finfo(dtype).max):
            raise ValueError(
                f"the points are {spacing:.2g} apart, whose square {dtype} cannot hold: give the "
                "points in another unit."
            )
        places = data["points"][observed.any(-1)]
        resolution = np.finfo(dtype).eps * np.abs(places).max()
        said = (
            f"points lie up to {resolution / np.finfo(dtype).eps:.3g} from the origin, where "
            f"{dtype} resolves {resolution:.2g}, but they are {spacing:.2g} apart: subtract an "
            "origin from the points, or use dtype='float64' (see there how to hand data over)."
        )
        if are_merged(places, spacing, dtype):
            raise ValueError(said)
        if resolution > 1e-3 * spacing:
            warnings.warn(said, stacklevel=2)
        self._adapt_readings(data["variance"])
        first, *others = self.pn_layers
        self._start_first(first, data, fit_priors, verbose)
        later = self._later_spacing(data, spacing)
        if later > spacing:  # shorter flows would leave most readings between the places unseen
            first.start_flows(later)
            self._warn_of_narrow_halos(data, stacklevel=2)
        for layer in others:
            layer.set_spacing(later)
        if self._pooling is not None:
            dim = inputs["points"].shape[-1]
            filled = typical_number(data["points"], data["variance"]) ** (1.0 / dim)
            self._pooling.set_unit(domain_unit(self._config["pooling"], dim) or spacing * filled)

    def _start_first(self, layer, data, fit_prior, verbose):
        """Starts the first convolution."""
        layer.adapt(data)
        if fit_prior:
            fit_first_prior(layer, data, verbose)

    def _enter(self, data, fit_priors, verbose):
        """The data for the first convolution."""
        return data

    def _later_spacing(self, data, spacing):
        """The spacing of the points of later layers, from the data and their spacing."""
        return spacing

    def _adapt_targets(self, data, targets):
        """Sets the outputs' offsets and scales, also from a data set of pairs."""
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

        An old file stays as it was until the new one is whole (`tfpn.files.write`).
        """
        if str(filepath).endswith((".h5", ".hdf5")):
            raise ValueError(
                f"filepath must end in .keras, found {str(filepath)!r}: Keras cannot load this "
                "model from the older format. save_weights('....weights.h5') keeps only weights."
            )
        save = functools.partial(super().save, overwrite=overwrite, zipped=zipped, **kwargs)
        _save(save, filepath, overwrite and zipped is not False)

    def save_weights(
        self, filepath: PathLike, overwrite: bool = True, max_shard_size: Any = None
    ) -> None:
        """Keras's; an old file stays as it was until the new one is whole."""
        options = {"overwrite": overwrite, "max_shard_size": max_shard_size}
        save = functools.partial(super().save_weights, **options)
        _save(save, filepath, overwrite and max_shard_size is None)

    def _run_through_graph(self, inputs, *functions, **named):
        # Keras clones the layers, to build a model of its own class.
        given = [*functions, *named.values()]
        if any(f.__module__ == keras.models.clone_model.__module__ for f in given if f):
            raise TypeError(
                "keras.models.clone_model would make a plain functional model of this "
                f"{type(self).__name__}, without calibration, adapt and checks: take "
                "copy.deepcopy(model) for the same weights, or "
                "type(model).from_config(model.get_config()) for new ones."
            )
        return super()._run_through_graph(inputs, *functions, **named)

    def get_config(self) -> Config:
        config = {**self._config, "trainable": self.trainable}
        frozen = [layer.name for layer in self.layers if not layer.trainable]
        if self.trainable and frozen:
            config["frozen"] = frozen
        return config

    @classmethod
    def from_config(cls, config: Config, custom_objects: Mapping[str, Any] | None = None) -> Any:
        """Builds the model from a `get_config`; frozen layers stay frozen."""
        config = without_gone(config)
        frozen = config.pop("frozen", ())
        model = cls(**config)
        for name in frozen:
            model.get_layer(name).trainable = False
        return model


def _is_concrete(value):
    """Whether the value holds numbers: an array, or a tensor outside of traced functions."""
    return isinstance(value, np.ndarray) or hasattr(value, "numpy")


def _save(save, path, single):
    """Lets Keras write a local file through memory, and anything else as usual."""
    if single and isinstance(path, str | os.PathLike) and "://" not in str(path):
        write_by(save, path)
    else:
        save(path)
