"""Elementwise functions compiled into single kernels, where a training step asks for it.

A chain of elementwise operations on feature maps is limited by memory: each one reads and writes
maps that fit in no cache. XLA makes one pass of it, about four times faster on a CPU. It must not
be everywhere: batched factorisations and products are slower under XLA on a CPU, every new shape
is compiled anew, and an exported model should not need a compiler. So layers switch it on for
training steps of known shape alone, and results agree up to rounding.
"""

import contextlib
import contextvars
import functools

import tensorflow as tf

_ACTIVE = contextvars.ContextVar("tfpn_fusion", default=False)


@contextlib.contextmanager
def fusion(active):
    """Within this context `fused` functions are compiled if ``active``."""
    token = _ACTIVE.set(bool(active) and not tf.executing_eagerly())
    try:
        yield
    finally:
        _ACTIVE.reset(token)


def is_active():
    """Whether `fused` functions are compiled here."""
    return _ACTIVE.get()


def fused(function):
    """Decorator for a function of tensors with static last axes, compiled within `fusion`."""
    compiled = tf.function(function, jit_compile=True, autograph=False)

    @functools.wraps(function)
    def call(*tensors):
        return compiled(*tensors) if is_active() else function(*tensors)

    return call
