"""The rectifier on Gaussian variables."""

import keras

from tfpn.layers.base import GPLayer
from tfpn.math.joint import observed_covariance, rectified_joint_covariance
from tfpn.math.missing import observed_entries
from tfpn.math.rectified import rectified_moments, rectified_slope


@keras.saving.register_keras_serializable(package="tfpn")
class ProbReLU(GPLayer):
    """Mean and variance of ``relu(f)`` for Gaussian f, elementwise and exact.

    Eq. rectified_moments_mu of the paper (`tfpn.math.rectified_moments`), the moments of
    `tfpn.distributions.RectifiedNormal`. At variance 0 it is the ordinary ReLU; unobserved entries
    stay unobserved. Factors are multiplied by Phi(mean / std), which is exact to first order in the
    correlation; a joint covariance is rectified exactly (`tfpn.math.rectified_covariance`).

    Input and output:
        The observations dict; points [B, N, d] pass through, values and variance [B, N, c].

    Example:

    >>> import numpy as np, tfpn
    >>> x = tfpn.observations(np.zeros((1, 1, 2)), np.array([[[-1.0]]]), 1.0)
    >>> out = tfpn.layers.ProbReLU(dtype="float64")(x)
    >>> round(float(out["values"][0, 0, 0]), 4), round(float(out["variance"][0, 0, 0]), 4)
    (0.0833, 0.0684)
    """

    def build(self, observations_shape):
        self._check_shapes(observations_shape)

    def call(self, observations, training=False):
        points, values, variance = self._unpack(observations)
        factors, covariance = self._coherent(observations)
        with self._fusion(training, values.shape[-1], points):
            values, variance, missing, infinite = observed_entries(values, variance)
            mean, new_variance = rectified_moments(values, variance)  # both 0 where missing
        if factors is not None:
            factors *= rectified_slope(values, variance)
        if covariance is not None:
            covariance = rectified_joint_covariance(values, covariance)[1]
            covariance = observed_covariance(covariance, missing)
        return self._output(points, mean, new_variance, infinite, factors, covariance)

    def compute_output_spec(self, observations, training=False):
        return self._spec_like(observations, observations["values"].shape[-1])
