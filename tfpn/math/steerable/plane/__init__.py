"""Fields on the plane: circular harmonics."""

from tfpn.math.steerable.interface import Harmonics
from tfpn.math.steerable.plane.harmonics import PlaneFlows, groups
from tfpn.math.steerable.plane.kernels import cross_kernels, real_matrix
from tfpn.math.steerable.plane.responses import covariance_features, fields_of


class Plane(Harmonics):
    """Fields that SO(2) rotates, by complex numbers."""

    dim = 2
    flow_type = PlaneFlows

    def groups(self, outs, insides):
        return groups(outs, insides)

    def kernels(self, query, points, flows, groups):
        return cross_kernels(query, points, flows, groups)

    def fields_of(self, mean, group, count, copies):
        return fields_of(mean, group, count, copies)

    def covariance_features(self, explained, flows, group, out):
        return covariance_features(explained, flows, group, out)

    def real_matrix(self, kernels, groups, frequencies):
        return real_matrix(kernels, groups, frequencies)


PLANE = Plane()
