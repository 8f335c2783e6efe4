"""The probabilistic numeric convolutional network that commutes with rotations of the plane."""

import warnings

import keras
import numpy as np

from tfpn.layers import GatedReLU, SteerableMix, SteerableNormalization, SteerablePNConv
from tfpn.layers.base import check_choice, check_count, check_positive
from tfpn.layers.steerable_base import check_seed, fields_config, optional_fields
from tfpn.layers.steerable_conv import UNCERTAINTY
from tfpn.layers.steerable_flows import copy_flow, is_flow
from tfpn.math.conditioning import NOISE
from tfpn.math.steerable.fields import (
    block_numbers,
    count_channels,
    read_fields,
    read_frequencies,
)
from tfpn.models.head import points_dtype, pool_and_head, read_pooling
from tfpn.models.network import PNNetwork, check_outputs, network_inputs
from tfpn.models.readout import FieldReadout

_NO_ARGUMENTS = ("self", "__class__", "policy", "trainable")


@keras.saving.register_keras_serializable(package="tfpn")
class SteerablePNCNN(FieldReadout, PNNetwork):
    """Network of fields on the plane that turns with its input: for images and measured fields.

    A signal on the plane that is turned is the same signal, and wind that is measured in turned
    coordinates the same wind. This network knows that beforehand and at every angle: a classifier's
    logits do not change when the points are turned, and predicted fields turn with them, without
    training on turned examples. ``num_blocks`` times [SteerablePNConv -> GatedReLU -> SteerableMix
    -> SteerableNormalization], as in `PNCNN`, with features that are fields: ``copies`` of every
    one of ``frequencies``. A field of frequency 0 is a scalar, such as a temperature; one of
    frequency m has two components, which a rotation by t turns by m t (1: vectors, such as wind).

    With ``num_classes`` or ``num_outputs`` the last block leads to scalars alone, as many as the
    channels of the other blocks; their integrals over the plane and a linear head give logits or
    numbers that no rotation changes. With ``out_fields`` a last convolution reads fields out at
    the points of a further input, "query".

    Rotations about any centre, with a pooling over "space"; a disc, about its centre. A box turns
    into another box, so with a box as its pooling **the network is not invariant**, quarter turns
    about the box's centre of a square excepted. Reflections are another matter: see
    `tfpn.check_equivariance`, which measures all this for a model at hand.

    What is left of the error is rounding: relative to the largest output some 1e-14 in float64, and
    up to 3e-6 in float32, whose first convolution computes in float64 inside: there kernels between
    close points may nearly cancel. It grows where training makes length scales long or noise small;
    ``dtype="float64"`` is for those who need more digits. Keras casts the arrays that `fit` and
    `evaluate` take to its own float type: give them a `tf.data.Dataset` of float64, or call
    ``keras.config.set_floatx("float64")`` before. `predict`, `predict_distribution` and
    `tfpn.check_equivariance` keep all digits.

    `feature_maps` gives each block's fields with their variances at any points. There is no
    `feature_process` as `PNCNN` has it, joint over points: the covariance of a field at two points
    is a matrix that turns with the line between them, and not a number for each channel.

    Args:
        num_classes: number of logits; None for regression, fields or no head.
        num_outputs: number of regression outputs that no rotation changes, with
            ``num_classes=None``. If this and ``out_fields`` are None too, the output is the pooled
            dict of `IntegralPooling`.
        out_fields: the type of the fields to predict, such as ``{1: 1}`` for one vector field,
            ``{0: 2, 1: 1}`` for two scalars and a vector, or a representation of
            `equivariance.SO2`; with ``num_classes=None``.
        copies: number of fields of each frequency in the blocks; 26 fields of the frequencies 0, 1
            and 2 have 130 channels.
        frequencies: of the fields in the blocks; 0 must be among them, as scalars gate the others.
        num_blocks: number of blocks.
        num_basis: flows (coupled PDEs) in each convolution.
        in_fields: type of the input; 1 is one scalar.
        flow: None, or a Keras layer whose ``generator()`` gives C, B and S on one copy of each of
            ``frequencies``, such as one written by `equivariance.keras_source`. Every flow is then
            a copy of it, by its configuration, with weights of its own, lengths in units of the
            spacing (see `SteerablePNConv`), and ``constraint`` and ``seed`` do not matter.
        constraint: "dissipative" flows never amplify; "free" ones may (see `SteerablePNConv`).
        uncertainty: "diagonal" carries mean and variance through the network, "none" the means
            only.
        normalization: puts `SteerableNormalization` after each block.
        spacing, input_noise, observation_noise, feature_noise, marginal_likelihood_weight,
            marginal_likelihood_trains, dtype: as in `PNCNN`.
        pooling: "space", or a disc ``{"centre": (x, y), "radius": r}``, which makes the outputs
            Gaussian; or a box ``(low, high)``, see above. Not for ``out_fields``.
        seed: of the flows' random initial parameters alone; None draws one from Python's `random`.
            All other weights start from Keras's generator: ``keras.utils.set_random_seed(0)``
            before the model is built, with whatever ``seed``, makes the same model each time.

    Input:
        The observations dict: points [B, N, 2], values and variance [B, N, channels of
        ``in_fields``]; with ``out_fields`` a further key "query", points [B, M, 2]. B, N and M are
        free.

    Output:
        Logits [B, num_classes], outputs [B, num_outputs], or the fields' values
        [B, M, channels of ``out_fields``], copy by copy.

    Raises:
        ValueError: for bad arguments.

    Example: a classifier whose logits are those of the turned points.

    >>> import keras, numpy as np, tfpn
    >>> rng = np.random.default_rng(0)
    >>> x = tfpn.observations(rng.uniform(size=(4, 20, 2)), rng.normal(size=(4, 20)))
    >>> model = tfpn.models.SteerablePNCNN(3, copies=2, num_blocks=1)
    >>> model.adapt(x)
    >>> turn = np.array([[np.cos(0.5), -np.sin(0.5)], [np.sin(0.5), np.cos(0.5)]])
    >>> turned = {**x, "points": x["points"] @ turn.T}
    >>> bool(np.allclose(model(turned), model(x), atol=1e-4))
    True

    Wind at 9 other places. Where a target is missing, sample weights of 0 leave it out of `fit`
    and `evaluate`.

    >>> x["query"] = rng.uniform(size=(4, 9, 2)).astype("float32")
    >>> model = tfpn.models.SteerablePNCNN(None, out_fields={1: 1}, copies=2, num_blocks=1)
    >>> model.adapt(x)
    >>> wind, weight = rng.normal(size=(4, 9, 2)), np.ones((4, 9))
    >>> wind[0, 3], weight[0, 3] = 1e9, 0.0
    >>> model.compile("adam", "mse")
    >>> model.evaluate(x, wind, sample_weight=weight, verbose=0, return_dict=True)["loss"] < 100.0
    True
    """

    def __init__(
        self,
        num_classes=10,
        *,
        num_outputs=None,
        out_fields=None,
        copies=26,
        frequencies=(0, 1, 2),
        num_blocks=4,
        num_basis=2,
        in_fields=1,
        flow=None,
        constraint="dissipative",
        uncertainty="diagonal",
        normalization=True,
        spacing=0.1,
        input_noise="shared",
        observation_noise=0.1,
        feature_noise=0.1,
        marginal_likelihood_weight=1.0 / 200.0,
        marginal_likelihood_trains="kernel",
        pooling="space",
        seed=None,
        dtype=None,
        name=None,
        trainable=True,
    ):
        check_outputs(num_classes, num_outputs)
        check_choice("uncertainty", uncertainty, UNCERTAINTY)
        check_choice("input_noise", input_noise, NOISE)
        check_count("num_blocks", num_blocks)
        check_count("copies", copies)
        if feature_noise is not None:
            check_positive("feature_noise", feature_noise)
        frequencies = _read_frequencies(frequencies)
        in_fields = fields_config(read_fields(in_fields, "in_fields"))
        out_fields = fields_config(optional_fields(out_fields, "out_fields"))
        pooling = read_pooling(pooling)
        _check_fields(out_fields, num_classes, num_outputs, pooling)
        check_count("num_basis", num_basis)
        seed = None if seed is None else check_seed(seed)
        _check_flow(flow, frequencies, {"in_fields": in_fields, "out_fields": out_fields})
        policy = keras.dtype_policies.get(dtype)
        dtype = policy.name  # also where it came from the global policy, for reloading
        config = {k: v for k, v in locals().items() if k not in _NO_ARGUMENTS}
        if flow is not None:
            config["flow"] = keras.saving.serialize_keras_object(flow)
        likelihood = {
            "marginal_likelihood_weight": marginal_likelihood_weight,
            "marginal_likelihood_trains": marginal_likelihood_trains,
        }

        def convolution(number, name, fields, in_fields):
            first, flows = number == 1, None
            if flow is not None:
                flows = [copy_flow(flow, f"{name}_flow_{k}", dtype) for k in range(num_basis)]
            return SteerablePNConv(
                fields,
                num_basis,
                in_fields=in_fields,
                frequencies=sorted({*frequencies, *(m for m, _ in (*in_fields, *fields))}),
                constraint=constraint,
                flows=flows,
                spacing=spacing,
                observation_noise=observation_noise if first else feature_noise,
                noise=input_noise if first else "shared",
                uncertainty=uncertainty,
                double_precision=first,  # features are smooth enough for float32
                seed=None if seed is None else seed + number,
                dtype=dtype,
                name=name,
                **likelihood,
            )

        inputs = network_inputs(
            2, count_channels(in_fields), points_dtype(policy), query=out_fields is not None
        )
        x, fields = {key: inputs[key] for key in ("points", "values", "variance")}, in_fields
        hidden = [[m, copies] for m in frequencies]
        for block in range(1, num_blocks + 1):
            last = block == num_blocks and out_fields is None
            new_fields = [[0, count_channels(hidden)]] if last else hidden
            x = convolution(block, f"conv_{block}", new_fields, fields)(x)
            x = GatedReLU(new_fields, dtype=dtype, name=f"relu_{block}")(x)
            x = SteerableMix(new_fields, in_fields=new_fields, dtype=dtype, name=f"mix_{block}")(x)
            if normalization:
                x = SteerableNormalization(new_fields, dtype=dtype, name=f"norm_{block}")(x)
            fields = new_fields
        calibrated = readout_input = None
        if out_fields is not None:
            readout = convolution(num_blocks + 1, "readout", out_fields, fields)
            moments = readout(x, inputs["query"])
            readout_input = x
            outputs, calibrated = moments["values"], block_numbers(out_fields)
        else:
            moments, outputs = pool_and_head(
                x,
                pooling,
                num_classes if num_outputs is None else num_outputs,
                spacing=spacing,
                observation_noise=feature_noise,
                dtype=dtype,
                **likelihood,
            )
            if num_outputs is not None and pooling != "space":
                calibrated = range(num_outputs)
        super().__init__(
            inputs,
            outputs,
            config=config,
            moments=moments,
            calibrated=calibrated,
            trainable=trainable,
        )
        self._readout_input = readout_input

    @property
    def in_fields(self):
        """The type of the input's channels, as pairs (frequency, copies)."""
        return read_fields(self._config["in_fields"])

    def _check_missing(self, variance):
        blocks = np.asarray(block_numbers(self.in_fields))
        observed = np.isfinite(variance)
        for block in np.unique(blocks):
            channels = np.flatnonzero(blocks == block)
            parts = observed[..., channels]
            partly = parts.any(-1) != parts.all(-1)
            if partly.any():
                example, point = (int(i) for i in np.argwhere(partly)[0])
                found = ", ".join(f"{v:g}" for v in variance[example, point, channels])
                raise ValueError(
                    f"variance: example {example}, point {point} has [{found}] in the channels "
                    f"{channels.tolist()}, the components of one field, which a rotation turns "
                    "into each other: all of them are observed there or none. Give each the same "
                    "finite variance, or each the variance inf."
                )
        super()._check_missing(variance)

    def _block_noise(self, variance):
        blocks = np.asarray(block_numbers(self.in_fields))
        parts = [variance[..., blocks == block] for block in np.unique(blocks)]
        known = [part[np.isfinite(part).all(-1)] for part in parts]
        if any(np.any(part.min(-1) < 0.9 * part.max(-1)) for part in known):
            warnings.warn(
                "the components of some fields differ in variance, of which their mean counts, as "
                "a rotation turns them into each other: give all components of a field the same.",
                stacklevel=3,
            )
        return np.stack([part.mean(-1) for part in parts], axis=-1)

    @property
    def output_fields(self):
        """The type of the output's channels; None for numbers that no rotation changes."""
        return optional_fields(self._config["out_fields"], "out_fields")

    @property
    def finite_variance(self):
        """Whether `predict_distribution` works: whether the outputs have a finite variance."""
        if self._config["out_fields"] is not None:
            return self._config["uncertainty"] != "none"
        return super().finite_variance

    def predict_distribution(self, x, batch_size=32):
        """The outputs as jointly normal variables, the values of fields as independent ones.

        With ``out_fields``: a `tfp.distributions.Normal` of the fields' values [B, M, channels],
        with the variance of the last convolution's Gaussian process, one for all components of a
        field that rotates (the mean over them). What the network did not see of its features is in
        it; noise of the targets is after `calibrate`, which fits one factor and one noise variance
        for each field. Otherwise as in `PNCNN.predict_distribution`.

        Args:
            x: the observations dict, with its query points if there are any.
            batch_size: examples at a time.

        Returns:
            A TensorFlow Probability distribution.

        Raises:
            ValueError: if the variance is infinite (pooling="space") or not there
                (uncertainty="none"), if the model has no head, or as in
                `PNCNN.predict_distribution` for ``x`` and ``batch_size``.
        """
        if self._config["out_fields"] is None:
            return super().predict_distribution(x, batch_size)
        if not self.finite_variance:
            raise ValueError(
                "the model was built with uncertainty='none' and carries no variance; build it "
                "with uncertainty='diagonal'."
            )
        import tensorflow_probability as tfp

        if self._at_many_points(x, batch_size):
            moments = self._read_out(x, check_count("batch_size", batch_size), verbose=0)
        else:
            moments = self._predicted(self._moments, x, batch_size)
        factor, noise = self._factor_and_noise()
        scale = np.sqrt(moments["variance"].astype(np.float64) * factor + noise)
        values = moments["values"]
        return tfp.distributions.Normal(values, scale.astype(values.dtype))

    @classmethod
    def from_config(cls, config, custom_objects=None):
        config = dict(config)
        if config.get("flow") is not None:
            config["flow"] = keras.saving.deserialize_keras_object(
                config["flow"], custom_objects=custom_objects
            )
        return super().from_config(config)


