"""Forecasts series, and cuts long series into histories and futures."""

from collections.abc import Callable
from typing import Any

import numpy as np

from tfpn.checks import check_number, check_positive
from tfpn.contract import observations
from tfpn.ragged import numeric
from tfpn.tasks.filling import Values, interpolate
from tfpn.types import Array, ArrayLike, Model, Verbose

# A function from times [n] to numbers known in advance, [n] or [n, p]; or None.
Covariates = Callable[[Array], Array] | None
# Below all times that are finite numbers.
_LEAST = float(np.finfo(np.float64).min)


def season(times: ArrayLike, period: float) -> Array:
    """Turns times into points of the unit circle, one turn for each period, [...] -> [..., 2].

    These coordinates make a kernel periodic: on the circle the RBF kernel is the usual periodic
    kernel. Add the time as a coordinate with its own length scale (``ard``) if patterns change
    slowly from period to period.

    Args:
        times: numbers of any shape. NaN stays NaN.
        period: the period in the same unit, such as 24 for the hour of the day.

    Raises:
        TypeError: if the times are no numbers.
        ValueError: for a period that is not positive, or an infinite time.

    Example:

    >>> from tfpn.tasks import season
    >>> season([0.0, 6.0, 24.0], 24).round(6).tolist()
    [[1.0, 0.0], [0.0, 1.0], [1.0, -0.0]]
    """
    times = numeric("times", times)
    if np.isinf(times).any():
        raise ValueError("times: one is infinite; leave it out.")
    angle = 2.0 * np.pi * times / check_positive("period", period)
    return np.stack([np.cos(angle), np.sin(angle)], axis=-1)


def windows(
    times: ArrayLike,
    values: ArrayLike,
    *,
    history: float,
    horizon: float,
    step: float | None = None,
    start: float | None = None,
    stop: float | None = None,
    covariates: Covariates = None,
    variance: Any = None,
) -> tuple[dict[str, Array], Array, Array]:
    """Cuts a long series into windows: each has a history and the future that follows it.

    A window with the origin t has the readings at times in [t - history, t) as observations. Those
    in [t, t + horizon) are its query points and targets. Its times count from t.

    Args:
        times: times of the readings, [T], in any order.
        values: [T] or [T, c], NaN where nothing was read.
        history, horizon: lengths of history and future, in the unit of the times.
        step: time from one origin to the next. The default is the horizon, so that futures do not
            overlap.
        start, stop: the first origin, and the end of the last future. By default the windows cover
            all times.
        covariates: a function from times [n] to numbers [n, p] that are known in advance, such as
            ``lambda t: tfpn.tasks.season(t, 24)``. It gets the times of the series, which do not
            count from an origin. The numbers become further coordinates of points and query.
        variance: variance of the readings' noise, as for `tfpn.observations`: None, a number or one
            for each channel.

    Returns:
        The model's input (with "query"), targets [B, M, c] with NaN where there is none, and the
        origins [B]. Windows without a reading in their history or future are left out.

    Raises:
        TypeError: if times or values are not numbers, or covariates not a function.
        ValueError: for other shapes, if times are not finite, if values are infinite, if lengths
            are not positive, or if there is no window.

    Example:

    >>> import numpy as np, tfpn
    >>> hours = np.arange(10.0)
    >>> x, y, origins = tfpn.tasks.windows(hours, hours ** 2, history=4, horizon=2)
    >>> origins.tolist(), x["points"][0, :, 0].tolist()
    ([4.0, 6.0, 8.0], [-4.0, -3.0, -2.0, -1.0])
    >>> x["query"][0, :, 0].tolist(), y[0, :, 0].tolist()
    ([0.0, 1.0], [16.0, 25.0])
    """
    times, values = _read_series(times, values)
    history = check_positive("history", history)
    horizon = check_positive("horizon", horizon)
    step = horizon if step is None else check_positive("step", step)
    seen = np.isfinite(values).any(axis=-1)
    times, values = times[seen], values[seen]
    order = np.argsort(times, kind="stable")
    times, values = times[order], values[order]
    if not len(times):
        raise ValueError("values holds no reading; give at least one number.")
    first = times[0] + history if start is None else check_number("start", start, _LEAST)
    last = times[-1] if stop is None else check_number("stop", stop, _LEAST)
    slack = _rounding(times, history, horizon, step)
    # A future that begins at the last reading still has one reading.
    count = int(np.floor((last - first) / step + 1e-9)) + 1
    origins, pieces = [], []
    for origin in first + step * np.arange(max(count, 0)):
        if stop is not None and origin + horizon > stop + 1e-12 * abs(stop):
            break
        edges = np.array([origin - history, origin, origin + horizon])
        begin, middle, end = np.searchsorted(times, edges - slack)
        if begin < middle < end:
            origins.append(origin)
            pieces.append((slice(begin, middle), slice(middle, end)))
    if not origins:
        raise ValueError(
            f"no window has a reading in its history of {history:g} and one in its horizon of "
            f"{horizon:g}: the readings are from {times[0]:g} to {times[-1]:g}. Give other lengths."
        )
    points = [
        _coordinates(times[past], origin, covariates)
        for origin, (past, _) in zip(origins, pieces, strict=True)
    ]
    x = observations(points, [values[past] for past, _ in pieces], variance)
    size = max(future.stop - future.start for _, future in pieces)
    query = np.zeros((len(origins), size, points[0].shape[1]), x["points"].dtype)
    targets = np.full((len(origins), size, values.shape[1]), np.nan, x["values"].dtype)
    for row, (origin, (_, future)) in enumerate(zip(origins, pieces, strict=True)):
        number = future.stop - future.start
        query[row, :number] = _coordinates(times[future], origin, covariates)
        query[row, number:] = query[row, number - 1]
        targets[row, :number] = values[future]
    return {**x, "query": query}, targets, np.array(origins)


