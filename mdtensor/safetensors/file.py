"""Reading and writing of safetensors files, on top of the package `safetensors`.

The package checks headers. Arrays are read here, because the package copies them and
does not support 8-bit floats in NumPy, and files are written here, because a process
that is killed in the package leaves half a file behind.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

import ml_dtypes
import numpy as np
import numpy.typing as npt

from mdtensor.dispatch.call_errors import explain_wrong_calls
from mdtensor.errors import StorageError, shown
from mdtensor.files import replacing, write_problem
from mdtensor.safetensors.parts import (
    KEY,
    Array,
    Note,
    join_tensor,
    note_metadata,
    pop_notes,
    split_tensor,
)
from mdtensor.spec.options import file_path
from mdtensor.tensor import Tensor

Bytes = npt.NDArray[np.uint8]

#: The number of bytes before the header; they hold its size.
LENGTH: Final = 8
#: The header entry for the writer's texts.
METADATA: Final = "__metadata__"

#: NumPy's types by the format's names. The package's own table for reading lacks
#: bfloat16 and the 8-bit floats.
STORED: Final[dict[str, np.dtype[Any]]] = {
    "BOOL": np.dtype(np.bool_),
    "U8": np.dtype(np.uint8),
    "I8": np.dtype(np.int8),
    "F8_E5M2": np.dtype(ml_dtypes.float8_e5m2),
    "F8_E4M3": np.dtype(ml_dtypes.float8_e4m3fn),
    "F8_E8M0": np.dtype(ml_dtypes.float8_e8m0fnu),
    "I16": np.dtype(np.int16),
    "U16": np.dtype(np.uint16),
    "F16": np.dtype(np.float16),
    "BF16": np.dtype(ml_dtypes.bfloat16),
    "I32": np.dtype(np.int32),
    "U32": np.dtype(np.uint32),
    "F32": np.dtype(np.float32),
    "C64": np.dtype(np.complex64),
    "F64": np.dtype(np.float64),
    "I64": np.dtype(np.int64),
    "U64": np.dtype(np.uint64),
}


class Stored(NamedTuple):
    """One array of a file: type name of the format, shape, bytes."""

    dtype: str
    shape: tuple[int, ...]
    data: Bytes


class SafeTensors(Mapping[str, Tensor]):
    """The tensors of a file by name, each built on access.

    Args:
        source: the path of a file, which is mapped into memory, or the bytes of one.

    Attributes:
        metadata: the texts that the writer of the file stored in it.

    Tensors of a mapped file are views of it and cannot be written to. They stay valid
    when the file is closed or replaced.
    """

    metadata: dict[str, str]

    def __init__(self, source: Path | bytes | Bytes) -> None:
        self._place = str(source) if isinstance(source, Path) else ""
        # Tensors stay valid after closing; only new reads are an error.
        self._is_open = True
        with self._name_file():
            if isinstance(source, Path):
                self._arrays, self.metadata = _read_file(source)
            else:
                # A copy, so that later changes of the caller's array do not reach the
                # tensors.
                self._arrays, self.metadata = _read_bytes(_as_bytes(source))
            self._notes = pop_notes(self.metadata, set(self._arrays))
        parts = {n + end for n, note in self._notes.items() for end in note["parts"]}
        dense = [name for name in self._arrays if name not in parts]
        self._names = dict.fromkeys(sorted([*dense, *self._notes]))

    @contextmanager
    def _name_file(self) -> Iterator[None]:
        """Name the file in errors."""
        try:
            yield
        except StorageError as error:
            raise error.within(self._place) from None

    def __getitem__(self, name: str) -> Tensor:
        if name not in self._names:
            raise KeyError(name)
        with self._name_file():
            return join_tensor(name, self._notes.get(name), self.array)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def arrays(self) -> list[str]:
        """Return the names of all arrays, the parts of tensors included."""
        return sorted(self._arrays)

    def array(self, name: str) -> Array:
        """Return one array as it is stored, for types that no tensor has.

        Raises:
            KeyError: the file does not have an array of this name.
            StorageError: NumPy does not support its type or shape, or a bool is neither
                0 nor 1.
        """
        if not self._is_open:
            raise StorageError("the file is closed", "Read it inside `with`")
        return _as_array(name, self._arrays[name])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._is_open = False
        # The file is unmapped once the last tensor of it is gone.
        self._arrays = dict.fromkeys(self._arrays, Stored("U8", (0,), _NOTHING))

    def __repr__(self) -> str:
        return f"SafeTensors({len(self)} tensors)"


_NOTHING: Bytes = np.empty(0, np.uint8)


def _as_array(name: str, stored: Stored) -> Array:
    dtype, shape, data = stored
    if dtype not in STORED:
        raise StorageError(
            f"{shown(name)} holds {dtype}, which mdtensor cannot read",
            f"Use one of {', '.join(STORED)}",
        )
    if dtype == "BOOL" and data.size and data.max() > 1:
        raise StorageError(f"{shown(name)} holds bools other than 0 and 1")
    # Headers of other writers may end at any byte, so elements may be unaligned.
    if data.ctypes.data % STORED[dtype].alignment:
        data = data.copy()
    try:
        return data.view(STORED[dtype]).reshape(shape)
    except ValueError:
        raise StorageError(
            f"{shown(name)} has the shape {shown(shape)}, which NumPy does not support"
        ) from None


@explain_wrong_calls
def safe_open(filename: str | os.PathLike[str]) -> SafeTensors:
    """Open a file whose tensors are read on access, without copies.

    Args:
        filename: the path. Do not shorten the file while you use it; `save_file` does
            not, since it puts a new file in its place.

    Raises:
        StorageError: the file does not exist or is damaged, or the package
            `safetensors` is not installed.

    Example:
        >>> from mdtensor.safetensors import save_file
        >>> save_file({"a": md.ones(2), "b": md.ones(3)}, "ab.safetensors")
        >>> with safe_open("ab.safetensors") as file:
        ...     print(list(file), file["b"])
        ['a', 'b'] Float32Tensor[3]([1., 1., 1.])

    Source: safetensors, `safe_open`.
    """
    return SafeTensors(file_path(filename, "filename"))


@explain_wrong_calls
def load_file(filename: str | os.PathLike[str]) -> dict[str, Tensor]:
    """Return all tensors of a file by name, in memory that can be written to.

    Raises:
        StorageError: the file does not exist or is damaged, a tensor has a type that
            is not registered, or the package `safetensors` is not installed.

    Example:
        >>> from mdtensor.safetensors import save_file
        >>> save_file({"a": md.ones((2, 3))}, "a.safetensors")
        >>> load_file("a.safetensors")["a"].shape
        (2, 3)

    Source: safetensors, `safetensors.numpy.load_file`.
    """
    with safe_open(filename) as file:
        # A private copy of each array, since nobody may write to the mapped file.
        file._arrays = {
            name: stored._replace(data=stored.data.copy())
            for name, stored in file._arrays.items()
        }
        return dict(file)


@explain_wrong_calls
def load(data: bytes) -> dict[str, Tensor]:
    """Return all tensors of a file given as bytes; see `load_file`."""
    return dict(SafeTensors(_as_bytes(data)))


def _as_bytes(data: Any) -> bytes:
    """Return bytes, or a copy of a buffer; the package takes only bytes."""
    try:
        # `bytes` would make zeros of an integer, and read a sequence of integers.
        return data if isinstance(data, bytes) else memoryview(data).tobytes()
    # NumPy raises ValueError for types that buffers do not have, such as dates.
    except (TypeError, ValueError):
        raise StorageError(
            f"data is {shown(data)}", "Pass the bytes of a file, or safe_open(path)"
        ) from None


def _read_file(path: Path) -> tuple[dict[str, Stored], dict[str, str]]:
    """Return views of the arrays of a file, and its metadata."""
    safetensors = _package()
    try:
        # An empty file cannot be mapped.
        mapped = np.memmap(path, np.uint8, "r") if path.stat().st_size else _NOTHING
        with _translate_read_errors(), safetensors.safe_open(path, framework="numpy"):
            # Opening checks the header against the size of the file.
            pass
    except OSError as error:
        raise StorageError(
            f"{path} cannot be read: {error.strerror or error}", "Check the path"
        ) from None
    data = mapped.view(np.ndarray)
    size, header, metadata = _header(data)
    elements = data[LENGTH + size :]
    return {
        name: Stored(e["dtype"], tuple(e["shape"]), elements[slice(*e["data_offsets"])])
        for name, e in header.items()
    }, metadata


def _read_bytes(data: bytes) -> tuple[dict[str, Stored], dict[str, str]]:
    """Return the arrays of a file given as bytes, and its metadata."""
    safetensors = _package()
    with _translate_read_errors():
        found = safetensors.deserialize(data)
    _, _, metadata = _header(np.frombuffer(data, np.uint8))
    return {
        name: Stored(e["dtype"], tuple(e["shape"]), np.frombuffer(e["data"], np.uint8))
        for name, e in found
    }, metadata


def _header(data: Bytes) -> tuple[int, dict[str, Any], dict[str, str]]:
    """Return the size, the arrays and the metadata of a header.

    The package `safetensors` has already accepted the header.

    Raises:
        StorageError: a name occurs twice (`safetensors` would use the last one), or an
            entry has fields outside the format (`safetensors` would drop them).
    """
    size = int.from_bytes(data[:LENGTH].tobytes(), "little")
    text = data[LENGTH : LENGTH + size].tobytes()
    arrays = json.loads(text, object_pairs_hook=_unique)
    metadata = arrays.pop(METADATA, None)
    for name, entry in arrays.items():
        if len(entry) != len(("dtype", "shape", "data_offsets")):
            raise StorageError(
                f"{shown(name)} has the fields {', '.join(entry)}, expected dtype, "
                "shape and data_offsets"
            )
    return size, arrays, metadata or {}


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise StorageError("the header has a name twice")
    return found


@explain_wrong_calls
def save(
    tensors: Mapping[str, Tensor], metadata: Mapping[str, str] | None = None
) -> bytes:
    """Return a safetensors file as bytes; see `save_file`.

    Example:
        >>> from mdtensor.safetensors import load
        >>> load(save({"a": md.asarray([1, 2])}))["a"].tolist()
        [1, 2]
    """
    arrays, texts = _arrays(tensors, metadata)
    with _translate_write_errors():
        return bytes(_package().serialize(_specs(arrays), metadata=texts))


@explain_wrong_calls
def save_file(
    tensors: Mapping[str, Tensor],
    filename: str | os.PathLike[str],
    metadata: Mapping[str, str] | None = None,
) -> None:
    """Write tensors to a file; an existing one is replaced at once, or not on errors.

    Args:
        tensors: by name. A tensor of several arrays, such as codes with scales, is
            stored as arrays named `w`, `w_scale`, `w_zero_point`.
        filename: the path.
        metadata: a str for each name, to store in the file; the name `mdtensor` is
            reserved.

    Raises:
        StorageError: a value is not a tensor or is on a device, two arrays have one
            name, the metadata is not a dict of str, the path cannot be written, or the
            package `safetensors` is not installed.

    Example:
        >>> from mdtensor.safetensors import load_file
        >>> save_file({"a": md.ones((2, 3))}, "a.safetensors")
        >>> load_file("a.safetensors")["a"]
        Float32Tensor[2,3]([[1., 1., 1.],
                            [1., 1., 1.]])

    Source: safetensors, `safetensors.numpy.save_file`.
    """
    path = file_path(filename, "filename")
    arrays, texts = _arrays(tensors, metadata)
    try:
        with replacing(path) as file:
            file.writelines(_pieces(arrays, texts))
    except OSError as error:
        raise StorageError(*write_problem(path, error)) from None


def _arrays(
    tensors: Mapping[str, Tensor], metadata: Mapping[str, str] | None
) -> tuple[dict[str, Array], dict[str, str] | None]:
    """Return the arrays of all tensors, row by row, and the texts to store."""
    arrays: dict[str, Array] = {}
    notes: dict[str, Note] = {}
    if not isinstance(tensors, Mapping):
        kind = type(tensors).__name__
        raise StorageError(f"a {kind} does not have names", 'Give {"name": tensor}')
    for name, x in tensors.items():
        _check_name(name)
        own, note = split_tensor(name, x)
        taken = sorted(own.keys() & arrays.keys())
        if taken:
            raise StorageError(
                f"{shown(name)} needs the array {shown(taken[0])} of another tensor",
                "Rename one of them",
            )
        arrays |= {n: _row_major(n, array) for n, array in own.items()}
        if note is not None:
            notes[name] = note
    # The package writes an empty object for {} and nothing for None.
    return arrays, {**_texts(metadata), **note_metadata(notes)} or None


def _pieces(
    arrays: Mapping[str, Array], texts: Mapping[str, str] | None
) -> Iterator[Any]:
    """Yield the bytes of a file as the package writes them, without copies of arrays.

    Source: safetensors, "Format".
    """
    names = {dtype: name for name, dtype in STORED.items()}
    ranks = {dtype: rank for rank, dtype in enumerate(STORED.values())}
    # Wide types first, so that each array is aligned.
    order = sorted(arrays, key=lambda name: (-ranks[arrays[name].dtype], name))
    header: dict[str, Any] = {} if texts is None else {METADATA: texts}
    end = 0
    for name in order:
        array, start = arrays[name], end
        end += array.nbytes
        header[name] = {
            "dtype": names[array.dtype],
            "shape": array.shape,
            "data_offsets": (start, end),
        }
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % LENGTH)
    yield len(text).to_bytes(LENGTH, "little")
    yield text
    for name in order:
        # Views of bytes, since the buffer protocol does not know bfloat16.
        yield arrays[name].reshape(-1).view(np.uint8).data


def _row_major(name: str, array: Array) -> Array:
    """Return the array itself if its elements lie in row-major order, else a copy."""
    if array.dtype not in STORED.values():
        raise StorageError(
            f"{shown(name)} is an array of {array.dtype}, unknown to safetensors",
            "Use astype(x, dtype)",
        )
    return np.asarray(array, order="C")


def _specs(arrays: Mapping[str, Array]) -> dict[str, Any]:
    """Return specs with the addresses of `arrays`, which the caller must keep alive."""
    spec = _package().TensorSpec
    return {
        name: spec(
            dtype=array.dtype.name,
            shape=array.shape,
            data_ptr=array.ctypes.data,
            data_len=array.nbytes,
        )
        for name, array in arrays.items()
    }


def _check_name(name: Any) -> None:
    if not _is_text(name) or name == METADATA:
        fix = "Use a str that UTF-8 can encode, other than '__metadata__'"
        raise StorageError(f"a tensor cannot be called {shown(name)}", fix)


def _is_text(given: Any) -> bool:
    """Return whether `given` is a str that UTF-8 can encode."""
    try:
        return isinstance(given, str) and given.encode() is not None
    except UnicodeEncodeError:
        return False


def _texts(metadata: Mapping[str, str] | None) -> dict[str, str]:
    if metadata is not None and not isinstance(metadata, Mapping):
        raise StorageError(
            f"metadata is {shown(metadata)}", "Give a dict of str by name"
        )
    found = dict(metadata or {})
    if not all(_is_text(text) for pair in found.items() for text in pair):
        raise StorageError(
            "a name or value of the metadata is not a str that UTF-8 can encode",
            "Use str(value), without lone surrogates",
        )
    if KEY in found:
        raise StorageError(f"the metadata key {KEY!r} is reserved", "Rename it")
    return found


def _package() -> Any:
    """Return the imported package `safetensors`, which mdtensor itself does not need.

    Raises:
        StorageError: the package is not installed.
    """
    try:
        import safetensors
    except ImportError:
        raise StorageError(
            "safetensors files need the package safetensors",
            "Install it with `pip install mdtensor[safetensors]`",
        ) from None
    return safetensors


@contextmanager
def _translate_read_errors() -> Iterator[None]:
    """Turn the package's error on a file into ours."""
    try:
        yield
    except _package().SafetensorError as error:
        # The class name before the colon tells you nothing.
        reason = str(error).partition(": ")[2]
        raise StorageError(
            f"expected a safetensors file, but: {reason}", "Copy it again"
        ) from None


@contextmanager
def _translate_write_errors() -> Iterator[None]:
    """Turn the package's error on writing into ours."""
    try:
        yield
    except _package().SafetensorError as error:
        raise StorageError(f"safetensors cannot write it: {error}") from None
