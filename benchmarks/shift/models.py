"""tfpn's models in the shift benchmark: one configuration for all data sets."""

import dataclasses
import inspect

import numpy as np

from benchmarks.shift.sets import KEEP, thinning

BATCHES = 10  # in an epoch, at least
UNCERTAINTIES = ("none", "diagonal", "sampled")


@dataclasses.dataclass(frozen=True)
class Settings:
    """What may be varied of a model and its training."""

    channels: int = 32
    blocks: int = 2
    query: int = 24
    steps: int = 500
    batch: int = 32
    rate: float = 1e-2
    schedule: str = "cosine"
    weight: float = 0.1
    windows: int = 1
    clock: bool = False
    conditioning: str = "exact"


def fit(uncertainty, priors, data, part, seed, thinned, settings=None):
    """Trains a model on a `Part`, and returns it.

    Args:
        uncertainty: one of `UNCERTAINTIES`.
        priors: whether `adapt` fits the first convolution's priors.
        data: the `Set`.
        part: the training part.
        seed: of everything.
        thinned: whether readings are dropped, anew in each epoch.
        settings: `Settings`.
    """
    import keras

    from tfpn.training import ShuffledBatches

    settings = settings or Settings()
    keras.utils.set_random_seed(seed)
    model = build(uncertainty, data, settings)
    model.adapt(part.x, **_adapt_options(model, priors))
    options = {"thin": KEEP, **thinning(data.together)} if thinned else {}
    x, y = repeated(part, BATCHES * settings.batch)
    batches = ShuffledBatches(x, y, settings.batch, seed, by_length=not data.together, **options)
    rate = settings.rate
    if settings.schedule == "cosine":
        rate = keras.optimizers.schedules.CosineDecay(rate, settings.steps)
    model.compile(
        keras.optimizers.Adam(rate), keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    )
    anew = keras.callbacks.LambdaCallback(on_epoch_begin=lambda epoch, _: batches.set_epoch(epoch))
    epochs = max(1, round(settings.steps / len(batches)))
    model.fit(batches, shuffle=False, epochs=epochs, callbacks=[anew], verbose=0)
    return model


def repeated(part, examples):
    """Each example as often as makes so many: epochs of few steps take longer than their steps."""
    times = -(-examples // len(part.y))
    x = {key: np.concatenate([array] * times) for key, array in part.x.items()}
    return x, np.tile(part.y, times)


def build(uncertainty, data, settings):
    """The model, not yet adapted."""
    from tfpn import models

    _check_uncertainty(uncertainty)
    channels = data.train.x["values"].shape[-1]
    common = {
        "channels": settings.channels,
        "num_blocks": settings.blocks,
        "in_channels": channels,
        "uncertainty": uncertainty,
        "marginal_likelihood_weight": settings.weight,
        "pooling": (0.0, 1.0),
        "conditioning": settings.conditioning,
    }
    if data.grid is None:
        return models.PNCNN(data.num_classes, **common)
    return models.PNTimeSeries(
        data.num_classes,
        query=settings.query,
        windows=settings.windows,
        clock=settings.clock,
        **common,
    )


def _check_uncertainty(uncertainty):
    from tfpn.math.uncertainty import UNCERTAINTY

    if uncertainty not in UNCERTAINTY:
        raise ValueError(f"this version of tfpn has no uncertainty={uncertainty!r}.")


def _adapt_options(model, priors):
    if "fit_priors" in inspect.signature(model.adapt).parameters:
        return {"fit_priors": priors}
    if priors:
        raise ValueError("this version of tfpn has no adapt(fit_priors=True).")
    return {}


def trainer(name, settings=None):
    """A function as those of `baselines` by a name such as "diagonal+priors"."""
    uncertainty, *more = name.split("+")
    if uncertainty not in UNCERTAINTIES or set(more) - {"priors"}:
        raise ValueError(f"no model is called {name!r}.")

    def train(data, part, seed, thinned):
        model = fit(uncertainty, bool(more), data, part, seed, thinned, settings)
        return lambda x: np.asarray(model.predict_proba(x, batch_size=100))

    return train
