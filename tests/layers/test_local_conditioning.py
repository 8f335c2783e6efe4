"""Layers that condition on neighbourhoods, beside the exact ones."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from layer_harness import perturb
from tolerance import rounding

import tfpn
from tfpn.layers import IntegralPooling, PNConv, SteerablePNConv

pytestmark = pytest.mark.usefixtures("always_cut")
eagerly = pytest.mark.usefixtures("eagerly")

NUMBER = 60


@pytest.fixture(autouse=True)
def _same_weights():
    keras.utils.set_random_seed(0)


# Of 60 points 30 to 40 are observed: five blocks or so, whose halos hold all others. Results are
# rounded along sums of 40 terms, behind systems of the condition number 40 s^2 / noise = 4e3.
COVERED = {"conditioning": "local", "block_size": 8, "neighbors": 47}
EXACT = {"rtol": rounding(40, condition=4e3), "atol": rounding(40, condition=4e3)}


def data(dim=2, channels=2, dtype="float64", number=NUMBER, seed=0, missing=True):
    rng = np.random.default_rng(seed)
    x = tfpn.observations(
        rng.uniform(size=(2, number, dim)), rng.normal(size=(2, number, channels)), variance=0.01
    )
    if missing:
        x["variance"][:, ::3] = np.inf
        x["variance"][0, ::2] = np.inf
        x["values"][:, ::3] = np.nan
        x["points"][0, ::6] = np.nan
    return {key: value.astype(dtype) for key, value in x.items()}


def sporadic(x):
    x["variance"][np.random.default_rng(5).uniform(size=x["variance"].shape) < 0.4] = np.inf
    return x


LAYERS = {
    "diagonal": lambda o: PNConv(3, 2, **o),
    "none": lambda o: PNConv(3, 2, uncertainty="none", **o),
    "noise": lambda o: PNConv(3, 2, noise="channel", **o),
    "priors": lambda o: PNConv(3, 2, noise="channel", prior="channel", **o),
    "sampled, priors": lambda o: PNConv(
        3, 2, uncertainty="sampled", num_samples=3, noise="channel", prior="channel", **o
    ),
    "steerable": lambda o: SteerablePNConv({0: 1, 1: 1}, 1, **o),
    "steerable, sampled": lambda o: SteerablePNConv(
        {0: 1, 1: 1}, 1, uncertainty="sampled", num_samples=2, **o
    ),
    "space": lambda o: IntegralPooling(**o),
    "box": lambda o: IntegralPooling(box=(0.1, 0.9), **o),
    "disc": lambda o: IntegralPooling(disc=((0.5, 0.4), 0.45), **o),
    "box, noise": lambda o: IntegralPooling(box=(0.1, 0.9), noise="channel", **o),
}


def pair(make, x, local=COVERED, **options):
    """The exact and the local layer with the same weights."""
    given = {"spacing": 0.2, "seed": 0, "marginal_likelihood_weight": 1.0, "dtype": "float64"}
    given |= {"marginal_likelihood_trains": "all", **options}
    layers = make(given), make({**given, **local})
    for layer in layers:
        layer(x)
    perturb(layers[0])
    layers[1].set_weights(layers[0].get_weights())
    return layers


def outcome(layer, x, query=None):
    """Output, likelihood, and the gradient of all that is finite of them."""
    given = {key: tf.constant(value) for key, value in x.items()}
    points = np.nan_to_num(x["points"])
    with tf.GradientTape() as tape:
        given["points"], given["values"] = tf.constant(points), tf.constant(x["values"])
        watched = [given["points"], given["values"]]
        tape.watch(watched)
        out = layer(given, *(() if query is None else (tf.constant(query),)))
        seen = np.isfinite(out["variance"])
        total = tf.cast(layer.losses[0], out["values"].dtype)
        for key in ("values", "variance"):
            total += tf.reduce_sum(tf.square(tf.where(seen, out[key], 0.0)))
        if "draws" in out:
            total += tf.reduce_sum(tf.square(out["draws"]))
    sources = [*watched, *layer.trainable_variables]
    gradients = tape.gradient(total, sources, unconnected_gradients="zero")
    out = {key: np.where(np.isinf(value), 1e9, value) for key, value in out.items()}
    return out, layer.losses[0], [tf.convert_to_tensor(g).numpy() for g in gradients]


def assert_same(found, expected, rtol, atol):
    for key, value in expected[0].items():
        np.testing.assert_allclose(found[0][key], value, rtol=rtol, atol=atol, err_msg=key)
    np.testing.assert_allclose(found[1], expected[1], rtol=max(rtol, 1e-6))
    for one, other in zip(found[2], expected[2], strict=True):
        np.testing.assert_allclose(one, other, rtol=rtol, atol=atol * max(1, np.abs(other).max()))


@eagerly
@pytest.mark.parametrize("name", LAYERS)
def test_halos_of_all_points_are_exact(name):
    x = data(channels=1 if "steerable" in name else 2)
    x = sporadic(x) if ("noise" in name or "priors" in name) and "steerable" not in name else x
    exact, local = pair(LAYERS[name], x)
    limits = {"rtol": 1e-6, "atol": 1e-6} if name == "disc" else EXACT  # by quadrature
    assert_same(outcome(local, x), outcome(exact, x), **limits)
    if name not in ("diagonal", "sampled, priors"):
        return
    query = np.random.default_rng(1).normal(0.5, 0.5, size=(2, 23, 2))
    assert_same(outcome(local, x, query), outcome(exact, x, query), **EXACT)


@eagerly
@pytest.mark.parametrize("name", ["diagonal", "priors", "sampled, priors"])
def test_float32(name):
    """In float32 the digits of the precision rules hold in blocks: 1e-3 at most are lost."""
    x = data(dtype="float32")
    x["points"][1, :30] = x["points"][1, 1]  # readings of one place
    x["variance"][1, 1:20] *= 1e-4
    exact, local = pair(LAYERS[name], x, dtype="float32")
    (wide, _) = pair(LAYERS[name], x, dtype="float64")
    wide.set_weights(exact.get_weights())
    expected = wide({key: value.astype("float64") for key, value in x.items()})
    found = local(x)
    for key in ("values", "variance"):
        seen = np.isfinite(expected[key])
        size = np.abs(expected["values"][seen]).max()
        limit = 1e-3 * size if "sampled" in name else 1e-4 * size
        np.testing.assert_allclose(found[key][seen], expected[key][seen], rtol=1e-3, atol=limit)


def smooth(points, rng):
    waves = rng.normal(size=(8, points.shape[-1])) * 3.0
    return np.sin(points @ waves.T + rng.uniform(0, 6, size=8)).sum(-1, keepdims=True)


# Halos in points of blocks of 20 of 240, and the largest errors of mean and variance relative to
# their root mean squares. The error falls with the halo's width, which is a root of its points.
ERRORS = {
    ("smooth", 1): ((8, 3e-2, 1e-1), (16, 1e-3, 1e-4), (32, 5e-6, 1e-8)),
    ("smooth", 2): ((40, 5e-2, 8e-2), (80, 0.02, 5e-3)),
    ("smooth", 3): ((40, 0.15, 0.4), (120, 0.015, 0.015)),
    ("white", 1): ((8, 0.12, 0.15), (16, 5e-3, 1e-4), (32, 5e-5, 1e-8)),
    ("white", 2): ((40, 0.4, 0.12), (80, 0.12, 8e-3)),
    ("white", 3): ((40, 0.8, 0.4), (120, 0.2, 0.015)),
}


@eagerly
@pytest.mark.parametrize("signal, dim", ERRORS)
def test_error_by_halo(signal, dim):
    rng = np.random.default_rng(dim)
    x = data(dim, 1, number=240, missing=False)
    if signal == "smooth":
        x["values"] = smooth(x["points"], rng)
    spacing = 240 ** (-1 / dim)
    options = {"spacing": spacing, "length_scale": spacing, "dtype": "float64"}
    exact = PNConv(3, 5, seed=0, **options)
    expected = exact(x)
    for neighbors, of_mean, of_variance in ERRORS[signal, dim]:
        local = PNConv(3, 5, conditioning="local", block_size=20, neighbors=neighbors, **options)
        local(x)
        local.set_weights(exact.get_weights())
        found = local(x)
        for key, limit in (("values", of_mean), ("variance", of_variance)):
            error = np.sqrt(np.mean(np.square(found[key] - expected[key])))
            error /= np.sqrt(np.mean(np.square(expected[key])))
            assert error < limit, (neighbors, key, error)


@eagerly
@pytest.mark.parametrize("dim, neighbors, limit", [(1, None, 3e-4), (1, 64, 1e-6), (2, None, 0.05)])
def test_error_of_noise_at_scattered_points(dim, neighbors, limit):
    """The largest one: 1e-4 on a line by default, and below float32's rounding with halos of 64."""
    x = data(dim, 1, number=800 if dim == 1 else 400, missing=False)
    spacing = x["points"].shape[1] ** (-1 / dim)
    options = {"spacing": spacing, "length_scale": spacing, "dtype": "float64", "seed": 0}
    exact, local = (
        PNConv(2, 2, conditioning=way, neighbors=neighbors, **options) for way in ("exact", "local")
    )
    expected = exact(x)["values"]
    local(x)
    local.set_weights(exact.get_weights())
    error = np.abs(local(x)["values"] - expected).max()
    assert 0 < error < limit * np.abs(expected).max()


