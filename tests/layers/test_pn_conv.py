"""The convolution: its limits, its options, its loss, its initial weights."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from layer_harness import CASES, assert_same, make_input
from layer_references import slow_convolution

import tfpn
from tfpn.layers import ChannelMix, PNConv, ProbReLU
from tfpn.spacing import point_spacing


def lattice_input(rng, height=7, width=6, channels=2, step=0.5):
    image = rng.normal(size=(2, height, width, channels))
    rows, columns = np.meshgrid(np.arange(height), np.arange(width), indexing="ij")
    points = step * np.stack([rows, columns], axis=-1).reshape(1, -1, 2)
    points = np.repeat(points, 2, axis=0)
    values = image.reshape(2, -1, channels)
    return image, {"points": points, "values": values, "variance": np.full(values.shape, 1e-10)}


def test_lattice_limit_is_conv2d():
    """Sigma -> 0, drifts on the lattice: (A f)(x) = sum_k W_k f(x + beta_k), a Conv2D."""
    rng = np.random.default_rng(0)
    step, filters = 0.5, 4
    image, x = lattice_input(rng, step=step)
    conv2d = keras.layers.Conv2D(filters, 3, padding="valid", dtype="float64")
    expected = conv2d(image)
    # A length scale of half a step: neighbours correlate by exp(-2), so all of them matter.
    layer = PNConv(filters, 9, length_scale=0.5 * step, spacing=step, dtype="float64")
    layer(x)
    kernel = np.asarray(conv2d.kernel)  # [row, column, in, out]
    offsets = [(i, j) for i in (-1, 0, 1) for j in (-1, 0, 1)]
    unit = layer.flow_unit(step)
    layer.drift.assign(step / unit * np.array(offsets))
    layer.kernel.assign(np.stack([kernel[i + 1, j + 1] for i, j in offsets]))
    layer.bias.assign(rng.normal(size=filters))
    expected = np.asarray(expected) + np.asarray(layer.bias)
    output = {}
    for diffusion in (1e-3, 1e-6):  # standard deviations
        layer.diffusion_factor.assign(np.tile(diffusion / unit * np.eye(2), [9, 1, 1]))
        output = layer(x)
        found = np.asarray(output["values"]).reshape(2, 7, 6, filters)[:, 1:-1, 1:-1]
        # Blurring changes f by diffusion^2 / 2 times its second derivatives, about 10 / l^2 = 160
        # each; the noise of variance 1e-10 changes values by 1e-10 cond(K) < 1e-8.
        np.testing.assert_allclose(found, expected, rtol=0, atol=2e3 * diffusion**2 + 1e-8)
    interior = np.asarray(output["variance"]).reshape(2, 7, 6, filters)[:, 1:-1, 1:-1]
    # 9 drifts and 2 channels of noise 1e-10, and 1e-12 of diffusion times |f'|^2 ~ 1 / l^2.
    assert interior.max() < 1e-8


def test_equals_the_mathematical_function_at_other_points():
    x = make_input()
    query = np.random.default_rng(5).uniform(-0.5, 1.5, size=(3, 4, 2))
    case = CASES["conv_channel"]
    layer = case.built(x)
    output = layer(x, query)
    drift, diffusion = layer.flow_parameters()
    mean, variance, _ = tfpn.math.convolve(
        x["points"],
        x["values"],
        x["variance"],
        query,
        weights=layer.kernel_parameters(),
        drift=drift,
        diffusion=diffusion,
        signal_std=np.exp(layer.log_signal_std),
        length_scale=np.exp(layer.log_length_scale),
        noise="channel",
        observation_variance=np.exp(2 * np.asarray(layer.log_observation_noise)),
    )
    expected = {"points": query, "values": mean + layer.bias, "variance": variance}
    assert_same(output, expected, rtol=1e-13, atol=1e-14)  # the same operations
    assert np.isfinite(np.asarray(output["variance"])).all()  # known at all query points
    assert_same(output, slow_convolution(layer, x, query), rtol=1e-12, atol=3e-12)


def test_query_in_a_functional_model_and_its_spec():
    x = make_input(dtype=np.float32)
    query = np.random.default_rng(5).uniform(size=(3, 4, 2)).astype("float32")
    layer = CASES["conv"].make("float32")
    inputs = {k: keras.Input((None, 2), name=k) for k in x}
    points = keras.Input((None, 2), name="query")
    output = layer(inputs, points)
    assert output["values"].shape == (None, None, 3)
    model = keras.Model([inputs, points], output)
    found = model([x, query])
    assert tuple(found["values"].shape) == (3, 4, 3)
    assert_same(found, layer(x, query), rtol=0)


@pytest.mark.parametrize("shape", [(3, 4, 1), (3, 4, 3), (4, 2), (2, 4, 2)], ids=str)
@pytest.mark.parametrize("built", [False, True])
def test_wrong_query_raises(shape, built):
    layer = PNConv(3, 4, name="my_layer")
    if built:
        layer(make_input(dtype=np.float32))
    with pytest.raises(ValueError) as caught:
        layer(make_input(dtype=np.float32), np.zeros(shape, np.float32))
    for part in ("PNConv", "my_layer", "query", str(shape)):
        assert part in str(caught.value)


def test_partly_observed_points_need_channel_noise():
    with pytest.raises(tf.errors.InvalidArgumentError, match="noise='channel'"):
        CASES["conv"].make()(make_input(sporadic=True))


def test_noise_per_channel_equals_shared_noise_where_the_variances_agree():
    x = make_input()
    x["variance"] = np.repeat(x["variance"][..., :1], 2, axis=-1)
    shared = CASES["conv"].built(x)
    channel = CASES["conv"].make(noise="channel")
    channel(x)
    channel.set_weights(shared.get_weights())
    assert_same(channel(x), shared(x), rtol=1e-11, atol=1e-11)  # rounding times a condition < 1e3


def test_observation_noise_adds_to_the_given_variance():
    x = make_input()
    noisy = CASES["conv"].make(observation_noise=0.3, bias_initializer="ones")
    plain = CASES["conv"].make(bias_initializer="ones")
    more = {**x, "variance": x["variance"] + 0.09}
    noisy(x), plain(x)
    weights = {weight.name: np.asarray(weight) for weight in noisy.weights}
    assert weights["log_observation_noise"] == pytest.approx(np.log(0.3), rel=1e-15)
    for weight in plain.weights:
        weight.assign(weights[weight.name])
    assert_same(noisy(x), plain(more), rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("name", ["conv", "conv_channel"])
def test_without_uncertainty_the_mean_is_the_same_and_the_variance_zero(name):
    x = make_input(CASES[name].sporadic)
    full = CASES[name].built(x)
    mean = CASES[name].make(uncertainty="none")
    mean(x)
    mean.set_weights(full.get_weights())
    np.testing.assert_allclose(mean(x)["values"], full(x)["values"], rtol=1e-11, atol=1e-11)
    observed = np.isfinite(x["variance"]).any(-1)
    variance = np.asarray(mean(x)["variance"])
    assert (variance[observed] == 0).all() and np.isposinf(variance[~observed]).all()


class TestMarginalLikelihood:
    def by_hand(self, layer, x):
        """Mean over observed entries of -log N(y; 0, K + S), with slogdet and solve."""
        total, entries = 0.0, 0
        signal_std, length = (
            np.exp(float(w)) for w in (layer.log_signal_std, layer.log_length_scale)
        )
        noise = layer.log_observation_noise
        extra = 0.0 if noise is None else np.exp(2 * np.asarray(noise))
        variance = x["variance"]
        if layer.noise == "shared":
            variance = np.repeat(variance.mean(-1, keepdims=True), 2, -1)
        for b in range(3):
            for c in range(2):
                observed = np.isfinite(variance[b, :, c])
                points, values = x["points"][b, observed], x["values"][b, observed, c]
                squared = ((points[:, None] - points) ** 2).sum(-1)
                noisy = (variance + extra)[b, observed, c]
                matrix = signal_std**2 * np.exp(-squared / (2 * length**2)) + np.diag(noisy)
                fit = values @ np.linalg.solve(matrix, values) if len(values) else 0.0
                constant = np.linalg.slogdet(matrix)[1] + len(values) * np.log(2 * np.pi)
                total, entries = total + 0.5 * (fit + constant), entries + len(values)
        return total / entries

    @pytest.mark.parametrize("name", ["conv", "conv_channel", "conv_none", "pool", "pool_channel"])
    def test_loss_and_metric(self, name):
        case = CASES[name]
        x = make_input(case.sporadic)
        layer = case.built(x, marginal_likelihood_weight=0.25, name="gp")
        layer.nll_tracker.reset_state()
        layer(x)
        expected = self.by_hand(layer, x)
        assert len(layer.losses) == 1
        # Losses and metrics are float32.
        assert float(layer.losses[0]) == pytest.approx(0.25 * expected, rel=1e-6)
        assert layer.nll_tracker.name == "gp_nll"
        assert float(layer.nll_tracker.result()) == pytest.approx(expected, rel=1e-6)

    @pytest.mark.parametrize("name", ["conv", "pool"])
    def test_no_weight_no_loss_no_metric(self, name):
        layer = CASES[name].make(marginal_likelihood_weight=0.0)
        layer(make_input())
        assert layer.losses == [] and layer.metrics == []

    def test_without_any_observation_it_is_zero(self):
        x = make_input()
        x["variance"][:] = np.inf
        layer = CASES["conv"].make(marginal_likelihood_weight=1.0)
        layer(x)
        assert float(layer.losses[0]) == 0.0

    @pytest.mark.parametrize("trains", ["kernel", "all"])
    def test_what_it_trains(self, trains):
        x = {key: tf.constant(value[:2, :4]) for key, value in make_input().items()}
        layer = CASES["conv"].make(
            marginal_likelihood_weight=1.0,
            marginal_likelihood_trains=trains,
            observation_noise=0.1,
        )
        layer(x)
        with tf.GradientTape() as tape:
            tape.watch([x["points"], x["values"], x["variance"]])
            layer(x)
            loss = layer.losses[0]
        prior = [layer.log_signal_std, layer.log_length_scale, layer.log_observation_noise]
        others = [layer.kernel, layer.bias, layer.drift, layer.diffusion_factor]
        data = [x["points"], x["values"], x["variance"]]
        by_prior, by_others, by_data = tape.gradient(
            loss, ([w.value for w in prior], [w.value for w in others], data)
        )
        assert all(gradient is not None and float(gradient) != 0 for gradient in by_prior)
        assert all(gradient is None or not np.any(gradient) for gradient in by_others)
        reached = [g is not None and bool(np.any(np.asarray(g) != 0)) for g in by_data]
        assert reached == [trains == "all"] * 3

    def test_metric_in_fit_and_evaluate(self):
        x = make_input(dtype=np.float32)
        inputs = {key: keras.Input((6, 2), name=key) for key in x}
        layer = PNConv(1, 2, marginal_likelihood_weight=0.5, name="gp")
        output = keras.ops.mean(layer(inputs)["values"], axis=(1, 2))
        model = keras.Model(inputs, output)
        model.compile(keras.optimizers.SGD(0.0), "mse", run_eagerly=True)
        history = model.fit(x, np.zeros(3), verbose=0, epochs=2).history
        logs = model.evaluate(x, np.zeros(3), verbose=0, return_dict=True)
        exact = {key: value.astype(np.float64) for key, value in x.items()}
        expected = self.by_hand(layer, exact)
        mse = float(np.mean(np.square(model.predict(x, verbose=0))))
        for found in (history["gp_nll"][0], history["gp_nll"][1], logs["gp_nll"]):
            assert found == pytest.approx(expected, rel=1e-4)  # float32, noise floor
        assert history["loss"][1] == pytest.approx(mse + 0.5 * expected, rel=1e-4)
        assert logs["loss"] == pytest.approx(mse + 0.5 * expected, rel=1e-4)


class TestAdapt:
    def test_sets_what_its_docstring_says(self):
        rng = np.random.default_rng(0)
        points = np.stack([np.arange(12) * 0.03, np.zeros(12)], -1)[None] + [0.2, 0.7]
        x = {"points": points, "values": rng.normal(size=(1, 12, 2)) * 5}
        x["variance"] = np.zeros((1, 12, 2))
        x["variance"][0, 7], x["values"][0, 7] = np.inf, np.nan
        layer = PNConv(
            3, 9, spacing=0.1, length_scale=0.2, signal_std=2.0, observation_noise=0.1,
            dtype="float64",
        )  # fmt: skip
        layer.adapt(x)
        spacing = 0.03
        level = np.sqrt(np.mean(x["values"][np.isfinite(x["values"])] ** 2))
        assert np.exp(layer.log_length_scale) == pytest.approx(2 * spacing)
        assert np.exp(layer.log_signal_std) == pytest.approx(level)
        assert np.exp(layer.log_observation_noise) == pytest.approx(0.05 * level)
        drift, diffusion = (np.asarray(t) for t in layer.flow_parameters())
        offsets = {tuple(row) for row in np.round(drift / spacing, 9)}
        assert offsets == {(i, j) for i in (-1, 0, 1) for j in (-1, 0, 1)}
        expected = np.tile(np.square(0.5 * spacing) * np.eye(2), [9, 1, 1])
        np.testing.assert_allclose(diffusion, expected, rtol=1e-12)

    def test_equals_a_layer_made_for_that_spacing(self):
        x = make_input(dtype=np.float32)
        keras.utils.set_random_seed(0)
        direct = PNConv(3, 5, spacing=0.07)
        direct(x)
        keras.utils.set_random_seed(0)
        layer = PNConv(3, 5, spacing=0.3)
        layer(x)
        layer.set_spacing(0.07)
        for found, expected in zip(layer.weights, direct.weights, strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-8, err_msg=found.name)

    def test_needs_two_points(self):
        x = {key: value[:, :1] for key, value in make_input().items()}
        with pytest.raises(ValueError, match="two distinct observed points"):
            PNConv(3).adapt(x)


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"filters": 0}, "filters must be a positive whole number, found 0"),
        ({"filters": 2.5}, "filters must be a positive whole number, found 2.5"),
        ({"num_basis": -1}, "num_basis must be a positive whole number, found -1"),
        ({"spacing": 0.0}, "spacing must be positive and finite, found 0.0"),
        ({"signal_std": -1.0}, "signal_std must be positive and finite, found -1.0"),
        ({"length_scale": np.inf}, "length_scale must be positive and finite, found inf"),
        ({"observation_noise": 0.0}, "observation_noise must be positive and finite, found 0.0"),
        ({"noise": "none"}, "noise must be one of"),
        ({"uncertainty": "full"}, "uncertainty must be one of"),
        ({"marginal_likelihood_weight": -1}, "marginal_likelihood_weight must be >= 0 .* found -1"),
        ({"marginal_likelihood_weight": np.nan}, "marginal_likelihood_weight must be >= 0"),
        ({"marginal_likelihood_weight": "a"}, "marginal_likelihood_weight must be .* found 'a'"),
        ({"marginal_likelihood_trains": "x"}, "marginal_likelihood_trains must be one of"),
        ({"kernel_initializer": "nothing"}, "nothing"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else "",
)
def test_bad_arguments_raise(arguments, message):
    with pytest.raises(ValueError, match=message):
        PNConv(**{"filters": 3, **arguments})


def test_a_result_that_is_not_finite_raises_with_the_layers_name():
    x = make_input(dtype=np.float32)
    layer = PNConv(3, 5, name="broken")
    layer(x)
    layer.bias.assign([0.0, np.nan, 0.0])
    with pytest.raises(tf.errors.InvalidArgumentError, match="PNConv 'broken'"):
        layer(x)


def test_weights_are_deterministic_with_a_seed():
    weights = []
    for seed in (1, 1, 2):
        keras.utils.set_random_seed(seed)
        layer = PNConv(3, 5)
        layer(make_input(dtype=np.float32))
        weights.append(layer.get_weights())
    for first, second in zip(weights[0], weights[1], strict=True):
        np.testing.assert_array_equal(first, second)
    assert np.any(weights[0][2] != weights[2][2])


class TestInitialScale:
    """Eight blocks without normalisation, 75 random points in the unit square."""

    BLOCKS, CHANNELS = 8, 128

    def second_moments(self, seed):
        """Mean square of the values and mean variance after each block."""
        keras.utils.set_random_seed(seed)
        rng = np.random.default_rng(seed)
        points = rng.uniform(size=(2, 75, 2)).astype("float32")
        wave = np.sqrt(2.0) * np.sin(8 * points[..., :1] + 5 * points[..., 1:] + seed)
        x = tfpn.observations(points, wave, 0.01)
        spacing, moments = point_spacing(points, x["variance"]), []
        for _ in range(self.BLOCKS):
            layer = PNConv(self.CHANNELS, spacing=spacing)
            x = ChannelMix(self.CHANNELS)(ProbReLU()(layer(x)))
            moments.append([np.mean(np.square(x["values"])), np.mean(x["variance"])])
        return np.array(moments)

    def test_signal_and_variance_keep_their_size(self):
        moments = np.array([self.second_moments(seed) for seed in range(4)])
        ratios = moments / moments[:, :1]
        signal, variance = ratios[..., 0], ratios[..., 1]
        assert variance.min() > 0.5 and variance.max() < 2.0
        # The mean square of one network of this width wanders by about sqrt(7 / 128) of itself a
        # block, whatever the weights' scale, which shows in the average over seeds.
        average = np.exp(np.log(signal).mean(axis=0))
        assert average.min() > 0.5 and average.max() < 2.0
        assert signal.min() > 1 / 3 and signal.max() < 3.0


def test_adapt_measures_each_channel_where_each_has_a_prior():
    """One channel at every point, one at every fourth, one at a single point, one never."""
    points = np.tile(0.1 * np.arange(21)[None, :, None], (3, 1, 1))
    values = np.full((3, 21, 4), np.nan)
    values[..., 0] = 2.0
    values[:, ::4, 1] = 5.0
    values[:, 3, 2] = -3.0
    layer = PNConv(2, 3, noise="channel", prior="channel", observation_noise=0.1, dtype="float64")
    layer.adapt(tfpn.observations(points, values))
    np.testing.assert_allclose(np.exp(layer.log_length_scale), [0.1, 0.4, 0.1, 0.1], rtol=1e-6)
    overall = np.sqrt((21 * 2**2 + 6 * 5**2 + 3**2) / 28)
    levels = np.array([2.0, 5.0, 3.0, overall])
    np.testing.assert_allclose(np.exp(layer.log_signal_std), levels, rtol=1e-6)
    np.testing.assert_allclose(np.exp(layer.log_observation_noise), 0.1 * levels, rtol=1e-6)
    with pytest.raises(ValueError, match="prior='channel' needs noise='channel', found 'shared'"):
        PNConv(2, prior="channel")
