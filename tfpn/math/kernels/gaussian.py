"""The RBF kernel under drift-diffusion flows (eqs. A_rbf and A_rbf_A).

The kernel is ``k(x, x') = a N(x; x', l^2 I)`` with ``a = s^2 (2 pi l^2)^(d/2)``. So
``k(x, x) = s^2`` does not depend on the length scale ``l``. An operator ``exp(D)`` with
``D = beta . grad + 1/2 grad^T Sigma grad`` turns the kernel into another Gaussian. Operators on
both arguments do the same, with another drift and diffusion.
"""

import tensorflow as tf

from tfpn.checks import floating, require_static_dim
from tfpn.math.channels import channel_sum
from tfpn.math.fusion import fused, is_active
from tfpn.math.recompute import available_after
from tfpn.types import Tensor


def rbf_kernel(x1: Tensor, x2: Tensor, *, signal_std: Tensor, length_scale: Tensor) -> Tensor:
    """Covariance matrix of the RBF kernel between two sets of points.

    Args:
        x1: points [..., M, d].
        x2: points [..., N, d].
        signal_std: scalar s > 0.
        length_scale: scalar l > 0, in units of the points.

    Returns:
        ``s^2 exp(-|x1 - x2|^2 / (2 l^2))``, [..., M, N]; leading axes broadcast.

    Raises:
        ValueError: if the shapes do not agree.

    Example:

    >>> import numpy as np, tfpn
    >>> x = np.array([[[0.0], [1.0]]])
    >>> tfpn.math.rbf_kernel(x, x, signal_std=2.0, length_scale=1.0).numpy().round(4).tolist()
    [[[4.0, 2.4261], [2.4261, 4.0]]]
    """
    x1 = floating(x1, "x1")
    x2, signal_std, length_scale = (
        tf.convert_to_tensor(t, x1.dtype) for t in (x2, signal_std, length_scale)
    )
    _check_point_sets(x1, x2)
    return gaussian_kernel(squared_distances(x1, x2), signal_std, length_scale)


def squared_distances(x1: Tensor, x2: Tensor) -> Tensor:
    """``|x_m - x_n|^2``, [..., M, d] and [..., N, d] -> [..., M, N].

    They depend only on the points, so the graph optimiser computes them once for a whole network.
    """
    # The sum takes one spatial axis at a time: a last axis of d = 2 is slow to reduce.
    return tf.add_n(
        [
            tf.math.squared_difference(along1, along2)
            for along1, along2 in zip(
                tf.unstack(tf.expand_dims(x1, -2), axis=-1),
                tf.unstack(tf.expand_dims(x2, -3), axis=-1),
                strict=True,
            )
        ]
    )


def gaussian_kernel(squared: Tensor, signal_std: Tensor, length_scale: Tensor) -> Tensor:
    """``s^2 exp(-r^2 / (2 l^2))`` for squared distances r^2."""
    # This avoids -0.5 / l^2: its gradient holds l^4, which float32 cannot hold for l = 1e10.
    scale = -0.5 * tf.square(1.0 / length_scale)
    return tf.exp(squared * scale + 2.0 * tf.math.log(signal_std))


def _check_point_sets(x1, x2):
    for name, tensor in (("x1", x1), ("x2", x2)):
        if tensor.shape.rank is not None and tensor.shape.rank < 2:
            raise ValueError(
                f"{name} has shape {tensor.shape}, expected [..., points, d]: for points in one "
                f"dimension give {name}[:, None]."
            )
    dim = require_static_dim(x1, "x1")
    if x2.shape[-1] != dim:
        raise ValueError(
            f"x2 has shape {x2.shape}, but x1 has {dim} spatial dimension(s): the last axis of x2 "
            f"must be {dim}."
        )
    try:
        tf.broadcast_static_shape(x1.shape[:-2], x2.shape[:-2])
    except ValueError as error:
        raise ValueError(
            f"x2 has shape {x2.shape}, x1 {x1.shape}: their leading axes must be equal, or 1 to "
            "use the same points for all."
        ) from error


