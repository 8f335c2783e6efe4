"""Writes the source code of a Keras layer whose generator fulfils the constraints.

The file needs Keras and NumPy, but not this package or sympy. It holds the tensors of the
irreducible pairs as numbers. The layer has the free parameters, and computes C, B and S from them.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import keyword
import textwrap
import unicodedata
from typing import TYPE_CHECKING

import numpy as np

from equivariance.keras_template import TEMPLATE
from equivariance.second_order import second_order

if TYPE_CHECKING:
    from equivariance.parameterization import GeneratorParameterization

WIDTH = 96


def keras_source(parameterization: GeneratorParameterization, name: str = "EquivariantFlow") -> str:
    """A Keras layer with a constrained generator, as the text of a Python file.

    The layer takes fields sampled on a periodic grid, [batch, n_1, ..., n_d, channels]. If input
    and output have the same representation, it applies the flow exp(M), frequency by frequency.
    Otherwise it applies the operator M itself. Its method ``generator()`` returns the constrained
    tensors C, B and S for use elsewhere. You can differentiate them with respect to the layer's
    weights. The layer saves and loads like any Keras layer.

    Args:
        parameterization: from ``GeneratorSolution.parameterization``.
        name: name of the layer's class.

    Returns:
        The formatted source.

    Raises:
        TypeError, ValueError: if an argument has the wrong type, or the name is not a class name.

    Example:

    >>> from equivariance import SO2, solve_generators
    >>> channels = SO2.irrep(0) + SO2.irrep(1)
    >>> source = keras_source(solve_generators(channels).parameterization(), "ScalarVector")
    >>> print(*source.splitlines()[:3], sep="\\n")
    \"\"\"The flow of an equivariant PDE as a Keras layer.
    <BLANKLINE>
    Group SO2, channels 0 + 1 (3), dissipative: the flow never amplifies, whatever the weights.
    """
    kind = getattr(parameterization, "constraint", None)  # other parameterizations have none
    if kind is None:
        raise TypeError(
            "parameterization must come from solve_generators(...).parameterization(...), found "
            f"{type(parameterization).__name__}."
        )
    name = _class_name(name)
    if not parameterization.parameters:
        raise ValueError(f"{parameterization} has no parameters: there is nothing to learn.")
    solution = parameterization.solution
    flow = solution.rep_in == solution.rep_out
    factors = "factors" in parameterization.bases
    source = TEMPLATE
    text = {
        "HEADLINE": "The flow of an equivariant PDE as a Keras layer."
        if flow
        else "An equivariant differential operator as a Keras layer.",
        "DESCRIPTION": "\n".join(textwrap.wrap(_description(parameterization, flow), WIDTH)),
        "NAME": name,
        "DIM": solution.group.dim,
        "CHANNELS_IN": solution.rep_in.dim,
        "CHANNELS_OUT": solution.rep_out.dim,
        "MIDDLE": f"CHANNELS_MIDDLE = {parameterization.through.dim}\n" if factors else "",
        "TABLES": "\n".join(_tables(parameterization)),
        "CLASS_DOC": f"{'exp(M)' if flow else 'M'} applied to fields on a periodic grid, "
        "M = C + sum B_i d_i + sum S_ij d_i d_j.",
        "GENERATOR": textwrap.indent("\n".join(_generator(parameterization)), " " * 8),
        "ACTION": "_exponential(matrices) @ stacked" if flow else "matrices @ stacked",
        "SECOND_ORDER": inspect.getsource(second_order),
    }
    for key, value in text.items():
        source = source.replace(f"@{key}@", str(value))
    source = _without(_without(source, "flow", flow), "factors", factors)
    if name in _names(source):
        raise ValueError(
            f"name = {name!r} is a name that the file itself uses; choose another, such as "
            "'MyFlow'."
        )
    return source


def _class_name(name):
    if not isinstance(name, str) or not name.isidentifier() or keyword.iskeyword(name):
        raise ValueError(f"name must be the name of a class, such as 'MyFlow', found {name!r}.")
    if len(name) > 60:
        raise ValueError(f"name must have at most 60 characters, found {len(name)}.")
    name = unicodedata.normalize("NFKC", name)  # as Python reads it
    if name.startswith("__") or keyword.iskeyword(name) or hasattr(builtins, name):
        raise ValueError(
            f"name = {name!r} has a meaning in Python; choose another, such as 'MyFlow'."
        )
    return name


def _names(source):
    """All names that a module imports, defines or reads, except those of its class."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Name):
            found.add(node.id)
        elif isinstance(node, ast.FunctionDef):
            found.add(node.name)
        elif isinstance(node, ast.alias):
            found.add(node.asname or node.name)
        elif isinstance(node, ast.arg):
            found.add(node.arg)
    return found


