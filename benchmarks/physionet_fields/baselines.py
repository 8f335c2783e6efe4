"""What the program compares a field model with: the last value, GPs and a GRU.

Each is fitted to observations, with a function that asks for some of their readings, and gives
means and standard deviations of all channels at the query points.
"""

import warnings

import numpy as np
from scipy import optimize
from sklearn.gaussian_process import GaussianProcessRegressor, kernels

HOURS = 48
RECORDS = 30  # from which a channel's prior is learnt
LEAST = 0.05  # of a standard deviation


class LastValue:
    """Carries the last reading before forward, or the next one back; the mean where none is."""

    def fit(self, train, validation, ask):
        """The spread of each channel's errors."""
        given, targets = ask(train, 3)
        self._spread = np.ones(targets.shape[-1])
        error = targets - self.predict(given)[0]
        for channel in range(len(self._spread)):
            found = error[..., channel][np.isfinite(error[..., channel])]
            if found.size:
                self._spread[channel] = max(np.sqrt(np.mean(np.square(found))), LEAST)

    def predict(self, given):
        """Means and standard deviations, [B, M, c]."""
        query, seen = given["query"], np.isfinite(given["variance"])
        mean = np.zeros((*query.shape[:2], seen.shape[-1]))
        for record, channel in zip(*np.nonzero(seen.any(axis=1)), strict=True):
            rows = np.flatnonzero(seen[record, :, channel])
            rows = rows[np.argsort(given["points"][record, rows, 0], kind="stable")]
            times, values = given["points"][record, rows, 0], given["values"][record, rows, channel]
            last = np.searchsorted(times, query[record, :, 0], side="right") - 1
            mean[record, :, channel] = values[np.maximum(last, 0)]
        return mean, np.broadcast_to(self._spread, mean.shape)


class ChannelGP:
    """scikit-learn's GP for each channel: Matern, a level, and noise; one prior for all records."""

    def fit(self, train, validation, ask):
        """The kernel of the greatest marginal likelihood of some records, by channel."""
        seen = np.isfinite(train["variance"])
        self._kernels = []
        for channel in range(seen.shape[-1]):
            kernel = kernels.ConstantKernel(0.5) * kernels.Matern(0.1, (0.005, 10.0), nu=1.5)
            kernel += kernels.ConstantKernel(0.5) + kernels.WhiteKernel(0.1, (1e-3, 10.0))
            records = np.flatnonzero(seen[..., channel].sum(axis=1) > 2)[:RECORDS]
            processes = [self._process(kernel, train, record, channel) for record in records]
            if processes:
                kernel = kernel.clone_with_theta(_best(processes, kernel))
            self._kernels.append(kernel)

    @staticmethod
    def _process(kernel, x, record, channel):
        rows = np.isfinite(x["variance"][record, :, channel])
        process = GaussianProcessRegressor(kernel, optimizer=None)
        return process.fit(x["points"][record, rows], x["values"][record, rows, channel])

    def predict(self, given):
        """Means and standard deviations, [B, M, c]."""
        query, seen = given["query"], np.isfinite(given["variance"])
        mean, std = np.zeros((2, *query.shape[:2], seen.shape[-1]))
        for channel, kernel in enumerate(self._kernels):
            std[..., channel] = np.sqrt(kernel(np.zeros([1, 1]))[0, 0])
            for record in np.flatnonzero(seen[..., channel].any(axis=1)):
                process = self._process(kernel, given, record, channel)
                found = process.predict(query[record], return_std=True)
                mean[record, :, channel], std[record, :, channel] = found
        return mean, np.maximum(std, LEAST)


def _best(processes, kernel):
    """The parameters of the greatest sum of marginal likelihoods."""

    def loss(theta):
        found = [p.log_marginal_likelihood(theta, eval_gradient=True) for p in processes]
        return [-sum(parts) / len(found) for parts in zip(*found, strict=True)]

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return optimize.minimize(loss, kernel.theta, jac=True, bounds=kernel.bounds).x


class GRU:
    """A recurrent network over hours in both directions: values and their mask in, Gaussians out.

    The weights of the epoch with the least likelihood loss on the validation part are kept.
    """

    def __init__(self, seed, units=64, epochs=60):
        self._seed, self._units, self._epochs = seed, units, epochs

    def fit(self, train, validation, ask):
        """Other readings are asked for in every epoch."""
        import keras

        keras.utils.set_random_seed(self._seed)
        channels = train["values"].shape[-1]
        inputs = keras.Input((HOURS, 2 * channels))
        layer = keras.layers.Bidirectional(
            keras.layers.GRU(self._units, return_sequences=True, dropout=0.1)
        )
        hidden = keras.layers.Bidirectional(
            keras.layers.GRU(self._units, return_sequences=True, dropout=0.1)
        )(layer(inputs))
        self._model = keras.Model(inputs, keras.layers.Dense(2 * channels)(hidden))
        self._model.compile(keras.optimizers.Adam(3e-3), _hourly_loss)
        held, best = _hourly(*ask(validation, 1)), None
        for epoch in range(self._epochs):
            x, y = _hourly(*ask(train, 1000 + epoch))
            self._model.fit(x, y, batch_size=32, verbose=0)
            loss = self._model.evaluate(*held, verbose=0)
            if best is None or loss < best[0]:
                best = loss, self._model.get_weights()
        self._model.set_weights(best[1])

    def predict(self, given):
        """Those of the hours in which the query points lie."""
        found = self._model.predict(_hourly(given)[0], verbose=0)
        hour = _hour(given["query"])
        mean, log_variance = np.split(np.take_along_axis(found, hour[..., None], axis=1), 2, -1)
        return mean, np.maximum(np.exp(0.5 * np.clip(log_variance, -8.0, 8.0)), LEAST)


def _hour(points):
    return np.clip((points[..., 0] * HOURS).astype(int), 0, HOURS - 1)


def _hourly(given, targets=None):
    """Means of each hour and their mask [B, 48, 2 c], and means of the targets [B, 48, c]."""
    seen = np.isfinite(given["variance"])
    mean = _means(_hour(given["points"]), np.where(seen, given["values"], np.nan))
    x = np.concatenate([np.nan_to_num(mean), np.isfinite(mean)], axis=-1).astype(np.float32)
    if targets is None:
        return x, None
    return x, _means(_hour(given["query"]), targets).astype(np.float32)


def _means(hour, values):
    """Means by hour of what is not NaN."""
    records = np.arange(len(values))[:, None]
    total, count = np.zeros((2, len(values), HOURS, values.shape[-1]))
    known = np.isfinite(values)
    np.add.at(total, (records, hour), np.where(known, values, 0.0))
    np.add.at(count, (records, hour), known)
    return np.divide(total, count, out=np.full_like(total, np.nan), where=count > 0)


def _hourly_loss(y, outputs):
    """Mean negative log likelihood of the hours that have a target."""
    import tensorflow as tf

    mean, log_variance = tf.split(outputs, 2, axis=-1)
    log_variance = tf.clip_by_value(log_variance, -8.0, 8.0)
    known = tf.math.is_finite(y)
    error = tf.square(tf.where(known, y, mean) - mean)
    loss = 0.5 * (log_variance + error * tf.exp(-log_variance) + np.log(2.0 * np.pi))
    loss = tf.where(known, loss, 0.0)
    return tf.reduce_sum(loss) / tf.maximum(tf.reduce_sum(tf.cast(known, loss.dtype)), 1.0)
