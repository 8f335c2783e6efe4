"""Measures how far a model or layer commutes with rotations and reflections."""

import dataclasses
import numbers
from typing import Any

import numpy as np
from scipy.sparse import csgraph

from tfpn.contract import KEYS, check_query
from tfpn.types import Model, Observations


@dataclasses.dataclass(frozen=True)
class EquivarianceReport:
    """What `check_equivariance` measured.

    Attributes:
        group: name of the group.
        elements: number of group elements that were tried.
        centre: the point that the elements leave in place, a tuple.
        errors: the largest error of each compared array, relative to the array's largest magnitude.
            A dict with the keys "values" and, if the output has a finite one, "variance". A model
            of several outputs puts the output's name first, as in "wind.values". The error is
            infinite if one of two results that should agree is not finite.
        field_errors: the largest error of each field, relative to the field's own largest
            magnitude. A dict with the same keys, of dicts from the field's channels, such as
            (1, 2). A field is a set of channels that the group mixes with each other: a scalar, or
            the components of a vector. So you see the error of a small field, which a large field
            hides in ``errors``. You also see the rounding of fields that are nearly 0.
        dtype: dtype of the results.
    """

    group: str
    elements: int
    centre: tuple
    errors: dict
    field_errors: dict
    dtype: str

    @property
    def largest(self) -> float:
        """The largest of the errors."""
        return max(self.errors.values())

    def __str__(self):
        centre = ", ".join(f"{x:.4g}" for x in self.centre)
        lines = [
            f"{self.group}, {self.elements} random elements about ({centre}), {self.dtype}: "
            "largest relative errors"
        ]
        width = max(map(len, self.errors))
        for name, error in self.errors.items():
            lines.append(f"  {name:<{width}}  {error:.1e}")
            fields = self.field_errors[name]
            if len(fields) > 1:
                channels, worst = max(fields.items(), key=lambda item: item[1])
                lines[-1] += f"  (by field to {worst:.1e}, channels {list(channels)})"
        return "\n".join(lines)


