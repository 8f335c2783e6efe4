"""Random changes of training examples that keep their labels."""

import math
import numbers
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from tfpn.contract import KEYS, check_observations
from tfpn.types import Array, Observations, Tensor


def jitter(
    x: Observations,
    rng: np.random.Generator,
    *,
    rotation: float = 0.0,
    shift: float = 0.0,
    scale: float = 0.0,
    shear: float = 0.0,
) -> dict[str, Array]:
    """Moves the points of each example by a random affine map of its own.

    With m the mean of an example's observed points, a point p becomes A (p - m) + m + t, where

        A = [[cos a, -sin a], [sin a, cos a]] [[1, h], [0, 1]] diag(s_1, s_2)        (d = 2)
        A = diag(s_1, ..., s_d)                                                (any other d)

    and a, h, each coordinate of t and the logarithm of each s_i are drawn independently and
    uniformly from [-range, range], the range being `rotation`, `shear`, `shift` and `scale`.
    Values and variances stay as they are, and so does padding: a point at which no channel is
    observed is not moved.

    Args:
        x: Observations, a dict of arrays "points" [B, N, d], "values" [B, N, c] and "variance"
            [B, N, c]. They are not changed.
        rng: A `numpy.random.Generator`; what it gives next determines the result.
        rotation: Range of the angle a in radians; d = 2 only.
        shift: Range of each coordinate of t, in the units of the points.
        scale: Range of log s_i: 0.05 lets each axis shrink or grow by about 5 %.
        shear: Range of h; d = 2 only.

    Returns:
        Observations of the same shapes and dtypes: new points, and the values and variances of
        `x` themselves.

    Raises:
        TypeError, ValueError: if `x` are not observations (`tfpn.contract.check_observations`).
        TypeError: if a range is not a number.
        ValueError: if a range is negative, NaN or infinite, if `rotation` or `shear` is not 0 and d
            is not 2, or if moved points are too large for their dtype.

    Example:
        >>> import numpy as np
        >>> import tfpn
        >>> x = tfpn.observations([[[0.0, 0.0], [1.0, 0.0]]], [[3.0, 4.0]])
        >>> moved = tfpn.augmentation.jitter(x, np.random.default_rng(0), rotation=0.1)
        >>> bool(np.isclose(np.linalg.norm(moved["points"][0, 1] - moved["points"][0, 0]), 1))
        True
        >>> moved["points"].mean(axis=1)  # A rotation keeps the centre.
        array([[0.5, 0. ]])
    """
    ranges = {"rotation": rotation, "shift": shift, "scale": scale, "shear": shear}
    for name, value in ranges.items():
        check_range(name, value)
    x = check_observations(x)
    points = x["points"]
    num_examples, _, dim = points.shape
    for name in ("rotation", "shear"):
        if dim != 2 and ranges[name]:
            raise ValueError(
                f"{name}: found {ranges[name]} for points in {dim} dimensions; it is defined in "
                "2 dimensions only, leave it at 0."
            )

    observed = ~np.isposinf(x["variance"]).all(axis=-1, keepdims=True)
    count = np.maximum(observed.sum(axis=1, keepdims=True), 1)
    centre = np.where(observed, points, 0).sum(axis=1, keepdims=True, dtype=np.float64) / count

    # Everything is drawn whatever the ranges are, so that one range does not alter the others.
    angle, skew = rng.uniform(-1, 1, (2, num_examples)) * [[rotation], [shear]]
    factors = np.exp(scale * rng.uniform(-1, 1, (num_examples, 1, dim)))
    offset = shift * rng.uniform(-1, 1, (num_examples, 1, dim))
    moved = (points - centre) * factors
    if dim == 2:
        cos, sin = np.cos(angle)[:, None], np.sin(angle)[:, None]
        first, second = moved[..., 0] + skew[:, None] * moved[..., 1], moved[..., 1]
        moved = np.stack([cos * first - sin * second, sin * first + cos * second], axis=-1)
    with np.errstate(over="ignore", invalid="ignore"):
        moved = np.where(observed, (moved + centre + offset).astype(points.dtype), points)
    if not np.isfinite(moved).all():
        raise ValueError(
            f"the moved points are too large for {points.dtype}; give smaller ranges or points."
        )
    return {**x, "points": moved}


