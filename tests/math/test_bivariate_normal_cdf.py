"""Phi2 in closed form and its gradient; test_rectified_covariance.py has its accuracy elsewhere."""

import mpmath
import numpy as np
from bivariate_references import NODES, value_and_gradient
from tolerance import rounding

from tfpn.math import bivariate_normal_cdf


def test_bivariate_normal_cdf_in_closed_form():
    rho = np.concatenate([np.linspace(-1, 1, 41), [1 - 1e-9, -1 + 1e-9, 1e-12]])
    found = bivariate_normal_cdf(np.float64(0), 0.0, rho)
    np.testing.assert_allclose(found, 0.25 + np.arcsin(rho) / (2 * np.pi), atol=rounding(NODES))
    infinity = np.float64(np.inf)
    assert bivariate_normal_cdf(infinity, infinity, 0.3) == 1
    assert bivariate_normal_cdf(-infinity, infinity, -0.9) == 0
    np.testing.assert_allclose(
        bivariate_normal_cdf(infinity, 0.0, [0.7, -1.0]), 0.5, rtol=rounding(NODES)
    )
    # P(z <= h, -z <= k) and P(z <= h, z <= k).
    h = np.float64([-3.0, -0.5, 0.4, 2.0])
    cdf = np.array([float(mpmath.ncdf(x)) for x in h])
    for rho, expected in (
        (1.0, np.minimum.outer(cdf, cdf)),
        (-1.0, np.maximum(np.add.outer(cdf, cdf) - 1, 0)),
    ):
        found = bivariate_normal_cdf(h[:, None], h, rho)
        np.testing.assert_allclose(found, expected, atol=rounding(NODES))


def test_gradient_of_bivariate_normal_cdf():
    rng = np.random.default_rng(6)
    x1, x2 = rng.normal(size=(2, 30))
    rho = rng.uniform(-0.95, 0.95, 30)
    _, gradient = value_and_gradient(x1, x2, rho, function=bivariate_normal_cdf)
    step = 1e-5
    for n in range(3):
        shift = step * np.eye(3)[n][:, None]
        above, below = (
            bivariate_normal_cdf(*(np.stack([x1, x2, rho]) + s * shift)) for s in (1, -1)
        )
        np.testing.assert_allclose(gradient[n], (above - below) / (2 * step), atol=2e-8)
    _, gradient = value_and_gradient(
        *np.float32([[0.0, 0.0, 0.5], [0.0, 0.0, 0.1], [1.0, -1.0, 1.0]]),
        function=bivariate_normal_cdf,
    )
    assert np.all(np.isfinite(gradient))
