"""Tensors to safetensors files."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from mdtensor.errors import StorageError, shown
from mdtensor.files import replacing
from mdtensor.generics.options import place
from mdtensor.safetensors import header
from mdtensor.safetensors.parts import KEY, Array, Note, noted, taken_apart
from mdtensor.tensor import Tensor


def save(
    tensors: Mapping[str, Tensor], metadata: Mapping[str, str] | None = None
) -> bytes:
    """A safetensors file as bytes; see `save_file`.

    Example:
        >>> from mdtensor.safetensors import load
        >>> load(save({"a": md.asarray([1, 2])}))["a"].tolist()
        [1, 2]
    """
    return b"".join(_pieces(tensors, metadata))


def save_file(
    tensors: Mapping[str, Tensor],
    filename: str | os.PathLike[str],
    metadata: Mapping[str, str] | None = None,
) -> None:
    """Write tensors to a file, which is replaced in one step or, on an error, not.

    Args:
        tensors: by name. What is not one array, such as codes on a grid, is stored as
            arrays named `w`, `w_scale`, `w_zero_point`.
        filename: where to.
        metadata: texts by name, which the file keeps; not `mdtensor`, which is ours.

    Raises:
        StorageError: no tensor, one on a device, two arrays of one name, metadata that
            are not texts, or a place that cannot be written.

    Example:
        >>> from mdtensor.safetensors import load_file
        >>> save_file({"a": md.ones((2, 3))}, "a.safetensors")
        >>> load_file("a.safetensors")["a"]
        Float32Tensor[2,3]([[1., 1., 1.],
                            [1., 1., 1.]])

    Source: safetensors, `safetensors.numpy.save_file`.
    """
    path = place(filename, "filename")
    pieces = list(_pieces(tensors, metadata))  # what is wrong is found before any byte
    try:
        with replacing(path) as file:
            file.writelines(pieces)
    except OSError as error:
        raise StorageError(
            f"{path} cannot be written: {error.strerror or error}",
            "Choose a folder that exists and is writable",
        ) from None


def _pieces(
    tensors: Mapping[str, Tensor], metadata: Mapping[str, str] | None
) -> Iterator[Any]:
    """The bytes of the file, array by array; a contiguous one is not copied."""
    arrays: dict[str, Array] = {}
    notes: dict[str, Note] = {}
    if not isinstance(tensors, Mapping):
        kind = type(tensors).__name__
        raise StorageError(f"a {kind} has no names", 'Give {"name": tensor}')
    for name, x in tensors.items():
        _check_name(name)
        own, note = taken_apart(name, x)
        taken = sorted(own.keys() & arrays.keys())
        if taken:
            raise StorageError(
                f"{shown(name)} has an array {shown(taken[0])}, as another tensor has",
                "Rename one",
            )
        arrays |= own
        if note is not None:
            notes[name] = note
    shapes = {name: (_type_name(name, a), a.shape) for name, a in arrays.items()}
    head, order = header.written(shapes, {**_texts(metadata), **noted(notes)})
    yield head
    for name in order:
        yield _bytes(arrays[name])


def _check_name(name: Any) -> None:
    if not _is_text(name) or name == header.METADATA:
        raise StorageError(f"a tensor cannot be called {shown(name)}", "Use a text")


def _is_text(given: Any) -> bool:
    """Whether it is a text that UTF-8 has."""
    try:
        return isinstance(given, str) and given.encode() is not None
    except UnicodeEncodeError:
        return False


def _type_name(name: str, array: Array) -> str:
    found = header.type_name(array.dtype)
    if found is None:
        raise StorageError(
            f"{shown(name)} is an array of {array.dtype}, which safetensors lacks",
            "Use astype(x, dtype)",
        )
    return found


def _texts(metadata: Mapping[str, str] | None) -> dict[str, str]:
    if metadata is not None and not isinstance(metadata, Mapping):
        raise StorageError(f"metadata are {shown(metadata)}", "Give texts by name")
    found = dict(metadata or {})
    if not all(_is_text(text) for pair in found.items() for text in pair):
        raise StorageError("metadata are not texts by name", "Use str(value)")
    if KEY in found:
        raise StorageError(f"metadata called {KEY!r} say what tensors are", "Rename it")
    return found


def _bytes(array: Array) -> memoryview:
    """The elements in row-major order."""
    return np.asarray(array, order="C").reshape(-1).view(np.uint8).data
