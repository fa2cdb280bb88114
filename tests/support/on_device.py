"""Calls on the device of `rendered_device`, compared with those on the host."""

from collections.abc import Callable
from typing import Any

import numpy as np
from support import rendered_device

import mdtensor as md

gpu: Any = rendered_device.chosen()


def there(x: Any) -> Any:
    """Move a tensor, or the tensors of a list, to the device."""
    if isinstance(x, (tuple, list)):
        return type(x)(map(there, x))
    return x.to(gpu) if isinstance(x, md.Tensor) else x


def agree(call: Callable[..., Any], *given: Any, near: float = 0) -> Any:
    """Check types, shapes and bytes, or values within a bound, against the host."""
    wanted, found = call(*given), call(*map(there, given))
    is_one = isinstance(wanted, md.Tensor)
    several = [(wanted,), (found,)] if is_one else [wanted, found]
    for a, b in zip(*several, strict=True):
        assert b.device is gpu and b.dtype is a.dtype and b.shape == a.shape
        x, y = np.asarray(a), np.asarray(b.to("cpu"))
        if near:
            wide = [part.astype(np.float64) for part in (y, x)]
            np.testing.assert_allclose(*wide, rtol=near, atol=near)
        else:
            # 0 has one sign here: a maximum may choose either.
            assert (x + 0 if x.dtype.kind == "f" else x).tobytes() == (
                y + 0 if y.dtype.kind == "f" else y
            ).tobytes()
    return found


def same_bytes(call: Callable[..., Any], *given: Any) -> None:
    """Check that results have the bytes of the host, the signs of zeros, too."""
    wanted, found = call(*given), call(*map(there, given))
    is_one = isinstance(wanted, md.Tensor)
    for a, b in zip(*([[wanted], [found]] if is_one else [wanted, found]), strict=True):
        assert b.device is gpu and b.dtype is a.dtype and b.shape == a.shape
        assert np.asarray(b.to("cpu")).tobytes() == np.asarray(a).tobytes()
