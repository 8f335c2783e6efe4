"""The template of the Keras layer that ``keras_source`` fills in; @...@ are its blanks."""

TEMPLATE = r'''
"""@HEADLINE@

@DESCRIPTION@
Fields are sampled on a periodic grid. The package `equivariance` wrote this file, which needs only
Keras and NumPy.
"""

from numbers import Real

import keras
import numpy as np
from keras import ops

DIM = @DIM@
CHANNELS_IN = @CHANNELS_IN@
CHANNELS_OUT = @CHANNELS_OUT@
@MIDDLE@
@TABLES@


@keras.saving.register_keras_serializable(package="equivariance")
class @NAME@(keras.layers.Layer):
    """@CLASS_DOC@

    Args:
        spacing: distance of neighbouring grid points, in the unit of length of the generator.
        length: initial size of transport and diffusion, in the same unit. The default is the
            spacing.

    Input:
        Fields [batch, n_1, ..., n_d, channels] of known grid sizes n.

    Output:
        Fields on the same grid.
    """

    def __init__(self, spacing=1.0, length=None, **kwargs):
        super().__init__(**kwargs)
        length = spacing if length is None else length
        for name, value in (("spacing", spacing), ("length", length)):
            if not (isinstance(value, Real) and np.isfinite(value) and value > 0):
                raise ValueError(f"{name} must be a positive number, found {value!r}.")
        self.spacing = float(spacing)
        self.length = float(length)

    def build(self, input_shape):
        self._check(input_shape)
        for name, shape, center, scale, power in PARAMETERS:
            weight = self.add_weight(
                name=name,
                shape=shape,
                initializer=_initializer(center, scale, self.length**power),
                autocast=False,  # nothing is computed in half precision
            )
            setattr(self, name, weight)

    def generator(self):
        """C [out, in], B [d, out, in] and S [d, d, out, in], from the weights."""
@GENERATOR@
        return c[0], b, ops.reshape(s, (DIM, DIM, CHANNELS_OUT, CHANNELS_IN))

    def call(self, inputs):
        self._check(inputs.shape)
        dtype = "float64" if self.compute_dtype == "float64" else "float32"
        grid = tuple(inputs.shape[1:-1])
        real = ops.moveaxis(ops.cast(inputs, dtype), -1, 1)
        real, imag = _fourier(real, ops.zeros_like(real))
        points = int(np.prod(grid))
        stacked = ops.concatenate(
            [ops.reshape(x, (-1, CHANNELS_IN, points)) for x in (real, imag)], axis=1
        )
        stacked = ops.transpose(stacked, (2, 1, 0))
        matrices = self._symbol(grid, dtype)
        stacked = @ACTION@
        stacked = ops.transpose(stacked, (2, 1, 0))
        real, imag = (
            ops.reshape(x, (-1, CHANNELS_OUT, *grid)) for x in ops.split(stacked, 2, axis=1)
        )
        # The inverse transform of z is the conjugate of the transform of conj(z) / points.
        real, _ = _fourier(real / points, -imag / points)
        return ops.cast(ops.moveaxis(real, 1, -1), self.compute_dtype)

    def compute_output_shape(self, input_shape):
        return (*input_shape[:-1], CHANNELS_OUT)

    def get_config(self):
        return {**super().get_config(), "spacing": self.spacing, "length": self.length}

    def _check(self, shape):
        if len(shape) != DIM + 2 or shape[-1] != CHANNELS_IN or None in shape[1:]:
            raise ValueError(
                f"{self.name}: expected fields [batch, {DIM} known grid sizes, {CHANNELS_IN} "
                f"channels], found the shape {tuple(shape)}."
            )

    def _symbol(self, grid, dtype):
        """M(i xi) at all frequencies of the grid, as real matrices [[Re, -Im], [Im, Re]]."""
        c, b, s = (ops.cast(x, dtype) for x in self.generator())
        plain, odd = _frequencies(grid, self.spacing)
        products = odd[:, :, None] * odd[:, None, :]
        products[:, range(DIM), range(DIM)] = plain**2
        real = c - ops.einsum("fij,ijab->fab", ops.convert_to_tensor(products, dtype), s)
        imag = ops.einsum("fi,iab->fab", ops.convert_to_tensor(odd, dtype), b)
        upper = ops.concatenate([real, -imag], axis=-1)
        lower = ops.concatenate([imag, real], axis=-1)
        return ops.concatenate([upper, lower], axis=-2)

    def _assemble(self, name, derivatives, rows, factor=None, sign=1.0):
        """The map between irreducible channels [derivatives, rows, CHANNELS_IN]."""
        weights = getattr(self, name) if factor is None else getattr(self, name)[factor]
        weights = ops.convert_to_tensor(weights)
        total = ops.zeros((derivatives, rows, CHANNELS_IN), self.variable_dtype)
        start = 0
        for kind, (row, column), copies, (count, out, inside), entries in BLOCKS[name]:
            tensors = np.zeros((count, derivatives, out, inside))
            for n, p, o, i, value in entries:
                tensors[n, p, o, i] = value
            index, signs = _copies(kind, count, *copies)
            size = int(index.max()) + 1
            block = ops.take(weights[start : start + size], index)
            block = block * ops.convert_to_tensor(signs, self.variable_dtype)
            tensors = ops.convert_to_tensor(tensors, self.variable_dtype)
            block = ops.einsum("nab,npoi->paobi", block, tensors)
            block = ops.reshape(block, (derivatives, copies[0] * out, copies[1] * inside))
            total = total + _placed(block, row, column, total.shape)
            if kind == "pair":
                block = sign * ops.swapaxes(block, -1, -2)
                total = total + _placed(block, column, row, total.shape)
            start += size
        return total


def _initializer(center, scale, unit):
    def initializer(shape, dtype=None):
        noise = keras.random.normal(shape, dtype=dtype)
        return unit * (ops.convert_to_tensor(center, dtype) + scale * noise)

    return initializer


def _copies(kind, count, rows, columns):
    """The indices of the copies' weights, and their signs, [tensors, rows, columns]."""
    if kind in ("free", "pair"):
        index = np.arange(count * rows * columns).reshape(count, rows, columns)
        return index, np.ones(index.shape)
    upper = np.triu_indices(rows, 0 if kind == "symmetric" else 1)
    size = len(upper[0])
    index, signs = np.zeros((rows, rows), int), np.zeros((rows, rows))
    index[upper[::-1]] = index[upper] = np.arange(size)
    signs[upper[::-1]] = 1.0 if kind == "symmetric" else -1.0
    signs[upper] = 1.0
    index = index + size * np.arange(count)[:, None, None]
    return index, np.broadcast_to(signs, index.shape)


def _placed(block, row, column, shape):
    """A block within zeros."""
    below = shape[1] - row - block.shape[1]
    right = shape[2] - column - block.shape[2]
    return ops.pad(block, [[0, 0], [row, below], [column, right]])


def _to_channels(x):
    """Maps irreducible channels to the channels of the representations."""
    for basis, equation in ((BASIS_OUT, "ar,prc->pac"), (BASIS_IN, "bc,prc->prb")):
        if basis is not None:
            size = x.shape[1] if basis is BASIS_OUT else x.shape[2]
            matrix = np.zeros((size, size))
            for i, j, value in basis:
                matrix[i, j] = value
            x = ops.einsum(equation, ops.convert_to_tensor(matrix, x.dtype), x)
    return x


def _frequencies(grid, spacing):
    """All frequencies [points, d], and the same with 0 for frequencies without a sign.

    The highest frequency of an even number of points has both signs, so its odd powers average to
    0.
    """
    axes = [2.0 * np.pi * np.fft.fftfreq(n, spacing) for n in grid]
    odd = [x.copy() for x in axes]
    for x in odd:
        if len(x) % 2 == 0:
            x[len(x) // 2] = 0.0
    return [
        np.stack(np.meshgrid(*part, indexing="ij"), axis=-1).reshape(-1, DIM)
        for part in (axes, odd)
    ]


def _fourier(real, imag):
    """The Fourier transform over the last DIM axes."""
    for axis in range(-DIM, 0):
        real, imag = (ops.moveaxis(x, axis, -1) for x in (real, imag))
        real, imag = ops.fft((real, imag))
        real, imag = (ops.moveaxis(x, -1, axis) for x in (real, imag))
    return real, imag
#[factors


@SECOND_ORDER@#factors]
#[flow


def _exponential(matrix, squarings=6):
    """The exponential of matrices, by a Pade approximant with scaling and squaring.

    The approximant has degree 3 over 4. It is smaller than 1 on the left half-plane and goes to 0
    at infinity. So it damps what the exact flow damps. Its error is below 1e-9 for norms up to 32.
    """
    x = matrix / 2.0**squarings
    one = ops.broadcast_to(ops.eye(x.shape[-1], dtype=x.dtype), x.shape)
    x2 = x @ x
    x3 = x2 @ x
    numerator = 840.0 * one + 360.0 * x + 60.0 * x2 + 4.0 * x3
    denominator = 840.0 * one - 480.0 * x + 120.0 * x2 - 16.0 * x3 + x2 @ x2
    result = ops.solve(denominator, numerator)
    for _ in range(squarings):
        result = result @ result
    return result
#flow]
'''.lstrip()
