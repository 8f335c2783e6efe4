"""The start of a `PNTimeSeriesClassifier` from data."""

from typing import Any

import numpy as np
import tensorflow as tf

from tfpn.contract import KEYS
from tfpn.models.network import first_examples
from tfpn.models.prior_start import Verbose
from tfpn.models.time_series_checks import warn_of_points_outside
from tfpn.types import ArrayLike, Mixin

# Examples from which `adapt` starts the convolution of the readings.
_EXAMPLES = 256

# Distance from which two times are two, in units of the shortest length scale at the start: within
# it series of that scale stay the same to 5e-5.
WIDTH = 0.01


class SeriesStart(Mixin):
    """The method ``adapt`` of a `PNNetwork` with the layers of `PNTimeSeriesClassifier`."""

    def adapt(
        self,
        data: Any,
        targets: ArrayLike | None = None,
        *,
        fit_priors: bool = True,
        verbose: Verbose = "auto",
    ) -> None:
        """As `PNCNN.adapt`; statics among the data are not read.

        With ``input_prior="channel"`` each channel starts with the prior that is fitted to its own
        readings, or with their spacing and root mean square. Where a grid of times is queried, the
        later layers start from its step.

        Args:
            data: the input dict, or a `tf.data.Dataset` as in `PNCNN.adapt`.
            targets, fit_priors, verbose: as in `PNCNN.adapt`.

        Raises:
            ValueError: as `PNCNN.adapt`.

        Warns:
            UserWarning: if readings lie outside the box ``pooling``, and as `PNCNN.adapt`.
        """
        super().adapt(data, targets, fit_priors=fit_priors, verbose=verbose)
        if isinstance(data, tf.data.Dataset):
            data = first_examples(data)
        data = {key: np.asarray(data[key]) for key in KEYS}
        pooling, query = self._config["pooling"], self._config["query"]
        warn_of_points_outside(data, pooling)
        if query == "union" or self._config["missingness"] == "intensity":
            lengths = np.exp(np.asarray(self.get_layer("conv_1").log_length_scale))
            self.get_layer("entry_weights").set_width(WIDTH * float(lengths.min()))
        if self._config["missingness"] == "intensity":
            some = {key: array[:_EXAMPLES] for key, array in data.items()}
            weights = self.get_layer("entry_weights")(some)
            self.blocks[0].readings.adapt(self.get_layer("readings")(some, *weights))
        if query != "union":
            step = (pooling[1] - pooling[0]) / query
            readers = [layer for layer, _ in self.blocks[0].convolutions]
            for layer in self.pn_layers[len(readers) :]:
                layer.set_spacing(step)
