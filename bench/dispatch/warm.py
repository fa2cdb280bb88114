"""Warm calls: every way of dispatch, by position among the types, and by arity."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any

import plum

from bench.dispatch import ours
from bench.harness import Contender, Race, Row
from bench.harness.agreement import gives
from bench.rivals import NAMES, Way, check_ways, classes, enums, libraries, native
from mdtensor.dispatch import generic, method

WARM, SELECTED = "two arguments", "two arguments, selected before"
ARITIES = (1, 2, 3, 4, 6)


def all_ways() -> list[Way]:
    found = [*ours.ways(), *enums.ways(), *classes.ways(), *libraries.ways()]
    check_ways(found)
    return found


def warm() -> list[Contender]:
    return [way.contender(NAMES[0]) for way in all_ways()]


def selected() -> list[Contender]:
    """What is left of a call once its method is selected."""
    chosen = (ours.HANDLE, ours.TABLE_HANDLE, ours.BARE)
    return [w.contender(NAMES[0]) for w in ours.ways() if w.name in chosen]


def scale() -> list[Contender]:
    """What dispatch costs where no interpreter runs; results are checked there."""
    call = ours.ways()[0].contender(NAMES[0])
    return [call, *native.in_numba(), *native.in_rust()]


def unlike(results: dict[str, Any]) -> None:
    """Ours gives its kernel's name; the others were checked when they were made."""
    gives(NAMES[0])({ours.CALL: results[ours.CALL]})


def at_position(position: int) -> list[Contender]:
    """Calls for the type whose case is the n-th of the match."""
    ways = [*ours.ways()[:1], *enums.ways()]
    check_ways(ways)
    return [way.contender(NAMES[position - 1]) for way in ways]


def written(source: str, **names: Any) -> Callable[..., Any]:
    """The function `poke` of a source; for parameters whose number varies."""
    names["__name__"] = __name__
    exec(source, names)
    found: Callable[..., Any] = names["poke"]
    return found


def of_arity(count: int) -> list[Contender]:
    """A call of so many arguments, all of one type; each returns its first."""
    names = [f"x{at}" for at in range(count)]
    listed = ", ".join(names)
    tags = "".join(f"{name}.dtype, " for name in names)
    typed = ", ".join(f"{name}: kind" for name in names)
    bare = written(f"def poke({listed}):\n    return x0")
    looked_up = f"""
def poke({listed}, /, *, out=None):
    try:
        method = table[{tags}]
    except KeyError:
        raise TypeError("poke: no kernel") from None
    return method({listed}) if out is None else method({listed}, out)
"""
    x = ours.typed(NAMES[0])
    call = generic(written(f"def poke({listed}, /, *, out=None): ..."))
    method(call)(written(f"def poke({typed}, /): return x0", kind=type(x)))
    ways = [(ours.CALL, call, x)]
    for name, make in ((enums.ENUM, enums.tagged), (enums.INT_ENUM, enums.int_tagged)):
        tag = make(NAMES[0])
        table = {(tag.dtype,) * count: bare}
        ways.append(
            (name.replace("pairs", "tuples"), written(looked_up, table=table), tag)
        )
    function = plum.Dispatcher().abstract(bare)
    function.register(bare, signature=plum.Signature(*[type(x)] * count))
    ways += [(libraries.PLUM, function, x), (ours.BARE, bare, x)]
    arguments = ", ".join("a" * count)
    return [
        Contender(name, f"call({arguments})", {"call": call, "a": a})
        for name, call, a in ways
    ]


def first_arguments(results: dict[str, Any]) -> None:
    kinds = {type(found).__name__ for found in results.values()}
    assert kinds == {"Float32Tensor", "TaggedTensor"}, kinds


class Stranger:
    """A user-defined type that handles every operation of NumPy and torch."""

    def __array_ufunc__(self, *_: Any, **__: Any) -> Any:
        return self

    @classmethod
    def __torch_function__(
        cls, function: Any, types: Any, given: Any, _: Any = None
    ) -> Any:
        return given[0]


def protocols() -> list[Contender]:
    """Calls that end in user code: protocols of NumPy and torch, and a method."""
    import numpy as np

    @generic
    def poke(x1, x2, /, *, out=None):
        """Return `x1`."""

    @method(poke)
    def poke(x1: Stranger, x2: Stranger, /):
        return x1

    names = {"call": poke, "a": Stranger(), "b": Stranger()}
    found = [Contender(ours.CALL, "call(a, b)", names)]
    add = names | {"call": np.add}
    found.append(Contender("NumPy, __array_ufunc__", "call(a, b)", add))
    with suppress(ImportError):
        import torch

        add = names | {"call": torch.add}
        found.append(Contender("torch, __torch_function__", "call(a, b)", add))
    return found


def strangers(results: dict[str, Any]) -> None:
    assert all(isinstance(found, Stranger) for found in results.values())


def rows(quick: bool) -> Iterator[Row]:
    yield Race(WARM, warm, gives(NAMES[0]), "Warm call of two arguments")
    table = "Two arguments, method already selected"
    yield Race(SELECTED, selected, gives(NAMES[0]), table, ours=ours.HANDLE)
    for position in (1, 10) if quick else range(1, len(NAMES) + 1):
        make = partial(at_position, position)
        check = gives(NAMES[position - 1])
        yield Race(
            f"type {position} of {len(NAMES)}", make, check, "By position of the type"
        )
    for count in ARITIES:
        name = f"{count} argument{'s' * (count > 1)}, one type"
        yield Race(name, partial(of_arity, count), first_arguments, "By arity")
    table = "An operator of a user-defined type"
    yield Race("operator of a user-defined type", protocols, strangers, table)
    yield Race(
        "no interpreter",
        scale,
        unlike,
        "For comparison: without an interpreter",
        share=0.1,
    )
