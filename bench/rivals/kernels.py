"""The kernels behind every way of dispatch."""

from collections.abc import Callable
from typing import Any

Kernel = Callable[[Any, Any], str]
NAMES = ("float32", "float64", "float16", "int64", "int32")
NAMES += ("int16", "uint8", "uint16", "bool", "int8")


def kernel(name: str) -> Kernel:
    """The least work that shows which kernel ran."""

    def run(x1: Any, x2: Any) -> str:
        return name

    return run


KERNELS = {name: kernel(name) for name in NAMES}
