"""The spacing of points, and lattices of drifts."""

import itertools
import math

import numpy as np
from scipy import spatial

# So many examples and points are read: the median settles long before.
_EXAMPLES = 256
_POINTS = 2048

# Two readings of one channel gradually count as a repetition below these distances, in parts of
# the readings' mean distance and of the largest example's extent. Clocks and instruments differ in
# their last digits.
_REPEATED = 0.001
_SAME = 1e-6

# Readings of different channels gradually count as one point below this part of the spacing within
# channels. Many instruments read their channels one after the other.
_TOGETHER = 0.1


def point_spacing(points, variance):
    """Median distance of an observed point to its second nearest neighbour in the same example.

    On a lattice this is the lattice's step. The nearest neighbour of a random point is often much
    nearer than is typical. The second nearest is at about the step of a lattice of the same
    density.

    Distances are straight, also between places on a sphere, because kernels measure that way.

    Points have weights, so that the result is continuous in the points. Readings of one channel at
    one place count once. Near readings count gradually less than twice, within a thousandth of the
    example's extent divided by its readings (or a millionth of the largest example's extent).
    Readings of different channels share the weight of one point within a tenth of the spacing of
    readings of the same channel. So channels that are read one after the other give the same
    spacing as channels that are read at once. The second neighbour is at the distance within which
    the weights sum to 3, with the point itself. The median is weighted. Both are interpolated.

    Args:
        points: array [B, N, d].
        variance: array [B, N, c], +inf where a channel is not observed. Points without a finite
            entry are padding.

    Returns:
        A float, in units of the points. For only two points it is their distance. At most 256
        examples, evenly spread, and 2048 points of each are read.

    Raises:
        ValueError: if no example has two distinct observed points, or if their distances are too
            large or too small to be squared in float64.

    Example:

    >>> import numpy as np
    >>> grid = np.linspace(0, 1, 11)[None, :, None]
    >>> round(point_spacing(grid, np.zeros_like(grid)), 6)
    0.1
    >>> pairs = np.repeat(grid, 2, axis=1) + [[[0.0], [0.001]] * 11]  # two channels, in turn
    >>> round(point_spacing(pairs, np.where(np.eye(2), 0.0, np.inf)[[0, 1] * 11][None]), 2)
    0.1
    """
    examples = _weighted_points(points, variance)
    if not examples:
        raise ValueError(
            "no example has two distinct observed points, so their spacing cannot be measured; "
            "give `spacing` to the layer or model instead of calling adapt()."
        )
    # All who use the spacing square it, so the square must not overflow or vanish.
    with np.errstate(over="ignore", under="ignore"):
        spacing = float(np.sqrt(np.square(_median_distance(examples))))
    if not 0.0 < spacing < np.inf:
        raise ValueError(
            f"the points' spacing comes out as {spacing}: their distances are too large or too "
            "small to be squared; give the points in another unit."
        )
    return spacing


def point_extent(points, variance):
    """Median over examples of the longest side of the box that holds the observed points.

    Args:
        points, variance: as in `point_spacing`, which reads the same examples.

    Returns:
        A float, in units of the points; 0 if no example has two distinct observed points.

    Example:

    >>> import numpy as np
    >>> points = np.array([[[0.0, 0.0], [1.0, 3.0]]])
    >>> point_extent(points, np.zeros((1, 2, 1)))
    3.0
    """
    examples = _weighted_points(points, variance)
    sides = [np.ptp(places, axis=0).max() for places, _ in examples]
    return _median(sides, [_share(weights) for _, weights in examples]) if sides else 0.0


def typical_number(points, variance):
    """Median over examples of the number of distinct observed points.

    Args:
        points, variance: as in `point_spacing`, which reads the same examples and gives near
            points the same weights.

    Returns:
        A float; 1 if no example has two distinct observed points.

    Example:

    >>> import numpy as np
    >>> points = np.array([[[0.0], [0.0], [1.0]]])
    >>> typical_number(points, np.zeros((1, 3, 1)))
    2.0
    """
    examples = _weighted_points(points, variance)
    numbers = [weights.sum() for _, weights in examples]
    return _median(numbers, [_share(weights) for _, weights in examples]) if numbers else 1.0


def _weighted_points(points, variance):
    """Places and weights of some examples: those that count as more than one point.

    The weight of a place is the number of points that it counts as: 1 if it is alone.
    """
    examples = []
    for index in np.unique(
        np.linspace(0, len(points) - 1, min(len(points), _EXAMPLES)).astype(int)
    ):
        observed = np.isfinite(variance[index])
        some = observed.any(axis=-1)
        places, of = np.unique(
            np.asarray(points[index][some], np.float64), axis=0, return_inverse=True
        )
        if len(places) > 1:
            counts = np.zeros((len(places), observed.shape[-1]))
            np.add.at(counts, of.ravel(), observed[some])
            examples.append((places, counts))
    if not examples:
        return []
    extent = max(np.ptp(places, axis=0).max() for places, _ in examples)
    channels = [_once(places, counts, extent) for places, counts in examples]
    width = 0.0
    if any((counts == 0).any() for _, counts in examples):
        width = _TOGETHER * _median_distance(
            (places[counts[:, c] > 0], weights[counts[:, c] > 0, c])
            for (places, counts), weights in zip(examples, channels, strict=True)
            for c in range(counts.shape[1])
        )
    weighted = [
        (places, weights.sum(axis=1) / _channels_at(places, weights, width))
        for (places, _), weights in zip(examples, channels, strict=True)
    ]
    return [example for example in weighted if _share(example[1]) > 0.0]


