"""Checks all data that you give a model, before it takes a step on them."""

import re
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfpn.checks import check_count, check_number
from tfpn.contract import KEYS, check_observations
from tfpn.models.shown import in_batches
from tfpn.models.target_scale import warn_before_fit
from tfpn.models.targets import (
    assertions,
    check_class_weight,
    check_shape,
    check_targets,
    check_weights,
    read_targets,
)
from tfpn.types import Array, Mixin, Verbose

# Batches of a data set for validation that are read before the first step.
_FEW_BATCHES = 1000


class Checked(Mixin):
    """Mix-in for the models: Keras's methods, which first check their arguments.

    Arrays are checked whole, before the first step. So is a `tf.data.Dataset` of known size for
    validation. Other data sets and generators are checked batch by batch, before the step on each
    batch and outside of what XLA compiles. So no step is taken on a bad batch.
    """

    def fit(
        self,
        x: Any = None,
        y: Any = None,
        batch_size: int | None = None,
        epochs: int = 1,
        verbose: Verbose = "auto",
        callbacks: Sequence[Any] | None = None,
        validation_split: float = 0.0,
        validation_data: Any = None,
        shuffle: bool = True,
        class_weight: Mapping[int, float] | None = None,
        sample_weight: Any = None,
        *args: Any,
        **kwargs: Any,
    ) -> Any:
        """Keras's, after a check of all arrays, including ``validation_data`` (see `predict`).

        Args:
            x: the input dict; or a `tf.data.Dataset`, `keras.utils.PyDataset` or generator of
                tuples that begin with it, each checked before its step.
            y: an array of targets: labels 0 to K - 1 for the sparse cross entropy, otherwise finite
                numbers of the output's shape. NaN means "not measured" for a model with several
                outputs or of fields, if the loss is a mean over single entries. The loss then
                leaves the entry out (see `compute_loss`).
            batch_size, epochs, verbose, callbacks, validation_split, shuffle: as Keras's.
            validation_data: as Keras's; a data set, or a tuple of input dict, targets and, if you
                like, sample weights. A `tf.data.Dataset` of at most 1000 batches by its
                ``cardinality()`` is read once before the first step, to check it. Anything else is
                checked batch by batch, after the first epoch.
            class_weight, sample_weight: as Keras's, finite numbers.
            *args: further arguments of Keras's.
            **kwargs: the same, by name.

        Raises:
            ValueError: for arrays that are not the input, targets or weights as above, with the
                argument and the example; for data sets whose entries have another form.
            TypeError: for arrays in a list in place of the input dict, which Keras would take in
                their order.
            tf.errors.InvalidArgumentError: for a batch of a data set or generator with such
                entries, before the step on it.
        """
        x, y, sample_weight = self._checked_data(x, y, sample_weight)
        check_class_weight(class_weight)
        if validation_split is not None:
            check_number("validation_split", validation_split, low=0.0, high=1.0)
        validation_data = self._checked_validation(validation_data)
        # The third of Keras's arguments that follow.
        steps = kwargs.get("validation_steps") or next(iter(args[2:]), None)
        self._check_few_batches(validation_data, steps)
        warn_before_fit(self, self._target_scale, x, y, validation_split, validation_data)
        if self.train_function is None:
            self._create_variables(x, y)
        return super().fit(
            x,
            y,
            batch_size,
            epochs,
            verbose,
            callbacks,
            validation_split,
            validation_data,
            shuffle,
            class_weight,
            sample_weight,
            *args,
            **kwargs,
        )

    def evaluate(
        self,
        x: Any = None,
        y: Any = None,
        batch_size: int | None = None,
        verbose: Verbose = "auto",
        sample_weight: Any = None,
        *args: Any,
        **kwargs: Any,
    ) -> Any:
        """Keras's, after the checks of `fit`."""
        # In fit, Keras evaluates data that were checked before.
        if not kwargs.get("_use_cached_eval_dataset"):
            x, y, sample_weight = self._checked_data(x, y, sample_weight)
        if self.test_function is None:
            self._create_variables(x, y)
        return super().evaluate(x, y, batch_size, verbose, sample_weight, *args, **kwargs)

    def train_on_batch(
        self,
        x: Any,
        y: Any = None,
        sample_weight: Any = None,
        class_weight: Mapping[int, float] | None = None,
        return_dict: bool = False,
    ) -> Any:
        """Keras's, after the checks of `fit`."""
        x, y, sample_weight = self._checked_data(x, y, sample_weight)
        check_class_weight(class_weight)
        if self.train_function is None:
            self._create_variables(x, y)
        return super().train_on_batch(x, y, sample_weight, class_weight, return_dict)

    def test_on_batch(
        self, x: Any, y: Any = None, sample_weight: Any = None, return_dict: bool = False
    ) -> Any:
        """Keras's, after the checks of `fit`."""
        x, y, sample_weight = self._checked_data(x, y, sample_weight)
        if self.test_function is None:
            self._create_variables(x, y)
        return super().test_on_batch(x, y, sample_weight, return_dict)

    def predict_on_batch(self, x: Any) -> Array:
        """Keras's, after the checks of `predict`."""
        return super().predict_on_batch(self._checked(x))

    def predict(
        self,
        x: Any,
        batch_size: int | None = None,
        verbose: Verbose = "auto",
        steps: int | None = None,
        callbacks: Sequence[Any] | None = None,
    ) -> Array:
        """Keras's, for arrays in the model's own dtype.

        Arrays are checked first, so that bad ones are named by argument, example and point. Data
        sets and generators are checked batch by batch.

        A classifier's outputs are its logits, divided by the temperature once `calibrate` has set
        one.

        Args:
            x: the input dict, or anything with it that Keras's `predict` takes.
            batch_size, verbose, steps, callbacks: as Keras's.

        Raises:
            ValueError: for keys, shapes or entries that are not the input's.
            TypeError: for arrays without the keys.
            tf.errors.InvalidArgumentError: for a data set with such entries; if a layer's result is
                not finite, for example because squares of values are too large (not checked where
                XLA compiles the model).

        Warns:
            UserWarning: once, if half of the examples have less than two thirds of the readings of
                those that `adapt` and training saw; if the first layer conditions locally, and
                has drifts that reach beyond its halos (arrays only).
        """
        x = self._checked(x)
        self._warn_of_readings(x, stacklevel=2)
        if isinstance(x, dict):
            size = 32 if batch_size is None else check_count("batch_size", batch_size)
            x, batch_size = in_batches(self, x, size), None
        return super().predict(x, batch_size, verbose, steps, callbacks)

    def _checked_validation(self, data):
        """``validation_data`` after checks, under its own name."""
        if data is None:
            return None
        try:
            if isinstance(data, dict) or _is_array(data):
                raise TypeError("found no targets; give a tuple of the input dict and targets.")
            if not isinstance(data, (list, tuple)):
                self._check_first_form(data)
                return data
            if len(data) not in (2, 3):
                raise ValueError(
                    f"found {len(data)} entries; give the input dict, targets, and sample weights "
                    "if there are any."
                )
            x, y, *weights = data
            x, y, weights = self._checked_data(x, y, *weights)
        except (TypeError, ValueError) as error:
            raise type(error)(f"validation_data: {error}") from error
        return (x, y) if weights is None else (x, y, weights)

    def _checked_data(self, x, y, sample_weight=None):
        """Checks arrays and returns them as NumPy's; checks only the form of data sets."""
        x = self._checked(x, cast=True)
        if not isinstance(x, dict):
            self._check_first_form(x)
            return x, y, sample_weight
        examples, points = len(x["points"]), None
        if "query" in x:
            points = np.shape(x["query"])[1]
        if isinstance(y, dict):  # by the output's name
            y = {name: read_targets(some) for name, some in y.items()}
        elif y is not None:
            y = read_targets(y)
        elif getattr(self, "loss", None) is not None:
            raise ValueError("y is None: give the targets that the loss compares outputs with.")
        rule = self._target_rule
        for some in keras.tree.flatten(y) if y is not None else ():
            check_targets(some, rule, examples, points)
        if sample_weight is not None:
            sample_weight = read_targets(sample_weight, "sample_weight")
            check_weights(sample_weight, examples, rule, points)
        return x, y, sample_weight

    def _checked(self, x, cast=False):
        """Checks the arrays of the input dict; returns data sets and generators as they are.

        ``cast`` says that Keras will cast them to its own float type.
        """
        if not isinstance(x, dict):
            self._refuse_arrays(x)
            return x
        self._check_keys(x)
        inputs = self.inputs_dict
        x = {
            key: np.asarray(value) if isinstance(value, (list, tuple)) else value
            for key, value in x.items()
        }
        data = {key: np.asarray(x[key]) for key in KEYS}
        if data["points"].ndim == data["variance"].ndim == 3:
            # Padding may lie anywhere.
            padding = ~np.isfinite(data["variance"]).any(axis=-1, keepdims=True)
            if padding.shape[:2] == data["points"].shape[:2]:
                data["points"] = np.where(padding, 0.0, data["points"])
        check_observations(
            data,
            spatial_dim=inputs["points"].shape[-1],
            channels=inputs["values"].shape[-1],
        )
        self._check_missing(data["variance"])
        x = self._check_query(x)
        wide = inputs["points"].dtype == "float64"
        if (
            cast
            and wide
            and keras.config.floatx() != "float64"
            and any(np.asarray(array).dtype == np.float64 for array in x.values())
        ):
            warnings.warn(
                f"{self.name} computes in float64, but Keras casts arrays to "
                f"{keras.config.floatx()}: call keras.config.set_floatx('float64') first, or "
                "give a tf.data.Dataset.",
                stacklevel=4,
            )
        return x

    def _check_keys(self, x):
        expected = self.inputs_dict
        if set(x) != set(expected):
            raise ValueError(
                f"{type(self).__name__} {self.name!r} takes a dict with the keys "
                f"{', '.join(expected)}, found {', '.join(map(str, x)) or 'none'}."
            )

    def _refuse_arrays(self, x):
        """Raises TypeError for arrays without their keys, which Keras takes in their order."""
        if isinstance(x, (list, tuple)) or _is_array(x):
            raise TypeError(
                f"{type(self).__name__} {self.name!r} takes a dict with the keys "
                f"{', '.join(self.inputs_dict)}, found a {type(x).__name__}, which does not name "
                "its arrays: make the dict with tfpn.observations."
            )

    def _check_few_batches(self, data, steps):
        """Reads a data set for validation once, if it is known to be short.

        Args:
            data: anything that Keras takes.
            steps: batches of it that are used, or None for all.
        """
        if not isinstance(data, tf.data.Dataset):
            return
        used = data if steps is None else data.take(steps)
        if not 0 < used.cardinality() <= _FEW_BATCHES:  # below 0: not known, or without end
            return
        for number, batch in enumerate(used):
            try:
                self._checked_batch(batch)
            except tf.errors.InvalidArgumentError as error:
                # TensorFlow writes what is asserted, and then the data b'...' that explain it.
                said = re.sub(
                    r"^.*?Summarized data: b?(['\"])(.*?)\1", r"\2", error.message, flags=re.S
                )
                said = " ".join(said.split())
                raise ValueError(f"validation_data: batch {number}: {said}") from error

    def _check_first_form(self, data):
        """Checks the form of a data set's batches, if it is known without reading one."""
        if isinstance(data, tf.data.Dataset):
            self._check_form(data.element_spec)
        elif isinstance(data, keras.utils.PyDataset):
            self._check_form(data[0])

    def _check_form(self, batch):
        """Raises an error unless a batch is the input dict, or a tuple that begins with it."""
        x, y, _ = keras.utils.unpack_x_y_sample_weight(batch)
        self._refuse_arrays(x)
        self._check_keys(x)
        for key, given in self.inputs_dict.items():
            if not tf.TensorShape(x[key].shape).is_compatible_with(given.shape):
                raise ValueError(
                    f"{key}: a batch has the shape {tuple(x[key].shape)}; give [B, "
                    f"{', '.join('N' if size is None else str(size) for size in given.shape[1:])}]."
                )
        if y is not None and not isinstance(y, dict):
            check_shape(tuple(y.shape), self._target_rule)

    def _autoconvert_optionals(self, step_func):
        """Keras's, for a step after a check: Keras calls this on the function that XLA compiles."""

        def checked_step(data):
            here = not tf.distribute.has_strategy() or tf.distribute.in_cross_replica_context()
            if self._distributed and here:  # and not on a replica: each checks its own part
                data = self.distribute_strategy.run(self._checked_batch, args=(data,))
            else:
                data = self._checked_batch(data)
            return step_func(data)

        return super()._autoconvert_optionals(checked_step)

    @tf.autograph.experimental.do_not_convert
    def _checked_batch(self, batch):
        """The batch, after assertions that must pass before anything is computed from it."""
        self._check_form(batch)
        x, y, weights = keras.utils.unpack_x_y_sample_weight(batch)
        found = _input_assertions(x)
        rule = self._target_rule
        targets = [None] if y is None else keras.tree.flatten(y)
        for some in targets:
            some = None if some is None else tf.convert_to_tensor(some)
            found += assertions(some, None, rule)
        if weights is not None:
            found += assertions(None, tf.convert_to_tensor(weights), rule)
        with tf.control_dependencies([check for check in found if check is not None]):
            return keras.tree.map_structure(
                lambda entry: None if entry is None else tf.identity(entry), batch
            )


def _input_assertions(x):
    """Assertions on the entries of the input dict, which the layers cannot make under XLA."""
    points, values, variance = (tf.convert_to_tensor(x[key]) for key in KEYS)
    observed = tf.math.is_finite(variance)
    return [
        tf.debugging.Assert(
            tf.reduce_all(variance >= 0),  # NaN is not
            ["variance is negative or NaN; it must be >= 0, or +inf where nothing is observed."],
        ),
        tf.debugging.Assert(
            tf.reduce_all(tf.math.is_finite(values) | ~observed),
            ["values holds NaN or infinity where the variance says that a value is observed."],
        ),
        tf.debugging.Assert(
            tf.reduce_all(
                tf.reduce_all(tf.math.is_finite(points), -1) | ~tf.reduce_any(observed, -1)
            ),
            [
                "points holds NaN or infinity where a value is observed; check it by "
                "tfpn.observations."
            ],
        ),
    ]


def _is_array(x):
    return hasattr(x, "shape") or hasattr(x, "columns")
