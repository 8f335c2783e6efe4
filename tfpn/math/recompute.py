"""Computes tensors again in the gradient, if keeping them would take much memory.

Most memory of a training step holds tensors for its gradient. Some of the largest take little time
to compute.
"""

import tensorflow as tf

from tfpn.math.fusion import fusion, is_active


def recomputed(function, *structures):
    """Calls ``function(*structures)`` and keeps only the tensors of its arguments for the gradient.

    If a function has no gradient, ``tf.recompute_grad`` gives zeros. Here the gradient stays None.
    So tensors that must not be differentiated raise their error if, and only if, they are.

    Args:
        function: takes the structures and returns a tuple of tensors. Anything else that it reads
            gets no gradient.
        structures: floating tensors, or structures that `tf.nest` flattens into them.

    Returns:
        What ``function`` returns.

    Example:

    >>> import tensorflow as tf
    >>> x = tf.constant(3.0)
    >>> with tf.GradientTape() as tape:
    ...     tape.watch(x)
    ...     (y,) = recomputed(lambda x: (tf.exp(x) * tf.exp(-x) * x,), x)
    >>> round(float(tape.gradient(y, x)), 4)
    1.0
    """
    active = is_active()  # TensorFlow calls the gradient outside of the context

    @tf.custom_gradient
    def apply(*tensors):
        def gradient(*upstream):
            again = available_after(upstream, tensors)
            with tf.GradientTape() as tape, fusion(active):
                tape.watch(again)
                results = function(*tf.nest.pack_sequence_as(structures, again))
            return tape.gradient(results, again, output_gradients=upstream)

        return function(*tf.nest.pack_sequence_as(structures, tensors)), gradient

    return apply(*tf.nest.flatten(structures))


def available_after(upstream, tensors):
    """The tensors, which a graph computes only after ``upstream``, the arriving gradients.

    Otherwise TensorFlow would compute the tensors early, or the graph optimiser would merge the two
    computations. Either would keep the tensors.
    """
    with tf.control_dependencies(upstream):
        return [tf.identity(tensor) for tensor in tensors]
