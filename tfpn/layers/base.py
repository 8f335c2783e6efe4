"""The bases of all layers on Gaussian process feature maps."""

import dataclasses
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfpn.checks import check_choice, check_flag, check_number, check_positive, same_sizes
from tfpn.contract import KEYS
from tfpn.math.channels import channel_sum
from tfpn.math.fusion import fusion
from tfpn.math.held import held
from tfpn.math.kernels import Kernel, kernel_config, read_mixture
from tfpn.math.posterior import NOISE, TRAINS, Observed
from tfpn.math.replicas import replica_id, replica_sum
from tfpn.math.uncertainty import Diagonal, carried_by, keys_beside
from tfpn.types import Config, KernelLike, Trains

if keras.backend.backend() != "tensorflow":
    raise ImportError(
        f"tfpn needs Keras's TensorFlow backend, found {keras.backend.backend()!r}: set the "
        "environment variable KERAS_BACKEND=tensorflow before keras is first imported."
    )


# float32 can hold the squares of lengths in this range, and of their hundredth and hundredfold.
_LENGTHS = 1e-15, 1e15

# Training steps compile their elementwise work if an example's feature map has at least so many
# entries (points times channels). Compiling takes about a second for each block.
_FUSED_ENTRIES = 1024


class GPLayer(keras.layers.Layer):
    """A layer from observations to observations.

    Inputs and outputs are dicts of ``points`` [B, N, d], ``values`` [B, N, c] and ``variance``
    [B, N, c] (see `tfpn.observations`). Further entries say how errors at different points and
    channels belong together (`tfpn.math.uncertainty`). The algebra and the outputs are float64
    under a float64 policy. They are float32 under every other policy, as there are no
    half-precision factorisations.
    """

    def __init__(self, **kwargs: Any) -> None:
        # Keras would cast float32 points to half precision under a mixed policy.
        super().__init__(autocast=False, **kwargs)
        if "float" not in str(self.compute_dtype):
            raise ValueError(
                f"{type(self).__name__} {self.name!r}: dtype must be a policy of floating numbers, "
                f"such as 'float32' or 'float64', found {self.compute_dtype!r}."
            )
        self._built_for = None  # d and c, if weights depend on them

    @property
    def algebra_dtype(self) -> str:
        """Dtype of the layer's computations and outputs, "float32" or "float64"."""
        return "float64" if self.compute_dtype == "float64" else "float32"

    def __call__(self, observations, *args, **kwargs):
        """Keras's, which also takes lists of numbers instead of arrays."""
        if isinstance(observations, dict):
            observations = {
                key: value if hasattr(value, "shape") else self._read_numbers(key, value)
                for key, value in observations.items()
            }
        return super().__call__(observations, *args, **kwargs)

    def compute_output_shape(self, *shapes: Any) -> Any:
        """Shapes of the output for those of the inputs, which wrappers of layers need."""

        def symbolic(shape):
            return keras.KerasTensor(shape, dtype=self.algebra_dtype)

        inputs = (keras.tree.map_shape_structure(symbolic, shape) for shape in shapes)
        return keras.tree.map_structure(lambda t: t.shape, self.compute_output_spec(*inputs))

    def _read_numbers(self, key, values):
        try:
            return np.asarray(values, self.algebra_dtype)
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"{type(self).__name__} {self.name!r}: {key} is a {type(values).__name__} that is "
                f"not an array of numbers ({error}): pass examples of unequal length through "
                "tfpn.observations first."
            ) from error

    def _cast(self, tensor):
        return tf.cast(tf.convert_to_tensor(tensor), self.algebra_dtype)

    def _read_bias(self):
        """The bias of a layer that may have one, or None."""
        if self.bias is None:
            return None
        bias = self._cast(self.bias)
        return bias if self.train_bias else held(bias)

    def add_weight(self, **kwargs: Any) -> Any:
        """Keras's, but a mixed policy also reads the weights in their own precision."""
        return super().add_weight(autocast=False, **kwargs)

    def _unpack(self, observations):
        """Checks points, values and variance, and returns them in the algebra's dtype.

        Outside XLA-compiled functions this also raises an error for a negative variance, for NaN,
        and for sizes that disagree and are known only when the function runs.
        """
        if isinstance(observations, dict):
            self._check_shapes({key: tensor.shape for key, tensor in observations.items()})
        else:
            self._check_shapes(observations)
        points, values, variance = (self._cast(observations[key]) for key in KEYS)
        sizes = same_sizes(
            f"{type(self).__name__} {self.name!r}: points, values and variance disagree on the "
            "number of examples or points:",
            *(points, values, variance),
        )
        with tf.control_dependencies(sizes):
            values, variance = tf.identity(values), tf.identity(variance)
        # One pass over the variance: 0.3 ms for 50 x 75 x 128 entries, no more than 2 % of a step.
        check = tf.debugging.Assert(
            tf.reduce_min(tf.stop_gradient(variance)) >= 0.0,  # the minimum keeps NaN
            [
                f"{type(self).__name__} {self.name!r}: variance is negative or NaN; it must be "
                ">= 0, or +inf where nothing is observed."
            ],
        )
        with tf.control_dependencies([] if check is None else [check]):
            return points, values, tf.identity(variance)

    def _fusion(self, training, channels, *points):
        """Context that compiles elementwise work in training steps on large feature maps.

        Small maps are left out, because compiling takes longer than it saves. So are batches whose
        number of points varies, because each number would be compiled anew.
        """
        known = all(p.shape[1] is not None for p in points)
        return fusion(training and known and points[-1].shape[1] * channels >= _FUSED_ENTRIES)

    def _check_shapes(self, shapes):
        """Returns d and c; raises ValueError unless ``shapes`` follows the input contract."""
        if not isinstance(shapes, dict) or set(shapes) - set(keys_beside()) != set(KEYS):
            found = sorted(shapes) if isinstance(shapes, dict) else type(shapes).__name__
            raise ValueError(
                f"{type(self).__name__} {self.name!r} takes a dict with the keys "
                f"{', '.join(KEYS)} (see tfpn.observations), found {found}."
            )
        for key in KEYS:
            if len(shapes[key]) != 3 or shapes[key][-1] is None:
                raise ValueError(
                    f"{type(self).__name__} {self.name!r}: {key} has shape {tuple(shapes[key])}; "
                    "expected three axes [B, N, channels or dimensions], the last of known size."
                )
        if tuple(shapes["values"]) != tuple(shapes["variance"]):
            raise ValueError(
                f"{type(self).__name__} {self.name!r}: values {tuple(shapes['values'])} and "
                f"variance {tuple(shapes['variance'])} must have the same shape."
            )
        for axis, what in enumerate(("examples", "points")):
            if len({shapes[key][axis] for key in KEYS} - {None}) > 1:
                raise ValueError(
                    f"{type(self).__name__} {self.name!r}: points {tuple(shapes['points'])} and "
                    f"values {tuple(shapes['values'])} disagree on the number of {what}."
                )
        self._check_shapes_beside(shapes)
        sizes = shapes["points"][-1], shapes["values"][-1]
        if self._built_for not in (None, sizes):
            raise ValueError(
                f"{type(self).__name__} {self.name!r} was built for {self._built_for[0]} "
                f"dimension(s) and {self._built_for[1]} channel(s), found points "
                f"{tuple(shapes['points'])} and values {tuple(shapes['values'])}."
            )
        return sizes

    def _check_shapes_beside(self, shapes):
        found = set(keys_beside()) & set(shapes)
        if len(found) > 1:
            raise ValueError(
                f"{type(self).__name__} {self.name!r} takes one of {keys_beside()}, found "
                f"{' and '.join(sorted(found))}."
            )
        for key in found:
            expected = carried_by(found).shape(shapes["values"], shapes[key])
            if not tf.TensorShape(shapes[key]).is_compatible_with(expected):
                raise ValueError(
                    f"{type(self).__name__} {self.name!r}: {key} has shape {tuple(shapes[key])}, "
                    f"expected {tuple(expected)} for values {tuple(shapes['values'])}."
                )

    def _read_beside(self, way, observations):
        """``beside`` of the observations (`tfpn.math.uncertainty.Uncertainty`), or None."""
        return way.read(self._cast(observations[way.key])) if way.key in observations else None

    def _output(self, points, values, variance, infinite, way=None, beside=None):
        """The contract's dict: ``infinite`` [B, N, 1 or c] is +inf where unobserved, 0 elsewhere.

        NaN never leaves quietly: outside XLA-compiled functions it raises an error with the
        layer's name.
        """
        output = {"points": points, "values": values, "variance": variance + infinite}
        seen = tf.reduce_min(infinite, axis=-1, keepdims=True) == 0.0
        found = tf.where(seen, points, 0.0), values, variance  # padding may lie anywhere
        if beside is None:
            self._check_finite(*found)
            return output
        self._check_finite(*found, beside)
        return {**output, way.key: way.write(beside)}

    def _check_finite(self, *tensors):
        """Raises tf.errors.InvalidArgumentError if a sum over a tensor is not finite."""
        total = tf.add_n([tf.reduce_sum(channel_sum(tf.stop_gradient(t))) for t in tensors])
        return tf.debugging.check_numerics(
            total,
            f"{type(self).__name__} {self.name!r} computed a result that is not finite: look for "
            "NaN, infinity or huge numbers in its weights, and in its input where it is observed",
        )

    def _spec(self, shape, way=None, given=None, **others):
        """Symbolic dict of values, variance and the strategy's further tensor.

        Args:
            shape: shape of the values.
            way: the strategy. The default has only variances.
            given: the input of the layer, which may hold the strategy's further tensor.
            others: tensors that pass through.
        """
        way = way or Diagonal()

        def spec(shape):
            return keras.KerasTensor(shape, dtype=self.algebra_dtype)

        output = {key: spec(tensor.shape) for key, tensor in others.items()}
        output |= {"values": spec(shape), "variance": spec(shape)}
        if way.key:
            beside = given[way.key].shape if way.key in (given or ()) else None
            output[way.key] = spec(way.shape(shape, beside))
        return output

    def _spec_like(self, observations, channels):
        """Symbolic output of ``channels`` channels with the same keys as the input."""
        shape = (*observations["values"].shape[:2], channels)
        way = carried_by(observations)
        return self._spec(shape, way, observations, points=observations["points"])


