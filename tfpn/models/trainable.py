"""Keras's training and test steps, extended for GP networks."""

import types
from typing import Any

import keras
import tensorflow as tf

from tfpn.layer_likelihoods import trackers
from tfpn.math.replicas import replica_sum
from tfpn.models.targets import entries, is_entrywise, is_keras, rule_of, takes_moments
from tfpn.types import Mixin, Tensor


class Trainable(Mixin):
    """Mix-in for the models: a separate task loss, several devices, and steps traced once."""

    def _prepare_training(self):
        """Makes the state. Call it in the constructor."""
        self._distributed = tf.distribute.has_strategy()
        self._task_loss = keras.metrics.Mean(name="task_loss", dtype="float32")
        # What `tfpn.callbacks.layer_likelihoods` gives; an object of no kind that Keras tracks.
        self._last = types.SimpleNamespace(likelihoods={})

    @property
    def _target_rule(self):
        """The `Rule` of the compiled loss."""
        config = self._config
        fields = config.get("out_fields") is not None
        several = fields or self.has_moments or (config["num_outputs"] or 1) > 1
        return rule_of(self.loss, self.outputs, several, self.has_moments)

    @property
    def has_moments(self) -> bool:
        """Whether outputs are means and variances, [..., 2]."""
        return self._target_scale is not None and self._target_scale.has_moments

    def _entries(self, y, y_pred, weights, moments):
        """`entries` for a loss or metric of means, or with ``moments`` of means and variances."""
        if self.has_moments and not moments:
            y_pred = y_pred[..., :1]
        return entries(y, y_pred, weights, pairs=self.has_moments)

    def _pairs(self, y, y_pred, means):
        """Targets with the outputs' axes, and the outputs or with ``means`` their means."""
        if hasattr(y, "shape") and len(y.shape) == len(y_pred.shape) - 2:
            y = tf.expand_dims(y, -1)  # of one output
        return y, y_pred[..., 0] if means else y_pred

    def _may_miss(self, y):
        floating = hasattr(y, "dtype") and tf.as_dtype(y.dtype).is_floating
        return floating and self._target_rule.missing

    def compute_loss(
        self,
        x: Any = None,
        y: Any = None,
        y_pred: Any = None,
        sample_weight: Any = None,
        training: bool = True,
    ) -> Tensor:
        """Keras's; the part of `compile`'s loss is also shown as "task_loss".

        Targets of NaN are left out if the model has several outputs or predicts fields, and the
        loss is a mean over single entries ("mse", "mae" and the like). The loss is then the sum
        over the measured entries of a batch, each times its sample weight, divided by their number.
        A batch without any has a task loss of 0.

        With `tf.distribute` every replica has the loss of the whole batch, divided by the number of
        replicas as in Keras. A regression's loss compares targets and outputs in units of the
        targets' scale.

        Raises:
            tf.errors.InvalidArgumentError: in training, if the loss is not finite (not checked in
                XLA-compiled functions). The trained weights then stay as they are.
        """
        if self._target_scale is not None:
            y, y_pred = self._target_scale.standardised(y, y_pred)
        count = tf.shape(tf.nest.flatten(y_pred)[0])[0]
        size = tf.cast(count, tf.float32)  # in examples, which may be measured in part
        if self._may_miss(y):
            y, y_pred, sample_weight, measured = self._entries(
                y, y_pred, sample_weight, self._target_rule.moments
            )
            y_pred._keras_mask = measured  # makes Keras's mean one over the measured entries
            per_example = tf.cast(tf.reduce_prod(tf.shape(measured)[1:]), tf.float32)
            size = tf.reduce_sum(tf.cast(measured, tf.float32)) / per_example
        elif self.has_moments:
            y, y_pred = self._pairs(y, y_pred, self._target_rule.means)
        total = super().compute_loss(x, y, y_pred, sample_weight, training)
        # Keras divides all losses by the number of replicas, but not metrics.
        replicas = tf.distribute.get_strategy().num_replicas_in_sync
        task, others = replicas * total, 0.0
        if self.losses:
            others = tf.add_n([tf.cast(loss, task.dtype) for loss in self.losses])
            task -= others
        if replicas > 1:
            whole = tf.cast(size, task.dtype)
            # The last batch may leave a replica without examples, whose mean is NaN.
            part, whole = replica_sum(tf.where(count > 0, task, 0.0) * whole, whole)
            task = tf.math.divide_no_nan(part, whole)
            total = (task + others) / replicas
        self._task_loss.update_state(task, sample_weight=size)
        if training:  # gradients of such a loss would break all weights
            total = tf.debugging.check_numerics(
                total,
                "the loss is not finite: look for huge numbers in values and targets, and lower "
                "the learning rate if the weights have diverged",
            )
        return total

    def compute_metrics(
        self, x: Any, y: Any, y_pred: Any, sample_weight: Any = None
    ) -> dict[str, Any]:
        """Keras's; if the loss leaves out targets, means over entries leave them out, too.

        These are Keras's own mean errors; metrics of another kind become NaN. If outputs are means
        and variances, Keras's losses and metrics take the means. Those of `tfpn.losses` and
        functions of your own take both, [..., 2].
        """
        compiled = self._compile_metrics
        if self.has_moments and hasattr(y, "dtype"):
            y = tf.cast(y, y_pred.dtype)
        if compiled is None or not (self.has_moments or self._may_miss(y)):
            return super().compute_metrics(x, y, y_pred, sample_weight)
        if not compiled.built:
            compiled.build(y, y_pred)
        for groups, weights in (
            (compiled._flat_metrics, None),
            (compiled._flat_weighted_metrics, sample_weight),
        ):
            for metric in [metric for group in groups if group for metric in group.metrics]:
                if is_entrywise(metric):
                    targets, outputs, weights_here, measured = self._entries(
                        y, y_pred, weights, takes_moments(metric)
                    )
                    counted = tf.cast(measured, outputs.dtype)
                    if weights_here is not None:
                        counted *= weights_here
                    metric.update_state(targets, outputs, sample_weight=counted)
                elif self.has_moments:
                    pair = self._pairs(y, y_pred, is_keras(metric))
                    metric.update_state(*pair, sample_weight=weights)
                else:
                    metric.update_state(y, y_pred, sample_weight=weights)
        return self.get_metrics_result()

    def get_metrics_result(self) -> dict[str, Any]:
        """Keras's, with the layers' marginal likelihoods as their sum, "marginal_nll"."""
        found = super().get_metrics_result()
        names = [tracker.name for tracker in trackers(self) if tracker.name in found]
        if not names:
            return found
        parts = {name: found.pop(name) for name in names}
        if not tf.inside_function():  # at the end of an epoch or evaluation
            self._last.likelihoods = {name: float(part) for name, part in parts.items()}
        return {**found, "marginal_nll": sum(parts.values())}

    def train_step(self, data: Any) -> dict[str, Any]:
        """Keras's."""
        # No part of the step, such as the optimiser's count, goes before the check of the batch.
        given = [entry for entry in tf.nest.flatten(data) if entry is not None]
        with tf.control_dependencies([tf.group(*given)]):
            logs = super().train_step(data)
            self._train_readings(keras.utils.unpack_x_y_sample_weight(data)[0]["variance"])
        return self._for_workers(logs)

    def test_step(self, data: Any) -> dict[str, Any]:
        """Keras's."""
        return self._for_workers(super().test_step(data))

    def _for_workers(self, logs):
        """Adds the axis that Keras averages over with several workers, but its logs do not have."""
        strategy = self.distribute_strategy
        if isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy):
            return {key: tf.reshape(value, [1]) for key, value in logs.items()}
        return logs

    def _maybe_symbolic_build(self, iterator=None, data_batch=None):
        """Keras's, with a replica's part of the first batch.

        Keras takes the mean over the replicas. This fails if their parts differ in size, and with
        several workers.
        """
        if iterator is not None and self._distributed:
            _, _, batches = next(iter(iterator))
            data_batch = tf.nest.map_structure(
                lambda parts: self.distribute_strategy.experimental_local_results(parts)[0],
                next(batches),
            )
            iterator = None
        super()._maybe_symbolic_build(iterator, data_batch)

    def _create_variables(self, x, y):
        """Creates the optimizer's and the metrics' variables, which saves half of the tracing.

        Keras leaves them to the first step. TensorFlow traces a step that creates variables twice,
        and keeps both graphs.
        """
        # Under a strategy, Keras builds them before the first step.
        if not self.compiled or self._distributed or tf.distribute.has_strategy():
            return
        if self.optimizer is not None and not self.optimizer.built:
            self.optimizer.build(self.trainable_variables)
        if isinstance(x, (tf.data.Dataset, keras.utils.PyDataset)):
            batch = x.element_spec if isinstance(x, tf.data.Dataset) else x[0]
            y = batch[1] if isinstance(batch, tuple) and len(batch) > 1 else None
        if not (hasattr(y, "shape") and hasattr(y, "dtype") and len(self.outputs) == 1):
            return
        sizes = [1, *(size or 1 for size in y.shape[1:])]
        output = self.outputs[0]
        same = len(sizes) == len(output.shape) - self.has_moments
        shape = [size or (sizes[k] if same else 1) for k, size in enumerate(output.shape)]
        try:
            self.compute_metrics(None, tf.zeros(sizes, y.dtype), tf.zeros(shape, output.dtype))
        except Exception:  # the first step reports an error of the targets better
            return
        self.reset_metrics()
