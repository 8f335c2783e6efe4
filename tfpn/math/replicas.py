"""Sums over the whole batch, even if `tf.distribute` splits it between devices."""

import tensorflow as tf


def replica_sum(*tensors):
    """Each tensor's sum over all replicas of a `tf.distribute` step; elsewhere the tensor itself.

    So every replica has the same mean over observed entries, or moments of a normalisation, of the
    whole batch. The replicas' shares of the batch do not matter. The sum has the gradient of the
    sum of all replicas' losses.

    Args:
        tensors: float tensors, each of the same shape on all replicas.

    Returns:
        A list of the sums.

    Example: outside of a distributed step there is one replica.

    >>> [float(tensor) for tensor in replica_sum(tf.constant(1.0), tf.constant(2.0))]
    [1.0, 2.0]
    """
    context = tf.distribute.get_replica_context()  # None while a strategy's scope builds a model
    if context is None or context.num_replicas_in_sync == 1:
        return list(tensors)
    return context.all_reduce(tf.distribute.ReduceOp.SUM, list(tensors))


def replica_id():
    """The number of this replica in a `tf.distribute` step; elsewhere 0.

    >>> replica_id()
    0
    """
    context = tf.distribute.get_replica_context()
    if context is None or context.num_replicas_in_sync == 1:
        return 0
    return int(tf.get_static_value(context.replica_id_in_sync_group))
