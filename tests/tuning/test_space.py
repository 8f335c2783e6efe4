"""Search spaces: defaults, overrides and errors."""

import keras_tuner
import numpy as np
import pytest
from tuning_support import small

from tfpn import recipes, tuning
from tfpn.tuning import space as spaces


def test_the_default_space_covers_what_it_says():
    assert set(spaces.search_space(recipes.load("superpixel-mnist"))) == {
        *("model.channels", "model.num_blocks", "model.num_basis", "model.uncertainty"),
        *("model.length_per_spacing", "model.observation_noise", "model.feature_noise"),
        *("model.marginal_likelihood_weight", "training.learning_rate"),
    }
    # Of another model what it has, and nothing that its noise forbids.
    space = spaces.search_space(recipes.load("physionet2012"))
    assert "model.length_per_spacing" not in space
    assert space["model.uncertainty"] == ["diagonal", "none", "sampled"]


def test_set_values_stay_and_given_ones_vary():
    recipe = small()
    space = spaces.search_space(
        recipe, {"model.num_blocks": [1, 2], "augmentation.shift": [0, 0.5]}
    )
    assert "model.uncertainty" not in space
    assert space["model.num_blocks"] == [1, 2] and space["augmentation.shift"] == [0.0, 0.5]


@pytest.mark.parametrize(
    ("name", "values", "said"),
    [
        ("model.chanels", [1, 2], "search space model.chanels.*did you mean 'channels'"),
        ("channels", [1, 2], "search space channels: found 'channels'; give section.key"),
        ("data.keep", [5, 6], "give section.key with a key of model, training, augmentation"),
        ("model.name", ["PNCNN"], "give section.key"),
        ("model.channels", [], r"found \[\]"),
        ("model.channels", [2, "many"], "give different numbers; or texts"),
        ("model.channels", [2, 2], "give different numbers"),
        ("model.channels", [0, 2], "model.channels: found 0; give an integer of at least 1"),
        ("model.channels", [2, 2.5], r"model.channels: found 2.0 \(float\)"),
        ("model.uncertainty", ["none", "wrong"], "value 'wrong'.*uncertainty must be one of"),
        ("model.channels", {"min_value": 2}, "found a range with min_value; give min_value and"),
        ("model.channels", {"min_value": 4, "max_value": 2}, "min_value 4 is greater than"),
        (
            "model.channels",
            {"min_value": 2, "max_value": 4, "step": 0},
            "model.channels: found the step 0; give a positive",
        ),
        (
            "training.learning_rate",
            {"min_value": 0.1, "max_value": 0.2, "sampling": "exp"},
            "sampling must be one of",
        ),
        ("training.learning_rate", {"min_value": -1.0, "max_value": 0.2}, "learning_rate.*-1.0"),
    ],
)
def test_wrong_values_are_named(name, values, said):
    with pytest.raises(recipes.RecipeError, match=said):
        tuning.PNCNNHyperModel(small(), space={name: values})


@pytest.mark.parametrize("text", ["model.channels", "model.channels=3", "model.channels=[1,"])
def test_wrong_text_is_named(text):
    with pytest.raises(recipes.RecipeError, match="--space model.channels.*--set fixes a value"):
        spaces.read_assignment(text)


def test_a_value_is_set_or_searched():
    recipe = recipes.load("digits")
    with pytest.raises(recipes.RecipeError, match="model.channels is given twice"):
        spaces.read_assignments(["model.channels=[1, 2]", "model.channels=[1, 3]"], recipe)
    recipes.override(recipe, "model.channels=3")
    with pytest.raises(recipes.RecipeError, match="model.channels was set.*not both"):
        spaces.read_assignments(["model.channels=[1, 2]"], recipe)


def test_values_of_every_kind_reach_the_recipe():
    hypermodel = tuning.PNCNNHyperModel(
        num_classes=3,
        pooling=(0.0, 1.0),
        space={
            "model.channels": {"min_value": 8, "max_value": 8},
            "model.normalization": [True, False],
            "model.feature_noise": [0.123456789, 0.3],
            "model.uncertainty": ["joint"],
        },
    )
    hp = keras_tuner.HyperParameters()
    recipe = hypermodel.recipe(hp)  # the recipe's own values, where they are in the space
    model = recipe.sections["model"]
    assert model["normalization"] is True and model["uncertainty"] == "joint"
    assert model["channels"] == 8 and model["num_classes"] == 3 and model["pooling"] == [0.0, 1.0]
    assert recipe.sections["training"]["learning_rate"] == 0.003
    assert model["feature_noise"] == 0.123457
    # Between chief and worker numbers travel in single precision, and come back as they were.
    travelled = keras_tuner.HyperParameters.from_proto(hp.to_proto())
    assert travelled.values["model.feature_noise"] == np.float32(0.123457)
    assert hypermodel.recipe(travelled).sections == recipe.sections


def test_names_and_tables_are_choices():
    mixture = {"weights": [0.5, 0.5], "scales": [1.0, 2.0]}
    leaky = {"negative_slope": 0.25}
    hypermodel = tuning.PNCNNHyperModel(
        num_classes=3,
        num_blocks=1,
        channels=2,
        space={"model.kernel": ["rbf", mixture], "model.activation": [leaky]},
    )
    hp = keras_tuner.HyperParameters()
    model = hypermodel.recipe(hp).sections["model"]
    assert model["kernel"] == "rbf" and model["activation"] == leaky
    travelled = keras_tuner.HyperParameters.from_proto(hp.to_proto())
    kernel = next(space for space in travelled.space if space.name == "model.kernel")
    travelled.values["model.kernel"] = kernel.values[1]
    assert hypermodel.recipe(travelled).sections["model"]["kernel"] == mixture


def test_a_wrong_table_is_named():
    space = {"model.kernel": ["rbf", {"weights": [1.0]}]}
    with pytest.raises(recipes.RecipeError, match="model.kernel, value .*weights.*kernel must be"):
        tuning.PNCNNHyperModel(small(), space=space)
