"""Priors that later layers may be given in the calibration benchmark, other than their own."""

import dataclasses

import numpy as np

# Least noise variance of observations that the layers resolve, in units of the signal's variance.
FLOORS = {"float32": 3e-5, "float64": 1e-12}


@dataclasses.dataclass(frozen=True)
class Prior:
    """What a later layer takes its input for: besides the RBF kernel, mean and nugget."""

    mean: np.ndarray
    nugget: float

    @classmethod
    def of(cls, convolution, parts, variant):
        """As the variant says, from the layer's input; sets the layer's kernel too."""
        values, variance = (
            np.concatenate([np.asarray(part[key]) for part in parts])
            for key in ("values", "variance")
        )
        mean = values.mean(axis=(0, 1), dtype=np.float64) * variant.centred
        nugget = variant.nugget
        if isinstance(variant.length, str):
            variance = variance * (variant.length == "fit")
            points = np.concatenate([np.asarray(part["points"]) for part in parts])
            fitted = fit_prior(points, values - mean, variance, nugget, convolution)
            convolution.log_length_scale.assign(fitted[0])
            convolution.log_signal_std.assign(fitted[1])
            nugget = np.exp(2 * fitted[2]) if variant.nugget else 0.0
        else:
            convolution.log_length_scale.assign_add(np.log(variant.length))
            nugget *= np.mean(np.square(values))
        return cls(mean, nugget)


def fit_prior(points, values, variance, nugget, convolution, examples=16):
    """Logs of length scale, signal and nugget's standard deviation of largest likelihood.

    Training's L_GP does the same through gradients: noise shared by the channels.
    """
    import scipy.optimize
    import scipy.spatial

    points, values, variance = points[:examples], values[:examples], variance[:examples]
    squared = np.stack([scipy.spatial.distance.cdist(p, p, "sqeuclidean") for p in points])
    noise = variance.mean(axis=-1)

    def loss(logs):
        kernel = np.exp(2 * logs[1] - squared / (2 * np.exp(2 * logs[0])))
        added = np.exp(2 * logs[2]) if nugget else 0.0
        diagonal = np.maximum(noise + added, 1e-9 * np.exp(2 * logs[1]))
        factor = np.linalg.cholesky(kernel + diagonal[..., None] * np.eye(noise.shape[1]))
        log_det = np.log(np.diagonal(factor, axis1=-2, axis2=-1)).sum()
        return 0.5 * np.square(np.linalg.solve(factor, values)).sum() + values.shape[-1] * log_det

    start = [float(convolution.log_length_scale), 0.0, np.log(0.05)]
    found = scipy.optimize.minimize(
        loss, start, method="Nelder-Mead", options={"xatol": 0.02, "fatol": 1.0, "maxiter": 150}
    )
    return found.x


def later_convolution(convolution, x, variant, prior):
    """A convolution after the first, with the variant's changes; one of `Network.in_mode`."""
    import tensorflow as tf

    x = dict(x, values=x["values"] - prior.mean)
    if variant.mode != "joint":
        x["variance"] = x["variance"] + prior.nugget  # what the factors leave grows
        y = convolution(x)
    else:
        y = _joint_with_nugget(convolution, x, prior.nugget) if prior.nugget else convolution(x)
    if variant.drawn:
        y["factors"] = tf.concat([y["factors"], _drawn(convolution, x, variant.drawn)], axis=-1)
    mean = tf.constant(
        prior.mean, y["values"].dtype
    )  # a constant is what every flow leaves as it is
    y["values"] += tf.tensordot(mean, tf.reduce_sum(convolution.kernel_parameters(), 0), 1)
    return y


def _drawn(convolution, x, count):
    """Leading factors of the layer's own posterior covariance, part of the remainder so far."""
    import tensorflow as tf

    from tfpn.math.uncertainty import LowRank
    from tfpn.math.uncertainty.low_rank import remainder_variance

    way = LowRank(count)
    remainder = remainder_variance(x["variance"], way.read(x["factors"]))
    observed = convolution._observed(x["points"], x["values"], remainder)
    floor = FLOORS[convolution.algebra_dtype] * observed.kernel.variance
    # In float64, as rounding in float32 may exceed this covariance's small eigenvalues.
    observed = dataclasses.replace(observed, variance=tf.maximum(remainder, floor)).cast(tf.float64)
    operator = tf.nest.map_structure(
        lambda tensor: tf.cast(tensor, tf.float64), convolution._operator(x["points"])
    )
    missing = tf.zeros_like(operator.query[..., :1])
    factors = way.convolve(observed, operator, None, missing)[2]
    return tf.cast(way.write(factors), convolution.algebra_dtype)


def _joint_with_nugget(convolution, x, nugget):
    """The joint convolution of values that are a GP plus independent errors of known variance."""
    import tensorflow as tf

    from tfpn.math.uncertainty import Joint

    observed = convolution._observed(x["points"], x["values"], x["variance"])
    observed = dataclasses.replace(observed, noise="shared", observation_variance=nugget)
    missing = tf.zeros_like(x["points"][..., :1])
    mean, variance, covariance, _ = Joint().convolve(
        observed, convolution._operator(x["points"]), x["covariance"], missing
    )
    return {"points": x["points"], "values": mean, "variance": variance, "covariance": covariance}
