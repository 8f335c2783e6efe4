"""The classifiers of clouds: PNCNN and SteerablePNCNN in space, and a small PointNet."""

import keras
import numpy as np

from benchmarks.point_clouds.shapes import CLASSES

LOCAL_FROM = 400  # points from which on conditioning on neighbourhoods is the faster one


def pointnet(clouds, options):
    """A PointNet (Qi et al., 2017) without its transformation networks; takes points [B, N, 3]."""
    layers = keras.layers
    inputs = hidden = keras.Input((None, 3))
    for width in (64, 64, 128, 256):
        hidden = layers.Dense(width, use_bias=False)(hidden)
        hidden = layers.ReLU()(layers.BatchNormalization(momentum=0.9)(hidden))
    hidden = layers.GlobalMaxPooling1D()(hidden)
    hidden = layers.Dropout(0.3)(layers.Dense(128, activation="relu")(hidden))
    return keras.Model(inputs, layers.Dense(len(CLASSES))(hidden))


def pncnn(clouds, options):
    """`PNCNN` in space. With ``query`` its blocks look at a grid of the cube around the shapes."""
    from tfpn import models

    grid = {}
    if options.query is not None:
        grid = {"query": options.query, "pooling": ([-1.0] * 3, [1.0] * 3)}

    return _adapted(
        models.PNCNN(
            len(CLASSES),
            channels=options.channels,
            spatial_dim=3,
            seed=options.seed,
            **grid,
            **_common(clouds, options),
        ),
        clouds,
    )


def steerable(clouds, options):
    """`SteerablePNCNN` in space, with about as many real channels.

    With ``query`` its blocks look at so many points of each cloud: the first ones, which are drawn
    at random, as all are.
    """
    from tfpn import models

    return _adapted(
        models.SteerablePNCNN(
            len(CLASSES),
            copies=max(1, options.channels // 9),  # spins 0, 1 and 2 have 9 components
            spatial_dim=3,
            num_query=options.query,
            seed=options.seed,
            **_common(clouds, options),
        ),
        clouds,
    )


def _common(clouds, options):
    many = clouds.points.shape[1] >= LOCAL_FROM
    return {"num_blocks": options.blocks, "conditioning": "local" if many else "exact"}


def _adapted(model, clouds):
    # The values are 1 everywhere, which says nothing about a length scale: the spacing decides.
    model.adapt(clouds.observations(), fit_priors=False)
    return model


MODELS = {"pncnn": pncnn, "steerable": steerable, "pointnet": pointnet}


def given(name, clouds):
    """What a model of that name takes."""
    return clouds.points if name == "pointnet" else clouds.observations()


class Batches(keras.utils.PyDataset):
    """Batches of clouds, turned and thinned anew in each epoch where that is asked for."""

    def __init__(self, name, clouds, batch_size, seed, *, turn, keep=(1.0, 1.0)):
        super().__init__()
        self.name, self.clouds, self.batch_size, self.seed = name, clouds, batch_size, seed
        self.turn, self.keep, self.epoch = turn, keep, 0

    def __len__(self):
        return len(self.clouds.y) // self.batch_size

    def __getitem__(self, index):
        order = np.random.default_rng((self.seed, self.epoch)).permutation(len(self.clouds.y))
        chosen = order[index * self.batch_size : (index + 1) * self.batch_size]
        rng = np.random.default_rng((self.seed, self.epoch, index))
        some = self.clouds.chosen(chosen)
        if self.turn:
            some = some.turned(rng)
        some = some.thinned(rng.uniform(*self.keep, size=len(chosen)), rng)
        return given(self.name, some), some.y

    def on_epoch_end(self):
        self.epoch += 1
