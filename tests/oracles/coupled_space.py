"""Writes coupled_space.json: kernels of fields in space by brute force, with NumPy and SciPy alone.

Run it as ``python tests/oracles/coupled_space.py``. The generators are written in vector calculus:
gradient, divergence, curl, and symmetric traceless matrices for spin 2. No spherical harmonic and
no coupling coefficient comes in. The Fourier integrals are sums over a Cartesian lattice in double
precision. Each is computed twice, with another step, offset and cut-off.
"""

import json
from pathlib import Path

import numpy as np
import scipy.linalg

AMPLITUDE, LENGTH = 1.0, 0.5
LATTICES = ((44, 9.0, 0.5), (52, 9.6, 0.3))  # nodes, cut-off in units of 1 / l, offset
EYE = np.eye(3)
LEVI = np.zeros((3, 3, 3))
for i, j, k in ((0, 1, 2), (1, 2, 0), (2, 0, 1)):
    LEVI[i, j, k], LEVI[i, k, j] = 1.0, -1.0
_X, _Y, _Z = EYE


def _symmetric(a, b):
    return 0.5 * (np.outer(a, b) + np.outer(b, a))


# Orthonormal symmetric traceless matrices, in the order cos 2 phi, sin 2 phi, cos phi, sin phi, 1.
TRACELESS = np.stack(
    [
        (_symmetric(_X, _X) - _symmetric(_Y, _Y)) / np.sqrt(2.0),
        np.sqrt(2.0) * _symmetric(_X, _Y),
        np.sqrt(2.0) * _symmetric(_X, _Z),
        np.sqrt(2.0) * _symmetric(_Y, _Z),
        (2.0 * _symmetric(_Z, _Z) - _symmetric(_X, _X) - _symmetric(_Y, _Y)) / np.sqrt(6.0),
    ]
)
# Terms by (output, input) spin: B [3, out, in] and S [3, 3, out, in].
GRADIENT = EYE[:, :, None]
DIVERGENCE = EYE[:, None, :]
CURL = np.einsum("aib->iab", LEVI)  # (curl v)_a = sum_ib LEVI[a, i, b] d_i v_b
STRAIN = np.einsum("cib->icb", TRACELESS)  # of a vector, its traceless part
STRAIN_DIVERGENCE = np.einsum("cai->iac", TRACELESS)
GRADIENT_OF_DIVERGENCE = 0.5 * (
    np.einsum("ia,jb->ijab", EYE, EYE) + np.einsum("ja,ib->ijab", EYE, EYE)
)
HESSIAN = np.einsum("cij->ijc", TRACELESS)[..., None]  # of a scalar, its traceless part
# The traceless part of d_i v_b with the curl, of v: sum over TRACELESS[c, i, a] LEVI[a, j, b].
_CURL_STRAIN = np.einsum("cia,ajb->ijcb", TRACELESS, LEVI)
CURL_STRAIN = 0.5 * (_CURL_STRAIN + np.swapaxes(_CURL_STRAIN, 0, 1))
# The traceless part of d_i (div T)_b.
_STRAIN_OF_DIVERGENCE = np.einsum("cib,daj,ab->ijcd", TRACELESS, TRACELESS, EYE)
STRAIN_OF_DIVERGENCE = 0.5 * (_STRAIN_OF_DIVERGENCE + np.swapaxes(_STRAIN_OF_DIVERGENCE, 0, 1))


def laplacian(channels):
    return np.einsum("ij,ab->ijab", EYE, np.eye(channels))


# Fields' spins, then coefficients of C, B and S by (output, input).
CASES = {
    "scalar": (
        (0,),
        "one scalar: heat diffusion, which has a closed form",
        {},
        {(0, 0): 0.05 * laplacian(1)},
    ),
    "scalar-vector": (
        (0, 1),
        "gradient and divergence of unequal size, curl, grad div and heat",
        {(0, 1): 0.3 * DIVERGENCE, (1, 0): 0.2 * GRADIENT, (1, 1): 0.06 * CURL},
        {(0, 0): 0.04 * laplacian(1), (1, 1): 0.05 * laplacian(3) + 0.04 * GRADIENT_OF_DIVERGENCE},
    ),
    "vector-vector": (
        (1,),
        "a vector: curl, grad div and heat",
        {(1, 1): 0.1 * CURL},
        {(1, 1): 0.06 * laplacian(3) + 0.07 * GRADIENT_OF_DIVERGENCE},
    ),
    "scalar-vector-spin-2": (
        (0, 1, 2),
        "all blocks of spins 0, 1 and 2, those of both parities",
        {
            (0, 1): 0.2 * DIVERGENCE,
            (1, 0): 0.25 * GRADIENT,
            (1, 2): 0.3 * STRAIN_DIVERGENCE,
            (2, 1): 0.2 * STRAIN,
        },
        {
            (0, 0): 0.05 * laplacian(1),
            (1, 1): 0.06 * laplacian(3) + 0.03 * GRADIENT_OF_DIVERGENCE,
            (2, 2): 0.06 * laplacian(5) + 0.04 * STRAIN_OF_DIVERGENCE,
            (2, 0): 0.03 * HESSIAN,
            (0, 2): 0.02 * np.swapaxes(HESSIAN, -1, -2),
            (2, 1): 0.02 * CURL_STRAIN,
        },
    ),
}


