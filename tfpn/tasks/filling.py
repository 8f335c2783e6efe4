"""Predicts values at points where nothing was read."""

from typing import Any, NamedTuple

import numpy as np

from tfpn.contract import check_observations, query_array
from tfpn.tasks.hiding import check_field
from tfpn.types import Array, ArrayLike, Model, Observations, Verbose


class Values(NamedTuple):
    """Means and standard deviations, each [B, M, c], in the readings' unit."""

    mean: Array
    std: Array

    def interval(self, level: float = 0.95) -> tuple[Array, Array]:
        """The ends of the interval about the mean that holds ``level`` of a normal variable.

        Example:

        >>> import numpy as np
        >>> from tfpn.tasks import Values
        >>> low, high = Values(np.zeros(1), np.ones(1)).interval()
        >>> high.round(2).tolist()
        [1.96]

        Raises:
            ValueError: if ``level`` is not between 0 and 1.
        """
        from scipy import stats

        if not 0.0 < level < 1.0:
            raise ValueError(f"level must be between 0 and 1, found {level!r}.")
        reach = stats.norm.ppf(0.5 + 0.5 * level) * self.std
        return self.mean - reach, self.mean + reach


def interpolate(
    model: Model,
    x: Observations,
    query: ArrayLike,
    *,
    noise: bool = True,
    own_prior: float | None = None,
    batch_size: int = 32,
    verbose: Verbose = "auto",
) -> Values:
    """Predicts readings at any points: between readings, beyond them, or on a grid.

    Args:
        model: a model with ``output="field"``.
        x: observations.
        query: points [B, M, d], or [1, M, d] or [M, d] for the same ones in all examples.
        noise: whether standard deviations are those of readings (True) or of the field alone.
        own_prior: as in `PNCNN.predict_field`. Give about 0.5 for each example's own prior.
        batch_size: number of examples at a time.
        verbose: as in `PNCNN.adapt`.

    Returns:
        `Values` [B, M, outputs].

    Raises:
        ValueError: if the model does not predict fields, or as `PNCNN.predict_field`.

    Example: see `train`.
    """
    check_field(model)
    query = query_array(query)
    query = query[None] if query.ndim == 2 else query
    options = {"own_prior": own_prior, "batch_size": batch_size, "verbose": verbose}
    found = model.predict_field(x, query, noise=noise, **options)
    return Values(np.asarray(found.mean()), np.asarray(found.stddev()))


def impute(
    model: Model, x: Observations, *, batch_size: int = 32, verbose: Verbose = "auto"
) -> Values:
    """Fills gaps: predicts every channel at every point of the input.

    Args:
        model: a model with ``output="field"`` and as many outputs as input channels.
        x: observations. A gap is an entry of infinite variance. Points without any reading are
            filled, too. This includes padding, whose results mean nothing.
        batch_size: number of examples at a time.
        verbose: as in `PNCNN.adapt`.

    Returns:
        `Values` [B, N, c]. Where something was read, the mean is the reading and the standard
        deviation comes from its given variance.

    Raises:
        ValueError: as `interpolate`, or if the model does not predict all channels.

    Example:

    >>> import numpy as np, tfpn
    >>> hours = np.arange(6.0).reshape(1, 6, 1)
    >>> x = tfpn.observations(hours, [[1.0, 2.0, float("nan"), 4.0, 5.0, 6.0]])
    >>> model = tfpn.models.PNCNN(
    ...     None, num_outputs=1, output="field", spatial_dim=1, channels=2, num_blocks=1)
    >>> model.adapt(x)
    >>> filled = tfpn.tasks.impute(model, x)
    >>> filled.mean[0, :2, 0].tolist(), bool(abs(filled.mean[0, 2, 0] - 3) < 0.3)
    ([1.0, 2.0], True)
    """
    check_field(model)
    x = check_observations(x)
    if model.output.shape[-2] != x["values"].shape[-1]:
        raise ValueError(
            f"the model has {model.output.shape[-2]} outputs, but the input has "
            f"{x['values'].shape[-1]} channels: build it with num_outputs="
            f"{x['values'].shape[-1]} to fill them all."
        )
    query: Any = np.where(np.isfinite(x["points"]), x["points"], 0)
    found = interpolate(model, x, query, batch_size=batch_size, verbose=verbose)
    known = np.isfinite(x["variance"])
    mean = np.where(known, x["values"], found.mean)
    std = np.where(known, np.sqrt(np.where(known, x["variance"], 0.0)), found.std)
    return Values(mean.astype(found.mean.dtype), std.astype(found.std.dtype))
