"""Element types; add your own by calling `DType`.

A dtype describes one element; methods define how tensors of it behave.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, Final, Self

import numpy as np
import numpy.typing as npt

from mdtensor.errors import OptionError, ProtocolError, RegistrationError, shown
from mdtensor.reloading import Origin, caller_origin, is_reload
from mdtensor.spelling import similar

_REGISTRY: dict[str, DType] = {}
_ORIGINS: dict[str, Origin] = {}
#: Our kinds, and the letters of the NumPy kinds that store them.
STORED: dict[str, str] = {
    "bool": "b",
    "signed integer": "i",
    "unsigned integer": "u",
    "real floating": "f",
    "complex floating": "c",
}


#: Prefixes of the names that `mdtensor.quant` adds.
_QUANTIZED = ("qint", "quint", "qfloat")


class DType:
    """An element type.

    Args:
        name: unique, as in the array API (`float32`) or of your own.
        kind: `bool`, `signed integer`, `unsigned integer`, `real floating`,
            `complex floating`, or a kind of your own such as `quantized`.
        bits: the width of one element.
        storage: the NumPy dtype of the buffer. For integers it may be wider than
            `bits`, but then only a kind of your own has tensor types; for floats it has
            exactly `bits`.

    `minimum` and `maximum` are the bounds of the finite numbers, and `digits` is their
    precision: the type represents every integer up to 2**digits. For complex numbers,
    all three describe each part.

    Floats of 16 bits or less are computed in float32 and rounded once, also your own:
    NumPy must cast their `storage` to float32 and back, as it does for ml_dtypes. If
    the storage has the same name, NumPy arrays of it become tensors of this type.

    A module that runs again, by `importlib.reload`, gets the same object again.

    Each element type is one object, as in PyTorch; `dtype(x)` returns it:
    `dtype(np.int8) is int8`. NumPy reads an element type wherever it takes a dtype, so
    `np.dtype(int8)` equals it. Their hashes differ, so use one of both as keys.

    Raises:
        RegistrationError: another element type has this name, the kind is a misspelled
            standard kind, or the storage has another kind or is too narrow.

    Example:
        >>> from mdtensor.dtypes import int8
        >>> int8, int8.bits, int8.minimum, int8.maximum
        (mdtensor.int8, 8, -128, 127)
    """

    __slots__ = ("bits", "digits", "kind", "maximum", "minimum", "name", "storage")

    name: str
    kind: str
    bits: int
    storage: np.dtype[Any]
    minimum: int | float
    maximum: int | float
    digits: int

    def __new__(cls, name: str, kind: str, bits: int, storage: npt.DTypeLike) -> Self:
        """Return a new element type, or the known one if its module runs again."""
        known = _REGISTRY.get(name) if isinstance(name, str) else None
        if isinstance(known, cls) and is_reload(_ORIGINS[name], caller_origin(1)):
            wanted = kind, bits, _storage(storage, kind)
            if (known.kind, known.bits, known.storage) == wanted:
                return known
        return object.__new__(cls)

    def __init__(self, name: str, kind: str, bits: int, storage: npt.DTypeLike) -> None:
        if hasattr(self, "name"):  # the known one, see `__new__`
            _ORIGINS[name] = caller_origin(1)
            return
        _check_words(name, kind)
        self.name = name
        self.kind = kind
        self.storage = _storage(storage, kind)
        self.bits = _bits(bits, self.storage)
        self.minimum, self.maximum, self.digits = _numbers(self.storage, bits)
        _REGISTRY[name], _ORIGINS[name] = self, caller_origin(1)

    @property
    def is_integer(self) -> bool:
        return self.kind in ("signed integer", "unsigned integer")

    @property
    def is_floating(self) -> bool:
        return self.kind == "real floating"

    @property
    def is_complex(self) -> bool:
        return self.kind == "complex floating"

    @property
    def __numpy_dtype__(self) -> np.dtype[Any]:
        """Return the NumPy dtype with the same elements; NumPy 2.4 reads this.

        Raises:
            OptionError: NumPy does not have these elements: they need a grid, or have
                fewer bits than their storage.
        """
        if not self._is_in_numpy:
            problem = f"NumPy has no dtype with the elements of {self.name}"
            raise OptionError(problem, f"Use {self.name}.storage for the buffer")
        return self.storage

    @property
    def _is_in_numpy(self) -> bool:
        """Return whether each value of the storage is an element, with equal values.

        This is not so if the elements are codes on a grid, or have fewer bits than the
        storage.
        """
        is_whole = self.storage.kind == "b" or self.bits == 8 * self.storage.itemsize
        return self.kind in STORED and is_whole

    def __repr__(self) -> str:
        return f"mdtensor.{self.name}"

    def __str__(self) -> str:
        return self.name

    def __format__(self, spec: str) -> str:
        return format(self.name, spec)

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return dtype, (self.name,)


def _dtype(known: DType) -> np.dtype[Any]:
    """Return the NumPy dtype with the same elements; NumPy before 2.4 reads this.

    Raises:
        ProtocolError: as `__numpy_dtype__`; an AttributeError, as `hasattr` needs.
    """
    try:
        return known.__numpy_dtype__
    except OptionError as error:
        raise ProtocolError(error.problem, error.fix) from None


# ml_dtypes is imported on use: it takes an eighth of the import of mdtensor, and few
# programs have floats of this type (decision 0091).
def _bfloat16() -> DType:
    """Return bfloat16, whose storage is a type of ml_dtypes."""
    made = object.__new__(DType)
    made.name, made.kind, made.bits = "bfloat16", "real floating", 16
    made.maximum, made.digits = (2 - 2.0**-7) * 2.0**127, 8
    made.minimum = -made.maximum
    _REGISTRY[made.name], _ORIGINS[made.name] = made, caller_origin(0)
    return made


def _later(known: DType, name: str) -> Any:
    """Return the storage of bfloat16; Python asks for attributes that are not set.

    Raises:
        AttributeError: there is no such attribute.
        ProtocolError: the error of `dtype`, which Python hides.
    """
    if name == "dtype":
        return _dtype(known)
    if name != "storage" or not hasattr(known, "name"):
        raise AttributeError(f"an element type has no attribute {name!r}")
    import ml_dtypes

    known.storage = np.dtype(getattr(ml_dtypes, known.name))
    return known.storage


# Set outside the class, so that the stubs do not offer `x.dtype.dtype` to readers.
setattr(DType, "dtype", property(_dtype))  # noqa: B010
setattr(DType, "__getattr__", _later)  # noqa: B010


def _check_words(name: object, kind: object) -> None:
    """Raise for a name that is taken or invalid, and for a misspelled kind."""
    if not isinstance(name, str) or not name.isidentifier():
        problem = f"{shown(name)} is not an element type name"
        raise RegistrationError(problem, "Use an identifier")
    if name in _REGISTRY:
        problem = f"an element type named {name} exists already"
        raise RegistrationError(problem, f"Use dtype({name!r}), or another name")
    # To compare words takes longer than to declare all types of mdtensor.quant.
    known = (*STORED, "quantized")
    near = _similar_kinds(kind) if isinstance(kind, str) and kind not in known else []
    if not isinstance(kind, str) or not kind or near:
        fit = " or ".join(near) or f"one of {', '.join(STORED)}, or your own"
        raise RegistrationError(f"the kind of {name} is {shown(kind)}", f"Use {fit}")


def _similar_kinds(kind: str) -> list[str]:
    """Return the standard kinds that are similar to `kind` or have a similar word."""
    words = {*STORED, *" ".join(STORED).split()}
    near = similar(kind, words, 1, 0.75)
    return [ours for ours in STORED if near and near[0] in (ours, *ours.split())]


def _storage_error(given: object) -> tuple[str, str]:
    """Return the problem and the fix for a storage without numbers of whole bytes."""
    name = getattr(given, "__name__", "")
    if isinstance(given, type) and re.fullmatch(r"u?int[1-7]", name):
        problem = f"the storage {name} has fewer bits than the byte that holds it"
        return problem, f"Use {name.rstrip('1234567')}8"
    return f"the storage is {shown(given)}", "Use a numeric NumPy dtype"


def _storage(given: object, kind: str) -> np.dtype[Any]:
    """Return `given` as a NumPy dtype, or raise if it does not store this kind."""
    found: np.dtype[Any] | None
    try:
        found = np.dtype(given)
        _numbers(found, 8 * found.itemsize)
    except Exception:  # NumPy's errors, or whatever the repr of `given` raises
        found = None
    if found is None or given is None:  # NumPy reads None as float64
        raise RegistrationError(*_storage_error(given))
    # Types of ml_dtypes have the kind V, for void.
    if found.kind not in (*STORED.get(kind, found.kind), "V"):
        named = f"an {kind}" if kind[0] == "u" else f"a {kind}"
        problem = f"the storage of {named} is {found}"
        raise RegistrationError(problem, f"Use a NumPy dtype that holds {named}")
    return found


def _bits(given: object, storage: np.dtype[Any]) -> int:
    most = 8 * storage.itemsize
    least = 1
    if storage.kind not in "biu":  # some bits of a float are not a narrower float
        least = most = _finfo(storage).bits * (2 if storage.kind == "c" else 1)
    if type(given) is not int or not least <= given <= most:
        wanted = f"{most}" if least == most else f"an integer from {least} to {most}"
        fix = f"Use {wanted} for {storage}"
        raise RegistrationError(f"the number of bits is {shown(given)}", fix)
    return given


def _numbers(storage: np.dtype[Any], bits: int) -> tuple[int | float, int | float, int]:
    """Return the smallest and largest finite number of an element, and its digits."""
    if storage.kind == "b":
        return 0, 1, 1
    if storage.kind in "iu":
        # An integer type may have fewer bits than its storage.
        unused = max(8 * storage.itemsize - bits, 0)
        most = int(np.iinfo(storage).max) >> unused
        return int(np.iinfo(storage).min) >> unused, most, most.bit_length()
    found = _finfo(storage)
    return float(found.min), float(found.max), int(found.nmant) + 1


def _finfo(storage: np.dtype[Any]) -> Any:
    """Return the limits of NumPy's floats, or of those that ml_dtypes knows."""
    if storage.kind in "fc" and storage.isbuiltin == 1:
        return np.finfo(storage)
    import ml_dtypes

    return ml_dtypes.finfo(storage)  # type: ignore[no-untyped-call]


