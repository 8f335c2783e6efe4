"""What the program compares a field model with: kriging, GPs, distances and boosting.

Each takes months as pairs of arrays, places [n, 3] (east and north in 100 km, elevation in km) and
values [n], and gives mean and standard deviation of readings at other places.
"""

import warnings

import numpy as np
from scipy import optimize
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessRegressor, kernels

NEIGHBOURS = 8


class OrdinaryKriging:
    """An unknown constant and an isotropic Matern field of the map, one prior for all months."""

    def __init__(self):
        self._kernel = kernels.ConstantKernel(1.0) * kernels.Matern(2.0, nu=1.5)
        self._kernel += kernels.WhiteKernel(0.1)

    def fit(self, months):
        """The kernel of the greatest marginal likelihood of the months, each less its mean."""
        self._unit = np.std(np.concatenate([values - values.mean() for _, values in months]))
        processes = [
            GaussianProcessRegressor(self._kernel, optimizer=None).fit(
                places[:, :2], (values - values.mean()) / self._unit
            )
            for places, values in months
        ]

        def loss(theta):
            found = [p.log_marginal_likelihood(theta, eval_gradient=True) for p in processes]
            return [-sum(parts) / len(found) for parts in zip(*found, strict=True)]

        best = optimize.minimize(loss, self._kernel.theta, jac=True, bounds=self._kernel.bounds)
        self._kernel = self._kernel.clone_with_theta(best.x)

    def predict(self, month, query):
        """By the kriging system, whose weights sum to 1."""
        places, values = month
        count = len(places)
        system = np.ones((count + 1, count + 1))
        system[:count, :count] = self._kernel(places[:, :2])
        system[count, count] = 0.0
        right = np.ones((count + 1, len(query)))
        right[:count] = self._kernel(places[:, :2], query[:, :2])  # of other points: no noise
        weights = np.linalg.solve(system, right)
        variance = self._kernel.diag(query[:, :2]) - np.sum(weights * right, axis=0)
        return weights[:count].T @ values, self._unit * np.sqrt(variance)


class TunedGP:
    """scikit-learn's GP, Matern with a length scale a dimension, tuned anew in every month.

    With a linear part in the coordinates, as the field model has one.
    """

    def fit(self, months):
        """Nothing is learnt from other months."""

    def predict(self, month, query):
        """Mean and standard deviation of a reading."""
        places, values = month
        centre, unit = places.mean(axis=0), places.std(axis=0)
        kernel = kernels.ConstantKernel(0.3) * kernels.Matern([1.0] * 3, (0.05, 100.0), nu=1.5)
        kernel += kernels.ConstantKernel(0.5) * kernels.DotProduct(1.0) + kernels.WhiteKernel(0.1)
        process = GaussianProcessRegressor(kernel, normalize_y=True, random_state=0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            process.fit((places - centre) / unit, values)
        return process.predict((query - centre) / unit, return_std=True)


class _ConstantSpread:
    """A standard deviation from the months' stations, each left out once."""

    def _fit_spread(self, months):
        residuals = [
            values[station] - self._at(_without(months[k], station), places[station][None])[0]
            for k, (places, values) in enumerate(months)
            for station in range(0, len(values), 5)
        ]
        self._spread = np.sqrt(np.mean(np.square(residuals)))

    def predict(self, month, query):
        """Means, and the same standard deviation everywhere."""
        return self._at(month, query), np.full(len(query), self._spread)


class InverseDistance(_ConstantSpread):
    """Weights by a power of the distance in the map, after a regression on elevation.

    The power is the best one of three.
    """

    def fit(self, months):
        """The power and the spread, of every tenth month."""
        best = None
        for self._power in (1.0, 2.0, 3.0):
            self._fit_spread(months[::10])
            if best is None or self._spread < best[0]:
                best = self._spread, self._power
        self._spread, self._power = best

    def _at(self, month, query):
        places, values = month
        slope, level = np.polyfit(places[:, 2], values, 1)
        rest = values - slope * places[:, 2] - level
        distance = np.linalg.norm(query[:, None, :2] - places[:, :2], axis=-1)
        weights = (distance + 1e-3) ** -self._power
        return weights @ rest / weights.sum(axis=1) + slope * query[:, 2] + level


class Boosting(_ConstantSpread):
    """Gradient boosting on the nearest stations' values, distances and heights.

    A fifth of the stations is held out of the trees, for their standard deviation. Trees that know
    the map's coordinates learn stations by heart, which does not help at others.
    """

    def fit(self, months):
        """Every station of the months, seen from the others."""
        inputs, targets, stations = [], [], []
        for places, values in months:
            for station in range(len(values)):
                others = _without((places, values), station)
                features, level = self._features(others, places[station][None])
                inputs.append(features[0])
                targets.append(values[station] - level[0])
                stations.append(tuple(places[station]))
        inputs, targets = np.array(inputs), np.array(targets)
        _, number = np.unique(stations, axis=0, return_inverse=True)
        held = np.random.default_rng(0).uniform(size=number.max() + 1)[number.ravel()] < 0.2
        used = ~held
        options = {"max_iter": 300, "learning_rate": 0.05, "random_state": 0}
        self._trees = HistGradientBoostingRegressor(**options).fit(inputs[used], targets[used])
        error = targets[held] - self._trees.predict(inputs[held])
        self._spread = np.sqrt(np.mean(np.square(error)))

    def _at(self, month, query):
        features, level = self._features(month, query)
        return self._trees.predict(features) + level

    @staticmethod
    def _features(month, query):
        """Of each query point: neighbours relative to their mean, and that mean."""
        places, values = month
        distance = np.linalg.norm(query[:, None, :2] - places[:, :2], axis=-1)
        near = np.argsort(distance, axis=1)[:, :NEIGHBOURS]
        level = values[near].mean(axis=1)
        rise = query[:, None, 2] - places[near, 2]
        features = [
            values[near] - level[:, None],
            np.take_along_axis(distance, near, axis=1),
            rise,
            query[:, 2:],
            np.full((len(query), 1), np.polyfit(places[:, 2], values, 1)[0]),
        ]
        return np.concatenate(features, axis=1), level


def _without(month, station):
    """A month without one of its stations."""
    kept = np.arange(len(month[1])) != station
    return month[0][kept], month[1][kept]


BASELINES = {
    "ordinary kriging": OrdinaryKriging,
    "GP, ARD Matern, tuned each month": TunedGP,
    "inverse distance": InverseDistance,
    "gradient boosting": Boosting,
}
