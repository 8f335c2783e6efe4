"""The emitted Keras layers: formatted, imported, run, trained, saved and loaded."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf
from tolerance import rounding

from equivariance import O2, SO2, SO3, Dihedral, MatrixGroup, solve_generators, verify

ROOT = Path(__file__).parents[2]
QUARTER = np.array([[0, -1], [1, 0]])
FLIP = np.array([[1, 0], [0, -1]])
SPACE = [np.array([[0, -1, 0], [1, 0, 0], [0, 0, 1]]), np.array([[0, 0, 1], [1, 0, 0], [0, 1, 0]])]
CUBE = MatrixGroup("cube", 3, [], [x.tolist() for x in SPACE])
D4 = Dihedral(4)
# Representations, constraint, elements that map a grid to itself.
CASES = {
    "scalars": (2 * O2.irrep(0), None, "dissipative", [QUARTER, FLIP]),
    "mixed": (2 * SO2.irrep(0) + SO2.irrep(1) + SO2.irrep(2), None, "dissipative", [QUARTER]),
    "mixed_free": (2 * SO2.irrep(0) + SO2.irrep(1) + SO2.irrep(2), None, "free", [QUARTER]),
    "tensors": (2 * O2.tensor(1, 1) + O2.tensor(1, 0), None, "dissipative", [QUARTER, FLIP]),
    "dihedral": (D4.irrep(1) + D4.irrep(2, -1), None, "dissipative", [QUARTER, FLIP]),
    "space": (SO3.irrep(0) + 2 * SO3.irrep(1), None, "dissipative", SPACE),
    "cube": (CUBE.tensor(1, 0) + CUBE.tensor(0, 0), None, "dissipative", SPACE),
    "derivative": (SO2.irrep(1), SO2.irrep(0) + SO2.irrep(1), "free", [QUARTER]),
}


def parameterization(name):
    rep_in, rep_out, constraint, _ = CASES[name]
    return solve_generators(rep_in, rep_out).parameterization(constraint)


@pytest.fixture(scope="module")
def emitted(tmp_path_factory):
    """The layer classes, each imported from its file once."""
    folder, found = tmp_path_factory.mktemp("emitted"), {}

    def load(name):
        if name not in found:
            title = "".join(part.title() for part in name.split("_"))
            path = folder / f"{name}.py"
            path.write_text(parameterization(name).keras_source(title))
            spec = importlib.util.spec_from_file_location(f"emitted_{name}", path)
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            found[name] = getattr(module, title), path
        return found[name]

    return load


def float32_limit(fields):
    """Sums over the grid there and back, and over the channels of the exponential and of its use.

    Flows that never amplify, and others of one length, make of a field some number of its size.
    """
    _, *grid, channels = fields.shape
    sums = 2 * np.prod(grid) + 2 * channels
    return rounding(sums, "float32", condition=np.max(np.abs(fields)))


def sizes(name, points=6):
    rep_in = CASES[name][0]
    dim = rep_in.group.dim
    return (2, *((points,) * dim if dim == 2 else (4,) * dim), rep_in.dim)


def moved(fields, g, rho):
    """rho f(g^-1 x) on a periodic grid, for a g that maps the grid to itself."""
    grid = fields.shape[1:-1]
    at = np.stack(np.meshgrid(*map(np.arange, grid), indexing="ij"), axis=-1) @ g % grid[0]
    return fields[(slice(None), *np.moveaxis(at, -1, 0))] @ rho.T


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("points", [6, 5])
def test_equivariance_on_a_grid(emitted, name, points):
    layer_class, _ = emitted(name)
    rep_in, rep_out, _, elements = CASES[name]
    keras.utils.set_random_seed(0)
    layer = layer_class(spacing=0.5, dtype="float64")
    fields = np.random.default_rng(1).normal(size=sizes(name, points))
    result = layer(fields).numpy()
    assert result.dtype == np.float64
    assert np.abs(result).max() > 1e-3
    for g in elements:
        rho_in = rep_in.matrix(g.astype(float))
        rho_out = (rep_out or rep_in).matrix(g.astype(float))
        left = layer(moved(fields, g, rho_in)).numpy()
        right = moved(result, g, rho_out)
        np.testing.assert_allclose(left, right, rtol=0, atol=1e-12 * np.abs(result).max())
        assert np.abs(right - result).max() > 1e-3  # it does move


@pytest.mark.parametrize("name", CASES)
def test_generator_is_that_of_the_parameterization(emitted, name):
    layer_class, _ = emitted(name)
    rep_in, rep_out, constraint, _ = CASES[name]
    layer = layer_class(dtype="float64")
    layer.build(sizes(name))
    values = {p.name: getattr(layer, p.name).numpy() for p in parameterization(name).parameters}
    found = [x.numpy() for x in layer.generator()]
    for x, y in zip(found, parameterization(name).generator(values), strict=True):
        assert x.shape == y.shape
        np.testing.assert_allclose(x, y, rtol=0, atol=1e-13)
    assert verify(tuple(found), rep_in, rep_out).size < 1e-13


def test_initial_values(emitted):
    """Those of the parameterization, in the unit that was given."""
    layer_class, _ = emitted("mixed_free")
    keras.utils.set_random_seed(0)
    many = [layer_class(length=2.0, dtype="float64") for _ in range(200)]
    for layer in many:
        layer.build(sizes("mixed_free"))
    for p in parameterization("mixed_free").parameters:
        unit = 2.0**p.length_power
        values = np.array([getattr(layer, p.name).numpy() for layer in many])
        error = values.mean(axis=0) - unit * np.broadcast_to(p.center, p.shape)
        assert np.abs(error).max() < 5 * unit * p.scale / np.sqrt(200)
        spread = values.std(axis=0)
        np.testing.assert_allclose(spread, unit * p.scale, rtol=0.3)


@pytest.mark.parametrize("name", ["mixed", "mixed_free", "tensors", "space"])
def test_against_matrix_exponentials(emitted, name):
    """One plane wave at a time: exp(M(i xi)) by an eigendecomposition in NumPy."""
    layer_class, _ = emitted(name)
    keras.utils.set_random_seed(1)
    layer = layer_class(spacing=0.7, length=0.3, dtype="float64")
    shape = sizes(name)
    layer.build(shape)
    c, b, s = (x.numpy() for x in layer.generator())
    grid, dim = shape[1:-1], len(shape) - 2
    rng = np.random.default_rng(2)
    for wave in ([1] * dim, [2] + [0] * (dim - 1), [0] * dim):
        if dim == 3 and 2 in wave:
            continue  # 4 points: the highest frequency, of both signs
        xi = 2 * np.pi * np.array(wave) / (0.7 * np.array(grid))
        at = np.stack(np.meshgrid(*map(np.arange, grid), indexing="ij"), axis=-1) * 0.7
        amplitude = rng.normal(size=shape[-1]) + 1j * rng.normal(size=shape[-1])
        phase = np.exp(1j * at @ xi)[..., None]
        m = c + 1j * np.einsum("i,iab->ab", xi, b) - np.einsum("i,j,ijab->ab", xi, xi, s)
        eigenvalues, vectors = np.linalg.eig(m)
        flow = vectors @ np.diag(np.exp(eigenvalues)) @ np.linalg.inv(vectors)
        expected = (phase * (flow @ amplitude)).real
        found = layer((phase * amplitude).real[None]).numpy()[0]
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-8)


def test_derivatives_of_known_fields(emitted):
    layer_class, _ = emitted("derivative")
    n = 12
    layer = layer_class(spacing=2 * np.pi / n, dtype="float64")
    layer.build((1, n, n, 2))
    x, y = np.meshgrid(*2 * [np.arange(n) * 2 * np.pi / n], indexing="ij")
    fields = np.stack([np.sin(x) * np.cos(2 * y), np.cos(y)], axis=-1)[None]
    for weight in layer.weights:
        weight.assign(tf.zeros_like(weight))
    layer.first_order.assign([1.0, 0.0])  # the divergence
    expected = np.cos(x) * np.cos(2 * y) - np.sin(y)
    np.testing.assert_allclose(layer(fields)[0, ..., 0], expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", ["mixed", "tensors", "space", "cube"])
@pytest.mark.parametrize("size", [1.0, 1e2, 1e4])
def test_never_amplifies(emitted, name, size):
    """The sum of squares of the fields never grows, whatever the weights."""
    layer_class, _ = emitted(name)
    layer = layer_class(dtype="float64")
    fields = np.random.default_rng(3).normal(size=sizes(name))
    layer.build(fields.shape)
    rng = np.random.default_rng(4)
    for weight in layer.weights:
        weight.assign(size * rng.normal(size=weight.shape))
    result = layer(fields).numpy()
    assert np.linalg.norm(result) <= (1 + 1e-9) * np.linalg.norm(fields)


def test_gradients(emitted):
    """Of a loss with respect to the weights and the input, against differences."""
    layer_class, _ = emitted("mixed")
    keras.utils.set_random_seed(2)
    layer = layer_class(dtype="float64")
    fields = tf.constant(np.random.default_rng(5).normal(size=sizes("mixed")))
    target = tf.constant(np.random.default_rng(6).normal(size=sizes("mixed")))

    def loss():
        return tf.reduce_sum(tf.square(layer(fields) - target))

    layer.build(fields.shape)
    with tf.GradientTape() as tape:
        tape.watch(fields)
        value = loss()
    gradients = tape.gradient(value, [*layer.trainable_variables, fields])
    assert len(gradients) == 4 and all(np.all(np.isfinite(x)) for x in gradients)
    rng = np.random.default_rng(7)
    for variable, gradient in zip(layer.trainable_variables, gradients, strict=False):
        direction, start, step = rng.normal(size=variable.shape), variable.numpy(), 1e-5
        around = []
        for sign in (1, -1):
            variable.assign(start + sign * step * direction)
            around.append(float(loss()))
        variable.assign(start)
        slope = (around[0] - around[1]) / (2 * step)
        np.testing.assert_allclose(np.sum(gradient * direction), slope, rtol=1e-6)


def test_trained_saved_and_loaded(emitted, tmp_path):
    """A layer learns another one's PDE, equivariant all the way, and is the same when loaded."""
    layer_class, _ = emitted("mixed")
    keras.utils.set_random_seed(3)
    rng = np.random.default_rng(8)
    fields = rng.normal(size=(16, *sizes("mixed")[1:])).astype("float32")
    teacher = layer_class(spacing=0.5)
    targets = teacher(fields).numpy()
    inputs = keras.Input(fields.shape[1:])
    model = keras.Model(inputs, layer_class(spacing=0.5, name="flow")(inputs))
    model.compile(keras.optimizers.Adam(0.02), "mse")
    history = model.fit(fields, targets, batch_size=16, epochs=25, verbose=0).history["loss"]
    assert history[-1] < 0.7 * history[0]
    path = tmp_path / "model.keras"
    model.save(path)
    loaded = keras.models.load_model(path)
    assert loaded.get_layer("flow").spacing == 0.5
    np.testing.assert_array_equal(loaded(fields), model(fields))
    rho = CASES["mixed"][0].matrix(QUARTER.astype(float))
    left = loaded(moved(fields, QUARTER, rho))
    right = moved(model(fields).numpy(), QUARTER, rho)
    np.testing.assert_allclose(left, right, rtol=0, atol=float32_limit(fields))


