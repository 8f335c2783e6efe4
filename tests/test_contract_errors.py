"""What `observations` and `check_observations` say of what they cannot take."""

import numpy as np
import pytest
from contract_examples import changed, formed

from tfpn.contract import check_observations, observations

P, V = np.zeros((2, 3, 2)), np.zeros((2, 3, 1))


@pytest.mark.parametrize(
    "arguments, error, match",
    [
        ((P[0], V), ValueError, r"points: .* rank 2 .*\[3, 2\]; give \[B, N, d\], or a list"),
        ((P, V[0, 0]), ValueError, r"values: .* rank 1 .* or, for one channel, \[B, N\]"),
        ((P, V, P[None]), ValueError, r"variance: .* rank 4"),
        (([[0.0], [1.0]], V), ValueError, r"points: example 0 has rank 1 .*give \[N_i, d\]\."),
        ((list(P), [V[0], V]), ValueError, r"values: example 1 has rank 3 .*\[N_i\]"),
        ((P[:0], V[:0]), ValueError, r"points: found no examples; give at least one"),
        (([], []), ValueError, r"points: found no examples"),
        ((P, V, []), ValueError, r"variance: found no examples"),
        ((P[..., :0], V), ValueError, r"points: .*\[2, 3, 0\]; the last axis must not be empty"),
        (([P[0], P[1, :, :0]], V), ValueError, r"points: example 1 has the shape \[3, 0\]"),
        (([[], []], [[], []]), ValueError, r"points: every example is empty .* d; .*\[0, d\]"),
        (
            ([P[0, :0]], [[]]),
            ValueError,
            r"values: every example is empty and none tells the number of channels c; .*\[0, c\]",
        ),
        ((P, V[:1]), ValueError, r"values: found 1 examples, but points has 2"),
        ((P, V[:, :2]), ValueError, r"values: example 0 has 2 points, but points has 3 there"),
        (
            ([P[0], P[1]], [V[0], V[1, :1]]),
            ValueError,
            r"values: example 1 has 1 points, but points has 3 there",
        ),
        (([P[0], P[1, :, :1]], V), ValueError, r"points: example 1 .*\[3, 1\], but example 0 has"),
        ((P, V, np.zeros((2, 3, 2))), ValueError, r"variance: found 2 channels, .* has 1"),
        ((P, V, [0.1, 0.2]), ValueError, r"variance: found 2 numbers for 1 channels"),
        ((P, V, V[:1]), ValueError, r"variance: found 1 examples, but values has 2"),
        ((P, V, V[:, :1]), ValueError, r"variance: example 0 has 1 points, but values has 3"),
        (
            (changed(P, (1, 2, 0), np.nan), V),
            ValueError,
            r"points: example 1, point 2 has the coordinates \[nan, 0\.0\]; .*Remove",
        ),
        ((changed(P, (0, 1, 1), -np.inf), V), ValueError, r"points: example 0, point 1 .*-inf"),
        (
            (P, changed(V, (1, 0, 0), np.inf)),
            ValueError,
            r"values: example 1, point 0, channel 0 is inf; .*Give NaN",
        ),
        (
            (P, V, changed(V, (1, 2, 0), -0.5)),
            ValueError,
            r"variance: example 1, point 2, channel 0 is -0\.5; a variance is not negative",
        ),
        ((P, V + np.nan, -1.0), ValueError, r"variance: example 0, point 0, .* -1\.0; .*negative"),
        ((P, V, -np.inf), ValueError, r"variance: example 0, point 0, channel 0 is -inf"),
        (
            (P, V, changed(V, (0, 1, 0), np.nan)),
            ValueError,
            r"variance: example 0, point 1, channel 0 is nan; .*needs a variance",
        ),
        (
            (np.full((1, 2, 1), 2**24 + 1), np.ones((1, 2), np.float32)),
            ValueError,
            r"points: example 0, point 0 .*16777217, which float32 rounds; .*origin",
        ),
        (([[[1.0], [1.0, 2.0]]], [[1.0, 2.0]]), ValueError, r"points: example 0: cannot be read"),
        (("text", V), TypeError, r"points: found str of dtype"),
        ((P, V.astype(object)), TypeError, r"values: found ndarray of dtype object"),
        ((P, V, "none"), TypeError, r"variance: found str"),
        ((P, [V[0], [[None], [1.0], [2.0]]]), TypeError, r"values: example 1: .*dtype object"),
        ((P.astype("datetime64[s]"), V), TypeError, r"points: .*datetime64"),
        ((P, V.astype(complex)), TypeError, r"values: .*complex128"),
        ((P, np.ma.masked_array(V, V == 0)), TypeError, r"values: found a masked array, .*filled"),
        ((None, V), TypeError, r"points: found NoneType"),
        (({"a": P}, V), TypeError, r"points: found dict"),
    ],
)
def test_errors(arguments, error, match):
    with pytest.raises(error, match=match):
        observations(*arguments)


TIMES = np.linspace(0.0, 1.0, 10).reshape(2, 5)
SERIES = np.arange(30.0).reshape(2, 3, 5)  # [n, c, T], as libraries for time series have them


