"""Chooses the observations to fit a prior to: neighbourhoods of bounded size in some examples."""

import dataclasses

import numpy as np
from scipy import spatial

from tfpn.types import Array

# Most points of a neighbourhood, most neighbourhoods, and most covariance entries (points squared)
# in all of them.
POINTS = 64
NEIGHBOURHOODS = 128
ENTRIES = 2**18
# The priors or noises share so many entries; each gets at least the second number.
ALL_ENTRIES = 2**20
LEAST_ENTRIES = 2**14


@dataclasses.dataclass(frozen=True)
class Neighbourhoods:
    """Observations in E neighbourhoods of up to n points.

    Attributes:
        points: [E, n, d], 0 where nothing is observed.
        values: [E, n, c], 0 where unobserved.
        variance: [E, n, g], one for each noise, +inf where unobserved.
    """

    points: Array
    values: Array
    variance: Array


def neighbourhoods(points, values, variance, *, share=1):
    """Chooses the observations that a prior is fitted to: the same ones in each call.

    The examples are evenly spread among those with at least two observed points. In an example
    with many points the function takes random points and their nearest neighbours. So it sees near
    and far pairs.

    Args:
        points: float64 array [B, N, d].
        values: [B, N, c], 0 where unobserved.
        variance: [B, N, g]. Points without a finite variance are left out.
        share: number of priors or noises that share the budget of entries.

    Returns:
        `Neighbourhoods`, or None if no example has two observed points.
    """
    observed = np.isfinite(variance).any(axis=-1)
    examples = np.flatnonzero(observed.sum(axis=-1) > 1)
    if not len(examples):
        return None
    size = min(POINTS, int(observed[examples].sum(axis=-1).max()))
    entries = np.clip(ALL_ENTRIES // share, LEAST_ENTRIES, ENTRIES)
    count = int(np.clip(entries // size**2, 4, NEIGHBOURHOODS))
    examples = examples[np.unique(np.linspace(0, len(examples) - 1, count).astype(int))]
    rng = np.random.default_rng(0)
    chosen = []
    for example in examples:
        rows = _different(observed[example], points[example], values[example], variance[example])
        if len(rows) <= size:
            chosen.append((example, rows))
            continue
        number = min(-(-len(rows) // size), -(-count // len(examples)))
        tree = spatial.cKDTree(points[example, rows])
        for centre in rng.choice(rows, number, replace=False):
            chosen.append((example, rows[tree.query(points[example, centre], k=size)[1]]))
    shape = len(chosen), size
    found = Neighbourhoods(
        np.zeros((*shape, points.shape[-1])),
        np.zeros((*shape, values.shape[-1])),
        np.full((*shape, variance.shape[-1]), np.inf),
    )
    for place, (example, rows) in enumerate(chosen):
        found.points[place, : len(rows)] = points[example, rows]
        found.values[place, : len(rows)] = values[example, rows]
        found.variance[place, : len(rows)] = variance[example, rows]
    return found


def _different(observed, *columns):
    """The observed rows without exact copies of earlier ones: copies would look like no noise."""
    rows = np.flatnonzero(observed)
    _, first = np.unique(np.hstack([c[rows] for c in columns]), axis=0, return_index=True)
    return rows[np.sort(first)]
