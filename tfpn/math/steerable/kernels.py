"""The RBF kernel under flows that commute with rotations, for pairs of points."""

from collections.abc import Sequence

import tensorflow as tf

from tfpn.checks import floating
from tfpn.math.coupled import finite_offset, read_generator
from tfpn.math.steerable.fields import parts_of, read_frequencies, width
from tfpn.math.steerable.groups import LARGEST
from tfpn.math.steerable.harmonics import HARMONICS, harmonics_of
from tfpn.types import Tensor


def steerable_kernel(
    x1: Tensor,
    x2: Tensor,
    *,
    frequencies: Sequence[int],
    signal_std: Tensor,
    length_scale: Tensor,
    first_order: Tensor,
    second_order: Tensor,
    zeroth_order: Tensor | None = None,
    both_sides: bool = False,
    order: int | None = None,
) -> Tensor:
    """`tfpn.math.coupled_kernel` for a generator that commutes with rotations.

    The function reads the generator only along one axis: C, B_1 and S_11 on the plane, and C, B_3
    and S_33 in space, or with ``order`` along a few directions. The rest follows from equivariance,
    which the result has up to rounding for any generator. The numbers in brackets are those of
    float32. The error is below 1e-12 (1e-6) of the largest value if the flow's transport plus 8
    (5.5) widths of the diffused kernel are within 72 (60) length scales, and with ``order`` if the
    transport is within two length scales (1e-11 and 3e-6 there). Time and memory grow beyond 18 and
    36 (12 and 24). Flows that reach f times farther are cut off at frequencies where the kernel's
    spectrum is ``exp(-35 / f^2)`` (``exp(-20 / f^2)``). The cut does not matter at frequencies that
    the flow damps.

    Args:
        x1: points [..., d] with d = 2 on the plane or 3 in space.
        x2: points [..., d].
        frequencies: increasing frequencies of the fields, such as (0, 1, 2), or (0, 0, 1) for two
            scalars and a vector. They have r channels, see `tfpn.math.steerable.fields`. In space
            these are spins.
        signal_std: scalar s.
        length_scale: scalar l.
        first_order: B [d, r, r], as in `tfpn.math.coupled_kernel`.
        second_order: S [d, d, r, r].
        zeroth_order: C [r, r], or None for 0.
        both_sides: whether the flow acts on both arguments.
        order: n of a generator on the plane that commutes only with C_n, the rotations by 2 pi / n;
            None for one that commutes with all rotations.

    Returns:
        [..., r, r] in the dtype of ``x1``; leading axes of ``x1`` and ``x2`` broadcast.

    Raises:
        ValueError: for shapes that do not agree.
        tf.errors.InvalidArgumentError: if the points or the prior are not finite (XLA-compiled
            functions do not check this).

    Example: the part of a flow that maps a scalar to a vector like a gradient.

    >>> import numpy as np
    >>> from tfpn.math.steerable.kernels import steerable_kernel
    >>> b = np.zeros((2, 3, 3))
    >>> b[0, 0, 1] = b[0, 1, 0] = b[1, 0, 2] = b[1, 2, 0] = 0.1
    >>> k = steerable_kernel(
    ...     np.array([0.0, 0.2]), np.zeros(2), frequencies=(0, 1), signal_std=1.0,
    ...     length_scale=0.3, first_order=b, second_order=np.zeros((2, 2, 3, 3)))
    >>> k.numpy().round(3)[:, 0] + 0.0  # the vector points along the second axis
    array([ 0.733,  0.   , -0.167])
    """
    x1 = floating(x1, "x1")
    x2 = tf.convert_to_tensor(x2, x1.dtype)
    dim = x1.shape[-1]
    if dim not in HARMONICS or x2.shape[-1] != dim:
        raise ValueError(
            f"x1 has shape {x1.shape} and x2 {x2.shape}; expected points [..., 2] of the plane or "
            "[..., 3] of space."
        )
    harmonics = harmonics_of(dim, order)
    fields = read_frequencies(frequencies, group=LARGEST[dim])
    generator = read_generator(first_order, second_order, zeroth_order, dim=dim)
    size = sum(width(m, dim) for m in fields)
    if generator[0].shape[-1] != size:
        raise ValueError(
            f"first_order has shape {generator[1].shape}, but fields of the frequencies "
            f"{fields} have {size} channels."
        )
    signal_std, length_scale = (
        tf.convert_to_tensor(t, x1.dtype) for t in (signal_std, length_scale)
    )
    # The unit is the length scale: squares of tiny or huge ones would leave float32's range.
    unit = tf.stop_gradient(length_scale)
    offset = finite_offset(x1 - x2, signal_std, length_scale) / unit
    generator = [t[None] / tf.pow(tf.cast(unit, t.dtype), i) for i, t in enumerate(generator)]
    c, b, s = generator
    flows = harmonics.flow_type(c, b, s, fields, signal_std, length_scale / unit, x1.dtype)
    if both_sides:
        flows = flows.two_sided()
    flat = tf.reshape(offset, [-1, 1, dim])
    kinds = tuple(parts_of(fields, dim).values())
    all_groups = harmonics.groups(kinds, tuple(part for kind in kinds for part in kind))
    kernels = harmonics.kernels(flat, tf.zeros_like(flat), flows, all_groups)
    real = harmonics.real_matrix(kernels, all_groups, fields)
    return tf.reshape(real, tf.concat([tf.shape(offset)[:-1], [size, size]], axis=0))
