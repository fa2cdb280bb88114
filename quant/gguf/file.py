"""GGUF files of version 3, little-endian.

    "GGUF", version, number of tensors, number of keys
    each key:     text, type, value
    each tensor:  name, its axes from the last to the first, type, offset of its blocks
    the blocks of each tensor, from a multiple of `general.alignment` on

A text is its length in 8 bytes, then UTF-8.

Source: ggml, `docs/gguf.md`.
"""

import os
import struct
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from mdtensor import StorageError, Tensor
from mdtensor.errors import shown
from mdtensor.extend import explain_wrong_calls, file_path, replacing, write_problem
from mdtensor.quant.gguf.blocks import Blocks, block_type, gguf_package

VERSION: Final = 3
ALIGNMENT: Final = "general.alignment"
#: The largest number of axes in ggml.
_AXES = 4
_STRING, _ARRAY = 8, 9
_NUMBERS: Final = {
    np.dtype(stored): code
    for stored, code in {
        np.uint8: 0,
        np.int8: 1,
        np.uint16: 2,
        np.int16: 3,
        np.uint32: 4,
        np.int32: 5,
        np.float32: 6,
        np.bool_: 7,
        np.uint64: 10,
        np.int64: 11,
        np.float64: 12,
    }.items()
}


@explain_wrong_calls
def write_gguf(
    path: str | os.PathLike[str],
    tensors: Mapping[str, Tensor | Blocks],
    metadata: Mapping[str, Any] | None = None,
) -> None:
    """Write tensors to a GGUF file, without rounding.

    Args:
        path: the file, which is replaced in one step; on an error it stays unchanged.
        tensors: by name: dense tensors, codes with a float16 scale for each 32 elements
            of the last axis (`Q8_0`, `Q4_0`), or `Blocks`, from `Blocks.quantize` or
            from another file.
        metadata: by key: `str`, `bool`, NumPy scalars and arrays, which keep their
            type. A Python `int`, or a list of them, is int32 if all fit, else int64; a
            `float` is float64.

    Raises:
        StorageError: the package gguf is not installed, no type of blocks stores a
            tensor exactly, a tensor has more than 4 axes, metadata has another type, or
            the path cannot be written.

    Example:
        >>> from mdtensor.quant import Blocks, read_gguf
        >>> w = Blocks.quantize(md.ones((1, 32)), "Q4_0")
        >>> write_gguf("w.gguf", {"w": w, "b": md.ones(3)}, {"answer": 42})
        >>> read_gguf("w.gguf").metadata["answer"]
        np.int32(42)

    Source: ggml, `docs/gguf.md`.
    """
    if not isinstance(tensors, Mapping):
        kind = type(tensors).__name__
        raise StorageError(f"a {kind} does not have names", 'Pass {"name": tensor}')
    if not isinstance(metadata, Mapping | None):
        problem = f"metadata is {shown(metadata)}"
        raise StorageError(problem, 'Pass {"key": value}')
    keys, target = dict(metadata or {}), file_path(path, "path")
    alignment = _require_alignment(keys.get(ALIGNMENT, 32))
    blocks = {name: _to_blocks(name, x) for name, x in tensors.items()}
    # All of it before the file is opened: an error must not replace the file.
    pieces = list(_pieces(blocks, keys, alignment))
    try:
        with replacing(target) as file:
            file.writelines(pieces)
    except OSError as error:
        raise StorageError(*write_problem(path, error)) from None


def _require_alignment(given: Any) -> int:
    """Return the alignment; raise if it is not a power of 2 up to 2**20."""
    is_power = isinstance(given, int | np.integer) and given > 0
    if not is_power or given & (given - 1) or given > 2**20:
        raise StorageError(f"{ALIGNMENT} is {shown(given)}", "Use a power of 2")
    return int(given)


