"""The order of an example's points, for models that look at the first ones only."""

import numpy as np

from tfpn.checks import check_count
from tfpn.contract import KEYS, check_observations
from tfpn.types import Array, Observations


def farthest_first(x: Observations, number: int) -> dict[str, Array]:
    """Puts ``number`` points first that are spread out over each example.

    The first point is the first that is observed. Each further one is the observed point that is
    farthest from those before it (farthest point sampling). Of several it is the first. All other
    points follow in their old order. So the first 10 are spread out as well as the first 100. This
    is what ``num_query`` of `tfpn.models.SteerablePNCNN` needs.

    Args:
        x: the observations dict of arrays: "points" [B, N, d], "values" [B, N, c] and "variance"
            [B, N, c]. Other entries stay as they are.
        number: how many points to choose in each example.

    Returns:
        A dict like ``x``, whose arrays of the three keys have another order along N.

    Raises:
        TypeError, ValueError: if ``x`` is not observations (`tfpn.contract.check_observations`).
        ValueError: if ``number`` is not a positive whole number.

    Example: the ends of a line, and then its middle.

    >>> import numpy as np, tfpn
    >>> x = tfpn.observations(np.linspace(0, 1, 5)[None, :, None], np.zeros((1, 5)))
    >>> tfpn.farthest_first(x, 3)["points"].ravel().tolist()
    [0.0, 1.0, 0.5, 0.25, 0.75]
    """
    number = check_count("number", number)
    given = check_observations({key: x[key] for key in KEYS if key in x})
    points = np.asarray(given["points"], np.float64)
    seen = np.isfinite(given["variance"]).any(axis=-1)
    points = np.where(seen[..., None], points, 0.0)
    points /= np.abs(points).max(initial=np.finfo(float).tiny)  # squares stay finite
    examples, size = seen.shape
    # The rank of each point: chosen ones are below 0, in their order.
    rank, every = np.zeros([examples, size]), np.arange(examples)
    distance = np.where(seen, np.inf, -1.0)  # -1 is never chosen before an observed point
    for step in range(min(number, size)):
        chosen = distance.argmax(axis=1)
        fresh = distance[every, chosen] >= 0.0
        rank[every[fresh], chosen[fresh]] = step - size
        squares = np.sum(np.square(points - points[every, chosen][:, None]), axis=-1)
        distance = np.where(distance >= 0.0, np.minimum(distance, squares), distance)
        distance[every, chosen] = -1.0
    order = np.argsort(rank, axis=1, kind="stable")[..., None]
    return {**x, **{key: np.take_along_axis(np.asarray(x[key]), order, axis=1) for key in KEYS}}
