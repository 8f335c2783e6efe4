"""The start of a network of time series from data."""

from typing import Any

import numpy as np
import tensorflow as tf

from tfpn.contract import KEYS
from tfpn.models.inputs import first_examples
from tfpn.models.time_series_checks import warn_of_points_outside
from tfpn.models.time_series_inputs import adapt_readings
from tfpn.spacing import point_spacing
from tfpn.types import ArrayLike, Mixin, Verbose

# The distance from which two times are distinct, in units of the shortest length scale at the
# start. Within it, series of that scale change by at most 5e-5.
WIDTH = 0.01
_EXAMPLES = 64  # read for the spacing of channels: they settle long before


class TimesStart(Mixin):
    """The part of `PNTimeSeries` that starts it from data."""

    def adapt(
        self,
        data: Any,
        targets: ArrayLike | None = None,
        *,
        fit_priors: bool = True,
        verbose: Verbose = "auto",
    ) -> None:
        """As `PNCNN.adapt`; it does not read statics in the data.

        With ``input_prior="channel"`` each channel starts from the prior fitted to its own
        readings, or from their spacing and root mean square. If you query a grid of times, the
        later layers start from its step. So do the flows of the first layer if most channels are
        read more often than once in a step: flows far below the step would leave most readings
        unseen at first.

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
        intensity = self._config["missingness"] == "intensity"
        if query == "union" or intensity:
            lengths = np.exp(np.asarray(self.blocks[0].convolution.log_length_scale))
            self.get_layer("entry_weights").set_width(WIDTH * float(lengths.min()))
        if intensity:
            given = self.get_layer("entry_weights"), self.get_layer("readings")
            adapt_readings(self.blocks[0].readings, *given, data)
        if query != "union":
            step = (pooling[1] - pooling[0]) / query
            readers = [layer for layer, _ in self.blocks[0].convolutions]
            finer = [
                layer
                for layer in readers
                if np.exp(np.asarray(layer.log_flow_unit)) < layer.flow_unit(step)
            ]
            if finer and _channel_spacing(data) < step:
                for layer in finer:
                    layer.start_flows(step)
            self._warn_of_narrow_halos(data, stacklevel=2)
            for layer in self.pn_layers[len(readers) :]:
                layer.set_spacing(step)


def _channel_spacing(data):
    """The median over channels of the spacing of a channel's own readings."""
    some = slice(None, None, -(-len(data["points"]) // _EXAMPLES))
    points, variance = data["points"][some], data["variance"][some]
    found = []
    for channel in range(variance.shape[-1]):
        try:
            found.append(point_spacing(points, variance[..., channel, None]))
        except ValueError:  # a channel without two readings in any example
            continue
    return np.median(found) if found else np.inf
