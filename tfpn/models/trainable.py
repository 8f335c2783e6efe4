"""Keras's training and test steps, where a GP network needs more than they give."""

import keras
import tensorflow as tf

from tfpn.math.replicas import replica_sum


class Trainable:
    """Mix-in for the models: the task's loss apart, several devices, and steps traced once."""

    def _prepare_training(self):
        """To be called by the constructor."""
        self._distributed = tf.distribute.has_strategy()
        self._task_loss = keras.metrics.Mean(name="task_loss", dtype="float32")

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        """Keras's; what `compile`'s loss gives of it is shown as "task_loss" besides.

        With `tf.distribute` it is on every replica the loss of the whole batch, divided by the
        number of replicas as Keras does. A regression's loss is that of targets and outputs in
        units of the targets' scale.
        """
        if self._target_scale is not None:
            y, y_pred = self._target_scale.standardised(y, y_pred)
        total = super().compute_loss(x, y, y_pred, sample_weight, training)
        # Keras divides all losses by the number of replicas, and metrics not.
        replicas = tf.distribute.get_strategy().num_replicas_in_sync
        task, others = replicas * total, 0.0
        if self.losses:
            others = tf.add_n([tf.cast(loss, task.dtype) for loss in self.losses])
            task -= others
        count = tf.shape(tf.nest.flatten(y_pred)[0])[0]
        if replicas > 1:
            size = tf.cast(count, task.dtype)
            # The last batch may leave a replica without examples, whose mean is NaN.
            part, size = replica_sum(tf.where(count > 0, task, 0.0) * size, size)
            task = part / tf.maximum(size, 1.0)
            total = (task + others) / replicas
        self._task_loss.update_state(task, sample_weight=count)
        return total

    def train_step(self, data):
        """Keras's."""
        return self._for_workers(super().train_step(data))

    def test_step(self, data):
        """Keras's."""
        return self._for_workers(super().test_step(data))

    def _for_workers(self, logs):
        """With several workers Keras takes the mean over an axis that its logs do not have."""
        strategy = self.distribute_strategy
        if isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy):
            return {key: tf.reshape(value, [1]) for key, value in logs.items()}
        return logs

    def _maybe_symbolic_build(self, iterator=None, data_batch=None):
        """Keras's, with a replica's part of the first batch.

        Keras takes the mean over the replicas, which fails where their parts differ in size, and
        with several workers.
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

        Keras leaves them to the first step, and TensorFlow traces a step that creates variables
        twice, and keeps both graphs.
        """
        # Keras builds what was made under a strategy before the first step.
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
        same = len(sizes) == len(output.shape)
        shape = [size or (sizes[k] if same else 1) for k, size in enumerate(output.shape)]
        try:
            self.compute_metrics(None, tf.zeros(sizes, y.dtype), tf.zeros(shape, output.dtype))
        except Exception:  # What is wrong with the targets, the first step says better.
            return
        self.reset_metrics()
