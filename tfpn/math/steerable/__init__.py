"""Fields on the plane or in space that rotations turn, and flows that commute with rotations.

`tfpn.math.steerable.fields` defines field types.
"""

from tfpn.math.steerable.convolution import steerable_convolve
from tfpn.math.steerable.fields import count_channels, read_fields
from tfpn.math.steerable.kernels import steerable_kernel

__all__ = ["count_channels", "read_fields", "steerable_convolve", "steerable_kernel"]
