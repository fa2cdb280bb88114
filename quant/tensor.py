"""Quantized tensors: codes and a grid that travels with them.

    x ≈ scale · (codes - zero_point)
    shape(x) = shape(codes)

A quantized tensor is not a tensor of integers: operations compute with the real numbers
that its codes represent. The codes themselves are at `.codes`.
"""

from collections.abc import Iterable, Mapping
from math import prod
from operator import attrgetter
from typing import Any, ClassVar, NoReturn, Self

import numpy as np
import numpy.typing as npt

from mdtensor import (
    DeviceError,
    DType,
    ExchangeError,
    Float32Tensor,
    GridError,
    ShapeError,
    Tensor,
    TensorSpec,
    UInt8Tensor,
    cpu,
    leaf,
)
from mdtensor.errors import shown, type_and_shape
from mdtensor.extend import (
    explain_wrong_calls,
    join_parts,
    summary_indices,
    take_grid,
)
from mdtensor.kernels.numpy.conversion import choose_int4, pack_int4, unpack_int4
from mdtensor.quant.dtypes import (
    qfloat8_e4m3,
    qfloat8_e5m2,
    qint4,
    qint8,
    qint16,
    qint32,
    quint4,
    quint8,
    storage_dtype,
)
from mdtensor.quant.parts import parts_of, tensor_of
from mdtensor.quant.qparams import QParams, grid_from_arguments, part_along
from mdtensor.quant.qparams_checks import as_storage, check_codes

Array = npt.NDArray[Any]


