"""check_equivariance: what commutes, what does not, and by how much it does not."""

import keras
import numpy as np
import pytest

import tfpn
from equivariance import O2, SO2, SO3, Cyclic, Dihedral, MatrixGroup
from tfpn import layers


def data(dim=2, channels=3, dtype=np.float64):
    rng = np.random.default_rng(0)
    shape = (3, 8, channels)
    x = {
        "points": rng.uniform(size=(3, 8, dim)),
        "values": rng.normal(size=shape),
        "variance": np.broadcast_to(rng.uniform(0.01, 0.1, size=(3, 8, 1)), shape).copy(),
    }
    x["variance"][0, 5:] = np.inf
    x["values"][0, 5:] = np.nan
    return {key: value.astype(dtype) for key, value in x.items()}


class Affine(keras.layers.Layer):
    """``values + scale * (offset of the points from an origin)``, of two channels."""

    def __init__(self, scale=0.0, origin=(0.0, 0.0)):
        super().__init__(dtype="float64")
        self.scale, self.origin = scale, np.array(origin)

    def call(self, x):
        return {**x, "values": x["values"] + self.scale * (x["points"] - self.origin)}


def complete(x):
    """Without padding."""
    return {key: value[1:] for key, value in x.items()}


@pytest.mark.parametrize("group", [SO2, O2, Cyclic(5), Dihedral(3)], ids=str)
def test_the_error_is_the_one_that_was_put_in(group):
    """Vectors at points: x - centre turns as it should, x - origin misses by the origin's path."""
    x = complete(data(channels=2))
    fields = {"rep_in": {1: 1}, "rep_out": {1: 1}}
    centre = np.array([0.3, -0.2])
    good = tfpn.check_equivariance(Affine(2.0, centre), x, group, centre=centre, **fields)
    assert good.largest < 1e-14 and good.elements == 8 and good.centre == tuple(centre)
    origin = centre + [0.0, 0.5]
    bad = tfpn.check_equivariance(Affine(2.0, origin), x, group, centre=centre, **fields)
    expected = Affine(2.0, origin)(x)["values"]
    rng = np.random.default_rng(0)
    paths = []
    while len(paths) < 8:
        turn = group.random_element(rng).matrix
        if not np.allclose(turn, np.eye(2)):
            paths.append(np.abs(2.0 * (turn @ [0.0, 0.5] - [0.0, 0.5])).max())
    assert bad.errors["values"] == pytest.approx(max(paths) / np.abs(expected).max())
    assert bad.errors["variance"] < 1e-14


def test_types_are_read_from_layers():
    x = data()
    fields = {0: 1, 1: 1}
    for layer in (
        layers.SteerableMix({1: 2, 0: 1}, in_fields=fields, dtype="float64"),
        layers.GatedReLU(fields, dtype="float64"),
        layers.GatedReLU(fields, gates="own", dtype="float64"),
        layers.SteerableNormalization(fields, dtype="float64"),
    ):
        report = tfpn.check_equivariance(layer, x, SO2)
        assert report.largest < 1e-14 and set(report.errors) == {"values", "variance"}
    # The ReLU of a vector's components does not turn.
    relu = layers.ProbReLU(dtype="float64")
    assert tfpn.check_equivariance(relu, x, SO2).largest < 1e-14  # three scalars
    assert tfpn.check_equivariance(relu, x, SO2, rep_in=fields, rep_out=fields).largest > 0.1


def test_query_points_turn_too():
    x = data(channels=1)
    x["query"] = np.random.default_rng(1).uniform(size=(3, 4, 2))
    layer = layers.SteerablePNConv({1: 1}, num_basis=1, spacing=0.3, dtype="float64")
    report = tfpn.check_equivariance(layer, x, SO2, n=2, batch_size=2)
    assert report.largest < 1e-12
    plain = layers.PNConv(1, num_basis=2, spacing=0.3, dtype="float64")
    assert tfpn.check_equivariance(plain, x, SO2, n=2).largest > 1e-2


