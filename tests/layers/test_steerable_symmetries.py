"""Layers and networks of fields under every supported group: at all elements, or random ones."""

import keras
import numpy as np
import pytest
from layer_harness import perturb

import tfpn
from equivariance import O2, O3, SO2, SO3, Cyclic, Dihedral, parse_representation
from tfpn import layers
from tfpn.math.steerable.fields import read_fields, read_frequencies
from tfpn.models import SteerablePNCNN

# The group, its elements, and representations: the input, the blocks, what flows act on, the
# output. Each holds its parts in the order of the frequencies.
C3, C4, C5, D4, D5 = Cyclic(3), Cyclic(4), Cyclic(5), Dihedral(4), Dihedral(5)


def random_elements(group, count=4):
    rng = np.random.default_rng(0)
    return [group.random_element(rng) for _ in range(count)]


def floats(group):
    """All elements of a finite group, as numbers."""
    return [group.element(np.array(g.matrix, float)) for g in group.elements()]


CASES = {
    "SO2": (SO2, random_elements(SO2), "0 + 1", "3x0 + 2x1", "2x0 + 1", "1"),
    "O2": (
        O2,
        [*random_elements(O2, 3), O2.reflection(0.0), O2.reflection(0.9)],
        "0+ + 0-",
        "2x0+ + 0- + 2x1",
        "0 + 2x0- + 1",
        "0- + 1",
    ),
    "C5": (C5, floats(C5), "0", "2x(0 + 1)", "0 + 1", "0 + 1"),
    "D5": (D5, floats(D5), "0 + 0-", "2x0 + 2x0- + 2x1", "0 + 0- + 1", "0- + 1"),
    "C4": (C4, floats(C4), "0", "2x(0 + 1)", "2x0 + 1", "0 + 1"),
    "D4": (D4, floats(D4), "0 + 0-", "2x0 + 2x0- + 2x1", "0 + 0- + 1", "0- + 1"),
    "C3": (C3, floats(C3), "0 + 1", "2x(0 + 1)", "0 + 1", "0 + 1"),
    "O3": (
        O3,
        [*random_elements(O3, 2), O3.element(np.diag([1.0, 1.0, -1.0]))],
        "0 + 1",
        "2x0 + 1 + 1-",
        "0 + 1 + 1-",
        "0 + 1-",
    ),
    "SO3": (SO3, random_elements(SO3, 2), "0", "2x0 + 1", "2x0 + 1", "1"),
}
every_group = pytest.mark.parametrize("name", CASES)


def as_text(fields):
    """The text of a field type, its parts in the order of its channels."""
    return " + ".join(f"{copies}x{m}" for m, copies in fields)


def matrices(group, text):
    rho = parse_representation(text, group)
    return rho.dim, lambda element: np.asarray(rho.matrix(element), float)


def data(group, text, elements=(), query=True):
    """An example with a padding point, and after it what each element makes of it."""
    rng, (channels, rho) = np.random.default_rng(2), matrices(group, text)
    variance = np.repeat(rng.uniform(0.01, 0.1, size=(1, 5, 1)), channels, axis=-1)
    variance[0, 4] = np.inf
    x = {
        "points": rng.uniform(size=(1, 5, group.dim)),
        "values": np.where(np.isinf(variance), 0.0, rng.normal(size=variance.shape)),
        "variance": variance,
        "query": rng.uniform(size=(1, 3, group.dim)),
    }
    parts = {key: [array] for key, array in x.items() if query or key != "query"}
    for element in elements:
        turn = np.asarray(element.matrix, float)
        for key, found in parts.items():
            matrix = {"values": rho(element), "variance": np.eye(channels)}.get(key, turn)
            found.append(moved(x[key], matrix))
    return {key: np.concatenate(found) for key, found in parts.items()}


def moved(array, matrix):
    finite = np.isfinite(array)
    return np.where(finite, np.where(finite, array, 0.0) @ matrix.T, np.inf)


def assert_moved(values, group, text, elements):
    """That the later examples' values are the first one's, moved by rho; to rounding."""
    _, rho = matrices(group, text)
    assert len(values) == 1 + len(elements)
    for element, found in zip(elements, values[1:], strict=True):
        error = np.max(np.abs(found - values[0] @ rho(element).T))
        assert error < 1e-10 * np.max(np.abs(values[0])), element


@every_group
def test_layers_commute_with_every_element(name):
    """A convolution, gates, mixing and normalisation, with weights off their initial values."""
    group, elements, inside, text, flow, _ = CASES[name]
    hidden = read_fields(text, group=group, any_basis=True)
    common = {"group": group, "dtype": "float64"}
    block = [
        layers.SteerablePNConv(
            hidden, in_fields=inside, frequencies=flow, num_basis=2, spacing=0.3, seed=0, **common
        ),
        layers.GatedReLU(hidden, **common),
        layers.SteerableMix(hidden, in_fields=hidden, **common),
        layers.SteerableNormalization(hidden, **common),
    ]

    x = data(group, inside, elements, query=False)
    for layer in block:
        layer.build({key: array.shape for key, array in x.items()})
        perturb(layer)
        x = layer(x)
    assert_moved(x["values"].numpy(), group, as_text(hidden), elements)
    first, *others = x["variance"].numpy()
    finite = np.isfinite(first)
    for variance in others:
        np.testing.assert_array_equal(np.isfinite(variance), finite)
        np.testing.assert_allclose(variance[finite], first[finite], rtol=1e-10)
    for layer in block:
        again = type(layer).from_config(layer.get_config())
        assert again.get_config() == layer.get_config()
        assert again.group == layer.group and again.group.name == group.name


