"""TFLite files, written through the schema of the format: values, steps, a graph.

    values = [Value((4,), 0.5), Value((4,), 0.25)]
    model(values, [Step("TANH", [0], 1)], inputs=[0], outputs=[1])

Never write a scale that is no positive normal number: LiteRT ends the process.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import flatbuffers
import numpy as np
import tflite

TYPES = {"int8": 9, "uint8": 3, "int32": 2, "float32": 0}
#: Of operators that have no third version.
VERSIONS = {"HARD_SWISH": 1, "QUANTIZE": 2, "SOFTMAX": 2, "RESHAPE": 1}
#: From a builder to the type and the place of an operator's options.
Options = Callable[[Any], tuple[int, int]]


@dataclass(frozen=True)
class Value:
    """A tensor of the model: its type, its grid, and its elements if it is constant."""

    shape: tuple[int, ...]
    scale: Any = None
    zero: int = 0
    axis: int = 0
    dtype: str = "int8"
    data: Any = None


@dataclass(frozen=True)
class Step:
    """One operator.

    Args:
        kind: its name in `tflite.BuiltinOperator`.
        inputs, output: numbers of values.
        options: see `options_of`.
    """

    kind: str
    inputs: Sequence[int]
    output: int
    options: Options | None = None


def options_of(kind: str, **fields: Any) -> Options:
    """The options of an operator: `options_of("Pool2D", FilterWidth=3)`."""

    def build(b: Any) -> tuple[int, int]:
        name = f"{kind}Options"
        getattr(tflite, f"{name}Start")(b)
        for field, value in fields.items():
            getattr(tflite, f"{name}Add{field}")(b, value)
        made = getattr(tflite, f"{name}End")(b)
        return getattr(tflite.BuiltinOptions, name), made

    return build


def model(
    values: Sequence[Value],
    steps: Sequence[Step],
    inputs: Sequence[int],
    outputs: Sequence[int],
) -> bytes:
    """The file; inputs and outputs are numbers of values."""
    b = flatbuffers.Builder(1024)
    kinds = list(dict.fromkeys(step.kind for step in steps))
    buffers = _offsets(b, [_buffer(b, None), *(_buffer(b, v.data) for v in values)])
    listed = _offsets(b, [_tensor(b, v, at) for at, v in enumerate(values)])
    operators = _offsets(b, [_operator(b, s, kinds.index(s.kind)) for s in steps])
    entered, left = _ints(b, inputs), _ints(b, outputs)
    tflite.SubGraphStart(b)
    tflite.SubGraphAddTensors(b, listed)
    tflite.SubGraphAddInputs(b, entered)
    tflite.SubGraphAddOutputs(b, left)
    tflite.SubGraphAddOperators(b, operators)
    subgraphs = _offsets(b, [tflite.SubGraphEnd(b)])
    codes = _offsets(b, [_code(b, kind) for kind in kinds])
    tflite.ModelStart(b)
    tflite.ModelAddVersion(b, 3)
    tflite.ModelAddOperatorCodes(b, codes)
    tflite.ModelAddSubgraphs(b, subgraphs)
    tflite.ModelAddBuffers(b, buffers)
    b.Finish(tflite.ModelEnd(b), b"TFL3")
    return bytes(b.Output())


def _code(b: Any, kind: str) -> int:
    code = getattr(tflite.BuiltinOperator, kind)
    tflite.OperatorCodeStart(b)
    tflite.OperatorCodeAddDeprecatedBuiltinCode(b, min(code, 127))
    tflite.OperatorCodeAddBuiltinCode(b, code)
    tflite.OperatorCodeAddVersion(b, VERSIONS.get(kind, 3))
    return tflite.OperatorCodeEnd(b)


def _operator(b: Any, step: Step, code: int) -> int:
    given, result = _ints(b, step.inputs), _ints(b, [step.output])
    made = step.options(b) if step.options else None
    tflite.OperatorStart(b)
    tflite.OperatorAddOpcodeIndex(b, code)
    tflite.OperatorAddInputs(b, given)
    tflite.OperatorAddOutputs(b, result)
    if made:
        tflite.OperatorAddBuiltinOptionsType(b, made[0])
        tflite.OperatorAddBuiltinOptions(b, made[1])
    return tflite.OperatorEnd(b)


def _buffer(b: Any, data: Any) -> int:
    at = None if data is None else b.CreateNumpyVector(_bytes(data))
    tflite.BufferStart(b)
    if at is not None:
        tflite.BufferAddData(b, at)
    return tflite.BufferEnd(b)


def _bytes(data: Any) -> Any:
    return np.frombuffer(np.ascontiguousarray(data).tobytes(), np.uint8)


def _tensor(b: Any, value: Value, at: int) -> int:
    name = b.CreateString(f"t{at}")
    shape = _ints(b, value.shape)
    grid = None if value.scale is None else _grid(b, value)
    tflite.TensorStart(b)
    tflite.TensorAddName(b, name)
    tflite.TensorAddShape(b, shape)
    tflite.TensorAddType(b, TYPES[value.dtype])
    tflite.TensorAddBuffer(b, at + 1)
    if grid is not None:
        tflite.TensorAddQuantization(b, grid)
    return tflite.TensorEnd(b)


def _grid(b: Any, value: Value) -> int:
    scales = np.atleast_1d(np.asarray(value.scale, np.float32))
    assert (np.isfinite(scales) & (scales >= np.finfo(np.float32).tiny)).all()
    zeros = b.CreateNumpyVector(np.full(scales.shape, value.zero, np.int64))
    steps = b.CreateNumpyVector(scales)
    tflite.QuantizationParametersStart(b)
    tflite.QuantizationParametersAddScale(b, steps)
    tflite.QuantizationParametersAddZeroPoint(b, zeros)
    tflite.QuantizationParametersAddQuantizedDimension(b, value.axis)
    return tflite.QuantizationParametersEnd(b)


def _ints(b: Any, numbers: Iterable[int]) -> int:
    return b.CreateNumpyVector(np.array(list(numbers), np.int32))


def _offsets(b: Any, places: list[int]) -> int:
    b.StartVector(4, len(places), 4)
    for place in reversed(places):
        b.PrependUOffsetTRelative(place)
    return b.EndVector()
