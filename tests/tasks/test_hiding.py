"""Hidden readings: what is hidden is asked for, and nothing else changes."""

import numpy as np
import pytest

import tfpn
from tfpn.tasks import HiddenReadings, hide


def make(examples=6, points=20, channels=2, seed=0):
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(examples, points, channels))
    values[rng.uniform(size=values.shape) < 0.2] = np.nan
    values[0, 5:] = np.nan
    return tfpn.observations(rng.uniform(size=(examples, points, 2)), values, 0.01)


@pytest.mark.parametrize("by", ["point", "reading"])
def test_every_reading_is_either_given_or_asked_for(by):
    x = make()
    given, targets = hide(x, (0.2, 0.5), by=by, seed=1)
    before, after = np.isfinite(x["variance"]), np.isfinite(given["variance"])
    assert np.all(before | ~after)
    for example in range(6):
        found = {
            (*point, channel): value
            for point, row in zip(given["query"][example], targets[example], strict=True)
            for channel, value in enumerate(row)
            if np.isfinite(value)
        }
        expected = {
            (*x["points"][example, n], c): x["values"][example, n, c]
            for n, c in np.argwhere(before[example] & ~after[example])
        }
        assert found == expected
    if by == "point":  # all channels of a point or none
        hidden = before & ~after
        np.testing.assert_array_equal(hidden.any(-1), hidden.any(-1) & ~after.any(-1))


def test_the_share_is_that_of_each_example():
    x = make(examples=50)
    given, _ = hide(x, (0.2, 0.5), seed=0)
    before, after = (np.isfinite(a["variance"]).any(-1).sum(-1) for a in (x, given))
    share = 1.0 - after / before
    assert np.all(share > 0.2 - 1e-9) and np.all(share < 0.5 + 1.0 / before)
    assert np.ptp(share[1:]) > 0.2 and np.all(after > 0)


def test_shapes_do_not_depend_on_chance_and_chance_on_the_seed():
    x = make()
    first, second, again = (hide(x, seed=seed) for seed in (0, 1, 0))
    assert first[0]["query"].shape == second[0]["query"].shape == (6, 10, 2)
    np.testing.assert_array_equal(first[1], again[1])
    assert not np.array_equal(first[0]["variance"], second[0]["variance"])


def test_an_example_without_or_with_one_reading_keeps_it():
    values = np.full((2, 4), np.nan)
    values[1, 2] = 1.0
    x = tfpn.observations(np.zeros((2, 4, 1)), values)
    given, targets = hide(x, 0.5, seed=0)
    np.testing.assert_array_equal(given["variance"], x["variance"])
    assert np.isnan(targets).all()


def test_batches_hide_anew_in_every_epoch_and_show_all_examples():
    x = make()
    batches = HiddenReadings(x, batch_size=4, repeats=2)
    assert len(batches) == 3
    first = [batches[k] for k in range(3)]
    counts = np.isfinite(np.concatenate([t for _, t in first])).sum()
    assert counts > 0
    np.testing.assert_array_equal(batches[1][1], first[1][1])
    batches.on_epoch_end()
    assert not np.array_equal(batches[1][0]["variance"], first[1][0]["variance"])
    points = np.concatenate([batches[k][0]["points"] for k in range(3)])
    assert sorted(points[:, 0, 0]) == sorted(np.tile(x["points"][:, 0, 0], 2))


@pytest.mark.parametrize(
    "share, by, message",
    [
        (0.0, "point", "share must be above 0 and below 1"),
        ((0.5, 0.2), "point", "share must be above 0"),
        ("half", "point", "share must be a number"),
        (0.3, "row", "by must be one of"),
    ],
)
def test_bad_arguments_are_named(share, by, message):
    with pytest.raises(ValueError, match=message):
        hide(make(), share, by=by)


def test_other_models_are_refused():
    model = tfpn.models.PNCNN(2, channels=2, num_blocks=1)
    with pytest.raises(ValueError, match="predicts no field"):
        tfpn.tasks.train(model, make())


@pytest.mark.parametrize("given", [{"epochs": 0}, {"share": 2.0}, {"by": "row"}, {"repeats": 0}])
def test_arguments_are_checked_before_the_model_starts_from_the_data(given, monkeypatch):
    model = tfpn.models.PNCNN(None, num_outputs=1, output="field", channels=2, num_blocks=1)
    monkeypatch.setattr(type(model), "adapt", lambda *given, **options: pytest.fail("adapt ran"))
    with pytest.raises(ValueError, match=f"^{next(iter(given))} must be"):
        tfpn.tasks.train(model, make(channels=1), **given)


@pytest.mark.parametrize("share", [(0.1,), (0.1, 0.2, 0.3), "half", None, (0.5, 0.2), True])
def test_a_share_is_a_number_or_a_range(share):
    with pytest.raises(ValueError, match="share must be"):
        hide(make(), share)


def test_numbers_of_numpy_are_shares():
    given, _ = hide(make(), np.float32(0.5), seed=0)
    np.testing.assert_array_equal(hide(make(), 0.5, seed=0)[0]["variance"], given["variance"])


def test_examples_of_one_reading_have_none_to_hide():
    x = tfpn.observations([[[0.0]], [[1.0]]], [[[1.0, 2.0]], [[3.0, 4.0]]])
    with pytest.raises(ValueError, match="no example has two points that were read"):
        HiddenReadings(x)
    assert len(HiddenReadings(x, by="reading")) == 1


def test_training_that_makes_it_worse_leaves_the_model_as_it_was(eagerly):
    x = make(examples=3, channels=1)
    model = tfpn.models.PNCNN(None, num_outputs=1, output="field", channels=2, num_blocks=1)
    model.adapt(x, verbose=0)
    before = model.get_weights()
    options = {"epochs": 1, "adapt": False, "verbose": 0}
    tfpn.tasks.train(model, x, learning_rate=30.0, validation=x, **options)
    for weight, other in zip(model.get_weights(), before, strict=True):
        np.testing.assert_array_equal(weight, other)
