"""Layers with a constrained generator as the flows of a `SteerablePNConv`."""

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfpn.math.steerable.groups import FieldGroup
from tfpn.types import DType, Layer, Tensor


def read_flows(flows: Any) -> Tensor:
    """``flows`` as a list of Keras layers with a method ``generator``, or None.

    Raises:
        ValueError: for anything else.
    """
    if flows is None:
        return None
    found = list(flows) if isinstance(flows, (list, tuple)) else [flows]
    if not found or not all(is_flow(flow) for flow in found):
        raise ValueError(
            "flows must be a list of Keras layers with a method generator() that returns C, B and "
            f"S, such as those that equivariance.keras_source writes; found {flows!r}."
        )
    return found


def is_flow(value: Any) -> bool:
    """Whether the value is a Keras layer with a method ``generator``."""
    return isinstance(value, keras.layers.Layer) and callable(getattr(value, "generator", None))


def build_flow(flow: Layer, name: str, frequencies: Sequence[Any], group: FieldGroup) -> Tensor:
    """Builds a flow if needed, and checks its generator on rho.

    Args:
        flow: the layer. If it is not built yet, it is built for fields on a grid of one point.
        name: its name in errors.
        frequencies: those of rho's parts, in the order of its r channels.
        group: the generator must commute with.

    Returns:
        Its present C [r, r], B [d, r, r] and S [d, d, r, r], as float64 NumPy arrays.

    Raises:
        ValueError: if the generator has other shapes, is not finite, or does not commute with
            the group.
    """
    # This import needs no TensorFlow, but half a second for sympy.
    from equivariance import verify

    rho, spatial_dim = group.representation(tuple(frequencies)), group.dim
    size = rho.dim
    with tf.init_scope():  # eager, even inside a tf.function
        if not flow.built:
            try:
                flow.build((None, *[1] * spatial_dim, size))
            except ValueError as error:
                raise ValueError(
                    f"{name} could not be built for fields of the frequencies "
                    f"{tuple(frequencies)}, {size} channels; give the frequencies that it is made "
                    f"for. {error}"
                ) from error
        tensors = [np.asarray(tensor) for tensor in flow.generator()]
    shapes = [tensor.shape for tensor in tensors]
    expected = [(*[spatial_dim] * order, size, size) for order in range(3)]
    if shapes != expected:
        raise ValueError(
            f"{name}.generator() must return C, B and S of the shapes {expected} for fields of "
            f"the frequencies {tuple(frequencies)}, found {shapes}."
        )
    if not all(np.all(np.isfinite(tensor)) for tensor in tensors):
        raise ValueError(f"{name}.generator() returned numbers that are not finite.")
    precision = max(np.finfo(tensor.dtype).eps for tensor in tensors)
    tensors = [tensor.astype(np.float64) for tensor in tensors]
    report = verify(tuple(tensors), rho, tolerance=max(1e-9, 100.0 * precision))
    if not report:
        moves = "rotations and reflections" if group.reflections else "rotations"
        raise ValueError(
            f"{name}.generator() does not commute with {moves} of fields of the frequencies "
            f"{tuple(frequencies)}, in this order. {report}"
        )
    return tuple(tensors)


def generators_of(flows: Any) -> Tensor:
    """C [K, r, r], B [K, d, r, r] and S [K, d, d, r, r] in float64."""
    tensors = zip(*(flow.generator() for flow in flows), strict=True)
    return tuple(
        tf.stack([tf.cast(tensor, tf.float64) for tensor in tensor_list]) for tensor_list in tensors
    )


def copy_flow(flow: Layer, name: str, dtype: DType) -> Tensor:
    """A layer of the same configuration with its own weights."""
    return type(flow).from_config({**flow.get_config(), "name": name, "dtype": dtype})
