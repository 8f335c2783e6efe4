"""What convolutions of fields ask of the harmonics of the plane or of space."""

import abc
from typing import Any

from tfpn.math.steerable.flows import Flows
from tfpn.types import Tensor


class Harmonics(abc.ABC):
    """Fields of one dimension of space, and what equivariant flows make of the RBF kernel.

    The maps from input to output fields come in groups. A group has ``inside``, the input's
    frequency (its spin in space); ``outs``, the output's frequencies; and ``channels(fields)``, the
    indices of the input's channels that it maps, ``copies`` after ``copies``. Its kernels say what
    it maps them to: a row for each functional that is needed of each of these channels.

    Attributes:
        dim: of space.
        flow_type: the class of its `Flows`.
    """

    dim: int
    flow_type: type[Flows]

    @abc.abstractmethod
    def groups(self, outs: tuple, insides: tuple) -> tuple:
        """All groups for tuples of output and input frequencies."""

    @abc.abstractmethod
    def kernels(self, query: Tensor, points: Tensor, flows: Flows, groups: tuple) -> list:
        """Prior covariances of the groups' functionals at query points with the fields at points.

        Args:
            query: x_m [B, M, d], in a dtype as fine as the flows' or finer. The flows' decides how
                far the series are resolved and in which dtype their gradients are computed.
            points: x_n [B, N, d].
            flows: of K generators.
            groups: from `groups`.

        Returns:
            For each group [B, M R, F, N] in the points' dtype. A group may have R places at each
            query point; covariances between its functionals at two places are not needed. Gradients
            are those of smooth functions everywhere, coincident points included.
        """

    @abc.abstractmethod
    def fields_of(self, mean: Tensor, group: Any, count: int, copies: int) -> dict:
        """The fields that the flows make of a group's channels.

        Args:
            mean: of the group's functionals, [B, M R, F, channels of the group].
            group: one of `groups`.
            count: K.
            copies: n, to which the input's copies are filled up with 0.

        Returns:
            A dict from output frequencies to [B, M, K, width, n].
        """

    @abc.abstractmethod
    def covariance_features(
        self, explained: Tensor, flows: list, group: Any, out: int
    ) -> tuple[Tensor, Tensor]:
        """The numbers that determine the covariances of K flows' output of one frequency.

        See `feature_pairs`. They are sums over the field's components and over the components of
        the input that the group maps.

        Args:
            explained: [B, M R, G, F, F], what is explained of the functionals' covariances.
            flows: a list of `Flows`, one for each Gaussian term of the kernel.
            group: one of `groups`.
            out: the output's frequency.

        Returns:
            The prior's [P] and what is explained of them, [B, M, G, P].
        """

    @abc.abstractmethod
    def real_matrix(self, kernels: list, groups: tuple, frequencies: tuple) -> Tensor:
        """The kernels of one copy of each frequency at P pairs of points, [P, r, r].

        Args:
            kernels: [P, R, F, 1], from `kernels` of K = 1 flow and all pairs of frequencies.
            groups: from `groups`.
            frequencies: of the r channels.
        """


def feature_pairs(count, is_complex):
    """(k, k', whether the imaginary part) of each feature of the covariances H^kk'.

    For each k ``H^kk``, and for each pair k < k' the real and, for complex fields, the imaginary
    part of ``H^kk'``.
    """
    found = [(k, k, False) for k in range(count)]
    for first in range(count):
        for second in range(first + 1, count):
            found.append((first, second, False))
            if is_complex:
                found.append((first, second, True))
    return found
