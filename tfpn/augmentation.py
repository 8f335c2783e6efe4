"""Random changes of training examples that keep their labels."""

import math
import numbers
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from tfpn.checks import check_flag
from tfpn.contract import KEYS, check_observations
from tfpn.types import Array, Observations, Tensor

_WAVES = 16  # plane waves in an elastic displacement


def jitter(
    x: Observations,
    rng: np.random.Generator,
    *,
    rotation: float = 0.0,
    shift: float = 0.0,
    scale: float = 0.0,
    shear: float = 0.0,
    elastic: float = 0.0,
    elastic_length: float = 0.25,
    common: bool = False,
) -> dict[str, Array]:
    """Moves the points of each example by a random map of its own, affine and elastic.

    Let m be the mean of an example's observed points. A point p becomes A (p - m) + m + t + u(p),
    where

        A = [[cos a, -sin a], [sin a, cos a]] [[1, h], [0, 1]] diag(s_1, s_2)        (d = 2)
        A = diag(s_1, ..., s_d)                                                (any other d)

    The numbers a, h, each coordinate of t and the logarithm of each s_i are drawn independently
    and uniformly from [-range, range]. Their ranges are `rotation`, `shear`, `shift` and `scale`.
    Each coordinate of the displacement u is a smooth random function: a sum of 16 plane waves with
    random amplitudes, frequencies and phases. It has the mean 0 and the covariance
    elastic^2 exp(-|p - q|^2 / (2 elastic_length^2)). Values and variances stay as they are. A point
    without an observed channel (padding) does not move.

    Args:
        x: Observations, a dict of arrays "points" [B, N, d], "values" [B, N, c] and "variance"
            [B, N, c]. The function does not change them.
        rng: A `numpy.random.Generator`. Its state determines the result.
        rotation: Range of the angle a, in radians. For d = 2 only.
        shift: Range of each coordinate of t, in the units of the points.
        scale: Range of log s_i. With 0.05 each axis shrinks or grows by up to about 5 %.
        shear: Range of h. For d = 2 only.
        elastic: Standard deviation of each coordinate of u, in the units of the points. It should
            be well below `elastic_length`, or the map folds.
        elastic_length: Length scale of u, in the units of the points. The default is a quarter of
            the unit square's side.
        common: Whether one map moves all examples. Examples with the same points then keep the same
            points, which models with ``common_points=True`` need.

    Returns:
        Observations of the same shapes and dtypes: new points, and the arrays of values and
        variances that `x` holds.

    Raises:
        TypeError, ValueError: if `x` are not observations (`tfpn.contract.check_observations`).
        TypeError: if a range is not a number.
        ValueError: if `common` is not a bool; if a range is negative, NaN or infinite; if
            `rotation` or `shear` is not 0 and d is not 2; if `elastic_length` is 0; or if moved
            points are too large for their dtype.

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
    lengths = {"elastic": elastic, "elastic_length": elastic_length}
    for name, value in (ranges | lengths).items():
        check_range(name, value)
    if not elastic_length:
        raise ValueError("elastic_length: found 0; give a length above 0, such as 0.25.")
    check_flag("common", common)
    x = check_observations(x)
    points = x["points"]
    num_examples, _, dim = points.shape
    drawn = 1 if common else num_examples
    for name in ("rotation", "shear"):
        if dim != 2 and ranges[name]:
            raise ValueError(
                f"{name}: found {ranges[name]} for points in {dim} dimensions; it is defined in "
                "2 dimensions only. Leave it at 0."
            )

    observed = ~np.isposinf(x["variance"]).all(axis=-1, keepdims=True)
    count = np.maximum(observed.sum(axis=1, keepdims=True), 1)
    centre = np.where(observed, points, 0).sum(axis=1, keepdims=True, dtype=np.float64) / count

    # All numbers are drawn, even for ranges of 0: so one range does not alter the other draws.
    angle, skew = rng.uniform(-1, 1, (2, drawn)) * [[rotation], [shear]]
    factors = np.exp(scale * rng.uniform(-1, 1, (drawn, 1, dim)))
    offset = shift * rng.uniform(-1, 1, (drawn, 1, dim))
    if elastic:  # Drawn last, so that other draws do not depend on it.
        offset = offset + elastic * _smooth(points - centre, elastic_length, drawn, rng)
    moved = (points - centre) * factors
    if dim == 2:
        cos, sin = np.cos(angle)[:, None], np.sin(angle)[:, None]
        first, second = moved[..., 0] + skew[:, None] * moved[..., 1], moved[..., 1]
        moved = np.stack([cos * first - sin * second, sin * first + cos * second], axis=-1)
    with np.errstate(over="ignore", invalid="ignore"):
        moved = np.where(observed, (moved + centre + offset).astype(points.dtype), points)
    if not np.isfinite(moved).all():
        raise ValueError(
            f"The moved points are too large for {points.dtype}; give smaller ranges or points."
        )
    return {**x, "points": moved}


def _smooth(points, length, drawn, rng):
    """Random smooth functions of unit variance, one per coordinate, [B, N, d]; B or 1 are drawn."""
    dim = points.shape[-1]
    frequencies = rng.standard_normal((drawn, _WAVES, dim)) / length
    phases = rng.uniform(0, 2 * math.pi, (drawn, 1, _WAVES))
    amplitudes = rng.standard_normal((drawn, _WAVES, dim)) * math.sqrt(2 / _WAVES)
    return np.cos(points @ frequencies.swapaxes(1, 2) + phases) @ amplitudes


def thin(
    x: Observations,
    keep: Sequence[float] = (0.1, 1.0),
    rng: Any = None,
    *,
    whole: float = 0.125,
    drop_channels: float = 0.0,
    together: bool = False,
) -> dict[str, Tensor]:
    """Keeps a random part of each example's readings, like a sensor that is read less often.

    For each example the function draws a probability uniformly from ``keep``. Each reading stays
    with this probability, independently of the others. A dropped reading gets the variance +inf
    and the value 0. At least one reading of an example stays, if it had any. If you thin the
    examples anew in every epoch, the model learns to read series that are sparser than the
    training data, and how sure to be of them.

    Args:
        x: Observations, a dict of "points" [B, N, d], "values" [B, N, c] and "variance" [B, N, c].
            Leave out the first axis for one example. Give arrays, or tensors inside of
            `tf.data.Dataset.map`. Other entries, such as statics, stay as they are. The function
            does not change `x`.
        keep: (lowest, highest) share of the readings to keep, 0 < lowest <= highest <= 1.
        rng: The generator, whose state determines the result. For arrays give a
            `numpy.random.Generator`. For tensors give a `tf.random.Generator`, and make it outside
            of the mapped function, so that every epoch draws anew. With None, arrays take a new
            generator with a random seed, and tensors take TensorFlow's global one.
        whole: Probability that an example stays whole.
        drop_channels: Probability that a channel loses all its readings, like a dead sensor, in an
            example that does not stay whole. At least one channel with readings stays.
        together: Whether the channels of a point are kept or dropped together. Models with
            ``input_noise="shared"`` need this. Otherwise each reading is drawn on its own.

    Returns:
        A dict like `x`, with new values and variance of the same shapes and dtypes (float64 in
        place of integers).

    Raises:
        TypeError, ValueError: if arrays are not observations (`tfpn.contract.check_observations`).
        TypeError: if `rng` is of the wrong kind, or an argument is not a number.
        ValueError: if a key is missing, a shape is wrong, or a share or probability is out of
            range; or if `drop_channels` is not 0 with `together`.

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
        variance != math.inf,  # NaN stays, so that the model can report it.
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
    """Adds normal noise to the readings of random examples, and adds its variance to theirs.

    For each chosen example the function draws a standard deviation s uniformly from 0 to
    ``highest``. All readings of the example get independent noise of this s, and their variance
    grows by s^2. If you add noise anew in every epoch, the model learns what a given variance
    means, and how sure to be of readings less exact than the training data.

    Args:
        x: Observations as in `thin`: arrays or tensors, a batch or one example.
        highest: The largest standard deviation, in units of the values, such as 1.5 for
            standardised series. It holds for all channels, so bring them to one scale first.
        rng: As in `thin`.
        probability: Probability that an example gets noise.

    Returns:
        A dict like `x`, with new values and variance of the same shapes and dtypes (float64 in
        place of integers).

    Raises:
        TypeError, ValueError: as `thin`; or if `highest` is not a finite number of at least 0, or
            `probability` is not between 0 and 1.

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
        raise ValueError(f"probability: found {probability!r}; give a number from 0 to 1.")
    xp, entries, single, size, generator = _read(x, rng)
    draw = generator.random if xp is np else generator.uniform
    values, variance = entries["values"], entries["variance"]
    noised = draw((size[0], 1, 1)) < probability
    drawn = highest * draw((size[0], 1, 1))
    deviation = xp.where(noised, drawn, xp.zeros_like(drawn))
    with np.errstate(over="ignore"):
        square = np.square(np.float64(highest)).astype(_dtype(variance))
    if not np.isfinite(square):
        raise ValueError(
            f"highest: found {highest!r}, whose square {_dtype(variance)} cannot hold; give a "
            "smaller number."
        )
    normal = generator.standard_normal if xp is np else generator.normal
    noise = deviation * normal(size)
    noise, told = (
        xp.asarray(part, dtype=entry.dtype)
        for part, entry in ((noise, values), (deviation**2, variance))
    )
    seen = variance != math.inf
    result = {
        "values": values + xp.where(seen, noise, xp.zeros_like(noise)),
        "variance": variance + told,
    }
    return _changed(x, result, single)


def _read(x, rng):
    """Reads the arguments of `thin` and `add_noise`.

    Returns:
        NumPy or TensorFlow's NumPy; the observations as a batch; whether they were one example;
        the shape of the variance; and the generator of random numbers.
    """
    missing = [key for key in KEYS if key not in x]
    if missing:
        raise ValueError(f"x: found no {', '.join(missing)}; give the dict of tfpn.observations.")
    tf: Any = sys.modules.get("tensorflow")  # If it is not loaded, nothing is a tensor.
    symbolic = tf is not None and any(tf.is_tensor(x[key]) for key in KEYS)
    entries = {key: tf.convert_to_tensor(x[key]) if symbolic else x[key] for key in KEYS}
    single = len(np.shape(entries["variance"])) == 2
    if single:
        add_axis = (lambda a: a[None]) if symbolic else (lambda a: np.asarray(a)[None])
        entries = {key: add_axis(entry) for key, entry in entries.items()}
    if not symbolic:
        generator = _array_generator(rng)
        entries = _floating(np, check_observations(entries))
        return np, entries, single, entries["variance"].shape, generator
    generator = _tensor_generator(tf, rng)
    ranks = {key: entries[key].shape.rank for key in KEYS}
    if set(ranks.values()) != {3}:
        raise ValueError(
            f"x: found {ranks} axes; give points [B, N, d], values and variance [B, N, c], or "
            "one example without the first axis."
        )
    entries = _floating(tf.experimental.numpy, entries)
    return tf.experimental.numpy, entries, single, tf.shape(entries["variance"]), generator


def _floating(xp, entries):
    """Values and variance as floats: integers have no +inf for what is not observed."""
    return {
        key: xp.asarray(entry, dtype=np.float64) if _dtype(entry).kind in "biu" else entry
        for key, entry in entries.items()
    }


def _dtype(entry):
    """The NumPy dtype of an array or tensor."""
    return np.dtype(getattr(entry.dtype, "as_numpy_dtype", entry.dtype))


def _changed(x, result, single):
    """``x`` with new entries, without the batch axis if `_read` added it."""
    return {**x, **{key: entry[0] if single else entry for key, entry in result.items()}}


def _kept(xp, observed, *, is_whole, share, readings, channels, drop_channels):
    """Whether each reading stays, [B, N, c].

    The uniform draws have the shapes [B, 1, 1] (``share``), [B, N, 1 or c] (``readings``) and
    [B, 1, c] (``channels``).
    """
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
            f"rng: found {type(rng).__name__} for tensors; it would draw once for all batches. "
            "Give a tf.random.Generator."
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
        raise ValueError(f"whole: found {whole!r}; give a probability from 0 to 1.")
    if drop_channels >= 1:
        raise ValueError(f"drop_channels: found {drop_channels!r}; give a probability below 1.")
    if drop_channels and together:
        raise ValueError(
            f"drop_channels: found {drop_channels!r} with together=True, which drops all channels "
            "of a point together. Leave drop_channels at 0."
        )
    return low, high


def check_range(name: str, value: Any) -> None:
    """Checks that an argument is a finite number of at least 0."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise TypeError(f"{name}: found {value!r}; give a number.")
    if not 0 <= float(value) < math.inf:
        raise ValueError(f"{name}: found {value!r}; give a finite number of at least 0.")