def _once(places, counts, extent):
    """Weights [n, c] of each channel's readings; repetitions share the weight 1."""
    weights = (counts > 0).astype(float)
    # The unit is the example's side, because squares of huge distances overflow.
    side = np.ptp(places, axis=0).max()
    places = places / side
    totals = counts.sum(axis=0)
    widths = np.maximum(_REPEATED / np.maximum(totals, 1.0), _SAME * (extent / side))
    # In most data no two places are so near, and the loop is empty.
    apart = spatial.cKDTree(places).query(places, k=2)[0][:, 1].min()
    for c in np.flatnonzero((totals > 1) & (widths > apart)):
        here = np.flatnonzero(counts[:, c])
        number = counts[here, c]
        first, second, near = _near_pairs(places[here], widths[c])
        crowd = number.copy()
        np.add.at(crowd, first, near * number[second])
        np.add.at(crowd, second, near * number[first])
        weights[here, c] = number / crowd
    return weights


def _channels_at(places, readings, width):
    """Number of channels whose readings share a point at each place, [n].

    This is the number of readings near the place, divided by that of the most frequent channel
    there. The count of near readings falls gradually with the distance.
    """
    if (readings > 0).all():
        return np.full(len(places), float(readings.shape[1]))
    near = readings.copy()
    if width > 0.0:
        first, second, nearness = _near_pairs(places, width)
        np.add.at(near, first, nearness[:, None] * readings[second])
        np.add.at(near, second, nearness[:, None] * readings[first])
    return near.sum(axis=1) / near.max(axis=1)


def _near_pairs(places, width):
    """Pairs of places nearer than ``width``, and how near they are: 1 if they coincide."""
    tree = spatial.cKDTree(places / width)
    first, second = tree.query_pairs(1.0, output_type="ndarray").T
    return first, second, _nearness(np.linalg.norm(tree.data[first] - tree.data[second], axis=1))


def _nearness(distance):
    """1 at distance 0 and 0 from 1 on, flat at both, like the weights of `tfpn.math.readings`."""
    square = np.minimum(distance, 1.0) ** 2
    return 1.0 - square**2 * (3.0 - 2.0 * square)


def _share(weights):
    """How far an example tells a distance: 0 for one point, 1 for two or more."""
    return float(np.clip(weights.sum() - 1.0, 0.0, 1.0))


def _median_distance(examples):
    """Weighted median of the points' distances to their second neighbours, or 0."""
    distances, shares = [], []
    for places, weights in examples:
        share = _share(weights)
        if share > 0.0:
            some = np.arange(0, len(places), -(-len(places) // _POINTS))
            distances.append(_second_neighbours(places, weights, some))
            shares.append(weights[some] * share)
    return _median(np.concatenate(distances), np.concatenate(shares)) if distances else 0.0


def _second_neighbours(places, weights, some):
    """Distance from each of ``some`` within which the weights of all places sum to 3."""
    side = np.ptp(places, axis=0).max()  # the unit, because squares of huge distances overflow
    places = places / side
    tree, found, size = spatial.cKDTree(places), np.empty(len(some)), 4
    wanted = min(3.0, weights.sum())
    left = np.arange(len(some))
    while len(left):
        size = min(2 * size, len(places))
        distances, neighbours = tree.query(places[some[left]], k=size)
        reached = np.cumsum(weights[neighbours], axis=1)
        # A rounded sum must not choose the next neighbour.
        enough = reached >= wanted * (1.0 - 1e-12)
        enough[:, -1] |= size == len(places)
        done = np.flatnonzero(enough[:, -1])
        last = enough[done].argmax(axis=1)
        (low, high), (near, far) = (
            (array[done, np.maximum(last - 1, 0)], array[done, last])
            for array in (reached, distances)
        )
        part = np.clip((wanted - low) / np.maximum(high - low, 1e-12), 0.0, 1.0)
        found[left[done]] = near + part * (far - near)
        left = np.delete(left, done)
    return side * found


def _median(values, weights):
    """Interpolated weighted median. For equal weights it is NumPy's median."""
    order = np.argsort(values)
    values, weights = np.asarray(values)[order], np.asarray(weights)[order]
    middle = np.cumsum(weights) - weights / 2
    return float(np.interp(np.sum(weights) / 2, middle, values))


def lattice(count, dim):
    """The ``count`` points of the integer lattice in ``dim`` dimensions nearest the origin.

    They are sorted by distance, and at equal distance by coordinates. 3^d points in one or two
    dimensions are the neighbourhood of a 3-wide convolution.

    Returns:
        float array [count, dim].

    Example:

    >>> lattice(3, 1).ravel().tolist()
    [0.0, -1.0, 1.0]
    """
    # The search goes shell by shell: a cube about the origin has at least 3^dim points.
    norms = itertools.count() if dim > 1 else (radius**2 for radius in itertools.count())
    points = itertools.chain.from_iterable(_shell(norm, dim) for norm in norms)
    return np.array(list(itertools.islice(points, count)), float)


def _shell(norm, dim):
    """Yields the lattice points at the square distance ``norm``, sorted by coordinates."""
    if not norm:
        yield (0,) * dim
        return
    root = math.isqrt(norm)
    # Points sort by their first coordinate that is not 0: negative ones first, positive ones last.
    places = [(place, range(-root, 0)) for place in range(dim)]
    places += [(place, range(1, root + 1)) for place in reversed(range(dim))]
    for place, numbers in places:
        for first in numbers:
            for others in _shell(norm - first**2, dim - place - 1):
                yield (0,) * place + (first, *others)
