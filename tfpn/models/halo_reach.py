"""Warns of flows that reach over more points than local conditioning looks at."""

import warnings
from typing import Any

import numpy as np

from tfpn.types import Array

_EXAMPLES, _PLACES = 8, 8  # looked at, and places in each
_TOLERATED = 1.1  # points within reach, for each point that a block and its halo hold


def warn_of_halos(layer: Any, points: Array, variance: Array, stacklevel: int = 2) -> None:
    """Warns if the flows of a convolution reach beyond the halos of its blocks.

    A drift reads the function at a distance. There a block has no observations if its halo ends
    before, and the layer takes the prior. The warning advises halos that cover the drifts and one
    standard deviation of the diffusions.

    Args:
        layer: a convolution. One without ``flow_parameters``, such as
            `tfpn.layers.SteerablePNConv`, has no drifts, and the function does not warn.
        points: [B, N, d].
        variance: [B, N, c], +inf where unobserved.
        stacklevel: as in `warnings.warn`.
    """
    near = layer.neighbourhoods
    if near is None or not hasattr(layer, "flow_parameters"):
        return
    drift, diffusion = (np.asarray(t, np.float64) for t in layer.flow_parameters())
    width = np.sqrt(np.diagonal(diffusion, axis1=1, axis2=2))
    rng = np.random.default_rng(0)
    dim, within = points.shape[-1], []
    for example in rng.permutation(len(points))[:_EXAMPLES]:
        places = points[example][np.isfinite(variance[example]).any(-1)].astype(np.float64)
        if near.plan(len(places), dim)[0] == 1:
            continue
        for place in places[rng.integers(len(places), size=_PLACES)]:
            order = np.argsort(np.square(places - place).sum(-1))
            block = places[order[: near.block_size]]
            found = []
            for wide in (0.0, width):
                low = np.minimum((drift - wide).min(0), 0.0) + block.min(0)
                high = np.maximum((drift + wide).max(0), 0.0) + block.max(0)
                found.append(np.count_nonzero(((places >= low) & (places <= high)).all(-1)))
            within.append(found)
    held = near.block_size + near.halo(dim)
    if not within:
        return
    needed = int(np.median(within, axis=0)[0])
    wide = int(np.quantile(within, 0.9, axis=0)[1])  # blocks at the edge have fewer points around
    if needed > _TOLERATED * held:
        warnings.warn(
            f"conditioning='local': the drifts of the first layer reach over {needed} points from "
            f"a block, but a block and its halo hold {held}. The layer takes the others as unread, "
            f"which changes its features. Give neighbors={wide - near.block_size}, a finer query, "
            "or conditioning='exact'.",
            stacklevel=stacklevel + 1,
        )
