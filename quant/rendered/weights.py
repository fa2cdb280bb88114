"""Products of floats with quantized weights on devices, and 4-bit codes as floats.

    w = float32(scale · (code - zero point))      linear = Σ x · w + bias

`linear` converts codes where it reads them, so weights stay 4 or 8 bits in memory. A
device with texts in CUDA C++ has one for sums of float32, `kernels/loops/weights.cuh`:
each product is added with one rounding. Other sums are added by the threads of a block,
in the order of `sum`. A device reads scales of the whole, of rows, or of blocks along
the columns. Without that text, blocks of 4-bit codes have an even length, since two
codes share a byte.

`matmul` and `conv2d` read each weight many times, or across rows of bytes, so they
convert all of them first, on any grid: their products are those of floats.
"""

from math import prod
from typing import Any, Union

import numpy as np
import numpy.typing as npt

import mdtensor as md
from mdtensor import Device, conv2d, linear, matmul
from mdtensor.extend import constant, infer, launch, types_of
from mdtensor.kernels.loops import ir
from mdtensor.kernels.loops.cuda_weights import WEIGHED
from mdtensor.kernels.loops.ir import Loop, Value, apply, cast, gather
from mdtensor.kernels.loops.weights import Weights, weight
from mdtensor.quant.generics import dequantize
from mdtensor.quant.rendered.rounding import Inputs, scales_of, zeros_of
from mdtensor.quant.rendered.types import (
    NARROW,
    PACKED,
    SHORT,
    add,
    no_method,
    types_on,
)
from mdtensor.quant.tensor import QuantizedTensor

#: The most codes of a row, and elements of a result, whose places have 32 bits.
MOST = 2**31 - 1


def register(device: Device) -> None:
    """Add the methods of this file for a device."""
    floats: Any = Union[types_of(device, ("real floating",))]
    weights: Any = Union[types_on(device, (*NARROW, *PACKED))]
    every: Any = Union[types_on(device, (*SHORT, *PACKED))]
    # Apart, since the union of both is not below the one that the host takes.
    for bias in (floats, type(None)):
        add(device, linear, (floats, weights, bias), _linear)
        add(device, conv2d, (floats, every, bias), _conv2d)
    add(device, matmul, (floats, every), _matmul)
    add(device, matmul, (every, floats), _matmul)
    add(device, dequantize, (Union[types_on(device, PACKED)],), _dequantize)


def _linear(x: Any, w: Any, b: Any, /) -> Any:
    spec = infer(linear, x, w, b)
    given = (x, w) if b is None else (x, w, b)
    type = "float64" if "float64" in (t.dtype.name for t in given) else "float32"
    inputs = Inputs(x.device, "linear")
    numbers = _Weight(inputs, w)
    # With sums of float64 the text has more values than the registers of sm_80 hold.
    has_text = type == "float32" and getattr(x.device, "has_tensor_cores", False)
    if has_text and numbers.is_in_rows and prod(spec.shape) <= MOST:
        loop = _loop_of_codes(inputs, x, numbers, b, type, spec)
    elif numbers.is_read:
        loop = _loop_of_bytes(inputs, x, numbers, b, type, spec)
    else:
        raise no_method("linear", *given)
    return spec.type.wrap(launch(x.device, loop, spec.shape, inputs.buffers, (x.ndim,)))


def _loop_of_codes(
    inputs: Inputs, x: Any, numbers: Any, b: Any, type: str, spec: Any
) -> Loop:
    """Return the loop that CUDA C++ has a text for."""
    left = cast(inputs.element(x.buffer.view(lambda a: a[..., None, :])), type)
    value = apply("mul", left, cast(numbers.along_rows(), type))
    finish = _finish(inputs, b, type, spec)
    return inputs.loop(
        "linear", value, fold="dot", finish=finish, is_serial=True, tile=WEIGHED
    )


def _loop_of_bytes(
    inputs: Inputs, x: Any, numbers: Any, b: Any, type: str, spec: Any
) -> Loop:
    """Return the loop that folds bytes, in any language."""
    share = numbers.share
    if x.shape[-1] % share:
        # The last byte has one code, and a nibble of 0.
        x = md.pad(x, (*[(0, 0)] * (x.ndim - 1), (0, 1)))
    byte, products = numbers.byte(), list[Value]()
    for at in range(share):
        column = x.buffer.view(lambda a, at=at: a[..., None, at::share])
        left, right = inputs.element(column), numbers(numbers.code(byte, at))
        products.append(apply("mul", cast(left, type), cast(right, type)))
    value = products[0] if share == 1 else apply("add", *products)
    finish = _finish(inputs, b, type, spec)
    return inputs.loop("linear", value, fold="add", finish=finish)


def _finish(inputs: Inputs, b: Any, type: str, spec: Any) -> Value:
    """Return the result of a sum: with the bias, and rounded to its type."""
    total: Value = ir.total(type)
    if b is not None:
        bias = inputs.element(b.buffer.view(lambda a: a[:, None]))
        total = apply("add", total, cast(bias, type))
    return cast(total, spec.dtype.name)


def _matmul(x1: Any, x2: Any, /) -> Any:
    spec = infer(matmul, x1, x2)
    return _rounded(matmul(_float_of(x1), _float_of(x2)), spec.dtype)


