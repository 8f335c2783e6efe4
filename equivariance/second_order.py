"""The second-order coefficients of dissipative generators, for any library of arrays."""


def second_order(factors, einsum):
    """S_ab = 1/4 sum_j (Q_ja^T Q_jb + Q_jb^T Q_ja), exactly symmetric in a and b.

    Q is [..., j, d, middle, in] and S is [..., d, d, in, in]. ``einsum`` comes from Q's library.
    """
    products = einsum("...jamc,...jbmd->...abcd", factors, factors)
    return (products + einsum("...abcd->...bacd", products)) / 4
