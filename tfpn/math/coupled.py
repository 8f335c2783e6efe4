"""The RBF kernel under the flow of a coupled PDE, by Fourier quadrature in any dimension.

A generator ``M = C + sum_i B_i d_i + sum_ij S_ij d_i d_j`` mixes channels while it transports and
spreads them. Its flow exp(M) has the symbol ``E(xi) = exp(C + i sum_i xi_i B_i - sum_ij xi_i xi_j
S_ij)``, a matrix for each frequency. The kernel's transform is a Gaussian. So with
``k^(xi) = a exp(-l^2 |xi|^2 / 2)``, ``a = s^2 (2 pi l^2)^(d/2)`` and ``r = x1 - x2``

    (A k)(x1, x2)    = (2 pi)^-d int exp(i xi.r) E(xi) k^(xi) dxi
    (A k A')(x1, x2) = (2 pi)^-d int exp(i xi.r) E(xi) E(xi)^H k^(xi) dxi

The integrands are analytic and decay like a Gaussian, so the trapezoidal rule on a lattice
converges faster than any power of its step.
"""

import functools
import itertools
import math
import numbers

import numpy as np
import tensorflow as tf

from tfpn.checks import floating, require_static_dim
from tfpn.math.coupled_exponential import matrix_exponential
from tfpn.types import Tensor

# For each dimension: nodes on each axis, and the lattice's half-width in units of 1 / length_scale.
NUM_NODES = {1: 128, 2: 64, 3: 40}
CUTOFF = {1: 10.0, 2: 10.0, 3: 9.0}
# Number of the diffused kernel's widths that stay free between it and its periodic images.
MARGIN = 7.5
# The largest value of the spectrum that may be cut off at the lattice's faces, relative to its
# maximum.
LARGEST_CUT = 1e-6


