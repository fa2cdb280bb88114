"""The table of operators: which function reads which."""

from __future__ import annotations

from collections.abc import Callable

from mdtensor.quant.model.onnx.build import Builder, Operator

Reader = Callable[[Builder, Operator], None]
READERS: dict[str, Reader] = {}


def reads(*kinds: str) -> Callable[[Reader], Reader]:
    """Enter a function in the table of operators."""

    def enter(reader: Reader) -> Reader:
        READERS.update(dict.fromkeys(kinds, reader))
        return reader

    return enter
