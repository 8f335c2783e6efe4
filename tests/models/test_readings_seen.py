"""The warning of examples that have far fewer readings than those in training."""

import warnings

import keras
import numpy as np
import pytest
from pncnn_support import LOSS

import tfpn
from tfpn.training import ShuffledBatches


def series(examples=32, points=30, seed=0):
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(examples, points, 2))
    values[rng.uniform(size=values.shape) < 0.2] = np.nan
    times = np.sort(rng.uniform(size=(examples, points, 1)), axis=1)
    return {k: v.astype("f") for k, v in tfpn.observations(times, values).items()}


def fewer(x, share, seed=1):
    return tfpn.augmentation.thin(x, (share, share), np.random.default_rng(seed), whole=0)


def model_of(x):
    keras.utils.set_random_seed(0)
    model = tfpn.models.PNTimeSeries(
        2, in_channels=2, channels=2, num_blocks=1, num_basis=1, query=4
    )
    model.adapt(x)
    model.compile(keras.optimizers.Adam(), LOSS)
    return model


def warned(model, x, how="predict"):
    options = {"verbose": 0} if how == "predict" else {}
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        getattr(model, how)(x, **options)
    return [str(w.message) for w in found if "readings" in str(w.message)]


@pytest.mark.parametrize("how", ["predict_proba", "predict_distribution"])
def test_it_warns_once_of_far_fewer(how, tmp_path):
    x = series()
    model = model_of(x)
    model.save(tmp_path / "model.keras")
    for few in (x, fewer(x, 0.75), {k: v[:1] for k, v in fewer(x, 0.8).items()}):
        assert warned(model, few, how) == []
    (message,) = warned(model, fewer(x, 0.3), how)
    least = np.quantile(np.isfinite(x["variance"]).sum((1, 2)), 0.1, method="lower")
    assert f"those in training had {least:.0f} or more" in message
    assert warned(model, fewer(x, 0.3), how) == []
    assert len(warned(keras.models.load_model(tmp_path / "model.keras"), fewer(x, 0.3), how)) == 1
    other = tfpn.models.PNCNN.from_config(tfpn.models.PNCNN(channels=2, num_blocks=1).get_config())
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # Nothing is known of what it was trained on.
        other.predict(tfpn.observations(np.ones((1, 1, 2)), np.ones((1, 1))), verbose=0)


def test_a_few_sparse_examples_in_training_do_not_silence_it():
    x = series()
    x["variance"][:2, 2:] = np.inf  # such as records of dead sensors
    model = model_of(x)
    assert len(warned(model, fewer(series(seed=1), 0.3))) == 1


def test_not_where_training_had_as_few():
    x = series()
    labels = np.arange(32) % 2
    model = model_of(x)
    batches = ShuffledBatches(x, labels, 4, 0, by_length=True, thin=(0.1, 1.0))
    numbers = []
    for epoch in range(4):
        batches.set_epoch(epoch)
        for thinned, y in batches:  # each of examples with about as many readings
            model.train_on_batch(thinned, y)
            numbers.extend(np.isfinite(thinned["variance"]).sum((1, 2)))
    assert len(numbers) == 4 * 32
    assert model._least_readings() == np.quantile(numbers, 0.1, method="lower")
    assert warned(model, fewer(x, 0.2)) == []
    assert len(warned(model, fewer(x, 0.03))) == 1
    whole = model_of(x)
    whole.fit(x, labels, epochs=1, verbose=0)
    assert len(warned(whole, fewer(x, 0.2))) == 1


def test_models_of_before_can_be_read():
    """What is stored without the number of readings and the temperature."""
    x = series(4)
    model = model_of(x)
    model._readings.assign([3.0, 2.0, *[np.inf] * 4095])
    assert model._least_readings() == 2
    model.load_own_variables({})
    model.get_layer("temperature").load_own_variables({})
    assert model._least_readings() == 2
    model.load_own_variables({"readings": np.array([5.0, 4.0])})
    assert model._least_readings() == 4
    regression = tfpn.models.PNCNN(None, num_outputs=1, channels=2, num_blocks=1, pooling=(0, 1))
    regression.load_own_variables({"0": np.full((2, 1), 0.5)})
    with pytest.raises(ValueError, match="has 1 weights beside its layers', but the file has 0"):
        regression.load_own_variables({})
    np.testing.assert_array_equal(regression._calibration, np.full((2, 1), 0.5))
