from types import SimpleNamespace

import numpy as np
import pytest

from tfpn.datasets import from_pyg


class Tensor:
    """Like a tensor that offers `.numpy()` only."""

    def __init__(self, data):
        self.data = np.asarray(data)

    def numpy(self):
        return self.data


def graphs(seed, lengths, channels=1, wrap=np.asarray):
    rng = np.random.default_rng(seed)
    return [
        SimpleNamespace(
            pos=wrap(rng.uniform(0, 27, size=(n, 2)).astype(np.float32)),
            x=wrap(rng.uniform(0, 1, size=(n, channels)).astype(np.float32)),
            y=wrap([index % 10]),
        )
        for index, n in enumerate(lengths)
    ]


@pytest.mark.parametrize("wrap", [np.asarray, Tensor, lambda a: np.asarray(a).tolist()])
def test_against_loop(wrap):
    plain = {"train": graphs(0, [3, 5, 1]), "test": graphs(1, [7, 2])}
    data = from_pyg(graphs(0, [3, 5, 1], wrap=wrap), graphs(1, [7, 2], wrap=wrap))
    assert data.validation is None
    for name, part in plain.items():
        x, y = getattr(data, name).x, getattr(data, name).y
        # Padded to the longest example of all parts.
        assert x["points"].shape == (len(part), 7, 2)
        np.testing.assert_array_equal(y, range(len(part)))
        for b, graph in enumerate(part):
            for n in range(7):
                if n < len(graph.pos):
                    expected = [coordinate / 27 for coordinate in graph.pos[n]]
                    np.testing.assert_allclose(x["points"][b, n], expected, rtol=1e-6)
                    value = (graph.x[n, 0] - 0.1307) / 0.3081
                    np.testing.assert_allclose(x["values"][b, n, 0], value, atol=1e-6)
                    assert x["variance"][b, n, 0] == 0
                else:
                    assert (x["points"][b, n] == 0).all() and x["values"][b, n, 0] == 0
                    assert np.isposinf(x["variance"][b, n, 0])


def test_scaling_per_channel():
    (graph,) = train = graphs(0, [4], channels=3)
    mean, std = [0.1, 0.2, 0.3], [1.0, 2.0, 4.0]
    x = from_pyg(train, validation=train, scale=2, mean=mean, std=std).validation.x
    np.testing.assert_allclose(x["points"][0], graph.pos / 2, rtol=1e-6)
    for channel in range(3):
        expected = (graph.x[:, channel] - mean[channel]) / std[channel]
        np.testing.assert_allclose(x["values"][0, :, channel], expected, atol=1e-6)


@pytest.mark.parametrize(
    "pos, x, expected",
    [
        (np.float32, np.float32, np.float32),
        (np.int64, np.uint8, np.float32),
        (np.float64, np.float32, np.float64),
    ],
)
def test_dtype(pos, x, expected):
    example = SimpleNamespace(pos=np.ones((2, 2), pos), x=np.ones(2, x), y=np.int64(3))
    part = from_pyg([example], scale=np.float64(27), mean=np.float64(0)).train
    assert {array.dtype for array in part.x.values()} == {np.dtype(expected)}
    assert part.y.dtype == np.int64


def example(**changes):
    fields = {"pos": np.ones((2, 2)), "x": np.ones((2, 1)), "y": 3, **changes}
    return SimpleNamespace(**{key: value for key, value in fields.items() if value is not None})


@pytest.mark.parametrize(
    "arguments, error, match",
    [
        ({"train": []}, ValueError, r"train: found no examples; give at least one"),
        ({"test": []}, ValueError, r"test: found no examples"),
        ({"train": None}, TypeError, r"train: found NoneType; give a sequence"),
        ({"test": [example(), example(pos=None)]}, TypeError, r"test: example 1 .* has no pos"),
        ({"train": [example(x=None)]}, TypeError, r"train: example 0 .* has no x; .*pos, x and y"),
        ({"train": [example(y=None)]}, TypeError, r"train: example 0 .* has no y"),
        ({"train": [example(x="a")]}, TypeError, r"train: example 0 has x of dtype <U1"),
        ({"train": [example(y=[1, 2])]}, ValueError, r"train: example 0 has the y \[1, 2\]"),
        ({"train": [example(y=1.5)]}, ValueError, r"has the y 1\.5 .*one integer label"),
        (
            {"train": [example(), example(x=np.ones((3, 1)))]},
            ValueError,
            r"train: values: example 1 has 3 points, but points has 2 there; .*from x",
        ),
        ({"train": [example(pos=np.ones(2))]}, ValueError, r"train: points: example 0 has rank 1"),
        ({"scale": 0}, ValueError, r"scale: found 0; give one number above 0"),
        ({"scale": [1, 2]}, ValueError, r"scale: found \[1, 2\]"),
        ({"std": [1.0, -1.0]}, ValueError, r"std: found \[1\.0, -1\.0\]; give numbers above 0"),
        (
            {"mean": [1, 2]},
            ValueError,
            r"mean and std: found \[1, 2\] .*example 0 has x .*\[2, 1\]",
        ),
    ],
)
def test_errors(arguments, error, match):
    with pytest.raises(error, match=match):
        from_pyg(**{"train": [example()], **arguments})