def coupled_kernel(
    x1: Tensor,
    x2: Tensor,
    *,
    signal_std: Tensor,
    length_scale: Tensor,
    first_order: Tensor,
    second_order: Tensor,
    zeroth_order: Tensor | None = None,
    both_sides: bool = False,
    num_nodes: int | None = None,
) -> Tensor:
    """RBF kernel with the flow of a coupled PDE applied to one or both arguments.

    Let ``A = exp(C + sum_i B_i d_i + sum_ij S_ij d_i d_j)`` (the paper's appendix on equivariance),
    and let the channels be independent GPs with one RBF kernel. The function computes
    ``(A k)(x1, x2)_ab = Cov[(A f)_a(x1), f_b(x2)]``, or with ``both_sides``
    ``(A k A')(x1, x2)_ab = Cov[(A f)_a(x1), (A f)_b(x2)]``. With one channel and S = Sigma / 2 it
    is `tfpn.math.diffused_kernel`.

    The result comes from a lattice of frequencies, in float64. The error is below 1e-12 of the
    largest value if the distance and the flow's reach add up to less than
    ``pi num_nodes / cutoff - 7.5`` length scales (by default 32 in one dimension, 12 in two, 6 in
    three). Beyond that the lattice becomes finer and shorter by a factor f. The error is then up to
    ``exp(-(cutoff / f)^2 / 2)``, or less if the flow damps the frequencies that are cut off. A
    larger ``num_nodes`` reduces it. Generators may amplify, as long as the kernel's spectrum
    outweighs it.

    Args:
        x1: points [..., d] with d = 1, 2 or 3.
        x2: points [..., d].
        signal_std: s > 0, a scalar.
        length_scale: l > 0, a scalar, in units of the points.
        first_order: B [d, c, c], index order derivative, output, input; in units of the points.
        second_order: S [d, d, c, c], in squared units of the points. Only the part that is
            symmetric in the derivatives counts.
        zeroth_order: C [c, c], or None for 0.
        both_sides: whether the flow acts on both arguments.
        num_nodes: an even number of lattice nodes on each axis. The default is 128, 64 or 40 in 1,
            2 or 3 dimensions. Memory is num_nodes^d / 2 times c^2, and times the number of pairs.

    Returns:
        [..., c, c] in the dtype of ``x1``; leading axes of ``x1`` and ``x2`` broadcast.

    Raises:
        ValueError: for shapes that do not agree, or an odd number of nodes.
        tf.errors.InvalidArgumentError: if more than 1e-6 of the spectrum's largest value is cut
            off, or a result is not finite (XLA-compiled functions do not check this).

    Example: a wave in two channels that moves by one length in both directions.

    >>> import numpy as np, tfpn
    >>> k = tfpn.math.coupled_kernel(
    ...     np.zeros(1), np.ones(1), signal_std=1.0, length_scale=0.2,
    ...     first_order=np.array([[[0.0, 1.0], [1.0, 0.0]]]), second_order=np.zeros((1, 1, 2, 2)))
    >>> k.numpy().round(6)
    array([[0.5, 0.5],
           [0.5, 0.5]])
    """
    x1 = floating(x1, "x1")
    dtype, dim = x1.dtype, require_static_dim(x1, "x1")
    x2 = tf.convert_to_tensor(x2, dtype)
    if dim not in NUM_NODES or x2.shape[-1] != dim:
        raise ValueError(
            f"x1 has shape {x1.shape} and x2 {x2.shape}; expected points [..., d] of one dimension "
            "d = 1, 2 or 3."
        )
    num_nodes = NUM_NODES[dim] if num_nodes is None else num_nodes
    if not isinstance(num_nodes, numbers.Integral) or num_nodes < 2 or num_nodes % 2:
        raise ValueError(f"num_nodes must be a positive even whole number, found {num_nodes!r}.")
    generator = read_generator(first_order, second_order, zeroth_order, dim=dim)
    signal_std, length_scale = (
        tf.cast(tf.convert_to_tensor(t, dtype), tf.float64) for t in (signal_std, length_scale)
    )
    offset = finite_offset(tf.cast(x1 - x2, tf.float64), signal_std, length_scale)
    nodes, volume, faces = _lattice(dim, num_nodes)
    size = tf.reduce_max(tf.abs(tf.stop_gradient(offset)))
    period = math.pi * num_nodes / CUTOFF[dim]
    unit = _lattice_unit(size, length_scale, generator, 1.0 + both_sides, period)
    frequencies = nodes / unit
    symbol = matrix_exponential(symbols(frequencies, *generator))
    spectrum = _spectrum(frequencies, signal_std, length_scale)
    # The other half of the lattice holds the conjugate values.
    spectrum *= 2.0 * volume / tf.pow(2.0 * math.pi * unit, dim)
    if both_sides:
        symbol = tf.matmul(symbol, symbol, adjoint_b=True)
    weighted = symbol * tf.complex(spectrum, tf.zeros_like(spectrum))[:, None, None]
    with tf.control_dependencies(_check_cut(weighted, faces)):
        weighted = tf.identity(weighted)
    channels = symbol.shape[-1]
    flat = tf.reshape(weighted, [-1, channels**2])
    angles = tf.matmul(tf.reshape(offset, [-1, dim]), frequencies, transpose_b=True)
    kernel = tf.matmul(tf.cos(angles), tf.math.real(flat))
    kernel -= tf.matmul(tf.sin(angles), tf.math.imag(flat))
    shape = tf.concat([tf.shape(offset)[:-1], [channels, channels]], axis=0)
    return tf.cast(tf.reshape(kernel, shape), dtype)


def finite_offset(offset, signal_std, length_scale):
    """Returns ``offset``; asserts that it and the prior are finite, and ``length_scale`` > 0."""
    message = "the points' offset, length_scale and signal_std must be finite, and l > 0"
    checks = [
        tf.debugging.check_numerics(tf.stop_gradient(tensor), message)
        for tensor in (offset, tf.math.log(length_scale) + signal_std)
    ]
    with tf.control_dependencies(checks):
        return tf.identity(offset)


