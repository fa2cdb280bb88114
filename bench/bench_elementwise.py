"""Elementwise operations beside NumPy and torch: one element to ten million.

NumPy is called as mdtensor calls it: a new result each time, and no warning. torch is
measured where it is installed. All on one thread, unless a row says two.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import harness
import ml_dtypes
import numpy as np

import mdtensor as md

torch: Any = None
with suppress(ImportError):
    import torch

RNG = np.random.default_rng(1)
FLOAT32, FLOAT16 = np.dtype(np.float32), np.dtype(np.float16)
BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
#: What the statements name.
NAMES = {"md": md, "np": np, "torch": torch, "float32": FLOAT32, "float16": FLOAT16}
NAMES["bfloat16"] = BFLOAT16
HEADER = ("operation", "elements", "mdtensor us", "NumPy us", "of NumPy (95 %)")
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
NARROW = ["add", "mul", "div", "minimum", "less", "floor", "exp", "tanh", "sum", "max"]
#: What NumPy does at the speed of memory, or nearly so.
FAST = {FLOAT16: {"sum"}, BFLOAT16: set()}
#: What NumPy calls them, and what it has no single name for.
RENAMED = {
    "mul": "np.multiply(a, b)",
    "div": "np.divide(a, b)",
    "neg": "np.negative(a)",
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


@dataclass(frozen=True)
class Row:
    """One operation on one size, written as a user of each library writes it.

    Args:
        name: of the row.
        operands: a and b of the statements; arrays are given to each as its own.
        ours, theirs, peers: the statements of mdtensor, NumPy and torch; none for
            torch where it has no such function.
        threads: of mdtensor and torch; NumPy has one.
    """

    name: str
    operands: tuple[Any, ...]
    ours: str
    theirs: str
    peers: str = ""
    threads: int = 1

    def samples(self, rounds: int) -> harness.Samples:
        """Times of all, in turns."""
        md.set_num_threads(self.threads)
        rows = [
            ("mdtensor", self.ours, md.from_numpy),
            ("NumPy", self.theirs, np.array),
        ]
        if torch and self.peers:
            torch.set_num_threads(self.threads)
            rows.append(("torch", self.peers, torch.from_numpy))
        contenders = [
            harness.Contender(name, statement, NAMES | self._operands(own))
            for name, statement, own in rows
        ]
        with np.errstate(all="ignore"):
            return harness.interleave(contenders, rounds)

    def _operands(self, own: Callable[[Any], Any]) -> dict[str, Any]:
        values = (own(x) if isinstance(x, np.ndarray) else x for x in self.operands)
        return dict(zip("ab", values, strict=False))


def floats(count: int, dtype: Any = np.float32) -> Any:
    return RNG.standard_normal(count).astype(dtype)


def row(name: str, count: int, dtype: Any = np.float32, threads: int = 1) -> Row:
    """An operation by its name in mdtensor."""
    operands = tuple(floats(count, dtype) for _ in range(1 + (name in BINARY)))
    label = name if dtype is np.float32 else f"{name} {dtype}"
    label += ", 2 threads" if threads == 2 else ""
    arguments = "(a, b)" if name in BINARY else "(a)"
    # torch's second thread would spin on after its turn, on the core of ours.
    is_fair = threads == 1 and dtype is np.float32
    has_peer = torch and is_fair and hasattr(torch, name)
    return Row(
        label,
        operands,
        f"md.{name}{arguments}",
        RENAMED.get(name, f"np.{name}{arguments}"),
        f"torch.{name}{arguments}" if has_peer else "",
        threads,
    )


def calls() -> Iterator[Row]:
    """Where only the call costs something."""
    yield row("add", 1)
    for text in ("a + b", "a + 1", "a[0]"):
        yield Row(text, (floats(1), floats(1)), text, text, text)
    for name in ("less", "exp"):
        yield row(name, 1)
    yield row("add", 1000)


def activations() -> Iterator[Row]:
    for name, formula in ACTIVATIONS.items():
        axis = ", -1" if "softmax" in name else ""
        peer = f"torch.nn.functional.{name}(a{axis})"
        yield Row(name, (floats(10**6),), f"md.{name}(a)", formula, peer)
    clip = [f"{package}.clip(a, -1, 1)" for package in ("md", "np", "torch")]
    yield Row("clip", (floats(10**6),), *clip)


def casts() -> Iterator[Row]:
    for dtype in (FLOAT16, BFLOAT16):
        for source, target in ((dtype, FLOAT32), (FLOAT32, dtype)):
            ours = f"md.astype(a, md.{target}, casting='wrap')"
            theirs = f"a.astype({target})"
            yield Row(f"{source} as {target}", (floats(10**6, source),), ours, theirs)


def narrow() -> Iterator[Row]:
    for dtype in (FLOAT16, BFLOAT16):
        for name in NARROW:
            yield row(name, 10**6, dtype)


def table(
    rows: Iterable[Row], rounds: int
) -> tuple[list[tuple[str, ...]], dict[str, harness.Ratio]]:
    """Lines of the table, and ratios to NumPy and torch by name and size."""
    lines, ratios = [], {}
    for entry in rows:
        samples = entry.samples(rounds)
        seconds = harness.medians(samples)
        key = f"{entry.name} of {entry.operands[0].size:,}"
        ratios[key] = harness.ratio(samples, "mdtensor", "NumPy")
        has_peer = "torch" in samples
        peer = str(harness.ratio(samples, "mdtensor", "torch")) if has_peer else ""
        times = [f"{1e6 * seconds[name]:.3g}" for name in ("mdtensor", "NumPy")]
        count = entry.operands[0].size
        lines.append((entry.name, f"{count:,}", *times, str(ratios[key]), peer))
        print(lines[-1], flush=True)
        if has_peer:
            ratios[f"{key}, torch"] = harness.ratio(samples, "mdtensor", "torch")
    return lines, ratios


def limits_of(ratios: dict[str, harness.Ratio]) -> list[harness.Limit]:
    """What is promised, from the ratios by name."""

    def worst(*names: str, size: str = "1,000,000") -> float:
        return max(ratios[f"{name} of {size}"].median for name in names)

    limits = [
        harness.Limit("add of 1 element over np.add", worst("add", size="1"), 2.5),
        harness.Limit("float32, a million: worst over NumPy", worst(*FAMILY), 1.053),
        harness.Limit(
            "activations of a million: worst over NumPy",
            worst(*ACTIVATIONS, "clip"),
            1.1,
        ),
        harness.Limit(
            "add of ten million over np.add", worst("add", size="10,000,000"), 1.0
        ),
        harness.Limit(
            "add of ten million, two threads over np.add",
            worst("add, 2 threads", size="10,000,000"),
            0.9,
        ),
    ]
    for dtype, limit in ((FLOAT16, 0.1), (BFLOAT16, 0.1)):
        names = [f"{name} {dtype}" for name in NARROW if name not in FAST[dtype]]
        limits.append(
            harness.Limit(f"{dtype}, a million: worst over NumPy", worst(*names), limit)
        )
    if "add of 1, torch" in ratios:
        ours = worst("add", size="1, torch")
        limits.insert(1, harness.Limit("add of 1 element over torch.add", ours, 1.0))
    return limits


def main() -> None:
    options = harness.arguments(__doc__, rounds=40)
    few = max(3, options.rounds // 4)
    million = [row(name, 10**6) for name in FAMILY]
    long = [row("add", 10**7), row("add", 10**7, threads=2)]
    long += [row("exp", 10**7), row("exp", 10**7, threads=2)]
    before = md.get_num_threads()
    lines, ratios = table(calls(), options.rounds)
    for rows in (million, activations(), long, narrow(), casts()):
        more_lines, more = table(rows, few)
        lines, ratios = lines + more_lines, ratios | more
    md.set_num_threads(before)
    limits = limits_of(ratios)
    harness.report(
        "elementwise",
        "Elementwise operations beside NumPy and torch",
        (*HEADER, "of torch (95 %)"),
        lines,
        limits,
        save=not options.no_save,
        notes=(
            "float32 and one thread where a row says nothing else. Two threads gain "
            "only where both cores are free, which the load below tells."
        ),
    )


if __name__ == "__main__":
    main()
