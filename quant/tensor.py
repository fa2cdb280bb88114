"""Quantized tensors: codes and a grid that travels with them.

    x ≈ scale · (codes - zero_point)
    shape(x) = shape(codes)

A quantized tensor is not a tensor of integers: arithmetic on it is arithmetic on the
real numbers its codes stand for. The codes are at `.codes`.
"""

from collections.abc import Iterable, Mapping
from math import prod
from operator import attrgetter
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from mdtensor import (
    DType,
    ExchangeError,
    Float32Tensor,
    GridError,
    ShapeError,
    StorageError,
    Tensor,
    TensorSpec,
    UInt8Tensor,
    cpu,
    leaf,
)
from mdtensor.errors import shown, type_and_shape
from mdtensor.kernels.numpy import int4
from mdtensor.printing import corners, of_parts
from mdtensor.quant.dtypes import (
    qfloat8_e4m3,
    qfloat8_e5m2,
    qint4,
    qint8,
    qint16,
    qint32,
    quint4,
    quint8,
    stored_as,
)
from mdtensor.quant.qparams import QParams, given_grid
from mdtensor.quant.qparams_checks import as_stored, check_codes

# Codes and their grid as what a file keeps: arrays by endings of names, and facts.
#
#     ""             the codes: integers, packed bytes, or 8-bit floats
#     "_scale"       the scales, float32; float64 for `qint32`
#     "_zero_point"  as many zero points, in the type of a code; unless all are 0
#
# Facts are those of `QParams` that are not its defaults: `axis`, `block_size`,
# `narrow_range`; the rule of `rounding`; and the `shape` of packed codes, where that of
# their bytes is another.

Array = npt.NDArray[Any]
SCALE, ZERO_POINT = "_scale", "_zero_point"
_FACTS = {"axis": int, "block_size": int, "narrow_range": bool, "rounding": str}


def parts_of(x: Any) -> tuple[dict[str, Array], dict[str, Any]]:
    """The arrays and the facts of a tensor of codes."""
    grid, codes = x.qparams, x.device.to_host(x.buffer)
    parts = {"": codes, SCALE: grid.scale.astype(_scale_type(grid.dtype))}
    if grid.zero_point.any():
        parts[ZERO_POINT] = grid.zero_point.astype(grid.dtype.storage)
    told = {name: getattr(grid, name) for name in _FACTS} | {"rounding": x.rounding}
    facts = {n: v for n, v in told.items() if v is not None and v is not False}
    return parts, facts if x.shape == codes.shape else facts | {"shape": [*x.shape]}


def tensor_of(leaf: Any, parts: dict[str, Array], facts: dict[str, Any]) -> Any:
    """The tensor that `parts_of` took apart.

    Raises:
        StorageError: other parts, facts or element types than it gives.
        GridError, ShapeError, OptionError, CastError: they make no grid, or it does not
            fit the codes.
    """
    for name, given in (("parts", parts), ("facts", facts)):
        if not isinstance(given, Mapping):
            raise StorageError(f"{name} is {shown(given)}", "Pass what to_parts gave")
    facts = dict(facts)
    shape = facts.pop("shape", None)
    grid = _grid(leaf.dtype, parts, facts)
    if leaf.dtype.bits < 8:
        x = _unpacked(leaf, _typed(parts, "", np.dtype(np.uint8)), grid, shape)
    elif shape is None:
        x = leaf.wrap(_typed(parts, "", leaf.dtype.storage), grid)
    else:
        raise StorageError(f"{leaf.dtype} has the shape of its array, and no other")
    if grid.narrow_range:
        check_codes(x.codes.buffer, grid)
    return x


def _grid(dtype: DType, parts: dict[str, Array], facts: dict[str, Any]) -> QParams:
    odd = sorted({*parts} - {"", SCALE, ZERO_POINT} | {*facts} - {*_FACTS})
    if odd or not {"", SCALE} <= {*parts}:
        what = f"not {shown(odd[0])}" if odd else "here one is missing"
        raise StorageError(f"{dtype} is codes on scales, and {what}")
    for name, given in facts.items():
        if type(given) is not _FACTS[name]:
            raise StorageError(f"{name} is {shown(given)}")
    scale = _typed(parts, SCALE, _scale_type(dtype))
    zeros = np.zeros(scale.shape, np.int64)
    if ZERO_POINT in parts:
        zeros = _typed(parts, ZERO_POINT, dtype.storage)
    return QParams(scale, zeros, dtype=dtype, **facts)