def dtype(name: object) -> DType:
    """Return the element type of a `DType`, a name, a NumPy dtype, or a tensor type.

    Raises:
        OptionError: there is no such element type.

    Example:
        >>> import numpy as np
        >>> dtype("int8"), dtype(np.float32)
        (mdtensor.int8, mdtensor.float32)
    """
    known = getattr(name, "dtype", name) if isinstance(name, type) else name
    if isinstance(known, DType):
        return known
    found = _REGISTRY.get(name if isinstance(name, str) else _numpy_name(name))
    if found is None:
        is_name = isinstance(name, (str, type, np.dtype))
        wanted = name if is_name else f"like a {type(name).__name__}"
        fix = _numbers_of(name) if isinstance(name, np.dtype) else _known(name)
        raise OptionError(f"no element type {wanted}", fix)
    return found


_OF_TEXTS = "Its elements are texts: use a.astype(float) if they are numbers"
#: What to write for arrays of NumPy's types that are not ours, by their kind.
_READABLE = {
    "M": "Use a.astype('int64'), the units since 1970",
    "m": "Use a.astype('int64'), the number of units",
    "O": "Its elements are Python objects: use a.astype(float), or another number type",
    **dict.fromkeys("SUT", _OF_TEXTS),
    "f": "Use a.astype('float64'), which rounds",
    "c": "Use a.astype('complex128'), which rounds",
}


