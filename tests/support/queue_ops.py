"""The tensors of the queue device, and a handful of operations on them.

A method deduces its result, launches a kernel that writes it, and returns.
"""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from support.queue_device import QueueDevice
from support.shelf import shelved

import mdtensor as md
from mdtensor import registry
from mdtensor.errors import checked

PLAIN = [leaf.dtype for leaf in md.leaves()[:15]]
Kernel = Callable[..., Any]


def launched(operation: Any, kernel: Kernel, *operands: Any, **options: Any) -> Any:
    """The result of `kernel(*operands, out)`, which is not there yet."""
    selected = operation.select(*map(type, operands))
    specs = map(spec, operands)
    rule = checked(
        operation.__name__, operands, lambda: selected.deduce(*specs, **options)
    )
    place = rule.type.device
    out = place.alloc(rule.shape, rule.type.dtype.storage)
    place.launch(kernel, *(getattr(x, "buffer", x) for x in operands), out)
    return rule.type.wrap(out)


def spec(x: Any) -> Any:
    return md.TensorSpec(type(x), x.shape) if isinstance(x, md.Tensor) else x


def cast(ufunc: Any, name: str) -> Kernel:
    """The kernel of a binary ufunc, computed in the type of the result."""

    def kernel(a: Any, b: Any, out: Any) -> None:
        with np.errstate(all="ignore"):
            ufunc(*(np.asarray(x).astype(out.dtype) for x in (a, b)), out=out)

    kernel.__name__ = name
    return kernel


ADD, MUL = cast(np.add, "add"), cast(np.multiply, "mul")


def matmul_kernel(a: Any, b: Any, out: Any) -> None:
    np.matmul(a.astype(out.dtype), b.astype(out.dtype), out=out)


def relu_kernel(x: Any, out: Any) -> None:
    np.maximum(x, 0, out=out)


def add(x1: Any, x2: Any) -> Any:
    return launched(md.add, ADD, x1, x2)


def mul(x1: Any, x2: Any) -> Any:
    return launched(md.mul, MUL, x1, x2)


def matmul(x1: Any, x2: Any) -> Any:
    return launched(md.matmul, matmul_kernel, x1, x2)


def relu(x: Any) -> Any:
    return launched(md.relu, relu_kernel, x)


def sum(x: Any, **options: Any) -> Any:
    def kernel(values: Any, out: Any) -> None:
        kept = {"axis": options["axis"], "keepdims": options["keepdims"]}
        out[...] = values.sum(**kept, dtype=out.dtype)

    kernel.__name__ = "sum"
    return launched(md.sum, kernel, x, **options)


@contextlib.contextmanager
def queued(place: QueueDevice | None = None) -> Iterator[QueueDevice]:
    """The device with its tensor types and operations; all gone afterwards."""
    with shelved(PLAIN, place or QueueDevice()) as made:
        for function in (add, mul, matmul, relu, sum):
            registry.add(function.__name__, made, function)
        try:
            yield made
        finally:
            made.close()