def test_pooling_over_a_disc_and_a_box():
    x = data()
    disc = layers.IntegralPooling(disc=((0.2, 0.9), 0.5), spacing=0.3, dtype="float64")
    report = tfpn.check_equivariance(disc, x, O2)
    assert report.largest < 1e-12 and report.centre == (0.2, 0.9)
    assert tfpn.check_equivariance(disc, x, O2, centre=(0.5, 0.5)).largest > 1e-2
    box = layers.IntegralPooling(box=(0.0, 1.0), spacing=0.3, dtype="float64")
    assert tfpn.check_equivariance(box, x, SO2, centre=(0.5, 0.5)).largest > 1e-2
    assert tfpn.check_equivariance(box, x, Dihedral(4), centre=(0.5, 0.5)).largest < 1e-12


def test_other_spaces_and_representations():
    x = data(dim=3)
    same = Affine(1.0, np.zeros(3))
    x["points"] -= x["points"][np.isfinite(x["variance"]).all(-1)].mean(0)
    report = tfpn.check_equivariance(same, x, SO3, rep_in=SO3.irrep(1), rep_out=SO3.irrep(1))
    assert report.largest < 1e-14 and len(report.centre) == 3
    line = MatrixGroup("mirror", 1, [], [[[-1]]])
    pooling = layers.IntegralPooling(spacing=0.3, dtype="float64")
    assert tfpn.check_equivariance(pooling, data(dim=1), line, n=2).largest < 1e-12


def test_named_outputs():
    inputs = {
        key: keras.Input((None, 2), name=key, dtype="float64")
        for key in ("points", "values", "variance")
    }
    turned = layers.SteerableMix({1: 1}, in_fields={1: 1}, dtype="float64")(inputs)
    pooled = layers.IntegralPooling(spacing=0.3, dtype="float64")(inputs)
    model = keras.Model(inputs, {"wind": turned, "total": pooled["values"]})
    x = complete(data(channels=2))
    both = {"wind": {1: 1}, "total": {1: 1}}
    report = tfpn.check_equivariance(model, x, SO2, rep_in={1: 1}, rep_out=both)
    assert set(report.errors) == {"wind.values", "wind.variance", "total.values"}
    assert report.largest < 1e-12
    both["total"] = 2  # two scalars
    report = tfpn.check_equivariance(model, x, SO2, rep_in={1: 1}, rep_out=both)
    assert report.errors["total.values"] > 0.1 > 1e-12 > report.errors["wind.values"]


def test_results_that_are_not_finite_never_pass():
    class Broken(Affine):
        def call(self, x):
            return {**x, "values": x["values"] * x["points"][..., :1] ** 0.5}

    report = tfpn.check_equivariance(Broken(), complete(data()), SO2, centre=(0.0, 0.0))
    assert report.errors["values"] == np.inf


def test_a_small_field_does_not_hide_behind_a_large_one():
    """A vector a thousand times smaller than a scalar: what is wrong with it shows."""
    x = data(channels=3)
    turn = SO2.irrep(1).matrix(0.3).T

    def model(x):
        scalar = np.cos(np.sum(np.square(x["points"] - [0.3, 0.2]), axis=-1, keepdims=True))
        vector = x["points"] - [0.3, 0.2]
        values = np.concatenate([1e3 * scalar, vector + [0.01, 0.0], vector @ turn], axis=-1)
        return {"values": values}

    report = tfpn.check_equivariance(model, x, SO2, n=4, rep_out={0: 1, 1: 2}, centre=(0.3, 0.2))
    assert report.errors["values"] < 2.1e-5
    found = report.field_errors["values"]
    assert list(found) == [(0,), (1, 2), (3, 4)]
    assert found[0,] < 1e-14 and found[3, 4] < 1e-14
    # A constant vector that does not turn misses by its path, at most twice its length.
    largest = np.abs(model(x)["values"][..., 1:3]).max()
    assert found[1, 2] * largest == pytest.approx(report.errors["values"] * 1e3, rel=0.1)
    assert 0.005 < found[1, 2] * largest < 0.02
    assert f"(by field to {found[1, 2]:.1e}, channels [1, 2])" in str(report)


def test_report_prints_as_a_table():
    report = tfpn.check_equivariance(Affine(), complete(data(channels=2)), SO2, n=3)
    lines = str(report).splitlines()
    assert lines[0].startswith("SO2, 3 random elements about (0.") and "float64" in lines[0]
    assert [line.split()[0] for line in lines[1:]] == ["values", "variance"]
    assert report.largest == max(report.errors.values())


