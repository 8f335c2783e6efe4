"""Fields that SO(2) rotates on the plane, by complex numbers: circular harmonics."""

from tfpn.math.steerable.interface import Harmonics
from tfpn.math.steerable.plane.harmonics import PlaneFlows, groups
from tfpn.math.steerable.plane.kernels import cross_kernels, real_matrix
from tfpn.math.steerable.plane.responses import covariance_features, fields_of

PLANE = Harmonics(
    dim=2,
    flow_type=PlaneFlows,
    groups=groups,
    kernels=cross_kernels,
    fields_of=fields_of,
    covariance_features=covariance_features,
    real_matrix=real_matrix,
)
