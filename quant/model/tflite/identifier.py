"""The bytes and the name by which a TFLite file is known.

A process that reads no such file does not import the reader.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

#: Bytes 4 to 7 of a file, as the schema says.
IDENTIFIER = b"TFL3"


def is_tflite_name(path: Path) -> bool:
    """Return whether a file has the name of a TFLite file."""
    return path.suffix.lower() == ".tflite"


def is_tflite(path: Any) -> bool:
    """Return whether a path leads to a TFLite file, by its content or its name."""
    place = Path(path)
    try:
        with place.open("rb") as file:
            start = file.read(8)
    except (OSError, ValueError):
        start = b""
    return start[4:] == IDENTIFIER or is_tflite_name(place)
