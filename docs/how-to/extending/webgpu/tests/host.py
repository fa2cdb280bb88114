"""What the tests compare with: the same call on the host."""

from collections.abc import Callable
from typing import Any

import numpy as np

import mdtensor as md
from mdtensor import quant

webgpu: Any = md.device("webgpu")
TYPES = ("bool", "int8", "int16", "int32", "uint8", "uint16", "uint32", "float32")
#: Elements of a rounding: 1 + EPS is the float32 after 1.
EPS = 2.0**-23


def numbers(type: str, *shape: int, seed: int = 0) -> Any:
    """Random elements of a type; of integers the whole range with its ends."""
    rng, count = np.random.default_rng(seed), int(np.prod(shape))
    if type == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    if type == "float32":
        return (rng.standard_normal(shape) * 3).astype(np.float32)
    info = np.iinfo(type)
    found = rng.integers(info.min, info.max, count, endpoint=True).astype(type)
    found[: min(count, 2)] = [info.min, info.max][: min(count, 2)]
    return found.reshape(shape)


def tensor(type: str, *shape: int, seed: int = 0) -> Any:
    return md.asarray(numbers(type, *shape, seed=seed))


def there(x: Any) -> Any:
    return x.to(webgpu) if isinstance(x, md.Tensor) else x


def bytes_of(x: Any) -> tuple[type, tuple[int, ...], bytes]:
    """Type, shape and bytes of a tensor on the host."""
    return type(x), x.shape, np.asarray(getattr(x, "codes", x)).tobytes()


def same(call: Callable[..., Any], *given: Any) -> Any:
    """Check that the device gives type, shape, grid and bytes of the host."""
    wanted, found = call(*given), call(*map(there, given))
    assert found.device is webgpu
    here = found.to("cpu")
    assert bytes_of(here) == bytes_of(wanted)
    if isinstance(wanted, quant.QuantizedTensor):
        assert here.qparams == wanted.qparams and here.rounding == wanted.rounding
    return found


def near(call: Callable[..., Any], *given: Any, ulp: float, absolute: float = 0) -> Any:
    """Check floats: ulp units in the last place of the host's, or an absolute error."""
    wanted, found = np.asarray(call(*given)), call(*map(there, given))
    here = np.asarray(found.to("cpu"))
    assert here.dtype == wanted.dtype and here.shape == wanted.shape
    np.testing.assert_allclose(here, wanted, rtol=ulp * EPS, atol=absolute)
    return found