def forecast(
    model: Model,
    times: ArrayLike,
    values: ArrayLike,
    future: ArrayLike,
    *,
    history: float | None = None,
    origin: float | None = None,
    covariates: Covariates = None,
    variance: Any = None,
    verbose: Verbose = "auto",
) -> Values:
    """Forecasts readings at future times from a series of readings.

    Args:
        model: a model with ``output="field"``, trained on `windows` of the same history and
            covariates.
        times, values, covariates, variance: as in `windows`. Readings at ``origin`` or later are
            left out.
        future: times [M] to forecast.
        history: length of the series before ``origin`` to read. The default is all of it.
        origin: the time from which times count. The default is the earliest of ``future``.
        verbose: as in `PNCNN.adapt`.

    Returns:
        `Values` [1, M, outputs].

    Raises:
        TypeError, ValueError: as `windows`; if nothing was read in the history.

    Example:

    >>> import numpy as np, tfpn
    >>> hours = np.arange(0.0, 96.0)
    >>> values = np.sin(2 * np.pi * hours / 24)
    >>> def clock(times):
    ...     return tfpn.tasks.season(times, 24)
    >>> x, y, _ = tfpn.tasks.windows(hours, values, history=48, horizon=12, covariates=clock)
    >>> model = tfpn.models.PNCNN(None, num_outputs=1, output="field", spatial_dim=3,
    ...     ard=(0, 1, 1), trend="linear", channels=2, num_blocks=1)
    >>> model.adapt({key: x[key] for key in ("points", "values", "variance")})
    >>> next_day = tfpn.tasks.forecast(
    ...     model, hours, values, 96.0 + np.arange(24.0), history=48, covariates=clock)
    >>> next_day.mean.shape, bool(np.abs(next_day.mean[0, :, 0] - values[:24]).max() < 0.1)
    ((1, 24, 1), True)
    """
    times, values = _read_series(times, values)
    future = numeric("future", future).astype(np.float64)
    if future.ndim != 1 or not len(future) or not np.all(np.isfinite(future)):
        raise ValueError(
            f"future: found the shape {list(future.shape)}; give a list of finite times [M]."
        )
    start = future.min() if origin is None else check_number("origin", origin, _LEAST)
    length = None if history is None else check_positive("history", history)
    slack = _rounding(np.append(times, start), *([] if length is None else [length]))
    seen = np.isfinite(values).any(axis=-1) & (times < start - slack)
    if length is not None:
        seen &= times >= start - length - slack
    if not seen.any():
        raise ValueError(
            f"no reading lies in the history before {start:g}; give earlier readings or a longer "
            "history."
        )
    past = _coordinates(times[seen], start, covariates)
    x = observations([past], [values[seen]], variance)
    return interpolate(model, x, _coordinates(future, start, covariates), verbose=verbose)


def _rounding(times, *lengths):
    """The distance within which a time counts as the edge of a window."""
    # Sums such as 0.1 + 2 * 0.1 differ from 0.3, the time of a reading.
    return 4.0 * np.spacing(np.abs(times).max()) + 1e-9 * min(lengths, default=0.0)


def _read_series(times, values):
    times, values = (
        numeric(n, a).astype(np.float64) for n, a in (("times", times), ("values", values))
    )
    if times.ndim != 1 or values.ndim not in (1, 2) or len(values) != len(times):
        raise ValueError(
            f"times and values have the shapes {list(times.shape)} and {list(values.shape)}; give "
            "[T], and [T] or [T, c]."
        )
    if not np.all(np.isfinite(times)):
        raise ValueError("times holds NaN or infinity; leave out readings without a time.")
    if np.any(np.isinf(values)):
        raise ValueError("values holds infinity; give NaN where nothing was read.")
    return times, values[:, None] if values.ndim == 1 else values


def _coordinates(times: Array, origin: float, covariates: Covariates) -> Array:
    """Times from the origin and their covariates, [n, 1 + p]."""
    since = (times - origin)[:, None]
    if covariates is None:
        return since
    if not callable(covariates):
        raise TypeError(
            f"covariates must be a function of times [n] that gives [n, p], found "
            f"{type(covariates).__name__}."
        )
    known = numeric("covariates", covariates(times)).astype(np.float64)
    known = known[:, None] if known.ndim == 1 else known
    if known.ndim != 2 or len(known) != len(times) or not np.all(np.isfinite(known)):
        raise ValueError(
            f"covariates gives the shape {list(known.shape)} for {len(times)} times; it must give "
            "finite numbers [n, p]."
        )
    return np.concatenate([since, known], axis=1)
