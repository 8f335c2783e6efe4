"""Early stopping that remembers the best epoch across an interruption."""

import keras
import numpy as np
import pytest
import sklearn.metrics

from tfpn.metrics import BinaryAUC
from tfpn.training import RunError
from tfpn.training.callbacks import EarlyStopping


def train(folder, values, patience, first=0, history=(), monitor="val_loss"):
    """Epochs whose weight is their number and whose validation figure is given; how many ran."""
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1, name="dense")])
    model.compile("sgd", "mse")
    stopping = EarlyStopping(folder, monitor, patience, history)

    class Epoch(keras.callbacks.Callback):
        ran = []

        def on_epoch_end(self, epoch, logs=None):
            self.model.get_layer("dense").bias.assign([float(epoch)])
            logs[monitor] = values[epoch]
            self.ran.append(epoch)

    Epoch.ran = []
    zeros = np.zeros((1, 1))
    model.fit(
        zeros, zeros, epochs=len(values), initial_epoch=first, verbose=0,
        callbacks=[Epoch(), stopping],
    )  # fmt: skip
    stopping.restore(model)
    return Epoch.ran, float(model.get_layer("dense").bias[0])


VALUES = [3.0, 2.0, 2.5, 2.2, 2.1, 1.0]


def test_stops_and_restores_the_best_epoch(tmp_path):
    assert train(tmp_path, VALUES, 2) == ([0, 1, 2, 3], 1.0)
    assert train(tmp_path, VALUES, 9) == ([0, 1, 2, 3, 4, 5], 5.0)
    rising = [-value for value in VALUES]
    assert train(tmp_path, rising, 2, monitor="val_auroc") == ([0, 1, 2, 3], 1.0)


@pytest.mark.parametrize("killed_after", [1, 2, 3])
def test_goes_on_as_if_nothing_had_happened(tmp_path, killed_after):
    train(tmp_path, VALUES[:killed_after], 2)
    ran, best = train(tmp_path, VALUES, 2, first=killed_after, history=VALUES[:killed_after])
    assert ran == list(range(killed_after, 4)) and best == 1.0


def test_knows_that_it_has_ended(tmp_path):
    for count, ended in ((1, False), (3, False), (4, True)):
        assert EarlyStopping(tmp_path, "val_loss", 2, VALUES[:count]).ended is ended
    assert not EarlyStopping(tmp_path, "val_loss", 2).ended


def test_a_missing_file_is_an_error(tmp_path):
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
    with pytest.raises(RunError, match="best.weights.h5 is missing.*--overwrite"):
        EarlyStopping(tmp_path, "val_loss", 2).restore(model)


@pytest.mark.parametrize("scale", [1.0, 30.0])
def test_area_under_the_curve_of_logits(scale):
    """Of predictions that are very sure too, whose probabilities are nearly all 0 or 1."""
    rng = np.random.default_rng(0)
    logits, labels = rng.normal(size=(500, 2)), rng.integers(2, size=(500, 1))
    logits[:, 1] += 1.5 * labels[:, 0]
    logits *= scale
    scores = logits[:, 1] - logits[:, 0]
    for curve, expected in (
        ("ROC", sklearn.metrics.roc_auc_score(labels, scores)),
        ("PR", sklearn.metrics.average_precision_score(labels, scores)),
    ):
        metric = BinaryAUC.from_config(BinaryAUC(curve=curve).get_config())
        metric.update_state(labels, logits)
        # 1000 thresholds in place of every score.
        assert float(metric.result()) == pytest.approx(expected, abs=0.005)
