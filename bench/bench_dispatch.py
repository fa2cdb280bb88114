"""What a call costs before its kernel runs: mdtensor beside the usual registries.

The kernel is trivial and the same for all, the data are the same, the calls are warm,
and `out=` stays unused, as in most programs.
"""

import harness
import numpy as np
import plum
from enum_dispatch import (
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


def crowd(count: int) -> list[harness.Contender]:
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
    return [
        harness.Contender(name, "call(a, b)", {**values, "call": call})
        for name, call in (
            (f"mdtensor, {count:,} methods", choose),
            (f"plum, {count:,} methods", function),
        )
    ]


def contenders() -> list[harness.Contender]:
    data = np.arange(8, dtype=np.float32)
    typed = {"a": asarray(data), "b": asarray(data)}
    assert type(typed["a"]) is Float32Tensor

    def tagged(dtype: object) -> dict[str, TaggedTensor]:
        return {"a": TaggedTensor(data, dtype), "b": TaggedTensor(data, dtype)}

    enum, last = tagged(DType.FLOAT32), tagged(DType.INT8)
    rows = [
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
    for name, values, call in rows:
        assert call(values["a"], values["b"]) is values["a"], name
    return [
        harness.Contender(name, "call(a, b)", {**values, "call": call})
        for name, values, call in rows
    ]


def main() -> None:
    options = harness.arguments(__doc__, rounds=200)
    crowds = [contender for count in CROWDS for contender in crowd(count)]
    samples = harness.interleave([*contenders(), *crowds], options.rounds)
    ratios = {name: harness.ratio(samples, "mdtensor", name) for name in samples}
    by_plum = [
        harness.ratio(samples, f"mdtensor, {n:,} methods", f"plum, {n:,} methods")
        for n in CROWDS
    ]
    by_enum = [harness.ratio(samples, f"mdtensor, {n:,} methods", ENUM) for n in CROWDS]
    rows = [
        (name, f"{1e9 * seconds:.0f}", str(ratios[name]))
        for name, seconds in harness.medians(samples).items()
    ]
    limits = [
        harness.Limit(
            "time of a call over a dict of Enum pairs", ratios[ENUM].median, 0.6
        ),
        harness.Limit(
            "time of a call over a dict of IntEnum pairs", ratios[INT_ENUM].median, 1.15
        ),
        harness.Limit(
            "1 to 1,000 methods: over plum", max(r.median for r in by_plum), 0.4
        ),
        harness.Limit(
            "1 to 1,000 methods: over a dict of Enum pairs",
            max(r.median for r in by_enum),
            0.6,
        ),
    ]
    harness.report(
        "dispatch",
        "Warm two-argument call of an operation",
        ("dispatch", "ns a call", "mdtensor / this (95 %)"),
        rows,
        limits,
        save=not options.no_save,
    )


if __name__ == "__main__":
    main()
