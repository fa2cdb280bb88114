"""Small arrays of the host on devices: scales, tables, places. Each is copied once."""

from collections.abc import Callable, Hashable
from threading import Lock
from typing import Any

import numpy as np
import numpy.typing as npt

from mdtensor.device import Device

#: The largest number of arrays on all devices; a new one replaces the oldest.
MOST = 1024
_KNOWN: dict[Hashable, Any] = {}
_LOCK = Lock()


# An array of a grid or of sizes is a constant of a call, as an immediate number is;
# only its first use copies it (decision 0071).
def remembered(device: Device, key: Hashable, make: Callable[[], Any]) -> Any:
    """Return what `make` returned at the first call with this key.

    Args:
        device: the device.
        key: determines the result; None makes a new one each time.
        make: copies something to the device.
    """
    if key is None:
        return make()
    place = device.name, key
    found = _KNOWN.get(place)
    if found is None:
        found = make()
        with _LOCK:
            while len(_KNOWN) >= MOST:
                del _KNOWN[next(iter(_KNOWN))]
            _KNOWN[place] = found
    return found


def array(device: Device, values: npt.NDArray[Any]) -> Any:
    """Return the buffer of a small array."""
    values = np.ascontiguousarray(values)
    key = values.tobytes(), values.dtype.str, values.shape
    return remembered(device, key, lambda: device.from_host(values))
