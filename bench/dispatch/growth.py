"""Growth: calls, first calls and bytes, by the number of types and methods.

A function of n methods has one for each of n types; the call is for the last of them.
"""

import tracemalloc
from collections.abc import Callable, Iterator, Mapping
from enum import Enum, IntEnum
from functools import partial
from typing import Any

import plum

from bench.dispatch import ours
from bench.harness import Contender, Count, Race, Row
from bench.rivals import enums, libraries
from mdtensor.dispatch import generic, method

COUNTS = (4, 10, 100, 1000, 5000)
#: Above it plum needs minutes for its first call: it compares all pairs of methods.
PLUM_COUNT = 1000
SMALL, LARGE = "with 4 methods", "with 5,000 methods"
Made = tuple[Callable[..., Any], Any]


def classes(count: int) -> list[type]:
    return [type(f"Type{at}", (), {}) for at in range(count)]


def ours_of(count: int) -> Made:
    """A function of so many methods, and an argument for the last."""

    @generic
    def poke(x1, x2, /, *, out=None):
        """Return `x1`; only the way there is of interest."""

    kinds = classes(count)
    for kind in kinds:
        method(poke)(_alike(kind))
    return poke, kinds[-1]()


def _alike(kind: Any) -> Any:
    def poke(x1: kind, x2: kind, /):
        return x1

    return poke


def plum_of(count: int) -> Made:
    def poke(x1, x2, *, out=None):
        return x1

    function, kinds = plum.Dispatcher().abstract(poke), classes(count)
    for kind in kinds:
        function.register(poke, signature=plum.Signature(kind, kind))
    return function, kinds[-1]()


def multiple_of(count: int) -> Made:
    function = libraries.multipledispatch.Dispatcher("poke")
    kinds = classes(count)
    for kind in kinds:
        function.add((kind, kind), lambda x1, x2, out=None: x1)
    return function, kinds[-1]()


def enum_of(count: int, kind: Any = Enum) -> Made:
    names = [f"TYPE{at}" for at in range(count)]
    dtypes = kind("DType", names)
    kernels = {name: lambda x1, x2: x1 for name in names}
    tensor = enums.TaggedTensor(None, list(dtypes)[-1])
    return enums.pair_registry(dtypes, kernels), tensor


def makers(count: int) -> dict[str, Callable[[int], Made]]:
    found: dict[str, Callable[[int], Made]] = {ours.CALL: ours_of}
    if count <= PLUM_COUNT:
        found[libraries.PLUM] = plum_of
    if libraries.multipledispatch:
        found[libraries.MULTIPLE] = multiple_of
    found[enums.ENUM] = enum_of
    found[enums.INT_ENUM] = partial(enum_of, kind=IntEnum)
    return found


def called(name: str, made: Made) -> Contender:
    return Contender(name, "call(a, a)", {"call": made[0], "a": made[1]})


def warm(count: int) -> list[Contender]:
    return [called(name, make(count)) for name, make in makers(count).items()]


def flat() -> list[Contender]:
    return [called(LARGE, ours_of(COUNTS[-1])), called(SMALL, ours_of(COUNTS[0]))]


def answered(results: Mapping[str, Any]) -> None:
    """Each returns its argument, which is of the last of its types."""
    for name, found in results.items():
        kind = getattr(found, "dtype", type(found))
        shown = getattr(kind, "name", getattr(kind, "__name__", ""))
        assert shown.lower().startswith("type"), name


def registration(count: int) -> list[Contender]:
    """All methods are registered, and the last is called."""

    def begin(make: Callable[[int], Made]) -> Any:
        call, x = make(count)
        return call(x, x)

    return [
        Contender(name, partial(begin, make)) for name, make in makers(count).items()
    ]


def subclass_calls(count: int) -> list[Contender]:
    """Calls for types never seen: subclasses, so that no method is for just them."""

    def unseen(call: Callable[..., Any], kind: Any) -> Any:
        x = type("TypeNew", (kind,), {})()
        return call(x, x)

    found = []
    for name, make in makers(count).items():
        if name not in (enums.ENUM, enums.INT_ENUM):
            call, x = make(count)
            found.append(Contender(name, partial(unseen, call, type(x))))
    return found


def memory(count: int) -> dict[str, float]:
    """Bytes that a function of so many methods keeps after its first call."""
    found = {}
    for name, make in makers(count).items():
        tracemalloc.start()
        call, x = make(count)
        call(x, x)
        found[name] = float(tracemalloc.get_traced_memory()[0])
        tracemalloc.stop()
    return found


def label(count: int) -> str:
    return f"{count:,} methods"


def rows(quick: bool) -> Iterator[Row]:
    counts = COUNTS[:3] if quick else COUNTS
    for count in counts:
        make = partial(warm, count)
        yield Race(label(count), make, answered, "By number of types and methods")
    if not quick:
        table = "5,000 methods against 4"
        yield Race("flat", flat, answered, table, ours=LARGE)
    for count in counts:
        yield Race(
            f"{label(count)}, registered and called once",
            partial(registration, count),
            answered,
            "Registration and the first call",
            sample_seconds=0,
            share=0.05 if count < PLUM_COUNT else 0.01,
        )
    for count in counts[:3]:
        yield Race(
            f"{label(count)}, types never seen",
            partial(subclass_calls, count),
            answered,
            "Call with types never seen, subclasses",
            sample_seconds=0,
            share=0.5,
        )
    for count in counts[:4]:
        yield Count(f"{label(count)}, bytes", partial(memory, count), "bytes", "Memory")
