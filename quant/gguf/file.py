"""GGUF files of version 3, little endian.

    "GGUF", version, how many tensors, how many keys
    each key:     text, type, value
    each tensor:  name, its axes from the last to the first, type, offset of its blocks
    the blocks of each tensor, from a multiple of `general.alignment` on

A text is its length in 8 bytes and UTF-8.

Source: ggml, `docs/gguf.md`.
"""

import os
import struct
from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from mdtensor import StorageError, Tensor
from mdtensor.errors import shown
from mdtensor.files import replacing
from mdtensor.quant.gguf.blocks import Blocks, block_type, gguf_package
from mdtensor.spec.options import place

VERSION: Final = 3
ALIGNMENT: Final = "general.alignment"
#: ggml's limit.
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


def write_gguf(
    path: str | os.PathLike[str],
    tensors: Mapping[str, Tensor | Blocks],
    metadata: Mapping[str, Any] | None = None,
) -> None:
    """Write tensors, each exactly as it is, to a GGUF file.

    Args:
        path: where to; the file is replaced in one step or, on an error, not.
        tensors: by name. Dense ones, codes with a float16 scale for each 32 of the last
            axis (`Q8_0`, `Q4_0`), or `Blocks`: those of `Blocks.quantize`, or of
            another file.
        metadata: by key: `str`, `bool`, NumPy scalars and arrays, whose types are kept;
            Python's `int`, or a list of them, is int32 if that holds them, else int64;
            a `float` is float64.

    Raises:
        StorageError: the package gguf is absent, a tensor that no type of blocks holds
            exactly, more than 4 axes, metadata of another type, or a place that cannot
            be written.

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
        raise StorageError(f"a {kind} has no names", 'Give {"name": tensor}')
    if not isinstance(metadata, Mapping | None):
        problem = f"metadata is {shown(metadata)}"
        raise StorageError(problem, 'Give {"key": value}')
    keys, target = dict(metadata or {}), place(path, "path")
    alignment = _require_alignment(keys.get(ALIGNMENT, 32))
    blocks = {name: _to_blocks(name, x) for name, x in tensors.items()}
    pieces = list(_pieces(blocks, keys, alignment))
    try:
        with replacing(target) as file:
            file.writelines(pieces)
    except OSError as error:
        raise StorageError(
            f"{path} cannot be written: {error.strerror or error}",
            "Choose a folder that exists and is writable",
        ) from None


def _require_alignment(given: Any) -> int:
    is_power = isinstance(given, int | np.integer) and given > 0
    if not is_power or given & (given - 1) or given > 2**20:
        raise StorageError(f"{ALIGNMENT} is {shown(given)}", "Use a power of 2")
    return int(given)


def _to_blocks(name: Any, x: Any) -> Blocks:
    found = x if isinstance(x, Blocks) else Blocks.of(x)
    if len(found.shape) > _AXES:
        raise StorageError(
            f"{shown(name)} has {len(found.shape)} axes, GGUF at most {_AXES}",
            "Use reshape",
        )
    return found


def _pieces(
    blocks: Mapping[str, Blocks], keys: Mapping[str, Any], alignment: int
) -> Iterator[Any]:
    """The bytes of the file; those of blocks are not copied."""
    head = [b"GGUF", struct.pack("<IQQ", VERSION, len(blocks), len(keys))]
    for key, value in keys.items():
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


def _encode_text(given: Any) -> bytes:
    try:
        data: bytes = given.encode()
    except (AttributeError, UnicodeEncodeError):
        problem = f"{shown(given)} is no text"
        raise StorageError(problem, "Use str(value)") from None
    return struct.pack("<Q", len(data)) + data


def _encode_value(key: str, value: Any) -> bytes:
    """The type of a value and the value."""
    if isinstance(value, str):
        return struct.pack("<I", _STRING) + _encode_text(value)
    is_list = isinstance(value, list | tuple)
    if is_list and value and all(isinstance(text, str) for text in value):
        head = struct.pack("<IIQ", _ARRAY, _STRING, len(value))
        return head + b"".join(map(_encode_text, value))
    found = np.asarray(_narrow_integers(value))
    if found.dtype not in _NUMBERS or found.ndim > 1:
        raise StorageError(
            f"{shown(key)} is {shown(value)}",
            "Use a text, a truth value, a number, or a row of them",
        )
    code = _NUMBERS[found.dtype]
    if found.ndim:
        return struct.pack("<IIQ", _ARRAY, code, found.size) + found.tobytes()
    return struct.pack("<I", code) + found.tobytes()


def _narrow_integers(value: Any) -> Any:
    """Python integers in 32 bits, if they hold them; all else as it is."""
    row = value if isinstance(value, list | tuple) and value else [value]
    if all(type(x) is int and -(2**31) <= x < 2**31 for x in row):
        return np.asarray(value, np.int32)
    return value


# GGUF files, mapped into memory: names, types and texts are read, tensors on use.


class GGUFFile(Mapping[str, Blocks]):
    """The tensors of a file by name, and its metadata.

    Attributes:
        metadata: by key: NumPy scalars and arrays of the type that the file names,
            `bool`, `str` and lists of `str`.
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