@eagerly
@pytest.mark.parametrize("uncertainty", ["diagonal", "none", "sampled"])
def test_a_channel_that_is_rarely_read(uncertainty):
    """Its halo holds its own readings, however many other readings lie between them."""
    rng = np.random.default_rng(0)
    points = rng.uniform(size=(2, 600, 1))
    x = tfpn.observations(points, np.sin(8 * points + np.arange(2)), 0.05)
    x["variance"][:, rng.permutation(600)[:582], 1] = np.inf
    options = {"spacing": 1 / 600, "length_scale": 0.1, "noise": "channel", "dtype": "float64"}
    options |= {"seed": 0, "uncertainty": uncertainty}
    exact, local = (PNConv(8, 9, conditioning=way, **options) for way in ("exact", "local"))
    expected = exact(x)["values"]
    local(x)
    local.set_weights(exact.get_weights())
    # The halo of 32 readings is 0.05 wide where all are read, half the length scale. If halos
    # held the nearest times of any channel, the error would be 0.4.
    error = np.abs(local(x)["values"] - expected).max()
    assert error < 0.02 * np.abs(expected).max()


@eagerly
@pytest.mark.parametrize("uncertainty", ["diagonal", "sampled"])
@pytest.mark.parametrize("options", [{}, {"noise": "channel", "prior": "channel"}])
def test_marginals_of_the_process(uncertainty, options):
    """Halos of all points give those of the exact layer; one query point does not change others."""
    x = data(channels=2)
    x = sporadic(x) if options else x
    exact, local = pair(lambda o: PNConv(3, 2, uncertainty=uncertainty, **options, **o), x)
    query = np.random.default_rng(1).normal(0.5, 0.5, size=(2, 300, 2))
    found, expected = local.process(x, query), exact.process(x, query)
    for name in ("mean", "variance"):
        given = getattr(found, name)(), getattr(expected, name)()
        np.testing.assert_allclose(*given, err_msg=name, **EXACT)
    np.testing.assert_allclose(found.covariance(), expected.covariance(), **EXACT)
    if not options:  # a second layer reads the features, with draws beside them if it has them
        layers = pair(lambda o: PNConv(2, 2, uncertainty=uncertainty, **o), exact(x))
        found, expected = (layer.process(exact(x), query) for layer in layers[::-1])
        np.testing.assert_allclose(found.mean(), expected.mean(), **EXACT)
        np.testing.assert_allclose(found.variance(), expected.variance(), **EXACT)