class QuantizedTensor(Tensor):
    """The root of quantized tensors.

    Args of a concrete type:
        codes: integers in the range of the type, or an array of its storage type.
        qparams: the grid; or pass its `scale`, `zero_point`, `axis`, `block_size`.

    Raises:
        GridError: the grid is missing, comes twice, or is for another type of codes.
        ShapeError: the scales do not fit the codes.
        CastError: a code is outside the range.
    """

    __slots__ = ("_qparams", "kept", "rounding")
    #: The name of a kind in errors, because users do not know the class.
    in_words = ""
    #: The fix in errors of calls that expect a quantized tensor and get another type.
    offer = (
        "Use QInt8Tensor(codes, scale=s) for codes, "
        "quantize(asarray(x), qparams) for real values"
    )

    _instead: ClassVar[Mapping[str, str]] = {
        "numpy": "numpy.asarray(x.codes) or numpy.asarray(mdtensor.quant.dequantize(x))"
    }
    _qparams: QParams
    #: The rule, other than `exact`, by which an operation rounded to these codes. It is
    #: not in the grid, so `out=y.qparams` does not pass it on (decision 0019).
    rounding: str | None
    #: The weight cache of `ops/kernels.py`.
    kept: tuple[Any, ...]

    @explain_wrong_calls
    def __init__(
        self,
        codes: object,
        qparams: QParams | None = None,
        *,
        scale: object = None,
        zero_point: object = 0,
        axis: int | None = None,
        block_size: int | None = None,
    ) -> None:
        own = self._leaf().dtype
        grid = grid_from_arguments(own, qparams, scale, zero_point, axis, block_size)
        # A plain tensor of the codes validates Python numbers, arrays and their shape.
        found = leaf(storage_dtype(own), self.device)(_plain(codes, own)).buffer
        self._become(type(self).from_codes(found, grid))
        check_codes(self.device.to_host(found), grid)

    def _become(self, made: Self) -> None:
        self.buffer, self._qparams = made.buffer, made.qparams
        self.rounding, self.kept = made.rounding, ()

    @classmethod
    def wrap(cls, buffer: Any, qparams: QParams | None = None) -> Self:
        """Return a tensor around unchecked codes, on a grid that is checked to fit."""
        return cls._on(qparams, buffer, buffer.shape)

    @classmethod
    def from_codes(cls, codes: Any, qparams: QParams) -> Self:
        """Return the tensor whose `.codes` these are, without a check of them."""
        return cls.wrap(codes, qparams)

    @classmethod
    def _on(cls, qparams: QParams | None, buffer: Any, shape: tuple[int, ...]) -> Self:
        qparams = cls._check_grid(qparams, shape)
        # NumPy functions return a scalar for an array without axes.
        new = super().wrap(np.asarray(buffer) if np.isscalar(buffer) else buffer)
        new._store_grid(qparams)
        return new

    @classmethod
    def _check_grid(cls, qparams: object, shape: tuple[int, ...]) -> QParams:
        """Return `qparams` if it is a grid for codes of this type and `shape`."""
        if not isinstance(qparams, QParams) or qparams.dtype is not cls.dtype:
            raise cls._grid_error(f", got {shown(qparams)}")
        qparams.check_fit(shape, "codes of shape", cls.__name__)
        return qparams

    @classmethod
    def of_spec(cls, buffer: Any, spec: TensorSpec) -> Self:
        new = super().of_spec(buffer, spec)
        new._store_grid(spec.qparams)
        return new

    def _store_grid(self, qparams: QParams) -> None:
        """Store the grid without its rule, and the rule apart from it."""
        self._qparams, self.rounding, self.kept = qparams, qparams.rounding, ()
        if qparams.rounding is not None:
            self._qparams = qparams.rounded(None)

    def _set_qparams(self, qparams: object) -> None:
        self._store_grid(self._check_grid(qparams, self.shape))

    # `attrgetter` runs in C: every call of a quantized operation reads the grid.
    qparams: QParams = property(  # type: ignore[assignment]
        attrgetter("_qparams"), _set_qparams, doc="The grid that the codes lie on."
    )

    @classmethod
    def ways(cls) -> tuple[tuple[str, type], ...]:
        """Return fixes for errors: a text to write instead of `x`, and its type."""
        return (
            ("dequantize(x)", Float32Tensor),
            ("x.codes", leaf(storage_dtype(cls.dtype), cls.device)),
        )

    @classmethod
    def _grid_error(cls, given: str = "") -> GridError:
        return GridError(
            f"{cls.__name__} needs a grid of {cls.dtype}{given}",
            f"Use quantize(x, QParams(s, dtype={str(cls.dtype)!r})) for real values, "
            f"{cls.__name__}(codes, scale=s) for codes",
        )

    @classmethod
    def of_numbers(cls) -> type[Self]:
        raise cls._grid_error()

    def with_qparams(self, qparams: QParams) -> Self:
        """Return the same codes on another grid; shares the buffer."""
        return self._rewrap(self.buffer, qparams)

    def _rewrap(self, buffer: Any, qparams: QParams) -> Self:
        return type(self).wrap(buffer, qparams)

    @classmethod
    def spec(cls, shape: Iterable[int], qparams: QParams | None = None) -> TensorSpec:
        """Return the spec of a tensor of this type, by default on a grid of scale 1."""
        grid = QParams(1, dtype=cls.dtype) if qparams is None else qparams
        return TensorSpec(cls, shape, grid)  # type: ignore[arg-type]

    @property
    def code_array(self) -> Any:
        """Return the codes as an array: the buffer, or a copy of 4-bit codes."""
        return self.buffer

    @property
    def codes(self) -> Tensor:
        """Return the codes as a tensor of plain integers; shares the buffer."""
        return leaf(storage_dtype(self.dtype), self.device).wrap(self.code_array)

    @property
    def scale(self) -> Array:
        return self.qparams.scale

    @property
    def zero_point(self) -> Array:
        return self.qparams.zero_point

    @property
    def nbytes(self) -> int:
        """Return the number of bytes of codes and scales (4 each; accumulators 8)."""
        # A grid stores float64 scales, but a scale has the bits of a float32 number.
        grid, width = self.qparams, 8 if self.dtype is qint32 else 4
        return super().nbytes + width * grid.scale.size

    def to_parts(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the arrays and facts that a file stores; see `parts_of`."""
        return parts_of(self)

    @classmethod
    def from_parts(cls, parts: dict[str, Any], facts: dict[str, Any]) -> Self:
        made: Self = tensor_of(cls, parts, facts)
        return made

    def __repr__(self) -> str:
        """Return the numbers that the codes represent, the codes and their grid."""
        rule = "" if self.rounding is None else f", rounding={self.rounding!r}"
        head, rest = type_and_shape(self), f"{self.qparams.describe()}{rule}"
        if self.device is not cpu:
            return f"{head}({rest}, device={self.device.name!r})"
        at = summary_indices(self.shape)
        codes = self.code_array if at is None else self._codes_at(at)
        arrays = [("", self._reals(codes, at)), ("codes=", codes)]
        return join_parts(head, arrays, rest, at is not None)

    def __format__(self, spec: str) -> str:
        return super().__format__(spec) if spec else str(self)

    def _description(self) -> str:
        """Return type, shape and grid, as errors name a tensor: without elements."""
        return f"{type_and_shape(self)}({self.qparams.describe_range()})"

    def __reduce__(self) -> tuple[Any, ...]:
        # Without the weight cache: packed weights are large and can be made again.
        return type(self), (self.device.to_host(self.buffer), self._grid_with_rule())

    def __deepcopy__(self, memo: object) -> Self:
        return self._rewrap(self.device.copy(self.buffer), self._grid_with_rule())

    def _grid_with_rule(self) -> QParams:
        """Return the grid with the rule of this tensor, for a new tensor."""
        return self.qparams.rounded(self.rounding)

    def _codes_at(self, at: tuple[Array, ...]) -> Array:
        """Return the codes at the indices `at`, and read no others."""
        return take_grid(self.code_array, at)

    def _reals(self, codes: Array, at: tuple[Array, ...] | None) -> Array:
        """Return the real numbers of `codes`, of which `at` are the indices."""
        grid, fields = self.qparams, (self.zero_point, self.scale)
        zero, scale = (part_along(grid, v, self.shape, at) for v in fields)
        with np.errstate(over="ignore", under="ignore"):
            numbers = (self._elements(codes).astype(np.float64) - zero) * scale
            return np.asarray(numbers, np.float32)

    def _elements(self, codes: Array) -> Array:
        """Return the elements from which the zero point is subtracted."""
        return codes

    def tolist(self) -> NoReturn:
        raise self._numbers_error()

    def _scalar(self, kind: str) -> NoReturn:
        raise self._numbers_error()

    def _numbers_error(self) -> GridError:
        return GridError(
            f"{self._description()} holds codes, not floats",
            "Use x.codes or quant.dequantize(x)",
        )

    # NumPy would take the codes for real values, silently.
    def __array__(self, dtype: object = None, copy: object = None) -> NoReturn:
        raise GridError(
            f"{self._description()} is not an array of numbers",
            "Use numpy.asarray(x.codes) or numpy.asarray(quant.dequantize(x))",
        )

    def __dlpack__(self, **options: Any) -> NoReturn:
        raise ExchangeError(
            f"{self._description()} has a grid, which DLPack cannot represent",
            "Export x.codes or quant.dequantize(x)",
        )


def _plain(codes: object, quantized: DType) -> object:
    """Return codes in a form that a plain tensor takes; 8-bit floats as bytes."""
    found = np.asarray(codes) if isinstance(codes, Tensor) else codes
    return as_storage(found, quantized, storage_dtype(quantized).storage)


class AffineTensor(QuantizedTensor):
    """Codes on an affine grid: scale and zero point."""

    __slots__ = ()
    in_words = "a quantized tensor of integers"


# 16-bit codes share the methods of 8-bit codes; only the compiled steps need 8 bits
# (decision 0045).
class ShortTensor(AffineTensor):
    """Codes of at most 16 bits, which products and lookup tables take."""

    __slots__ = ()
    in_words = "a quantized tensor of at most 16 bits"


# A kind instead of a union, so that a new narrow type does not edit every signature
# (decision 0006).
class NarrowTensor(ShortTensor):
    """Codes of at most 8 bits, which compiled kernels take."""

    __slots__ = ()
    in_words = "a quantized tensor of at most 8 bits"


# The buffer stays plain bytes, so that devices, pickle and kernels need not know about
# nibbles (decision 0018).
class PackedTensor(NarrowTensor):
    """4-bit codes, two in a byte, low nibble first along the last axis.

        buffer.shape = (*shape[:-1], ceil(shape[-1] / 2))

    A nibble of 0 follows an odd number of codes. `.codes` are unpacked into new memory.

    Source: ONNX, INT4 and UINT4.
    """

    __slots__ = ("is_part", "shape")
    in_words = "a 4-bit quantized tensor"

    shape: tuple[int, ...]
    #: Whether an index made a copy, where codes of whole bytes would share memory. A
    #: write into such a part would be lost, so it raises.
    is_part: bool

    @classmethod
    def wrap(
        cls,
        buffer: Any,
        qparams: QParams | None = None,
        shape: tuple[int, ...] | None = None,
    ) -> Self:
        """Return a tensor of `shape` around packed bytes of unchecked codes."""
        if qparams is None:
            raise cls._grid_error()
        if shape is None or _packed_shape(shape) != buffer.shape:
            raise ShapeError(
                f"bytes of shape {buffer.shape} do not hold codes of shape {shape}",
                "Use from_codes, or give the shape of the codes",
                cls.__name__,
            )
        new = cls._on(qparams, buffer, shape)
        new.shape, new.is_part = shape, False
        return new

    @classmethod
    def from_codes(cls, codes: Any, qparams: QParams) -> Self:
        """Return the tensor whose `.codes` these are, without a check of them."""
        return cls.wrap(pack_int4(codes), qparams, codes.shape)

    def _become(self, made: Self) -> None:
        super()._become(made)
        self.shape, self.is_part = made.shape, False

    @classmethod
    def of_spec(cls, buffer: Any, spec: TensorSpec) -> Self:
        new = super().of_spec(buffer, spec)
        new.shape, new.is_part = spec.shape, False
        return new

    def _rewrap(self, buffer: Any, qparams: QParams) -> Self:
        return type(self).wrap(buffer, qparams, self.shape)

    @property
    def size(self) -> int:
        """Return the number of codes."""
        return prod(self.shape)

    @property
    def code_array(self) -> Any:
        """Return a copy of the codes, one in a byte.

        Raises:
            DeviceError: they are on a device.
        """
        if self.device is not cpu:
            problem = f"4-bit codes on {self.device} are not unpacked"
            raise DeviceError(problem, 'Use x.to("cpu").codes, or dequantize(x)')
        return unpack_int4(self.buffer, self.shape, self.qparams.minimum < 0)

    def _codes_at(self, at: tuple[Array, ...]) -> Array:
        *rows, columns = at
        pairs = take_grid(self.buffer, (*rows, columns // 2))
        return choose_int4(pairs, columns % 2, self.qparams.minimum < 0)

    @property
    def codes(self) -> Tensor:
        """Return the codes as plain integers, one in a byte: a read-only copy."""
        unpacked = self.code_array
        # Two codes share a byte: a write into the copy would not change this tensor.
        unpacked.flags.writeable = False
        return leaf(storage_dtype(self.dtype), self.device).wrap(unpacked)

    def __reduce__(self) -> tuple[Any, ...]:
        host = self.device.to_host(self.buffer)
        return type(self)._of_bytes, (host, self._grid_with_rule(), self.shape)

    @classmethod
    def _of_bytes(cls, host: Array, qparams: QParams, shape: tuple[int, ...]) -> Self:
        """Return the tensor of packed bytes of the host, on the device of the type."""
        return cls.wrap(cls.device.from_host(host), qparams, shape)


def _packed_shape(shape: tuple[int, ...]) -> tuple[int, ...]:
    return (*shape[:-1], -(-shape[-1] // 2)) if shape else ()


class QInt4Tensor(PackedTensor, dtype=qint4):
    """Codes from -8 to 7, two in a byte."""

    __slots__ = ()


class QUInt4Tensor(PackedTensor, dtype=quint4):
    """Codes from 0 to 15, two in a byte."""

    __slots__ = ()


class QInt8Tensor(NarrowTensor, dtype=qint8):
    """Codes from -128 to 127."""

    __slots__ = ()


class QUInt8Tensor(NarrowTensor, dtype=quint8):
    """Codes from 0 to 255."""

    __slots__ = ()


class QInt16Tensor(ShortTensor, dtype=qint16):
    """Codes from -2**15 to 2**15 - 1, zero point 0: activations of high precision."""

    __slots__ = ()


class QInt32Tensor(AffineTensor, dtype=qint32):
    """Exact sums of products, or a bias; the zero point is 0.

    The scale is often the product of the scales of two other tensors.
    """

    __slots__ = ()


# The bytes are the codes, so that the name of a float8 number type stays free for
# packages (decision 0018).
class ScaledFloatTensor(QuantizedTensor):
    """8-bit floats times a scale; no zero point.

        x ≈ scale · float8

    The codes are the bytes of the floats. Quantizing saturates at the largest finite
    float, and raises for NaN. Codes that you pass may be NaN or infinite, and then
    represent NaN or an infinity.
    """

    __slots__ = ()
    in_words = "a quantized tensor of 8-bit floats"

    @classmethod
    def from_codes(cls, codes: Any, qparams: QParams) -> Self:
        """Return the tensor whose `.codes` these are."""
        return cls.wrap(codes.view(cls.dtype.storage), qparams)

    @property
    def codes(self) -> Tensor:
        """Return the bytes of the floats; shares the buffer."""
        return UInt8Tensor.wrap(self.code_array)

    @property
    def code_array(self) -> Any:
        """Return the bytes of the floats; shares the buffer."""
        return self.buffer.view(np.uint8)

    def _elements(self, codes: Array) -> Array:
        return codes.view(self.dtype.storage)


class QFloat8E4M3Tensor(ScaledFloatTensor, dtype=qfloat8_e4m3):
    """4 exponent bits, 3 fraction bits: up to 448, without infinities."""

    __slots__ = ()


class QFloat8E5M2Tensor(ScaledFloatTensor, dtype=qfloat8_e5m2):
    """5 exponent bits, 2 fraction bits: up to 57344, with infinities."""

    __slots__ = ()


def spec_of(x: Tensor) -> TensorSpec:
    """Return the type, shape and grid of a tensor as a spec."""
    return TensorSpec(type(x), x.shape, getattr(x, "qparams", None))


def quantized(codes: npt.ArrayLike, grid: QParams) -> QuantizedTensor:
    """Return the tensor of `codes` on `grid`, without a check of the codes."""
    kind: Any = leaf(grid.dtype)
    return kind.from_codes(np.asarray(codes), grid)  # type: ignore[no-any-return]


# Bound calls have checked type, shape and grid once, so their results are made without
# another check (decision 0048).
def wrap_codes(
    kind: Any, codes: Any, qparams: QParams, rounding: str | None
) -> QuantizedTensor:
    """Return a tensor of type `kind` of unchecked codes, one in each element."""
    new: Any = object.__new__(kind)
    new._qparams, new.rounding, new.kept = qparams, rounding, ()
    if issubclass(kind, PackedTensor):
        new.shape, new.is_part = codes.shape, False
        codes = pack_int4(codes)
    new.buffer = codes
    return new  # type: ignore[no-any-return]
