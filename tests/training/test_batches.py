"""The order of an epoch's examples and their augmentation, on which resuming a run relies."""

import numpy as np
import pytest

from tfpn import observations, recipes
from tfpn.training import ShuffledBatches, make_batches


def test_order_depends_on_seed_and_epoch_only():
    labels = np.arange(20)

    def order(seed, epochs):
        batches = ShuffledBatches({"values": labels}, labels, 6, seed)
        for epoch in epochs:
            batches.set_epoch(epoch)
        return [int(label) for batch in range(len(batches)) for label in batches[batch][1]]

    assert order(0, [5]) == order(0, [0, 1, 2, 5])
    assert sorted(order(0, [5])) == list(labels)
    assert order(0, [5]) != order(0, [6]) and order(0, [5]) != order(1, [5])


def test_augmentation_depends_on_seed_and_epoch_only():
    rng = np.random.default_rng(0)
    x = observations(rng.uniform(size=(20, 5, 2)), rng.normal(size=(20, 5)))
    labels = np.arange(20)

    def points(seed, epochs, **ranges):
        batches = ShuffledBatches(x, labels, 20, seed, **ranges)
        for epoch in epochs:
            batches.set_epoch(epoch)
        batch, y = batches[0]
        return batch["points"][np.argsort(y)]

    moved = points(0, [5], shift=0.1)
    np.testing.assert_array_equal(points(0, [0, 1, 2, 5], shift=0.1), moved)
    np.testing.assert_array_equal(points(0, [5]), x["points"])
    for other in (x["points"], points(0, [6], shift=0.1), points(1, [5], shift=0.1)):
        assert (np.abs(moved - other) > 0).all()


def test_inputs_beside_the_observations_are_not_augmented():
    rng = np.random.default_rng(0)
    x = observations(rng.uniform(size=(20, 5, 1)), rng.normal(size=(20, 5)))
    statics = {"statics": rng.normal(size=(20, 2)), "statics_variance": np.zeros((20, 2))}
    batches = ShuffledBatches({**x, **statics}, np.arange(20), 20, seed=0, shift=0.1)
    batch, y = batches[0]
    assert (batch["points"] != x["points"][y]).all()
    np.testing.assert_array_equal(batch["statics"], statics["statics"][y])


def test_thinning_depends_on_seed_and_epoch_only():
    rng = np.random.default_rng(0)
    x = observations(rng.uniform(size=(20, 9, 1)), rng.normal(size=(20, 9, 2)))
    labels, weights = np.arange(20), rng.uniform(size=20)

    def variances(seed, epochs, **options):
        batches = ShuffledBatches(x, labels, 20, seed, weights=weights, **options)
        for epoch in epochs:
            batches.set_epoch(epoch)
        batch, y, weight = batches[0]
        np.testing.assert_array_equal(weight, weights[y])
        return batch["variance"][np.argsort(y)]

    thinned = variances(0, [5], thin=(0.2, 0.9))
    np.testing.assert_array_equal(variances(0, [0, 1, 2, 5], thin=(0.2, 0.9)), thinned)
    for other in (variances(0, [6], thin=(0.2, 0.9)), variances(1, [5], thin=(0.2, 0.9))):
        assert (thinned != other).mean() > 0.2
    np.testing.assert_array_equal(variances(0, [5]), x["variance"])
    # The jittered points are the same with and without.
    moved = [
        ShuffledBatches(x, labels, 20, 0, shift=0.1, **options)[0][0]["points"]
        for options in ({}, {"thin": (0.2, 0.9)})
    ]
    np.testing.assert_array_equal(*moved)


def test_a_recipe_adds_noise_anew_in_each_epoch_and_tells_it():
    rng = np.random.default_rng(0)
    x = observations(rng.uniform(size=(40, 9, 1)), rng.normal(size=(40, 9)), 0.01)
    recipe = recipes.Recipe("mine", {s: {} for s in recipes.SECTIONS}, "here")
    recipe.sections["model"] = {"name": "PNTimeSeries"}
    del recipe.sections["data"]
    recipes.override(recipe, "augmentation.noise=2")
    batches = make_batches(recipes.resolve(recipe), x, np.arange(40))
    noised = []
    for epoch in (0, 1):
        batches.set_epoch(epoch)
        batch, y = batches[0]
        told = batch["variance"] - x["variance"][y]
        moved = np.abs(batch["values"] - x["values"][y]).max((1, 2))
        noised.append(moved[np.argsort(y)] > 0)
        np.testing.assert_array_equal(moved > 0, told.max((1, 2)) > 0)
        assert told.max() <= 4.0
    assert 2 < np.sum(noised[0]) < 24  # three in ten, of 40
    assert np.any(noised[0] != noised[1])


def test_a_recipe_thins_as_its_model_takes_it():
    rng = np.random.default_rng(0)
    x = observations(rng.uniform(size=(20, 9, 1)), rng.normal(size=(20, 9, 2)))

    def parts_of_points(model, *more):
        recipe = recipes.Recipe("mine", {s: {} for s in recipes.SECTIONS}, "here")
        recipe.sections["model"] = {"name": model, "in_channels": 2}
        del recipe.sections["data"]
        for assignment in ("augmentation.thin=[0.3, 0.6]", *more):
            recipes.override(recipe, assignment)
        batches = make_batches(recipes.resolve(recipe), x, np.arange(20))
        seen = np.isfinite(batches[0][0]["variance"])
        return int((seen.any(-1) & ~seen.all(-1)).sum())

    assert parts_of_points("PNCNN") == 0
    assert parts_of_points("PNTimeSeries") > 30
    with pytest.raises(recipes.RecipeError, match=r"\[augmentation\] drop_channels: found 0.5"):
        parts_of_points("PNCNN", "augmentation.drop_channels=0.5")