def graph(layer, jit=None):
    """The layer's outcome with gradients of the weights, traced once for all sizes."""
    traces = []

    @tf.function(
        input_signature=[
            {key: tf.TensorSpec([None, None, size]) for key, size in
             (("points", 2), ("values", 1), ("variance", 1))}
        ],
        jit_compile=jit, autograph=False,
    )  # fmt: skip
    def function(x):
        traces.append(1)
        with tf.GradientTape() as tape:
            out = layer(x)
            total = layer.losses[0] + tf.reduce_sum(tf.square(out["values"]))
        gradients = tape.gradient(total, layer.trainable_variables)
        return out["values"], [tf.convert_to_tensor(g) for g in gradients]

    return function, traces


LOCAL = {"conditioning": "local", "block_size": 8, "neighbors": 12}


def small():
    return PNConv(2, 2, uncertainty="none", double_precision=False, spacing=0.2, seed=0,
                  marginal_likelihood_weight=1.0, **LOCAL)  # fmt: skip


def batch(number):
    return data(channels=1, dtype="float32", number=number, missing=False)


def test_one_trace_serves_all_numbers_of_points():
    layer = small()
    layer(batch(5))
    function, traces = graph(layer)
    for number in (1, 5, 20, 21, 64, 65):
        found, gradients = function(batch(number))
        # In float32, behind systems of the condition number of some 20 s^2 / (3e-5 s^2).
        np.testing.assert_allclose(found, layer(batch(number))["values"], rtol=0.02, atol=0.02)
        assert all(np.isfinite(gradient).all() for gradient in gradients)
    assert len(traces) == 1


def test_compiled_by_xla():
    layer = small()
    x = batch(40)
    layer(x)
    (found, gradients), (expected, others) = (graph(layer, jit)[0](x) for jit in (True, None))
    np.testing.assert_allclose(found, expected, rtol=0.02, atol=0.02)
    for one, other in zip(gradients, others, strict=True):
        np.testing.assert_allclose(one, other, rtol=0.02, atol=0.02 * np.abs(other).max())