def _conv2d(x: Any, w: Any, b: Any, /, **options: Any) -> Any:
    spec = infer(conv2d, x, w, b, **options)
    # A sum of float16 is rounded once, behind the bias.
    bias = None if b is None else _float_of(b)
    return _rounded(conv2d(_float_of(x), _float_of(w), bias, **options), spec.dtype)


def _float_of(x: Any) -> Any:
    """Return weights as float32, and narrow floats as well."""
    if isinstance(x, QuantizedTensor):
        return dequantize(x)
    return x if x.dtype.bits >= 32 else x.astype(md.float32)


def _rounded(x: Any, dtype: Any) -> Any:
    return x if x.dtype is dtype else x.astype(dtype, casting="wrap")


def _dequantize(x: Any, /) -> Any:
    spec, inputs = infer(dequantize, x), Inputs(x.device)
    steps: Value = _code_of(x, *_bytes(inputs, x))
    if np.any(x.zero_point):
        steps = apply("sub", steps, inputs.field(zeros_of(x), "int32"))
    number = apply("mul", cast(steps, "float32"), inputs.field(scales_of(x), "float32"))
    loop = inputs.loop("dequantize", number)
    return spec.type.wrap(launch(x.device, loop, x.shape, inputs.buffers))


def _bytes(inputs: Inputs, x: Any) -> tuple[Value, Value]:
    """Return the byte of each code, and where in the byte the code starts, as int32."""
    if not x.shape:
        return cast(inputs.element(x.buffer), "int32"), ir.number(0, "int32")
    columns = np.arange(x.shape[-1], dtype=np.int32)
    places, shifts = (
        inputs.element(constant(inputs.device, n))
        for n in (columns // 2, columns % 2 * 4)
    )
    first = inputs.add(x.buffer.view(lambda a: a[..., :1]))
    return cast(gather(first, x.buffer.dtype.name, places), "int32"), shifts


def _code_of(w: Any, byte: Value, shift: Value) -> Value:
    """Return the 4-bit code that starts at a bit of a byte."""
    fifteen, eight = (ir.number(n, "int32") for n in (15, 8))
    code = apply("bit_and", apply("shift_right", byte, shift), fifteen)
    if w.qparams.minimum == 0:
        return code
    # The sign is the fourth bit.
    return apply("sub", apply("bit_xor", code, eight), eight)


class _Weight:
    """Codes of weights [n, k] as float32 numbers, while a loop over bytes is written.

    Args:
        inputs: the operands of the loop.
        w: the weights.
    """

    def __init__(self, inputs: Inputs, w: Any) -> None:
        self._inputs, self._w = inputs, w
        #: Codes in a byte.
        self.share = 2 if w.dtype.bits == 4 else 1
        grid, columns = w.qparams, w.shape[-1]
        self._size = columns if grid.is_along(None, 0) else grid.block_size
        is_blocks = grid.block_size is not None and grid.axis == 1
        #: Whether scales are of rows, or of blocks along them.
        self.is_in_rows = columns <= MOST and (grid.is_along(None, 0) or is_blocks)
        is_whole = self._size is None or self._size >= columns
        #: Whether the device reads such grids.
        self.is_read = grid.is_along(None, 0) or (
            is_blocks and (is_whole or self._size % self.share == 0)
        )

    def along_rows(self) -> Value:
        """Return the number of the code at a place of its row."""
        inputs, grid = self._inputs, self._w.qparams
        zeros = np.broadcast_to(grid.zero_point, grid.scale.shape)
        # Behind each other, so that no operand has all codes as elements.
        codes = inputs.add(self._w.buffer.view(lambda a: a[:, :1]))
        scale = inputs.add(self._first(grid.scale, "float32"))
        zero = inputs.add(self._first(zeros, "int32")) if np.any(zeros) else None
        size = np.array(max(self._size, 1), np.int32)
        bits, is_signed = self._w.dtype.bits, grid.minimum < 0
        at = inputs.add(size, is_number=True)
        return weight(Weights(codes, scale, zero, at, bits, is_signed))

    def _first(self, values: npt.NDArray[Any], type: str) -> Any:
        """Return the view of the first number of each row."""
        rows = values.reshape(-1, 1) if values.ndim < 2 else values
        found = constant(self._inputs.device, rows.astype(type))
        return found.view(lambda a: a[:, :1])

    def byte(self) -> Value:
        """Return the byte, as int32."""
        return cast(self._inputs.element(self._w.buffer), "int32")

    def code(self, byte: Value, at: int) -> Value:
        """Return one of the codes of a byte."""
        if self.share == 1:
            return byte
        return _code_of(self._w, byte, ir.number(4 * at, "int32"))

    def __call__(self, code: Value) -> Value:
        """Return the float32 number of a code: both factors are exact in float32."""
        grid = self._w.qparams
        if np.any(grid.zero_point):
            code = apply("sub", code, self._field(grid.zero_point, "int32"))
        return apply("mul", cast(code, "float32"), self._field(grid.scale, "float32"))

    def _field(self, values: npt.NDArray[Any], type: str) -> Value:
        """Return the scale or zero point of a byte."""
        inputs, columns = self._inputs, self._w.shape[-1]
        rows = values.reshape(-1, 1) if values.ndim < 2 else values
        if rows.shape[1] == 1:
            return inputs.field(rows, type)
        first = inputs.add(self._first(values, type))
        places = np.arange(0, columns, self.share) // self._size
        place = inputs.element(constant(inputs.device, places.astype(np.int32)))
        return gather(first, type, place)