def _numbers_of(storage: np.dtype[Any]) -> str:
    """Return how to get numbers that a tensor can hold from an array of `storage`."""
    if storage.names:
        return f"Take one of its fields, such as a[{storage.names[0]!r}]"
    return _READABLE.get(storage.kind) or _known(storage)


def _known(name: object) -> str:
    """Return all known names as text, after a name similar to `name`, if any."""
    listed = f"Known are {', '.join(_REGISTRY)}"
    if not isinstance(name, str):
        return listed
    if name.startswith(_QUANTIZED) and "quantized" not in kinds():
        return f"Import mdtensor.quant first. {listed}"
    # A suggestion must have the same width: int9 is not a misspelled int8.
    alike = [ours for ours in _REGISTRY if _digits(ours) == _digits(name)]
    near = similar(name[:99].lower(), alike, 1, 0.75)
    return f"Use {near[0]}. {listed}" if near else listed


def _digits(name: str) -> str:
    return "".join(filter(str.isdigit, name))


def kinds() -> tuple[str, ...]:
    """Return the kinds of all element types."""
    return tuple(dict.fromkeys(known.kind for known in _REGISTRY.values()))


@lru_cache  # NumPy builds the name again at each access
def _name_of(known: np.dtype[Any]) -> str:
    return known.name


def _numpy_name(name: object) -> str:
    try:
        return _name_of(np.dtype(name))  # type: ignore[call-overload]
    except Exception:  # NumPy's errors, or whatever the repr of `name` raises
        return ""


bool_: Final = DType("bool", "bool", 8, "bool")
int8: Final = DType("int8", "signed integer", 8, "int8")
int16: Final = DType("int16", "signed integer", 16, "int16")
int32: Final = DType("int32", "signed integer", 32, "int32")
int64: Final = DType("int64", "signed integer", 64, "int64")
uint8: Final = DType("uint8", "unsigned integer", 8, "uint8")
uint16: Final = DType("uint16", "unsigned integer", 16, "uint16")
uint32: Final = DType("uint32", "unsigned integer", 32, "uint32")
uint64: Final = DType("uint64", "unsigned integer", 64, "uint64")
float16: Final = DType("float16", "real floating", 16, "float16")
bfloat16: Final = _bfloat16()
float32: Final = DType("float32", "real floating", 32, "float32")
float64: Final = DType("float64", "real floating", 64, "float64")
complex64: Final = DType("complex64", "complex floating", 64, "complex64")
complex128: Final = DType("complex128", "complex floating", 128, "complex128")