def _without(template, section, keep):
    """The template, with a section that comment lines mark kept or removed."""
    start, end = f"#[{section}\n", f"#{section}]\n"
    before, rest = template.split(start)
    inside, after = rest.split(end)
    return before + (inside if keep else "") + after


def _plain(text):
    return " ".join(str(text).replace("\\", "/").replace('"', "'").replace("@", "(x)").split())


def _description(parameterization, flow):
    solution = parameterization.solution
    channels = f"{_plain(solution.rep_in)} ({solution.rep_in.dim})"
    if not flow:
        channels += f" to {_plain(solution.rep_out)} ({solution.rep_out.dim})"
    text = f"Group {_plain(solution.group.name)}, channels {channels}"
    if parameterization.constraint == "dissipative":
        return f"{text}, dissipative: the flow never amplifies, whatever the weights."
    if flow:
        return f"{text}, all equivariant generators: some weights amplify high frequencies."
    return f"{text}."


def _tables(parameterization):
    """The numbers: parameters, tensors of the pairs, and changes of basis."""
    solution, centers, parameters = parameterization.solution, [], []
    for p in parameterization.parameters:
        center = "0.0"
        if np.any(p.center):
            center = f"CENTER_{p.name.upper()}"
            centers += ["# Heat diffusion in every channel.", f"{center} = ["]
            centers += [*(f"    {x!r}," for x in map(float, p.center)), "]"]
        entries = (f'"{p.name}"', _tuple(p.shape), center, repr(p.scale), p.length_power)
        parameters += ["    (", *(f"        {x}," for x in entries), "    ),"]
    lines = [
        *centers,
        "# Name, shape, mean, standard deviation and power of the unit of length.",
        *("PARAMETERS = [", *parameters, "]"),
        "# Blocks of irreducible channels: kind, first output and input channel, numbers of",
        "# copies, sizes (tensors, output, input), and the tensors' entries (tensor,",
        "# derivatives, output, input, value).",
        "BLOCKS = {",
    ]
    for name, basis in parameterization.bases.items():
        blocks = (line for term in basis.terms for line in _block(term))
        lines += [f'    "{name}": [', *blocks, "    ],"]
    lines.append("}")
    for side, parts in (
        ("input", solution.decomposition_in),
        ("output", solution.decomposition_out),
    ):
        q, name = parts.change_of_basis_numpy, f"BASIS_{side.removesuffix('put').upper()}"
        lines.append(f"# Channels of the {side}: row, column and")
        lines.append("# entry of the change of basis from irreducible channels; None if it is 1.")
        if np.array_equal(q, np.eye(len(q))):
            lines.append(f"{name} = None")
            continue
        places = np.argwhere(q).tolist()
        rows = (f"    ({i}, {j}, {float(q[i, j])!r})," for i, j in places)
        lines += [f"{name} = [", *rows, "]"]
    return lines


def _block(term):
    out, inside = term.pair.out, term.pair.inside
    entries = [
        f"        ({n}, {p}, {o}, {i}, {float(tensor.array_numpy[p, o, i])!r}),"
        for n, tensor in enumerate(term.tensors)
        for p, o, i in np.argwhere(tensor.array_numpy).tolist()
    ]
    lines = [
        "(",
        f'    "{term.kind}",',
        f"    ({out.start}, {inside.start}),",
        f"    ({out.multiplicity}, {inside.multiplicity}),",
        f"    {_tuple((len(term.tensors), out.irrep.dim, inside.irrep.dim))},",
        *("    [", *entries, "    ],"),
        "),",
    ]
    return [" " * 8 + line for line in lines]


def _tuple(values):
    return repr(tuple(int(x) for x in values))


def _generator(parameterization):
    """The lines that compute C, B and S."""
    sizes = {"c": "1", "b": "DIM", "s": "DIM**2"}
    signs = {"antisymmetric": ", sign=-1.0", "symmetric": ", sign=1.0"}
    lines = []
    for (letter, size), name in zip(sizes.items(), parameterization.names, strict=True):
        if name in parameterization.bases:
            call = f'self._assemble("{name}", {size}, CHANNELS_OUT{signs.get(name, "")})'
            lines.append(f"{letter} = _to_channels({call})")
        elif letter == "s" and "factors" in parameterization.bases:
            lines += [
                "q = ops.stack(",
                "    [",
                '        self._assemble("factors", DIM, CHANNELS_MIDDLE, factor)',
                "        for factor in range(self.factors.shape[0])",
                "    ]",
                ")",
                "s = ops.reshape(second_order(q, ops.einsum), (DIM**2, CHANNELS_OUT, CHANNELS_IN))",
                "s = _to_channels(s)",
            ]
        else:
            shape = f"({size}, CHANNELS_OUT, CHANNELS_IN)"
            lines.append(f"{letter} = ops.zeros({shape}, self.variable_dtype)")
    return lines
