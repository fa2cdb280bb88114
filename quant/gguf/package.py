"""The package gguf, on use: the types of blocks and what their bits mean."""

from functools import cache
from typing import Any

import numpy as np

from mdtensor import StorageError
from mdtensor.errors import shown


def gguf_package() -> Any:
    """The package.

    Raises:
        StorageError: it is not installed.
    """
    try:
        import gguf
    except ImportError:
        raise StorageError(
            "GGUF files need the package gguf",
            "Install it with `pip install mdtensor[gguf]`",
        ) from None
    return gguf


def block_type(name: Any) -> Any:
    """The package's member for a type of blocks, such as `Q8_0`.

    Raises:
        StorageError: there is no type of this name.
    """
    types = gguf_package().GGMLQuantizationType
    if not isinstance(name, str) or name not in types.__members__:
        raise StorageError(
            f"{shown(name)} is no type of blocks", f"Use {', '.join(types.__members__)}"
        )
    return types[name]


@cache
def writable() -> tuple[str, ...]:
    """The types that the package quantizes to.

    Raises:
        StorageError: the package is not installed.
    """
    package = gguf_package()
    types = package.GGMLQuantizationType
    return tuple(t.name for t in types if _is_written(package, t))


def _is_written(package: Any, type: Any) -> bool:
    try:
        elements = package.GGML_QUANT_SIZES[type][0]
        package.quants.quantize(np.zeros((1, elements), np.float32), type)
    except (NotImplementedError, KeyError):
        return False
    return True


def sizes_of(name: str) -> tuple[int, int]:
    """How many elements a block of the type has, and how many bytes."""
    elements, width = gguf_package().GGML_QUANT_SIZES[block_type(name)]
    return int(elements), int(width)
