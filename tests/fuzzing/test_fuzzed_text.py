"""Recipes, groups and their notation under generated text, and what was found.

Each is answered rightly or refused by a ValueError or TypeError, or by a
tf.errors.InvalidArgumentError where the docstring has it: no crash, no hang, no NaN that was not
handed in. See `generated` for how to run more cases.
"""

import importlib
import tomllib

import numpy as np
import pytest
import tensorflow as tf
from generated import (
    PLANNED,
    answer,
    anything,
    arrays,
    floats,
    fuzz,
)
from hypothesis import strategies as st

import equivariance
import tfpn
from tfpn import layers, recipes
from tfpn.spacing import point_spacing

keys = st.sampled_from(
    ["training.epochs", "training.learning_rate", "training.seed", "training.monitor",
     "training.class_weight", "model.channels", "model.pooling", "model.uncertainty",
     "augmentation.rotation", "data.name", "model.name", "model.chanels", "x.y", "model", ""]
)  # fmt: skip
texts = st.text(max_size=8) | st.sampled_from(
    ["=3", "= 1e400", "=nan", "=[1, 2]", "=-1", "='a", "={}"]
)


@fuzz(250, key=keys | st.text(max_size=8), text=texts, value=st.integers() | st.floats())
def test_recipes(key, text, value):
    for assignment in (key + text, f"{key}={value}"):
        recipe = recipes.load("digits")
        try:
            recipes.override(recipe, assignment)
            resolved = recipes.resolve(recipe)
        except recipes.RecipeError as error:
            assert len(str(error)) > 10
            continue
        # What is accepted can be written down and read again.
        section, _, name = assignment.partition("=")[0].strip().partition(".")
        assert name in resolved.sections[section]
        again = tomllib.loads(recipes.dumps(resolved))
        assert again[section] == resolved.sections[section]


GROUPS = [equivariance.SO2, equivariance.O2, equivariance.Cyclic(4), equivariance.Dihedral(3)]
notation = st.text("0123+-@x*()T, ", max_size=7)


@fuzz(
    150,
    group=st.sampled_from(GROUPS),
    index=st.integers(0, 5) | st.integers(-3, 6) | anything,
    angles=st.tuples(floats(-7, 7, "float64"), floats(-7, 7, "float64")),
    turn=st.integers(0, 11),
)
def test_irreps(group, index, angles, turn):
    irrep = answer(group.irrep, index)
    if irrep is None or index > 1000:  # which leaves an angle times it few digits
        return
    rng = np.random.default_rng(turn)
    g, h = group.random_element(rng), group.random_element(rng)
    if group is equivariance.SO2:
        g, h = angles
    matrices = [np.array(irrep.matrix(e), float) for e in (g, h, group.compose(g, h))]
    np.testing.assert_allclose(matrices[0] @ matrices[1], matrices[2], atol=1e-12)
    np.testing.assert_allclose(matrices[0] @ matrices[0].T, np.eye(irrep.dim), atol=1e-12)


@fuzz(150, group=st.sampled_from(GROUPS), text=notation | st.text(max_size=6), name=st.text(
    "SO()23CDcd1", max_size=5))  # fmt: skip
def test_notation(group, text, name):
    found = answer(equivariance.parse_representation, text, group)
    if found is not None:
        assert found.dim >= 1
        assert equivariance.parse_representation(str(found), group).dim == found.dim
    named = answer(equivariance.parse_group, name)
    assert named is None or equivariance.parse_group(named.name).name == named.name


@fuzz(80, group=st.sampled_from(GROUPS), element=anything | arrays((2, 2), floats(odd=True)),
      order=anything)  # fmt: skip
def test_elements(group, element, order):
    found = answer(group.element, element)
    if found is not None:
        matrix = np.array(found.matrix, float)
        np.testing.assert_allclose(matrix @ matrix.T, np.eye(2), atol=1e-6)
    for kind in (equivariance.Cyclic, equivariance.Dihedral):
        made = answer(kind, order)
        assert made is None or made.order == order


def test_there_are_two_thousand_cases():
    for name in ("input", "mathematics", "models", "text"):
        importlib.import_module(f"test_fuzzed_{name}")
    assert sum(PLANNED.values()) >= 2000


def test_what_was_found():
    """Once silent: NaN, infinity or a certainty out of arguments that have no answer."""
    with pytest.raises(ValueError, match="spacing comes out as inf"):
        point_spacing(np.array([[[0.0], [1e200]]]), np.zeros((1, 2, 1)))
    with pytest.raises(ValueError, match="spacing comes out as 0"):
        point_spacing(np.array([[[0.0], [1e-200]]]), np.zeros((1, 2, 1)))
    prior = {"signal_std": 1.0, "length_scale": 1.0}
    # A box so wide that its square is infinite: whole times side, as of the line.
    _, double = tfpn.math.box_integrals(np.zeros((1, 1)), low=0.0, high=1e200, **prior)
    assert float(double) == pytest.approx(np.sqrt(2 * np.pi) * 1e200)
    wide = np.outer([55.1, 48.3], [55.1, 48.3])  # of rank 1, until it is rounded
    arguments = {"signal_std": 1.0, "length_scale": 1e-3, "drift": [0.0, 0.0], "diffusion": wide}
    with pytest.raises(tf.errors.InvalidArgumentError, match="diffusion could not be factorised"):
        tfpn.math.diffused_kernel(np.zeros((1, 2), "float32"), np.zeros((1, 2)), **arguments)
    constant = tfpn.distributions.RectifiedNormal(1.0, 0.0)
    for method in ("cdf", "log_cdf", "survival_function", "log_survival_function"):
        assert np.isnan(getattr(constant, method)(np.nan))
        assert np.isfinite(getattr(constant, method)(1.0)) or "log_survival" in method
    with pytest.raises(ValueError, match=r"points has shape \(\)"):
        layers.ProbReLU()({"points": None, "values": [[[1.0]]], "variance": [[[1.0]]]})
    with pytest.raises(ValueError, match="points is a str that is not an array of numbers"):
        layers.ProbReLU()({"points": "here", "values": [[[1.0]]], "variance": [[[1.0]]]})