def _to_blocks(name: object, x: Tensor | Blocks) -> Blocks:
    """Return a tensor as blocks; raise if it has too many axes."""
    found = x if isinstance(x, Blocks) else Blocks.of(x)
    if len(found.shape) > _AXES:
        raise StorageError(
            f"{shown(name)} has {len(found.shape)} axes, but GGUF allows {_AXES}",
            "Use reshape",
        )
    return found


def _pieces(
    blocks: Mapping[str, Blocks], keys: Mapping[str, Any], alignment: int
) -> Iterator[Any]:
    """Return the bytes of the file in pieces; the bytes of blocks are not copied."""
    head = [b"GGUF", struct.pack("<IQQ", VERSION, len(blocks), len(keys))]
    for key, value in keys.items():
        # The format fixes the type of this key; a Python int would be int32.
        as_uint = np.uint32(value) if key == ALIGNMENT else value
        head += [_encode_text(key), _encode_value(key, as_uint)]
    offset = 0
    for name, own in blocks.items():
        axes = struct.pack(f"<I{len(own.shape)}Q", len(own.shape), *own.shape[::-1])
        kind = struct.pack("<IQ", int(block_type(own.type)), offset)
        head += [_encode_text(name), axes, kind]
        offset += own.data.size + -own.data.size % alignment
    start = b"".join(head)
    yield start + b"\0" * (-len(start) % alignment)
    for own in blocks.values():
        yield np.ascontiguousarray(own.data).data
        yield b"\0" * (-own.data.size % alignment)


def _encode_text(given: str) -> bytes:
    """Return the bytes of a text, with its length."""
    try:
        data: bytes = given.encode()
    except (AttributeError, UnicodeEncodeError):
        problem = f"{shown(given)} is not a str that UTF-8 can encode"
        raise StorageError(problem, "Use str(value), without lone surrogates") from None
    return struct.pack("<Q", len(data)) + data


def _encode_value(key: str, value: object) -> bytes:
    """Return the bytes of a metadata value, with its type."""
    if isinstance(value, str):
        return struct.pack("<I", _STRING) + _encode_text(value)
    items = value if isinstance(value, list | tuple) else ()
    if items and all(isinstance(text, str) for text in items):
        head = struct.pack("<IIQ", _ARRAY, _STRING, len(items))
        return head + b"".join(map(_encode_text, items))
    found = np.asarray(_narrow_integers(value))
    if found.dtype not in _NUMBERS or found.ndim > 1:
        raise StorageError(
            f"{shown(key)} is {shown(value)}",
            "Use a str, a bool, a number, or a list of them",
        )
    code = _NUMBERS[found.dtype]
    if found.ndim:
        return struct.pack("<IIQ", _ARRAY, code, found.size) + found.tobytes()
    return struct.pack("<I", code) + found.tobytes()


def _narrow_integers(value: object) -> object:
    """Convert Python integers to int32 if all fit; return other values as they are."""
    row = value if isinstance(value, list | tuple) and value else [value]
    if all(type(x) is int and -(2**31) <= x < 2**31 for x in row):
        return np.asarray(value, np.int32)
    return value


# Reading: the file is mapped into memory, so tensors are read only on use.


class GGUFFile(Mapping[str, Blocks]):
    """The tensors of a file by name, and its metadata.

    Attributes:
        metadata: by key: `bool`, `str`, lists of `str`, and NumPy scalars and arrays of
            the type in the file.
    """

    def __init__(self, blocks: dict[str, Blocks], metadata: dict[str, Any]) -> None:
        self._blocks, self.metadata = blocks, metadata

    def __getitem__(self, name: str) -> Blocks:
        return self._blocks[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._blocks)

    def __len__(self) -> int:
        return len(self._blocks)

    def __repr__(self) -> str:
        return f"GGUFFile({len(self)} tensors, {len(self.metadata)} keys)"


