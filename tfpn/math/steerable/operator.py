r"""The operator of `tfpn.math.steerable.convolution` for draws, A = sum_k W_k (I x exp(M_k)).

On a plane wave a coupled generator acts as a matrix. With ``f(x) = Re((a - i b) exp(i w.x))`` for
the channels' amplitudes a and b,

    (exp(M) f)(x) = Re(E(w) (a - i b) exp(i w.x)),        E(w) = exp(M(i w))

This takes one small matrix exponential for each wave and flow. A flow that does not couple channels
needs only a phase and a decay. ``E(R w) = rho(R) E(w) rho(R)^-1``, so the result turns if you turn
the frequencies, the points and (by rho) the amplitudes together. Amplitudes that are independent
with the same distribution within a block stay so if they are turned. So the draws of a turned
signal have the distribution of the turned draws.
"""

import dataclasses
from typing import Any

import tensorflow as tf

from tfpn.math.coupled import symbols
from tfpn.math.coupled_exponential import matrix_exponential
from tfpn.math.posterior import Posterior, weighted
from tfpn.math.shapes import reshape, sizes
from tfpn.math.steerable.convolution import concatenated, flows_of_terms
from tfpn.math.steerable.fields import (
    block_mean,
    count_copies,
    join_fields,
    part_channels,
    parts_of,
    width,
)
from tfpn.math.steerable.harmonics import harmonics_of
from tfpn.math.steerable.interface import flows_and_parts
from tfpn.math.steerable.mixing import flat_weights, mix_fields
from tfpn.math.waves import Waves
from tfpn.types import Tensor


