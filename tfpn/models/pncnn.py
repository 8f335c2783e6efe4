"""The probabilistic numeric convolutional network."""

import warnings

import keras
import numpy as np
import tensorflow as tf

from tfpn.contract import check_observations
from tfpn.layers import ChannelMix, GPNormalization, IntegralPooling, PNConv, ProbReLU
from tfpn.layers.base import check_choice, check_count, check_positive
from tfpn.layers.pn_conv import UNCERTAINTY
from tfpn.models.predictive import Predictive, not_calibrated
from tfpn.spacing import point_spacing


@keras.saving.register_keras_serializable(package="tfpn")
class PNCNN(Predictive, keras.Model):
    """Probabilistic numeric CNN: classifier or regressor of irregularly sampled signals.

    ``num_blocks`` times [PNConv -> ProbReLU -> ChannelMix -> GPNormalization], integral pooling,
    and a linear head on the pooled means. The defaults are the paper's for SuperPixel MNIST, with
    the normalisation added. Compile and fit it as any Keras model; call `adapt` first, so that
    length scales and drifts start from the data's own spacing. The layers' checks of the data
    (noise, NaN) do not run inside XLA-compiled steps; `adapt` and `tfpn.observations` make them.

    Args:
        num_classes: number of logits; None for regression or for no head.
        num_outputs: number of regression outputs, with ``num_classes=None``. If both are None the
            output is the pooled dict of `IntegralPooling`.
        channels: width of the blocks.
        num_blocks: number of blocks.
        num_basis: basis operators in each convolution.
        spatial_dim: d, dimension of the points.
        in_channels: channels of the input.
        uncertainty: "diagonal" carries mean and variance through the network (the paper's model);
            "none" the means only, with the ordinary ReLU (its ablation). "low_rank" and "joint"
            keep errors at different points and channels together, by ``rank`` factors beside
            independent remainders or by the whole covariance, which is for small networks.
        rank: number of factors of "low_rank".
        variance_estimator: how the first block, which alone may see channels at different points,
            finds its variance: "exact", or "stochastic" as in the paper's PhysioNet experiment, by
            ``num_probes`` random probes (see `PNConv`). The other blocks are always exact.
        num_probes: number of probes of "stochastic".
        probes, seed: kind of probes and their seed, as in `PNConv`.
        normalization: puts `GPNormalization` after each block (the paper has none).
        spacing: typical distance between neighbouring points, in units of the points, until
            `adapt` measures it.
        input_noise: "shared" if all channels of an input point are observed together and equally
            well (the mean of their variances counts), "channel" if channels are seen at different
            points or differ in accuracy (exact, one factorisation for each channel).
        observation_noise: initial standard deviation of the learnable measurement noise of the
            input, in units of the input's; None for the given variances alone.
        feature_noise: the same for the features that later blocks and the pooling take, where the
            signal starts at 1: independent errors that their variances do not know of. Without it
            (None, the paper's model) a network is not calibrated beyond its first block, and one
            trained at one density of points overshoots between them at another.
        marginal_likelihood_weight: lambda in ``loss = task + lambda * L_GP``, with L_GP each
            layer's mean negative log marginal likelihood, summed over the layers.
        marginal_likelihood_trains: what L_GP may train, "kernel" (the priors' parameters) or "all".
        pooling: "space" integrates over the whole space (infinite variance), or a box
            ``(low, high)``, each a number or d numbers in units of the points, which makes the
            outputs Gaussian (see `predict_distribution`).
        dtype: policy of the layers. With "float64" hand over a `tf.data.Dataset`, or call
            ``keras.config.set_floatx("float64")``: `fit` and `predict` convert arrays to Keras's
            floatx before the model sees them.

    Input:
        The observations dict: points [B, N, d], values and variance [B, N, in_channels]; B and N
        are free.

    Output:
        Logits [B, num_classes] or outputs [B, num_outputs].

    Raises:
        ValueError: for bad arguments.

    Example:

    >>> import keras, numpy as np, tfpn
    >>> rng = np.random.default_rng(0)
    >>> x = tfpn.observations(rng.uniform(size=(8, 20, 2)), rng.normal(size=(8, 20)))
    >>> y = rng.integers(0, 3, size=8)
    >>> model = tfpn.models.PNCNN(num_classes=3, channels=8, num_blocks=2)
    >>> model.adapt(x)
    >>> model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    >>> history = model.fit(x, y, verbose=0)
    >>> model.predict(x, verbose=0).shape
    (8, 3)
    """

    def __init__(
        self,
        num_classes=10,
        *,
        num_outputs=None,
        channels=128,
        num_blocks=4,
        num_basis=9,
        spatial_dim=2,
        in_channels=1,
        uncertainty="diagonal",
        rank=8,
        variance_estimator="exact",
        num_probes=20,
        probes="rademacher",
        seed=None,
        normalization=True,
        spacing=0.1,
        input_noise="shared",
        observation_noise=0.1,
        feature_noise=0.1,
        marginal_likelihood_weight=1.0 / 200.0,
        marginal_likelihood_trains="kernel",
        pooling="space",
        dtype=None,
        name=None,
        trainable=True,
    ):
        if num_classes is not None and num_outputs is not None:
            raise ValueError(
                f"give num_classes or num_outputs, not both: found {num_classes} and "
                f"{num_outputs}; for regression set num_classes=None."
            )
        check_choice("uncertainty", uncertainty, UNCERTAINTY)
        check_count("num_blocks", num_blocks)
        check_count("channels", channels)
        if feature_noise is not None:
            check_positive("feature_noise", feature_noise)
        policy = keras.dtype_policies.get(dtype)
        dtype = policy.name  # also where it came from the global policy, for reloading
        pooling = self._checked_pooling(pooling)
        config = dict(locals())
        likelihood = {
            "marginal_likelihood_weight": marginal_likelihood_weight,
            "marginal_likelihood_trains": marginal_likelihood_trains,
        }
        points_dtype = "float64" if policy.compute_dtype == "float64" else "float32"
        inputs = {
            key: keras.Input((None, size), dtype=points_dtype, name=key)
            for key, size in (
                ("points", check_count("spatial_dim", spatial_dim)),
                ("values", check_count("in_channels", in_channels)),
                ("variance", in_channels),
            )
        }
        x, convolution_inputs = inputs, {}
        for block in range(1, num_blocks + 1):
            first = block == 1
            convolution_inputs[f"conv_{block}"] = x
            x = PNConv(
                channels,
                num_basis,
                spacing=spacing,
                observation_noise=observation_noise if first else feature_noise,
                noise=input_noise if first else "shared",
                uncertainty=uncertainty,
                rank=rank,
                variance_estimator=variance_estimator if first else "exact",
                num_probes=num_probes,
                probes=probes,
                seed=seed,
                dtype=dtype,
                name=f"conv_{block}",
                **likelihood,
            )(x)
            x = ProbReLU(dtype=dtype, name=f"relu_{block}")(x)
            x = ChannelMix(channels, dtype=dtype, name=f"mix_{block}")(x)
            if normalization:
                x = GPNormalization(dtype=dtype, name=f"norm_{block}")(x)
        pooled = IntegralPooling(
            box=None if pooling == "space" else pooling,
            spacing=spacing,
            observation_noise=feature_noise,
            dtype=dtype,
            name="pooling",
            **likelihood,
        )(x)
        outputs = pooled
        units = num_classes if num_outputs is None else num_outputs
        if units is not None:
            outputs = keras.layers.Dense(
                # In full precision under a mixed policy: these are the logits.
                check_count("num_classes or num_outputs", units),
                dtype=points_dtype,
                name="head",
            )(pooled["values"])
        super().__init__(inputs=inputs, outputs=outputs, name=name)
        self.trainable = trainable
        self._pooled_output = pooled
        self._convolution_inputs = convolution_inputs
        self._calibration = None
        if num_outputs is not None and pooling != "space":
            # log of the factor of the network's variance, log of the targets' noise variance
            self._calibration = self.add_weight(
                name="calibration", shape=(2, num_outputs), initializer=not_calibrated,
                trainable=False,
            )  # fmt: skip
        self._config = {k: v for k, v in config.items() if k not in ("self", "__class__", "policy")}
        self._config["name"] = self.name

    @staticmethod
    def _checked_pooling(pooling):
        """ "space", or the box as numbers and lists, which saving can write down."""
        if isinstance(pooling, str):
            if pooling == "space":
                return pooling
        else:
            try:
                low, high = (np.asarray(side, dtype=float) for side in pooling)
                if np.all(low < high) and np.all(np.isfinite(low) & np.isfinite(high)):
                    return [low.tolist(), high.tolist()]
            except (TypeError, ValueError):
                pass
        raise ValueError(
            "pooling must be 'space' or a box (low, high) with low < high, such as (0.0, 1.0), "
            f"found {pooling!r}."
        )

    @property
    def pn_layers(self):
        """The layers that hold a GP prior: all convolutions and the pooling, in order."""
        return [layer for layer in self.layers if isinstance(layer, (PNConv, IntegralPooling))]

    def adapt(self, data):
        """Starts length scales, drifts, signal and noise level from the data, before training.

        All convolutions and the pooling take the data's spacing, the median distance to the second
        nearest neighbour; the first convolution, which sees the raw values, takes their root mean
        square as well; and the pooling measures its integral in units of the box, or of the volume
        that the points fill. So a model does not depend on the units of points and values.

        Args:
            data: the observations dict, or a `tf.data.Dataset` of such dicts or of tuples that
                begin with one, of which enough batches for 256 examples are read.

        Raises:
            ValueError: if the data are not observations (as `tfpn.observations` makes them) of the
                model's dimension and channels, if some points are observed in some channels only
                and the model's ``input_noise`` is "shared", if no example has two distinct
                observed points, or for an unbatched data set.

        Warns:
            UserWarning: if the points are so far from the origin that their differences have lost
                their digits, or if channels of a point differ in variance and "shared" averages it.
        """
        config = self._config
        if isinstance(data, tf.data.Dataset):
            data = _first_examples(data)
        data = check_observations(
            data, spatial_dim=config["spatial_dim"], channels=config["in_channels"]
        )
        observed = np.isfinite(data["variance"])
        if config["input_noise"] == "shared" and np.any(observed.any(-1) != observed.all(-1)):
            raise ValueError(
                "some points are observed in some channels only, which input_noise='shared' cannot "
                "represent: build the model with input_noise='channel'."
            )
        if config["input_noise"] == "shared" and _differs_between_channels(data["variance"]):
            warnings.warn(
                "the channels of some points have different variances, of which "
                "input_noise='shared' takes the mean: build the model with input_noise='channel' "
                "to keep them apart.",
                stacklevel=2,
            )
        spacing = point_spacing(data["points"], data["variance"])
        dtype = self.inputs_dict["points"].dtype
        resolution = np.finfo(dtype).eps * np.abs(data["points"][observed.any(-1)]).max()
        if resolution > 1e-3 * spacing:
            warnings.warn(
                f"points lie up to {resolution / np.finfo(dtype).eps:.3g} from the origin, where "
                f"{dtype} resolves {resolution:.2g}, but they are {spacing:.2g} apart: subtract an "
                "origin from the points, or use dtype='float64'.",
                stacklevel=2,
            )
        first, *others = self.pn_layers
        first.adapt(data)
        for layer in others:
            layer.set_spacing(spacing)
        if config["pooling"] == "space":
            filled = np.median(observed.any(-1).sum(-1)) ** (1.0 / config["spatial_dim"])
            unit = spacing * max(filled, 1.0)
        else:
            sides = np.subtract(*config["pooling"][::-1]) * np.ones(config["spatial_dim"])
            unit = np.prod(sides) ** (1.0 / config["spatial_dim"])
        self.get_layer("pooling").set_unit(unit)

    @property
    def inputs_dict(self):
        """The symbolic inputs by name, for building sub-models."""
        return {tensor.name: tensor for tensor in self.inputs}

    def get_config(self):
        return {**self._config, "trainable": self.trainable}


def _differs_between_channels(variance):
    """Whether observed variances of one point differ by more than a tenth of the larger."""
    known = np.isfinite(variance).all(-1)
    low, high = variance[known].min(-1), variance[known].max(-1)
    return np.any(low < 0.9 * high)


def _first_examples(dataset, count=256):
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