class GPPosteriorLayer(GPLayer):
    """A layer that conditions a GP prior of its own on the observations.

    It owns the prior's signal standard deviation and length scale (as logarithms), and optionally a
    learnable observation noise. It reports the mean negative log marginal likelihood over observed
    entries: times ``marginal_likelihood_weight`` by ``add_loss``, and without the weight as the
    metric ``<layer name>_nll``.
    """

    def __init__(
        self,
        *,
        length_scale: float,
        signal_std: float,
        observation_noise: float | None,
        noise: str,
        kernel: KernelLike,
        double_precision: bool,
        marginal_likelihood_weight: float,
        marginal_likelihood_trains: Trains,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.prior_kernel = kernel_config(kernel)
        self.double_precision = check_flag("double_precision", double_precision)
        self.length_scale = self._check_length("length_scale", length_scale)
        self.signal_std = check_positive("signal_std", signal_std)
        if observation_noise is not None:
            observation_noise = check_positive("observation_noise", observation_noise)
        self.observation_noise = observation_noise
        self.noise = check_choice("noise", noise, tuple(NOISE))
        self.marginal_likelihood_weight = check_number(
            "marginal_likelihood_weight", marginal_likelihood_weight, low=0.0
        )
        self.marginal_likelihood_trains = check_choice(
            "marginal_likelihood_trains", marginal_likelihood_trains, TRAINS
        )
        self.nll_tracker = None
        if self.marginal_likelihood_weight:
            self.nll_tracker = keras.metrics.Mean(name=f"{self.name}_nll", dtype="float32")

    @property
    def _own_noise(self):
        """Whether each channel has its own noise."""
        return NOISE[self.noise].each

    def _check_length(self, name, value):
        """``value`` as a float, unless float32 cannot hold the squares of the points' distances."""
        value = check_positive(name, value)
        if self.algebra_dtype == "float32" and not _LENGTHS[0] <= value <= _LENGTHS[1]:
            raise ValueError(
                f"{type(self).__name__} {self.name!r}: {name} must be from {_LENGTHS[0]:g} to "
                f"{_LENGTHS[1]:g} in float32, which cannot hold the squares of other distances; "
                f"found {value:g}. Give the points in another unit, or build with dtype='float64'."
            )
        return value

    def _build_prior(self, in_channels, each=False):
        """Adds the prior's weights; with ``each``, every channel has its own."""

        def log_weight(name, value, shape=()):
            return self.add_weight(
                name=name, shape=shape, initializer=keras.initializers.Constant(np.log(value))
            )

        shape = (in_channels,) if each else ()
        self.log_signal_std = log_weight("log_signal_std", self.signal_std, shape)
        self.log_length_scale = log_weight("log_length_scale", self.length_scale, shape)
        self.log_observation_noise = None
        if self.observation_noise is not None:
            shape = (in_channels,) if self._own_noise else ()
            self.log_observation_noise = log_weight(
                "log_observation_noise", self.observation_noise, shape
            )

    def _observed(self, points, values, variance):
        """The observations with the layer's prior, ready to be conditioned on."""
        observed = tf.reduce_any(tf.math.is_finite(variance), axis=-1, keepdims=True)
        check = tf.debugging.Assert(
            tf.reduce_all(tf.math.is_finite(points) | ~observed),
            [
                f"{type(self).__name__} {self.name!r}: points holds NaN or infinity where a value "
                "is observed; check it by tfpn.observations."
            ],
        )
        with tf.control_dependencies([] if check is None else [check]):
            values = tf.identity(values)
        noise = tf.zeros([], self.algebra_dtype)
        if self.log_observation_noise is not None:
            noise = tf.exp(2.0 * self._cast(self.log_observation_noise))
        return Observed(
            points,
            values,
            variance,
            self._kernel(),
            self.noise,
            noise,
            self.marginal_likelihood_trains,
            self.double_precision,
        )

    def _in_float64(self, points, values, variance):
        """`_observed` in float64, with the least noise variance of the layer's own dtype."""
        observed = self._observed(points, values, variance).cast(tf.float64)
        if self.algebra_dtype == "float64" or self.double_precision:
            return observed
        return dataclasses.replace(observed, floor_dtype=tf.float32)

    def _kernel(self):
        """The prior's kernel, by the layer's weights."""
        return Kernel(
            tf.exp(self._cast(self.log_signal_std)),
            tf.exp(self._cast(self.log_length_scale)),
            read_mixture(self.prior_kernel),
        )

    def _get_own_losses(self):
        """Keras's, for this replica only: replicas take turns, and Keras keeps one list."""
        here = replica_id()
        losses = super()._get_own_losses()
        return [loss for loss in losses if getattr(loss, "replica", here) == here]

    def _add_marginal_likelihood(self, nll, variance):
        if self.nll_tracker is None:
            return
        if not self._own_noise:  # all channels are observed together
            count = tf.math.is_finite(variance[..., 0])
            per_entry = variance.shape[-1]
        else:
            count = tf.math.is_finite(variance)
            per_entry = 1
        entries = per_entry * tf.reduce_sum(tf.cast(count, nll.dtype))
        # The mean is over the whole batch: replicas of a tf.distribute step have different entries.
        total, entries = replica_sum(tf.reduce_sum(nll), entries)
        mean = total / tf.maximum(entries, 1.0)
        # Keras adds up all losses in its own float type.
        loss = tf.cast(self.marginal_likelihood_weight * mean, keras.config.floatx())
        loss.replica = replica_id()
        self.add_loss(loss)
        # As Keras weighs a batch's loss in the mean over an epoch.
        self.nll_tracker.update_state(mean, sample_weight=tf.shape(variance)[0])

    def get_config(self) -> Config:
        return {
            **super().get_config(),
            "length_scale": self.length_scale,
            "signal_std": self.signal_std,
            "observation_noise": self.observation_noise,
            "noise": self.noise,
            "kernel": self.prior_kernel,
            "double_precision": self.double_precision,
            "marginal_likelihood_weight": self.marginal_likelihood_weight,
            "marginal_likelihood_trains": self.marginal_likelihood_trains,
        }