def read_generator(first_order, second_order, zeroth_order, *, dim, leading=()):
    """Checks a generator; returns C, B and S in float64, S symmetric in the derivatives.

    Args:
        first_order, second_order, zeroth_order: B [..., d, c, c], S [..., d, d, c, c] and C
            [..., c, c] or None.
        dim: d.
        leading: the expected leading axes.

    Raises:
        ValueError: if a shape does not fit.
        tf.errors.InvalidArgumentError: for NaN or infinity.
    """
    first_order, second_order = (
        tf.cast(tf.convert_to_tensor(t), tf.float64) for t in (first_order, second_order)
    )
    channels = first_order.shape[-1] if first_order.shape.rank else None
    if zeroth_order is None:
        zeroth_order = tf.zeros([*leading, channels or 1, channels or 1], tf.float64)
    zeroth_order = tf.cast(tf.convert_to_tensor(zeroth_order), tf.float64)
    for name, tensor, order in (
        ("first_order", first_order, 1),
        ("second_order", second_order, 2),
        ("zeroth_order", zeroth_order, 0),
    ):
        expected = [*leading, *[dim] * order, channels, channels]
        if channels is None or not tensor.shape.is_compatible_with(expected):
            raise ValueError(
                f"{name} has shape {tensor.shape}, expected {tf.TensorShape(expected)}: index "
                f"order derivative(s), output, input, for {dim} dimension(s)."
            )
    axes = [*range(len(leading)), *(len(leading) + i for i in (1, 0, 2, 3))]
    zeroth_order, first_order, second_order = (
        tf.debugging.check_numerics(tensor, f"{name} holds NaN or infinity; it must be finite")
        for name, tensor in (
            ("zeroth_order", zeroth_order),
            ("first_order", first_order),
            ("second_order", second_order),
        )
    )
    return zeroth_order, first_order, 0.5 * (second_order + tf.transpose(second_order, axes))


def symbols(frequencies, zeroth_order, first_order, second_order):
    """``M(i xi) = C + i sum_i xi_i B_i - sum_ij xi_i xi_j S_ij``, complex [Q, c, c].

    Args:
        frequencies: xi [Q, d] in float64.
        zeroth_order, first_order, second_order: of one generator, from `read_generator`.
    """
    products = frequencies[:, :, None] * frequencies[:, None, :]
    real = zeroth_order - tf.tensordot(products, second_order, [[1, 2], [0, 1]])
    return tf.complex(real, tf.tensordot(frequencies, first_order, 1))


def _spectrum(frequencies, signal_std, length_scale):
    """k^(xi), the transform of the RBF kernel, [Q]."""
    squared = tf.reduce_sum(tf.square(length_scale * frequencies), axis=-1)
    dim = frequencies.shape[-1]
    amplitude = tf.square(signal_std) * tf.pow(math.sqrt(2.0 * math.pi) * length_scale, float(dim))
    return amplitude * tf.exp(-0.5 * squared)


@functools.cache
def _lattice(dim, num_nodes):
    """Half of a lattice without 0: nodes [n^d / 2, d], a node's volume, and the nodes on faces."""
    step = 2.0 * CUTOFF[dim] / num_nodes
    whole = (np.arange(num_nodes) + 0.5) * step - CUTOFF[dim]
    nodes = np.array(list(itertools.product(whole[num_nodes // 2 :], *[whole] * (dim - 1))))
    faces = np.flatnonzero(np.max(np.abs(nodes), axis=-1) > CUTOFF[dim] - step)
    return nodes, step**dim, faces


def _lattice_unit(size, length_scale, generator, flows, period):
    """The lattice's unit is the inverse of this length: l, or more if distance or reach need it."""
    _, first_order, second_order = (tf.stop_gradient(t) for t in generator)
    length_scale = tf.stop_gradient(length_scale)

    def largest_row_sum(tensor):
        return tf.reduce_max(tf.reduce_sum(tf.abs(tensor), axis=-1))

    spread = tf.sqrt(tf.square(length_scale) + 2.0 * flows * largest_row_sum(second_order))
    needed = size + flows * largest_row_sum(first_order) + MARGIN * spread
    return tf.maximum(length_scale, needed / period)


def _check_cut(weighted, faces):
    size = tf.reduce_max(tf.abs(tf.stop_gradient(weighted)), axis=[1, 2])
    cut = tf.reduce_max(tf.gather(size, faces))
    check = tf.debugging.Assert(
        cut <= LARGEST_CUT * tf.reduce_max(size),  # NaN fails this, too
        [
            "coupled_kernel cuts off too much of the spectrum, relative to its largest value:",
            cut / tf.reduce_max(size),
            "The points are many length scales apart (give a larger num_nodes), or the generator "
            "amplifies high frequencies more than the kernel damps them.",
        ],
    )
    return [] if check is None else [check]
