"""Generators from the layer's parameters are those of the package equivariance."""

import numpy as np
import pytest
import scipy.linalg

from equivariance import SO2, solve_generators, verify
from tfpn.math.steerable.generators import generator_family


@pytest.mark.parametrize("constraint", ["dissipative", "free"])
@pytest.mark.parametrize("frequencies", [(0,), (1,), (0, 1, 2), (1, 3)])
def test_equals_the_package(frequencies, constraint):
    family = generator_family(frequencies, constraint)
    rho = sum(SO2.irrep(m) for m in frequencies)
    parameters = solve_generators(rho).parameterization(constraint)
    values = family.initial(0, count=3, transport=0.2, spread=0.3)
    c, b, s = (t.numpy() for t in family.tensors(values, "float64"))
    for k in range(3):
        expected = parameters.generator({name: value[k] for name, value in values.items()})
        np.testing.assert_allclose(c[k], expected.zeroth_order, atol=1e-14)
        np.testing.assert_allclose(b[k], expected.first_order, atol=1e-14)
        np.testing.assert_allclose(s[k], expected.second_order, atol=1e-14)
        assert verify(expected, rho).equivariant


def test_dissipative_symbols_are_contractions():
    family = generator_family((0, 1, 2), "dissipative")
    for size in (0.1, 3.0, 100.0):
        c, b, s = (
            t.numpy()
            for t in family.tensors(
                family.initial(1, count=20, transport=size, spread=size), "float64"
            )
        )
        for xi in np.random.default_rng(0).normal(size=(5, 2)):
            m = c + 1j * np.einsum("i,kiab->kab", xi, b) - np.einsum("i,j,kijab->kab", xi, xi, s)
            norms = np.linalg.norm(scipy.linalg.expm(m), 2, axis=(1, 2))
            assert np.all(norms <= 1.0 + 1e-12)


def test_unknown_constraint():
    with pytest.raises(ValueError, match="constraint"):
        generator_family((0, 1), "tame")
