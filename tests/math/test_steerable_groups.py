"""Flows on representations with several copies of a frequency, reflections, and finite groups."""

import dataclasses

import numpy as np
import pytest
import slow_steerable as slow
import tensorflow as tf

from equivariance import O2, O3, SO2, SO3, Cyclic, Dihedral, solve_generators
from tfpn.math.arguments import read_observed
from tfpn.math.steerable import count_channels, radial, steerable_convolve
from tfpn.math.steerable.fields import part_channels, read_fields, read_frequencies
from tfpn.math.steerable.groups import read_group
from tfpn.math.steerable.kernels import steerable_kernel
from tfpn.math.steerable.operator import SteerableOperator
from tfpn.math.waves import Waves

PRIOR = {"signal_std": 1.2, "length_scale": 0.3}
# The group, rho and the types of input and output.
CASES = {
    "pseudoscalars": (
        O2, (0, "0-", 1), ((0, 2), ("0-", 1), (1, 1)), ((0, 1), ("0-", 2), (1, 1))
    ),
    "two of each": (SO2, (0, 0, 1, 1), ((0, 3), (1, 1)), ((0, 1), (1, 2))),
    "two scalars in space": (SO3, (0, 0, 1), ((0, 3),), ((0, 1), (1, 1))),
    "pseudovectors": (O3, (0, 1, "1-"), ((0, 1), (1, 1)), ((0, 1), (1, 1), ("1-", 2))),
    "C4": (Cyclic(4), (0, 0, 1), ((0, 3), (1, 1)), ((0, 1), (1, 2))),
    "D4": (Dihedral(4), (0, "0-", 1), ((0, 1), ("0-", 1), (1, 2)), ((0, 1), ("0-", 1), (1, 1))),
    "C3": (Cyclic(3), (0, 1), ((0, 1), (1, 1)), ((0, 1), (1, 1))),
    "D3": (Dihedral(3), (0, 1), ((0, 2), (1, 1)), ((0, 1), (1, 1))),
}  # fmt: skip
every_case = pytest.mark.parametrize("name", CASES)
# The slow version's frequencies. The kernel's spectrum is 1e-14 at the cutoff in space, and points
# within two length scales, and flows over one third, are far from the period of 12.
LATTICE = {2: {}, 3: {"nodes": 32, "cutoff": 8.0}}
SIZE, REACH = {2: 1.0, 3: 0.3}, {2: 0.3, 3: 0.1}


