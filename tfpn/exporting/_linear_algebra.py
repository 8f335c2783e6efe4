"""Cholesky factor and triangular systems out of ONNX's own operations.

ONNX has no operation for them. Here they are functions of the domain "tfpn" that travel in the
file, so that any runtime can carry them out: loops over the columns, with batches in any number of
leading axes.
"""

import onnx.parser

DOMAIN = "tfpn"
OPSET = 18
DTYPES = ("float", "double")  # as ONNX writes them

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
# left is what remains after i steps, and found the columns or rows known by then.
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


def functions():
    """The functions that a file may call: ``Cholesky_float`` and so on.

    ``Cholesky`` takes symmetric matrices [..., n, n] and gives their lower factors;
    ``SolveLower`` and ``SolveLowerTransposed`` solve with lower matrices a [..., n, n], or their
    transposes, for b [..., n, m].
    """
    return [
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
