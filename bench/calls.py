"""Eager calls compared with NumPy, where a survey of all functions was slowest.

Both are called through their public functions and make a new result. Before a row is
timed, both results are compared: sums of another order differ in their last digits.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

import mdtensor as md
from bench.harness import Bench, Contender, Found, Promise, Race, Reason, Row
from bench.harness.agreement import near

SMALL, LARGE = "Sixteen elements", "A hundred thousand elements"


@dataclass(frozen=True)
class Call:
    """A call, written as a user of each library writes it.

    Args:
        name: of the row.
        ours, theirs: the expressions of mdtensor and NumPy.
        dtype: of the elements.
        is_turned: whether the matrix `m` is the transpose of one in order.
    """

    name: str
    ours: str
    theirs: str
    dtype: str = "float32"
    is_turned: bool = False

    def race(self, count: int, table: str) -> Race:
        def make() -> list[Contender]:
            return self.contenders(count)

        return Race(f"{self.name}, {count:,}", make, check, table)

    def contenders(self, count: int) -> list[Contender]:
        """The same elements for both: a row x, a mask, a matrix m, three axes q."""
        rng = np.random.default_rng(count)
        drawn = rng.standard_normal(count) * 40
        x = (np.abs(drawn) if self.dtype == "uint8" else drawn).astype(self.dtype)
        side = int(count**0.5)
        m = x[: side * side].reshape(side, side)
        own = {
            "x": x,
            "i": rng.integers(0, count, count),
            "mask": drawn > 0,
            "m": m.T if self.is_turned else m,
            "q": x[: count // 4 * 4].reshape(2, -1, 4 if count > 16 else 2),
        }
        ours = {name: md.asarray(value.copy("K")) for name, value in own.items()}
        return [
            Contender("mdtensor", self.ours, {"md": md, **ours}),
            Contender("NumPy", self.theirs, {"np": np, **own}),
        ]


def check(results: dict[str, Any]) -> None:
    near(np.asarray(results["NumPy"], np.float64), 1e-4)(results)


def same(name: str, text: str, **more: Any) -> Call:
    """A call that reads the same in both libraries but for the name of the module."""
    return Call(name, text.replace("@", "md"), text.replace("@", "np"), **more)


#: Where the call costs more than the work: the largest ratios, and the most frequent.
CALLS = (
    Call("permute_dims", "md.permute_dims(m, (1, 0))", "m.transpose(1, 0)"),
    same("x.T of a matrix", "m.T"),
    same("asarray of an array", "@.asarray(x)"),
    same("x[3]", "x[3]"),
    same("x[1:]", "x[1:]"),
    same("x[mask]", "x[mask]"),
    same("reshape", "@.reshape(m, (-1,))"),
    same("zeros", "@.zeros((4, 4), dtype='float32')"),
    Call("astype int32", "md.astype(x, md.int32)", "x.astype('int32')"),
    Call("concat", "md.concat([x, x])", "np.concatenate([x, x])"),
    same("where", "@.where(mask, x, x)"),
    Call("matmul", "m @ m", "m @ m"),
    Call("linear", "md.linear(m, m, m[0])", "m @ m.T + m[0]"),
    same("x + 2.5", "x + 2.5"),
    same("x < 2.5", "x < 2.5"),
    same("sum of rows", "@.sum(m, axis=-1)"),
    same("max", "@.max(x)"),
)
#: Where the work costs more than the call.
WORK = (
    same("sum of a transposed matrix, rows", "@.sum(m, axis=1)", is_turned=True),
    same("sum of a transposed matrix, columns", "@.sum(m, axis=0)", is_turned=True),
    same("sum over a middle axis, 4 neighbours", "@.sum(q, axis=1)"),
    same("max over a middle axis, 4 neighbours", "@.max(q, axis=1)"),
    same("sort uint8", "@.sort(x)", dtype="uint8"),
    Call("argsort float32", "md.argsort(x)", "np.argsort(x, kind='stable')"),
    Call("astype int32", "md.astype(x, md.int32)", "x.astype('int32')"),
    same("isin", "@.isin(x, x[:20])"),
    Call("unique_counts", "md.unique_counts(x).counts", "np.unique_counts(x).counts"),
    Call(
        "arange int32",
        "md.arange(100000, dtype=md.int32)",
        "np.arange(100000, dtype='int32')",
    ),
    same("x[i]", "x[i]"),
    Call("topk of 5", "md.topk(x, 5).values", "np.sort(x)[:-6:-1]"),
)


def rows(quick: bool) -> Iterator[Row]:
    for call in CALLS:
        yield call.race(16, SMALL)
    for call in () if quick else WORK:
        yield call.race(100_000, LARGE)


def worst(calls: tuple[Call, ...], count: int) -> Any:
    labels = [f"{call.name}, {count:,}" for call in calls]

    def value(found: Found) -> float:
        return found.worst(labels, "NumPy")

    return value


BENCH = Bench(
    "Eager calls compared with NumPy",
    rows,
    rounds=40,
    promises=[
        Promise(
            "middle axes of 100,000 elements, relative to NumPy",
            1.0,
            worst(WORK[2:4], 100_000),
        ),
        Promise("topk, relative to a sort", 1.0, worst(WORK[-1:], 100_000)),
        Promise("sort of bytes, relative to NumPy", 1.5, worst(WORK[4:5], 100_000)),
    ],
    reasons=[
        Reason("NumPy's call is one C function; ours selects, in Python", "*, 16"),
        Reason(
            "a sum adds in the order of the axes, so an array with another order in "
            "memory is copied, or added in 8 lanes",
            "sum of a transposed*",
        ),
        Reason("ours first looks for elements out of range, and NaN", "astype*"),
        Reason("NumPy counts by a hash table, ours sorts", "unique_counts*"),
        Reason("the call takes longer; the work is the same", "*"),
    ],
    notes="""A survey called every function that NumPy has as well, for nine element
types, four sizes and several layouts. These are its largest ratios, and the most
frequent calls.""",
)
