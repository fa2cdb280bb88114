"""One operation on operands of some size, written for each library as its users do."""

import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import ml_dtypes
import numpy as np

import mdtensor as md
from bench.harness import Contender, Race
from bench.harness.agreement import near
from bench.rivals import one_model, streams
from mdtensor.quant import QInt8Tensor, QParams, QuantizedTensor, dequantize, quantize

torch: Any = None
numexpr: Any = None
with suppress(ImportError):
    import torch

    # Its quantized tensors will leave it one day: it says so once.
    with warnings.catch_warnings(action="ignore"):
        torch.quantize_per_tensor(torch.zeros(1), 1.0, 0, torch.qint8)
with suppress(ImportError):
    import numexpr

OURS, NUMPY, OUT, NUMEXPR = "mdtensor", "NumPy", "NumPy, out=", "numexpr"
TORCH, ORT, LIMIT = "torch", "ONNX Runtime", "limit"
#: Of the operands, by number of elements.
SHAPES = {
    100: (10, 10),
    10_000: (100, 100),
    1_000_000: (1000, 1000),
    10_000_000: (2500, 4000),
}
MOST = 10_000_000
#: Of the rounds, for operands of so many elements.
SHARES = {1_000_000: 0.5, MOST: 0.25}
SCALE, ZERO = np.float32(0.03), 3
GRID = QParams(SCALE, ZERO)
DTYPES = {name: np.dtype(name) for name in ("float32", "float16", "int8")}
DTYPES["bfloat16"] = np.dtype(ml_dtypes.bfloat16)


@md.elementwise
def multiply_add(x, y, z):
    """x · y + z, in one pass."""
    return x * y + z


#: What the statements name, beside operands and the memory of the result.
NAMES = {"md": md, "np": np, "torch": torch, "ne": numexpr, "fma": multiply_add}
NAMES |= {"quantize": quantize, "dequantize": dequantize}
NAMES |= {"GRID": GRID, "SCALE": SCALE, "ZERO": ZERO, "BFLOAT16": DTYPES["bfloat16"]}


@dataclass(frozen=True)
class Task:
    """One operation on a, b and c; `out` is memory of a result.

    Args:
        name: of the operation.
        table: heading of its family.
        statements: by library; none where it has no such function.
        nodes: what ONNX Runtime does, from a, b and c to y.
        read, written: bytes an element that have to be moved.
        operands: those that the statements name.
        source, result: types of the elements; of codes on `GRID` if source is int8.
        axis: of a reduction, None for all; not given where nothing is reduced.
        constants: of the nodes.
        tolerance: how far from NumPy's result in float64 one may be.
    """

    name: str
    table: str
    statements: Mapping[str, str]
    nodes: Sequence[Any]
    read: int
    written: int
    operands: str = "a"
    source: str = "float32"
    result: str = "float32"
    axis: int | tuple[()] | None = ()
    constants: Mapping[str, Any] = field(default_factory=dict)
    tolerance: float = 1e-2

    def race(self, count: int) -> Race:
        return Race(
            f"{self.name}, {count:,}",
            partial(self.contenders, count),
            partial(self.check, count),
            self.table,
            sample_seconds=0.003 if count < MOST else 0,
            share=SHARES.get(count, 1),
            limit=LIMIT,
        )

    def data(self, count: int) -> dict[str, np.ndarray]:
        """Numbers of both signs whose sum is not near zero, or codes."""
        rng = np.random.default_rng(count)
        shape = SHAPES[count]
        if self.source == "int8":
            return {"a": rng.integers(-128, 128, shape, np.int8)}
        drawn = (rng.standard_normal(shape, np.float32) for _ in self.operands)
        return {
            name: x + np.float32(0.25)
            for name, x in zip(self.operands, drawn, strict=True)
        }

    def contenders(self, count: int) -> list[Contender]:
        one_thread()
        data = self.data(count)
        shape = np.empty(SHAPES[count], np.bool_).any(axis=self.axis).shape
        out = np.empty(shape, DTYPES[self.result])
        found = []
        for library, statement in self.statements.items():
            if is_installed(library):
                own = {name: owned(library, x) for name, x in data.items()}
                found.append(Contender(library, statement, NAMES | own | {"out": out}))
        bound = one_model.bound(self.nodes, data, self.constants, out.copy())
        moved = streams.moved(self.read * count, self.written * count)
        return [*found, Contender(ORT, bound), Contender(LIMIT, moved)]

    def check(self, count: int, results: dict[str, Any]) -> None:
        """Near what NumPy gives in float64; the limit gives nothing.

        Of the most elements every 25th row is compared, unless rows are reduced.
        """
        some = np.s_[::25] if count == MOST and self.axis == () else np.s_[...]
        exact = {n: x[some].astype(np.float64) for n, x in self.data(count).items()}
        wanted = eval(self.statements[NUMPY], NAMES | exact)
        numbers = {n: as_numbers(x)[some] for n, x in results.items() if n != LIMIT}
        near(np.asarray(wanted).astype(np.float64), self.tolerance)(numbers)


def one_thread() -> None:
    """Whatever other benches have asked for before."""
    for library in (md, torch, numexpr):
        if library is not None:
            library.set_num_threads(1)


def is_installed(library: str) -> bool:
    return {TORCH: torch, NUMEXPR: numexpr}.get(library, np) is not None


def owned(library: str, x: np.ndarray) -> Any:
    """The same memory as the library's own; int8 as codes on `GRID`."""
    if library == OURS:
        return QInt8Tensor.wrap(x, GRID) if x.dtype == np.int8 else md.from_numpy(x)
    if library == TORCH:
        found = torch.from_numpy(x)
        if x.dtype == np.int8:
            return torch._make_per_tensor_quantized_tensor(found, SCALE, ZERO)
        return found
    return x


def as_numbers(x: Any) -> np.ndarray:
    """What a library gave, as an array; codes where it is quantized."""
    if torch and isinstance(x, torch.Tensor):
        x = x.int_repr() if x.is_quantized else x.to(torch.float64)
        return np.asarray(x.numpy())
    return np.asarray(x.codes.buffer if isinstance(x, QuantizedTensor) else x)
