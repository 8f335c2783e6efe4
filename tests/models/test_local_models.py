"""Models that condition on neighbourhoods."""

import keras
import numpy as np
import pytest
from tolerance import rounding

import tfpn
from tfpn import recipes
from tfpn.tuning.space import search_space

pytestmark = pytest.mark.usefixtures("always_cut")
LOCAL = {"conditioning": "local", "block_size": 8, "neighbors": 47}
SMALL = {"num_basis": 2, "spacing": 0.2, "dtype": "float64"}


def data(dim=2, channels=1, seed=0):
    """Sixty points, of which 30 to 40 are observed: halos of 47 hold all."""
    rng = np.random.default_rng(seed)
    x = tfpn.observations(
        rng.uniform(size=(2, 60, dim)), rng.normal(size=(2, 60, channels)), variance=0.05
    )
    x["variance"][:, ::3] = np.inf
    x["variance"][0, ::2] = np.inf
    return {key: value.astype("float64") for key, value in x.items()}


def points(dim, **options):
    return lambda local: tfpn.models.PNCNN(
        3, channels=2, num_blocks=2, spatial_dim=dim, **SMALL, **options, **local
    )


def series(**options):
    return lambda local: tfpn.models.PNTimeSeries(
        2, channels=2, num_blocks=2, in_channels=2, **SMALL, **options, **local
    )


MODELS = {
    "line": (1, points(1, pooling=(0.0, 1.0))),
    "plane": (2, points(2, uncertainty="sampled", num_samples=2, seed=0)),
    "sampled over a box": (
        2, points(2, uncertainty="sampled", num_samples=2, seed=0, pooling=(0.0, 1.0)),
    ),
    "space": (3, points(3, uncertainty="none")),
    "grid": (2, points(2, query=5, pooling=(0.0, 1.0))),
    "series": (1, series(query="union", windows=2)),
    "series at times": (1, series(query=12, missingness="intensity")),
    "steerable in space": (
        3,
        lambda local: tfpn.models.SteerablePNCNN(
            3, copies=1, num_blocks=1, num_basis=1, frequencies=(0, 1), seed=0, spacing=0.2,
            dtype="float64", spatial_dim=3, **local,
        ),
    ),
    "steerable": (
        2,
        lambda local: tfpn.models.SteerablePNCNN(
            3, copies=1, num_blocks=2, frequencies=(0, 1), seed=0, spacing=0.2, dtype="float64",
            pooling={"centre": (0.5, 0.5), "radius": 0.6}, **local,
        ),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", MODELS)
def test_halos_of_all_points_are_exact(name):
    dim, make = MODELS[name]
    keras.utils.set_random_seed(0)
    x = data(dim, 2 if "series" in name else 1)
    if "series" in name:
        x["variance"][np.random.default_rng(1).uniform(size=x["variance"].shape) < 0.3] = np.inf
    exact, local = make({}), make(LOCAL)
    local.set_weights(exact.get_weights())
    # Three layers of 40 terms, behind systems of the condition number 40 s^2 / (0.01 s^2); a disc's
    # integrals are by quadrature.
    limit = 1e-5 if name == "steerable" else rounding(3 * 40, condition=4e3)
    expected = exact(x)
    np.testing.assert_allclose(local(x), expected, limit, limit * np.abs(expected).max())


def test_fields_of_halos_of_all_points_are_exact():
    x = data(channels=2)
    rng = np.random.default_rng(1)
    query = rng.uniform(-0.5, 1.5, size=(2, 70, 2))

    def make(**local):
        return tfpn.models.PNCNN(
            None, num_outputs=2, in_channels=2, output="field", channels=2, num_blocks=1,
            trend="linear", amplitude="example", **SMALL, **local,
        )  # fmt: skip

    exact, local = make(), make(**LOCAL)
    exact.adapt(x, fit_priors=False)
    exact.get_layer("readout").kernel.assign(
        0.1 * rng.normal(size=exact.get_layer("readout").kernel.shape)
    )
    local.set_weights(exact.get_weights())
    # As above, of two layers.
    limit = rounding(2 * 40, condition=4e3)
    for options in ({}, {"noise": False}, {"own_prior": 0.1}):
        expected, found = (model.predict_field(x, query, **options) for model in (exact, local))
        # The search for an own prior stops where its steps change 1e-7 of the likelihood.
        close = 1e-3 if options.get("own_prior") else limit
        for name in ("mean", "stddev"):
            some, other = (getattr(field, name)().numpy() for field in (found, expected))
            np.testing.assert_allclose(some, other, close, close)
    for refused in (
        lambda: local.predict_field(x, query, joint=True),
        lambda: local.conditioned(x),
    ):
        with pytest.raises(ValueError, match="conditioning='exact'"):
            refused()


def test_saved_and_loaded(tmp_path):
    x = data()
    model = points(2)({**LOCAL, "neighbors": 9})
    expected = model(x)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(loaded(x), expected)
    for layer in loaded.pn_layers:
        assert layer.conditioning == "local" and layer.neighbors == 9 and layer.block_size == 8
    config = model.get_config()
    # A file of before has no such arguments.
    for key in LOCAL:
        del config[key]
    assert tfpn.models.PNCNN.from_config(config).get_config()["conditioning"] == "exact"


def test_recipes_take_it():
    recipe = recipes.load("digits")
    for assignment in ("conditioning=local", "block_size=16", "neighbors=20"):
        recipes.override(recipe, f"model.{assignment}")
    space = search_space(recipe)
    assert space["model.uncertainty"] == ["diagonal", "none", "sampled"]
    config = recipes.build_model(recipes.resolve(recipe)).get_config()
    assert (config["conditioning"], config["block_size"], config["neighbors"]) == ("local", 16, 20)


def test_training_reaches_all_weights():
    x = data()
    model = points(2)({**LOCAL, "neighbors": 9})
    model.compile(
        keras.optimizers.SGD(0.01),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        jit_compile=False,
    )
    before = [np.array(weight) for weight in model.trainable_variables]
    found = model.train_on_batch(x, np.array([0, 1]), return_dict=True)
    assert all(np.isfinite(value) for value in found.values())
    after = model.trainable_variables
    still = [
        weight.path for weight, old in zip(after, before, strict=True) if np.all(old == weight)
    ]
    assert still == ["mix_1/bias", "mix_2/bias"]  # which the normalisation takes away
    maps = model.feature_maps(x, np.random.default_rng(0).uniform(size=(1, 70, 2)))
    assert all(np.isfinite(one["values"]).all() for one in maps)


def test_errors_between_blocks_need_exact_conditioning():
    with pytest.raises(ValueError, match="conditioning='local'"):
        points(2, uncertainty="joint")(LOCAL)
