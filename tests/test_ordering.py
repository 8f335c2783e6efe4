"""Points in the order of farthest point sampling, beside a loop over all distances."""

import numpy as np
import pytest

import tfpn


def observations(dim=2, dtype="float64"):
    rng = np.random.default_rng(0)
    x = tfpn.observations(rng.normal(size=(3, 20, dim)), rng.normal(size=(3, 20, 2)), 0.5)
    x["variance"][0, 0] = np.inf  # the first point
    x["variance"][1, 4:] = np.inf  # all but four
    x["points"][1, 4:] = 1e3
    x["variance"][2, 3, 0] = np.inf  # one of two channels
    return {key: value.astype(dtype) for key, value in x.items()}


def slowly(points, seen, number):
    chosen = [int(np.flatnonzero(seen)[0])]
    while len(chosen) < min(number, seen.sum()):
        least = [
            min(np.linalg.norm(points[i] - points[j]) for j in chosen)
            if seen[i] and i not in chosen
            else -1.0
            for i in range(len(points))
        ]
        chosen.append(int(np.argmax(least)))
    return chosen + [i for i in range(len(points)) if i not in chosen]


@pytest.mark.parametrize(("dim", "number"), [(1, 5), (2, 7), (3, 20), (2, 50), (2, 1)])
def test_as_a_loop(dim, number):
    x = observations(dim)
    found = tfpn.farthest_first({**x, "query": "as it is"}, number)
    assert found["query"] == "as it is"
    for example in range(3):
        seen = np.isfinite(x["variance"][example]).any(-1)
        order = slowly(x["points"][example], seen, number)
        for key in x:
            np.testing.assert_array_equal(found[key][example], x[key][example][order])


def test_a_lattice_is_covered_evenly():
    """Of n points on a line all are within twice the distance that n even ones leave."""
    x = tfpn.observations(np.linspace(0.0, 1.0, 101)[None, :, None], np.zeros((1, 101)))
    places = tfpn.farthest_first(x, 9)["points"][0, :9, 0]
    assert np.abs(x["points"][0] - places).min(axis=1).max() <= 2 / (2 * 8)


def test_keeps_dtypes_and_scales():
    x = observations(dtype="float32")
    found = tfpn.farthest_first(x, 4)
    assert {key: value.dtype for key, value in found.items()} == dict.fromkeys(x, np.float32)
    x = observations()
    for scale in (1e-300, 1e300):
        other = tfpn.farthest_first({**x, "points": scale * x["points"]}, 4)
        np.testing.assert_array_equal(other["values"], tfpn.farthest_first(x, 4)["values"])


def test_examples_without_observations_and_duplicates():
    x = observations()
    x["variance"][0] = np.inf
    np.testing.assert_array_equal(tfpn.farthest_first(x, 4)["values"][0], x["values"][0])
    x["points"][2] = 1.0
    np.testing.assert_array_equal(tfpn.farthest_first(x, 4)["values"][2], x["values"][2])


def test_refuses():
    x = observations()
    with pytest.raises(ValueError, match="number must be a positive whole number, found 0"):
        tfpn.farthest_first(x, 0)
    with pytest.raises(ValueError, match="values"):
        tfpn.farthest_first({"points": x["points"], "variance": x["variance"]}, 2)
    x["points"][0, 3] = np.nan
    with pytest.raises(ValueError, match="points"):
        tfpn.farthest_first(x, 2)
