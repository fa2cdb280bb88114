"""Elementwise operations against NumPy and torch: one element to ten million.

NumPy is called as mdtensor calls it: a new result each time, and no warning. torch is
measured where it is installed. All on one thread, unless a row says two. Before it is
timed, each is compared with NumPy's result in float64.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

import mdtensor as md
from bench.harness import Bench, Contender, Found, Promise, Race, Reason, Row
from bench.harness.agreement import near

torch: Any = None
with suppress(ImportError):
    import torch

MILLION = 10**6
FLOAT32, FLOAT16 = np.dtype(np.float32), np.dtype(np.float16)
BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
#: What the statements name.
NAMES = {"md": md, "np": np, "torch": torch, "float32": FLOAT32, "float16": FLOAT16}
NAMES["bfloat16"] = BFLOAT16
FAMILY = [
    "add",
    "mul",
    "div",
    "maximum",
    "less",
    "neg",
    "abs",
    "sqrt",
    "floor",
    "exp",
    "log",
    "sin",
    "tanh",
]
#: Functions of float32 that are computed in float64.
WIDE = ["expm1", "sinh", "cosh", "tan", "asinh", "remainder", "atan2", "logaddexp"]
#: Reductions and running sums of rows of 8, along both axes.
SHORT = {
    f"{name} of {what}": (name, axis)
    for name in ("sum", "max", "cumulative_sum")
    for what, axis in (("short rows", 1), ("8 columns", 0))
    if (name, axis) != ("cumulative_sum", 0)
}
NARROW = ["add", "mul", "div", "minimum", "less", "floor", "exp", "tanh", "sum", "max"]
#: What NumPy does at the speed of memory, or nearly so.
FAST = {FLOAT16: {"sum"}, BFLOAT16: set()}
#: What NumPy calls them, and what it has no single name for.
RENAMED = {
    "mul": "np.multiply(a, b)",
    "div": "np.divide(a, b)",
    "neg": "np.negative(a)",
    "asinh": "np.arcsinh(a)",
    "atan2": "np.arctan2(a, b)",
}
#: Activations by the shortest formula of NumPy, be it wrong at the infinities.
ACTIVATIONS = {
    "relu": "np.maximum(a, 0)",
    "relu6": "np.clip(a, 0, 6)",
    "hardtanh": "np.clip(a, -1, 1)",
    "hardsigmoid": "np.clip(a / 6 + 0.5, 0, 1)",
    "hardswish": "a * np.clip(a + 3, 0, 6) / 6",
    "leaky_relu": "np.maximum(a, 0.01 * a)",
    "softsign": "a / (1 + np.abs(a))",
    "sigmoid": "1 / (1 + np.exp(-a))",
    "silu": "a / (1 + np.exp(-a))",
    "logsigmoid": "-np.log1p(np.exp(-a))",
    "softplus": "np.log1p(np.exp(a))",
    "mish": "a * np.tanh(np.log1p(np.exp(a)))",
    "elu": "np.where(a > 0, a, np.expm1(a))",
    "selu": "1.0507 * np.where(a > 0, a, 1.6733 * np.expm1(a))",
    "celu": "np.where(a > 0, a, np.expm1(a))",
    "gelu": "0.5 * a * (1 + np.tanh(0.79788 * (a + 0.044715 * a**3)))",
    "softmax": "(e := np.exp(a - a.max())) / e.sum()",
    "log_softmax": "(b := a - a.max()) - np.log(np.exp(b).sum())",
}
BINARY = {"add", "mul", "div", "minimum", "maximum", "less"}
BINARY |= {"remainder", "atan2", "logaddexp"}
#: How far from the result in float64 one may be: the bits of the type, and the formulas
#: of NumPy above, one of which is an approximation.
TOLERANCES = {FLOAT16: 2e-2, BFLOAT16: 1e-1}


@dataclass(frozen=True)
class Work:
    """One operation on one size, written as a user of each library writes it.

    Args:
        name: of the operation.
        count: elements of each operand.
        ours, theirs, peers: the expressions of mdtensor, NumPy and torch; none for
            torch where it has no such function.
        operands: how many of a and b they name.
        dtype: of the operands.
        threads: of mdtensor and torch; NumPy has one.
    """

    name: str
    count: int
    ours: str
    theirs: str
    peers: str = ""
    operands: int = 1
    dtype: Any = FLOAT32
    threads: int = 1

    @property
    def label(self) -> str:
        return f"{self.name}, {self.count:,}"

    def data(self) -> list[Any]:
        """Numbers of both signs, and divisors that are not near zero."""
        rng = np.random.default_rng(self.count)
        x, y = rng.standard_normal((2, self.count))
        drawn = [x, np.abs(y) + 0.5][: self.operands]
        return [draw.astype(self.dtype) for draw in drawn]

    def contenders(self) -> list[Contender]:
        md.set_num_threads(self.threads)
        ways = [
            ("mdtensor", self.ours, md.from_numpy),
            ("NumPy", self.theirs, np.array),
        ]
        if torch and self.peers:
            torch.set_num_threads(self.threads)
            ways.append(("torch", self.peers, torch.from_numpy))
        return [
            Contender(name, statement, NAMES | named(map(own, self.data())))
            for name, statement, own in ways
        ]

    def check(self, results: dict[str, Any]) -> None:
        """Near NumPy's result in float64; NumPy's own narrow sums are not."""
        if self.dtype is BFLOAT16:
            results = {"mdtensor": results["mdtensor"]}
        exact = named(x.astype(np.float64) for x in self.data())
        wanted = np.asarray(eval(self.theirs, NAMES | exact)).astype(np.float64)
        near(wanted, TOLERANCES.get(self.dtype, 5e-3))(results)

    def race(self, table: str, share: float = 1.0) -> Race:
        return Race(
            self.label,
            self.contenders,
            self.check,
            table,
            threads=self.threads,
            clock=time.process_time if self.threads == 1 else time.perf_counter,
            share=share,
        )


def named(operands: Iterable[Any]) -> dict[str, Any]:
    return dict(zip("ab", operands, strict=False))


def work(name: str, count: int, dtype: Any = FLOAT32, threads: int = 1) -> Work:
    """An operation by its name in mdtensor."""
    label = name if dtype is FLOAT32 else f"{name} {dtype}"
    label += ", 2 threads" if threads == 2 else ""
    arguments = "(a, b)" if name in BINARY else "(a)"
    # torch's second thread would spin on after its turn, on the core of ours.
    is_fair = threads == 1 and dtype is FLOAT32
    has_peer = torch and is_fair and hasattr(torch, name)
    return Work(
        label,
        count,
        f"md.{name}{arguments}",
        RENAMED.get(name, f"np.{name}{arguments}"),
        f"torch.{name}{arguments}" if has_peer else "",
        1 + (name in BINARY),
        dtype,
        threads,
    )


def calls() -> Iterator[Work]:
    """Where only the call costs something."""
    yield work("add", 1)
    for text in ("a + b", "a + 1", "a[0]"):
        yield Work(text, 1, text, text, text, operands=2)
    for name in ("less", "exp"):
        yield work(name, 1)
    yield work("add", 1000)


def activations() -> Iterator[Work]:
    for name, formula in ACTIVATIONS.items():
        axis = ", -1" if "softmax" in name else ""
        peer = f"torch.nn.functional.{name}(a{axis})"
        yield Work(name, MILLION, f"md.{name}(a)", formula, peer)
    clip = [f"{package}.clip(a, -1, 1)" for package in ("md", "np", "torch")]
    yield Work("clip", MILLION, *clip)


def short() -> Iterator[Work]:
    for label, (name, axis) in SHORT.items():
        ours = f"md.{name}(md.reshape(a, (-1, 8)), axis={axis})"
        theirs = {"cumulative_sum": "cumsum"}.get(name, name)
        peer = {"max": "amax", "cumulative_sum": "cumsum"}.get(name, name)
        yield Work(
            label,
            MILLION,
            ours,
            f"np.{theirs}(a.reshape(-1, 8), {axis})",
            f"torch.{peer}(a.reshape(-1, 8), {axis})",
        )


def casts() -> Iterator[Work]:
    for dtype in (FLOAT16, BFLOAT16):
        for source, target in ((dtype, FLOAT32), (FLOAT32, dtype)):
            ours = f"md.astype(a, md.{target}, casting='wrap')"
            theirs = f"a.astype({target})"
            name = f"{source} as {target}"
            yield Work(name, MILLION, ours, theirs, dtype=source)


def rows(quick: bool) -> Iterator[Row]:
    yield from (one.race("Calls") for one in calls())
    large = [("A million elements", [work(name, MILLION) for name in FAMILY])]
    large.append(("Activations of a million", list(activations())))
    large.append(("In float64, a million", [work(name, MILLION) for name in WIDE]))
    large.append(("Short rows, a million", list(short())))
    if not quick:
        tens = [work(n, 10**7, threads=t) for n in ("add", "exp") for t in (1, 2)]
        large.append(("Ten million", tens))
    narrow = [work(n, MILLION, d) for d in (FLOAT16, BFLOAT16) for n in NARROW]
    large.append(("16 bits, a million", [*narrow, *casts()]))
    for table, works in large:
        yield from (one.race(table, share=0.25) for one in works)


def worst(
    *names: str, count: int = MILLION, rival: str = "NumPy"
) -> Callable[[Found], float]:
    labels = [f"{name}, {count:,}" for name in names]
    return lambda found: found.worst(labels, rival)


def narrow_names(dtype: Any) -> list[str]:
    return [f"{name} {dtype}" for name in NARROW if name not in FAST[dtype]]


BENCH = Bench(
    "Elementwise operations against NumPy and torch",
    rows,
    rounds=40,
    promises=[
        Promise("add of 1 element, relative to np.add", 2.5, worst("add", count=1)),
        Promise(
            "add of 1 element, relative to torch.add",
            1.0,
            worst("add", count=1, rival="torch"),
        ),
        Promise("float32, a million: worst relative to NumPy", 1.053, worst(*FAMILY)),
        Promise(
            "activations of a million: worst relative to NumPy",
            1.1,
            worst(*ACTIVATIONS, "clip"),
        ),
        Promise("functions in float64: worst relative to NumPy", 0.6, worst(*WIDE)),
        Promise("short rows: worst relative to NumPy", 0.6, worst(*SHORT)),
        Promise(
            "add of ten million, relative to np.add", 1.0, worst("add", count=10**7)
        ),
        Promise(
            "add of ten million on two threads, relative to np.add",
            0.9,
            worst("add, 2 threads", count=10**7),
        ),
        *(
            Promise(
                f"{dtype}, a million: worst relative to NumPy",
                0.1,
                worst(*narrow_names(dtype)),
            )
            for dtype in (FLOAT16, BFLOAT16)
        ),
    ],
    reasons=[
        Reason(
            "mdtensor makes a tensor of the one element, with its type", "a[[]0[]]*"
        ),
        Reason(
            "mdtensor chooses the type of the Python number before the call", "a + 1*"
        ),
        Reason("mdtensor checks types and shapes in Python before NumPy runs", "*, 1"),
        Reason(
            "mdtensor checks types and shapes in Python before NumPy runs", "*, 1,000"
        ),
        Reason("both wait for memory", "*, 10,000,000"),
        Reason("mdtensor runs NumPy's loop", "* float16, *", "NumPy"),
        Reason("torch has vector code of its own for this function", "*", "torch"),
        Reason("mdtensor runs NumPy's loop", "*", "NumPy"),
    ],
    notes=(
        "float32 and one thread, unless a row says otherwise. Two threads are faster "
        "only if both cores are free; see the load below."
    ),
)