@pytest.mark.parametrize(
    "changes, error, message",
    [
        ({"model": 3}, TypeError, "model must be a Keras model or layer, found int"),
        ({"x": np.zeros(3)}, TypeError, "x must be a dict .* found ndarray"),
        ({"x": {"points": 1}}, TypeError, r"found \['points'\]"),
        ({"group": "SO2"}, TypeError, "group must be a group of the package equivariance"),
        ({"group": SO3}, ValueError, "SO3 acts on space of 3 dimensions, but points have 2"),
        ({"group": Cyclic(1)}, ValueError, "no element but the identity"),
        ({"n": 0}, ValueError, "n must be a whole number"),
        ({"n": -1}, ValueError, "n must be a whole number"),
        ({"n": 2.5}, ValueError, "n must be a whole number of at least 1, found 2.5"),
        ({"n": "3"}, ValueError, "n must be a whole number of at least 1, found '3'"),
        ({"seed": "x"}, ValueError, "seed must be a whole number of at least 0, found 'x'"),
        ({"seed": 1.7}, ValueError, "seed must be a whole number of at least 0, found 1.7"),
        ({"batch_size": 0}, ValueError, "batch_size must be a whole number"),
        ({"batch_size": 1.5}, ValueError, "batch_size must be a whole number of at least 1"),
        ({"centre": [0.0]}, ValueError, r"centre must be a point of 2 coordinates"),
        ({"centre": [[0.0, 0.0]]}, ValueError, r"2 coordinates, found the shape \(1, 2\)"),
        ({"centre": [np.nan, 0.0]}, ValueError, "centre must have finite coordinates"),
        ({"centre": "middle"}, TypeError, "centre must be a point .* found 'middle'"),
        ({"x": {k: v[:0] for k, v in data().items()}}, ValueError, "none of them 0"),
        ({"x": {**data(), "points": data()["points"][:, :5]}}, ValueError, "have the shapes"),
        (
            {"x": {**data(), "values": data()["values"] > 0, "points": np.full((3, 8, 2), "a")}},
            TypeError,
            "points must hold real numbers, found the dtype <U1",
        ),
        ({"x": {**data(), "query": np.zeros((2, 4, 2))}}, ValueError, r"query: .* give \[3, M, 2"),
        ({"x": {**data(), "query": np.full((3, 4, 2), np.inf)}}, ValueError, "query: example 0"),
        ({"rep_in": {1: 1}}, ValueError, "rep_in {1: 1} has 2 channels, but there are 3"),
        ({"rep_out": SO2.irrep(1)}, ValueError, "rep_out 1 has 2 channels, but there are 3"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else "",
)
def test_bad_arguments(changes, error, message):
    relu = layers.ProbReLU(dtype="float64")
    arguments = {"model": relu, "x": data(), "group": SO2, **changes}
    with pytest.raises(error, match=message):
        tfpn.check_equivariance(
            arguments.pop("model"), arguments.pop("x"), arguments.pop("group"), **arguments
        )


@pytest.mark.parametrize("entries", [slice(None), slice(1)], ids=["all", "one"])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_broken_outputs_are_no_symmetry(value, entries):
    broken = np.zeros((3, 8, 1), "float32")
    broken[entries] = value
    report = tfpn.check_equivariance(
        keras.layers.Lambda(lambda x: 0.0 * x["values"] + broken), data(channels=1), SO2, n=2
    )
    assert report.largest == np.inf


@pytest.mark.parametrize(
    "factors", [(np.nan, np.nan), (-np.inf, -np.inf), (1, np.nan), (np.inf, 1)]
)
def test_a_broken_variance_is_no_symmetry(factors):
    factors = iter([*factors, factors[1]])

    def model(x):
        return {**x, "variance": x["variance"] * next(factors)}

    report = tfpn.check_equivariance(model, data(channels=1), SO2, n=2)
    assert report.errors["variance"] == np.inf


def test_an_infinite_variance_is_none():
    def model(x):
        return {**x, "variance": np.full_like(x["variance"], np.inf)}

    assert set(tfpn.check_equivariance(model, data(channels=1), SO2, n=2).errors) == {"values"}


def test_nothing_to_compare_is_refused():
    x = data(channels=1)
    with pytest.raises(ValueError, match="give at least one point"):
        tfpn.check_equivariance(dict, {**x, "query": x["points"][:, :0]}, SO2)
    with pytest.raises(ValueError, match="holds no observation"):
        tfpn.check_equivariance(
            dict, {**x, "variance": np.full_like(x["variance"], np.inf)}, SO2, centre=(0.0, 0.0)
        )
