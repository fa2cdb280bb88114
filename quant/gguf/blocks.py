"""Tensors as GGUF files store them: bytes, in blocks of one type, and a shape."""

from enum import IntEnum
from functools import cache
from math import prod
from types import ModuleType
from typing import Any, Final, NamedTuple, Self

import ml_dtypes
import numpy as np
import numpy.typing as npt

from mdtensor import Float32Tensor, StorageError, Tensor, cpu, from_numpy
from mdtensor.errors import describe, shown
from mdtensor.extend import explain_wrong_calls
from mdtensor.quant.qparams import QParams
from mdtensor.quant.tensor import QInt4Tensor, QInt8Tensor, QuantizedTensor

# The package gguf knows the types of blocks and their bits. It is an extra, so it is
# imported on use (decision 0028).


def gguf_package() -> ModuleType:
    """Return the package gguf.

    Raises:
        StorageError: the package is not installed.
    """
    try:
        import gguf
    except ImportError:
        raise StorageError(
            "GGUF files need the package gguf",
            "Install it with `pip install mdtensor[gguf]`",
        ) from None
    package: ModuleType = gguf
    return package


def block_type(name: object) -> IntEnum:
    """Return the package's enum member for a type of blocks, such as `Q8_0`.

    Raises:
        StorageError: the type does not exist.
    """
    types = gguf_package().GGMLQuantizationType
    if not isinstance(name, str) or name not in types.__members__:
        raise StorageError(
            f"{shown(name)} is not a type of blocks",
            f"Use {', '.join(types.__members__)}",
        )
    found: IntEnum = types[name]
    return found


@cache
def writable() -> tuple[str, ...]:
    """Return the names of the types that the package can quantize to.

    Raises:
        StorageError: the package is not installed.
    """
    package = gguf_package()
    types = package.GGMLQuantizationType
    return tuple(t.name for t in types if _is_written(package, t))


def _is_written(package: ModuleType, type: IntEnum) -> bool:
    """Return whether the package can quantize to a type, by an attempt."""
    # The package does not list these types, but raises for all others.
    try:
        elements = package.GGML_QUANT_SIZES[type][0]
        package.quants.quantize(np.zeros((1, elements), np.float32), type)
    except (NotImplementedError, KeyError):
        return False
    return True


def sizes_of(name: str) -> tuple[int, int]:
    """Return the number of elements and of bytes in a block of the type."""
    elements, width = gguf_package().GGML_QUANT_SIZES[block_type(name)]
    return int(elements), int(width)


# Types of blocks whose numbers lie on a grid: step · code, without a minimum.
#
#     number = step · code       one step for each 16, 32 or 256 elements
#
# The package gguf decodes both: with all steps set to 1, it returns the codes; with all
# codes set to 1, the steps. So the order of the bits is defined only there (decision
# 0028).
#
# Source: ggml, `ggml-common.h`: `block_q4_0` and so on.

Array = npt.NDArray[Any]
_ONE: Final = np.float16(1).tobytes()


class Grid(NamedTuple):
    """The description of a type of blocks whose numbers lie on a grid.

    Attributes:
        leaf: the type of the quantized tensors, whose codes include the codes here.
        group: the number of elements with a common step.
        ones: a block in which all steps and all codes are 1.
        steps: the bytes of the steps; all other bytes are codes.
    """

    leaf: type[QInt8Tensor] | type[QInt4Tensor]
    group: int
    ones: bytes
    steps: slice


GRIDS: Final = {
    "Q4_0": Grid(QInt4Tensor, 32, _ONE + b"\x99" * 16, slice(0, 2)),
    "Q5_0": Grid(QInt8Tensor, 32, _ONE + b"\xff" * 4 + b"\x11" * 16, slice(0, 2)),
    "Q8_0": Grid(QInt8Tensor, 32, _ONE + b"\x01" * 32, slice(0, 2)),
    "TQ1_0": Grid(QInt4Tensor, 256, b"\xff" * 48 + b"\xfd" * 4 + _ONE, slice(52, 54)),
    "TQ2_0": Grid(QInt4Tensor, 256, b"\xaa" * 64 + _ONE, slice(64, 66)),
    "Q3_K": Grid(
        QInt4Tensor,
        16,
        b"\xff" * 32 + b"\x55" * 64 + b"\x11" * 8 + b"\xaa" * 4 + _ONE,
        slice(96, 110),
    ),
    "Q6_K": Grid(
        QInt8Tensor,
        16,
        b"\x11" * 128 + b"\xaa" * 64 + b"\x01" * 16 + _ONE,
        slice(192, 210),
    ),
}


