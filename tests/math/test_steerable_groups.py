"""Flows on representations with several copies of a frequency, reflections, and finite groups."""

import numpy as np
import pytest
import slow_steerable as slow
import tensorflow as tf

from equivariance import O2, SO2, SO3, Cyclic, Dihedral, solve_generators, verify
from tfpn.math import coupled_kernel
from tfpn.math.arguments import read_observed
from tfpn.math.steerable import count_channels, steerable_convolve
from tfpn.math.steerable.fields import part_channels, read_fields, read_frequencies
from tfpn.math.steerable.groups import read_group
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
        parts = (2,) if group is SO2 and m else ()
        weights[m] = rng.normal(size=(*parts, count * frequencies.count(m), copies, number))
    return (points, rng.normal(size=variance.shape), variance, query), {
        "fields_in": fields_in,
        "fields_out": fields_out,
        "frequencies": frequencies,
        "weights": weights,
        "bias": rng.normal(size=dict(fields_out)[0]),
    }, slow.generators(frequencies, count, dim=dim, group=group, length=REACH[dim])  # fmt: skip


@every_case
def test_equals_dense_matrices(name):
    given, arguments, flows = problem(name)
    mean, variance, _ = steerable_convolve(*given, **arguments, **flows, **PRIOR, noise="channel")
    dim = given[0].shape[-1]
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
        *(arguments[n] for n in ("fields_in", "fields_out", "frequencies")),
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
    """The bound that `FieldGroup.check_generators` knows, against the exact solver."""
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
        if few == many:
            read_group(group).check_generators(frequencies)
            assert n > 2 * highest + 2
        else:
            with pytest.raises(ValueError, match=f"group {group.name} allows flows"):
                read_group(group).check_generators(frequencies)


def test_flows_that_prefer_directions_have_no_profiles():
    """What is refused cannot be held: a kernel of C4 turns by 90 degrees, but not by 45."""
    channels = Cyclic(4).irrep(0) + Cyclic(4).irrep(1)
    solution = solve_generators(channels)
    parameters = solution.parameterization("dissipative")
    generator = parameters.generator(parameters.initial(0, length=0.3))
    assert verify(generator, channels) and not verify(generator, SO2.irrep(0) + SO2.irrep(1))
    flow = dict(zip(("zeroth_order", "first_order", "second_order"), generator, strict=True))
    x = np.array([[0.3, 0.1]])

    def kernel(x):
        return coupled_kernel(x, np.zeros(2), **flow, **PRIOR).numpy()

    for angle, largest in ((np.pi / 2, 1e-12), (np.pi / 4, None)):
        turn = SO2.irrep(1).matrix(angle)
        rho = (SO2.irrep(0) + SO2.irrep(1)).matrix(angle)
        error = np.max(np.abs(kernel(x @ turn.T) - rho @ kernel(x) @ rho.T))
        assert error < largest if largest else error > 0.01


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