@pytest.mark.parametrize("policy", ["float32", "mixed_float16", "mixed_bfloat16"])
def test_policies(emitted, policy):
    layer_class, _ = emitted("mixed")
    keras.utils.set_random_seed(4)
    layer = layer_class(dtype=policy)
    fields = np.random.default_rng(9).normal(size=sizes("mixed")).astype("float32")
    result = layer(fields)
    assert result.dtype == layer.compute_dtype and np.all(np.isfinite(tf.cast(result, "float32")))
    exact = layer_class(dtype="float64")
    exact.build(fields.shape)
    exact.set_weights([x.astype("float64") for x in layer.get_weights()])
    tolerance = float32_limit(fields) if policy == "float32" else 0.05
    np.testing.assert_allclose(tf.cast(result, "float64"), exact(fields), rtol=0, atol=tolerance)


def test_layer_runs_in_a_graph_and_says_its_shape(emitted):
    layer_class, _ = emitted("derivative")
    layer = layer_class()
    assert layer.compute_output_shape((None, 6, 6, 2)) == (None, 6, 6, 3)
    outputs = layer(keras.Input((6, 6, 2)))
    assert outputs.shape == (None, 6, 6, 3)
    fields = np.random.default_rng(0).normal(size=(2, 6, 6, 2)).astype("float32")
    compiled = tf.function(layer)
    limit = float32_limit(fields)
    np.testing.assert_allclose(compiled(fields), layer(fields), rtol=0, atol=limit)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda layer: layer(spacing=0.0), "spacing must be a positive number, found 0.0"),
        (lambda layer: layer(length="1"), "length must be a positive number, found '1'"),
        (lambda layer: layer()(np.ones((2, 6, 6, 4))), r"5 channels.*\(2, 6, 6, 4\)"),
        (lambda layer: layer()(np.ones((6, 6, 5))), r"2 known grid sizes"),
        (lambda layer: layer()(keras.Input((None, 6, 5))), r"known grid sizes"),
    ],
)
def test_bad_arguments(emitted, make, message):
    rep = SO2.irrep(0) + SO2.irrep(1) + SO2.irrep(2)
    CASES.setdefault("five", (rep, None, "dissipative", [QUARTER]))
    layer_class, _ = emitted("five")
    with pytest.raises(ValueError, match=message):
        make(layer_class)


