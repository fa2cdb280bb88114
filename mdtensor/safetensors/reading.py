"""Tensors from safetensors files."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Self

import numpy as np
import numpy.typing as npt

from mdtensor.errors import StorageError, shown
from mdtensor.generics.options import place
from mdtensor.safetensors.header import (
    LENGTH,
    STORED,
    Header,
    header_size,
    parsed,
)
from mdtensor.safetensors.parts import Array, notes_in, put_together
from mdtensor.tensor import Tensor

Bytes = npt.NDArray[np.uint8]


class SafeTensors(Mapping[str, Tensor]):
    """The tensors of a file by name, each read when it is asked for.

    Attributes:
        metadata: the texts that whoever wrote the file gave it.

    Tensors are views of the file in memory and cannot be written to; they stay when the
    file is closed or replaced.
    """

    metadata: dict[str, str]

    def __init__(self, data: Bytes, place: str = "") -> None:
        self._place = place
        with self._named():
            self._read_header(data)

    @contextmanager
    def _named(self) -> Iterator[None]:
        """Errors that say which file it is."""
        try:
            yield
        except StorageError as error:
            raise error.within(self._place) from None

    def _read_header(self, data: Bytes) -> None:
        first = data[:LENGTH].tobytes()
        size = header_size(first, data.size)
        text = data[LENGTH : LENGTH + size].tobytes()
        self._header: Header = parsed(text, data.size)
        self._data: Bytes | None = data[self._header.start :]
        self.metadata = dict(self._header.metadata)
        self._notes = notes_in(self.metadata, set(self._header.entries))
        parts = {n + end for n, note in self._notes.items() for end in note["parts"]}
        dense = [name for name in self._header.entries if name not in parts]
        self._names = dict.fromkeys(sorted([*dense, *self._notes]))

    def __getitem__(self, name: str) -> Tensor:
        if name not in self._names:
            raise KeyError(name)
        with self._named():
            return put_together(name, self._notes.get(name), self.array)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def arrays(self) -> list[str]:
        """The names of all arrays, the parts of tensors included."""
        return sorted(self._header.entries)

    def array(self, name: str) -> Array:
        """One array as it is stored, for types that no tensor has.

        Raises:
            KeyError: there is none of this name.
            StorageError: NumPy has no such type, or a truth value is neither 0 nor 1.
        """
        entry = self._header.entries[name]
        if entry.dtype not in STORED:
            raise StorageError(
                f"{shown(name)} holds {entry.dtype}, which is not supported",
                f"There are {', '.join(STORED)}",
            )
        if self._data is None:
            raise StorageError("the file is closed", "Read it inside `with`")
        own = self._data[entry.start : entry.stop]
        if entry.dtype == "BOOL" and own.size and own.max() > 1:
            raise StorageError(f"{shown(name)} holds truth values beside 0 and 1")
        stored = STORED[entry.dtype]
        if own.ctypes.data % stored.alignment:
            own = own.copy()  # headers of others may end at any byte
        return own.view(stored).reshape(entry.shape)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._data = None

    def __repr__(self) -> str:
        return f"SafeTensors({len(self)} tensors)"


def safe_open(filename: str | os.PathLike[str]) -> SafeTensors:
    """A file of which tensors are read when they are asked for, without copies.

    Args:
        filename: where it is. While it is used, nobody may shorten it; `save_file`
            does not, since it puts a new file in its place.

    Raises:
        StorageError: there is no such file, or it is damaged.

    Example:
        >>> from mdtensor.safetensors import save_file
        >>> save_file({"a": md.ones(2), "b": md.ones(3)}, "ab.safetensors")
        >>> with safe_open("ab.safetensors") as file:
        ...     print(list(file), file["b"])
        ['a', 'b'] Float32Tensor[3]([1., 1., 1.])

    Source: safetensors, `safe_open`.
    """
    path = place(filename, "filename")
    return SafeTensors(_mapped(path), str(path))


def load_file(filename: str | os.PathLike[str]) -> dict[str, Tensor]:
    """All tensors of a file by name, in memory that can be written to.

    Raises:
        StorageError: there is no such file, it is damaged, or a tensor is of a type
            that is not registered.

    Example:
        >>> from mdtensor.safetensors import save_file
        >>> save_file({"a": md.ones((2, 3))}, "a.safetensors")
        >>> load_file("a.safetensors")["a"].shape
        (2, 3)

    Source: safetensors, `safetensors.numpy.load_file`.
    """
    path = place(filename, "filename")
    try:
        data = np.fromfile(path, np.uint8)
    except OSError as error:
        raise _unreadable(path, error) from None
    return dict(SafeTensors(data, str(path)))


def load(data: bytes) -> dict[str, Tensor]:
    """All tensors of a file that is given as bytes; see `load_file`."""
    try:
        held = np.frombuffer(data, np.uint8).copy()
    except (TypeError, ValueError, BufferError):
        raise StorageError(
            f"data is {shown(data)}", "Pass the bytes of a file"
        ) from None
    return dict(SafeTensors(held))


def _mapped(path: Path) -> Bytes:
    try:
        if not path.stat().st_size:  # which cannot be mapped
            return np.empty(0, np.uint8)
        return np.memmap(path, np.uint8, "r").view(np.ndarray)
    except OSError as error:
        raise _unreadable(path, error) from None


def _unreadable(path: Path, error: OSError) -> StorageError:
    reason = error.strerror or error
    return StorageError(f"{path} cannot be read: {reason}", "Check the path")