@explain_wrong_calls
def read_gguf(path: str | os.PathLike[str]) -> GGUFFile:
    """Read a GGUF file; its tensors are blocks that are decoded on request.

    Args:
        path: the file. It must not become shorter while its tensors are in use.

    Raises:
        StorageError: the package gguf is not installed, or the file does not exist, is
            damaged, or is big-endian.

    Example:
        >>> from mdtensor.quant import write_gguf
        >>> write_gguf("a.gguf", {"w": md.ones((2, 32))}, {"general.name": "a"})
        >>> file = read_gguf("a.gguf")
        >>> file.metadata, file["w"]
        ({'general.name': 'a'}, Blocks(F32, shape=(2, 32), 256 bytes))

    Source: ggml, `docs/gguf.md`.
    """
    package, path = gguf_package(), file_path(path, "path")
    try:
        # An empty file cannot be mapped.
        if not path.stat().st_size:
            raise EOFError
        with np.errstate(all="ignore"):
            reader = _reader_class(package)(path)
        if reader.endianess is not package.GGUFEndian.LITTLE:
            raise StorageError(
                f"{path} is big-endian", "Convert it to a little-endian file"
            )
        metadata = {
            field.name: _parse_value(field, package)
            for field in reader.fields.values()
            if not field.name.startswith("GGUF.")
        }
        return GGUFFile(
            {t.name: _parse_blocks(t, reader) for t in reader.tensors}, metadata
        )
    except StorageError:
        raise
    except OSError as error:
        raise StorageError(
            f"{path} cannot be read: {error.strerror or error}", "Check the path"
        ) from None
    # In a damaged file, the package's reader raises any type of exception.
    except Exception:
        raise StorageError(
            f"{path} is not a GGUF file, or it is damaged", "Copy it again"
        ) from None


def _reader_class(package: ModuleType) -> Callable[[Path], Any]:
    """Return the package's reader class, limited to the bytes of the file.

    Behind the last byte, the package reads an endless array (decision 0028).
    """

    base: Any = package.GGUFReader

    class Reader(base):  # type: ignore[misc]
        def _get(
            self,
            offset: int,
            dtype: npt.DTypeLike,
            count: int = 1,
            override_order: object = None,
        ) -> npt.NDArray[Any]:
            end = int(offset) + np.dtype(dtype).itemsize * int(count)
            if end > self.data.size:
                raise EOFError
            found: npt.NDArray[Any] = super()._get(
                int(offset), dtype, count, override_order
            )
            return found

    return Reader


def _parse_value(field: Any, package: ModuleType) -> object:
    """Return the value of a key, in the type that the file names."""
    types = package.GGUFValueType
    kind = types(int(field.parts[2][0]))
    if kind is types.STRING:
        return _parse_text(field.parts[-1])
    if kind is not types.ARRAY:
        return _to_python_bool(field.parts[-1][0])
    inner = types(int(field.parts[3][0]))
    if inner is types.ARRAY:
        raise StorageError(f"{shown(field.name)} is an array of arrays")
    parts = [field.parts[at] for at in field.data]
    if inner is types.STRING:
        return [_parse_text(part) for part in parts]
    # For an array without elements, the type comes from the file, not from its parts.
    empty = np.empty(0, package.GGUFReader.gguf_scalar_to_np[inner])
    return np.concatenate([empty, *parts])


def _parse_text(part: npt.NDArray[np.uint8]) -> str:
    """Return the text in some bytes."""
    return part.tobytes().decode()


def _to_python_bool(scalar: object) -> object:
    """Convert a NumPy bool to a Python bool; return other scalars as they are."""
    return bool(scalar) if isinstance(scalar, np.bool_) else scalar


def _parse_blocks(tensor: Any, reader: Any) -> Blocks:
    """Return a tensor of the file as blocks, without a copy."""
    start, stop = tensor.data_offset, tensor.data_offset + tensor.n_bytes
    data = reader.data[start:stop].view(np.ndarray)
    shape = tuple(int(size) for size in reversed(tensor.shape))
    return Blocks(tensor.tensor_type.name, data, shape)
