"""What the shift benchmark does to data, and what it makes of results."""

import keras
import numpy as np
import pytest
import scipy.special

import tfpn
from benchmarks.shift import baselines, models, report, sets, settings, stored
from benchmarks.shift import run as shift


def series(examples=300, points=20, channels=6):
    """Series of unequal length, some readings with a variance of their own."""
    rng = np.random.default_rng(0)
    values = rng.normal(size=(examples, points, channels)) + 3
    times = np.broadcast_to((np.arange(points)[:, None] + 0.5) / points, (examples, points, 1))
    variance = np.full(values.shape, 0.04)
    variance[::3, points // 2 :] = np.inf
    x = tfpn.observations(times, values, variance)
    return {key: array.astype(np.float32) for key, array in x.items()}


def seen(x):
    return np.isfinite(x["variance"])


@pytest.mark.parametrize(("name", "share"), [("-50%", 0.5), ("-80%", 0.8)])
def test_dropped_readings(name, share):
    x = series()
    found = sets.scenario(name, x, seed=1)
    left = seen(found)[seen(x)].mean()
    # Binomial; the share that stays, within 4 standard deviations.
    assert left == pytest.approx(1 - share, abs=4 * np.sqrt(share * (1 - share) / seen(x).sum()))
    np.testing.assert_array_equal(found["values"][seen(found)], x["values"][seen(found)])
    np.testing.assert_array_equal(found["points"], x["points"])
    again, other = (sets.scenario(name, x, seed)["variance"] for seed in (1, 2))
    np.testing.assert_array_equal(found["variance"], again)
    assert not np.array_equal(found["variance"], other)
    whole = sets.scenario("whole", x, seed=1)
    np.testing.assert_array_equal(whole["variance"], x["variance"])


@pytest.mark.parametrize("deviation", [0.3, 1.0])
def test_noise_is_added_and_told(deviation):
    x = series()
    found = sets.scenario(f"noise {deviation:g}", x, seed=1)
    np.testing.assert_array_equal(seen(found), seen(x))
    np.testing.assert_allclose(
        found["variance"][seen(x)], x["variance"][seen(x)] + deviation**2, rtol=1e-6
    )
    noise = (found["values"] - x["values"])[seen(x)] / deviation
    # Mean and mean square of n standard normal numbers.
    assert abs(noise.mean()) < 4 / np.sqrt(noise.size)
    assert abs(np.mean(noise**2) - 1) < 4 * np.sqrt(2 / noise.size)
    assert found["values"].dtype == x["values"].dtype


def test_dead_channels():
    x = series()
    found = sets.scenario("dead third", x, seed=1)
    alive = seen(found).any(1)
    assert (alive.sum(-1) == 4).all()  # of 6
    np.testing.assert_array_equal(seen(found), seen(x) & alive[:, None])
    # Each channel in a third of the examples.
    assert np.abs(alive.mean(0) - 2 / 3).max() < 4 * np.sqrt(2 / 9 / 300)
    with pytest.raises(ValueError, match="a third of 2 channels cannot be dead"):
        sets.kill_channels(series(channels=2), np.random.default_rng(0))
    assert sets.scenarios("whole", 6)[-1] == "dead third"
    assert "dead third" not in sets.scenarios("whole", 1)
    assert sets.scenarios("fifth", 6) == ("-80%",)


def test_training_parts_and_copies():
    x = series(60)
    data = sets.Set(sets.Part(x, np.arange(60) % 2), None, 2, None)
    assert sets.training_part(data, "whole", 0) is data.train
    part = sets.training_part(data, "fifth", 0)
    assert seen(part.x)[seen(x)].mean() == pytest.approx(0.2, abs=0.02)
    copies, groups = sets.thinned_copies(data.train, seed=0)
    assert len(copies.y) == 8 * 60 and np.bincount(groups).tolist() == [8] * 60
    np.testing.assert_array_equal(copies.y, data.train.y[groups])
    np.testing.assert_array_equal(copies.x["variance"][:60], x["variance"])
    share = seen(copies.x).sum((1, 2)) / seen(x).sum((1, 2))[groups]
    # 10 to 100 % of readings, and a tenth of the channels dead besides.
    assert share[60:].mean() == pytest.approx(0.55 * 0.9, abs=0.04) and share[60:].min() < 0.15


def test_interpolation_against_a_loop():
    x = sets.scenario("-80%", series(10), seed=0)
    grid = np.linspace(0, 1, 7)
    found = sets.interpolated(x, grid)
    for example, channel in np.ndindex(10, 6):
        some = seen(x)[example, :, channel]
        expected = np.zeros(7)
        if some.any():
            times = x["points"][example, some, 0]
            expected = np.interp(grid, times, x["values"][example, some, channel])
        np.testing.assert_allclose(found[example, channel], expected, rtol=1e-6)


def test_sequences_of_points_of_the_plane_hold_their_coordinates():
    x = tfpn.observations([[[0.5, 2.0], [0.25, 1.0]]], [[[3.0, np.nan], [np.nan, 4.0]]])
    expected = [[3, 0, 1, 0, 0.5, 2.0, 1], [0, 4, 0, 1, 0.25, 1.0, 1]]
    np.testing.assert_allclose(baselines.sequences(x)[0], expected)


def test_sequences_of_the_recurrent_network():
    x = tfpn.observations(
        [[[0.1], [0.3], [0.6], [0.7]]], [[[1, 2], [3, np.nan], [np.nan, 4], [5, 6]]]
    )
    x["variance"][0, 3] = np.inf
    expected = [  # values, masks, times since the last reading
        [1, 2, 1, 1, 0.1, 0.1, 1],
        [3, 0, 1, 0, 0.2, 0.2, 1],
        [0, 4, 0, 1, 0.3, 0.5, 1],
        [0, 0, 0, 0, 0, 0, 0],
    ]
    np.testing.assert_allclose(baselines.sequences(x)[0], expected, rtol=1e-6, atol=1e-7)


def test_logistic_regression_in_the_space_of_inner_products():
    """The same as scikit-learn's on the features themselves, at the strength that is chosen."""
    from sklearn.linear_model import LogisticRegression

    rng = np.random.default_rng(0)
    features = rng.normal(size=(40, 100)).astype(np.float32)
    labels = np.argmax(features[:, :3] + 0.5 * rng.normal(size=(40, 3)), axis=-1)
    others = rng.normal(size=(9, 100)).astype(np.float32)
    found = baselines.logistic_regression(features, labels, np.arange(40), 0)(others)
    scaled = [(f - features.mean(0)) / features.std(0) / 10 for f in (features, others)]
    distances = []
    for strength in baselines.STRENGTHS:
        model = LogisticRegression(C=100 * strength, max_iter=2000, tol=1e-6)
        expected = model.fit(scaled[0], labels).predict_proba(scaled[1])
        distances.append(np.abs(expected - found).max())
    assert min(distances) < 2e-3 < sorted(distances)[1]  # the solver's tolerance


def test_forest_and_clear_messages():
    x = series(30)
    data = sets.Set(sets.Part(x, np.arange(30) % 2), None, 2, np.linspace(0, 1, 5))
    found = baselines.forest(data, data.train, 0, True)(x)
    np.testing.assert_allclose(found.sum(-1), 1)
    assert found.min() > 0
    flat = sets.Set(data.train, None, 2, None)
    for model in ("minirocket", "hydra", "forest"):
        with pytest.raises(ValueError, match=f"{model} needs series|Hydra|No module"):
            baselines.MODELS[model](flat, data.train, 0, False)
    with pytest.raises(ValueError, match="no model is called 'diagonal\\+more'"):
        models.trainer("diagonal+more")
    with pytest.raises(SystemExit):
        shift.main(["--models", "nothing"])


def test_report(tmp_path):
    rows = []
    for test, model, seed, nll in [
        *(("whole", "a", 0, 0.2), ("whole", "a", 1, 0.4), ("whole", "b+thinned", 0, 0.1)),
        *(("-50%", "a", 0, 0.5), ("-50%", "b+thinned", 0, 0.7)),
    ]:
        row = {"set": "S", "trained": "whole", "test": test, "model": model, "seed": seed}
        rows.append({**row, "accuracy": 0.9, "nll": nll, "ece": nll / 10, "fit_seconds": 3})
    found = report.cells(rows)
    assert found["S", "whole", "whole"]["a"] == pytest.approx((0.9, 0.3, 0.03))
    first = report.summary(found).splitlines()[2]
    assert first.startswith("| a | 2 | 50 % | 0.400 | 5.0 % | 100 % | 0.0 %")
    report.write(rows, tmp_path)
    text = (tmp_path / "table.md").read_text()
    assert "| 90.0 / 0.300 / 3.0 | **90.0 / 0.100 / 1.0** |" in text
    assert (tmp_path / "shift.png").stat().st_size > 1000


@pytest.mark.usefixtures("eagerly")
def test_a_model_of_this_library():
    x = series(12, points=6, channels=2)
    data = sets.Set(sets.Part(x, np.arange(12) % 2), None, 2, np.linspace(0, 1, 5))
    small = models.Settings(channels=2, blocks=1, query=3, steps=2)
    model = models.fit("diagonal", False, data, data.train, 0, True, small)
    logits = model.predict(x, verbose=0)
    assert logits.shape == (12, 2) and np.isfinite(scipy.special.softmax(logits, -1)).all()


def test_trained_models_on_thinned_data():
    """The rows agree with the metrics of the model's own probabilities."""
    x, y = series(12, channels=1), np.arange(12) % 2
    keras.utils.set_random_seed(0)
    model = tfpn.models.PNCNN(2, spatial_dim=1, channels=4, num_blocks=1, pooling=(0, 1))
    model.adapt(x)
    head = model.get_layer("head").kernel  # it starts at 0
    head.assign(np.random.default_rng(0).normal(size=head.shape))
    whole, half = stored.measure(model, x, y, ("whole", "-50%"), together=True)
    for row, given in ((whole, x), (half, sets.scenario("-50%", x, 0, True))):
        p = model.predict_proba(given, verbose=0)[np.arange(12), y].astype(np.float64)
        assert row["nll"] == pytest.approx(-np.mean(np.log(p)), abs=2e-5)  # rounded to 1e-5
        assert row["examples"] == 12
    assert whole["nll"] != half["nll"]


def test_held_out_series():
    """Each series is either for training or held out, and both parts have all classes."""
    x, y = series(20, channels=1), np.arange(20) % 2
    train, held_out = settings.divided(sets.Part(x, y), split=3)
    assert len(train.y) == 14 and np.all(np.bincount(held_out.y) == 3)
    together = np.concatenate([train.x["values"], held_out.x["values"]])
    assert np.array_equal(np.unique(together, axis=0), np.unique(x["values"], axis=0))
    again = settings.divided(sets.Part(x, y), split=3)[1]
    assert np.array_equal(held_out.x["values"], again.x["values"])
