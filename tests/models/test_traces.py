"""A step that creates variables is traced twice. So they are created before the first step."""

import keras
import numpy as np
import pytest
from pncnn_support import LOSS

import tfpn

X = tfpn.observations(
    np.random.default_rng(0).uniform(size=(4, 9, 2)), np.linspace(-1, 1, 36).reshape(4, 9, 1), 0.1
)
Y = np.arange(4) % 3
WAYS = {
    "fit": lambda model: model.fit(X, Y, verbose=0),
    "train_on_batch": lambda model: model.train_on_batch(X, Y),
    "evaluate": lambda model: model.evaluate(X, Y, verbose=0),
    "test_on_batch": lambda model: model.test_on_batch(X, Y),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_step_is_traced_once(way, monkeypatch):
    traced = []
    for name in ("train_step", "test_step"):
        step = getattr(tfpn.models.PNCNN, name)

        def counted(self, data, step=step):
            traced.append(1)
            return step(self, data)

        monkeypatch.setattr(tfpn.models.PNCNN, name, counted)
    model = tfpn.models.PNCNN(3, channels=2, num_blocks=1, num_basis=1, uncertainty="none")
    model.adapt(X, fit_priors=False, verbose=0)
    model.compile(keras.optimizers.Adam(), LOSS, metrics=["accuracy"], jit_compile=False)
    WAYS[way](model)
    assert len(traced) == 1
