"""Methods for devices that run rendered loops: infer, render, launch.

`register` adds them for all tensor types of a device. A method knows no device: it
allocates its result with `alloc`, and launches with `launch`. The device must have
types for every element type, and buffers with `view` and `is_writable`.
"""

from mdtensor.device import Device
from mdtensor.rendered import (
    activation,
    arithmetic,
    casts,
    comparison,
    movement,
    pool,
    products,
    reduction,
    writing,
)

__all__ = ["register"]


def register(device: Device) -> None:
    """Add the methods of rendered loops for the tensor types of a device."""
    elements = (arithmetic, comparison, activation, casts, movement, writing)
    for family in (*elements, reduction, products, pool):
        family.register(device)
