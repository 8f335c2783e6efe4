"""What the fuzz tests share: a decorator that makes a test of thousands of cases, and strategies.

The suite runs some two thousand cases, the same ones in every run. More of them, FUZZ_FACTOR times
as many in each test, are again the same ones in every run; 4 makes ten thousand, with their counts:

    FUZZ_FACTOR=4 python -m pytest tests/fuzzing -s
"""

import os

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

REFUSED = (ValueError, TypeError)
PLANNED = {}
FACTOR = int(os.environ.get("FUZZ_FACTOR", "1"))
TINY = {"float32": 1e-45, "float64": 5e-324}


def fuzz(cases, **strategies):
    """Makes a test of a function of generated arguments, which counts its cases."""

    def decorate(body):
        PLANNED[body.__name__] = cases

        def test():
            ran = 0

            def run(**arguments):
                nonlocal ran
                ran += 1
                # Warnings of overflow are for values that are meant to overflow.
                with np.errstate(all="ignore"):
                    body(**arguments)

            options = {"derandomize": True, "deadline": None, "database": None}
            options["suppress_health_check"] = list(HealthCheck)
            settings(max_examples=FACTOR * cases, **options)(given(**strategies)(run))()
            assert ran >= cases  # there may be no more than that
            print(f"{body.__name__}: {ran} cases")

        test.__name__, test.__doc__ = body.__name__, body.__doc__
        return test

    return decorate


def answer(function, *arguments, refusals=REFUSED, **named):
    """What a function returns, or None where it refuses with a message."""
    try:
        return function(*arguments, **named)
    except refusals as error:
        assert len(str(error)) > 10
        return None


def floats(low=None, high=None, dtype="float32", odd=False):
    """Numbers of a range, subnormal ones among them; odd ones may be NaN or infinite."""
    bounds = {}
    if low is not None:
        bounds = {"min_value": float(np.dtype(dtype).type(low))}
    if high is not None:
        bounds["max_value"] = float(np.dtype(dtype).type(high))
    return st.floats(
        **bounds, width=np.dtype(dtype).itemsize * 8, allow_nan=odd, allow_infinity=odd
    )


def arrays(shape, elements, dtype="float32"):
    return hnp.arrays(np.dtype(dtype), shape, elements=elements, fill=elements)


anything = st.one_of(
    st.none(), st.booleans(), st.integers(-3, 10**20), st.floats(), st.text(max_size=5),
    st.lists(st.floats(), max_size=3),
    st.dictionaries(st.text(max_size=3), st.floats(), max_size=2),
).map(lambda value: value)  # fmt: skip
# Mapped, it is one alternative among others and not seven.


@st.composite
def observations(draw, dtype=None, dim=None, channels=None, size=1e3, examples=2, points=4):
    """Valid observations; points may coincide, all may be missing."""
    dtype = dtype or draw(st.sampled_from(["float32", "float64"]))
    dim, channels = dim or draw(st.integers(1, 3)), channels or draw(st.integers(1, 2))
    shape = draw(st.tuples(st.integers(1, examples), st.integers(1, points)))
    near = st.sampled_from([0.0, 1.0, 0.5, -0.25, TINY[dtype]])
    points = draw(arrays((*shape, dim), near | floats(-3, 3, dtype), dtype))
    values = draw(arrays((*shape, channels), floats(-size, size, dtype), dtype))
    noise = st.sampled_from([0.0, np.inf, 0.1, TINY[dtype], 1e30]) | floats(0, 10, dtype)
    variance = draw(arrays((*shape, 1), noise, dtype))
    variance = np.repeat(variance, channels, axis=-1)
    return {"points": points, "values": values, "variance": variance}


scales = st.sampled_from([0.1, 1.0]) | floats(1e-3, 1e3, "float64")
both_types = st.sampled_from(["float32", "float64"])
odd_prior = st.sampled_from([0.0, -1.0, np.nan, np.inf])
