import itertools

import numpy as np
import pytest
import sample_groups
import sympy
from tolerance import rounding

from equivariance import SO2, SO3, Cyclic, Dihedral, MatrixGroup, diffusion_orbits

C4, D3, D4 = Cyclic(4), Dihedral(3), Dihedral(4)
NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(30)
WEIGHTS = WEIGHTS / WEIGHTS.sum()


def apply(weights, field, points):
    """(A f)(x) = sum_k W_k E f(x + beta_k + L_k z) + bias, by quadrature over z."""
    dim = points.shape[-1]
    z = np.array(list(itertools.product(NODES, repeat=dim)))
    probability = np.array([np.prod(x) for x in itertools.product(WEIGHTS, repeat=dim)])
    total = weights["bias"]
    for kernel, beta, factor in zip(
        weights["kernel"], weights["drift"], weights["diffusion_factor"], strict=True
    ):
        where = points[:, None, :] + beta + z @ factor.T
        mean = np.einsum("z,nzc->nc", probability, field(where))
        total = total + mean @ kernel
    return total


def waves(channels, dim, seed):
    rng = np.random.default_rng(seed)
    k = rng.normal(size=(channels, 3, dim))
    phase, size = rng.uniform(0, 6, size=(channels, 3)), rng.normal(size=(channels, 3))
    return lambda x: np.sum(size * np.cos(np.einsum("...d,cnd->...cn", x, k) + phase), axis=-1)


CASES = [
    (2 * C4.irrep(0), C4.irrep(1) + C4.irrep(2) + C4.irrep(0), ("generic", "center")),
    (C4.irrep(1), C4.irrep(1), ("generic", "generic", "center")),
    (D3.irrep(0) + D3.irrep(1), D3.irrep(1), ("generic", "mirror", "center")),
    (D4.irrep(1) + D4.irrep(0, -1), D4.tensor(1, 1), ("mirror", "center")),
    (Cyclic(2).tensor(1, 0), 2 * Cyclic(2).irrep(0), ("generic", "center")),
    (Cyclic(1).irrep(0), Cyclic(1).irrep(0), ("generic",)),
    (
        sample_groups.TRIANGLE.tensor(0, 0),
        sample_groups.TRIANGLE.tensor(1, 0),
        ("generic", "center"),
    ),
]


@pytest.mark.parametrize(("rep_in", "rep_out", "orbits"), CASES, ids=str)
def test_brute_force(rep_in, rep_out, orbits):
    """A rho_in(g) L_g f = rho_out(g) L_g A f for every element, f a sum of plane waves."""
    layer = diffusion_orbits(rep_in, rep_out, orbits)
    values = layer.initial(rng=0)
    values = {name: x + 0.3 for name, x in values.items()}  # nothing special about the start
    weights = layer.weights(values)
    assert weights["kernel"].shape == (layer.num_basis, rep_in.dim, rep_out.dim)
    field = waves(rep_in.dim, 2, 1)
    points = np.random.default_rng(2).normal(size=(3, 2))
    for g, rho_in, rho_out in layer._matrices:

        def moved(x, g=g, rho_in=rho_in):
            return field(x @ g) @ rho_in.T  # rho_in f(g^-1 x)

        left = apply(weights, moved, points)
        right = apply(weights, field, points @ g) @ rho_out.T
        np.testing.assert_allclose(left, right, rtol=0, atol=1e-12)
    # And it is not isotropic.
    if "generic" in orbits or "mirror" in orbits:
        assert np.abs(weights["drift"]).max() > 0.01


def test_sizes_of_orbits():
    for group, orbits, expected in [
        (C4, ("generic",), 4),
        (C4, ("center",), 1),
        (D4, ("generic", "mirror", "center"), 8 + 4 + 1),
        (Dihedral(1), ("mirror",), 1),
        (sample_groups.CUBE, ("generic", "center"), 24 + 1),
        (D4, ([D4.rotation(np.pi)],), 4),  # by a stabiliser of one's own
    ]:
        scalar = group.tensor(0, 0)
        assert diffusion_orbits(scalar, orbits=orbits).num_basis == expected