def diffused_kernel(
    x1: Tensor,
    x2: Tensor,
    *,
    signal_std: Tensor,
    length_scale: Tensor,
    drift: Tensor,
    diffusion: Tensor,
) -> Tensor:
    """RBF kernel with a drift-diffusion flow applied to one or both arguments.

    It computes ``a N(x1; x2 - drift, l^2 I + diffusion)`` with ``a = s^2 (2 pi l^2)^(d/2)``. For
    ``(exp(D_i) k)(x1, x2)`` give ``drift = beta_i, diffusion = Sigma_i`` (eq. A_rbf). For
    ``(exp(D_i) k exp(D_j)')(x1, x2)`` give ``drift = beta_i - beta_j,
    diffusion = Sigma_i + Sigma_j`` (eq. A_rbf_A).

    Args:
        x1: points [..., d].
        x2: points [..., d].
        signal_std: s > 0, scalar or [...].
        length_scale: l > 0, scalar or [...], in units of the points.
        drift: [..., d], in units of the points.
        diffusion: [..., d, d], positive semidefinite, in squared units of the points.

    Returns:
        The kernel's values [...] in the dtype of ``x1``; all leading axes broadcast.

    Raises:
        ValueError: if the last axes do not agree.
        tf.errors.InvalidArgumentError: if ``l^2 I + diffusion`` is not positive definite in the
            arguments' dtype, or not finite (XLA-compiled functions do not check this).

    Example:

    >>> import numpy as np, tfpn
    >>> k = tfpn.math.diffused_kernel(
    ...     np.array([0.0]), np.array([0.5]), signal_std=1.0, length_scale=0.2,
    ...     drift=np.array([0.5]), diffusion=np.array([[0.0]]))
    >>> float(k)  # the drift looks ahead: (exp(D) f)(0) = f(0.5)
    1.0
    """
    x1 = floating(x1, "x1")
    x2, drift, diffusion, signal_std, length_scale = (
        tf.convert_to_tensor(t, x1.dtype) for t in (x2, drift, diffusion, signal_std, length_scale)
    )
    dim = require_static_dim(x1, "x1")
    for name, tensor in (("x2", x2), ("drift", drift), ("diffusion", diffusion)):
        if tensor.shape[-1] != dim:
            raise ValueError(
                f"{name} has shape {tensor.shape}, but x1 has {dim} spatial dimension(s): "
                f"the last axis of {name} must be {dim}."
            )
    whitener, log_amplitude = gaussian_whitener(length_scale, diffusion)
    white = tf.linalg.matvec(whitener, x1 - x2 + drift)
    exponent = log_amplitude - 0.5 * tf.reduce_sum(tf.square(white), axis=-1)
    return tf.square(signal_std) * tf.exp(exponent)


def gaussian_whitener(length_scale: Tensor, diffusion: Tensor) -> tuple[Tensor, Tensor]:
    """Whitening matrix and log peak of ``a N(.; 0, l^2 I + diffusion) / s^2``.

    The d x d factorisations are always in float64. They cost nothing, and stay accurate if the
    diffusion is far larger than the length scale.

    Args:
        length_scale: scalar or [...].
        diffusion: [..., d, d].

    Returns:
        ``Q`` [..., d, d] with ``Q^T Q = (l^2 I + diffusion)^-1`` and the log of the peak relative
        to s^2, ``d log l - 1/2 log det(l^2 I + diffusion)``, [...].
    """
    dtype = diffusion.dtype
    dim = diffusion.shape[-1]
    length = tf.cast(length_scale, tf.float64)[..., None, None]
    # The unit is the length scale, so that neither tiny nor huge units overflow.
    covariance = tf.eye(dim, dtype=tf.float64) + tf.cast(diffusion, tf.float64) / tf.square(length)
    # A failed factorisation gives NaN on a CPU, without an error.
    factor = tf.linalg.cholesky(covariance)
    check = tf.debugging.check_numerics(
        tf.stop_gradient(factor),  # a gradient here would also check that of the loss
        "length_scale^2 I + diffusion could not be factorised: diffusion is not positive "
        "semidefinite, or so much larger than the squared length scale that its rounding counts",
    )
    with tf.control_dependencies([check]):
        factor = tf.identity(factor)
    identity = tf.broadcast_to(tf.eye(dim, dtype=tf.float64), tf.shape(factor))
    whitener = tf.linalg.triangular_solve(factor, identity) / length
    log_amplitude = -tf.reduce_sum(tf.math.log(tf.linalg.diag_part(factor)), axis=-1)
    return tf.cast(whitener, dtype), tf.cast(log_amplitude, dtype)


def flow_coefficients(
    signal_std: Tensor, length_scale: Tensor, drift: Tensor, diffusion: Tensor
) -> tuple[Tensor, Tensor]:
    """The arguments of `gaussian_of_flows` other than the points.

    Args:
        signal_std, length_scale: scalars or [...].
        drift: beta [K, d].
        diffusion: Sigma [K, d, d].

    Returns:
        coefficients [..., K, d, d+1] and log amplitudes [..., K].
    """
    signal_std, length_scale = tf.expand_dims(signal_std, -1), tf.expand_dims(length_scale, -1)
    whitener, log_amplitude = gaussian_whitener(length_scale, diffusion)
    offset = tf.linalg.matvec(whitener, drift)
    # Rows of `coefficients` act on the features (x_m - x_n, 1).
    coefficients = tf.concat([whitener, tf.expand_dims(offset, -1)], axis=-1)
    return coefficients, log_amplitude + 2.0 * tf.math.log(signal_std)


