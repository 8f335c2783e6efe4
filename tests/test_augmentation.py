import numpy as np
import pytest

import tfpn
from tfpn.augmentation import jitter

ALL = {"rotation": 0.4, "shift": 0.3, "scale": 0.2, "shear": 0.1}


def example(dim=2, num_examples=50, dtype=np.float64):
    """Observations of which the last two points are padding, with the centre 0.5."""
    rng = np.random.default_rng(0)
    points = rng.uniform(size=(num_examples, 7, dim))
    points[:, :5] += 0.5 - points[:, :5].mean(axis=1, keepdims=True)
    values = rng.normal(size=(num_examples, 7, 2))
    values[:, 5:] = np.nan
    values[:, 3, 0] = np.nan
    return tfpn.observations(points.astype(dtype), values.astype(dtype), 0.1)


def maps(x, moved):
    """The affine map of each example by least squares: A, t and the largest residual."""
    before, after = (o["points"][:, :5] - 0.5 for o in (x, moved))
    ones = np.ones_like(before[..., :1])
    design = np.concatenate([before, ones], axis=-1)
    solution = np.linalg.pinv(design) @ after
    residual = np.abs(design @ solution - after).max()
    return np.swapaxes(solution[:, :-1], 1, 2), solution[:, -1], residual


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_only_observed_points_move(dtype):
    x = example(dtype=dtype)
    copy = {key: array.copy() for key, array in x.items()}
    moved = jitter(x, np.random.default_rng(1), **ALL)
    for key in x:
        np.testing.assert_array_equal(x[key], copy[key])
        assert moved[key].dtype == dtype
    for key in ("values", "variance"):
        np.testing.assert_array_equal(moved[key], x[key])
    np.testing.assert_array_equal(moved["points"][:, 5:], x["points"][:, 5:])
    assert (moved["points"][:, :5] != x["points"][:, :5]).all()


def test_all_together_is_one_affine_map_an_example():
    x = example()
    a, t, residual = maps(x, jitter(x, np.random.default_rng(1), **ALL))
    assert residual < 1e-12
    assert len(np.unique(a[:, 0, 0])) == len(a) and len(np.unique(t)) == t.size
    # QR without signs: rotation times an upper triangle with a positive diagonal.
    angle = np.arctan2(a[:, 1, 0], a[:, 0, 0])
    first = np.hypot(a[:, 1, 0], a[:, 0, 0])
    second = np.linalg.det(a) / first
    skew = (np.cos(angle) * a[:, 0, 1] + np.sin(angle) * a[:, 1, 1]) / second
    for found, bound in (
        *((angle, 0.4), (t, 0.3), (skew, 0.1)),
        *((np.log(first), 0.2), (np.log(second), 0.2)),
    ):
        assert 0.8 * bound < np.abs(found).max() <= bound + 1e-12
        assert found.min() < 0 < found.max()


@pytest.mark.parametrize("name", ALL)
def test_each_range_alone(name):
    x = example()
    a, t, residual = maps(x, jitter(x, np.random.default_rng(1), **{name: 0.2}))
    assert residual < 1e-12
    if name != "shift":
        np.testing.assert_allclose(t, 0, atol=1e-12)
    if name == "shift":
        np.testing.assert_allclose(a, np.broadcast_to(np.eye(2), a.shape), atol=1e-12)
    elif name == "rotation":
        unit = np.broadcast_to(np.eye(2), a.shape)
        np.testing.assert_allclose(np.swapaxes(a, 1, 2) @ a, unit, atol=1e-12)
        np.testing.assert_allclose(np.linalg.det(a), 1)
    elif name == "scale":
        np.testing.assert_allclose(a[:, [0, 1], [1, 0]], 0, atol=1e-12)
    else:
        np.testing.assert_allclose(a[:, 1], [[0, 1]] * len(a), atol=1e-12)


def test_the_generator_determines_the_result():
    x = example()
    first, again, other = (
        jitter(x, np.random.default_rng(seed), **ALL)["points"] for seed in (1, 1, 2)
    )
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)
    still = jitter(x, np.random.default_rng(1))["points"]
    np.testing.assert_allclose(still, x["points"], rtol=1e-12)