def assembled(spins, terms, order):
    """B or S of all channels."""
    starts = dict(zip(spins, np.cumsum([0, *(2 * s + 1 for s in spins)]), strict=False))
    size = sum(2 * s + 1 for s in spins)
    found = np.zeros([3] * order + [size, size])
    for (out, inside), term in terms.items():
        rows = slice(starts[out], starts[out] + 2 * out + 1)
        columns = slice(starts[inside], starts[inside] + 2 * inside + 1)
        found[..., rows, columns] += term
    return found


def kernels(offset, b, s, lattice):
    """``(A k)`` and ``(A k A')`` at offsets [P, 3], each [P, c, c]."""
    nodes, cutoff, shift = lattice
    step = 2.0 * cutoff / nodes
    axis = ((np.arange(nodes) + shift) * step - cutoff) / LENGTH
    left = np.zeros((len(offset), *b.shape[1:]), complex)
    both = np.zeros_like(left)
    for first in axis:  # a plane at a time
        xi = np.stack(np.meshgrid([first], axis, axis, indexing="ij"), axis=-1).reshape(-1, 3)
        m = 1j * np.einsum("qi,iab->qab", xi, b) - np.einsum("qi,qj,ijab->qab", xi, xi, s)
        symbol = scipy.linalg.expm(m)
        spectrum = AMPLITUDE * np.exp(-0.5 * LENGTH**2 * np.sum(xi**2, -1))
        waves = np.exp(1j * offset @ xi.T) * spectrum * (step / LENGTH / (2.0 * np.pi)) ** 3
        left += np.einsum("pq,qab->pab", waves, symbol)
        both += np.einsum("pq,qac,qbc->pab", waves, symbol, symbol.conj(), optimize=True)
    return left.real, both.real


def main():
    rng = np.random.default_rng(2024)
    cases, worst = [], 0.0
    for name, (spins, note, first, second) in CASES.items():
        b, s = assembled(spins, first, 1), assembled(spins, second, 2)
        x, xp = (np.round(rng.uniform(-0.6, 0.6, size=(4, 3)), 3) for _ in range(2))
        xp[0] = x[0]  # coincident points
        found, again = (kernels(x - xp, b, s, lattice) for lattice in LATTICES)
        worst = max(worst, *(np.max(np.abs(u - v)) for u, v in zip(found, again, strict=True)))
        inputs = {"spins": spins, "a": AMPLITUDE, "lengthscale": LENGTH}
        inputs |= {"x": x.tolist(), "xp": xp.tolist(), "B": b.tolist(), "S": s.tolist()}
        outputs = dict(zip(("left", "both"), (part.tolist() for part in found), strict=True))
        tolerance = {"default": {"rtol": 0.0, "atol": 1e-11}}
        cases.append({"id": name, "note": note, "inputs": inputs, "outputs": outputs,
                      "tolerance": tolerance})  # fmt: skip
    document = {
        "name": "coupled_space",
        "source": "As coupled.json, in three dimensions with SO(3)-equivariant generators.",
        "description": "B, S, a, lengthscale, left and both as in coupled.json. The channels are "
        "one field of each of the spins: a scalar, a vector (x, y, z), and a symmetric traceless "
        "matrix in the orthonormal basis (xx - yy)/sqrt 2, sqrt 2 xy, sqrt 2 xz, sqrt 2 yz, "
        "(2 zz - xx - yy)/sqrt 6.",
        "method": "Sums over a Cartesian lattice in double precision with SciPy's matrix "
        "exponential, by coupled_space.py, repeated with another step, offset and cut-off.",
        "worst_absolute_difference_of_the_two_lattices": float(f"{worst:.1e}"),
        "number_of_cases": len(cases),
        "cases": cases,
    }
    path = Path(__file__).with_suffix(".json")
    path.write_text(json.dumps(document, indent=None, separators=(", ", ": ")) + "\n")
    print(path, worst)


if __name__ == "__main__":
    main()
