"""Dispatch on classes without multiple dispatch: dicts, and virtual methods.

A virtual method chooses by one object. There are two ways to bring in the second: the
first calls a method of the second that is named after it (the visitor), or it looks at
the second itself and hands over if it does not know it (Python's own operators).
"""

from collections.abc import Mapping
from typing import Any

from bench.rivals.kernels import KERNELS, NAMES, Kernel
from bench.rivals.way import Way

#: A class for each element type, as such.
CLASSES = {name: type(name.title(), (), {"__slots__": ()}) for name in NAMES}


def instance(name: str) -> Any:
    return CLASSES[name]()


def class_pairs(kernels: Mapping[str, Kernel]) -> Kernel:
    """A dict keyed by the pair of classes."""
    table = {(CLASSES[name], CLASSES[name]): kernels[name] for name in kernels}

    def poke(x1: Any, x2: Any, /, *, out: Any = None) -> Any:
        try:
            method = table[type(x1), type(x2)]
        except KeyError:
            raise TypeError(f"poke: no kernel for {type(x1)}, {type(x2)}") from None
        return method(x1, x2) if out is None else method(x1, x2, out)

    return poke


def nested_classes(kernels: Mapping[str, Kernel]) -> Kernel:
    """A dict of dicts keyed by class: no tuple to build, no hash to combine."""
    table = {CLASSES[name]: {CLASSES[name]: kernels[name]} for name in kernels}

    def poke(x1: Any, x2: Any, /, *, out: Any = None) -> Any:
        try:
            method = table[type(x1)][type(x2)]
        except KeyError:
            raise TypeError(f"poke: no kernel for {type(x1)}, {type(x2)}") from None
        return method(x1, x2) if out is None else method(x1, x2, out)

    return poke


def visitors(kernels: Mapping[str, Kernel]) -> dict[str, type]:
    """Classes with `poke`, which calls the second's method for the first's type."""
    refusing = {f"poke_{name}": _refuse for name in kernels}
    visited = type("Visited", (), {"__slots__": (), **refusing})
    return {
        name: type(name.title(), (visited,), {"__slots__": (), **_visiting(name, run)})
        for name, run in kernels.items()
    }


def _refuse(x2: Any, x1: Any, out: Any = None) -> Any:
    raise TypeError(f"poke: no kernel for {type(x1)}, {type(x2)}")


def _visiting(name: str, kernel: Kernel) -> dict[str, Any]:
    # Written out, as one writes it: the name of the method stands in the source.
    source = f"""
def poke(self, x2, *, out=None):
    return x2.poke_{name}(self, out)
"""
    names: dict[str, Any] = {}
    exec(source, names)

    def visited(x2: Any, x1: Any, out: Any = None) -> Any:
        return kernel(x1, x2)

    return {"poke": names["poke"], f"poke_{name}": visited}


def reflecting(kernels: Mapping[str, Kernel]) -> dict[str, type]:
    """Classes with `__add__` for their own type, and `NotImplemented` for others."""

    def members(kernel: Kernel) -> dict[str, Any]:
        def poke(x1: Any, x2: Any) -> Any:
            return kernel(x1, x2) if type(x2) is type(x1) else NotImplemented

        return {"__slots__": (), "__add__": poke, "__radd__": poke}

    return {n: type(n.title(), (), members(kernel)) for n, kernel in kernels.items()}


def ways() -> list[Way]:
    visiting, added = visitors(KERNELS), reflecting(KERNELS)
    return [
        Way("dict of class pairs", class_pairs(KERNELS), instance),
        Way("nested dicts of classes", nested_classes(KERNELS), instance),
        Way(
            "virtual methods, visitor",
            type,
            lambda name: visiting[name](),
            "a.poke(b)",
        ),
        Way(
            "virtual methods, NotImplemented",
            type,
            lambda name: added[name](),
            "a + b",
        ),
    ]