def check_equivariance(
    model: Model,
    x: Observations,
    group: Any,
    n: int = 8,
    *,
    rep_in: Any = None,
    rep_out: Any = None,
    centre: Any = None,
    batch_size: int = 32,
    seed: int = 0,
) -> EquivarianceReport:
    """Moves a model's input by random elements of a group and compares the outputs.

    For each element g the points x become ``g (x - centre) + centre``, and so do query points. The
    input's fields f become ``rho_in(g) f``. A model that commutes with the group then gives
    ``rho_out(g)`` times its first output, and the same variances. It does so up to rounding: about
    1e-6 for float32. The check assumes nothing about the model. A model that does not commute, such
    as `PNCNN` with rotations, gets large errors.

    Args:
        model: a model of `tfpn.models`, a layer of `tfpn.layers`, or a Keras model of such layers.
            The check compares outputs. If the model has a `predict_distribution` of finite
            variance, it compares the mean and variance of that.
        x: the observations dict of the model. A field regressor, or a convolution that you want to
            evaluate elsewhere, takes a key "query", [B, M, d] or [1, M, d].
        group: `equivariance.SO2`, `O2`, `Cyclic(n)` or `Dihedral(n)`, `SO3` or `O3` in space, or
            any other group that acts on the points' space.
        n: number of random elements. None of them is the identity.
        rep_in, rep_out: how the group acts on the channels of input and output: a field type as in
            `tfpn.layers.SteerablePNConv`, such as ``{0: 2, 1: 1}``, or a representation. The
            default is what ``model`` says, or scalars if it says nothing. For several outputs
            ``rep_out`` may be a dict from their names.
        centre: a point [d] that the group leaves in place. The default is the centre of the disc
            or ball that the model pools over, or else the mean of the observed points.
        batch_size: number of examples at a time.
        seed: seed of the random elements.

    Returns:
        An `EquivarianceReport`, which prints as a small table: the errors relative to the largest
        value of all channels, and the largest error of a field relative to that field's own.

    Raises:
        ValueError: if the points do not have the dimension that the group acts on; if a
            representation has another number of channels; if the arrays of ``x`` do not agree or
            are empty; if the model takes query points and they are missing or not finite; or if
            ``n``, ``batch_size``, ``centre`` or ``seed`` is out of range.
        TypeError: if an argument has the wrong type.

    Example:

    >>> import numpy as np, tfpn
    >>> from equivariance import SO2
    >>> rng = np.random.default_rng(0)
    >>> x = tfpn.observations(rng.uniform(size=(2, 15, 2)), rng.normal(size=(2, 15)), 0.01)
    >>> layer = tfpn.layers.SteerablePNConv({0: 1, 1: 1}, spacing=0.2, dtype="float64")
    >>> tfpn.check_equivariance(layer, x, SO2, n=3).largest < 1e-12
    True
    >>> plain = tfpn.layers.PNConv(2, spacing=0.2)
    >>> tfpn.check_equivariance(plain, x, SO2, n=3).largest > 0.1
    True
    """
    x = _read_input(model, x)
    batch_size = _count("batch_size", batch_size)
    if isinstance(seed, bool) or not isinstance(seed, numbers.Integral) or seed < 0:
        raise ValueError(f"seed must be a whole number of at least 0, found {seed!r}.")
    elements = _random_elements(group, n, x["points"].shape[-1], np.random.default_rng(seed))
    centre = _read_centre(_centre(model, x) if centre is None else centre, group.dim)
    if rep_in is None:
        rep_in = getattr(model, "in_fields", getattr(model, "fields", None))
    if rep_out is None:
        rep_out = getattr(model, "output_fields", getattr(model, "fields", None))
    expected = _outputs(model, x, batch_size)
    rhos = {}
    for name, parts in expected.items():
        rep = rep_out[name] if _by_name(rep_out, expected) else rep_out
        channels = parts["values"].shape[-1]
        rhos[name] = [_matrix(rep, element, channels, "rep_out") for element in elements]
    fields = {name: _fields(matrices) for name, matrices in rhos.items()}
    errors = {(name, key): 0.0 for name, parts in expected.items() for key in parts}
    field_errors = {(name, key): dict.fromkeys(fields[name], 0.0) for name, key in errors}
    for number, element in enumerate(elements):
        found = _outputs(model, _moved(x, element, centre, rep_in), batch_size)
        for name, key in errors:
            part, rho = expected[name][key], rhos[name][number]
            turned = _acted(np.square(rho) if key == "variance" else rho, part)
            difference = _difference(found[name][key], turned, key)
            errors[name, key] = max(errors[name, key], difference / _size(part))
            for field in fields[name]:
                mine = np.s_[..., list(field)]
                difference = _difference(found[name][key][mine], turned[mine], key)
                error = max(field_errors[name, key][field], difference / _size(part[mine]))
                field_errors[name, key][field] = error
    for name, key in list(errors):
        # The output has no variance, like an integral over the whole plane.
        if np.isposinf(expected[name][key]).all() and not errors[name, key]:
            del errors[name, key]
    dtype = str(next(iter(expected.values()))["values"].dtype)
    return EquivarianceReport(
        group=group.name,
        elements=len(elements),
        centre=tuple(centre.tolist()),
        errors={_label(*key): error for key, error in errors.items()},
        field_errors={_label(*key): field_errors[key] for key in errors},
        dtype=dtype,
    )


