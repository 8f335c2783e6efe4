import json
import types
from pathlib import Path

import numpy as np
import pytest
from cli_support import command

from tfpn import datasets, models, recipes
from tfpn.gone import GONE
from tfpn.recipes.arguments import arguments_of

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("name", ["digits", "physionet2012", "superpixel-mnist"])
def test_shipped_recipes_resolve_and_survive_writing(name, tmp_path):
    recipe = recipes.resolve(recipes.load(name))
    assert recipe.name == name
    path = tmp_path / "copy.toml"
    path.write_text(recipes.dumps(recipe))
    assert recipes.differences(recipe, recipes.resolve(recipes.load(path))) == []
    # A run of before, with the defaults of arguments that the models no longer have.
    lines = "".join(f"{key} = {json.dumps(value)}\n" for key, value in GONE.items())
    path.write_text(recipes.dumps(recipe).replace("[model]\n", "[model]\n" + lines))
    assert recipes.differences(recipe, recipes.resolve(recipes.load(path))) == []


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["no-such"], ["no-such", "digits", "superpixel-mnist"]),
        (["digit"], ["did you mean 'digits'?"]),
        (["missing.toml"], ["missing.toml", "No such file"]),
        (["--set", "training.epoch=3"], ["--set training.epoch=3", "did you mean 'epochs'?"]),
        (["--set", "augmentation.rotate=1"], ["[augmentation]", "'rotate'", "'rotation'?"]),
        (["--set", "augmentation.shift=far"], ["augmentation.shift", "'far' (str)", "float"]),
        (["--set", "augmentation.shear=-1"], ["--set augmentation.shear=-1: ", "at least 0"]),
        (["--set", "augmentation.thin=[0.5]"], ["augmentation.thin: found [0.5]; give two shares"]),
        (["--set", "augmentation.thin=[0, 1]"], ["augmentation.thin: ", "0 < lowest <= highest"]),
        (["--set", 'augmentation.thin=["a", 1]'], ["augmentation.thin: found 'a'; give a number"]),
        (["--set", "augmentation.whole=2"], ["augmentation.whole: ", "a probability"]),
        (["--set", "augmentation.drop_channels=0.2"], ["augmentation.drop_channels needs thin"]),
        (["--set", "augmentation.common=1"], ["augmentation.common: found 1 (int)", "type bool"]),
        (
            ["--set", "augmentation.common=true", "--set", "training.by_length=true"],
            ["augmentation.common: found True", "with training.by_length = true"],
        ),
        (["--set", "model.chanels=3"], ["[model]", "'chanels'", "did you mean 'channels'?"]),
        (["--set", "trainin.epochs=3"], ["'trainin'", "did you mean 'training'?"]),
        (["--set", "epochs=3"], ["--set epochs=3", "section.key=value"]),
        (["--epochs", "many"], ["--epochs many", "training.epochs", "'many' (str)", "int"]),
        (["--epochs", "0"], ["training.epochs", "found 0", "at least 1"]),
        (["--batch-size", "true"], ["training.batch_size", "True (bool)"]),
        (["--learning-rate", "-1"], ["training.learning_rate", "positive"]),
        (["--set", "training.schedule=step"], ["'step'", "cosine, constant"]),
        (["--set", "data.name=digit"], ["data.name", "did you mean 'digits'?"]),
        (["--set", "model.rank=8.5"], ["model.rank: found 8.5 (float)", "type int"]),
        (["--set", "model.seed=now"], ["model.seed: found 'now' (str)", "type int"]),
        (["--set", "model.kernel=3"], ["model.kernel: found 3 (int)", "type str or table"]),
        (["--set", "model.activation=[1]"], ["model.activation: found [1]", "str or table"]),
        (["--set", "model.kernel=matern"], ["[model] PNCNN: kernel must be one of", "matern"]),
        (["--set", "model.name=PNCN"], ["model.name", "did you mean 'PNCNN'?"]),
        (["--set", "model.uncertainty=wrong"], ["[model] PNCNN", "uncertainty", "wrong"]),
        (["--channels", "-1"], ["--channels -1: model.channels: found -1", "at least 1"]),
        (["--set", "model.num_classes=3"], ["model.num_classes: found 3", "from 0 to 9", "10"]),
        (["--set", "model.spatial_dim=3"], ["model.spatial_dim: found 3", "give 2"]),
        (["--set", "model.in_channels=2"], ["model.in_channels: found 2", "give 1"]),
        (["--data-dir", "somewhere"], ["--data-dir somewhere", "data_dir", "[data]"]),
    ],
    ids=lambda value: " ".join(value) if value and value[0].startswith("-") else None,
)
def test_wrong_request_is_one_clear_line(arguments, said, tmp_path):
    outcome = command("train", *arguments, "--output", tmp_path / "run")
    assert outcome.status == 2
    assert outcome.out == "" and not (tmp_path / "run").exists()
    message = outcome.err.splitlines()[-1]
    assert message.startswith("tfpn train: error: ") and "Traceback" not in outcome.err
    for text in said:
        assert text in message


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("name = ", "is not TOML"),
        ("[data]\n", "set name"),
        ('name = "x"\n[traning]\n', "did you mean 'training'?"),
        ('name = "x"\ntraining = 3\n', "write a section [training]"),
        ('name = "x"\n[training]\n[model]\n', "data.name"),
    ],
)
def test_wrong_file_is_named(text, said, tmp_path):
    path = tmp_path / "recipe.toml"
    path.write_text(text)
    outcome = command("train", path, "--output", tmp_path / "run")
    assert outcome.status == 2
    assert str(path) in outcome.err and said in outcome.err


