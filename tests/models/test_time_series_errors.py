"""What PNTimeSeries says of arguments, statics and labels that it cannot take."""

import numpy as np
import pytest
import tensorflow as tf
from time_series_support import inputs, outputs, small

from tfpn.models import PNTimeSeries


def test_windows_and_clock_need_a_stay():
    for options in ({"windows": 2}, {"clock": True}):
        with pytest.raises(ValueError, match="needs the range of the times"):
            PNTimeSeries(pooling="space", **options)
    with pytest.raises(ValueError, match="windows=2 takes the errors of windows as independent"):
        PNTimeSeries(windows=2, uncertainty="joint", input_noise="shared")
    with pytest.raises(ValueError, match="context must be one of"):
        PNTimeSeries(context="everywhere")


def test_query_by_default():
    assert PNTimeSeries(channels=2).get_config()["query"] == 24
    assert PNTimeSeries(channels=2, pooling="space").get_config()["query"] == "union"


@pytest.mark.parametrize(
    "wrong, match",
    [
        ({"num_classes": None}, "give num_classes, or num_outputs for regression"),
        ({"num_outputs": 2}, "give num_classes or num_outputs, not both"),
        ({"query": "all"}, "query must be 'union' or a positive whole number, found 'all'"),
        ({"query": 0}, "query must be a positive whole number, found 0"),
        ({"query": 8, "pooling": "space"}, "query=8 asks for a grid over the range"),
        ({"missingness": "mask"}, "missingness must be one of"),
        ({"input_noise": "shared"}, "prior='channel' needs noise='channel'"),
        ({"variance_estimator": "stochastic"}, "stochastic' needs prior='shared'"),
        ({"num_statics": -1}, "num_statics must be a positive whole number"),
        ({"pooling": (1.0, 0.0)}, "pooling must be"),
    ],
)
def test_bad_arguments(wrong, match):
    with pytest.raises(ValueError, match=match):
        PNTimeSeries(**wrong)


def test_bad_statics_and_labels_are_named():
    model = small(num_blocks=1, num_statics=2, query=4)
    x = inputs(model)
    x["statics_variance"][3] = 0.0, np.inf
    outputs(model, x)

    def changed(key, value):
        array = x[key].copy()
        array[3, 0] = value
        return {**x, key: array}

    for wrong, match in (
        (changed("statics", np.nan), r"statics is nan for static 0 of example 3: .*\+inf where"),
        (changed("statics", np.inf), r"statics is inf for static 0 of example 3"),
        (changed("statics_variance", 0.5), r"statics_variance is 0.5 for static 0 .*: 0 says that"),
        (changed("statics_variance", np.nan), r"statics_variance is nan for static 0 of example 3"),
        (
            {**x, "statics": x["statics"][:, :1]},
            r"statics has the shape \(5, 1\); expected \(5, 2\)",
        ),
    ):
        for call in (model, model.predict):
            with pytest.raises(ValueError, match=match):
                call(wrong)
    # Data sets are checked by the layer, which knows no example.
    context = model.get_layer("context")
    for key, value, match in (
        ("statics", np.nan, "statics hold NaN or infinity: a known static is a finite number"),
        ("statics_variance", 0.5, "a statics_variance is neither 0 nor .inf"),
    ):
        with pytest.raises(tf.errors.InvalidArgumentError, match=match):
            context(x, {k: v for k, v in changed(key, value).items() if k.startswith("statics")})
    for call in (model.fit, model.evaluate):
        with pytest.raises(ValueError, match="y is NaN for 2 of 5 examples, the first of them 1: "):
            call(x, np.array([0, np.nan, 1, np.nan, 0]))
        for texts in (np.array(list("abbab")), np.array(list("abbab"), object)):
            with pytest.raises(
                ValueError, match="y holds texts; labels are whole numbers 0 to K - 1"
            ):
                call(x, texts)
        with pytest.raises(ValueError, match=r"y is a list; give an array of labels or targets"):
            call(x, [0, 1, 1, 0, 1])
