"""Gradients through low-rank and joint uncertainty, against differences and each other."""

import numpy as np
import tensorflow as tf
from coherent_problems import BATCH, FILTERS, OPERATORS, POINTS, problem

from tfpn.math import convolve_joint, convolve_low_rank


def _gradient_check(function, arguments, names, rtol):
    """Directional derivative of a random projection against central differences."""
    rng = np.random.default_rng(6)
    tensors = {name: tf.constant(arguments[name]) for name in names}
    outputs = function(**{**arguments, **tensors})
    projections = [rng.normal(size=output.shape) for output in outputs]

    def total(**changed):
        results = function(**{**arguments, **changed})
        return tf.add_n([tf.reduce_sum(p * r) for p, r in zip(projections, results, strict=True)])

    for name in names:
        direction = rng.normal(size=np.shape(arguments[name]))
        if name == "diffusion":
            direction = direction + np.swapaxes(direction, -1, -2)
        with tf.GradientTape() as tape:
            tape.watch(tensors[name])
            value = total(**{name: tensors[name]})
        slope = np.sum(tape.gradient(value, tensors[name]) * direction)
        step = 1e-5
        up, down = (
            total(**{name: tensors[name] + sign * step * direction}) for sign in (1.0, -1.0)
        )
        np.testing.assert_allclose(slope, (up - down) / (2 * step), rtol=rtol, err_msg=name)


def test_gradients_of_joint_layers():
    (points, values, variance), parameters = problem(2)
    values = np.nan_to_num(values)
    variance = np.full_like(values, 0.05)
    rng = np.random.default_rng(7)
    root = 0.3 * rng.normal(size=(BATCH, POINTS * 2, 5))
    covariance = np.reshape(
        root @ np.swapaxes(root, 1, 2) + 0.1 * np.eye(POINTS * 2), [BATCH, POINTS, 2, POINTS, 2]
    )
    given = {"points": points, "values": values, "variance": variance, "query": points}
    names = ["weights", "drift", "diffusion", "signal_std", "length_scale"]
    _gradient_check(
        lambda **a: convolve_joint(covariance=None, **a)[:2],
        {**given, **parameters},
        [*names, "variance"],
        1e-5,
    )
    parameters["length_scale"] = np.array(0.1)  # keeps K well conditioned
    _gradient_check(
        lambda **a: convolve_joint(**a)[:2],
        {**given, **parameters, "covariance": covariance},
        [*names, "covariance", "values"],
        5e-4,  # of the difference: nearly exact values make large second derivatives
    )


def test_gradients_of_later_low_rank_layer():
    (points, values, variance), parameters = problem(2)
    values = np.nan_to_num(values)
    factors = 0.3 * np.random.default_rng(8).normal(size=(2, BATCH, POINTS, 2))
    variance = np.einsum("rbna,rbna->bna", factors, factors) + 0.05
    _gradient_check(
        lambda **a: convolve_low_rank(**a)[:3],
        {
            **{"points": points, "values": values, "variance": variance, "query": points},
            **parameters,
            "factors": factors,
        },
        ["weights", "drift", "diffusion", "signal_std", "length_scale", "variance", "factors"],
        1e-5,
    )


def test_gradients_of_first_factors():
    """The outer product of the factors at full rank is the joint covariance, derivatives too."""
    (points, values, variance), parameters = problem(1)
    full = OPERATORS * POINTS
    weights = np.random.default_rng(9).normal(size=(BATCH, POINTS, FILTERS, POINTS, FILTERS))
    gradients = []
    tensors = {key: tf.constant(value) for key, value in parameters.items()}
    for low_rank in (False, True):
        with tf.GradientTape() as tape:
            tape.watch(tensors)
            if low_rank:
                factors = convolve_low_rank(
                    points, values, variance, None, points, **tensors, rank=full
                )[2]
                covariance = tf.einsum("rbna,rbmc->bnamc", factors, factors)
            else:
                covariance = convolve_joint(points, values, variance, None, points, **tensors)[1]
            # Example 1 has padding, at which the factors are those of a query, not 0.
            total = tf.reduce_sum(weights * covariance)
        gradients.append(tape.gradient(total, tensors))
    for name in tensors:
        scale = np.abs(gradients[0][name]).max()
        np.testing.assert_allclose(gradients[1][name], gradients[0][name], atol=1e-4 * scale)
