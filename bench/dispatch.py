"""What a call costs before its kernel runs: mdtensor beside the usual registries.

The kernel is trivial and the same for all, the data are the same, the calls are warm,
and `out=` stays unused, as in most programs.
"""

from collections.abc import Iterator
from functools import partial

import numpy as np
import plum

from bench.harness import Bench, Contender, Promise, Race, Reason, Row
from bench.rivals.enums import (
    DType,
    IntDType,
    TaggedTensor,
    class_pairs,
    match_dispatch,
    nested_classes,
    pair_registry,
)
from mdtensor import (
    Float32Tensor,
    Float64Tensor,
    Int8Tensor,
    Int32Tensor,
    Tensor,
    asarray,
    generic,
    method,
)

LEAVES = (Float32Tensor, Float64Tensor, Int8Tensor, Int32Tensor)
CROWDS = (1, 10, 100, 1000)
WARM = "two arguments"
ENUM, INT_ENUM = "dict of Enum pairs", "dict of IntEnum pairs"


def kernel(x1: object, x2: object) -> object:
    """The same trivial work behind every dispatch."""
    return x1


@generic
def poke(x1, x2, /, *, out=None):
    """Return `x1`; only the way there is of interest."""


@method(poke)
def poke(x1: Float32Tensor, x2: Float32Tensor, /):
    return x1


@method(poke)
def poke(x1: Float64Tensor, x2: Float64Tensor, /):
    return x1


@method(poke)
def poke(x1: Int8Tensor, x2: Int8Tensor, /):
    return x1


@method(poke)
def poke(x1: Tensor, x2: Tensor, /):
    return x1


def bare_plum() -> object:
    """The same four methods in plum alone."""
    dispatch = plum.Dispatcher()

    def nudge(x1, x2, *, out=None):
        return x1

    function = dispatch.abstract(nudge)
    for leaf in (Float32Tensor, Float64Tensor, Int8Tensor, Tensor):
        function.register(nudge, signature=plum.Signature(leaf, leaf))
    return function


def crowd(count: int) -> list[Contender]:
    """mdtensor and plum where the operation has `count` methods, for types of its own.

    The types are a stranger's, so that no method fits but one.
    """

    @generic
    def choose(x1, x2, /, *, out=None):
        """Return `x1`; only the way there is of interest."""

    def chosen(x1, x2, *, out=None):
        return x1

    function = plum.Dispatcher().abstract(chosen)
    types = [type(f"Type{n}", (), {}) for n in range(count)]
    for kind in types:

        def choose_method(x1: kind, x2: kind, /):  # type: ignore[valid-type]
            return x1

        method(choose)(choose_method)
        function.register(chosen, signature=plum.Signature(kind, kind))
    values = {"a": types[-1](), "b": types[-1]()}
    enum = tagged(DType.FLOAT32)
    return [
        Contender("mdtensor", "call(a, b)", {**values, "call": choose}),
        Contender("plum alone", "call(a, b)", {**values, "call": function}),
        Contender(ENUM, "call(a, b)", {**enum, "call": pair_registry(DType, kernel)}),
    ]


def tagged(dtype: object) -> dict[str, TaggedTensor]:
    data = np.arange(8, dtype=np.float32)
    return {"a": TaggedTensor(data, dtype), "b": TaggedTensor(data, dtype)}


def contenders() -> list[Contender]:
    data = np.arange(8, dtype=np.float32)
    typed = {"a": asarray(data), "b": asarray(data)}
    assert type(typed["a"]) is Float32Tensor
    enum, last = tagged(DType.FLOAT32), tagged(DType.INT8)
    ways = [
        ("mdtensor", typed, poke),
        (ENUM, enum, pair_registry(DType, kernel)),
        (INT_ENUM, tagged(IntDType.FLOAT32), pair_registry(IntDType, kernel)),
        ("match on Enum, 1st of 10 cases", enum, match_dispatch(kernel)),
        ("match on Enum, 10th of 10 cases", last, match_dispatch(kernel)),
        ("dict of class pairs", typed, class_pairs(LEAVES, kernel)),
        ("nested dicts of classes", typed, nested_classes(LEAVES, kernel)),
        ("plum alone", typed, bare_plum()),
        ("bare call of the kernel", typed, kernel),
    ]
    return [
        Contender(name, "call(a, b)", {**values, "call": call})
        for name, values, call in ways
    ]


def first_arguments(results: dict[str, object], kinds: tuple[type, ...]) -> None:
    """Each gives its first argument."""
    for name, found in results.items():
        assert isinstance(found, kinds), name


def rows(quick: bool) -> Iterator[Row]:
    check = partial(first_arguments, kinds=(Float32Tensor, TaggedTensor))
    yield Race(WARM, contenders, check, "Warm call")
    for count in CROWDS[:3] if quick else CROWDS:
        yield Race(f"{count:,} methods", partial(crowd, count), ran, "Methods")


def ran(results: dict[str, object]) -> None:
    assert None not in results.values()


MANY = [f"{count:,} methods" for count in CROWDS]
BENCH = Bench(
    "What a call costs before its kernel runs",
    rows,
    rounds=200,
    promises=[
        Promise(
            "time of a call over a dict of Enum pairs",
            0.6,
            lambda f: f.ratio(WARM, ENUM),
        ),
        Promise(
            "time of a call over a dict of IntEnum pairs",
            1.15,
            lambda f: f.ratio(WARM, INT_ENUM),
        ),
        Promise(
            "1 to 1,000 methods: over plum", 0.4, lambda f: f.worst(MANY, "plum alone")
        ),
        Promise(
            "1 to 1,000 methods: over a dict of Enum pairs",
            0.6,
            lambda f: f.worst(MANY, ENUM),
        ),
    ],
    reasons=[
        Reason("it chooses nothing", "*", "bare call*"),
        Reason("it checks nothing: no wrong argument is refused", "*", "nested*"),
    ],
)
