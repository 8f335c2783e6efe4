"""Cholesky factors, triangular systems and erfc, built from ONNX's own operations.

ONNX has no operation for them. They are functions of the domain "tfpn" inside the file, so that any
runtime can compute them. The linear algebra loops over the columns, with any number of batch axes.
"""

import math
from typing import Any

import onnx.parser
import tensorflow as tf

from tfpn.math.activations.rectified import M2_COEFFICIENTS

DOMAIN = "tfpn"
OPSET = 18
DTYPES = ("float", "double")  # their names in ONNX

_HEAD = f"""
<domain: "{DOMAIN}", opset_import: ["" : {OPSET}]>
{{name}} ({{inputs}}) => (x)
{{{{
  shape = Shape <start = -1> (a)
  n = Squeeze (shape)
  zero = Constant <value = int64 {{{{0}}}}> ()
  one = Constant <value = int64 {{{{1}}}}> ()
  first = Constant <value = int64[1] {{{{0}}}}> ()
  last = Constant <value = int64[1] {{{{-1}}}}> ()
  range = Range (zero, n, one)
"""
# `left` is the matrix that remains after i steps; `found` holds the columns or rows known so far.
_LOOP = """<body = step (int64 i, bool go, {dtype}[] left, {dtype}[] found)
    => (bool on, {dtype}[] next_left, {dtype}[] next_found) {{
    on = Identity (go)
"""

_CHOLESKY = """
  zeros = Sub (a, a)
  rest, full = Loop (n, , a, zeros) {loop}
    at = Unsqueeze (i, first)
    column = Gather <axis = -1> (left, at)
    row = Gather <axis = -2> (left, at)
    pivot = Gather <axis = -2> (column, at)
    root = Sqrt (pivot)
    below = Div (column, root)
    beside = Div (row, root)
    product = Mul (below, beside)
    next_left = Sub (left, product)
    is_here = Equal (range, i)
    here = CastLike (is_here, left)
    placed = Mul (below, here)
    next_found = Add (found, placed)
  }}>
  x = Trilu <upper = 0> (full)
}}
"""

_SOLVE = """
  some = Gather <axis = -1> (a, first)
  nought = Sub (some, some)
  given = Add (b, nought)
  zeros = Sub (given, given)
  rest, x = Loop (n, , given, zeros) {loop}
    {order}
    at = Unsqueeze (j, first)
    {column}
    pivot = Gather <axis = -2> (column, at)
    known = Gather <axis = -2> (left, at)
    value = Div (known, pivot)
    product = Mul (column, value)
    next_left = Sub (left, product)
    is_here = Equal (range, j)
    flat = CastLike (is_here, left)
    here = Unsqueeze (flat, last)
    placed = Mul (here, value)
    next_found = Add (found, placed)
  }}>
}}
"""
_FORWARD = {"order": "j = Identity (i)", "column": "column = Gather <axis = -1> (a, at)"}
_BACKWARD = {
    "order": "after = Add (i, one)\n    j = Sub (n, after)",
    "column": "row = Gather <axis = -2> (a, j)\n    column = Unsqueeze (row, last)",
}


def functions() -> list[Any]:
    """The functions that a file may call: ``Cholesky_float`` and so on.

    ``Cholesky`` returns the lower factors of symmetric matrices [..., n, n]. ``SolveLower`` and
    ``SolveLowerTransposed`` solve systems with lower matrices a [..., n, n], or their transposes,
    for b [..., n, m]. ``Erfc_double`` is needed because runtimes have the error function in single
    precision only.
    """
    return [onnx.parser.parse_function(_erfc())] + [
        onnx.parser.parse_function(text)
        for dtype in DTYPES
        for text in (
            _function(f"Cholesky_{dtype}", "a", _CHOLESKY, dtype),
            _function(f"SolveLower_{dtype}", "a, b", _SOLVE, dtype, **_FORWARD),
            _function(f"SolveLowerTransposed_{dtype}", "a, b", _SOLVE, dtype, **_BACKWARD),
        )
    ]


def _function(name, inputs, body, dtype, **parts):
    loop = _LOOP.format(dtype=dtype)
    return _HEAD.format(name=name, inputs=inputs) + body.format(loop=loop, **parts)


def _erfc():
    """2 Phi(-sqrt(2) x) in double precision, computed as in `tfpn.math.activations.rectified`."""
    lines = []

    def constant(name, value):
        lines.append(f"{name} = Constant <value = double {{{value!r}}}> ()")

    def polynomial(name, coefficients):
        *lower, highest = coefficients
        constant(f"{name}_{len(lower)}", highest)
        for power in reversed(range(len(lower))):
            constant(f"{name}_c{power}", lower[power])
            lines.append(f"{name}_t{power} = Mul ({name}_{power + 1}, t)")
            lines.append(f"{name}_{power} = Add ({name}_t{power}, {name}_c{power})")

    for name, value in (
        *(("zero", 0.0), ("one", 1.0), ("two", 2.0), ("half", -0.5), ("largest", 1e3)),
        *(("root", math.sqrt(2.0)), ("height", 1.0 / math.sqrt(2.0 * math.pi))),
    ):
        constant(name, value)
    lines += ["size = Abs (x)", "scaled = Mul (size, root)", "t = Min (scaled, largest)"]
    for name, coefficients in zip(("p", "q"), M2_COEFFICIENTS[tf.float64], strict=True):
        polynomial(name, coefficients)
    lines += """
        square = Mul (t, t)
        exponent = Mul (square, half)
        bell = Exp (exponent)
        density = Mul (bell, height)
        ratio = Div (p_0, q_0)
        second = Mul (density, ratio)
        less = Mul (t, second)
        above = Sub (density, less)
        under = Add (square, one)
        first = Div (above, under)
        more = Mul (t, first)
        tail = Add (second, more)
        upper = Mul (two, tail)
        lower = Sub (two, upper)
        is_negative = Less (x, zero)
        y = Where (is_negative, lower, upper)
    """.strip().splitlines()
    body = "\n  ".join(line.strip() for line in lines)
    head = f'<domain: "{DOMAIN}", opset_import: ["" : {OPSET}]>'
    return f"{head}\nErfc_double (x) => (y)\n{{\n  {body}\n}}"
