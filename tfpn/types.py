"""Short names for the types of the public API's arguments and results.

TensorFlow and Keras ship no types, so tensors and models are `Any` to a type checker. The names
tell the reader what is meant. This module loads neither library.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

import numpy as np

# A tensor, a symbolic tensor of Keras, or anything that `tf.convert_to_tensor` reads.
Tensor: TypeAlias = Any
# A Keras model, a Keras layer, a distribution of TensorFlow Probability, a Matplotlib figure.
Model: TypeAlias = Any
Layer: TypeAlias = Any
Distribution: TypeAlias = Any
Figure: TypeAlias = Any
# The base of mixins, whose attributes come from the other classes.
if TYPE_CHECKING:
    Mixin: Any = object
else:
    Mixin = object
# A dtype of NumPy or TensorFlow, its name, or for layers a Keras dtype policy.
DType: TypeAlias = Any

Array: TypeAlias = np.ndarray
# Anything that `numpy.asarray` reads.
ArrayLike: TypeAlias = Any
# The dict of "points", "values" and "variance" of `tfpn.observations`, or a layer's output.
Observations: TypeAlias = Mapping[str, Tensor]
Shape: TypeAlias = Sequence[int | None]
PathLike: TypeAlias = str | os.PathLike[str]
# The arguments of a Keras layer's or model's constructor.
Config: TypeAlias = dict[str, Any]
Logs: TypeAlias = Mapping[str, Any]
Verbose: TypeAlias = Literal["auto", 0, 1, 2]

# Closed choices. Registered names, such as those of kernels and uncertainties, are `str`.
Trains: TypeAlias = Literal["kernel", "all"]
VarianceEstimator: TypeAlias = Literal["exact", "stochastic"]
Probes: TypeAlias = Literal["rademacher", "gaussian"]
Constraint: TypeAlias = Literal["dissipative", "free"]


class Configurable(Protocol):
    """An object that a saved model can hold, such as a `ScaleMixture` or an `Activation`."""

    def get_config(self) -> Config: ...


class Group(Protocol):
    """A group of `equivariance`."""

    @property
    def name(self) -> str: ...


class Representation(Protocol):
    """A representation of a group of `equivariance`."""

    @property
    def dim(self) -> int: ...


# A correlation function by its name, a `ScaleMixture`, or a mixture's dict of lists.
KernelLike: TypeAlias = str | Mapping[str, Any] | Configurable
# An activation by its name, an `Activation`, a function, or the table of a saved one.
ActivationLike: TypeAlias = str | Mapping[str, Any] | Configurable | Callable[..., Any]
# "space", a box (low, high), or a disc or ball {"centre": ..., "radius": ...}.
Pooling: TypeAlias = str | Sequence[Any] | Mapping[str, Any]
# {frequency: copies}, pairs of both, a number of scalars, or a representation or its text.
FieldsLike: TypeAlias = int | Mapping[Any, int] | Sequence[Any] | str | Representation
# A group of `equivariance`, or its name.
GroupLike: TypeAlias = str | Group
Initializer: TypeAlias = str | Mapping[str, Any] | Callable[..., Any]
