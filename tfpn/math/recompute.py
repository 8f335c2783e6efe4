"""Computing again in the gradient what would take much memory to keep.

What a training step keeps for its gradient is most of its memory, and some of the largest tensors
take little time to compute.
"""

import tensorflow as tf

from tfpn.math.fusion import fusion, is_active


def recomputed(function, *structures):
    """``function(*structures)``, of which nothing but their tensors is kept for the gradient.

    ``tf.recompute_grad`` gives zeros where a function has no gradient; here it stays None, so that
    what must not be differentiated still raises its error if, and only if, it is.

    Args:
        function: takes the structures and returns a tuple of tensors. What it reads apart from its
            arguments gets no gradient.
        structures: floating tensors, or what `tf.nest` takes apart into such.

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
    active = is_active()  # the gradient is asked for outside of the context

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
    """The tensors, but in a graph not before ``upstream``, the gradients that arrive.

    Otherwise what is computed again would be computed early, or merged with the first computation
    by the graph optimiser, and kept.
    """
    with tf.control_dependencies(upstream):
        return [tf.identity(tensor) for tensor in tensors]