def thin(
    x: Observations,
    keep: Sequence[float] = (0.1, 1.0),
    rng: Any = None,
    *,
    whole: float = 0.125,
    drop_channels: float = 0.0,
    together: bool = False,
) -> dict[str, Tensor]:
    """Keeps a random part of each example's readings, as a sensor that is read less often would.

    Of each example a share, drawn uniformly from ``keep``, is kept: every reading stays with that
    probability, independently. What is dropped gets the variance +inf and the value 0. At least
    one reading of an example stays, if it had any. A model trained on examples thinned anew in
    every epoch learns what to make of series that are sparser than those it was trained on, and
    how sure to be of them.

    Args:
        x: Observations, a dict of "points" [B, N, d], "values" [B, N, c] and "variance" [B, N, c],
            or of one example, without the first axis. Arrays, or tensors as inside of
            `tf.data.Dataset.map`. Other entries, such as statics, are handed on. `x` is not
            changed.
        keep: (lowest, highest) share of the readings to keep, 0 < lowest <= highest <= 1.
        rng: What it gives next determines the result: a `numpy.random.Generator` for arrays; for
            tensors a `tf.random.Generator`, made outside of the function that is mapped, so that
            every epoch draws anew. None draws from one that nobody can repeat.
        whole: Probability that an example stays whole.
        drop_channels: Probability that a channel of an example that does not stay whole loses all
            readings, as of a dead sensor. One channel that has readings stays.
        together: Whether the channels of a point are kept or dropped together, as models with
            ``input_noise="shared"`` need it; else each reading is on its own.

    Returns:
        A dict like `x`, with new values and variance of the same shapes and dtypes.

    Raises:
        TypeError, ValueError: if arrays are not observations (`tfpn.contract.check_observations`).
        TypeError: if `rng` is of the other kind, or an argument is not a number.
        ValueError: if a key is missing, a shape is wrong or a share or probability is out of range;
            if `drop_channels` is not 0 with `together`.

    Example:
        >>> import numpy as np
        >>> import tfpn
        >>> x = tfpn.observations(np.linspace(0, 1, 100)[None, :, None], np.ones((1, 100)))
        >>> thinned = tfpn.augmentation.thin(x, (0.2, 0.2), np.random.default_rng(0), whole=0)
        >>> int(np.isfinite(thinned["variance"]).sum())
        19

        In a pipeline, on batches or on examples:

        >>> import tensorflow as tf
        >>> rng = tf.random.Generator.from_seed(0)
        >>> batches = tf.data.Dataset.from_tensors(x).map(
        ...     lambda x: tfpn.augmentation.thin(x, (0.2, 0.2), rng, whole=0))
        >>> [int(np.isfinite(batch["variance"]).sum()) for epoch in (1, 2) for batch in batches]
        [16, 25]
    """
    low, high = check_thinning(keep, whole, drop_channels, together)
    xp, entries, single, size, generator = _read(x, rng)
    draw = generator.random if xp is np else generator.uniform
    examples, points, channels = size[0], size[1], size[2]
    variance = entries["variance"]
    kept = _kept(
        xp,
        variance != math.inf,  # NaN is an error that a model reports; it is not hidden here.
        is_whole=draw((examples, 1, 1)) < whole,
        share=low + (high - low) * draw((examples, 1, 1)),
        readings=draw((examples, points, 1 if together else channels)),
        channels=draw((examples, 1, channels)),
        drop_channels=drop_channels,
    )
    result = {
        "values": xp.where(kept, entries["values"], xp.zeros_like(entries["values"])),
        "variance": xp.where(kept, variance, xp.full_like(variance, math.inf)),
    }
    return _changed(x, result, single)


def add_noise(
    x: Observations,
    highest: float,
    rng: Any = None,
    *,
    probability: float = 0.3,
) -> dict[str, Tensor]:
    """Adds noise to the readings of random examples, and tells its variance.

    Of each such example a standard deviation, drawn uniformly from 0 to ``highest``, is that of
    the independent normal noise of all its readings; its square is added to their variance. A
    model trained on examples noised anew in every epoch learns what a told variance means, and how
    sure to be of readings less exact than those it was trained on.

    Args:
        x: Observations as in `thin`, arrays or tensors, a batch or one example.
        highest: of the standard deviations, in units of the values, whose channels should
            therefore be of about one size; 1.5 for standardised series.
        rng: as in `thin`.
        probability: that an example gets noise.

    Returns:
        A dict like `x`, with new values and variance of the same shapes and dtypes.

    Raises:
        TypeError, ValueError: as `thin`; if `highest` is no finite number of at least 0, or
            `probability` none from 0 to 1.

    Example:
        >>> import numpy as np
        >>> import tfpn
        >>> x = tfpn.observations(np.linspace(0, 1, 100)[None, :, None], np.ones((1, 100)))
        >>> noisy = tfpn.augmentation.add_noise(x, 1.0, np.random.default_rng(0), probability=1)
        >>> ratio = np.std(noisy["values"]) / np.sqrt(noisy["variance"][0, 0, 0])
        >>> bool(0.8 < ratio < 1.2)
        True
    """
    check_range("highest", highest)
    check_range("probability", probability)
    if probability > 1:
        raise ValueError(f"probability: found {probability!r}; give one from 0 to 1.")
    xp, entries, single, size, generator = _read(x, rng)
    draw = generator.random if xp is np else generator.uniform
    values, variance = entries["values"], entries["variance"]
    noised = draw((size[0], 1, 1)) < probability
    drawn = highest * draw((size[0], 1, 1))
    deviation = xp.where(noised, drawn, xp.zeros_like(drawn))
    normal = generator.standard_normal if xp is np else generator.normal
    noise = deviation * normal(size)
    noise, told = (xp.asarray(part, dtype=values.dtype) for part in (noise, deviation**2))
    seen = variance != math.inf
    result = {
        "values": values + xp.where(seen, noise, xp.zeros_like(noise)),
        "variance": variance + told,
    }
    return _changed(x, result, single)