def test_central_member_is_isotropic():
    layer = diffusion_orbits(C4.irrep(1), orbits=("center",))
    values = {name: x + 0.7 for name, x in layer.initial(rng=0).items()}
    weights = layer.weights(values)
    # Means over the 4 elements of products with a matrix of the plane, and a product of two.
    largest = max(np.abs(x).max() for x in values.values())
    limit = rounding(4 * 2, condition=largest)
    np.testing.assert_allclose(weights["drift"], 0.0, rtol=0, atol=limit)
    factor = weights["diffusion_factor"][0]
    sigma = factor @ factor.T
    limit *= 2 * np.linalg.norm(factor)
    np.testing.assert_allclose(sigma, sigma[0, 0] * np.eye(2), rtol=0, atol=limit)


def test_projection():
    layer = diffusion_orbits(D3.irrep(0) + D3.irrep(1), D3.irrep(1) + D3.irrep(0), CASES[2][2])
    values = layer.initial(rng=0)
    weights = layer.weights(values)
    again = layer.weights(layer.project(weights))
    for name, array in weights.items():
        np.testing.assert_allclose(again[name], array, rtol=0, atol=1e-14)
    rng = np.random.default_rng(1)
    free = {name: x + 0.1 * rng.normal(size=x.shape) for name, x in weights.items()}
    nearest = layer.weights(layer.project(free))
    for name in free:
        # What is taken away is orthogonal to all equivariant weights.
        removed = free[name] - nearest[name]
        other = layer.weights({k: rng.normal(size=v.shape) for k, v in values.items()})[name]
        assert abs(np.sum(removed * other)) < 1e-12
        assert np.abs(removed).max() > 1e-3
    assert "bias" in layer.project({k: v for k, v in free.items() if k != "bias"})


def test_bias_is_invariant():
    layer = diffusion_orbits(C4.irrep(0), C4.irrep(1) + 2 * C4.irrep(0))
    assert {p.name: p.shape for p in layer.parameters}["bias"] == (2,)
    weights = layer.weights({**layer.initial(), "bias": np.array([1.0, 2.0])})
    np.testing.assert_allclose(weights["bias"], [0.0, 0.0, 1.0, 2.0])
    assert "bias" not in [p.name for p in diffusion_orbits(C4.irrep(1)).parameters]


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: diffusion_orbits(SO2.irrep(0)), ValueError, "SO2 is not finite.*solve_generators"),
        (lambda: diffusion_orbits(SO3.irrep(0)), ValueError, "SO3 is not finite"),
        (
            lambda: diffusion_orbits(sample_groups.LORENTZ.tensor(0, 0)),
            ValueError,
            "Lorentz is not finite",
        ),
        (lambda: diffusion_orbits(Cyclic(300).irrep(0)), ValueError, "300 elements"),
        (lambda: diffusion_orbits(C4.irrep(0), D4.irrep(0)), ValueError, "different groups"),
        (
            lambda: diffusion_orbits(
                MatrixGroup("3-4-5", 2, [], [sympy.Matrix([[3, -4], [4, 3]]) / 5]).tensor(0, 0)
            ),
            ValueError,
            "3-4-5 is not finite, or has too many",
        ),
        (lambda: diffusion_orbits("0"), TypeError, "rep_in must be a representation"),
        (lambda: diffusion_orbits(C4.irrep(0), orbits="center"), ValueError, "a sequence of"),
        (lambda: diffusion_orbits(C4.irrep(0), orbits=()), ValueError, "a sequence of"),
        (lambda: diffusion_orbits(C4.irrep(0), orbits=("x",)), ValueError, r"orbits\[0\].*'x'"),
        (lambda: diffusion_orbits(C4.irrep(0), orbits=("mirror",)), ValueError, "no dihedral"),
        (lambda: diffusion_orbits(C4.irrep(0), orbits=([0.1],)), ValueError, "no multiple"),
        (
            lambda: diffusion_orbits(C4.irrep(0)).weights({"kernel": 1}),
            ValueError,
            "dict with the keys",
        ),
        (lambda: diffusion_orbits(C4.irrep(0)).project({}), ValueError, "no 'kernel'"),
        (
            lambda: diffusion_orbits(C4.irrep(0)).project({"kernel": np.ones((2, 1, 1))}),
            ValueError,
            r"\(5, 1, 1\), found \(2, 1, 1\)",
        ),
    ],
)
def test_bad_arguments(make, error, message):
    with pytest.raises(error, match=message):
        make()
