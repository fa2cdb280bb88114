"""Elementwise operations on a million codes of 8 bits beside ONNX Runtime's operators.

ONNX Runtime writes to existing memory, mdtensor makes a tensor at each call.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from onnx import helper

import mdtensor as md
from bench.harness import Bench, Contender, Race, Reason, Row
from bench.harness.agreement import Disagreement
from bench.harness.promise import Promise
from bench.harness.reading import Found
from bench.rivals import one_model
from mdtensor import quant
from mdtensor.kernels.cpu import isa

RNG = np.random.default_rng(5)
SIDE = 1024
OURS, ORT = "mdtensor", "ORT"
#: Scales and zero points of two operands and of the result.
GRIDS = {"a": (0.02, 100), "b": (0.03, 140), "y": (0.05, 120)}
#: Grids on which a tenth of all sums is near a tie.
GRIDS |= {"c": (0.05, 128), "d": (0.03, 120), "w": (0.1, 127)}
#: A grid with a scale for each column.
GRIDS |= {"r": ([0.02 + i / 10**5 for i in range(SIDE)], [100] * SIDE)}
QUANTIZED = {
    name: quant.QParams(scale, zero, dtype="quint8", axis=1 if name == "r" else None)
    for name, (scale, zero) in GRIDS.items()
}
A, B = RNG.integers(0, 256, (2, SIDE, SIDE), dtype=np.uint8)
NUMBERS = RNG.standard_normal((SIDE, SIDE), np.float32)
LAID_OUT = "add a row"
ONTO, ONE = QUANTIZED["y"], ["a", "as", "az"]


@dataclass(frozen=True)
class Operation:
    """One operation, as mdtensor and ONNX Runtime have it.

    Args:
        ours: of tensors.
        nodes: of operator, inputs and output; scales are `as`, zero points `az`.
        operands: arrays by the name of their grid; none is on `x`.
        domain: of an operator that is not in ONNX itself.
        result: the type of what it gives in memory.
    """

    ours: Callable[..., Any]
    nodes: list[tuple[str, list[str], str]]
    operands: Mapping[str, np.ndarray] = field(default_factory=lambda: {"a": A})
    domain: str = ""
    result: Any = np.uint8

    def contenders(self) -> list[Contender]:
        tensors = [
            md.from_numpy(x) if name == "x" else quant.QUInt8Tensor(x, QUANTIZED[name])
            for name, x in self.operands.items()
        ]
        return [
            Contender(OURS, lambda: array_of(self.ours(*tensors))),
            Contender(ORT, self.theirs()),
        ]

    def theirs(self) -> Callable[[], np.ndarray]:
        nodes = [
            helper.make_node(kind, given, [name], domain=self.domain)
            for kind, given, name in self.nodes
        ]
        constants: dict[str, Any] = {}
        for name, (scale, zero) in GRIDS.items():
            constants |= {f"{name}s": np.float32(scale), f"{name}z": np.uint8(zero)}
        used = {name for _, given, _ in self.nodes for name in given}
        kept = {name: value for name, value in constants.items() if name in used}
        out = np.empty((SIDE, SIDE), self.result)
        return one_model.bound(nodes, self.operands, kept, out)


def array_of(x: Any) -> Any:
    return x.codes.buffer if isinstance(x, quant.QuantizedTensor) else x.buffer


def by_floats(kind: str) -> list[tuple[str, list[str], str]]:
    """What has no operator on codes: numbers between two changes."""
    return [
        ("DequantizeLinear", ONE, "u"),
        ("DequantizeLinear", ["b", "bs", "bz"], "v"),
        (kind, ["u", "v"], "w"),
        ("QuantizeLinear", ["w", "ys", "yz"], "y"),
    ]


BOTH, ROW = {"a": A, "b": B}, {"a": A, "b": B[:1]}
TWO = [*ONE, "b", "bs", "bz", "ys", "yz"]
OPERATIONS = {
    "add": Operation(
        partial(md.add, out=ONTO), [("QLinearAdd", TWO, "y")], BOTH, "com.microsoft"
    ),
    LAID_OUT: Operation(
        partial(md.add, out=ONTO), [("QLinearAdd", TWO, "y")], ROW, "com.microsoft"
    ),
    "add, many ties": Operation(
        partial(md.add, out=QUANTIZED["w"]),
        [("QLinearAdd", ["c", "cs", "cz", "d", "ds", "dz", "ws", "wz"], "y")],
        {"c": A, "d": B},
        "com.microsoft",
    ),
    "sub": Operation(partial(md.sub, out=ONTO), by_floats("Sub"), BOTH),
    "mul": Operation(
        partial(md.mul, out=ONTO), [("QLinearMul", TWO, "y")], BOTH, "com.microsoft"
    ),
    "sigmoid": Operation(
        partial(md.sigmoid, out=ONTO),
        [("QLinearSigmoid", [*ONE, "ys", "yz"], "y")],
        domain="com.microsoft",
    ),
    "requantize": Operation(
        partial(quant.requantize, out=ONTO),
        [("DequantizeLinear", ONE, "u"), ("QuantizeLinear", ["u", "ys", "yz"], "y")],
    ),
    "quantize": Operation(
        lambda x: quant.quantize(x, ONTO),
        [("QuantizeLinear", ["x", "ys", "yz"], "y")],
        {"x": NUMBERS},
    ),
    "quantize columns": Operation(
        lambda x: quant.quantize(x, QUANTIZED["r"]),
        [("QuantizeLinear", ["x", "rs", "rz"], "y")],
        {"x": NUMBERS},
    ),
    "dequantize columns": Operation(
        quant.dequantize,
        [("DequantizeLinear", ["r", "rs", "rz"], "y")],
        {"r": A},
        result=np.float32,
    ),
    "dequantize": Operation(
        quant.dequantize, [("DequantizeLinear", ONE, "y")], result=np.float32
    ),
}


def near_codes(results: Mapping[str, Any]) -> None:
    """ONNX Runtime rounds more than once: a code beside the exact one is allowed."""
    ours, theirs = (np.asarray(results[name], np.float64) for name in (OURS, ORT))
    is_code = results[OURS].dtype.kind == "u"
    if np.abs(ours - theirs).max() > (1 if is_code else 1e-6):
        raise Disagreement("codes are more than one apart, or numbers differ")


def rows(quick: bool) -> Iterator[Row]:
    for name, one in list(OPERATIONS.items())[: 2 if quick else None]:
        yield Race(name, one.contenders, near_codes, "A million codes")


def worst(found: Found) -> float:
    return found.worst([name for name in OPERATIONS if name != LAID_OUT], ORT)


BENCH = Bench(
    f"Elementwise operations on codes against ONNX Runtime, ISA {isa.ISA}",
    rows,
    rounds=25,
    promises=[
        Promise("operands of one shape, worst relative to ONNX Runtime", 1.0, worst)
    ],
    reasons=[
        Reason(
            "mdtensor first repeats the row to the full shape, because its kernel "
            "takes equal shapes",
            LAID_OUT,
        )
    ],
)
