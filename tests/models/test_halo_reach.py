"""A warning of drifts that reach beyond the halos of local conditioning."""

import re
import warnings

import numpy as np
import pytest

import tfpn

SMALL = {"channels": 2, "num_blocks": 1, "num_basis": 3, "conditioning": "local"}


def lattice(dim, side):
    """Readings in the middles of equal parts of the unit box, of one example."""
    axis = (np.arange(side) + 0.5) / side
    points = np.stack(np.meshgrid(*[axis] * dim, indexing="ij"), -1).reshape(1, -1, dim)
    return tfpn.observations(points, np.random.default_rng(0).normal(size=(1, side**dim)), 0.1)


def adapted(model, x):
    """What `adapt` warns of halos."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.adapt(x, fit_priors=False)
    return [str(each.message) for each in caught if "halo" in str(each.message)]


def series(**changes):
    return tfpn.models.PNTimeSeries(2, pooling=(0.0, 1.0), **{**SMALL, **changes})


def images(**changes):
    return tfpn.models.PNCNN(2, pooling=(0.0, 1.0), **{**SMALL, "num_basis": 5, **changes})


def test_the_number_within_reach_is_advised():
    """800 times 1/800 apart, drifts of -1/10, 0 and 1/10: 80 on both sides of a block of 80.

    The advice also covers diffusions of 1/20.
    """
    x = lattice(1, 800)
    (said,) = adapted(series(query=10), x)
    needed, held, advised = map(int, re.findall(r"\d+", said))
    # Blocks at an end of the series have fewer within reach.
    assert abs(needed - 240) <= 2 and held == 80 + 32 and abs(advised - (80 + 2 * 40 + 80)) <= 4
    assert not adapted(series(query=10, neighbors=advised), x)


@pytest.mark.parametrize("query, warns", [(4, True), (20, False)])
def test_of_a_grid_in_the_plane(query, warns):
    """24 x 24 pixels: a step of the coarse grid is 6 of them."""
    assert bool(adapted(images(query=query), lattice(2, 24))) == warns


def test_of_denser_points_than_in_training():
    """A model of 12 x 12 pixels warns once of 30 x 30: its drifts reach over more of them."""
    model = images(query=6)
    assert not adapted(model, lattice(2, 12))
    for side, number in ((12, 0), (30, 1), (30, 0)):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model.predict(lattice(2, side), verbose=0)
        files = [each.filename for each in caught if "halo" in str(each.message)]
        assert files == [__file__] * number


@pytest.mark.parametrize(
    "changes, times",
    [({"query": 100}, 800), ({"query": 10}, 100), ({"query": 10, "conditioning": "exact"}, 800)],
    ids=["a fine grid", "few times", "exact"],
)
def test_no_warning_where_halos_suffice(changes, times):
    assert not adapted(series(**changes), lattice(1, times))


def test_steerable_models_have_no_drifts():
    model = tfpn.models.SteerablePNCNN(
        2, copies=1, num_blocks=1, conditioning="local", block_size=8, neighbors=8
    )
    x = lattice(2, 24)
    assert not adapted(model, x)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.predict(x, verbose=0)
