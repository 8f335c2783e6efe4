"""Blocks of an example's observations, each with a halo, as a batch of small problems.

The observations near a point decide the posterior there. So each block of neighbours is conditioned
on its own points and on those nearest to it. The exact functions do this, with blocks in place of
examples. The results for a block's points are put back in the order of all points. Cost and memory
are linear in the number of points.

The marginal likelihood is the product of the blocks' likelihoods. Each is conditional on those
points of the halo that belong to earlier blocks (block Vecchia). The points of a block are sorted
by these stages, so that its single factorisation gives the likelihood by rows. With halos of all
points the result is exact.

Channels with their own noise may be read at different points. Then a block has a halo for each
channel, of the readings of this channel.
"""

import dataclasses
from typing import Any

import tensorflow as tf

from tfpn.math.neighbourhoods.cuts import Cuts, block_count, median_cuts
from tfpn.math.neighbourhoods.halos import nearest, nearest_by_channel
from tfpn.math.posterior import NOISE, Observed
from tfpn.math.shapes import axis_sizes, reshape
from tfpn.types import Tensor


@dataclasses.dataclass(frozen=True)
class Blocks:
    """n blocks of m points for each of B examples.

    Attributes:
        rows: the points' rows in their example, [B, n, m], in the order of their stages.
        stages: [B n, m], as in `tfpn.math.posterior.Observed`, in the dtype of values.
        penalty: [B n, m, 1 or c], +inf where a place counts in no channel or not in this one, and
            0 elsewhere.
        cuts: the blocks' own points.
        most: the largest number of places of a block that count in a channel.
    """

    rows: tf.Tensor
    stages: tf.Tensor
    penalty: tf.Tensor
    cuts: Cuts
    most: Any

    def take(self, tensor: Tensor) -> Tensor:
        """Rows of a tensor [B, N, ...], [B n, m, ...]."""
        return _merged(tf.gather(tensor, self.rows, batch_dims=1))

    def observed(self, observed: Observed) -> Observed:
        """The observations of each block, with blocks as examples."""
        return dataclasses.replace(
            observed,
            points=self.take(observed.points),
            values=self.take(observed.values),
            variance=self.take(observed.variance) + self.penalty,
            stages=(self.stages,),
            most=self.most,
        )

    def own(self, tensor: Tensor) -> Tensor:
        """Rows of a tensor [B, N, ...] at the blocks' own points, [B n, S, ...]."""
        return _merged(tf.gather(tensor, self.cuts.rows, batch_dims=1))

    def put_back(self, tensor: Tensor) -> Tensor:
        """Puts results at the blocks' own points, [B n, S, ...], in the order of all points.

        The result [B, N, ...] is arbitrary but finite at unobserved points.
        """
        batch, blocks, size = axis_sizes(self.cuts.rows)
        flat = reshape(tensor, [batch, blocks * size, *axis_sizes(tensor)[2:]])
        return tf.gather(flat, self.cuts.places, batch_dims=1)

    def put_back_rows(self, tensor: Tensor) -> Tensor:
        """Moves values at the blocks' points [B n, m, c] back to the points [B, N, c].

        Each point takes the value of its own block. Points that are not observed take 0.
        """
        batch, number = axis_sizes(self.cuts.places)
        blocks, size = axis_sizes(self.rows)[1:]
        flat = reshape(tensor, [batch * blocks * size, tensor.shape[-1]])
        own = tf.reshape(self.stages == 1, [-1])
        target = tf.reshape(self.rows + number * tf.range(batch)[:, None, None], [-1])
        target = tf.where(own, target, -1)  # the sum leaves out -1
        found = tf.math.unsorted_segment_sum(flat, target, batch * number)
        return reshape(found, [batch, number, tensor.shape[-1]])

    def total(self, tensor: Tensor) -> Tensor:
        """Sums over the blocks, [B n, ...] -> [B, ...]."""
        blocks = axis_sizes(self.rows)[1]
        return tf.reduce_sum(reshape(tensor, [-1, blocks, *axis_sizes(tensor)[1:]]), axis=1)

    def each(self, tensor: Tensor) -> Tensor:
        """Repeats a tensor of examples [B, ...] for their blocks, [B n, ...]."""
        return tf.repeat(tensor, axis_sizes(self.rows)[1], axis=0)

    def at(self, chosen: Tensor) -> "Blocks":
        """The blocks with the given numbers [B, t], which may repeat."""

        def chosen_of(tensor):
            split = reshape(tensor, [*axis_sizes(self.rows)[:2], *axis_sizes(tensor)[1:]])
            return _merged(tf.gather(split, chosen, batch_dims=1))

        return dataclasses.replace(
            self,
            rows=tf.gather(self.rows, chosen, batch_dims=1),
            stages=chosen_of(self.stages),
            penalty=chosen_of(self.penalty),
        )


