"""Small models of fields, inputs, and GP regression by dense NumPy."""

import numpy as np

import tfpn


def small(outputs=1, **changes):
    arguments = {"channels": 4, "num_blocks": 1, "num_basis": 2, "seed": 0, **changes}
    return tfpn.models.PNCNN(None, num_outputs=outputs, output="field", **arguments)


def start(outputs=1, channels=1, **changes):
    """A model that starts from the data of `make`, without the fit, which takes some seconds."""
    model = small(outputs, in_channels=channels, **changes)
    model.adapt(without_query(make(channels)), fit_priors=False)
    return model


def make(channels=1, examples=3, points=12, queries=5, seed=0, sporadic=False):
    """Values about 20 with a slope; the last example has padding; query points of their own."""
    rng = np.random.default_rng(seed)
    where = rng.uniform(size=(examples, points, 2)) * [1.0, 30.0]
    values = 20.0 + 3.0 * np.sin(4.0 * where[..., :1]) + 0.2 * where[..., 1:]
    values = values * np.arange(1, channels + 1) + 0.3 * rng.normal(
        size=(examples, points, channels)
    )
    variance = np.zeros_like(values)
    variance[-1, 8:] = np.inf
    if sporadic:
        variance[0, :4, -1] = np.inf
    values[~np.isfinite(variance)] = np.nan
    x = tfpn.observations(where, values, None)
    x["query"] = rng.uniform(size=(examples, queries, 2)) * [1.0, 30.0]
    return {key: array.astype("float32") for key, array in x.items()}


def without_query(x):
    return {key: array for key, array in x.items() if key != "query"}


def dense(model, x, example, channel, dim=2):
    """Mean and covariance of a channel by dense NumPy, from the parameters that `adapt` found."""
    kriging, units = model.get_layer("kriging"), model.get_layer("units")
    lengths = np.broadcast_to(model.length_scales, [kriging._built_for[1], dim])[channel]

    def each(weight):
        return np.exp(np.broadcast_to(weight, [kriging._built_for[1]])[channel].astype(float))

    signal, noise = each(kriging.log_signal_std), each(kriging.log_observation_noise)
    trend = np.exp(2.0 * np.asarray(kriging.log_trend_std, float))
    factors = model._field.factors()
    centre, unit = (np.asarray(w) / factors for w in (kriging.centre, kriging.unit))
    points, values, variance, query = (
        np.asarray(x[key][example], float) for key in ("points", "values", "variance", "query")
    )
    seen = np.isfinite(variance[:, channel])
    points, values = points[seen], values[seen, channel]
    offset, scale = (float(w[channel]) for w in (units.offset, units.scale))

    def kernel(a, b):
        distance = np.sum(np.square((a[:, None] - b) / lengths), -1)
        h1, h2 = (
            np.column_stack([np.ones(len(p)), (p - centre) / unit])[:, : len(trend)] for p in (a, b)
        )
        return signal**2 * np.exp(-0.5 * distance) + (h1 * trend) @ h2.T

    whole = kernel(points, points) + noise**2 * np.eye(len(points))
    cross = kernel(query, points)
    mean = cross @ np.linalg.solve(whole, (values - offset) / scale)
    covariance = kernel(query, query) - cross @ np.linalg.solve(whole, cross.T)
    return offset + scale * mean, scale**2 * covariance, (scale * noise) ** 2
