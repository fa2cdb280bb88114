"""Concrete tensor types of a device, one for each of the host, made in one place.

    found = siblings(device, "Cuda", hosts, "mdtensor.cuda")
    found["CudaFloat32Tensor"]      # beside Float32Tensor: the same kinds and elements

A device type is a sibling of the host's type, not derived from it, so methods for kinds
take both and no call is ambiguous.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from mdtensor.device import Device
from mdtensor.tensor import Tensor


# One function instead of a class for each type and device, so that a new element type
# or device does not have to be written out (decision 0070).
def siblings(
    device: Device, prefix: str, hosts: Iterable[type[Tensor]], module: str
) -> dict[str, type[Tensor]]:
    """Declare a type of `device` beside each concrete type of the host.

    Args:
        device: the device of the new types.
        prefix: comes before the name of the host's type: `Cuda`.
        hosts: concrete types of the host.
        module: the name of the module that declares the types.

    Returns:
        The new types by name.

    Raises:
        RegistrationError: the device has a type with these elements already.

    Example:
        >>> import mdtensor as md
        >>> md.CudaFloat32Tensor.__bases__ == md.Float32Tensor.__bases__
        True
    """
    found = {}
    make: Any = type(Tensor)
    for host in hosts:
        name, about = f"{prefix}{host.__name__}", f"`{host.__name__}` on {device.name}."
        body = {"__slots__": (), "__module__": module, "__doc__": about}
        made = make(name, host.__bases__, body, dtype=host.dtype, device=device)
        found[name] = made
    return found
