"""Learnable drifts and diffusions."""

import numpy as np
import tensorflow as tf

from tfpn.layers.convolution import (
    DIFFUSION_PER_SPACING,
    DRIFT_PER_SPACING,
    UNIT_PER_SPACING,
    GPConvolution,
)
from tfpn.spacing import lattice
from tfpn.types import Tensor


class DriftDiffusions(GPConvolution):
    """The part of `PNConv` that owns its flows."""

    def _build_flows(self, count, dim):
        self.drift = self.add_weight(name="drift", shape=(count, dim), initializer=_initial_drift)
        self.diffusion_factor = self.add_weight(
            name="diffusion_factor",
            shape=(count, dim, dim),
            initializer=_initial_diffusion,
        )
        self._build_units()

    def _reset_flows(self):
        self.drift.assign(_initial_drift(self.drift.shape, self.drift.dtype))
        factor = self.diffusion_factor
        factor.assign(_initial_diffusion(factor.shape, factor.dtype))

    def flow_parameters(self) -> tuple[Tensor, Tensor]:
        """The drifts beta [K, d] and diffusions Sigma [K, d, d] in units of the points.

        The weights ``drift`` and ``diffusion_factor`` (L of ``Sigma = L L^T``) are in units of a
        length that is not trained, ``exp(log_flow_unit)``: eight times the spacing that the layer
        was built with or that `adapt` measured.

        Example:

        >>> import numpy as np, tfpn
        >>> layer = tfpn.layers.PNConv(2, 3, spacing=0.5, dtype="float64")
        >>> layer.build({key: (None, 9, 1) for key in ("points", "values", "variance")})
        >>> layer.drift.numpy().ravel().tolist()
        [0.0, -0.125, 0.125]
        >>> np.round(layer.flow_parameters()[0], 9).ravel().tolist()
        [0.0, -0.5, 0.5]
        """
        unit = tf.exp(self._cast(self.log_flow_unit))
        factor = unit * self._cast(self.diffusion_factor)
        diffusion = tf.matmul(factor, factor, transpose_b=True)
        return unit * self._cast(self.drift), diffusion

    def kernel_parameters(self) -> Tensor:
        """The mixing weights W [K, c, filters] of values as they are.

        The weight ``kernel`` is for values in units of ``exp(log_value_unit)``, which is not
        trained: 1, or the root mean square that `adapt` measured.

        Example:

        >>> import numpy as np, tfpn
        >>> layer = tfpn.layers.PNConv(2, 3, dtype="float64")
        >>> layer.adapt(tfpn.observations(np.arange(9.0).reshape(1, 9, 1), np.full((1, 9), 50.0)))
        >>> np.round((layer.kernel / layer.kernel_parameters()).numpy()[0, 0], 9).tolist()
        [50.0, 50.0]
        """
        return self._per_unit(self.kernel)


def _initial_drift(shape, dtype):
    return tf.constant(DRIFT_PER_SPACING / UNIT_PER_SPACING * lattice(*shape), dtype)


def _initial_diffusion(shape, dtype):
    radius = DIFFUSION_PER_SPACING / UNIT_PER_SPACING
    return tf.constant(radius * np.broadcast_to(np.eye(shape[-1]), shape), dtype)
