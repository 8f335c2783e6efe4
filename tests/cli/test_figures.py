import numpy as np
import pytest
import scipy.stats
from matplotlib.figure import Figure

import tfpn.evaluation
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


def observations(dimensions, examples=2, points=6, channels=1):
    rng = np.random.default_rng(0)
    variance = np.full((examples, points, channels), 0.01)
    variance[:, -2:] = np.inf
    return {
        "points": rng.uniform(size=(examples, points, dimensions)),
        "values": rng.normal(size=(examples, points, channels)),
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


def legend(axes):
    return axes.get_legend() and [text.get_text() for text in axes.get_legend().get_texts()]


def test_few_channels_have_a_legend():
    x = observations(1, channels=2)
    figure = tfpn.figures.feature_maps(TwoBlocks(6), x, channels=[4, 2, 5], resolution=9)
    assert len(figure.axes) == 2 * 3
    assert legend(panel(figure, "block 2")) == ["channel 4", "channel 2", "channel 5"]
    assert legend(panel(figure, "samples")) == ["channel 0", "channel 1"]
    alone = tfpn.figures.feature_maps(TwoBlocks(6), observations(1), channels=[3], resolution=9)
    assert legend(panel(alone, "block 2")) == ["channel 3"]
    assert legend(panel(alone, "samples")) is None


def test_many_channels_have_a_colour_bar_instead():
    x = observations(1, channels=20)
    shown = range(1, 40)
    figure = tfpn.figures.feature_maps(TwoBlocks(40), x, channels=shown, resolution=9)
    bars = [axes for axes in figure.axes if axes.get_ylabel() == "channel"]
    assert len(figure.axes) == 2 * 3 + len(bars) and len(bars) == 2
    assert all(axes.get_legend() is None for axes in figure.axes)
    samples, blocks = ([int(t.get_text()) for t in bar.get_yticklabels()] for bar in bars)
    assert (samples[0], samples[-1]) == (0, 19) and (blocks[0], blocks[-1]) == (1, 39)
    lines = [line for line in panel(figure, "block 2").lines if len(line.get_xdata()) == 9]
    assert len(lines) == 39 and len({tuple(line.get_color()) for line in lines}) == 39


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
    log.update({"auroc": [0.5, 0.6, 0.8], "val_auroc": [0.4, 0.6, 0.7], "conv_1_nll": [1, 1, 1]})
    figure = tfpn.figures.learning_curves(log)
    loss, accuracy, auroc = figure.axes
    assert [axes.get_ylabel() for axes in figure.axes] == ["loss", "accuracy", "AUROC"]
    np.testing.assert_array_equal(auroc.lines[1].get_ydata(), [0.4, 0.6, 0.7])
    np.testing.assert_array_equal(loss.lines[0].get_xydata(), [[1, 3], [2, 2], [3, 1]])
    assert len(loss.lines) == 2 and len(accuracy.lines) == 1
    with pytest.raises(ValueError, match="'loss' is needed"):
        tfpn.figures.learning_curves({"accuracy": [1]})


@pytest.mark.parametrize("epochs", [1, 2, 3, 5, 40])
def test_learning_curves_count_whole_epochs(epochs):
    figure = tfpn.figures.learning_curves({"loss": np.linspace(3, 1, epochs)})
    figure.canvas.draw()
    low, high = figure.axes[0].get_xlim()
    ticks = [tick for tick in figure.axes[0].get_xticks() if low <= tick <= high]
    assert ticks and all(tick == round(tick) for tick in ticks)


def predictions():
    rng = np.random.default_rng(0)
    probabilities = rng.dirichlet(np.full(4, 0.3), size=300)
    return probabilities, rng.integers(4, size=300)


@pytest.mark.parametrize("adaptive", [False, True])
def test_reliability_diagram_shows_the_table(adaptive):
    probabilities, labels = predictions()
    figure = tfpn.figures.reliability_diagram(probabilities, labels, bins=10, adaptive=adaptive)
    table = tfpn.evaluation.calibration_bins(probabilities, labels, 10, adaptive)
    seen = table.counts > 0
    upper, lower = figure.axes
    right = upper.containers[0]
    np.testing.assert_allclose([bar.get_height() for bar in right], table.accuracy[seen])
    np.testing.assert_allclose([bar.get_x() for bar in right], table.edges[:-1][seen], atol=1e-15)
    np.testing.assert_allclose([b.get_x() + b.get_width() for b in right], table.edges[1:][seen])
    levels = [segment[0, 1] for segment in upper.collections[0].get_segments()]
    np.testing.assert_allclose(levels, table.confidence[seen])
    counts = [int(text.get_text()) for text in lower.texts]
    assert counts == list(table.counts[seen]) and sum(counts) == 300
    assert [bar.get_height() for bar in lower.containers[0]] == counts
    error = tfpn.evaluation.expected_calibration_error(probabilities, labels, 10, adaptive)
    assert figure.get_suptitle() == f"expected calibration error {100 * error:.1f} %, 300 examples"
    assert legend(upper) == ["mean confidence", "diagonal", "fraction right", "95 % interval"]


def test_reliability_diagram_of_a_single_certain_example(tmp_path):
    figure = tfpn.figures.reliability_diagram([[1.0, 0.0]], [0], title="one")
    assert figure.get_suptitle() == "one"
    tfpn.figures.save(figure, tmp_path / "one.png")


def test_qq_plot_is_scipys_probability_plot():
    rng = np.random.default_rng(0)
    deviations = np.repeat(rng.uniform(1, 2, size=(20, 1)), 5, axis=1)
    residuals = 3 * deviations * rng.normal(size=deviations.shape)
    figure = tfpn.figures.qq_plot(residuals, deviations)
    (axes,) = figure.axes
    diagonal, drawn = axes.lines
    assert diagonal.get_slope() == 1 and diagonal.get_xy1() == (0, 0)
    expected, found = scipy.stats.probplot((residuals / deviations).ravel(), fit=False)
    np.testing.assert_allclose(drawn.get_xydata(), np.stack([expected, found], -1))
    spread = tfpn.evaluation.residual_spread(residuals, deviations)
    coverage = tfpn.evaluation.interval_coverage(residuals, deviations)
    assert legend(axes)[1] == f"spread {spread:.2f}, 95 % interval covers {100 * coverage:.0f} %"


def test_qq_plots_of_several_sets_share_axes_and_keep_the_tails():
    rng = np.random.default_rng(0)
    axes = Figure().subplots()
    many = rng.normal(size=30000)
    for label, residuals in (("layer 1", many), ("layer 2", many[:50])):
        figure = tfpn.figures.qq_plot(residuals, 1.0, axes=axes, label=label)
    assert figure is axes.figure
    diagonal, first, second = axes.lines
    assert 500 < len(first.get_xdata()) <= 2000 and len(second.get_xdata()) == 50
    assert first.get_ydata()[0] == many.min() and first.get_ydata()[-1] == many.max()
    assert np.all(np.diff(first.get_xdata()) > 0) and np.all(np.diff(first.get_ydata()) >= 0)
    assert [text.split(":")[0] for text in legend(axes)] == ["calibrated", "layer 1", "layer 2"]


def test_qq_plot_of_a_regression_model():
    rng = np.random.default_rng(0)
    x = tfpn.observations(rng.uniform(size=(40, 8, 1)), rng.normal(size=(40, 8)))
    model = tfpn.models.PNCNN(
        num_classes=None, num_outputs=1, spatial_dim=1, channels=4, num_blocks=1, num_basis=3,
        spacing=0.2, pooling=(0.0, 1.0),
    )  # fmt: skip
    targets = x["values"].mean(axis=1)
    model.calibrate(x, targets)
    predicted = model.predict_distribution(x)
    figure = tfpn.figures.qq_plot(targets - predicted.mean(), predicted.stddev())
    assert len(figure.axes[0].lines[1].get_xdata()) == 40
    # The variance was fitted to these very targets.
    spread = tfpn.evaluation.residual_spread(targets - predicted.mean(), predicted.stddev())
    assert spread == pytest.approx(1.0, abs=0.05)


def test_qq_plot_refuses_what_is_not_observed():
    with pytest.raises(ValueError, match="standard_deviations must be finite and positive"):
        tfpn.figures.qq_plot([1.0, 2.0], [1.0, np.inf])
