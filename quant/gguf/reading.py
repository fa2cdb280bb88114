"""GGUF files, mapped into memory: names, types and texts are read, tensors on use."""

import os
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from mdtensor import StorageError
from mdtensor.errors import shown
from mdtensor.quant.gguf.blocks import Blocks
from mdtensor.quant.gguf.package import gguf_package
from mdtensor.spec.options import place


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
            reader = _bounded(package)(path)
        if reader.endianess is not package.GGUFEndian.LITTLE:
            raise StorageError(f"{path} has big-endian numbers", "Convert it")
        metadata = {
            field.name: _read_value(field, package)
            for field in reader.fields.values()
            if not field.name.startswith("GGUF.")
        }
        return GGUFFile(
            {t.name: _read_blocks(t, reader) for t in reader.tensors}, metadata
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


def _bounded(package: Any) -> Any:
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


def _read_value(field: Any, package: Any) -> Any:
    """What a key has, in the type that the file gives it."""
    types = package.GGUFValueType
    kind = types(int(field.parts[2][0]))
    if kind is types.STRING:
        return _read_text(field.parts[-1])
    if kind is not types.ARRAY:
        return _number(field.parts[-1][0])
    inner = types(int(field.parts[3][0]))
    if inner is types.ARRAY:
        raise StorageError(f"{shown(field.name)} is an array of arrays")
    parts = [field.parts[at] for at in field.data]
    if inner is types.STRING:
        return [_read_text(part) for part in parts]
    empty = np.empty(0, package.GGUFReader.gguf_scalar_to_np[inner])
    return np.concatenate([empty, *parts])


def _read_text(part: npt.NDArray[np.uint8]) -> str:
    return part.tobytes().decode()


def _number(scalar: Any) -> Any:
    return bool(scalar) if isinstance(scalar, np.bool_) else scalar


def _read_blocks(tensor: Any, reader: Any) -> Blocks:
    start, stop = tensor.data_offset, tensor.data_offset + tensor.n_bytes
    data = reader.data[start:stop].view(np.ndarray)
    shape = tuple(int(size) for size in reversed(tensor.shape))
    return Blocks(tensor.tensor_type.name, data, shape)
