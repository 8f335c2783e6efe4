"""The marginal likelihood of each layer, which `fit` shows as their sum alone."""

from typing import Any

import keras

from tfpn.layers.base import GPPosteriorLayer
from tfpn.types import Logs, Model


def trackers(model: Model) -> list[Any]:
    """The Keras metrics of a model's layers, one for each layer that reports its likelihood."""
    layers = [layer for layer in model._flatten_layers() if isinstance(layer, GPPosteriorLayer)]
    return [layer.nll_tracker for layer in layers if layer.nll_tracker is not None]


def layer_likelihoods(model: Model) -> dict[str, float]:
    """The negative log marginal likelihood of each layer, as `fit` or `evaluate` found it last.

    Args:
        model: one of `tfpn.models`.

    Returns:
        A dict of "conv_1_nll" and so on: means over the observed entries, without the weight in the
        loss. It is empty before an epoch has ended, and for ``marginal_likelihood_weight=0``.

    Raises:
        TypeError: for any other model.

    Example:

    >>> import keras, numpy as np, tfpn
    >>> x = tfpn.observations(np.arange(12.0).reshape(2, 6, 1), np.ones((2, 6)))
    >>> model = tfpn.models.PNCNN(2, spatial_dim=1, channels=2, num_blocks=1)
    >>> model.compile(loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    >>> logs = model.evaluate(x, np.array([0, 1]), verbose=0, return_dict=True)
    >>> parts = tfpn.callbacks.layer_likelihoods(model)
    >>> sorted(parts), round(logs["marginal_nll"] - sum(parts.values()), 5)
    (['conv_1_nll', 'pooling_nll'], 0.0)
    """
    if not hasattr(model, "_last"):
        raise TypeError(f"model must be one of tfpn.models, found {type(model).__name__}.")
    return dict(model._last.likelihoods)


class RecordsLikelihoods(keras.callbacks.Callback):
    """Base of callbacks that record the likelihood of each layer, if the model reports any."""

    _trained: dict[str, float] | None = None
    _validated: Logs = {}

    def on_epoch_begin(self, epoch: int, logs: Logs | None = None) -> None:
        self._trained, self._validated = None, {}

    def on_test_begin(self, logs: Logs | None = None) -> None:
        self._trained = self._found()  # before the validation's take their place

    def on_test_end(self, logs: Logs | None = None) -> None:
        self._validated = {f"val_{name}": value for name, value in self._found().items()}

    def _found(self):
        return layer_likelihoods(self.model) if hasattr(self.model, "_last") else {}

    def with_likelihoods(self, logs: Logs | None) -> dict[str, Any]:
        """The logs of an epoch that has ended, with "conv_1_nll", "val_conv_1_nll" and so on."""
        trained = self._found() if self._trained is None else self._trained
        return {**(logs or {}), **trained, **self._validated}


class LayerLikelihoods(RecordsLikelihoods):
    """Adds the marginal likelihood of each layer to the logs of `fit`, and so to its history.

    `fit` shows "marginal_nll", the sum of the layers' negative log marginal likelihoods. With this
    callback "conv_1_nll", "val_conv_1_nll" and so on stand beside it after each epoch. Callbacks
    that come later in the list see them too.

    Example:

    >>> import keras, numpy as np, tfpn
    >>> x = tfpn.observations(np.arange(12.0).reshape(2, 6, 1), np.ones((2, 6)))
    >>> model = tfpn.models.PNCNN(2, spatial_dim=1, channels=2, num_blocks=1)
    >>> model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    >>> parts = tfpn.callbacks.LayerLikelihoods()
    >>> history = model.fit(x, np.array([0, 1]), callbacks=[parts], verbose=0).history
    >>> sorted(history)
    ['conv_1_nll', 'loss', 'marginal_nll', 'pooling_nll', 'task_loss']
    """

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Adds them."""
        logs.update(self.with_likelihoods(logs))
