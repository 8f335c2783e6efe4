"""Seeded simulations of a plane incompressible flow, and readings of it at scattered points.

The vorticity w of a flow u that fills a periodic unit square follows

    dw/dt + u . grad w = viscosity * laplace w,

solved by Fourier modes (two thirds of them, against aliasing) and the Runge-Kutta scheme of fourth
order. Its start is a random field whose law turns with the plane, of waves 2 to 5 to the side, and
a mean square velocity of 1.
"""

import functools

import numpy as np
from scipy import ndimage

SIZE = 64
VISCOSITY = 1e-3
STEPS = 60
LATER = 0.12  # the time of the targets; the largest eddies turn once in about 0.5


@functools.cache
def _modes():
    waves = np.fft.fftfreq(SIZE, 1.0 / SIZE)
    kx, ky = np.meshgrid(waves, waves, indexing="ij")
    square = kx**2 + ky**2
    kept = np.maximum(abs(kx), abs(ky)) < SIZE / 3
    return kx, ky, square, kept


def velocity(vorticity):
    """Both components on the grid, [2, SIZE, SIZE], from the modes of the vorticity."""
    kx, ky, square, _ = _modes()
    stream = vorticity / (2j * np.pi * np.where(square > 0, square, 1.0)) * (square > 0)
    # laplace psi = -w, u = (d psi / dy, -d psi / dx)
    return np.stack([np.fft.ifft2(-stream * ky).real, np.fft.ifft2(stream * kx).real])


def _change(vorticity):
    kx, ky, square, kept = _modes()
    gradient = [np.fft.ifft2(2j * np.pi * k * vorticity).real for k in (kx, ky)]
    carried = np.fft.fft2(np.sum(velocity(vorticity) * gradient, axis=0))
    return -(kept * carried) - VISCOSITY * 4 * np.pi**2 * square * vorticity


def flow(rng):
    """Velocities at time 0 and at `LATER`, [2, 2, SIZE, SIZE]."""
    _, _, square, kept = _modes()
    noise = np.fft.fft2(rng.normal(size=(SIZE, SIZE)))
    vorticity = noise * kept * ((square >= 4) & (square <= 25))
    vorticity /= np.sqrt(np.mean(np.sum(velocity(vorticity) ** 2, axis=0)))
    start, step = velocity(vorticity), LATER / STEPS
    for _ in range(STEPS):
        first = _change(vorticity)
        second = _change(vorticity + step / 2 * first)
        third = _change(vorticity + step / 2 * second)
        fourth = _change(vorticity + step * third)
        vorticity = vorticity + step / 6 * (first + 2 * second + 2 * third + fourth)
    return np.stack([start, velocity(vorticity)])


def readings(examples, points, asked, seed):
    """Readings at scattered points, and what to predict at others at the later time.

    Each example is a flow of its own, seen within a disc about the middle of the square.

    Returns:
        Observations of the start's velocity at points [B, points, 2] within a radius of 0.35, with
        the key "query" [B, asked, 2] within 0.25; and the later velocity there [B, asked, 2].
    """
    import tfpn

    rng = np.random.default_rng(seed)
    places, queries, values, targets = [], [], [], []
    for _ in range(examples):
        start, later = flow(rng)
        for radius, number, field, at, found in (
            (0.35, points, start, places, values),
            (0.25, asked, later, queries, targets),
        ):
            angle, distance = 2 * np.pi * rng.random(number), radius * np.sqrt(rng.random(number))
            at.append(distance[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=-1))
            grid = (at[-1].T + 0.5) * SIZE
            found.append([ndimage.map_coordinates(f, grid, mode="grid-wrap") for f in field])
    values, targets = (np.swapaxes(np.array(found), 1, 2) for found in (values, targets))
    x = tfpn.observations(np.array(places), values, 0.0)
    return {**x, "query": np.array(queries, np.float32)}, targets.astype(np.float32)
