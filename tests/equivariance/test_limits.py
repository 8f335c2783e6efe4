"""Sizes that are refused, and numbers at the edges of what floats hold."""

import time

import numpy as np
import pytest
import sympy

from equivariance import (
    SO2,
    SO3,
    Cyclic,
    Generator,
    amplifies,
    count_generators,
    decompose,
    diffusion_orbits,
    solve_generators,
    solve_intertwiners,
    symbol,
    to_numpy,
    verify,
)
from equivariance.arguments import MAX_CHANNELS

HUGE = 10**9 * SO2.irrep(1)


@pytest.mark.parametrize(
    "use",
    [
        solve_generators,
        solve_intertwiners,
        decompose,
        lambda rep: solve_generators(SO2.irrep(0), rep),
        lambda rep: verify({"zeroth_order": [[1]]}, rep),
        lambda rep: rep.matrix(0.5),
        lambda rep: rep.lie_algebra,
        lambda rep: rep.decompose(),
        lambda rep: diffusion_orbits(10**9 * Cyclic(4).irrep(0)),
        lambda rep: solve_generators(rep @ rep),
    ],
)
def test_too_many_channels(use):
    start = time.process_time()
    with pytest.raises(ValueError, match=f"channels are more than the {MAX_CHANNELS} supported"):
        use(HUGE)
    assert time.process_time() - start < 2


def test_too_many_tensor_factors():
    with pytest.raises(ValueError, match=r"T\(1000000000,0\) of SO3: 3\^1000000000 channels"):
        SO3.tensor(10**9, 0)


def test_dimensions_are_counted_beyond_the_limit():
    assert count_generators(HUGE)["zeroth_order"] == 2 * 10**18


def test_two_thousand_channels_are_not_too_many():
    solution = solve_generators(MAX_CHANNELS // 2 * SO2.irrep(1))
    assert solution.dimensions["zeroth_order"] == 2 * (MAX_CHANNELS // 2) ** 2


COMPLEX = [
    lambda: Generator(np.array([[1 + 2j]])).to_numpy(),
    lambda: SOLUTION.parameterization("free").generator(
        {name: x + 1j for name, x in SOLUTION.parameterization("free").initial().items()}
    ),
    lambda: SOLUTION.factored["zeroth_order"].assemble([1j, 0]),
    lambda: SOLUTION.factored["zeroth_order"].apply([1, 0], [1j, 0]),
    lambda: solve_intertwiners(SO2.irrep(1)).parameterization().matrix({"weights": [1j, 0]}),
    lambda: SO2.irrep(1).matrix(np.eye(2) + 0j),
    lambda: SO3.irrep(1).matrix(np.eye(3) + 0j),
    lambda: verify({"zeroth_order": np.eye(2) + 0j}, SO2.irrep(1)),
]
SOLUTION = solve_generators(SO2.irrep(1))


@pytest.mark.parametrize("use", COMPLEX)
def test_imaginary_parts_are_not_dropped(use, recwarn):
    with pytest.raises(TypeError, match="must be real, found complex numbers"):
        use()
    assert not recwarn


@pytest.mark.parametrize(
    "values", [["1", "2"], [True, False], np.array([1, 0], dtype=bool), [[], 1]]
)
def test_other_things_are_no_coefficients(values, recwarn):
    with pytest.raises((TypeError, ValueError), match="coefficients must"):
        SOLUTION.factored["zeroth_order"].assemble(values)
    assert not recwarn


@pytest.mark.parametrize("values", [[[1, 2]], "12", ["1", "2"], [True, 1]])
def test_exact_parameters_are_checked(values):
    free = SOLUTION.parameterization("free")
    exact = {name: [0] * p.size for name, p in zip(free.initial(), free.parameters, strict=True)}
    with pytest.raises((TypeError, ValueError), match="The parameter zeroth_order must"):
        free.exact({**exact, "zeroth_order": values})
    a = sympy.Symbol("a")
    assert free.exact({**exact, "zeroth_order": [a, 1]}).zeroth_order[0, 0] == a


NAN, INF = float("nan"), float("inf")
DISSIPATIVE = solve_generators(SO2.irrep(0) + SO2.irrep(1)).parameterization()
FACTORED = DISSIPATIVE.factored(DISSIPATIVE.initial())
SCALAR = Cyclic(4).irrep(0)
ORBITS = diffusion_orbits(SCALAR)
WEIGHTS = ORBITS.weights(ORBITS.initial())


@pytest.mark.parametrize(
    ("use", "error", "message"),
    [
        (lambda: SO3.rotation([NAN, 0, 1], 1.0), ValueError, "axis must be a finite real"),
        (lambda: SO3.rotation("xyz", 1.0), TypeError, "axis must be three numbers, found 'xyz'"),
        (lambda: SO3.rotation(3, 1.0), TypeError, "axis must be three numbers, found 3"),
        (lambda: SO3.rotation([1j, 0, 0], 1.0), TypeError, "axis must be real, found 1j"),
        (lambda: SO3.rotation([1, 0, 0], INF), ValueError, "angle must be a finite real"),
        (lambda: SO3.rotation([1, 0, 0], "a"), TypeError, "angle must be real, found 'a'"),
        (lambda: SO2.irrep(1).matrix([[1, 0], [0, NAN]]), ValueError, "g must be finite"),
        (
            lambda: DISSIPATIVE.generator({k: v * 1e200 for k, v in DISSIPATIVE.initial().items()}),
            ValueError,
            "parameters are too large",
        ),
        (lambda: FACTORED.apply([1.0], [1, 2, 3]), ValueError, r"frequency must .*\(2,\)"),
        (lambda: FACTORED.apply([1j, 0], [1, 2, 3]), TypeError, "frequency must be real"),
        (lambda: FACTORED.apply([1, 0], [1, 2]), ValueError, "channels must have the last axis 3"),
        (lambda: FACTORED.apply([1, 0], "abc"), TypeError, "channels must be numbers"),
        (
            lambda: SOLUTION.parameterization("free", num_factors=2),
            ValueError,
            "num_factors applies to constraint = 'dissipative' only",
        ),
        (
            lambda: SOLUTION.parameterization("free", zeroth_order=False),
            ValueError,
            "zeroth_order applies to",
        ),
        (lambda: SOLUTION.parameterization(zeroth_order="no"), TypeError, "must be True or False"),
        (lambda: amplifies({"zeroth_order": [[10**400]]}), ValueError, "too large for a float"),
        (lambda: diffusion_orbits(Cyclic(4).irrep(0), orbits=[3]), TypeError, r"orbits\[0\] must"),
        (
            lambda: diffusion_orbits(Cyclic(4).irrep(0), orbits=3),
            ValueError,
            "orbits must be a seq",
        ),
        (lambda: ORBITS.project(None), TypeError, "weights must be a dict"),
        (
            lambda: ORBITS.project(
                {k: v * NAN for k, v in ORBITS.weights(ORBITS.initial()).items()}
            ),
            ValueError,
            r"weights\['kernel'\] is not finite",
        ),
        (lambda: to_numpy([1]), TypeError, "array must be a sympy matrix or array, found list"),
        (lambda: symbol(None, first_order=[[[1]]]), ValueError, "frequency must be a vector"),
        (lambda: symbol([1, 2], first_order=[[[1]]]), ValueError, r"first_order must .*\(2,\)"),
    ],
)
def test_what_does_not_fit_is_named(use, error, message, recwarn):
    with pytest.raises(error, match=message):
        use()
    assert not recwarn
