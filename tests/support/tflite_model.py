"""TFLite models of one operator, as bytes: what LiteRT is asked about presets.

    model = one_operator("ADD", [Value((4,), scale=0.5), Value((4,), scale=1.0)],
                         Value((4,), scale=0.25), AddOptions...)
    Session(model, "tflite_ref")(a, b)

Never build one with a scale that is no positive normal number: LiteRT ends the process.
"""

from dataclasses import dataclass
from typing import Any

import flatbuffers
import numpy as np
import tflite

TYPES = {"int8": 9, "uint8": 3, "int32": 2, "float32": 0}
#: Of operators that have no third version.
VERSIONS = {"HARD_SWISH": 1, "QUANTIZE": 2, "SOFTMAX": 2}
RESOLVERS = {
    "tflite_ref": "BUILTIN_REF",
    "tflite_opt": "BUILTIN_WITHOUT_DEFAULT_DELEGATES",
    "xnnpack_x86": "BUILTIN",
}


@dataclass(frozen=True)
class Value:
    """A tensor of the model: its type, its grid, and its elements if it is constant."""

    shape: tuple[int, ...]
    scale: Any = None
    zero: int = 0
    axis: int = 0
    dtype: str = "int8"
    data: Any = None


def one_operator(kind: str, inputs: list[Value], output: Value, options: Any = None):
    """A model with one operator.

    Args:
        kind: its name in `tflite.BuiltinOperator`.
        options: a function from a builder to (type, offset) of its options.
    """
    b = flatbuffers.Builder(1024)
    values = [*inputs, output]
    buffers = [_buffer(b, None)] + [_buffer(b, v.data) for v in values]
    tensors = [_tensor(b, v, at) for at, v in enumerate(values)]
    given = _ints(b, range(len(inputs)))
    result = _ints(b, [len(inputs)])
    made = options(b) if options else None
    tflite.OperatorStart(b)
    tflite.OperatorAddOpcodeIndex(b, 0)
    tflite.OperatorAddInputs(b, given)
    tflite.OperatorAddOutputs(b, result)
    if made:
        tflite.OperatorAddBuiltinOptionsType(b, made[0])
        tflite.OperatorAddBuiltinOptions(b, made[1])
    operators = _offsets(b, [tflite.OperatorEnd(b)])
    moving = [at for at, v in enumerate(inputs) if v.data is None]
    entered, left = _ints(b, moving), _ints(b, [len(inputs)])
    listed = _offsets(b, tensors)
    tflite.SubGraphStart(b)
    tflite.SubGraphAddTensors(b, listed)
    tflite.SubGraphAddInputs(b, entered)
    tflite.SubGraphAddOutputs(b, left)
    tflite.SubGraphAddOperators(b, operators)
    subgraphs = _offsets(b, [tflite.SubGraphEnd(b)])
    return _model(b, kind, subgraphs, _offsets(b, buffers))


def _model(b: Any, kind: str, subgraphs: int, buffers: int) -> bytes:
    code = getattr(tflite.BuiltinOperator, kind)
    tflite.OperatorCodeStart(b)
    tflite.OperatorCodeAddDeprecatedBuiltinCode(b, min(code, 127))
    tflite.OperatorCodeAddBuiltinCode(b, code)
    tflite.OperatorCodeAddVersion(b, VERSIONS.get(kind, 3))
    codes = _offsets(b, [tflite.OperatorCodeEnd(b)])
    tflite.ModelStart(b)
    tflite.ModelAddVersion(b, 3)
    tflite.ModelAddOperatorCodes(b, codes)
    tflite.ModelAddSubgraphs(b, subgraphs)
    tflite.ModelAddBuffers(b, buffers)
    b.Finish(tflite.ModelEnd(b), b"TFL3")
    return bytes(b.Output())


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


def _ints(b: Any, numbers: Any) -> int:
    return b.CreateNumpyVector(np.array(list(numbers), np.int32))


def _offsets(b: Any, places: list[int]) -> int:
    b.StartVector(4, len(places), 4)
    for place in reversed(places):
        b.PrependUOffsetTRelative(place)
    return b.EndVector()


class Session:
    """The model in LiteRT, by the kernels that a rule is named after."""

    def __init__(self, model: bytes, rule: str) -> None:
        from ai_edge_litert.interpreter import Interpreter, OpResolverType

        resolver = getattr(OpResolverType, RESOLVERS[rule])
        self._run = Interpreter(
            model_content=model,
            num_threads=1,
            experimental_op_resolver_type=resolver,
        )
        self._run.allocate_tensors()

    def __call__(self, *arrays: Any) -> Any:
        for place, array in zip(self._run.get_input_details(), arrays, strict=True):
            self._run.set_tensor(place["index"], array)
        self._run.invoke()
        return self._run.get_tensor(self._run.get_output_details()[0]["index"])


def options_of(kind: str, **fields: Any) -> Any:
    """The options of an operator: `options_of("Pool2D", FilterWidth=3)`."""

    def build(b: Any) -> tuple[int, int]:
        name = f"{kind}Options"
        getattr(tflite, f"{name}Start")(b)
        for field, value in fields.items():
            getattr(tflite, f"{name}Add{field}")(b, value)
        made = getattr(tflite, f"{name}End")(b)
        return getattr(tflite.BuiltinOptions, name), made

    return build
