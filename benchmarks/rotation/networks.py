"""The networks that the rotation benchmark compares, matched in their numbers of parameters."""

import math

MODELS = ("PNCNN", "SteerablePNCNN")


def parameters(model):
    """The number of trainable parameters."""
    return sum(math.prod(weight.shape) for weight in model.trainable_weights)


def matched_channels(count, blocks):
    """Channels of the PNCNN whose number of parameters is nearest to ``count``."""
    import numpy as np

    import tfpn

    def found(channels):
        return parameters(tfpn.models.PNCNN(10, channels=channels, num_blocks=blocks))

    # The number is a polynomial of second degree in the channels.
    few = (1, 2, 3)
    squares = np.polyfit(few, [found(channels) for channels in few], 2)
    squares[-1] -= count
    best = max(np.roots(squares).real)
    near = {max(1, math.floor(best)), max(1, math.ceil(best))}
    return min(near, key=lambda channels: abs(found(channels) - count))


def build(name, options, seed):
    """A network before training."""
    import tfpn

    if name == "PNCNN":
        return tfpn.models.PNCNN(
            10, channels=options.channels, num_blocks=options.blocks, seed=seed
        )
    return tfpn.models.SteerablePNCNN(
        10, copies=options.copies, num_blocks=options.blocks, seed=seed
    )
