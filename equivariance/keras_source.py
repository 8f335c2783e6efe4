"""Source code of a Keras layer whose generator fulfils the constraints: a file of its own.

The file needs Keras and NumPy, not this package or sympy. It holds the irreducible pairs' tensors
as numbers, owns the free parameters, and computes C, B and S from them.
"""

import ast
import builtins
import keyword
import textwrap
import unicodedata

import numpy as np

from equivariance.exact import to_numpy
from equivariance.keras_template import TEMPLATE
from equivariance.parameterization import GeneratorParameterization

WIDTH = 96


def keras_source(parameterization, name="EquivariantFlow"):
    """A Keras layer with a constrained generator, as the text of a Python file.

    The layer takes fields sampled on a periodic grid, [batch, n_1, ..., n_d, channels]. Where
    input and output representation are the same it applies the flow exp(M), frequency by
    frequency; otherwise the operator M itself. Its method ``generator()`` returns the constrained
    tensors C, B and S, differentiable with respect to the layer's weights, for use elsewhere.
    It saves and loads as any Keras layer.

    Args:
        parameterization: from ``GeneratorSolution.parameterization``.
        name: of the layer's class.

    Returns:
        The source, formatted.

    Raises:
        TypeError, ValueError: if an argument is of another kind, or the name is no class name.

    Example:

    >>> from equivariance import SO2, solve_generators
    >>> channels = SO2.irrep(0) + SO2.irrep(1)
    >>> source = keras_source(solve_generators(channels).parameterization(), "ScalarVector")
    >>> print(*source.splitlines()[:3], sep="\\n")
    \"\"\"The flow of an equivariant PDE as a Keras layer.
    <BLANKLINE>
    Group SO2, channels 0 + 1 (3), dissipative: the flow never amplifies, whatever the weights.
    """
    if not isinstance(parameterization, GeneratorParameterization):
        raise TypeError(
            "parameterization must come from solve_generators(...).parameterization(...), found "
            f"{type(parameterization).__name__}."
        )
    name = _class_name(name)
    if not parameterization.parameters:
        raise ValueError(f"{parameterization} has no parameters: there is nothing to learn.")
    solution = parameterization.solution
    flow = solution.rep_in == solution.rep_out
    template = TEMPLATE
    text = {
        "HEADLINE": "The flow of an equivariant PDE as a Keras layer."
        if flow
        else "An equivariant differential operator as a Keras layer.",
        "DESCRIPTION": "\n".join(textwrap.wrap(_description(parameterization, flow), WIDTH)),
        "NAME": name,
        "DIM": str(solution.group.dim),
        "CHANNELS_IN": str(solution.rep_in.dim),
        "CHANNELS_OUT": str(solution.rep_out.dim),
        "MIDDLE": _middle(parameterization),
        "TABLES": "\n".join(_tables(parameterization)),
        "CLASS_DOC": _class_doc(flow),
        "GENERATOR": _generator(parameterization),
        "ACTION": "_exponential(matrices) @ stacked" if flow else "matrices @ stacked",
    }
    for key, value in text.items():
        template = template.replace(f"@{key}@", value)
    source = _without(template, "flow", flow)
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
    """All names that a module imports, defines or reads, but for those of its class."""
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
    """The template with a section marked by comment lines kept or removed."""
    start, end = f"#[{section}\n", f"#{section}]\n"
    before, rest = template.split(start)
    inside, after = rest.split(end)
    return before + (inside if keep else "") + after


def _plain(text):
    return " ".join(str(text).replace("\\", "/").replace('"', "'").replace("@", "(x)").split())


def _description(parameterization, flow):
    solution = parameterization.solution
    rep_in, rep_out = _plain(solution.rep_in), _plain(solution.rep_out)
    channels = f"{rep_in} ({solution.rep_in.dim})"
    if not flow:
        channels = f"{channels} to {rep_out} ({solution.rep_out.dim})"
    text = f"Group {_plain(solution.group.name)}, channels {channels}"
    if parameterization.constraint == "dissipative":
        return f"{text}, dissipative: the flow never amplifies, whatever the weights."
    if flow:
        return f"{text}, all equivariant generators: some weights amplify high frequencies."
    return f"{text}."


def _class_doc(flow):
    if flow:
        return (
            "exp(M) applied to fields on a periodic grid, M = C + sum B_i d_i + sum S_ij d_i d_j."
        )
    return "M = C + sum B_i d_i + sum S_ij d_i d_j applied to fields on a periodic grid."


def _middle(parameterization):
    if "factors" not in parameterization.bases:
        return ""
    return f"CHANNELS_MIDDLE = {parameterization.through.dim}\n"


