import importlib.util
from pathlib import Path

from tolerance import rounding

PATH = Path(__file__).parents[2] / "examples" / "equivariance_layer.py"


def test_from_a_representation_to_a_layer(capsys):
    spec = importlib.util.spec_from_file_location("equivariance_layer", PATH)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    solution, layer, error = module.main()
    out = capsys.readouterr().out
    assert solution.dimensions == {"zeroth_order": 6, "first_order": 8, "second_order": 8}
    # Sums over a grid of 16 x 16 there and back in float32, of fields of up to 4.
    assert error < rounding(2 * 16**2, "float32", condition=4.0) and len(layer.weights) == 3
    for text in (
        "9 steps, checked True",
        "residual 0",
        r"\operatorname{div} \mathbf{v}",
        "C[2, 3] = -1.0: Equivariant",
        "C[2, 3] = 1.0: Not equivariant",
        "free:        exp(M) amplifies",
        "dissipative: exp(M) does not amplify",
        "turning the input by 90 degrees",
    ):
        assert text in out
