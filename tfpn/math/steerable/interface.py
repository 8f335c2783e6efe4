"""What convolutions of fields ask of the harmonics of the plane or of space."""

import dataclasses
from collections.abc import Callable

import tensorflow as tf

from tfpn.math.shapes import reshape, sizes
from tfpn.math.steerable.flows import Flows
from tfpn.types import Tensor


@dataclasses.dataclass(frozen=True)
class Harmonics:
    """Fields of one dimension of space, and what equivariant flows make of the RBF kernel.

    The maps from input to output fields come in groups. A group has ``inside``, a part of rho that
    holds fields of the input (see `tfpn.math.steerable.fields.Part`); ``outs``, the output's kinds;
    and ``channels(of_parts)``, the input's channels that it maps, by those of each part. A kind is
    the tuple of all parts of rho of one frequency (a spin in space). Its mu parts count like mu
    flows each. The kernels of a group say what it maps its channels to: a row for each functional
    that is needed of each of these channels.

    Attributes:
        dim: of space.
        flow_type: makes its `Flows`.
        groups: ``groups(outs, insides)``, all groups for a tuple of the output's kinds and a tuple
            of the input's parts.
        kernels: ``kernels(query, points, flows, groups)``, the prior covariances of the groups'
            functionals at query points [B, M, d] with the fields at points [B, N, d], under K
            `Flows`. The query's dtype is the flows' or finer. The flows' decides how far the series
            are resolved and in which dtype their gradients are computed. The result holds for each
            group [B, M R, F, N] in the points' dtype. A group may have R places at each query
            point; covariances between its functionals at two places are not needed. Gradients are
            those of smooth functions everywhere, coincident points included.
        fields_of: ``fields_of(mean, group, count, copies)``, the fields that K = ``count`` flows
            make of a group's channels: from the means of its functionals [B, M R, F, channels of
            the group] a dict from the output's kinds to [B, M, K mu, width, copies], the input's
            copies filled up with 0.
        covariance_features: ``covariance_features(explained, flows, group, kind, is_complex)``, the
            numbers that determine the covariances of K flows' output of the kind (see
            `feature_pairs` of K mu; ``is_complex`` says whether complex numbers mix it). They are
            sums over the field's components and over the components of the input that the group
            maps. ``explained`` [B, M R, G, F, F] is what is explained of the functionals'
            covariances, ``flows`` a list of `Flows`, one for each Gaussian term of the kernel. The
            result is the prior's numbers [P] and what is explained of them, [B, M, G, P].
        real_matrix: ``real_matrix(kernels, groups, frequencies)``, the kernels of one copy of rho
            with r channels at P pairs of points, [P, r, r], from ``kernels`` of K = 1 flow and all
            parts of rho, [P, R, F, 1] for each group.
    """

    dim: int
    flow_type: Callable[..., Flows]
    groups: Callable[[tuple, tuple], tuple]
    kernels: Callable[[Tensor, Tensor, Flows, tuple], list]
    fields_of: Callable[..., dict]
    covariance_features: Callable[..., tuple[Tensor, Tensor]]
    real_matrix: Callable[[list, tuple, tuple], Tensor]


def feature_pairs(count, is_complex):
    """(k, k', whether the imaginary part) of each feature of the covariances H^kk'.

    For each k ``H^kk``, and for each pair k < k' the real and, if complex numbers mix the fields,
    the imaginary part of ``H^kk'``.
    """
    found = [(k, k, False) for k in range(count)]
    for first in range(count):
        for second in range(first + 1, count):
            found.append((first, second, False))
            if is_complex:
                found.append((first, second, True))
    return found


def flows_and_parts(tensors, axis):
    """Tensors [..., K, ...] of the mu parts of a kind as one [..., K mu, ...], flow by flow."""
    if len(tensors) == 1:
        return tensors[0]
    stacked = tf.stack(tensors, axis=axis + 1)
    shape = sizes(stacked)
    shape[axis : axis + 2] = [shape[axis] * shape[axis + 1]]
    return reshape(stacked, shape)
