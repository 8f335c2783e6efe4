"""The random numbers of layers that draw."""

from typing import Any

import keras
import tensorflow as tf

from tfpn.checks import check_count
from tfpn.math.replicas import replica_id
from tfpn.types import Config, Mixin, Tensor

_STATE = "draws"  # the key under which files hold the generator's state
# Offsets of the seed between streams, and between replicas.
_STREAM = 1 << 12
_REPLICA = 1 << 18


class Drawing(Mixin):
    """Mix-in for layers with draws: fresh ones in every training step, the same in prediction."""

    def _take_draws(self, seed, stream, num_waves, num_samples=None, num_training_samples=None):
        """Keeps the arguments. Call it in the constructor.

        Layers that only take their input's draws have no number of samples.
        """
        if seed is not None and (isinstance(seed, bool) or not isinstance(seed, int)):
            raise ValueError(f"seed must be an integer or None, found {seed!r}.")
        self.seed = seed
        self.stream = check_count("stream", stream)
        self.num_waves = check_count("num_waves", num_waves)
        if num_samples is not None:
            self.num_samples = check_count("num_samples", num_samples)
            self.num_training_samples = check_count("num_training_samples", num_training_samples)

    def _draw_config(self) -> Config:
        """The arguments in the form for saving."""
        names = ("seed", "stream", "num_waves", "num_samples", "num_training_samples")
        return {name: getattr(self, name) for name in names if hasattr(self, name)}

    def _start_drawing(self) -> None:
        """Makes the state by which training counts its steps."""
        self.seed_generator = keras.random.SeedGenerator(self.seed)

    def save_own_variables(self, store: Any) -> None:
        """Keras's, and how far training has drawn, which is no weight."""
        super().save_own_variables(store)
        generator = getattr(self, "seed_generator", None)
        if generator is not None and generator.state.numpy()[1]:
            store[_STATE] = generator.state.numpy()

    def load_own_variables(self, store: Any) -> None:
        """Keras's; after a file without the state, draws begin anew."""
        if _STATE in store.keys():
            self.seed_generator.state.assign(store[_STATE])
        super().load_own_variables({key: store[key] for key in store.keys() if key != _STATE})

    def _next_seed(self, training: bool) -> Tensor:
        """A new seed in training, which differs between replicas; in prediction always the same."""
        stream = _STREAM * self.stream
        if not training:
            return tf.constant([stream, (self.seed or 0) % 2**31], tf.int32)
        seed = tf.cast(self.seed_generator.next(), tf.int32)
        return seed + [stream + _REPLICA * replica_id(), 0]

    def _draw_options(self, training: bool) -> dict[str, Any]:
        """The options of a strategy with draws: their number and their seed."""
        options = {"waves": self.num_waves, "seed": self._next_seed(training), "fresh": training}
        if hasattr(self, "num_samples"):
            options["samples"] = self.num_training_samples if training else self.num_samples
        return options