def _read_frequencies(frequencies):
    found = list(read_frequencies(frequencies))
    if found[0] != 0:
        raise ValueError(
            f"frequencies must hold 0, the scalars, which gate all other fields; found "
            f"{frequencies!r}."
        )
    return found


def _check_flow(flow, frequencies, fields):
    if flow is None:
        return
    if not is_flow(flow):
        raise ValueError(
            "flow must be a Keras layer with a method generator(), such as one that "
            f"equivariance.keras_source writes, found {flow!r}."
        )
    for name, pairs in fields.items():
        missing = sorted({m for m, _ in pairs or ()} - set(frequencies))
        if missing:
            raise ValueError(
                f"{name} {pairs} has the frequencies {missing}, on which a flow for the "
                f"frequencies {tuple(frequencies)} does not act: give a flow and frequencies that "
                "have them."
            )


def _check_fields(out_fields, num_classes, num_outputs, pooling):
    if out_fields is None:
        return
    for name, value in (("num_classes", num_classes), ("num_outputs", num_outputs)):
        if value is not None:
            raise ValueError(
                f"give out_fields or {name}, not both: found {out_fields} and {value}; to predict "
                "fields set num_classes=None."
            )
    if pooling != "space":
        raise ValueError(
            f"out_fields are read out at points and not pooled; leave pooling out, found "
            f"{pooling!r}."
        )