def _tables(parameterization):
    lines = ["# Name, shape, mean, standard deviation and power of the unit of length."]
    lines.append("PARAMETERS = [")
    for p in parameterization.parameters:
        center = f"CENTER_{p.name.upper()}" if np.any(p.center) else "0.0"
        lines += [
            "    (",
            f'        "{p.name}",',
            f"        {_tuple(p.shape)},",
            f"        {center},",
        ]
        lines += [f"        {p.scale!r},", f"        {p.length_power},", "    ),"]
    lines.append("]")
    centers = []
    for p in parameterization.parameters:
        if np.any(p.center):
            centers.append("# Heat diffusion in every channel.")
            centers.append(f"CENTER_{p.name.upper()} = [")
            centers += [f"    {x!r}," for x in map(float, p.center)]
            centers.append("]")
    lines = centers + lines
    lines.append(
        "# Blocks of irreducible channels: kind, first output and input channel, numbers of"
    )
    lines.append("# copies, sizes (tensors, output, input), and the tensors' entries (tensor,")
    lines.append("# derivatives, output, input, value).")
    lines.append("BLOCKS = {")
    for name, basis in parameterization.bases.items():
        lines.append(f'    "{name}": [')
        for block in basis.blocks:
            lines += _block(block, basis.order)
        lines.append("    ],")
    lines.append("}")
    solution = parameterization.solution
    for side, parts in (
        ("IN", solution.decomposition_in),
        ("OUT", solution.decomposition_out),
    ):
        q = parts.change_of_basis_numpy
        lines.append(f"# Channels of the {'input' if side == 'IN' else 'output'}: row, column and")
        lines.append("# entry of the change of basis from irreducible channels; None if it is 1.")
        if np.array_equal(q, np.eye(len(q))):
            lines.append(f"BASIS_{side} = None")
            continue
        lines.append(f"BASIS_{side} = [")
        lines += [f"    ({i}, {j}, {float(q[i, j])!r})," for i, j in np.argwhere(q).tolist()]
        lines.append("]")
    return lines


def _block(block, order):
    if hasattr(block, "kind"):  # a SymmetricBlock
        pair, kind, tensors = block.pair, block.kind, block.tensors
    else:
        pair, kind, tensors = block, "free", block.basis(order)
    out, inside = pair.out, pair.inside
    sizes = (len(tensors), out.irrep.dim, inside.irrep.dim)
    lines = ["        (", f'            "{kind}",', f"            ({out.start}, {inside.start}),"]
    lines.append(f"            ({out.multiplicity}, {inside.multiplicity}),")
    lines += [f"            {_tuple(sizes)},", "            ["]
    for n, tensor in enumerate(tensors):
        array = to_numpy(tensor)
        array = array.reshape(-1, *array.shape[-2:])
        for p, o, i in np.argwhere(array).tolist():
            lines.append(f"                ({n}, {p}, {o}, {i}, {float(array[p, o, i])!r}),")
    return [*lines, "            ],", "        ),"]


def _tuple(values):
    values = [str(int(x)) for x in values]
    return f"({values[0]},)" if len(values) == 1 else f"({', '.join(values)})"


def _generator(parameterization):
    lines = []
    shapes = {"c": "(1, CHANNELS_OUT, CHANNELS_IN)", "b": "(DIM, CHANNELS_OUT, CHANNELS_IN)"}
    names = {"c": "zeroth_order", "b": "first_order", "s": "second_order"}
    if parameterization.constraint == "dissipative":
        names = {"c": "antisymmetric", "b": "symmetric"}
    sizes = {"c": "1", "b": "DIM", "s": "DIM**2"}
    signs = {"antisymmetric": -1.0, "symmetric": 1.0}
    for letter, name in names.items():
        if name in parameterization.bases:
            call = f'self._assemble("{name}", {sizes[letter]}, CHANNELS_OUT'
            call += f", sign={signs[name]})" if name in signs else ")"
            lines.append(f"{letter} = _to_channels({call})")
        elif letter == "s":
            lines.append("s = ops.zeros((DIM**2, CHANNELS_OUT, CHANNELS_IN), self.variable_dtype)")
        else:
            lines.append(f"{letter} = ops.zeros({shapes[letter]}, self.variable_dtype)")
    if parameterization.constraint == "dissipative":
        lines += _factors("factors" in parameterization.bases)
    return "\n".join(f"        {line}" for line in lines)


def _factors(present):
    if not present:
        return ["s = ops.zeros((DIM**2, CHANNELS_OUT, CHANNELS_IN), self.variable_dtype)"]
    return [
        "# S_ij = 1/4 sum over factors Q of Q_i^T Q_j + Q_j^T Q_i.",
        "s = 0.0",
        "for factor in range(self.factors.shape[0]):",
        '    q = self._assemble("factors", DIM, CHANNELS_MIDDLE, factor)',
        '    product = ops.einsum("ima,jmb->ijab", q, q)',
        "    s = s + (product + ops.swapaxes(product, 0, 1)) / 4.0",
        "s = _to_channels(ops.reshape(s, (DIM**2, CHANNELS_OUT, CHANNELS_IN)))",
    ]
