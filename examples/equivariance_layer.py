"""From a symmetry to a layer: the PDEs that commute with rotations, in LaTeX and as Keras source.

There are two scalar fields (say temperature and humidity) and a vector field (wind) in the plane.
The script finds every PDE of first and second order that commutes with rotations. It checks a PDE
written by hand. It writes a Keras layer that cannot leave the solution space, and turns its input
by 90 degrees.

    python examples/equivariance_layer.py
"""

import importlib.util
import tempfile
from pathlib import Path

import keras
import numpy as np

from equivariance import (
    SO2,
    amplifies,
    keras_source,
    latex_system,
    prove_scalar_diffusions_trivial,
    solve_generators,
    text_system,
    verify,
)


def written_by_hand(coriolis_sign):
    """A wind v that turns, driven by the gradient of a scalar u: C [out, in], B [d, out, in].

    d/dt u = div v,  d/dt v = grad u + (-v2, v1) or (v2, v1); channels (u, u', v1, v2).
    """
    c, b = np.zeros((4, 4)), np.zeros((2, 4, 4))
    c[2, 3], c[3, 2] = coriolis_sign, 1.0
    for axis in range(2):
        b[axis, 0, 2 + axis] = b[axis, 2 + axis, 0] = 1.0
    return {"zeroth_order": c, "first_order": b}


def load_layer(source, name):
    """Imports the class from its file, as in a project that has only this file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "weather.py"
        path.write_text(source)
        spec = importlib.util.spec_from_file_location("weather", path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    return getattr(module, name)


def quarter_turn(fields, rho):
    """rho f(g^-1 x) on a periodic grid, where g is the rotation by 90 degrees."""
    size = fields.shape[1]
    i, j = np.meshgrid(np.arange(size), np.arange(size), indexing="ij")
    return fields[:, j, -i % size] @ rho.T  # g^-1 (i, j) = (j, -i)


def main():
    proof = prove_scalar_diffusions_trivial()
    print(f"uncoupled diffusions are isotropic: {len(proof.steps)} steps, checked {proof.verified}")

    channels = 2 * SO2.irrep(0) + SO2.irrep(1)
    solution = solve_generators(channels)
    print(f"\n{text_system(solution)}\nresidual {solution.residual()}\n")
    print(latex_system(solution))

    for sign in (-1.0, 1.0):
        print(f"\nby hand, C[2, 3] = {sign}: {verify(written_by_hand(sign), channels)}")

    free = solution.parameterization("free")
    dissipative = solution.parameterization("dissipative")
    print(f"\n{free}\n{dissipative}")
    print(f"free:        {amplifies(free.generator(free.initial(rng=0)))}")
    print(f"dissipative: {amplifies(dissipative.generator(dissipative.initial(rng=0)))}")

    source = keras_source(dissipative, "WeatherFlow")
    flow_class = load_layer(source, "WeatherFlow")
    print(f"\nKeras layer of {len(source.splitlines())} lines:")
    keras.utils.set_random_seed(0)
    layer = flow_class(spacing=0.1)
    fields = np.random.default_rng(0).normal(size=(4, 16, 16, channels.dim)).astype("float32")
    result = np.asarray(layer(fields))
    rho = channels.matrix(np.pi / 2)
    error = np.abs(np.asarray(layer(quarter_turn(fields, rho))) - quarter_turn(result, rho)).max()
    print(f"weights {sum(int(np.prod(w.shape)) for w in layer.weights)}")
    before, after = np.linalg.norm(fields), np.linalg.norm(result)
    print(f"norm of the fields {before:.2f}, after the flow {after:.2f}")
    print(f"turning the input by 90 degrees turns the output, error {error:.1e}")
    return solution, layer, error


if __name__ == "__main__":
    main()
