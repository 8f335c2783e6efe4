"""The flows of a `SteerablePNConv`: generators with its own parameters, or given layers."""

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfpn.layers.convolution import DIFFUSION_PER_SPACING, DRIFT_PER_SPACING, UNIT_PER_SPACING
from tfpn.layers.steerable_flows import build_flow, generators_of
from tfpn.math.kernels import Kernel, read_mixture
from tfpn.math.steerable.fields import count_copies, part_channels, parts_of, width
from tfpn.math.steerable.generators import generator_family
from tfpn.math.steerable.harmonics import harmonics_of
from tfpn.types import Mixin, Tensor


class Generators(Mixin):
    """Mix-in for a layer of fields with ``flows``, ``frequencies``, ``num_basis`` and a prior."""

    def _build_generators(self):
        """Makes the parameters of the layer's own generators; returns the generators."""
        self._family = generator_family(self.frequencies, self.constraint, self.group)
        initial = self._initial_generators()
        self.generator_weights = {
            p.name: self.add_weight(
                name=p.name,
                shape=(self.num_basis, *p.shape),
                initializer=keras.initializers.Constant(initial[p.name]),
            )
            for p in self._family.parameters
        }
        with tf.init_scope():
            values = {name: tf.constant(value) for name, value in initial.items()}
            return [tensor.numpy() for tensor in self._family.tensors(values, tf.float64)]

    def _build_flows(self):
        """Builds and checks ``flows``; returns their generators."""
        where = f"{type(self).__name__} {self.name!r}: flows"
        found = [
            build_flow(flow, f"{where}[{k}]", self.frequencies, self.group)
            for k, flow in enumerate(self.flows)
        ]
        return [np.stack(tensors) for tensors in zip(*found, strict=True)]

    def _initial_generators(self):
        return self._family.initial(
            self._weights_seed,
            count=self.num_basis,
            transport=DRIFT_PER_SPACING / UNIT_PER_SPACING,
            spread=DIFFUSION_PER_SPACING / UNIT_PER_SPACING,
        )

    def _initial_scale(self, initial, frequency):
        """Standard deviation of W's numbers, from what the flows leave of the prior variance.

        As in `PNConv`: the mean square of W is ``kept^(-2/3)`` over the number of its inputs.
        """
        copies = count_copies(self._input, self.frequencies)
        of_parts = part_channels(self._input, self.frequencies, self.spatial_dim)
        kind = parts_of(self.frequencies, self.spatial_dim)[frequency]
        with tf.init_scope():
            one, length_scale = (tf.constant(t, tf.float64) for t in (1.0, self.length_scale))
            kernel = Kernel(one, length_scale, read_mixture(self.prior_kernel))
            c, b, s = initial
            harmonics = self._harmonics()
            flows = [
                harmonics.flow_type(c, b, s, self.frequencies, std, length, tf.float64)
                for std, length in kernel.terms()
            ]
            kept = 0.0
            for group in harmonics.groups((kind,), tuple(of_parts)):
                prior = tf.add_n([term.prior(group, kind) for term in flows])
                prior = tf.linalg.diag_part(tf.math.real(prior))
                channels = len(of_parts[group.inside])
                share = channels / (copies * width(group.inside.frequency, self.spatial_dim))
                kept += share * float(tf.reduce_mean(prior)) / width(frequency, self.spatial_dim)
        if kept < 1e-12:
            raise ValueError(
                f"{type(self).__name__} {self.name!r}: no flow on the frequencies "
                f"{self.frequencies} leads from the input's fields {self._input} to the output's "
                f"frequency {frequency}. Give the input a field that couples to it, such as a "
                "scalar (in_fields); name the frequencies between them (flow of a model, "
                "frequencies of a layer); or leave the frequency out of the output."
            )
        inputs = self.num_basis * len(kind) * copies
        parts = len(self._weight_parts(frequency)) + 1
        return np.sqrt(kept ** (-2.0 / 3.0) / (parts * inputs))

    def _harmonics(self):
        return harmonics_of(self.spatial_dim, self.group.flow_order(self.frequencies))

    def flow_unit(self, spacing: float) -> float:
        """The length in which flows are learnt: given flows are in units of the spacing."""
        return spacing if self.flows else super().flow_unit(spacing)

    def _reset_flows(self):
        if self.flows:  # given flows keep their weights
            return
        for name, value in self._initial_generators().items():
            self.generator_weights[name].assign(value)

    def generators(self) -> tuple[Tensor, Tensor, Tensor]:
        """The generators' C [K, r, r], B [K, d, r, r] and S [K, d, d, r, r] in float64.

        The indices are derivative(s), output, input, of the r channels of rho (``frequencies``).
        Lengths are in the points' unit. The layer's weights are in units of
        ``exp(log_flow_unit)``, eight times the spacing. Given ``flows`` are in units of the
        spacing.
        """
        if self.flows:
            tensors = generators_of(self.flows)
        else:
            values = {n: tf.convert_to_tensor(w) for n, w in self.generator_weights.items()}
            tensors = self._family.tensors(values, tf.float64)
        c, b, s = in_unit(tensors, tf.exp(tf.cast(self.log_flow_unit, tf.float64)))
        return c, b, s

    def flow_reach(self) -> tuple[float, float]:
        """How far the flows reach, and how far they are resolved: two numbers of length scales.

        Beyond the second number results are less exact than rounding, see
        `tfpn.math.steerable_kernel`.
        """
        dtype = tf.as_dtype(self.algebra_dtype)
        # The term of the shortest length scale: in its units the reach is largest.
        std, length = min(self._kernel().terms(), key=lambda term: float(term[1]))
        flows = self._harmonics().flow_type(
            *self.generators(), self.frequencies, std, length, dtype
        )
        return float(flows.reach), flows.resolution.reaches[-1]


def in_unit(generators: Sequence[Any], unit: Any) -> list[Any]:
    """Converts generators C, B and S with lengths in ``unit`` to the points' unit."""
    return [tensor * unit**order for order, tensor in enumerate(generators)]
