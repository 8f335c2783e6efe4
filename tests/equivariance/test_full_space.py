"""O(3) with its parities, against the group as matrices without known representations."""

import numpy as np
import pytest
import sample_groups
import sympy

from equivariance import (
    O3,
    SO3,
    parse_representation,
    solve_generators,
    solve_intertwiners,
    verify,
)

TEXT = "0 + 0- + 1 + 1- + 2 + 2-"


@pytest.mark.parametrize("tensors", [((1, 0), (1, 0)), ((1, 1), (1, 0)), ((1, 1), (1, 1))])
def test_tensors_have_the_generators_of_the_group_of_matrices(tensors):
    found, expected = (
        solve_generators(*(group.tensor(*pq) for pq in tensors)) for group in (O3, sample_groups.O3)
    )
    assert found.dimensions == expected.dimensions
    assert found.residual() == 0


def test_parity_selects_the_generators():
    """Generators of even order keep the sign of the inversion, and those of order 1 change it."""
    for out, inside in ((1, 1), (1, 2), (2, 2), (0, 1)):
        turning = solve_generators(SO3.irrep(inside), SO3.irrep(out)).dimensions
        for parity in (1, -1):
            found = solve_generators(O3.irrep(inside), O3.irrep(out, parity)).dimensions
            even = (-1) ** (out + inside) == parity
            assert found["zeroth_order"] == even * turning["zeroth_order"]
            assert found["first_order"] == (not even) * turning["first_order"]
            assert found["second_order"] == even * turning["second_order"]
    assert solve_intertwiners(O3.irrep(1), O3.irrep(1, -1)).dimension == 0


def test_representations():
    rho = parse_representation(TEXT, O3)
    assert str(rho) == TEXT and parse_representation(str(rho), O3) == rho
    rng = np.random.default_rng(0)
    for _ in range(4):
        a, b = O3.random_element(rng), O3.random_element(rng)
        product = rho.matrix(a) @ rho.matrix(b)
        np.testing.assert_allclose(rho.matrix(O3.compose(a, b)), product, atol=1e-14)
    inversion = rho.matrix(-sympy.eye(3))
    assert inversion == sympy.diag(1, -1, *[-1] * 3, *[1] * 3, *[1] * 5, *[-1] * 5)
    assert str(O3.tensor(2, 0).decompose().representation) == "0 + 1- + 2"
    assert str((O3.irrep(1) @ O3.irrep(1, -1)).decompose().representation) == "0- + 1 + 2-"


def test_random_generators_commute():
    rho = parse_representation("0 + 0- + 1 + 1- + 2", O3)
    parameters = solve_generators(rho).parameterization("dissipative")
    assert verify(parameters.generator(parameters.initial(0, length=0.3)), rho)


def test_errors():
    with pytest.raises(ValueError, match="parity must be 1 or -1, found 2"):
        O3.irrep(1, 2)
    with pytest.raises(ValueError, match="g must be an orthogonal matrix"):
        O3.element(2 * np.eye(3))
