"""The type of quantities, and their specs for inference."""

from __future__ import annotations

from typing import Any

import mdtensor as md
from mdtensor_units.unit import Unit


class Quantity(md.Operators):
    """A tensor of numbers in a unit.

    Args:
        values: a tensor, or values for `asarray`.
        unit: the unit of all numbers.
    """

    __slots__ = ("tensor", "unit")
    #: The fix in errors of calls that no method fits.
    remedy = "Use q.tensor for the numbers without their unit"

    def __init__(self, values: Any, unit: Unit) -> None:
        self.tensor = md.asarray(values)
        self.unit = unit

    @property
    def shape(self) -> tuple[int, ...]:
        """Return the sizes of the axes."""
        shape: tuple[int, ...] = self.tensor.shape
        return shape

    # Any, because stubs know the types of mdtensor only.
    def __getitem__(self: Any, key: Any) -> Any:
        return md.getitem(self, key)

    def __setitem__(self: Any, key: Any, value: Any) -> None:
        md.setitem(self, key, value)

    def __repr__(self) -> str:
        return f"Quantity({self.tensor!r}, {self.unit})"


class QuantitySpec(md.TensorSpec):
    """A quantity without its numbers, as shape rules take and return it."""

    tensor: md.TensorSpec
    unit: Unit

    def __init__(self, tensor: md.TensorSpec, unit: Unit) -> None:
        super().__init__(Quantity, tensor.shape)
        vars(self).update(tensor=tensor, unit=unit)  # a spec is frozen

    @property
    def dtype(self) -> md.DType:
        return self.tensor.dtype

    @property
    def device(self) -> Any:
        return self.tensor.device

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, QuantitySpec):
            return False
        return self.tensor == other.tensor and self.unit == other.unit

    def __str__(self) -> str:
        return f"Quantity({self.tensor}, {self.unit})"


def with_unit(tensor: Any, unit: Unit | None) -> Any:
    """Return a quantity, or its spec for a spec; without a unit, the tensor."""
    if unit is None:
        return tensor
    is_spec = isinstance(tensor, md.TensorSpec)
    return (QuantitySpec if is_spec else Quantity)(tensor, unit)


def bare(x: Any) -> Any:
    """Return the tensor or spec inside a quantity; return anything else unchanged."""
    return getattr(x, "tensor", x)