def read_gguf(path: str | os.PathLike[str]) -> GGUFFile:
    """The tensors of a GGUF file, as blocks that are decoded when that is asked for.

    Args:
        path: where it is; while it is used, nobody may shorten it.

    Raises:
        StorageError: the package gguf is absent, there is no such file, it is damaged,
            or written for the other order of bytes.

    Example:
        >>> from mdtensor.quant import write_gguf
        >>> write_gguf("a.gguf", {"w": md.ones((2, 32))}, {"general.name": "a"})
        >>> file = read_gguf("a.gguf")
        >>> file.metadata, file["w"]
        ({'general.name': 'a'}, Blocks(F32, shape=(2, 32), 256 bytes))

    Source: ggml, `docs/gguf.md`.
    """
    package, path = gguf_package(), place(path, "path")
    try:
        if not path.stat().st_size:  # which cannot be mapped
            raise EOFError
        with np.errstate(all="ignore"):
            reader = _reader_class(package)(path)
        if reader.endianess is not package.GGUFEndian.LITTLE:
            raise StorageError(f"{path} has big-endian numbers", "Convert it")
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
    except Exception:  # whatever the package's reader meets in a damaged file
        raise StorageError(
            f"{path} is no GGUF file, or it is damaged", "Copy it again"
        ) from None


def _reader_class(package: Any) -> Any:
    """The package's reader, which else sees an endless array behind the last byte."""

    class Reader(package.GGUFReader):  # type: ignore[misc]
        def _get(
            self, offset: int, dtype: Any, count: int = 1, override_order: Any = None
        ) -> Any:
            end = int(offset) + np.dtype(dtype).itemsize * int(count)
            if end > self.data.size:
                raise EOFError
            return super()._get(int(offset), dtype, count, override_order)

    return Reader


def _parse_value(field: Any, package: Any) -> Any:
    """What a key has, in the type that the file gives it."""
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
    empty = np.empty(0, package.GGUFReader.gguf_scalar_to_np[inner])
    return np.concatenate([empty, *parts])


def _parse_text(part: npt.NDArray[np.uint8]) -> str:
    return part.tobytes().decode()


def _to_python_bool(scalar: Any) -> Any:
    return bool(scalar) if isinstance(scalar, np.bool_) else scalar


def _parse_blocks(tensor: Any, reader: Any) -> Blocks:
    start, stop = tensor.data_offset, tensor.data_offset + tensor.n_bytes
    data = reader.data[start:stop].view(np.ndarray)
    shape = tuple(int(size) for size in reversed(tensor.shape))
    return Blocks(tensor.tensor_type.name, data, shape)
