import numpy as np
import pytest

import tfpn.figures


class TwoBlocks:
    """Feature maps known in advance: channel c of block b is (b + 1) * (first coordinate + c)."""

    def __init__(self, channels):
        self.channels = channels

    def feature_maps(self, x, query):
        assert len(x["points"]) == len(query) == 1
        maps = []
        for block in range(2):
            values = (block + 1) * (query[..., :1] + np.arange(self.channels))
            maps.append({"values": values, "variance": np.full_like(values, 0.25)})
        return maps


def observations(dimensions, examples=2, points=6):
    rng = np.random.default_rng(0)
    variance = np.full((examples, points, 1), 0.01)
    variance[:, -2:] = np.inf
    return {
        "points": rng.uniform(size=(examples, points, dimensions)),
        "values": rng.normal(size=(examples, points, 1)),
        "variance": variance,
    }


def panel(figure, title):
    (axes,) = (axes for axes in figure.axes if axes.get_title() == title)
    return axes


def test_images_have_axis_order_and_dots_on_the_observed_points():
    x = observations(2)
    figure = tfpn.figures.feature_maps(TwoBlocks(4), x, channels=[1], resolution=50)
    mean = panel(figure, "block 2: mean").images[0]
    left, right, *_ = mean.get_extent()
    # The map grows along the first coordinate, which runs to the right.
    expected = 2 * (np.linspace(left, right, 50) + 1)
    np.testing.assert_allclose(mean.get_array(), np.tile(expected, (50, 1)), rtol=1e-6)
    deviation = panel(figure, "block 2: std. deviation")
    np.testing.assert_allclose(deviation.images[0].get_array(), 0.5)
    np.testing.assert_allclose(deviation.lines[0].get_xydata(), x["points"][0, :-2])
    assert "channel 1" in figure.get_suptitle()


@pytest.mark.parametrize("origin", ["upper", "lower"])
def test_pixels_and_dots_share_the_second_axis(origin):
    class SecondCoordinate:
        def feature_maps(self, x, query):
            return [{"values": query[..., 1:], "variance": query[..., 1:] ** 2}]

    x = observations(2)
    figure = tfpn.figures.feature_maps(SecondCoordinate(), x, resolution=40, origin=origin)
    axes = panel(figure, "block 1: std. deviation")
    image = axes.images[0]
    _, _, low, high = image.get_extent()
    column = image.get_array()[:, 0]
    if image.origin == "upper":
        column = column[::-1]
    np.testing.assert_allclose(column, np.abs(np.linspace(low, high, 40)), atol=1e-6)
    first, last = axes.get_ylim()
    assert (first > last) == (origin == "upper")


def test_three_channels_become_colours():
    figure = tfpn.figures.feature_maps(TwoBlocks(4), observations(2), resolution=9)
    image = panel(figure, "block 1: mean").images[0].get_array()
    assert image.shape == (9, 9, 3) and image.min() == 0 and image.max() == 1
    assert "channels 0, 1, 2 as red, green, blue" in figure.get_suptitle()


def test_one_dimension_is_curves_with_a_band():
    x = observations(1)
    figure = tfpn.figures.feature_maps(TwoBlocks(2), x, resolution=30)
    axes = panel(figure, "block 2")
    t, mean = axes.lines[0].get_data()
    np.testing.assert_allclose(mean, 2 * t, rtol=1e-6)
    band = axes.collections[0].get_paths()[0].vertices
    assert band[:, 1].max() == pytest.approx(mean.max() + 2 * 0.5)
    np.testing.assert_allclose(axes.lines[1].get_xdata(), x["points"][0, :-2, 0])


@pytest.mark.parametrize(
    ("dimensions", "arguments", "said"),
    [
        (3, {}, "3 dimensions"),
        (2, {"channels": [0, 9]}, "channels 0 to 3"),
        (2, {"channels": [0, 1]}, "one, or three"),
        (2, {"resolution": 1}, "resolution"),
        (2, {"origin": "left"}, "origin"),
    ],
)
def test_feature_maps_refuses(dimensions, arguments, said):
    with pytest.raises(ValueError, match=said):
        tfpn.figures.feature_maps(TwoBlocks(4), observations(dimensions), **arguments)


def test_feature_maps_refuses_an_example_without_observations():
    x = observations(2)
    x["variance"][1] = np.inf
    with pytest.raises(ValueError, match="example 1 has no observed point"):
        tfpn.figures.feature_maps(TwoBlocks(4), x)


def test_learning_curves_show_every_epoch():
    log = {"loss": [3, 2, 1], "val_loss": [3, 2, 2], "accuracy": [0.1, 0.5, 0.7]}
    figure = tfpn.figures.learning_curves(log)
    loss, accuracy = figure.axes
    np.testing.assert_array_equal(loss.lines[0].get_xydata(), [[1, 3], [2, 2], [3, 1]])
    assert len(loss.lines) == 2 and len(accuracy.lines) == 1
    with pytest.raises(ValueError, match="'loss' is needed"):
        tfpn.figures.learning_curves({"accuracy": [1]})
