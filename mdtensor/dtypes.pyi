"""Types for type checkers, written by `mdtensor stubs`: do not edit.

They come from the operations and methods that are registered, under the default
promotion rules. `mdtensor stubs --check` tells what has changed since.
"""

# mypy: disable-error-code="assignment, misc, overload-cannot-match, overload-overlap"
# mypy: disable-error-code="override"


from typing import Generic, overload
from typing_extensions import TypeVar

_T_co = TypeVar("_T_co", covariant=True, default=Any)

from functools import lru_cache
from typing import Any, Final, Self
import numpy as np
import numpy.typing as npt
from mdtensor.reloading import Origin
_REGISTRY: dict[str, DType]
_ORIGINS: dict[str, Origin]
STORED: dict[str, str]

class DType(Generic[_T_co]):
    __slots__ = ('bits', 'digits', 'kind', 'maximum', 'minimum', 'name', 'storage')
    name: str
    kind: str
    bits: int
    storage: np.dtype[Any]
    minimum: int | float
    maximum: int | float
    digits: int
    def __new__(cls, name: str, kind: str, bits: int, storage: npt.DTypeLike) -> Self: ...
    def __init__(self, name: str, kind: str, bits: int, storage: npt.DTypeLike) -> None: ...
    @property
    def is_integer(self) -> bool: ...
    @property
    def is_floating(self) -> bool: ...
    @property
    def is_complex(self) -> bool: ...
    @property
    def __numpy_dtype__(self) -> np.dtype[Any]: ...
    @property
    def _is_in_numpy(self) -> bool: ...
    def __repr__(self) -> str: ...
    def __str__(self) -> str: ...
    def __format__(self, spec: str) -> str: ...
    def __reduce__(self) -> tuple[object, tuple[str]]: ...

def _dtype(known: DType) -> np.dtype[Any]: ...

def _bfloat16() -> DType: ...

def _later(known: DType, name: str) -> Any: ...

def _check_words(name: object, kind: object) -> None: ...

def _similar_kinds(kind: str) -> list[str]: ...

def _storage_error(given: object) -> tuple[str, str]: ...

def _storage(given: object, kind: str) -> np.dtype[Any]: ...

def _bits(given: object, storage: np.dtype[Any]) -> int: ...

def _numbers(storage: np.dtype[Any], bits: int) -> tuple[int | float, int | float, int]: ...

def _finfo(storage: np.dtype[Any]) -> Any: ...

@overload
def dtype(name: DType[_T_co]) -> DType[_T_co]: ...

@overload
def dtype(name: object) -> DType: ...

def _numbers_of(storage: np.dtype[Any]) -> str: ...

def _known(name: object) -> str: ...

def _digits(name: str) -> str: ...

def kinds() -> tuple[str, ...]: ...

@lru_cache
def _name_of(known: np.dtype[Any]) -> str: ...

def _numpy_name(name: object) -> str: ...
bool_: Final[DType]
int8: Final[DType]
int16: Final[DType]
int32: Final[DType]
int64: Final[DType]
uint8: Final[DType]
uint16: Final[DType]
uint32: Final[DType]
uint64: Final[DType]
float16: Final[DType]
bfloat16: Final[DType]
float32: Final[DType]
float64: Final[DType]
complex64: Final[DType]
complex128: Final[DType]