@eagerly
def test_order_padding_and_place_change_nothing():
    x = data(channels=1, number=50, missing=False)
    layer = PNConv(2, 3, spacing=0.2, dtype="float64", seed=0, **LOCAL)
    expected = layer(x)
    order = np.random.default_rng(0).permutation(50)
    moved = {key: value[:, order] for key, value in x.items()}
    moved["points"] = moved["points"] + 0.25
    padded = {key: np.pad(value, [(0, 0), (7, 0), (0, 0)], constant_values=np.nan)
              for key, value in moved.items()}  # fmt: skip
    padded["variance"][:, :7] = np.inf
    found = layer(padded)
    for key in ("values", "variance"):
        limit = rounding(20, condition=2e3)
        np.testing.assert_allclose(found[key][:, 7:], expected[key].numpy()[:, order], limit, limit)
    assert np.isinf(found["variance"][:, :7]).all() and np.all(found["values"][:, :7] == 0)


@eagerly
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_readings_of_one_place(dtype):
    """Forty readings of each of two places, and of one alone: more than a block with its halo."""
    x = data(channels=1, number=80, dtype=dtype, missing=False)
    x["points"][0] = x["points"][0, np.arange(80) % 2]
    x["points"][1] = x["points"][1, :1]
    exact, local = pair(LAYERS["diagonal"], x, LOCAL, dtype=dtype, spacing=0.5)
    out, likelihood, gradients = outcome(local, x)
    assert all(np.isfinite(gradient).all() for gradient in gradients)
    assert np.isfinite(likelihood)
    # 20 of 80 readings of one place leave the square root of 4 times the standard deviation.
    ratio = np.sqrt(out["variance"][1] / exact(x)["variance"].numpy()[1])
    assert (ratio > 0.99).all() and (ratio < 2.1).all()


@eagerly
def test_an_example_without_observations_has_the_prior():
    x = data(channels=1, number=50, missing=False)
    x["variance"][0] = np.inf
    exact, local = pair(LAYERS["diagonal"], x, LOCAL)
    query = np.random.default_rng(0).uniform(size=(2, 9, 2))
    for key, value in exact(x, query).items():
        np.testing.assert_allclose(local(x, query)[key][0], value[0], rtol=1e-12)
    for name, limit in (("space", 1e-12), ("box", 1e-9)):
        exact, local = pair(LAYERS[name], x, LOCAL)
        np.testing.assert_allclose(local(x)["values"][0], 0.0)
        np.testing.assert_allclose(local(x)["variance"][0], exact(x)["variance"][0], rtol=limit)


@eagerly
def test_many_query_points():
    """A query point's result depends on no other one."""
    x = data(channels=1, number=50, missing=False)
    layer = PNConv(2, 3, spacing=0.2, dtype="float64", seed=0, **LOCAL)
    query = np.random.default_rng(0).normal(0.5, 0.5, size=(2, 3000, 2))
    query[:, :50] = x["points"]
    found, own = layer(x, query), layer(x)
    few = layer(x, query[:, 30:90:7])
    limit = rounding(20, condition=2e3)
    for key in ("values", "variance"):
        np.testing.assert_allclose(found[key][:, :50], own[key], limit, limit)
        np.testing.assert_allclose(few[key], found[key][:, 30:90:7], limit, limit)


@eagerly
@pytest.mark.parametrize("name, limit", [("space", 0.02), ("box", 0.02), ("disc", 0.02)])
def test_integrals_by_small_halos(name, limit):
    rng = np.random.default_rng(0)
    x = data(2, 1, number=200, missing=False)
    x["values"] = smooth(x["points"], rng)
    exact, local = pair(LAYERS[name], x, {**LOCAL, "block_size": 20, "neighbors": 40}, spacing=0.07)
    expected, found = exact(x), local(x)
    np.testing.assert_allclose(found["values"], expected["values"], rtol=limit)
    if name != "space":
        np.testing.assert_allclose(found["variance"], expected["variance"], rtol=0.25)


def test_wrong_arguments():
    for wrong in ({"conditioning": "near"}, {"block_size": 0}, {"neighbors": 1.5}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            PNConv(2, **wrong)
    for uncertainty in ("low_rank", "joint"):
        with pytest.raises(ValueError, match="'sampled', 'diagonal' or 'none'"):
            PNConv(2, uncertainty=uncertainty, conditioning="local")
        x = PNConv(2, uncertainty=uncertainty, spacing=0.3)(batch(4))
        with pytest.raises(ValueError, match="'sampled', 'diagonal' or 'none'"):
            IntegralPooling(conditioning="local")(x)


@pytest.mark.parametrize("layer", [PNConv(2, **LOCAL), IntegralPooling(**LOCAL),
                                   SteerablePNConv(2, **LOCAL)])  # fmt: skip
def test_configuration(layer):
    config = type(layer).from_config(layer.get_config()).get_config()
    assert {key: config[key] for key in LOCAL} == LOCAL
