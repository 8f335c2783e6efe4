"""The base of layers on fields that rotations turn."""

import numbers
from typing import Any

from tfpn.math.steerable.fields import count_channels, read_fields
from tfpn.math.uncertainty import UNCERTAINTY, keys_beside, steerable
from tfpn.types import FieldsLike, Mixin


class FieldsMixin(Mixin):
    """Checks of field types and points, for a layer with ``name`` and ``spatial_dim``.

    Lets a SavedModel hold its kernels.
    """

    def _trackable_children(self, save_type="checkpoint", **kwargs):
        # TensorFlow refuses dicts with keys other than strings, such as kernels by frequency.
        children = dict(super()._trackable_children(save_type, **kwargs))
        if children.pop("kernels", None) is not None:
            children.update({f"kernel_{m}": kernel for m, kernel in self.kernels.items()})
        return children

    def _input_fields(self, fields, channels):
        """The input's type: the given one, or scalars; raises ValueError if it does not fit."""
        fields = ((0, channels),) if fields is None else fields
        expected = count_channels(fields, self.spatial_dim)
        if expected != channels:
            raise ValueError(
                f"{type(self).__name__} {self.name!r} takes the fields {fields}, {expected} "
                f"channels, found {channels} channels."
            )
        return fields

    def _check_shapes(self, shapes):
        dim, channels = super()._check_shapes(shapes)
        if dim != self.spatial_dim:
            where = {2: "of the plane", 3: "in space"}[self.spatial_dim]
            raise ValueError(
                f"{type(self).__name__} {self.name!r} needs points {where} "
                f"[B, N, {self.spatial_dim}], found {tuple(shapes['points'])}; give spatial_dim=2 "
                "for fields on the plane and 3 for fields in space."
            )
        return dim, channels

    def _check_shapes_beside(self, shapes):
        known = {UNCERTAINTY[name].key for name in steerable()}
        found = sorted(set(keys_beside()) & set(shapes) - known)
        if found:
            raise ValueError(
                f"{type(self).__name__} {self.name!r} takes no {found[0]}: steerable layers carry "
                f"uncertainty as one of {steerable()} do."
            )
        super()._check_shapes_beside(shapes)


def fields_config(fields: Any) -> Any:
    """A field type as nested lists, for saving; None stays None."""
    return None if fields is None else [list(pair) for pair in fields]


def optional_fields(fields: FieldsLike | None, name: str, spatial_dim: int = 2) -> Any:
    """`read_fields`, but None stays None."""
    return None if fields is None else read_fields(fields, name, spatial_dim)


def read_spatial_dim(value: Any) -> int:
    """``spatial_dim`` of fields, an int; raises ValueError unless it is 2 or 3."""
    if isinstance(value, bool) or value not in (2, 3):
        raise ValueError(
            f"spatial_dim must be 2 for fields on the plane or 3 for fields in space, found "
            f"{value!r}."
        )
    return int(value)


def check_seed(value: Any) -> int:
    """``value`` as an int; raises ValueError unless it is a whole number >= 0."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral) or value < 0:
        raise ValueError(f"seed must be a whole number >= 0 or None, found {value!r}.")
    return int(value)
