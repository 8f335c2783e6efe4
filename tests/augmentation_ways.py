"""The two ways to call a function of `tfpn.augmentation`."""

import numpy as np
import tensorflow as tf


def ways(function, *default):
    """The function on arrays, and on a whole batch inside of a pipeline, with a seed's numbers.

    Args:
        function: of observations, an argument and a generator.
        default: the argument where none is given.
    """

    def by_array(x, *argument, seed=0, **options):
        return function(x, *(argument or default), np.random.default_rng(seed), **options)

    def by_pipeline(x, *argument, seed=0, **options):
        rng = tf.random.Generator.from_seed(seed)
        batches = tf.data.Dataset.from_tensors(x)
        batches = batches.map(lambda x: function(x, *(argument or default), rng, **options))
        return {key: np.asarray(tensor) for key, tensor in next(iter(batches)).items()}

    return by_array, by_pipeline