def problem(name, count=2, size=5):
    """Observations of one example, and all arguments of a convolution."""
    group, frequencies, fields_in, fields_out = CASES[name]
    rng, dim = np.random.default_rng(0), group.dim
    channels = count_channels(fields_in, dim)
    copies = max(-(-n // frequencies.count(m)) for m, n in fields_in)
    points = SIZE[dim] * rng.uniform(size=(1, size, dim))
    variance = slow.block_mean(rng.uniform(0.02, 0.2, size=(1, size, channels)), fields_in, dim)
    query = np.concatenate([points[:, :1], SIZE[dim] * rng.uniform(size=(1, 2, dim))], axis=1)
    weights = {}
    for m, number in fields_out:
        parts = (2,) if m and read_group(group).mixes_by_complex_numbers(m) else ()
        weights[m] = rng.normal(size=(*parts, count * frequencies.count(m), copies, number))
    return (points, rng.normal(size=variance.shape), variance, query), {
        "fields_in": fields_in,
        "fields_out": fields_out,
        "frequencies": frequencies,
        "weights": weights,
        "bias": rng.normal(size=dict(fields_out)[0]),
        "order": getattr(group, "order", None),
    }, slow.generators(frequencies, count, dim=dim, group=group, length=REACH[dim])  # fmt: skip


@every_case
def test_equals_dense_matrices(name):
    given, arguments, flows = problem(name)
    mean, variance, _ = steerable_convolve(*given, **arguments, **flows, **PRIOR, noise="channel")
    dim = given[0].shape[-1]
    arguments.pop("order")
    expected, covariance = slow.convolve(
        *(part[0] for part in given), **arguments, flows=flows, **PRIOR, **LATTICE[dim]
    )
    # Two quadratures of error 1e-13 each, and condition numbers below 1e3.
    np.testing.assert_allclose(mean[0], expected, rtol=0, atol=1e-10)
    blocks = slow.block_variance(covariance, arguments["fields_out"], dim)
    np.testing.assert_allclose(variance[0], blocks, rtol=0, atol=1e-10)


@every_case
def test_draws_take_the_same_operator(name):
    """The response to readings is the mean, and waves are multiplied by exp(M(i w)) and W."""
    given, arguments, flows = problem(name)
    mean, _, _ = steerable_convolve(*given, **arguments, **flows, **PRIOR)
    orders = (flows[f"{n}_order"] for n in ("zeroth", "first", "second"))
    operator = SteerableOperator(
        tf.constant(given[3]),
        {m: tf.constant(w) for m, w in arguments["weights"].items()},
        tuple(map(tf.constant, orders)),
        tf.constant(arguments["bias"]),
        *(arguments[n] for n in ("fields_in", "fields_out", "frequencies", "order")),
    )
    observed = read_observed(*given[:3], **PRIOR)
    columns = observed.values[:, None]
    found, _ = operator.respond(observed.posterior(), columns)
    np.testing.assert_allclose(found[:, 0], mean, rtol=0, atol=1e-11)
    rng, (_, values, _, query) = np.random.default_rng(1), given
    frequency = rng.normal(size=(1, 1, query.shape[-1])) / PRIOR["length_scale"]
    amplitudes = rng.normal(size=(1, 2, values.shape[-1]))
    moved = operator.flowed(Waves(tf.constant(frequency), tf.constant(amplitudes), None)).amplitudes
    # At one frequency, which is 1 / l times the lattice's only node.
    generators = zip(*(flows[f"{n}_order"] for n in ("zeroth", "first", "second")), strict=True)
    w, types = frequency[0, 0], [arguments[n] for n in ("fields_in", "fields_out", "frequencies")]
    mixing = slow.dense_mixing(arguments["weights"], *types, query.shape[-1])
    inside = slow.embedding(types[0], types[2], query.shape[-1])
    wave = np.zeros(mixing.shape[2:], complex)
    for (copy, place), real, imag in zip(inside, *amplitudes[0], strict=True):
        wave[copy, place] = real - 1j * imag
    expected = sum(
        np.einsum("onr,rs,ns->o", w_k, slow.symbol(*generator, w), wave)
        for w_k, generator in zip(mixing, generators, strict=True)
    )
    np.testing.assert_allclose(moved[0, 0], expected.real, rtol=0, atol=1e-10)
    np.testing.assert_allclose(moved[0, 1], -expected.imag, rtol=0, atol=1e-10)


def test_fields_are_dealt_out_to_the_parts_of_rho():
    parts = part_channels(((0, 3), (1, 1)), (0, 0, 1, 1))
    assert {part.start: channels for part, channels in parts.items()} == {
        0: [0, 2], 1: [1], 2: [3, 4]
    }  # fmt: skip


@pytest.mark.parametrize("n", range(1, 7))
@pytest.mark.parametrize("finite, whole", [(Cyclic, SO2), (Dihedral, O2)])
def test_finite_groups_have_more_generators_unless_their_order_is_high(finite, whole, n):
    """The bound that `FieldGroup.flow_order` knows, against the exact solver."""
    group = finite(n)
    for highest in range((n + 1) // 2):  # a frequency of n / 2 has one channel
        frequencies = tuple(range(highest + 1))
        if group.reflections:
            frequencies = (0, "0-", *frequencies[1:])
        few, many = (
            solve_generators(sum(slow.irrep(g, m) for m in frequencies)).dimensions
            for g in (whole, group)
        )
        assert all(few[order] <= many[order] for order in few)
        found = read_group(group).flow_order(frequencies)
        assert found == (None if few == many else n)
        assert (found is None) == (n > 2 * highest + 2)


def flow_of(group, frequencies, length):
    """A random flow of a group by its name, and its representation."""
    rho = read_group(group).representation(frequencies)
    parameters = solve_generators(rho).parameterization("dissipative")
    generator = parameters.generator(parameters.initial(0, length=length))
    names = ("zeroth_order", "first_order", "second_order")
    return rho, dict(zip(names, (np.asarray(part, float) for part in generator), strict=True))


FINITE = {
    "C4": (0, 1, 2),
    "D4": (0, "0-", 1, 2),
    "C3": (0, 1),
    "D3": (0, "0-", 1),
    "C2": (0, 1),
    "D2": (0, "0-", 1),
    "C5": (0, 2),
}
every_finite_group = pytest.mark.parametrize("name", FINITE)


@every_finite_group
@pytest.mark.parametrize("both_sides", [False, True])
def test_kernels_that_prefer_directions_equal_a_sum_over_frequencies(name, both_sides):
    _, flow = flow_of(name, FINITE[name], 0.3)
    x = np.concatenate([np.zeros((1, 2)), 0.3 * np.random.default_rng(0).normal(size=(6, 2))])
    one = {key: value[None] for key, value in flow.items()}
    xi, symbols, weights = slow.lattice_symbols(one, 0.3, nodes=60, cutoff=8.5)
    symbol = symbols[0] @ symbols[0].conj().swapaxes(1, 2) if both_sides else symbols[0]
    waves = PRIOR["signal_std"] ** 2 * weights * np.exp(1j * x @ xi.T)
    expected = np.einsum("pq,qrs->prs", waves, symbol, optimize=True).real
    for dtype, tolerance in (("float64", 1e-12), ("float32", 2e-6)):
        found = steerable_kernel(
            x.astype(dtype),
            np.zeros(2, dtype),
            **PRIOR,
            **flow,
            frequencies=FINITE[name],
            both_sides=both_sides,
            order=int(name[1:]),
        )
        assert np.max(np.abs(found - expected)) < tolerance * np.max(np.abs(expected))


@pytest.mark.parametrize("name, band", [*((name, 32) for name in FINITE), ("C3", 4)])
def test_kernels_turn_exactly_by_the_group_whatever_the_tables_resolve(name, band, monkeypatch):
    """And not by half of its smallest angle."""
    frequencies = FINITE[name]
    few = dataclasses.replace(radial.RESOLUTION[tf.float64], band=band)
    monkeypatch.setitem(radial.RESOLUTION, tf.float64, few)
    rho, flow = flow_of(name, frequencies, 0.3)
    x = np.random.default_rng(0).normal(size=(5, 2))
    turns = [np.array(element.matrix, float) for element in rho.group.elements()]
    matrices = [np.array(rho.matrix(element), float) for element in rho.group.elements()]
    angle = np.pi / int(name[1:])
    turns.append(slow.representation(((1, 1),))(angle))
    matrices.append(slow.representation([(m, 1) for m in frequencies])(angle))
    expected, *found = steerable_kernel(
        np.stack([x, *(x @ turn.T for turn in turns)]), np.zeros(2), **PRIOR, **flow,
        frequencies=frequencies, order=int(name[1:]),
    ).numpy()  # fmt: skip
    turned = [matrix @ expected @ matrix.T for matrix in matrices]
    errors = [
        np.max(np.abs(f - t)) / np.max(np.abs(expected)) for f, t in zip(found, turned, strict=True)
    ]
    assert max(errors[:-1]) < 1e-13
    assert errors[-1] > 1e-3


def test_kernels_in_space_turn_with_reflections():
    """True and pseudo fields of the spins 0, 1 and 2; a kernel of SO3's flows does not."""
    frequencies = (0, "0-", 1, "1-", 2, "2-")
    rho, flow = flow_of("O3", frequencies, 0.2)
    turning = solve_generators(sum(SO3.irrep(int(str(m)[0])) for m in frequencies))
    turning = turning.parameterization("dissipative")
    turning = turning.generator(turning.initial(0, length=0.2))
    x = 0.5 * np.random.default_rng(0).normal(size=(10, 3))

    def kernel(x, **flow):
        return steerable_kernel(x, np.zeros(3), **PRIOR, **flow, frequencies=frequencies).numpy()

    only_rotations = {name: np.asarray(getattr(turning, name), float) for name in flow}
    for sign in (1.0, -1.0):
        turn = sign * O3.rotation([1, 2, 3], 0.7).matrix
        matrix = np.asarray(rho.matrix(turn), float)
        errors = []
        for given in (flow, only_rotations):
            expected = matrix @ kernel(x, **given) @ matrix.T
            error = np.max(np.abs(kernel(x @ turn.T, **given) - expected))
            errors.append(error / np.max(np.abs(expected)))
        assert errors[0] < 1e-13
        assert (errors[1] < 1e-13) == (sign > 0)


def test_frequencies_that_a_group_cannot_tell_apart():
    for group, frequencies in (("C4", (0, 1, 3)), ("D3", (0, 2)), ("C1", (0,))):
        with pytest.raises(ValueError, match=f"group {group} cannot tell the frequencies"):
            read_group(group).check_frequencies(frequencies)
    read_group("C4").check_frequencies((0, 1, 2))


def test_texts_of_every_group():
    """Any representation that the toolkit reads, by its irreducible parts."""
    read = [
        ("SO2", "2x0 + 1 @ 1", ((0, 4), (2, 1))),
        ("SO2", "1 + 0 + 1*", ((0, 1), (1, 2))),
        ("O2", "0- + T(1,1)", ((0, 1), ("0-", 2), (2, 1))),
        ("o(2)", "0+ + 0- @ 1", ((0, 1), (1, 1))),
        ("C9", "3x(0 + 1)", ((0, 3), (1, 3))),
        ("D9", "T(1,0) + 0-", (("0-", 1), (1, 1))),
        ("SO3", "0 + 1 @ 1", ((0, 2), (1, 1), (2, 1))),
        ("O3", "1 @ 1 + 0-", ((0, 1), ("0-", 1), ("1-", 1), (2, 1))),
    ]
    for group, text, expected in read:
        assert read_fields(text, group=group, any_basis=True) == expected
    assert read_frequencies("T(1,1)", group="O2") == (0, "0-", 2)
    assert read_fields({"0+": 2, "0-": 1}, group="D7") == ((0, 2), ("0-", 1))
    with pytest.raises(ValueError, match=r"its parts are 2x0 \+ 2. Give these, and multiply"):
        read_fields("T(1,1)")
    with pytest.raises(ValueError, match="fields '3': C6 has frequency 3, a channel that only"):
        read_fields("3", group="C6")
    with pytest.raises(ValueError, match="must be a representation of C5, found one of SO2"):
        read_fields(SO2.irrep(1), group="C5")
