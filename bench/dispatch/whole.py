"""Whole additions: what dispatch is of them, by size; and where the time goes.

Every way runs NumPy's addition on the same buffers and wraps the result in a tensor of
its own. mdtensor's also checks shapes, types and devices, which the others do not.
"""

import operator
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np

import mdtensor as md
from bench.harness import Contender, Race, Row
from bench.harness.agreement import near
from bench.rivals import enums
from bench.rivals.kernels import NAMES

SIZES = (1, 1_000, 1_000_000)
PARTS = "where the time of an addition goes"
KERNEL, CALL = "kernel, into an existing array", "+ dispatch: add(a, b)"


def data(size: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(1)
    x, y = rng.standard_normal((2, size), np.float32)
    return x, y


def added(x1: Any, x2: Any) -> Any:
    """The kernel of a tagged tensor."""
    return enums.TaggedTensor(np.add(x1.buffer, x2.buffer), x1.dtype)


def tagged(name: str, call: Callable[..., Any], make: Any, size: int) -> Contender:
    x, y = (make(NAMES[0]) for _ in range(2))
    x.buffer, y.buffer = data(size)
    return Contender(name, "call(a, b)", {"call": call, "a": x, "b": y})


def additions(size: int) -> list[Contender]:
    kernels = dict.fromkeys(NAMES, added)
    x, y = data(size)
    names = {"call": md.add, "a": md.from_numpy(x), "b": md.from_numpy(y)}
    enum = enums.pair_registry(enums.DType, kernels)
    number = enums.pair_registry(enums.IntDType, kernels)
    found = [
        Contender("mdtensor", "call(a, b)", names),
        tagged("kernel, called directly", added, enums.tagged, size),
        tagged(enums.ENUM, enum, enums.tagged, size),
        tagged(enums.INT_ENUM, number, enums.int_tagged, size),
        tagged(enums.MATCH, enums.match_dispatch(kernels), enums.tagged, size),
        Contender("NumPy", "call(a, b)", {"call": np.add, "a": x, "b": y}),
    ]
    with suppress(ImportError):
        import torch

        tensors = {"a": torch.from_numpy(x), "b": torch.from_numpy(y)}
        found.append(Contender("torch", "call(a, b)", {"call": torch.add, **tensors}))
    return found


def check(results: dict[str, Any], size: int) -> None:
    buffers = {name: getattr(x, "buffer", x) for name, x in results.items()}
    near(sum(data(size)), 0.0)(buffers)


def parts() -> list[Contender]:
    """Return contenders that each do the work of the one before, and one thing more."""
    x, y = data(1)
    a, b = md.from_numpy(x), md.from_numpy(y)
    kind, add, names = type(a), md.add, {"x": x, "y": y, "a": a, "b": b}
    run = add.select(kind, kind).function
    names |= {"np_add": np.add, "out": np.empty_like(x), "kind": kind}
    names |= {"add": add, "run": run, "plus": operator.add}
    return [
        Contender(KERNEL, "np_add(x, y, out)", names),
        Contender("+ allocate", "np_add(x, y)", names),
        Contender("+ wrap in a tensor", "kind.wrap(np_add(x, y))", names),
        Contender("+ shape and type checks", "run(a, b)", names),
        Contender(CALL, "add(a, b)", names),
        Contender("+ operator: a + b", "a + b", names),
    ]


def steps(seconds: dict[str, float]) -> Mapping[str, Mapping[str, str]]:
    """Return what each part adds to the part before."""
    found, before = {}, 0.0
    for name, total in seconds.items():
        found[name] = {"more than above": f"{1e9 * (total - before):+.0f} ns"}
        before = total
    return found


def rows(quick: bool) -> Iterator[Row]:
    for size in SIZES:
        yield Race(
            f"addition of {size:,}",
            partial(additions, size),
            partial(check, size=size),
            "End to end: float32 added, into a new tensor",
            share=0.5,
        )
    yield Race(
        PARTS,
        parts,
        partial(check, size=1),
        "One element: each row includes the rows above it",
        ours=CALL,
        columns=steps,
    )