@every_group
def test_networks_commute_with_every_element_and_are_saved(name, tmp_path):
    group, elements, inside, hidden, flow, outside = CASES[name]
    model = SteerablePNCNN(
        None, out_fields=outside, in_fields=inside, fields=hidden, flow=flow, group=group.name,
        num_blocks=1, num_basis=1, spacing=0.3, seed=0, dtype="float64", uncertainty="none",
    )  # fmt: skip
    for layer in model.layers:
        if hasattr(layer, "group"):  # others hold the targets' scale
            perturb(layer)
    x = data(group, inside, elements)
    values = model(x).numpy()
    assert_moved(values, group, outside, elements)
    readout = model.get_layer("readout")
    assert readout.group.name == group.name
    assert readout.frequencies == read_frequencies(flow, group=group)
    assert model.get_config()["flow"] == flow
    if name == "O2":
        model.save(tmp_path / "model.keras")
        loaded = keras.models.load_model(tmp_path / "model.keras")
        assert loaded.get_config() == model.get_config()
        np.testing.assert_array_equal(loaded(x), values)


def test_rotations_alone_are_not_reflections():
    """What the group's reflections take away: curls, and mixing by complex numbers."""
    x = data(SO2, "0", query=False)
    errors = {}
    for group in ("SO2", "O2"):
        layer = layers.SteerablePNConv(
            {0: 1, 1: 1}, group=group, num_basis=1, frequencies=(0, 1), spacing=0.3, seed=0,
            dtype="float64",
        )  # fmt: skip
        errors[group] = tfpn.check_equivariance(layer, x, O2, n=4).largest
    assert errors["O2"] < 1e-12 and errors["SO2"] > 0.1


def test_a_classifier_does_not_see_reflections():
    model = SteerablePNCNN(
        2, fields="2x0 + 0- + 1", group="D7", num_blocks=1, num_basis=1, spacing=0.3, seed=0,
        dtype="float64", uncertainty="none",
    )  # fmt: skip
    logits = model(data(Dihedral(7), "0", floats(Dihedral(7)), query=False)).numpy()
    assert np.ptp(logits, axis=0).max() < 1e-10 * np.abs(logits).max()
    assert model.get_layer("conv_1").frequencies == (0, "0-", 1)


def test_types_are_read_in_every_form():
    rho = 2 * O2.irrep(0) + O2.irrep(0, parity=-1)
    mix = layers.SteerableMix(rho, in_fields=rho, group=O2)
    assert mix.fields == ((0, 2), ("0-", 1)) and mix.spatial_dim == 2
    assert layers.GatedReLU("0 + 1", group="SO3").spatial_dim == 3
    model = SteerablePNCNN(
        None, fields="T(1,1) + 1", group="O2", flow=O2.tensor(1, 1) + O2.irrep(1), num_blocks=1
    )
    config = model.get_config()
    assert config["fields"] == [[0, 1], ["0-", 1], [1, 1], [2, 1]]
    assert config["flow"] == "T(1,1) + 1" and config["copies"] is None
    assert SteerablePNCNN.from_config(config).get_config() == config


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"fields": "2x0 + 1", "copies": 2}, "give fields, or copies and frequencies, not both"),
        ({"fields": "0 + 2x1"}, "at least as many scalars .* found 1 and 2"),
        ({"frequencies": (0, 0, 1)}, "none twice"),
        ({"out_fields": "1 + 0"}, r"out_fields must be a sum .* its parts are 0 \+ 1"),
        ({"flow": 3}, r"flow must be a representation such as '2x0 \+ 1', or a Keras layer"),
        ({"flow": "0"}, r"fields .* has the frequencies \[1, 2\], but flow, '0', acts only on"),
        ({"flow": "0 + 1 + 0-"}, "flow is no representation of SO2: SO2 has no reflections"),
        ({"group": "C3"}, r"group C3 cannot tell .* Give frequencies up to 1 .* group='SO2'"),
        ({"group": "D4", "fields": "0 + 2-"}, r"fields '0 \+ 2-': D4 has frequency 2-"),
        ({"group": "O4"}, "group must be one of SO2.* Unknown group 'O4'"),
        ({"group": 3}, "group must be a name or a group"),
        ({"group": "SO3", "spatial_dim": 2}, "SO3 acts on 3 coordinates, found spatial_dim=2"),
        ({"spatial_dim": 4}, "spatial_dim must be 2 .* found 4"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else "",
)
def test_errors_say_what_was_found(arguments, message):
    with pytest.raises((ValueError, TypeError), match=message):
        SteerablePNCNN(None, num_blocks=1, **arguments)