def to_grid_tensor(name: str, data: Array, shape: tuple[int, ...]) -> QuantizedTensor:
    """Return the quantized tensor with the numbers of blocks of the type `name`.

    Raises:
        StorageError: a step is infinite or NaN.
    """
    grid = GRIDS[name]
    blocks = data.reshape(-1, sizes_of(name)[1])
    ones = np.broadcast_to(np.frombuffer(grid.ones, np.uint8), blocks.shape)
    is_step = np.zeros(blocks.shape[1], bool)
    is_step[grid.steps] = True
    spread = _decode(name, np.where(is_step, blocks, ones))
    codes = _decode(name, np.where(is_step, ones, blocks))
    steps = spread.reshape(-1, grid.group)[:, :1]
    if not np.isfinite(steps).all():
        raise StorageError(f"a scale of {name} is not finite", "Use dequantize()")
    counts = codes.astype(np.int8).reshape(-1, grid.group)
    found, zeros = _make_steps_positive(counts, steps, int(grid.leaf.dtype.maximum))
    groups = (*shape[:-1], shape[-1] // grid.group)
    qparams = QParams(
        np.where(steps == 0, 1, abs(steps)).reshape(groups),
        zeros.reshape(groups),
        dtype=grid.leaf.dtype,
        axis=len(shape) - 1,
        block_size=grid.group,
    )
    return grid.leaf.from_codes(found.reshape(shape), qparams)


def _decode(name: str, blocks: Array) -> Array:
    """Decode blocks to float32, as one flat array."""
    if not blocks.size:
        return np.empty(0, np.float32)
    row = blocks.reshape(1, -1)
    # Any bytes are a valid block, also ones that decode to infinity or NaN.
    with np.errstate(all="ignore"):
        found = gguf_package().quants.dequantize(row, block_type(name))
    return np.asarray(found).reshape(-1)


def _make_steps_positive(
    codes: Array, steps: Array, largest: int
) -> tuple[Array, Array]:
    """Return codes and zero points for the same numbers with positive steps.

    A negative step changes the sign of the codes. If a code is then too large, all
    codes become -1 - c, with zero point -1.
    """
    # In int16, because -(-128) does not fit int8.
    codes = np.where(steps == 0, np.int8(0), codes)
    wide = np.where(steps < 0, -codes.astype(np.int16), codes)
    if wide.max(initial=0) <= largest:
        return wide.astype(np.int8), np.zeros(steps.shape, np.int8)
    return np.where(steps < 0, ~codes, codes), -(steps < 0).astype(np.int8)


def to_bytes(x: QuantizedTensor, name: str) -> Array:
    """Return the blocks of type `Q8_0` or `Q4_0` that contain exactly this tensor.

    Raises:
        StorageError: the granularity differs, a zero point is neither 0 nor -1, or a
            scale is not a float16.
    """
    grid = x.qparams
    steps = grid.scale.astype(np.float32)
    with np.errstate(over="ignore", under="ignore"):
        halves = steps.astype(np.float16)
    is_stored = (
        grid.block_size == 32
        and grid.axis == x.ndim - 1
        and x.shape[-1] % 32 == 0
        and np.isin(grid.zero_point, (0, -1)).all()
        and (halves == steps).all()
    )
    if not is_stored:
        fix = f"Use Blocks.quantize(dequantize(x), {name!r})"
        if grid.block_size == 32 and grid.axis == x.ndim - 1:
            fix += ", or requantize to x.qparams with float16 scales"
        raise StorageError(
            f"{name} stores a float16 scale for each 32 elements of the last axis; the "
            f"grid of x is ({grid.describe()})",
            fix,
            describe("Blocks.of", x),
        )
    # Zero point -1 marks blocks with a negative step, see `_make_steps_positive`.
    is_turned = (grid.zero_point == -1).reshape(-1, 1)
    codes = np.asarray(x.codes.buffer, order="C").reshape(-1, 32)
    codes = np.where(is_turned, ~codes, codes).view(np.uint8)
    d = np.where(is_turned, -halves.reshape(-1, 1), halves.reshape(-1, 1))
    if name == "Q4_0":
        # Q4_0 stores code + 8; a byte has element i and element i + 16.
        nibbles = (codes + np.uint8(8)) & np.uint8(15)
        codes = nibbles[:, :16] | nibbles[:, 16:] << np.uint8(4)
    return np.concatenate([d.view(np.uint8), codes], axis=1).reshape(-1)


Bytes = npt.NDArray[np.uint8]
# An alias, because the class below has an argument called `type`.
Leaf = type[Tensor]
#: Types with one element per block, which dense tensors store.
DENSE: Final[dict[str, Any]] = {
    "F32": np.float32,
    "F16": np.float16,
    "BF16": ml_dtypes.bfloat16,
    "F64": np.float64,
    "I8": np.int8,
    "I16": np.int16,
    "I32": np.int32,
    "I64": np.int64,
}
_INTEGERS = ("I8", "I16", "I32", "I64")
#: More float64 numbers than an address space holds.
MOST_ELEMENTS = 2**60
#: The types for quantized tensors with blocks of 32.
_STORED = {QInt8Tensor: "Q8_0", QInt4Tensor: "Q4_0"}


# Blocks are not tensors, so that nothing is dequantized unless the user requests it
# (decision 0028).
@explain_wrong_calls
class Blocks:
    """The bytes of a tensor in blocks of one type; decoded only on request.

    Args:
        type: the name in ggml: `Q8_0`, `Q4_K`, `F16`.
        data: the bytes, row after row.
        shape: in NumPy's order; the last axis is cut into blocks.

    Raises:
        StorageError: the type is unknown, or the bytes do not fit the shape.

    Example:
        >>> x = md.reshape(md.arange(64, dtype=md.float32), (2, 32))
        >>> w = Blocks.quantize(x, "Q8_0")
        >>> w
        Blocks(Q8_0, shape=(2, 32), 68 bytes)
        >>> w.tensor().codes[1, :4].tolist()
        [65, 67, 69, 71]

    Source: ggml, `ggml-common.h`.
    """

    __slots__ = ("data", "shape", "type")

    def __init__(self, type: str, data: Bytes, shape: tuple[int, ...]) -> None:
        elements, width = sizes_of(type)
        if not isinstance(data, np.ndarray) or data.dtype != np.uint8:
            raise StorageError(f"data is {shown(data)}", "Pass a uint8 array")
        if not isinstance(shape, tuple | list) or not all(map(_is_size, shape)):
            raise StorageError(f"shape is {shown(shape)}", "Pass sizes of 0 or more")
        # NumPy counts the other sizes of an array that has one of 0, too.
        if prod(size or 1 for size in shape) >= MOST_ELEMENTS:
            problem = f"shape is {shown(shape)}, larger than an array can be"
            raise StorageError(problem, "Pass smaller sizes")
        count = prod(shape)
        if shape[-1:] and shape[-1] % elements:
            raise StorageError(
                f"rows of {shape[-1]} are not a multiple of {elements}, the block size "
                f"of {type}",
                f"Pad them to a multiple of {elements}",
            )
        if data.size != count // elements * width or (elements > 1 and not shape):
            raise StorageError(f"{data.size} bytes do not fit {type} of shape {shape}")
        self.type, self.data, self.shape = type, data.reshape(-1), tuple(shape)

    @classmethod
    def quantize(cls, x: Tensor, type: str) -> Self:
        """Round numbers to blocks; the bytes are the same as from the package gguf.

        Args:
            x: float32, finite.
            type: a type that the package can quantize to: `Q8_0`, `Q4_0`, `Q4_1`,
                `Q5_0`, `Q5_1`, `TQ1_0`, `TQ2_0`, `MXFP4`; `F32`, `F16`, `BF16`.

        Raises:
            StorageError: a number is not finite or a block scale overflows, the rows
                are not whole blocks, or the package cannot write the type.
        """
        call = describe("Blocks.quantize", x)
        if not isinstance(type, str) or type not in writable():
            raise StorageError(
                f"{shown(type)} is not a type of blocks that the package gguf writes",
                f"Use {', '.join(writable())}",
            )
        numbers = _require_finite(x, call)
        elements = sizes_of(type)[0]
        if not x.size:
            raise StorageError("x is empty", "Pass at least one block of numbers", call)
        if not x.shape or x.shape[-1] % elements:
            raise StorageError(
                f"rows are not a multiple of {elements}, the block size of {type}",
                f"Pad them to a multiple of {elements}",
                call,
            )
        with np.errstate(all="ignore"):
            made = gguf_package().quants.quantize(_rows(numbers), block_type(type))
        blocks = cls(type, made.view(np.uint8)[: numbers.size // elements], x.shape)
        if not np.isfinite(blocks.dequantize().buffer).all():
            raise StorageError(
                f"a block scale of {type} overflows float16",
                "Divide x by a constant first",
                call,
            )
        return blocks

    @classmethod
    def of(cls, x: Tensor) -> Self:
        """Store a tensor as blocks without rounding; `tensor()` returns it again.

        Dense tensors become `F32`, `F16`, `BF16`, `F64` or `I8` to `I64`. Codes with a
        float16 scale for each 32 elements of the last axis become `Q8_0` or `Q4_0`. A
        narrow range and a rounding rule are not stored.

        Raises:
            StorageError: no type of blocks stores the tensor exactly.
        """
        if isinstance(x, Tensor) and x.device is cpu:
            for leaf, name in _STORED.items():
                if isinstance(x, leaf):
                    return cls(name, to_bytes(x, name), x.shape)
            for name, stored in DENSE.items():
                if from_numpy(np.empty(0, stored)).dtype is x.dtype:
                    data = np.asarray(x.buffer, order="C").reshape(-1)
                    return cls(name, data.view(np.uint8), x.shape)
        numbers = "dequantize(x)" if getattr(x, "qparams", None) else "x"
        raise StorageError(
            "no type of blocks stores this tensor exactly",
            f"Use Blocks.quantize({numbers}, 'Q8_0'), or one of {', '.join(DENSE)}",
            describe("Blocks.of", x),
        )

    @property
    def leaf(self) -> Leaf | None:
        """Return the type of `tensor()`; None if no tensor type has these blocks."""
        if self.type in DENSE:
            return type(from_numpy(np.empty(0, DENSE[self.type])))
        return GRIDS[self.type].leaf if self.type in GRIDS else None

    def tensor(self) -> Any:
        """Return the tensor with exactly these numbers: dense, or quantized.

        A negative step becomes positive: the codes change their sign, or, if the type
        does not have the negated code, c becomes -1 - c with zero point -1. In a block
        with step 0, all codes become 0 and the step 1. So zeros lose their sign; all
        other numbers are equal to `dequantize()` bit for bit.

        Raises:
            StorageError: the type has minima or a table of numbers, which do not lie on
                a grid, or a step is not finite.
        """
        if self.type in DENSE:
            return from_numpy(self._elements())
        if self.type not in GRIDS:
            raise StorageError(f"no tensor type stores {self!r}", "Use dequantize()")
        return to_grid_tensor(self.type, self.data, self.shape)

    def dequantize(self) -> Float32Tensor:
        """Return the numbers in float32, bit for bit as the package gguf decodes them.

        Raises:
            StorageError: the elements are integers or float64, which float32 would
                round, or the package does not decode the type.
        """
        if self.type == "F64" or self.type in _INTEGERS:
            raise StorageError(f"float32 would round {self!r}", "Use tensor()")
        if not prod(self.shape):
            return Float32Tensor(np.empty(self.shape, np.float32))
        try:
            with np.errstate(all="ignore"):
                found = gguf_package().quants.dequantize(
                    _rows(self._bytes()), block_type(self.type)
                )
        except NotImplementedError:
            raise StorageError(
                f"the package gguf does not decode {self.type}", "Use another type"
            ) from None
        return Float32Tensor(np.array(found, np.float32).reshape(self.shape))

    def _bytes(self) -> Bytes:
        """Return the bytes in one piece of memory."""
        return np.ascontiguousarray(self.data)

    def _elements(self) -> npt.NDArray[Any]:
        """Return the elements of a dense type."""
        stored = np.dtype(DENSE[self.type])
        data = self.data
        # A mapped file may place the data at any address; views need an aligned one.
        if data.ctypes.data % stored.alignment:
            data = data.copy()
        found: npt.NDArray[Any] = data.view(stored).reshape(self.shape)
        return found

    def __repr__(self) -> str:
        return f"Blocks({self.type}, shape={self.shape}, {self.data.size} bytes)"


def _is_size(given: object) -> bool:
    """Return whether a value is an integer of at least 0, and not a bool."""
    if not isinstance(given, int | np.integer) or isinstance(given, bool):
        return False
    return bool(given >= 0)


def _require_finite(x: object, call: str) -> npt.NDArray[Any]:
    """Return the numbers of a float32 tensor; raise if one is not finite."""
    if isinstance(x, Float32Tensor) and np.isfinite(x.buffer).all():
        return np.ascontiguousarray(x.buffer)
    fix = "Use asarray(x)"
    if isinstance(x, Tensor):
        fix = "Use astype(x, float32)"
    if isinstance(x, Float32Tensor):
        fix = "Replace NaN and infinities first"
    raise StorageError("expected a Tensor of finite float32 numbers", fix, call)


def _rows(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return the values as one row, which the package cuts into blocks."""
    return values.reshape(1, -1)
