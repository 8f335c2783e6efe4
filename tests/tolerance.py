"""Limits of comparisons, from what rounding can do and not from what one processor did.

Processors differ in the width of their vectors, in fused multiply-adds, and so in the order in
which a sum is added. No order loses more than this: a sum of n products is off by at most
``n eps / 2 sum |a_i b_i|`` (Higham, Accuracy and Stability of Numerical Algorithms, 3.1), so that
a result on whose way each number is rounded n times is off by n eps / 2 of its size, times the
condition number of what follows. Two such results differ by twice that.
"""

import numpy as np


def rounding(count, dtype="float64", *, condition=1.0):
    """The largest relative difference of two results of ``count`` roundings each.

    Args:
        count: roundings of a number on its way: terms of the sums, one after another.
        dtype: in which they are done.
        condition: what a relative error of 1 becomes: the sum of the terms' magnitudes over the
            result's, or the condition number of a linear system.
    """
    return count * float(np.finfo(dtype).eps) * condition


def differences(value, step, *, condition=1.0, order=4, scale=1.0):
    """The largest error of a central difference, in units of the derivative's.

    Args:
        value: magnitude of the function, of which ``condition`` roundings are divided by ``step``.
        step: of the argument.
        order: of the formula, whose error is ``(step / scale)^order``.
        condition: of the function's value, in roundings.
        scale: length on which the function varies.
    """
    return rounding(2, condition=condition * value) / step + (step / scale) ** order
