"""Ten classes of shapes as clouds of points, sampled from the surfaces of the package PyVista.

Airplane, ant and nut are meshes that come with the package. The others are its parametric
surfaces, with random proportions. A cloud has points drawn uniformly from the surface.
"""

import dataclasses

import numpy as np

CLASSES = (
    *("airplane", "ant", "nut", "arrow", "box", "cone"),
    *("cylinder", "ellipsoid", "ring", "tetrahedron"),
)
STRETCH = 0.25  # of the logarithm of each axis, at most
NOISE = 0.01  # standard deviation of each coordinate, for shapes that fit into a ball of radius 1


@dataclasses.dataclass(frozen=True)
class Clouds:
    """Points [B, N, 3], class numbers [B], and how many of its points each cloud has, [B]."""

    points: np.ndarray
    y: np.ndarray
    counts: np.ndarray

    def chosen(self, numbers):
        """Some of the clouds."""
        return Clouds(self.points[numbers], self.y[numbers], self.counts[numbers])

    def turned(self, rng):
        """Each cloud in a random pose, all rotations being equally likely."""
        from scipy.spatial.transform import Rotation

        turns = Rotation.random(len(self.y), rng=rng).as_matrix()
        points = np.einsum("bij,bnj->bni", turns, self.points)
        return dataclasses.replace(self, points=points.astype(np.float32))

    def thinned(self, shares, rng):
        """A random part of each cloud's points, of clouds that have all of theirs.

        Args:
            shares: of the points to keep, [B] or one for all. With one for all the result has
                only so many points.
            rng: a `numpy.random.Generator`.
        """
        size = self.points.shape[1]
        counts = np.maximum(1, np.rint(shares * size * np.ones(len(self.y))).astype(int))
        order = np.argsort(rng.random(self.points.shape[:2]), axis=1)
        # A cloud's first point stands for those that it lacks.
        order = np.where(np.arange(size) < counts[:, None], order, order[:, :1])
        if not np.ndim(shares):
            order = order[:, : counts[0]]
        points = np.take_along_axis(self.points, order[..., None], axis=1)
        return dataclasses.replace(self, points=points, counts=counts)

    def observations(self):
        """The value 1 at every point, exact."""
        import tfpn

        missing = np.arange(self.points.shape[1]) >= self.counts[:, None]
        variance = np.where(missing, np.inf, 0.0).astype(np.float32)[..., None]
        return tfpn.observations(self.points, np.ones_like(self.points[..., :1]), variance)


def clouds(examples, points, seed):
    """`Clouds` of shapes that stand upright, as many of each class as of any other, within one.

    Each shape is stretched along its axes, moved so that its points' mean is 0, and scaled so that
    the farthest one has the distance 1; then noise is added.
    """
    rng = np.random.default_rng(seed)
    labels = rng.permutation(np.arange(examples) % len(CLASSES))
    found = np.empty((examples, points, 3), np.float32)
    for example, label in enumerate(labels):
        cloud = _sampled(_mesh(CLASSES[label], rng), points, rng)
        cloud *= np.exp(rng.uniform(-STRETCH, STRETCH, size=3))
        cloud -= cloud.mean(axis=0)
        cloud /= np.linalg.norm(cloud, axis=-1).max()
        found[example] = cloud + NOISE * rng.normal(size=cloud.shape)
    return Clouds(found, labels, np.full(examples, points))


def _mesh(name, rng):
    import pyvista
    from pyvista import examples

    if name in ("airplane", "ant", "nut"):
        return getattr(examples, f"load_{name}")()
    wide, long = rng.uniform(0.2, 0.5), rng.uniform(0.7, 1.5)
    shapes = {
        "arrow": lambda: pyvista.Arrow(tip_length=wide, tip_radius=wide / 2, shaft_radius=wide / 5),
        "box": lambda: pyvista.Cube(x_length=long, y_length=1.0, z_length=2 * wide),
        "cone": lambda: pyvista.Cone(height=long, radius=wide, resolution=60),
        "cylinder": lambda: pyvista.Cylinder(height=long, radius=wide, resolution=60),
        "ellipsoid": lambda: pyvista.ParametricEllipsoid(long, 1.0, 2 * wide),
        "ring": lambda: pyvista.ParametricTorus(ringradius=1.0, crosssectionradius=wide),
        "tetrahedron": lambda: pyvista.Tetrahedron(),
    }
    return shapes[name]()


def _sampled(mesh, points, rng):
    """Points drawn uniformly from a surface, [points, 3]."""
    surface = mesh.extract_surface(algorithm="dataset_surface").triangulate()
    corners = np.asarray(surface.points, np.float64)[surface.faces.reshape(-1, 4)[:, 1:]]
    first, second = corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]
    areas = np.linalg.norm(np.cross(first, second), axis=-1)
    chosen = rng.choice(len(areas), size=points, p=areas / areas.sum())
    u, v = rng.random((2, points, 1))
    u, v = np.where(u + v > 1, 1 - u, u), np.where(u + v > 1, 1 - v, v)
    return corners[chosen, 0] + u * first[chosen] + v * second[chosen]
