"""Checks of the arguments that all models' constructors have."""

from collections.abc import Iterable

from tfpn.checks import check_choice, check_count, check_positive
from tfpn.layers.conditioning import read_conditioning
from tfpn.math.posterior import NOISE
from tfpn.types import Config


def check_arguments(
    ways: Iterable[str],
    *,
    num_classes: int | None,
    num_outputs: int | None,
    uncertainty: str,
    input_noise: str,
    feature_noise: float | None,
    conditioning: str,
    block_size: int,
    neighbors: int | None,
    **counts: int,
) -> Config:
    """Checks the arguments that all models have, and returns them for the configuration.

    Args:
        ways: the choices of ``uncertainty``.
        num_classes, num_outputs, uncertainty, input_noise, feature_noise, conditioning, block_size,
            neighbors: as in the models.
        **counts: positive whole numbers by name.

    Raises:
        ValueError: for a bad argument.
    """
    if num_classes is not None and num_outputs is not None:
        raise ValueError(
            f"give num_classes or num_outputs, not both: found {num_classes} and "
            f"{num_outputs}; for regression set num_classes=None."
        )
    check_choice("uncertainty", uncertainty, tuple(ways))
    check_choice("input_noise", input_noise, tuple(NOISE))
    if feature_noise is not None:
        check_positive("feature_noise", feature_noise)
    return {
        "num_classes": num_classes,
        "num_outputs": num_outputs,
        "uncertainty": uncertainty,
        "input_noise": input_noise,
        "feature_noise": feature_noise,
        **read_conditioning(conditioning, block_size, neighbors),
        **{name: check_count(name, count) for name, count in counts.items()},
    }
