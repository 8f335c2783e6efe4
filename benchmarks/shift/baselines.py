"""What the benchmark compares with: MiniRocket, HYDRA, a random forest and a recurrent network.

Each function trains on a `Part` and returns a function from observations to probabilities.
"""

import types

import numpy as np

from benchmarks.physionet_baselines.run import summaries
from benchmarks.shift.sets import KEEP, interpolated, thinned_copies, thinning

STRENGTHS = (1e-4, 1e-3, 1e-2, 1e-1, 1.0)  # inverse, of the logistic regressions' penalty
TREES = 500
UNITS, STEPS, BATCH, RATE = 64, 1000, 32, 3e-3


def convolutional(kind, data, part, seed, thinned):
    """MiniRocket or HYDRA on interpolated series, and logistic regression."""
    if data.grid is None:
        raise ValueError(f"{kind} needs series; the points of this data set are not times.")
    from aeon.transformations.collection import convolution_based

    groups = np.arange(len(part.y))
    if thinned:
        part, groups = thinned_copies(part, seed, data.together)
    if kind == "minirocket":
        transform = convolution_based.MiniRocket(random_state=seed)
    else:
        transform = convolution_based.HydraTransformer(random_state=seed, output_type="numpy")

    def features(x):
        # A series that is the same throughout has no features in MiniRocket's implementation.
        series = interpolated(x, data.grid)
        series[..., 0] += 1e-6 * (np.ptp(series, axis=-1) == 0)
        return np.asarray(transform.transform(series), np.float32)

    transform.fit(interpolated(part.x, data.grid))
    classify = logistic_regression(features(part.x), part.y, groups, seed)
    return lambda x: classify(features(x))


def logistic_regression(features, labels, groups, seed):
    """Logistic regression on standardised features, its penalty by cross-validated likelihood.

    There are more features than series: all is done in the space of the series' inner products,
    which gives the same with a ridge penalty.
    """
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import log_loss
    from sklearn.model_selection import StratifiedGroupKFold

    mean, deviation = features.mean(0), features.std(0)
    deviation[deviation < 1e-6] = np.inf
    # Of order 1 / series, so that the penalty means the same for any number of features.
    scale = 1.0 / (deviation * np.sqrt(len(mean)))
    standard = (features - mean) * scale
    values, vectors = np.linalg.eigh((standard @ standard.T).astype(np.float64))
    used = values > 1e-6 * values[-1]
    rotation = standard.T @ (vectors[:, used] / np.sqrt(values[used])).astype(np.float32)
    rows = standard @ rotation

    def fitted(strength, some):
        model = LogisticRegression(C=strength * len(mean), max_iter=2000)
        return model.fit(rows[some], labels[some])

    folds = list(
        StratifiedGroupKFold(3, shuffle=True, random_state=seed).split(rows, labels, groups)
    )
    classes = np.unique(labels)

    def loss(strength):
        found = [
            log_loss(labels[held], fitted(strength, some).predict_proba(rows[held]), labels=classes)
            for some, held in folds
        ]
        return np.mean(found)

    best = fitted(min(STRENGTHS, key=loss), slice(None))
    return lambda features: best.predict_proba(((features - mean) * scale) @ rotation)


def forest(data, part, seed, thinned):
    """A random forest on summaries of each channel, its votes smoothed by one for each class."""
    from sklearn.ensemble import RandomForestClassifier

    if data.grid is None:
        raise ValueError("forest needs series; the points of this data set are not times.")
    if thinned:
        part, _ = thinned_copies(part, seed, data.together)
    model = RandomForestClassifier(TREES, random_state=seed)
    model.fit(table(part.x), part.y)

    def predict(x):
        votes = TREES * model.predict_proba(table(x)) + 1.0
        return votes / votes.sum(-1, keepdims=True)

    return predict


def table(x):
    """Summaries of each channel, [B, 9 c]; NaN where it was not read."""
    none = np.zeros((len(x["points"]), 0))
    return summaries(types.SimpleNamespace(x=x, statics=none, statics_variance=none))


def recurrent(data, part, seed, thinned):
    """A GRU on values, masks and times since the last reading, in the order of the times.

    Points of the plane stay in their order, and their coordinates take the place of times.
    """
    import keras
    import scipy.special

    from tfpn.augmentation import thin

    keras.utils.set_random_seed(seed)
    rng = np.random.default_rng((seed, 300))
    options = thinning(data.together)
    network = keras.Sequential(
        [
            keras.Input((None, sequences(part.x).shape[-1])),
            keras.layers.Masking(),
            keras.layers.GRU(UNITS),
            keras.layers.Dropout(0.3),
            keras.layers.Dense(data.num_classes),
        ]
    )
    network.compile(
        keras.optimizers.Adam(keras.optimizers.schedules.CosineDecay(RATE, STEPS)),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    )
    for _ in range(STEPS):
        some = rng.choice(len(part.y), min(BATCH, len(part.y)), replace=False)
        x = {key: array[some] for key, array in part.x.items()}
        if thinned:
            x = thin(x, KEEP, rng, **options)
        network.train_on_batch(sequences(x), part.y[some])
    return lambda x: scipy.special.softmax(network.predict(sequences(x), verbose=0), axis=-1)


def sequences(x):
    """Values, masks, times since the last reading or coordinates, and a 1; 0 in padding."""
    seen, where = np.isfinite(x["variance"]), x["points"]
    if where.shape[-1] == 1:
        last = np.maximum.accumulate(np.where(seen, where, 0.0), axis=1)
        where = where - np.concatenate([np.zeros_like(last[:, :1]), last[:, :-1]], axis=1)
    parts = [x["values"], seen, where, np.ones_like(x["points"][..., :1])]
    given = np.concatenate(parts, axis=-1).astype(np.float32)
    return np.where(seen.any(-1, keepdims=True), given, 0.0)


MODELS = {
    "minirocket": lambda *given: convolutional("minirocket", *given),
    "hydra": lambda *given: convolutional("hydra", *given),
    "forest": forest,
    "gru": recurrent,
}