def _scale_type(dtype: DType) -> np.dtype[Any]:
    return np.dtype(np.float64 if dtype is qint32 else np.float32)


def _typed(parts: dict[str, Array], ending: str, stored: np.dtype[Any]) -> Array:
    found = parts[ending]
    if found.dtype != stored:
        what = ending[1:] or "codes"
        raise StorageError(f"{what} of type {found.dtype}, not {stored}")
    return found


def _unpacked(leaf: Any, packed: Array, grid: QParams, shape: Any) -> Any:
    """The tensor of `shape` whose bytes these are, with a nibble of 0 behind the last
    code of an odd number."""
    sizes = [*packed.shape] if shape is None else shape
    is_shape = isinstance(sizes, list) and all(
        type(size) is int and size >= 0 for size in sizes
    )
    if not is_shape:
        raise StorageError(f"the shape of codes is {shown(shape)}")
    x = leaf.wrap(packed, grid, tuple(sizes))
    is_odd = prod(sizes[-1:]) % 2
    if is_odd and (packed[..., -1:] if sizes else packed).max(initial=0) > 15:
        raise StorageError("there are bits behind the last code")
    return x


_new = object.__new__


class QuantizedTensor(Tensor):
    """The root of quantized tensors.

    Args of a leaf:
        codes: integers of the leaf's range, or an array of its storage type.
        qparams: the grid; or `scale`, `zero_point`, `axis`, `block_size` of it.

    Raises:
        GridError: no grid, a grid and parts of one, one for another type of codes.
        ShapeError: the scales do not fit the codes.
        CastError: a code outside the range.
    """

    __slots__ = ("_qparams", "kept", "rounding")
    #: How errors call kinds whose names say nothing to a user.
    in_words = ""
    #: What a call that wants one of these suggests for anything else.
    offer = (
        "Use QInt8Tensor(codes, scale=s) for codes, "
        "quantize(asarray(x), qparams) for numbers"
    )

    _qparams: QParams
    #: The rule, other than `exact`, by which an operation rounded to these codes.
    rounding: str | None
    kept: tuple[Any, ...]  # the weight cache of `ops/kernels.py`

    def __init__(
        self,
        codes: Any,
        qparams: QParams | None = None,
        *,
        scale: Any = None,
        zero_point: Any = 0,
        axis: int | None = None,
        block_size: int | None = None,
    ) -> None:
        own = self._leaf().dtype
        grid = given_grid(own, qparams, scale, zero_point, axis, block_size)
        found = leaf(stored_as(own), self.device)(_plain(codes, own)).buffer
        self._become(type(self).from_codes(found, grid))
        check_codes(self.device.to_host(found), grid)

    def _become(self, made: Self) -> None:
        self.buffer, self._qparams = made.buffer, made.qparams
        self.rounding, self.kept = made.rounding, ()

    @classmethod
    def wrap(cls, buffer: Any, qparams: QParams | None = None) -> Self:
        """A tensor around codes that fit, on a grid that is checked to fit."""
        return cls._on(qparams, buffer, buffer.shape)

    @classmethod
    def from_codes(cls, codes: Any, qparams: QParams) -> Self:
        """The tensor whose `.codes` these are, which are trusted to fit."""
        return cls.wrap(codes, qparams)

    @classmethod
    def _on(cls, qparams: QParams | None, buffer: Any, shape: tuple[int, ...]) -> Self:
        qparams = cls._fitting(qparams, shape)
        # NumPy makes a scalar of an array without axes.
        new = super().wrap(np.asarray(buffer) if np.isscalar(buffer) else buffer)
        new._take(qparams)
        return new

    @classmethod
    def _fitting(cls, qparams: Any, shape: tuple[int, ...]) -> QParams:
        """Return a grid that is one for codes of this type and `shape`."""
        if not isinstance(qparams, QParams) or qparams.dtype is not cls.dtype:
            raise cls._gridless(f", got {qparams}")
        qparams.check_fit(shape, "codes of shape", cls.__name__)
        return qparams

    def _take(self, qparams: QParams) -> None:
        self._qparams, self.rounding, self.kept = qparams, qparams.rounding, ()
        if qparams.rounding is not None:
            self._qparams = qparams.rounded(None)

    def _set_qparams(self, qparams: Any) -> None:
        self._take(self._fitting(qparams, self.shape))

    # The getter runs in C: every call of a quantized operation reads the grid.
    qparams: QParams = property(  # type: ignore[assignment]
        attrgetter("_qparams"), _set_qparams, doc="The grid that the codes lie on."
    )

    @classmethod
    def ways(cls) -> tuple[tuple[str, type], ...]:
        """Return what to write for `x` in a call, and the type that it has then."""
        return (
            ("dequantize(x)", Float32Tensor),
            ("x.codes", leaf(stored_as(cls.dtype), cls.device)),
        )

    @classmethod
    def _gridless(cls, given: str = "") -> GridError:
        return GridError(
            f"{cls.__name__} needs a grid of {cls.dtype}{given}",
            f"Use quantize(x, QParams(s, dtype={str(cls.dtype)!r})) for numbers, "
            f"{cls.__name__}(codes, scale=s) for codes",
        )

    @classmethod
    def of_numbers(cls) -> type[Self]:
        raise cls._gridless()

    def with_qparams(self, qparams: QParams) -> Self:
        """The same codes on another grid; shares the buffer."""
        return self._rewrapped(self.buffer, qparams)

    def _rewrapped(self, buffer: Any, qparams: QParams) -> Self:
        return type(self).wrap(buffer, qparams)

    @classmethod
    def spec(cls, shape: Iterable[int], qparams: QParams | None = None) -> TensorSpec:
        """A tensor of this leaf without its codes, on a grid of steps of 1."""
        grid = QParams(1, dtype=cls.dtype) if qparams is None else qparams
        return TensorSpec(cls, shape, grid)  # type: ignore[arg-type]

    @property
    def code_array(self) -> Any:
        """Return the codes as an array; of 4-bit codes a copy, a byte each."""
        return self.buffer

    @property
    def codes(self) -> Any:
        """The codes as a tensor of plain integers; shares the buffer."""
        return leaf(stored_as(self.dtype), self.device).wrap(self.code_array)

    @property
    def scale(self) -> Any:
        return self.qparams.scale

    @property
    def zero_point(self) -> Any:
        return self.qparams.zero_point

    @property
    def nbytes(self) -> int:
        """Bytes of the codes and of the scales (4 each; 8 for accumulators)."""
        grid, width = self.qparams, 8 if self.dtype is qint32 else 4
        return super().nbytes + width * grid.scale.size

    def to_parts(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """What a file keeps: see `quant.storing`."""
        return parts_of(self)

    @classmethod
    def from_parts(cls, parts: dict[str, Any], facts: dict[str, Any]) -> Self:
        made: Self = tensor_of(cls, parts, facts)
        return made

    def __repr__(self) -> str:
        """Return the numbers that the codes stand for, the codes and their grid."""
        rule = "" if self.rounding is None else f", rounding={self.rounding!r}"
        if self.device is not cpu:
            rest = f"{self.qparams.describe()}{rule}, device={self.device.name!r}"
            return f"{type_and_shape(self)}({rest})"
        at = corners(self.shape)
        numbers, codes = self._numbers(at), self.codes.buffer
        codes = codes if at is None else codes[np.ix_(*at)]
        arrays = [("", numbers), ("codes=", codes)]
        rest = f"{self.qparams.describe()}{rule}"
        return of_parts(type_and_shape(self), arrays, rest, at is not None)

    def __format__(self, spec: str) -> str:
        return super().__format__(spec) if spec else str(self)

    def _described(self) -> str:
        """Return type, shape and grid, as errors name a tensor: without elements."""
        return f"{type_and_shape(self)}({self.qparams.describe_range()})"

    def __reduce__(self) -> Any:
        return type(self), (self.device.to_host(self.buffer), self._ruled())

    def __deepcopy__(self, memo: Any) -> Self:
        return self._rewrapped(self.device.copy(self.buffer), self._ruled())

    def _ruled(self) -> QParams:
        """The grid, from which a new tensor has its rule."""
        return self.qparams.rounded(self.rounding)

    def _numbers(self, at: tuple[Any, ...] | None = None) -> Any:
        """Return the numbers that the codes stand for, all or those at `at`."""
        grid, host = self.qparams, self.device.to_host(self._elements())
        zero, scale = (grid.along(v, self.shape) for v in (grid.zero_point, grid.scale))
        if at is not None:  # a summary does not compute what it leaves out
            zero, scale, host = (
                np.broadcast_to(part, self.shape)[np.ix_(*at)]
                for part in (zero, scale, host)
            )
        with np.errstate(over="ignore", under="ignore"):
            return ((host.astype(np.float64) - zero) * scale).astype(np.float32)

    def _elements(self) -> Any:
        """What the scale multiplies, but for the zero point."""
        return self.codes.buffer

    def tolist(self) -> Any:
        raise self._no_numbers()

    def _scalar(self, kind: str) -> Any:
        raise self._no_numbers()

    def _no_numbers(self) -> GridError:
        return GridError(
            f"{self._described()} holds codes, not numbers",
            "Use x.codes or quant.dequantize(x)",
        )

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        raise GridError(
            f"{self._described()} is no array of numbers",
            "Use numpy.asarray(x.codes) or numpy.asarray(quant.dequantize(x))",
        )

    def __dlpack__(self, **options: Any) -> Any:
        raise ExchangeError(
            f"{self._described()} has a grid, which DLPack cannot hand over",
            "Export x.codes or quant.dequantize(x)",
        )


def _plain(codes: Any, quantized: DType) -> Any:
    """Codes as what plain tensors are made of; arrays of 8-bit floats as bytes."""
    found = np.asarray(codes) if isinstance(codes, Tensor) else codes
    return as_stored(found, quantized, stored_as(quantized).storage)


class AffineTensor(QuantizedTensor):
    """Codes on an affine grid: scale and zero point."""

    __slots__ = ()
    in_words = "a quantized tensor of integers"


# 16-bit codes share the methods of 8-bit codes; only the compiled steps need 8 bits
# (decision 0045).
class ShortTensor(AffineTensor):
    """Codes of at most 16 bits: what products and functions of one code take."""

    __slots__ = ()
    in_words = "a quantized tensor of at most 16 bits"


# A kind instead of a union, so that a new narrow type does not edit every signature
# (decision 0006).
class NarrowTensor(ShortTensor):
    """Codes of at most 8 bits: what compiled kernels take."""

    __slots__ = ()
    in_words = "a quantized tensor of at most 8 bits"


# The buffer stays plain bytes, so that devices, pickle and kernels need not know about
# nibbles (decision 0018).
class PackedTensor(NarrowTensor):
    """Codes of 4 bits, two a byte, low nibble first along the last axis.

        buffer.shape = (*shape[:-1], ceil(shape[-1] / 2))

    Behind an odd number of codes stands a nibble of 0. `.codes` are unpacked, in new
    memory.

    Source: ONNX, INT4 and UINT4.
    """

    __slots__ = ("is_part", "shape")
    in_words = "a 4-bit quantized tensor"

    shape: tuple[int, ...]
    is_part: bool  # copied, where codes of whole bytes would share memory

    @classmethod
    def wrap(
        cls,
        buffer: Any,
        qparams: QParams | None = None,
        shape: tuple[int, ...] | None = None,
    ) -> Self:
        """A tensor of `shape` around packed bytes, which are trusted to be codes."""
        if qparams is None:
            raise cls._gridless()
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
        """The tensor whose `.codes` these are, which are trusted to fit."""
        return cls.wrap(int4.pack(codes), qparams, codes.shape)

    def _become(self, made: Self) -> None:
        super()._become(made)
        self.shape, self.is_part = made.shape, False

    def _rewrapped(self, buffer: Any, qparams: QParams) -> Self:
        return type(self).wrap(buffer, qparams, self.shape)

    @property
    def size(self) -> int:
        """The number of codes."""
        return prod(self.shape)

    @property
    def code_array(self) -> Any:
        """Return a copy of the codes, a byte each."""
        return int4.unpack(self.buffer, self.shape, self.qparams.minimum < 0)

    @property
    def codes(self) -> Any:
        """Return the codes as plain integers, a byte each: a read-only copy."""
        unpacked = self.code_array
        # Two codes share a byte: writing into the copy would change nothing here.
        unpacked.flags.writeable = False
        return leaf(stored_as(self.dtype), self.device).wrap(unpacked)

    def __reduce__(self) -> Any:
        host = self.device.to_host(self.buffer)
        return type(self).wrap, (host, self._ruled(), self.shape)


def _packed_shape(shape: tuple[int, ...]) -> tuple[int, ...]:
    return (*shape[:-1], -(-shape[-1] // 2)) if shape else ()


class QInt4Tensor(PackedTensor, dtype=qint4):
    """Codes from -8 to 7, two a byte."""

    __slots__ = ()


class QUInt4Tensor(PackedTensor, dtype=quint4):
    """Codes from 0 to 15, two a byte."""

    __slots__ = ()


class QInt8Tensor(NarrowTensor, dtype=qint8):
    """Codes from -128 to 127."""

    __slots__ = ()


class QUInt8Tensor(NarrowTensor, dtype=quint8):
    """Codes from 0 to 255."""

    __slots__ = ()


class QInt16Tensor(ShortTensor, dtype=qint16):
    """Codes from -2**15 to 2**15 - 1: activations of high precision, zero point 0."""

    __slots__ = ()


class QInt32Tensor(AffineTensor, dtype=qint32):
    """An exact accumulator or bias: zero point 0, scale often a product of two."""

    __slots__ = ()


# The bytes are the codes, so that the name of a float8 number type stays free for
# packages (decision 0018).
class ScaledFloatTensor(QuantizedTensor):
    """8-bit floats times a scale; no zero point.

        x ≈ scale · float8

    Its codes are the bytes of the floats. The scale keeps numbers in their range: what
    is quantized saturates at the largest finite one, and a NaN is refused. Codes may
    hold a NaN or an infinity nevertheless, and then stand for them.
    """

    __slots__ = ()
    in_words = "a quantized tensor of 8-bit floats"

    @classmethod
    def from_codes(cls, codes: Any, qparams: QParams) -> Self:
        """The tensor whose `.codes` these are."""
        return cls.wrap(codes.view(cls.dtype.storage), qparams)

    @property
    def codes(self) -> Any:
        """The bytes of the floats; shares the buffer."""
        return UInt8Tensor.wrap(self.code_array)

    @property
    def code_array(self) -> Any:
        """Return the bytes of the floats; shares the buffer."""
        return self.buffer.view(np.uint8)

    def _elements(self) -> Any:
        return self.buffer


class QFloat8E4M3Tensor(ScaledFloatTensor, dtype=qfloat8_e4m3):
    """4 bits of exponent, 3 of fraction: to 448, no infinity."""

    __slots__ = ()


class QFloat8E5M2Tensor(ScaledFloatTensor, dtype=qfloat8_e5m2):
    """5 bits of exponent, 2 of fraction: to 57344, and infinities."""

    __slots__ = ()


def spec_of(x: Any) -> TensorSpec:
    """Type, shape and grid of a tensor."""
    return TensorSpec(type(x), x.shape, getattr(x, "qparams", None))


def quantized(codes: Any, grid: QParams) -> QuantizedTensor:
    """The tensor of codes on `grid`."""
    kind: Any = leaf(grid.dtype)
    found: QuantizedTensor = kind.from_codes(np.asarray(codes), grid)
    return found


def trusted(
    kind: Any, codes: Any, qparams: QParams, rounding: str | None
) -> QuantizedTensor:
    """Return the tensor of codes that fit a grid, without a check.

    Args:
        kind: the type of the tensor.
        codes: a byte or more each.
        qparams: of that type, without a rule.
        rounding: the rule by which the codes are rounded.
    """
    new: Any = _new(kind)
    new._qparams, new.rounding, new.kept = qparams, rounding, ()
    if issubclass(kind, PackedTensor):
        new.shape, new.is_part = codes.shape, False
        codes = int4.pack(codes)
    new.buffer = codes
    found: QuantizedTensor = new
    return found
