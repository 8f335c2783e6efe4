"""The base of layers on fields that rotations turn."""

import numbers
from typing import Any

from tfpn.math.steerable.fields import count_channels, read_fields
from tfpn.math.steerable.groups import FieldGroup, read_group
from tfpn.math.uncertainty import UNCERTAINTY, keys_beside, steerable
from tfpn.types import FieldsLike, Mixin


class FieldsMixin(Mixin):
    """Checks of field types and points, for a layer with ``name``.

    Lets a SavedModel hold its kernels.

    Attributes:
        group: the `FieldGroup`; `_take_group` reads it.
    """

    def _take_group(self, group, spatial_dim):
        self.group = read_field_group(group, spatial_dim)

    @property
    def spatial_dim(self) -> int:
        """The dimension of the fields' space, 2 or 3."""
        return self.group.dim

    def _group_config(self):
        return {"group": self.group.name, "spatial_dim": self.group.dim}

    def _weight_parts(self, frequency):
        """The leading axis of mixing weights: (2,) for a real and an imaginary part, or ()."""
        return (2,) if self.group.mixes_by_complex_numbers(frequency) else ()

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


def optional_fields(fields: FieldsLike | None, name: str, group: FieldGroup) -> Any:
    """`read_fields`, but None stays None."""
    return None if fields is None else read_fields(fields, name, group=group)


def read_field_group(group: Any, spatial_dim: Any) -> FieldGroup:
    """The group of a layer's fields.

    Args:
        group: its name, or None for all rotations of ``spatial_dim``.
        spatial_dim: 2, 3 or None, which stands for that of the group, or 2.

    Raises:
        TypeError, ValueError: for anything else, or if the two do not agree.
    """
    if isinstance(spatial_dim, bool) or spatial_dim not in (None, 2, 3):
        raise ValueError(
            f"spatial_dim must be 2 for fields on the plane or 3 for fields in space, found "
            f"{spatial_dim!r}."
        )
    return read_group(group, spatial_dim)


def check_seed(value: Any) -> int:
    """``value`` as an int; raises ValueError unless it is a whole number >= 0."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral) or value < 0:
        raise ValueError(f"seed must be a whole number >= 0 or None, found {value!r}.")
    return int(value)