def _merged(tensor):
    """Merges the first two axes."""
    batch, blocks, *others = axis_sizes(tensor)
    return reshape(tensor, [batch * blocks, *others])


# What a halo has by default. The logits of trained networks are off by 1e-6 on a line, and by less
# than 1 % in the plane (`benchmarks/neighbourhoods`).
ON_A_LINE, ELSEWHERE = 32, 128


# To make blocks and to put them back takes as long as half of the products of small examples.
_OVERHEAD = 1.5


def exact_is_cheaper(number, count, size, halo, own):
    """Whether an example of N points takes less time whole than in blocks.

    With ``own``, all flows are read at all points, and products with their covariances take most of
    the time. Otherwise factorisations do.
    """
    if own:
        return number**3 <= _OVERHEAD * count * size * (size + halo) ** 2
    return number**3 <= count * (size + halo) ** 3


@dataclasses.dataclass(frozen=True)
class Neighbourhoods:
    """The number of points of a block and of its halo.

    Attributes:
        block_size: largest number of points of a block.
        neighbors: largest number of points of its halo, None for the default.
    """

    block_size: int
    neighbors: int | None = None

    def halo(self, dim: int) -> int:
        """The largest number of points of a halo in d dimensions."""
        if self.neighbors is None:
            return ON_A_LINE if dim == 1 else ELSEWHERE
        return self.neighbors

    def plan(self, number: Any, dim: int, own: bool = False) -> tuple[Any, Any, Any]:
        """The number of blocks, their size and that of halos for N points in d dimensions.

        They are numbers if N is one. If all points fit into a block with its halo, or blocks take
        longer, there is one block of all points: the exact problem. With ``own`` the flows are read
        at the points.
        """
        halo = self.halo(dim)
        count = block_count(number, self.block_size)
        if isinstance(number, int):
            one = number <= self.block_size + halo
            one = one or exact_is_cheaper(number, count, self.block_size, halo, own)
            return (1, number, 0) if one else (count, self.block_size, halo)
        one = number <= self.block_size + halo
        sizes = tf.cast(number, tf.float64), tf.cast(count, tf.float64)
        one |= exact_is_cheaper(*sizes, self.block_size, halo, own)
        size = tf.where(one, tf.maximum(number, 1), self.block_size)
        return block_count(number, size), size, tf.where(one, 0, halo)

    def is_whole(self, points: Tensor, own: bool = False) -> bool:
        """Whether one block is known to hold all points [B, N, d]; ``own`` as in `plan`."""
        count = self.plan(axis_sizes(points)[1], points.shape[-1], own)[0]
        return isinstance(count, int) and count == 1

    def blocks(self, observed: Observed, reach: Any = (0.0, 0.0), own: bool = False) -> Blocks:
        """The blocks of observations.

        Args:
            observed: `tfpn.math.posterior.Observed`.
            reach: as in `tfpn.math.neighbourhoods.halos.nearest`.
            own: as in `plan`.
        """
        points = tf.stop_gradient(observed.finite_points())
        known = tf.math.is_finite(observed.variance)
        count, size, halo = self.plan(axis_sizes(points)[1], points.shape[-1], own)
        cuts = median_cuts(points, tf.reduce_any(known, axis=-1), size, count)
        channels = known.shape[-1] if NOISE[observed.noise].each else 1
        if channels == 1:
            others, seen, block = nearest(points, cuts, reach, halo)
        else:
            others, seen, block = nearest_by_channel(points, known, cuts, reach, halo)
        earlier = seen & (block < tf.range(count)[:, None])
        stage = tf.concat(
            [tf.where(earlier, 0, 2), tf.where(cuts.filled, 1, 2)], axis=2
        )  # [B, n, m]
        # Where a place counts: its own points in all channels, a halo's in the halo's channel.
        counts = tf.concat(
            [
                seen[..., None] & tf.repeat(tf.eye(channels) > 0.0, halo, axis=0),
                tf.repeat(cuts.filled[..., None], channels, axis=-1),
            ],
            axis=2,
        )  # [B, n, m, c]
        order = tf.argsort(stage, axis=2, stable=True)
        rows, counts, stage = (
            tf.gather(t, order, batch_dims=2)
            for t in (tf.concat([others, cuts.rows], axis=2), counts, stage)
        )
        dtype = observed.values.dtype
        penalty = tf.where(counts, tf.zeros([], dtype), tf.constant(float("inf"), dtype))
        stages = _merged(tf.cast(stage, dtype))
        return Blocks(rows, stages, _merged(penalty), cuts, size + halo)