def test_missing_data_file_is_one_clear_line(tmp_path):
    outcome = command(
        *("train", "superpixel-mnist", "--data-dir", tmp_path / "nowhere"),
        *("--output", tmp_path / "run"),
    )
    assert outcome.status == 2
    message = outcome.err.splitlines()[-1]
    assert "superpixel_mnist" in message and str(tmp_path / "nowhere") in message
    assert "Traceback" not in outcome.err and not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("3", 3),
        ("3e-3", 3e-3),
        ("true", True),
        ("plain", "plain"),
        ('"3"', "3"),
        ("[1, 2]", [1, 2]),
    ],
)
def test_override_values_are_toml_or_bare_strings(text, value):
    recipe = recipes.load("digits")
    recipes.override(recipe, f"model.channels={text}")
    found = recipe.sections["model"]["channels"]
    assert found == value and type(found) is type(value)


@pytest.mark.parametrize(
    ("key", "text", "value"),
    [
        ("kernel", "matern32", "matern32"),
        ("kernel", "{weights = [1.0, 3.0], scales = [1.0, 2.0]}", None),
        ("activation", "{negative_slope = 0.1}", {"negative_slope": 0.1}),
        ("pooling", "{centre = [0.5, 0.5], radius = 0.5}", {"centre": [0.5, 0.5], "radius": 0.5}),
        ("feature_noise", "1", 1.0),
        ("num_outputs", "2", 2),
    ],
)
def test_values_of_all_annotated_types_survive_writing(key, text, value, tmp_path):
    recipe = recipes.load("digits")
    recipes.override(recipe, f"model.{key}={text}")
    resolved = recipes.resolve(recipe)
    found = resolved.sections["model"][key]
    value = {"weights": [1.0, 3.0], "scales": [1.0, 2.0]} if value is None else value
    assert found == value and type(found) is type(value)
    path = tmp_path / "copy.toml"
    path.write_text(recipes.dumps(resolved))
    assert recipes.differences(resolved, recipes.resolve(recipes.load(path))) == []


def test_tables_of_a_recipe_reach_the_model():
    recipe = recipes.load("digits")
    recipe.sections["model"] = {
        **{"name": "PNCNN", "channels": 2, "num_blocks": 1},
        "kernel": {"weights": [1.0, 3.0], "scales": [1.0, 2.0]},
        "activation": {"negative_slope": 0.1},
    }
    config = recipes.build_model(recipes.resolve(recipe)).get_config()
    assert config["kernel"] == {"weights": [0.25, 0.75], "scales": [1.0, 2.0]}
    assert config["activation"] == {"negative_slope": 0.1}


def test_every_argument_of_models_and_loaders_has_a_type_that_toml_can_hold():
    """Types come from the annotations alone, so none of them may be out of TOML's reach."""
    loaders = (datasets.digits, datasets.physionet2012, datasets.superpixel_mnist)
    for function in (*(getattr(models, name) for name in models.__all__), *loaders):
        for name, argument in arguments_of(function).items():
            if argument.plain is not None:
                assert argument.read(argument.plain, name) == argument.plain


def test_augmentation_is_optional_and_off_by_default():
    recipe = recipes.load("physionet2012")
    assert recipe.sections["augmentation"] == {}
    recipes.override(recipe, "augmentation.rotation=1")
    assert recipes.resolve(recipe).sections["augmentation"] == {
        **{"rotation": 1.0, "shift": 0.0, "scale": 0.0, "shear": 0.0},
        **{"elastic": 0.0, "elastic_length": 0.25, "common": False},
        **{"thin": [], "whole": 0.125, "drop_channels": 0.0, "noise": 0.0},
    }


@pytest.mark.parametrize(
    "assignment, message",
    [
        ("training.class_weight=[1.0, -2.0]", "give a positive number for each class"),
        ("training.class_weight=[1.0, 2.0]", "found 2 numbers for 10 classes"),
        ("training.class_weight=3", "give a value of type list"),
        ("training.patience=-1", "give a number of epochs, or 0"),
        ("training.monitor=val_f1", "give one of val_loss, val_task_loss, val_accuracy"),
        ("training.monitor=[]", r"found \[\] \(list\); give a value of type str"),
        ("training.monitor=val_auroc", "which needs two classes, but the model has 10"),
    ],
)
def test_training_options_are_checked(assignment, message):
    recipe = recipes.load("digits")
    recipes.override(recipe, "model.channels=2")
    recipes.override(recipe, assignment)
    with pytest.raises(recipes.RecipeError, match=message):
        resolved = recipes.resolve(recipe)
        recipes.check_data(resolved, recipes.build_model(resolved), recipes.load_data(resolved))


def test_models_with_statics_need_data_with_statics():
    recipe = recipes.load("digits")
    recipe.sections["model"] = {"name": "PNTimeSeries", "num_statics": 3, "channels": 2}
    resolved = recipes.resolve(recipe)
    data = recipes.load_data(resolved)
    model = recipes.build_model(resolved)
    with pytest.raises(recipes.RecipeError, match="spatial_dim: found 1, .*; take the model PNCNN"):
        recipes.check_data(resolved, model, data)
    flat = {**data.train.x, "points": data.train.x["points"][..., :1]}
    part = types.SimpleNamespace(x=flat, y=data.train.y)
    data = types.SimpleNamespace(train=part, validation=None, test=None)
    with pytest.raises(recipes.RecipeError, match="digits has no statics, but the model takes"):
        recipes.check_data(resolved, model, data)
    part.statics = part.statics_variance = np.zeros((len(part.y), 2))
    with pytest.raises(recipes.RecipeError, match="model.num_statics: found 3.* 2 statics; give 2"):
        recipes.check_data(resolved, model, data)
    assert set(recipes.model_inputs(model, part)) == {*part.x, "statics", "statics_variance"}
