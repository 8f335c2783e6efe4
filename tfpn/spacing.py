"""The points' own spacing, and lattices of drifts."""

import itertools
import math

import numpy as np
from scipy import spatial

# Examples and points looked at: the median settles long before.
_EXAMPLES = 256
_POINTS = 2048

# Points nearer than this part of the examples' extent are one: clocks and instruments differ in
# their last digits, and float32 has no more than ten such steps.
_SAME = 1e-6


def point_spacing(points, variance):
    """Median distance of an observed point to its second nearest neighbour in the same example.

    On a lattice this is the lattice's step, as the nearest neighbour's distance is; on random
    points, where the nearest is often much nearer than is typical, it stays close to the step of
    a lattice of the same density.

    Args:
        points: array [B, N, d].
        variance: array [B, N, c]; points with no finite entry are padding.

    Returns:
        A float, in units of the points. Points that coincide, to a millionth of the largest
        example's extent, count once; of two points alone it is their distance. At most 256
        examples, evenly spread, and 2048 points of each are read.

    Raises:
        ValueError: if no example has two distinct observed points, or if their distances are too
            large or too small for float64, which squares them.

    Example:

    >>> import numpy as np
    >>> grid = np.linspace(0, 1, 11)[None, :, None]
    >>> round(point_spacing(grid, np.zeros_like(grid)), 6)
    0.1
    """
    distances = []
    for distinct in _distinct_points(points, variance):
        some = distinct[:: -(-len(distinct) // _POINTS)]
        # The first neighbour found is the point itself.
        neighbour = min(3, len(distinct))
        distances.append(spatial.cKDTree(distinct).query(some, k=[neighbour])[0][:, 0])
    if not distances:
        raise ValueError(
            "no example has two distinct observed points, so their spacing cannot be measured; "
            "give `spacing` to the layer or model instead of calling adapt()."
        )
    spacing = float(np.median(np.concatenate(distances)))
    if not 0.0 < spacing < np.inf:
        raise ValueError(
            f"the points' spacing comes out as {spacing}: their distances are too large or too "
            "small to be squared; give the points in another unit."
        )
    return spacing


def point_extent(points, variance):
    """Median over examples of the longest side of the box that holds the observed points.

    Args:
        points, variance: as in `point_spacing`; as many examples are read.

    Returns:
        A float, in units of the points; 0 if no example has two distinct observed points.

    Example:

    >>> import numpy as np
    >>> points = np.array([[[0.0, 0.0], [1.0, 3.0]]])
    >>> point_extent(points, np.zeros((1, 2, 1)))
    3.0
    """
    sides = [np.ptp(distinct, axis=0).max() for distinct in _distinct_points(points, variance)]
    return float(np.median(sides)) if sides else 0.0


def typical_number(points, variance):
    """Median over examples of the number of distinct observed points.

    Args:
        points, variance: as in `point_spacing`; as many examples are read.

    Returns:
        A float; 1 if no example has two distinct observed points.

    Example:

    >>> import numpy as np
    >>> points = np.array([[[0.0], [0.0], [1.0]]])
    >>> typical_number(points, np.zeros((1, 3, 1)))
    2.0
    """
    numbers = [len(distinct) for distinct in _distinct_points(points, variance)]
    return float(np.median(numbers)) if numbers else 1.0


def _distinct_points(points, variance):
    """The distinct observed points of some examples, where there are two or more."""
    examples = []
    for index in np.unique(
        np.linspace(0, len(points) - 1, min(len(points), _EXAMPLES)).astype(int)
    ):
        observed = np.isfinite(variance[index]).any(axis=-1)
        distinct = np.unique(np.asarray(points[index][observed], np.float64), axis=0)
        if len(distinct) > 1:
            examples.append(distinct)
    if not examples:
        return
    extent = max(np.ptp(distinct, axis=0).max() for distinct in examples)
    for distinct in examples:
        # In units of the extent, as squares of huge distances overflow.
        tree = spatial.cKDTree(distinct / extent)
        pairs = tree.query_pairs(_SAME, output_type="ndarray")
        distinct = np.delete(distinct, pairs[:, 1], axis=0)  # the later of each pair
        if len(distinct) > 1:
            yield distinct


def lattice(count, dim):
    """The ``count`` points of the integer lattice in ``dim`` dimensions nearest the origin.

    Ordered by distance, ties by coordinates; for 3^d points in one or two dimensions this is the
    neighbourhood of a 3-wide convolution.

    Returns:
        float array [count, dim].

    Example:

    >>> lattice(3, 1).ravel().tolist()
    [0.0, -1.0, 1.0]
    """
    # Shell by shell: a cube about the origin has 3^dim points and more.
    norms = itertools.count() if dim > 1 else (radius**2 for radius in itertools.count())
    points = itertools.chain.from_iterable(_shell(norm, dim) for norm in norms)
    return np.array(list(itertools.islice(points, count)), float)


def _shell(norm, dim):
    """The lattice's points at the square distance ``norm``, one by one, in coordinates' order."""
    if not norm:
        yield (0,) * dim
        return
    root = math.isqrt(norm)
    # By the first coordinate that is not 0: the negative ones early, the positive ones late.
    places = [(place, range(-root, 0)) for place in range(dim)]
    places += [(place, range(1, root + 1)) for place in reversed(range(dim))]
    for place, numbers in places:
        for first in numbers:
            for others in _shell(norm - first**2, dim - place - 1):
                yield (0,) * place + (first, *others)