def _read_input(model, x):
    if not callable(model):
        raise TypeError(f"model must be a Keras model or layer, found {type(model).__name__}.")
    if not isinstance(x, dict) or set(x) - {"query"} != set(KEYS):
        found = sorted(x) if isinstance(x, dict) else type(x).__name__
        raise TypeError(
            f"x must be a dict with the keys {', '.join(KEYS)}, and query if the model takes it "
            f"(see tfpn.observations); found {found}."
        )
    dtype = getattr(model, "algebra_dtype", None)
    if dtype is None and hasattr(model, "inputs_dict"):
        dtype = model.inputs_dict["points"].dtype
    x = {key: np.asarray(value) for key, value in x.items()}
    for key, value in x.items():
        if value.dtype.kind not in "biuf":
            raise TypeError(f"{key} must hold real numbers, found the dtype {value.dtype}.")
        if value.ndim != 3:
            raise ValueError(f"{key} has shape {value.shape}; expected three axes.")
    points, values, variance = (x[key].shape for key in KEYS)
    if values[:2] != points[:2] or variance != values or 0 in (*points, *values):
        raise ValueError(
            f"points, values and variance have the shapes {points}, {values} and {variance}; "
            "expected [B, N, d], [B, N, c] and [B, N, c] with the same B, N and c, none of them 0."
        )
    if not np.isfinite(x["variance"].astype(float)).any():
        raise ValueError("x holds no observation: variance is infinite everywhere.")
    if "query" in x:
        query = check_query(x["query"], examples=points[0], spatial_dim=points[-1])
        if query.size == 0:
            raise ValueError(f"query has shape {query.shape}: give at least one point.")
        x = {**x, "query": query}
    elif "query" in getattr(model, "inputs_dict", ()):
        raise ValueError(
            "x has no query: the model predicts fields at query points. Put them into x under the "
            f"key query, [{points[0]}, M, {points[-1]}]."
        )
    x = {key: value.astype(dtype or value.dtype) for key, value in x.items()}
    # Values stored where nothing is observed do not turn and must not count.
    x["values"] = np.where(np.isfinite(x["variance"]), x["values"], 0.0).astype(x["values"].dtype)
    return x


def _random_elements(group, n, dim, rng):
    if not hasattr(group, "random_element"):
        raise TypeError(
            f"group must be a group of the package equivariance, such as SO2, found {group!r}."
        )
    if group.dim != dim:
        raise ValueError(
            f"{group.name} acts on space of {group.dim} dimensions, but points have {dim}; give a "
            "group that acts on the points."
        )
    n, found = _count("n", n), []
    for _ in range(1000 * n):
        element = group.random_element(rng)
        if not np.allclose(_plain(element), np.eye(dim)):
            found.append(element)
        if len(found) == n:
            return found
    raise ValueError(
        f"{group.name} seems to have no element but the identity; give a larger group."
    )


def _count(name, value):
    if isinstance(value, bool) or not isinstance(value, numbers.Integral) or value < 1:
        raise ValueError(f"{name} must be a whole number of at least 1, found {value!r}.")
    return int(value)


def _read_centre(centre, dim):
    try:
        found = np.asarray(centre, np.float64)
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"centre must be a point of {dim} coordinates, found {centre!r}."
        ) from error
    if found.shape != (dim,):
        raise ValueError(
            f"centre must be a point of {dim} coordinates, found the shape {found.shape}."
        )
    if not np.isfinite(found).all():
        raise ValueError(f"centre must have finite coordinates, found {found.tolist()}.")
    return found


def _plain(element):
    """The element's matrix on space in float64."""
    return np.array(element.matrix, dtype=np.float64)


def _centre(model, x):
    for layer in (model, *getattr(model, "layers", ())):
        ball = getattr(layer, "disc", None) or getattr(layer, "ball", None)
        if ball:
            return ball["centre"]
    observed = np.isfinite(x["variance"]).any(-1)
    if not observed.any():
        raise ValueError("x holds no observed point; give at least one.")
    return x["points"][observed].mean(0, dtype=np.float64)


def _moved(x, element, centre, rep_in):
    """The input after the element has acted on it, in its dtype."""
    matrix = _plain(element)
    rho = _matrix(rep_in, element, x["values"].shape[-1], "rep_in")
    moved = {key: (x[key] - centre) @ matrix.T + centre for key in ("points", "query") if key in x}
    moved["values"] = _acted(rho, x["values"])
    moved["variance"] = _acted(np.square(rho), x["variance"])
    return {key: moved[key].astype(value.dtype) for key, value in x.items()}


def _acted(rho, channels):
    """``rho channels`` over the last axis, infinite where a channel that counts is infinite."""
    finite = np.isfinite(channels)
    result = np.where(finite, channels, 0.0).astype(np.float64) @ rho.T
    return np.where((~finite).astype(float) @ (np.abs(rho) > 1e-9).T > 0.0, np.inf, result)


