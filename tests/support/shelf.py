"""A device for tests: host arrays under another roof, with leaves of its own."""

import contextlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

import mdtensor as md
from mdtensor import registry


class Shelf(md.Device):
    """A device whose buffers are host arrays; it logs what is asked of it."""

    name = "shelf"

    def __init__(self) -> None:
        self.log: list[str] = []

    def alloc(self, shape: tuple[int, ...], storage: np.dtype[Any]) -> Any:
        return np.empty(shape, storage)

    def from_host(self, array: Any) -> Any:
        self.log.append("from_host")
        return np.array(array)

    def to_host(self, buffer: Any) -> Any:
        self.log.append("to_host")
        return np.array(buffer)

    def launch(self, kernel: Callable[..., Any], *arguments: Any) -> None:
        try:
            kernel(*arguments)
        except Exception as error:
            raise self.failure(kernel, arguments, error) from error

    def synchronize(self) -> None:
        self.log.append("synchronize")


@contextlib.contextmanager
def shelved(dtypes: Iterable[md.DType], place: Any = None) -> Iterator[Any]:
    """`place`, registered, with a leaf for each of `dtypes`; gone afterwards."""
    with registry.restored():
        place = md.register_device(place or Shelf())
        for dtype in dtypes:
            host = md.leaf(dtype)
            body = {"__slots__": (), "__module__": __name__}
            name = f"{place.name.capitalize()}{host.__name__}"
            globals()[name] = type(
                name, host.__bases__, body, dtype=dtype, device=place
            )  # pickle finds it here
        yield place


#: Element types of devices that have few: none of them can hold every result.
FEW = ((md.float32,), (md.float16, md.bool), (md.float32, md.int32), (md.complex64,))


def on_few(x: Any, place: Any, dtype: md.DType) -> Any:
    """`x` on the device, with `dtype` for an element type that the device lacks."""
    if isinstance(x, (list, tuple)):
        return type(x)(on_few(part, place, dtype) for part in x)
    if not isinstance(x, md.NumericTensor | md.BoolTensor):
        return x
    try:
        return md.to(x, place)
    except md.DeviceError:
        real = x if dtype.is_complex or not x.dtype.is_complex else md.real(x)
        return md.to(md.astype(real, dtype), place)