@pytest.mark.parametrize(
    "arguments, match",
    [
        ((TIMES, SERIES), r"points: .*times \[B, N\] give points\[:, :, None\], .* points\[None\]"),
        (
            (TIMES[0], SERIES),
            r"points: .*rank 1 .*times \[T\] .*points\[None, :, None\]; if B .*tile",
        ),
        ((TIMES[:1, :, None], SERIES[0, 0]), r"values: .*rank 1 .*\[N\], give values\[None\]"),
        (
            (TIMES[0].tolist(), SERIES),
            r"points: example 0 has rank 0 .*list of numbers.*None, :, ",
        ),
        ((list(TIMES), SERIES), r"points: example 0 .*times \[N_i\] give times\[:, None\]"),
        (
            (TIMES[..., None], SERIES),
            r"values: .*If the channels come before the points, give numpy.swapaxes\(values, 1, 2",
        ),
        (
            (TIMES[..., None], list(SERIES)),
            r"values: .*If the channels .*swapaxes\(values, 1, 2\)\.$",
        ),
        (
            (SERIES[:, :2], np.swapaxes(SERIES, 1, 2)),
            r"values: .*If the coordinates come before .*swapaxes\(points, 1, 2\)\.$",
        ),
        (
            (SERIES[:, :2], SERIES),
            r"values: .*swapaxes\(values, 1, 2\) and numpy.swapaxes\(points, 1, 2\)\.$",
        ),
        (
            ([TIMES[0][:, None], TIMES[1, :4, None]], [SERIES[0], SERIES[1, :, :4]]),
            r"values: example 1 .*If the channels come before .* give the transpose of each",
        ),
        (
            (TIMES[..., None], np.swapaxes(SERIES, 1, 2), SERIES),
            r"variance: .*If the channels .*swapaxes\(variance, 1, 2\)\.$",
        ),
    ],
)
def test_series_of_other_libraries_are_told_what_to_transpose(arguments, match):
    with pytest.raises(ValueError, match=match):
        observations(*arguments)


def test_series_once_transposed():
    x = observations(TIMES[:, :, None], np.swapaxes(SERIES, 1, 2))
    assert x["points"].shape == (2, 5, 1) and x["values"][1, 4, 2] == SERIES[1, 2, 4]
    swapped = {**x, "values": SERIES, "variance": 0.0 * SERIES}
    with pytest.raises(ValueError, match=r"same B, N and c\. If the channels .*swapaxes\(values"):
        check_observations(swapped)
    # No advice where a change of axes would not help.
    with pytest.raises(ValueError, match=r"give one entry per point in both\.$"):
        observations(np.zeros((2, 5, 1)), np.zeros((2, 4, 1)))


@pytest.mark.parametrize(
    "change, error, match",
    [
        (lambda x: None, TypeError, r"Observations are a dict .*found NoneType"),
        (lambda x: list(x.values()), TypeError, r"found list"),
        (lambda x: {k: x[k] for k in ("points", "values")}, ValueError, r"missing \['variance'\]"),
        (lambda x: {**x, "mask": 1}, ValueError, r"exactly the keys .*; unknown \['mask'\]"),
        (lambda x: {"y": 1, **x, "variance": "a"}, ValueError, r"unknown \['y'\]"),
        (lambda x: {**x, "variance": "a"}, TypeError, r"variance: found str"),
        (lambda x: {**x, "values": x["values"][0]}, ValueError, r"values: .*\[5, 3\]; .*\[B, N, c"),
        (lambda x: {k: v[:0] for k, v in x.items()}, ValueError, r"points: .*\[0, 5, 2\]"),
        (lambda x: {k: v[:, :0] for k, v in x.items()}, ValueError, r"points: .*\[5, 0, 2\]"),
        (lambda x: {**x, "points": x["points"][:, 1:]}, ValueError, r"have the shapes \[5, 4, 2\]"),
        (lambda x: {**x, "variance": x["variance"][..., :1]}, ValueError, r"have the shapes"),
        (lambda x: {**x, "points": x["points"][..., :1]}, ValueError, r"points: found 1 spatial"),
        (
            lambda x: {**x, "values": x["values"][..., :1], "variance": x["variance"][..., :1]},
            ValueError,
            r"values: found 1 channels, expected 3; give values of the shape \[B, N, 3\], or build "
            r"the model with in_channels=1",
        ),
        (
            lambda x: {**x, "points": changed(x["points"], (2, 4, 1), np.nan)},
            ValueError,
            r"points: example 2, point 4 has the coordinates",
        ),
        (
            lambda x: {**x, "variance": changed(x["variance"], (2, 4, 1), -1)},
            ValueError,
            r"variance: example 2, point 4, channel 1 is -1\.0",
        ),
        (
            lambda x: {**x, "variance": changed(x["variance"], (2, 4, 1), np.nan)},
            ValueError,
            r"variance: example 2, point 4, channel 1 is nan",
        ),
        (
            lambda x: {**x, "variance": x["variance"] * 0, "values": x["values"] + np.nan},
            ValueError,
            r"values: example 0, point 0, channel 0 is nan; .*Give the variance inf there",
        ),
        (
            lambda x: {**x, "variance": np.zeros((5, 5, 3)), "values": x["values"] - np.inf},
            ValueError,
            r"values: example 0, point 0, channel 0 is -inf",
        ),
    ],
)
def test_check_errors(change, error, match):
    x = {key: np.nan_to_num(value, posinf=1.0) for key, value in formed().items()}
    with pytest.raises(error, match=match):
        check_observations(change(x), spatial_dim=2, channels=3)