@pytest.mark.parametrize("name", CASES)
def test_formatted(emitted, name):
    """As the repository's own rules want it."""
    _, path = emitted(name)
    for command in (["format", "--diff"], ["check"]):
        done = subprocess.run(
            [sys.executable, "-m", "ruff", *command, "--config", ROOT / "pyproject.toml", path],
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stdout + done.stderr


def test_works_without_this_repository(emitted):
    """With sympy and the packages of this repository blocked."""
    _, path = emitted("mixed")
    code = f"""
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("sympy", "equivariance", "tfpn"):
            raise ImportError(f"{{name}} is blocked")

sys.meta_path.insert(0, Blocked())
sys.path.insert(0, {str(path.parent)!r})
import numpy as np
import keras
from mixed import Mixed
fields = np.random.default_rng(0).normal(size=(2, 6, 6, 6))
result = np.asarray(Mixed()(fields))
assert result.shape == fields.shape and np.linalg.norm(result) <= 1.0001 * np.linalg.norm(fields)
print("works")
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=120,
        cwd=path.parent,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "works"


def test_inside_of_other_models(emitted):
    """Sequential, functional and nested models, and `TimeDistributed`."""
    layer = emitted("scalars")[0](spacing=0.5)
    fields = np.random.default_rng(2).normal(size=(2, *sizes("scalars"))).astype("float32")
    expected = layer(fields[0])
    sequential = keras.Sequential([layer])
    inputs = keras.Input(fields.shape[2:])
    steps = keras.Input(fields.shape[1:])
    np.testing.assert_array_equal(sequential(fields[0]), expected)
    np.testing.assert_array_equal(keras.Model(inputs, sequential(inputs))(fields[0]), expected)
    each = keras.Model(steps, keras.layers.TimeDistributed(layer)(steps))
    found = each(fields)
    for step in range(fields.shape[1]):
        np.testing.assert_array_equal(found[:, step], layer(fields[:, step]))
