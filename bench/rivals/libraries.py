"""Dispatch by libraries: functools, multipledispatch, plum."""

import functools
from contextlib import suppress
from typing import Any

import plum

from bench.rivals.classes import CLASSES, instance
from bench.rivals.kernels import KERNELS, Kernel
from bench.rivals.way import Way

multipledispatch: Any = None
with suppress(ImportError):
    import multipledispatch


def single_dispatch() -> Kernel:
    """Two levels: singledispatch sees one argument, and hands over to another."""

    @functools.singledispatch
    def poke(x1: Any, x2: Any, /, *, out: Any = None) -> Any:
        raise TypeError(f"poke: no kernel for {type(x1)}")

    for name, kernel in KERNELS.items():
        poke.register(CLASSES[name], _second(CLASSES[name], kernel))
    return poke


def _second(kind: type, kernel: Kernel) -> Any:
    @functools.singledispatch
    def swapped(x2: Any, x1: Any) -> Any:
        raise TypeError(f"poke: no kernel for {type(x1)}, {type(x2)}")

    swapped.register(kind, lambda x2, x1: kernel(x1, x2))
    return lambda x1, x2, out=None: swapped(x2, x1)


def with_multipledispatch() -> Kernel:
    poke: Kernel = multipledispatch.Dispatcher("poke")
    for name, kernel in KERNELS.items():
        poke.add((CLASSES[name], CLASSES[name]), _unused_out(kernel))
    return poke


def with_plum() -> Any:
    def poke(x1, x2, *, out=None): ...

    function = plum.Dispatcher().abstract(poke)
    for name, kernel in KERNELS.items():
        signature = plum.Signature(CLASSES[name], CLASSES[name])
        function.register(_unused_out(kernel), signature=signature)
    return function


def _unused_out(kernel: Kernel) -> Any:
    return lambda x1, x2, out=None: kernel(x1, x2)


PLUM, MULTIPLE = "plum alone", "multipledispatch"


def ways() -> list[Way]:
    found = [Way("functools.singledispatch, twice", single_dispatch(), instance)]
    if multipledispatch:
        poke = with_multipledispatch()
        found.append(Way(MULTIPLE, poke, instance, refusal=NotImplementedError))
    poke = with_plum()
    return [*found, Way(PLUM, poke, instance, refusal=plum.NotFoundLookupError)]
