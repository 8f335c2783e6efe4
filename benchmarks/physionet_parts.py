"""Parts of PhysioNet 2012, shortened or binned."""

import dataclasses

import numpy as np


def first(part, count):
    """The first records of a part."""
    arrays = {
        field.name: getattr(part, field.name)[:count]
        for field in dataclasses.fields(part)
        if field.name != "x"
    }
    return dataclasses.replace(part, x={k: a[:count] for k, a in part.x.items()}, **arrays)


def binned(part, bins):
    """Means of each channel's readings in equal parts of the stay, at the middles of these.

    A reading on the border of two bins belongs to the later one, one at the end of the stay to the
    last one. A bin without a reading of the channel is unobserved.
    """
    values, seen = part.x["values"], np.isfinite(part.x["variance"])
    records, _, channels = values.shape
    index = np.minimum((part.x["points"][..., 0] * bins).astype(int), bins - 1)
    rows = np.arange(records)[:, None]
    sums, counts = np.zeros((2, records, bins, channels))
    np.add.at(sums, (rows, index), np.where(seen, values, 0.0))
    np.add.at(counts, (rows, index), seen)
    middles = (np.arange(bins) + 0.5) / bins
    x = {
        "points": np.broadcast_to(middles[:, None], (records, bins, 1)),
        "values": sums / np.maximum(counts, 1.0),
        "variance": np.where(counts > 0, 0.0, np.inf),
    }
    return dataclasses.replace(part, x={k: a.astype(np.float32) for k, a in x.items()})