def _matrix(rep, element, channels, name):
    """The matrix rho of an element, of a representation or field type; scalars for None."""
    if rep is None:
        return np.eye(channels)
    if hasattr(rep, "matrix"):
        rho = np.array(rep.matrix(element), dtype=np.float64)
    else:
        rho = _of_fields(rep, element, name)
    if rho.shape != (channels, channels):
        raise ValueError(f"{name} {rep} has {len(rho)} channels, but there are {channels}.")
    return rho


def _of_fields(fields, element, name):
    from tfpn.math.steerable.fields import read_fields  # it loads TensorFlow
    from tfpn.math.steerable.groups import LARGEST

    dim = len(_plain(element))
    pairs = read_fields(fields, name, group=LARGEST[dim if dim in LARGEST else 2])
    blocks = [_of_field(m, element, dim, f"{name} {fields}") for m, n in pairs for _ in range(n)]
    rho, start = np.zeros((sum(map(len, blocks)),) * 2), 0
    for block in blocks:
        end = start + len(block)
        rho[start:end, start:end] = np.array(block, dtype=np.float64)
        start = end
    return rho


def _of_field(frequency, element, dim, where):
    if frequency == 0:
        return np.eye(1)
    if dim == 3:
        from equivariance import O3

        spin, parity = (int(frequency[:-1]), -1) if isinstance(frequency, str) else (frequency, 1)
        return O3.irrep(spin, parity).matrix(_plain(element))
    elif frequency == "0-":
        return np.linalg.det(_plain(element)).round().reshape(1, 1)
    elif hasattr(element, "rotated"):
        return element.rotated(frequency)
    raise ValueError(
        f"{where} are fields on which this group does not act; give a representation of the group."
    )


def _fields(matrices):
    """Sets of channels that matrices mix with each other, as sorted tuples."""
    mixed = np.any([np.abs(rho) > 1e-9 for rho in matrices], axis=0)
    _, labels = csgraph.connected_components(mixed, directed=False)
    return [tuple(np.flatnonzero(labels == label).tolist()) for label in np.unique(labels)]


def _size(part):
    """The largest finite magnitude; not 0."""
    return max(float(np.max(np.abs(part[np.isfinite(part)]), initial=0.0)), 1e-300)


def _label(name, key):
    return f"{name}.{key}" if name else key


def _by_name(rep, outputs):
    return isinstance(rep, dict) and bool(rep) and set(rep) == set(outputs)


def _outputs(model, x, batch_size):
    """A dict from names to dicts of values and, if there is one, variance, as NumPy arrays."""
    if getattr(model, "finite_variance", False):
        predicted = model.predict_distribution(x, batch_size=batch_size)
        return {"": {"values": predicted.mean().numpy(), "variance": predicted.variance().numpy()}}
    parts = []
    for start in range(0, len(x["points"]), batch_size):
        part = {key: value[start : start + batch_size] for key, value in x.items()}
        if "query" in part and not hasattr(model, "inputs"):  # a layer
            query = part.pop("query")
            parts.append(_named(model(part, query)))
        else:
            parts.append(_named(model(part)))
    return {
        name: {key: np.concatenate([part[name][key] for part in parts]) for key in parts[0][name]}
        for name in parts[0]
    }


def _named(output):
    """A model's outputs by name; a single output has the name ""."""
    if not isinstance(output, dict):
        if isinstance(output, (list, tuple)):
            raise TypeError(
                "the model gives a list of outputs; build it with a dict of named outputs."
            )
        return {"": {"values": np.asarray(output)}}
    if "values" not in output:
        return {name: _named(part)[""] for name, part in output.items()}
    found = {"values": np.asarray(output["values"])}
    if "variance" in output:
        found["variance"] = np.asarray(output["variance"])
    return {"": found}


def _difference(found, expected, key):
    """The largest difference; infinite if one is not finite. Only a variance may be +inf."""
    infinite = np.isposinf(expected)
    broken = [~np.isfinite(part) & ~np.isposinf(part) for part in (found, expected)]
    if np.any(broken) or not np.array_equal(np.isposinf(found), infinite):
        return np.inf
    if key == "values" and infinite.any():
        return np.inf
    difference = np.abs(np.asarray(found, np.float64)[~infinite] - expected[~infinite])
    return float(np.max(difference, initial=0.0))
