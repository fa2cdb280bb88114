"""Methods for devices that run rendered loops: infer, render, launch.

`register` adds them for all tensor types of a device. A method knows no device: it
allocates its result with `alloc`, and launches with `launch`. A device with
another language than CUDA C++ has `render`. Its buffers have `memory`, `view` and
`is_writable`; it needs bool, signed and unsigned integers and floats, not all of them.
"""

from collections.abc import Callable

from mdtensor.device import Device

__all__ = ["is_rendered", "on_rendered_device", "register"]
#: The devices that run rendered loops, and what packages add for each of them.
_DEVICES: list[Device] = []
_ADDITIONS: list[Callable[[Device], None]] = []


def register(device: Device) -> None:
    """Add the methods of rendered loops for the tensor types of a device."""
    # Here, because most programs have no such device and need none of these.
    from mdtensor.rendered import (
        activation,
        arithmetic,
        casts,
        comparison,
        composed,
        curves,
        integer_products,
        movement,
        norms,
        picking,
        places,
        pool,
        products,
        recurrent,
        reduction,
        resampling,
        running,
        scattering,
        searching,
        signals,
        sorting,
        writing,
    )

    elements = (arithmetic, comparison, activation, casts, movement, writing)
    lines = (reduction, running, products, pool, norms, sorting)
    chosen = (curves, picking, places, resampling, searching, scattering)
    made = (integer_products, composed, recurrent, signals)
    for family in (*elements, *lines, *made, *chosen):
        family.register(device)
    _DEVICES.append(device)
    for add in _ADDITIONS:
        add(device)


def is_rendered(device: Device) -> bool:
    """Return whether a device runs rendered loops."""
    return device in _DEVICES


def on_rendered_device(add: Callable[[Device], None]) -> None:
    """Call `add` with each device that runs rendered loops, also with later ones.

    A package declares its tensor types of the device there, and adds methods.
    """
    _ADDITIONS.append(add)
    for device in _DEVICES:
        add(device)
