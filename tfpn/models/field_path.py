"""The path of a field's readings around a network: kriging beside it, and the sum of both."""

from collections.abc import Sequence
from typing import Any

import keras

from tfpn.checks import check_choice, check_count
from tfpn.layers.conditioning import CONDITIONED
from tfpn.layers.kriging import AMPLITUDES, TRENDS, Kriging
from tfpn.math.kernels import kernel_config
from tfpn.models.field_layers import ChannelScale, CoordinateScale, FieldScale, FieldSum, Stacked
from tfpn.types import Config, KernelLike, Layer, Tensor

OUTPUTS = ("pooled", "normal", "field")


def read_field(
    output: str,
    num_outputs: int | None,
    observation_noise: float | None,
    dim: int,
    ard: bool | Sequence[int],
    trend: str,
    amplitude: str,
    kriging_kernel: KernelLike | None,
    **others: Any,
) -> Config:
    """Checks the arguments of a field; returns them with ``ard`` as a list of groups or False.

    Args:
        output, num_outputs, observation_noise, ard, trend, amplitude, kriging_kernel: as
            in the models.
        dim: d.
        others: further arguments of the model by name, each with the value that it must have.

    Raises:
        ValueError: for bad arguments, or arguments of a field without a field.
    """
    check_choice("output", output, OUTPUTS)
    check_choice("trend", trend, tuple(TRENDS))
    check_choice("amplitude", amplitude, AMPLITUDES)
    found = {"ard": ard, "trend": trend, "amplitude": amplitude, "kriging_kernel": kriging_kernel}
    if output != "field":
        plain = {"ard": False, "trend": "constant", "amplitude": "shared", "kriging_kernel": None}
        changed = [f"{name}={value!r}" for name, value in found.items() if value != plain[name]]
        if changed:
            raise ValueError(f"{', '.join(changed)} is of output='field', found output={output!r}.")
        if output == "normal" and num_outputs is None:
            raise ValueError(
                "output='normal' predicts numbers with their variances: give num_classes=None and "
                "num_outputs."
            )
        return {"output": output, **plain}
    if num_outputs is None:
        raise ValueError(
            "output='field' predicts num_outputs channels: give num_classes=None and num_outputs, "
            "such as the number of the input's channels."
        )
    if observation_noise is None:
        raise ValueError(
            "output='field' needs an observation_noise to start from, found None: readings that "
            "the model is to predict have some."
        )
    for name, (given, wanted) in others.items():
        if given != wanted:
            raise ValueError(f"output='field' needs {name}={wanted!r}, found {given!r}.")
    groups: Any = False
    if ard is True:
        groups = list(range(dim))
    elif ard is not False:
        try:
            groups = [int(group) for group in ard]
        except (TypeError, ValueError):
            groups = []
        if len(groups) != dim or sorted(set(groups)) != list(range(max(groups) + 1)):
            raise ValueError(
                f"ard must be True, False or {dim} whole numbers from 0 on, the group of each "
                f"dimension, such as {list(range(dim))}; found {ard!r}."
            )
    if kriging_kernel is not None:
        kriging_kernel = kernel_config(kriging_kernel)
    return {"output": output, **found, "ard": groups, "kriging_kernel": kriging_kernel}


class FieldPath:
    """Builds the parts of a field model around its network.

    Args:
        config: arguments of the model, including those of `read_field`.

    Attributes:
        scale: the `CoordinateScale`, or None.
        units: the `ChannelScale`.
        kriging: the `Kriging`.
        sum: the `FieldSum`.
        given: symbolic observations in the network's coordinates and units.
        features: symbolic observations that the layer "readout" takes.
        target_scale: the layer that gives its outputs the targets' unit.
    """

    target_scale = FieldScale

    def __init__(self, config: Config) -> None:
        ard, dtype, kernel = config.get("ard"), config["dtype"], config["kriging_kernel"]
        self.scale = CoordinateScale(ard, dtype=dtype, name="coordinates") if ard else None
        self.units = ChannelScale(dtype=dtype, name="units")
        self.kriging = Kriging(
            trend=config["trend"],
            amplitude=config["amplitude"],
            noise=config["input_noise"],
            kernel=config["kernel"] if kernel is None else kernel,
            observation_noise=config["observation_noise"],
            **{name: config[name] for name in CONDITIONED},
            marginal_likelihood_weight=config["marginal_likelihood_weight"],
            dtype=dtype,
            name="kriging",
        )
        outputs = check_count("num_outputs", config["num_outputs"])
        self.sum = FieldSum(outputs, dtype=dtype, name="field")
        self._stack = Stacked(dtype=dtype, name="moments")
        self.given: Any = None
        self.features: Any = None

    def enter(self, inputs: Any) -> dict[str, Tensor]:
        """The network's input: readings minus their trend, in coordinates of one scale."""
        points, self._query = (self._scaled(inputs[key]) for key in ("points", "query"))
        values, variance = self.units(inputs["values"], inputs["variance"])
        self.given = {"points": points, "values": values, "variance": variance}
        self._kriged = self.kriging(self.given, self._query)
        return {**self.given, "values": self._kriged["residuals"]}

    def leave(self, features: Any, readout: Layer) -> tuple[dict[str, Tensor], Tensor]:
        """Symbolic moments at the query points, and the model's output."""
        self.features = features
        moments = self.sum(self._kriged, readout(features, self._query))
        return moments, self._stack(moments)

    def _scaled(self, points):
        return points if self.scale is None else self.scale(points)

    def factors(self) -> Any:
        """The factors of the coordinates, [d] or 1."""
        return 1.0 if self.scale is None else self.scale.factors().numpy()

    def features_model(self, inputs: Any) -> Any:
        """The model from the inputs to ``given`` and ``features``."""
        given = {f"given_{key}": tensor for key, tensor in self.given.items()}
        features = {f"features_{key}": tensor for key, tensor in self.features.items()}
        return keras.Model(inputs, {**given, **features})