def _read(x, rng):
    """NumPy or TensorFlow's, the observations as a batch, whether they were one example, the
    variance's shape, and the generator of random numbers."""
    missing = [key for key in KEYS if key not in x]
    if missing:
        raise ValueError(f"x: found no {', '.join(missing)}; give the dict of tfpn.observations.")
    tf: Any = sys.modules.get("tensorflow")  # Without it nothing is a tensor.
    symbolic = tf is not None and any(tf.is_tensor(x[key]) for key in KEYS)
    entries = {key: tf.convert_to_tensor(x[key]) if symbolic else x[key] for key in KEYS}
    single = len(np.shape(entries["variance"])) == 2
    if single:
        add_axis = (lambda a: a[None]) if symbolic else (lambda a: np.asarray(a)[None])
        entries = {key: add_axis(entry) for key, entry in entries.items()}
    if not symbolic:
        generator = _array_generator(rng)
        entries = check_observations(entries)
        return np, entries, single, entries["variance"].shape, generator
    generator = _tensor_generator(tf, rng)
    ranks = {key: entries[key].shape.rank for key in KEYS}
    if set(ranks.values()) != {3}:
        raise ValueError(
            f"x: found {ranks} axes; give points [B, N, d], values and variance [B, N, c], or "
            "an example of them without the first axis."
        )
    return tf.experimental.numpy, entries, single, tf.shape(entries["variance"]), generator


def _changed(x, result, single):
    """``x`` with new entries, without the batch's axis where it was added."""
    return {**x, **{key: entry[0] if single else entry for key, entry in result.items()}}


def _kept(xp, observed, *, is_whole, share, readings, channels, drop_channels):
    """Which readings stay [B, N, c], by uniform draws: [B, 1, 1], [B, N, 1 or c], [B, 1, c]."""
    seen = observed.any(axis=1, keepdims=True) if xp is np else xp.any(observed, 1, keepdims=True)
    channels = xp.where(seen, channels, xp.full_like(channels, -1.0))
    alive = (channels >= drop_channels) | (channels >= xp.max(channels, 2, keepdims=True))
    candidates = observed & alive
    readings = xp.where(candidates, readings, xp.full_like(readings + channels, 2.0))
    lowest = xp.min(readings, axis=(1, 2), keepdims=True)
    return observed & (is_whole | (candidates & ((readings < share) | (readings <= lowest))))


def _array_generator(rng):
    rng = np.random.default_rng() if rng is None else rng
    if not isinstance(rng, np.random.Generator):
        raise TypeError(
            f"rng: found {type(rng).__name__} for arrays; give a numpy.random.Generator."
        )
    return rng


def _tensor_generator(tf, rng):
    rng = tf.random.get_global_generator() if rng is None else rng
    if not isinstance(rng, tf.random.Generator):
        raise TypeError(
            f"rng: found {type(rng).__name__} for tensors, which would draw once for all batches; "
            "give a tf.random.Generator."
        )
    return rng


def check_thinning(
    keep: Any, whole: Any = 0.125, drop_channels: Any = 0.0, together: bool = False
) -> tuple[float, float]:
    """Checks the arguments of `thin` and returns the lowest and the highest share."""
    if isinstance(keep, (str, bytes)) or not hasattr(keep, "__len__") or len(keep) != 2:
        raise ValueError(f"keep: found {keep!r}; give two shares (lowest, highest).")
    for name, value in (
        *(("keep", share) for share in keep),
        *(("whole", whole), ("drop_channels", drop_channels)),
    ):
        check_range(name, value)
    low, high = map(float, keep)
    if not 0 < low <= high <= 1:
        raise ValueError(f"keep: found {keep!r}; give 0 < lowest <= highest <= 1.")
    if whole > 1:
        raise ValueError(f"whole: found {whole!r}; give a probability, from 0 to 1.")
    if drop_channels >= 1:
        raise ValueError(f"drop_channels: found {drop_channels!r}; give a probability below 1.")
    if drop_channels and together:
        raise ValueError(
            f"drop_channels: found {drop_channels!r} with together=True, where a channel cannot be "
            "missing alone; leave it at 0."
        )
    return low, high


def check_range(name: str, value: Any) -> None:
    """Checks that an argument is a finite number of at least 0."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise TypeError(f"{name}: found {value!r}; give a number.")
    if not 0 <= float(value) < math.inf:
        raise ValueError(f"{name}: found {value!r}; give a finite number of at least 0.")
