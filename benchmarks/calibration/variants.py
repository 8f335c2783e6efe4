"""The ways of carrying uncertainty that the calibration benchmark compares."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Variant:
    """How the uncertainty is carried, and what is changed in the later layers.

    Attributes:
        mode: "none", "diagonal", "low_rank" or "joint"; "draws", the library's "sampled"; or
            "sampled", the mean and variance of the exact features of functions sampled from the
            first layer's posterior.
        rank: factors of "low_rank" that the first layer finds, or number of "draws".
        drawn: factors that each later layer finds in its own posterior covariance and adds.
        length: factor of the later layers' length scale, or "fit" for the length scale and signal
            standard deviation of largest marginal likelihood, with the variances as the values'
            noise, or "fit to means" for those of the means, as if they were exact.
        nugget: variance of independent errors that the later layers' priors have besides, in units
            of the mean square of their input; with "fit" it is fitted too. Of "draws" it is the
            variance of the later layers' own noise.
        centred: subtracts each channel's mean from the later layers' input, and adds its flow.
    """

    mode: str
    rank: int = 8
    drawn: int = 0
    length: float | str = 1.0
    nugget: float | str = 0.0
    centred: bool = False

    @property
    def name(self):
        counted = self.mode in ("low_rank", "draws")
        name = f"{self.mode} {self.rank}" if counted else self.mode
        name += f" +{self.drawn} drawn" if self.drawn else ""
        name += f", length {self.length}" if self.length != 1.0 else ""
        name += f", nugget {self.nugget}" if self.nugget else ""
        return name + (", centred" if self.centred else "")


MODES = (
    Variant("none"),
    Variant("diagonal"),
    *(Variant("low_rank", rank) for rank in (4, 8, 16)),
    Variant("joint"),
    *(Variant("draws", 64, nugget=nugget) for nugget in (0.0, 1e-3, 1e-2)),
    Variant("sampled"),
)
NUGGETS = (1e-3, 1e-2, 1e-1)
FITTED = {"length": "fit", "nugget": "fit", "centred": True}
TO_MEANS = {**FITTED, "length": "fit to means"}
VARIANTS = (
    Variant("diagonal"),
    Variant("low_rank", 16),
    *(Variant("low_rank", 16, drawn=drawn) for drawn in (16, 48)),
    *(Variant("low_rank", 16, length=length) for length in (0.7, 1.4, "fit")),
    *(Variant(mode, 16, nugget=nugget) for mode in ("diagonal", "low_rank") for nugget in NUGGETS),
    *(Variant("low_rank", 16, drawn=48, nugget=nugget) for nugget in NUGGETS[:2]),
    Variant("low_rank", 16, centred=True),
    *(Variant(mode, 16, **FITTED) for mode in ("diagonal", "low_rank")),
    Variant("low_rank", 16, drawn=48, **FITTED),
    *(Variant(mode, 16, **TO_MEANS) for mode in ("diagonal", "low_rank")),
    Variant("low_rank", 16, drawn=48, **TO_MEANS),
    Variant("low_rank", 16, length=0.7, nugget=1e-3),
    Variant("joint"),
    *(Variant("joint", length=length) for length in (0.7, 1.4, "fit")),
    *(Variant("joint", nugget=nugget) for nugget in NUGGETS),
    Variant("joint", centred=True),
    Variant("joint", **FITTED),
    Variant("joint", **TO_MEANS),
)