@pytest.mark.parametrize("dim", [1, 3])
def test_other_dimensions_shift_and_scale(dim):
    x = example(dim)
    moved = jitter(x, np.random.default_rng(1), shift=0.3, scale=0.2)
    centre = moved["points"][:, :5].mean(axis=1) - 0.5
    assert 0.2 < np.abs(centre).max() <= 0.3 + 1e-12
    for name in ("rotation", "shear"):
        with pytest.raises(ValueError, match=rf"{name}: found 0\.1 for points in {dim} dim"):
            jitter(x, np.random.default_rng(1), **{name: 0.1})


@pytest.mark.parametrize("dim", [1, 2, 3])
def test_elastic_displacements_have_the_covariance_of_the_docstring(dim):
    """Moments of 4,000 examples, within 5 standard errors of products of two displacements."""
    x = example(dim, num_examples=1)
    many = {key: np.repeat(array, 4000, axis=0) for key, array in x.items()}
    moved = jitter(many, np.random.default_rng(1), elastic=0.04, elastic_length=0.5)
    u = (moved["points"] - many["points"])[:, :5]
    assert abs(u.mean(0)).max() < 5 * 0.04 / np.sqrt(4000)
    apart = np.square(x["points"][0, :5, None] - x["points"][0, None, :5]).sum(-1)
    expected = 0.04**2 * np.exp(-apart / (2 * 0.5**2))
    for axis in range(dim):
        products = u[:, :, None, axis] * u[:, None, :, axis]
        error = products.std(0) / np.sqrt(4000)
        assert (abs(products.mean(0) - expected) < 5 * error).all()
    if dim > 1:
        mixed = u[:, :, 0] * u[:, :, 1]
        assert (abs(mixed.mean(0)) < 5 * mixed.std(0) / np.sqrt(4000)).all()


def test_elastic_displacements_are_smooth_and_come_after_the_affine_map():
    x = example()
    affine = jitter(x, np.random.default_rng(1), **ALL)["points"]
    bent = jitter(x, np.random.default_rng(1), **ALL, elastic=1e-3)["points"]
    assert 1e-4 < np.abs(bent - affine)[:, :5].max() < 1e-2
    far = jitter(x, np.random.default_rng(1), elastic=0.1, elastic_length=1e6)["points"]
    shift = (far - x["points"])[:, :5]
    np.testing.assert_allclose(shift, np.repeat(shift[:, :1], 5, 1), rtol=1e-4, atol=1e-6)
    np.testing.assert_array_equal(far[:, 5:], x["points"][:, 5:])
    with pytest.raises(ValueError, match="elastic_length: found 0; give a length above 0"):
        jitter(x, np.random.default_rng(1), elastic_length=0)


def test_an_example_without_observed_points():
    x = tfpn.observations(np.ones((1, 2, 2)), np.full((1, 2), np.nan))
    moved = jitter(x, np.random.default_rng(1), **ALL)
    np.testing.assert_array_equal(moved["points"], x["points"])


@pytest.mark.parametrize(
    ("value", "error", "match"),
    [
        (-0.1, ValueError, r"scale: found -0\.1; give a finite number of at least 0"),
        (np.nan, ValueError, r"scale: found nan"),
        (np.inf, ValueError, r"scale: found inf"),
        ("a", TypeError, r"scale: found 'a'; give a number"),
        (True, TypeError, r"scale: found True"),
    ],
)
def test_errors(value, error, match):
    with pytest.raises(error, match=match):
        jitter(example(), np.random.default_rng(1), scale=value)


def test_observations_are_checked():
    with pytest.raises(ValueError, match="missing"):
        jitter({"points": np.zeros((1, 2, 2))}, np.random.default_rng(1))


def test_a_common_map_moves_equal_points_alike():
    """As one example moves whose draws are the same, to the last digit."""
    x = example(num_examples=1)
    many = {key: np.repeat(array, 3, axis=0) for key, array in x.items()}
    options = {**ALL, "elastic": 0.05, "common": True}
    moved = jitter(many, np.random.default_rng(1), **options)["points"]
    alone = jitter(x, np.random.default_rng(1), **{**options, "common": False})["points"]
    np.testing.assert_array_equal(moved, np.repeat(alone, 3, axis=0))
    assert np.abs(moved - many["points"])[:, :5].max() > 1e-2
    with pytest.raises(ValueError, match="common must be True or False, found 1"):
        jitter(x, np.random.default_rng(1), common=1)