@dataclasses.dataclass(frozen=True)
class SteerableOperator:
    """The operator that `tfpn.math.uncertainty.Sampled` needs, for fields that rotate.

    `tf.nest` treats it as its tensors.

    Attributes:
        query: points of the result [B, M, d] on the plane or in space.
        weights: as in `tfpn.math.steerable.steerable_convolve`.
        generator: C [K, r, r], B [K, d, r, r] and S [K, d, d, r, r] in float64.
        bias: [copies of frequency 0], or None.
        fields_in, fields_out, frequencies, order: as in `tfpn.math.steerable.steerable_convolve`.
    """

    query: tf.Tensor
    weights: dict
    generator: tuple
    bias: Any
    fields_in: tuple
    fields_out: tuple
    frequencies: tuple
    order: int | None = None

    def __tf_flatten__(self):
        metadata = self.fields_in, self.fields_out, self.frequencies, self.order
        return metadata, (self.query, self.weights, self.generator, self.bias)

    @classmethod
    def __tf_unflatten__(cls, metadata, components):
        return cls(*components, *metadata)

    @property
    def reach(self) -> tuple[float, float]:
        """The reach of drifts, as in `tfpn.math.operator.Operator`: equal on all sides."""
        return 0.0, 0.0

    def in_common(self, variance: Tensor) -> Tensor:
        """The variances [B, N, c_in] that count: the mean over each block's components."""
        return block_mean(variance, self.fields_in, self._dim)

    def respond(self, posterior: Posterior, columns: Tensor) -> Any:
        """Applies the operator to posterior means from q columns of each channel, at once.

        Args:
            posterior: from `tfpn.math.posterior.Observed.posterior`.
            columns: [B, q, N, c_in].

        Returns:
            [B, q, M, c_out] and the negative log marginal likelihood [B, c_in].
        """
        solution, nll = posterior.solve(tf.transpose(columns, [0, 2, 3, 1]))
        solution = tf.transpose(solution, [0, 3, 1, 2])
        dim, harmonics = self._dim, harmonics_of(self._dim, self.order)
        flows = flows_of_terms(
            posterior.kernel, self.frequencies, self.generator, self.query.dtype, harmonics
        )
        kinds = parts_of(self.frequencies, dim)
        outs = {kinds[m]: m for m, _ in self.fields_out}
        of_parts = part_channels(self.fields_in, self.frequencies, dim)
        all_groups = harmonics.groups(tuple(outs), tuple(of_parts))
        cross = [
            harmonics.kernels(self.query, posterior.points, term, all_groups) for term in flows
        ]
        responses: dict[int, list[Tensor]] = {out: [] for out in outs.values()}
        for group, *terms in zip(all_groups, *cross, strict=True):
            chosen = tf.gather(solution, group.channels(of_parts), axis=-1)
            found = weighted(tf.add_n(terms), chosen)
            batch, number, *shape = sizes(found)
            found = reshape(found, [[batch, number], *shape])
            by_kind = harmonics.fields_of(found, group, flows[0].count, self._copies)
            for kind, part in by_kind.items():
                responses[outs[kind]].append(part)
        flat = {out: concatenated(tf.add_n(found)) for out, found in responses.items()}
        mixed = self._mix(flat, self.bias)
        batch, number = sizes(columns)[:2]
        return reshape(mixed, [batch, number, *sizes(mixed)[1:]]), nll

    def flowed(self, waves: Waves) -> Waves:
        """The operator applied to plane waves, without bias; the exponentials are in float64."""
        frequencies = tf.cast(waves.frequencies, tf.float64)
        samples, count = sizes(frequencies)[:2]
        flat = reshape(frequencies, [[samples, count], self._dim])
        generators = zip(*map(tf.unstack, self.generator), strict=True)
        exponent = tf.stack([symbols(flat, *generator) for generator in generators], axis=1)
        kinds = parts_of(self.frequencies, self._dim)
        of_parts = part_channels(self.fields_in, self.frequencies, self._dim)
        inside = self._places(of_parts)
        outside = self._places(part for m, _ in self.fields_out for part in kinds[m])
        coupled = matrix_exponential(exponent)  # [S F, K, r, r]
        coupled = tf.gather(tf.gather(coupled, outside, axis=2), inside, axis=3)
        cosines, sines = (
            reshape(
                self._by_place(part, of_parts), [[samples, count], 1, len(inside), self._copies]
            )
            for part in tf.split(tf.cast(waves.amplitudes, tf.float64), 2, axis=1)
        )
        moved = tf.matmul(coupled, tf.complex(cosines, -sines))  # [S F, K, out, n]
        parts = [
            reshape(part, [samples, count, *sizes(part)[1:]])
            for part in (tf.math.real(moved), -tf.math.imag(moved))
        ]
        moved = tf.cast(tf.concat(parts, axis=1), waves.amplitudes.dtype)  # [S, 2 F, K, out, n]
        flat, start = {}, 0
        for m, _ in self.fields_out:
            size = width(m, self._dim)
            parts = [
                moved[:, :, :, start + number * size : start + (number + 1) * size]
                for number in range(len(kinds[m]))
            ]
            flat[m] = concatenated(flows_and_parts(parts, 2))
            start += len(parts) * size
        return dataclasses.replace(waves, amplitudes=self._mix(flat))

    @property
    def _dim(self):
        return self.query.shape[-1]

    @property
    def _copies(self):
        return count_copies(self.fields_in, self.frequencies)

    def _places(self, parts):
        """The channels in rho of some parts."""
        return [
            part.start + component
            for part in parts
            for component in range(width(part.frequency, self._dim))
        ]

    def _by_place(self, amplitudes, of_parts):
        """The input channels' amplitudes by their place in rho and copy, [S, F, places, n]."""
        found = []
        for part, channels in of_parts.items():
            components = width(part.frequency, self._dim)
            copies = len(channels) // components
            chosen = tf.gather(amplitudes, channels, axis=-1)
            chosen = reshape(chosen, [*sizes(chosen)[:2], components, copies])
            found.append(tf.pad(chosen, [[0, 0]] * 3 + [[0, self._copies - copies]]))
        return tf.concat(found, axis=2)

    def _mix(self, flat, bias=None):
        """Mixes the planar fields of all flows and copies, to [..., c_out]."""
        mixed = mix_fields(flat, flat_weights(self.weights), bias)
        return join_fields(mixed, self.fields_out, self._dim)