@tf.custom_gradient
def gaussian_of_flows(coefficients: Tensor, log_amplitude: Tensor, features: Tensor) -> Tensor:
    """``exp(log_amplitude_k - 1/2 |coefficients_k features|^2)``, [B, M, K, N].

    The coefficients are [K, d, d+1] and log_amplitude [K], or both have a leading axis B. The
    features are [B, M, d+1, N].
    """
    each = coefficients.shape.rank == 4
    if each:  # insert the axis of the query points between B and K
        coefficients, log_amplitude = (
            tf.expand_dims(coefficients, 1),
            tf.expand_dims(log_amplitude, 1),
        )
    operators = coefficients.shape[-3]
    size = features.shape[2]
    pairs = [(p, q) for p in range(size) for q in range(p, size)]

    def products(features):
        """The products f_p f_q, p <= q; the last one is 1."""
        rows = tf.split(features, size, axis=2)
        return tf.concat([rows[p] * rows[q] for p, q in pairs], axis=2)

    def by_axis():
        return tf.unstack(coefficients, axis=-2)

    def white():
        return [row @ features for row in by_axis()]

    def quadratic_form():
        """Takes one matrix product, but its terms are as large as (drift / width)^2 and cancel."""
        form = -0.5 * tf.matmul(coefficients, coefficients, transpose_a=True)
        leading = [-1, 1, operators] if each else [operators]
        flat = tf.reshape(form, [*leading, size * size])
        form = tf.gather(flat, [p * size + q for p, q in pairs], axis=-1)
        form *= tf.constant([1.0 + (p != q) for p, q in pairs], form.dtype)
        last = tf.constant([0.0] * (len(pairs) - 1) + [1.0], form.dtype)
        form += tf.expand_dims(log_amplitude, -1) * last
        return tf.exp(tf.matmul(form, products(features)))

    def sum_of_squares():
        """Is accurate for any drift, but passes over memory more often."""
        squares = tf.add_n([tf.square(w) for w in white()])
        return tf.exp(tf.expand_dims(log_amplitude, -1) - 0.5 * squares)

    if is_active():
        kernel = _one_pass(coefficients, log_amplitude, features)
    else:
        # Drifts of up to 16 widths cost the quadratic form about 100 units of rounding.
        longest = tf.reduce_max(tf.reduce_sum(tf.square(coefficients[..., -1]), axis=-1))
        kernel = tf.cond(longest <= 256.0, quadratic_form, sum_of_squares)
    kernel.set_shape([*features.shape[:2], operators, features.shape[3]])

    def gradient(upstream):
        weighted = upstream * kernel
        # All parameter gradients are contractions of sum_mn weighted f f^T, symmetric in f.
        (late,) = available_after([upstream], [features])  # the products are large, too
        moments = tf.matmul(weighted, products(late), transpose_b=True)  # [B, M, K, pairs]
        if each:
            moments = tf.reduce_sum(moments, axis=1)
        else:
            flat = [-1, operators * len(pairs)]
            moments = tf.reshape(channel_sum(tf.reshape(moments, flat)), [-1, len(pairs)])
        order = [pairs.index((min(p, q), max(p, q))) for p in range(size) for q in range(size)]
        shape = [-1, operators, size, size] if each else [-1, size, size]
        moments = tf.reshape(tf.gather(moments, order, axis=-1), shape)
        d_coefficients = -tf.matmul(coefficients[:, 0] if each else coefficients, moments)
        d_log_amplitude = moments[..., -1, -1]
        d_features = -tf.add_n(
            [
                tf.matmul(row, weighted * w, transpose_a=True)
                for row, w in zip(by_axis(), white(), strict=True)
            ]
        )
        return d_coefficients, d_log_amplitude, d_features

    return kernel, gradient


@fused
def _one_pass(coefficients, log_amplitude, features):
    """The sum of squares without matrix products, so that XLA can compile it into one loop."""
    rows = tf.split(features, features.shape[2], axis=2)  # [B, M, 1, N] each
    white = [
        tf.add_n([coefficients[..., axis, p, None] * row for p, row in enumerate(rows)])
        for axis in range(coefficients.shape[-2])
    ]
    exponent = -0.5 * tf.add_n([tf.square(w) for w in white])
    return tf.exp(tf.expand_dims(log_amplitude, -1) + exponent)
