"""Ask a peer for its promotion table. By hand: the tests read what it wrote.

    python tests/promotion/generate.py jax        # jax 0.10.2, x64 enabled
    python tests/promotion/generate.py torch      # torch 2.13
    python tests/promotion/generate.py array_api  # array_api_strict 2.6

Writes `<peer>.json` beside this file. Run it with a Python that has the peer; a cell
that the peer refuses, or would fill with a type we do not have, is left out.
"""

import importlib
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

NAMES = [
    "bool",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "float16",
    "bfloat16",
    "float32",
    "float64",
    "complex64",
    "complex128",
]
SCALARS = [True, 1, 1.0, 1j]
Ask = Callable[[str, Any], str]


def jax() -> Ask:
    """`jnp.promote_types`; with a scalar `jnp.result_type`; 64 bits enabled."""
    peer = importlib.import_module("jax")
    peer.config.update("jax_enable_x64", True)
    numpy = peer.numpy

    def ask(row: str, column: Any) -> str:
        if isinstance(column, str):
            return str(numpy.promote_types(row, column))
        return str(numpy.result_type(numpy.dtype(row), column))

    return ask


def torch() -> Ask:
    """`torch.promote_types`; with a scalar `torch.result_type` of a 1-d tensor."""
    peer = importlib.import_module("torch")

    def ask(row: str, column: Any) -> str:
        mine = getattr(peer, row)
        if isinstance(column, str):
            found = peer.promote_types(mine, getattr(peer, column))
        else:
            found = peer.result_type(peer.zeros(1, dtype=mine), column)
        return str(found).removeprefix("torch.")

    return ask


def array_api() -> Ask:
    """`array_api_strict.result_type`; the standard has no float16 and no bfloat16."""
    peer = importlib.import_module("array_api_strict")

    def ask(row: str, column: Any) -> str:
        if row.endswith("float16") or str(column).endswith("float16"):
            raise TypeError("not in the standard")
        mine = getattr(peer, row)
        if isinstance(column, str):
            return name(peer.result_type(mine, getattr(peer, column)))
        return name(peer.result_type(peer.zeros(1, dtype=mine), column))

    def name(dtype: Any) -> str:
        return str(dtype).removeprefix("array_api_strict.")

    return ask


def cell(ask: Ask, row: str, column: Any) -> str | None:
    """What the peer says, None where it refuses or has no such type here."""
    try:
        found = ask(row, column)
    except (TypeError, RuntimeError):
        return None
    return found if found in NAMES else None


def table(ask: Ask) -> dict[str, dict[str, str]]:
    rows = {a: {b: cell(ask, a, b) for b in NAMES} for a in NAMES}
    for value in SCALARS:
        kind = f"Python {type(value).__name__}"
        rows[kind] = {name: cell(ask, name, value) for name in NAMES}
    return {
        row: {column: found for column, found in cells.items() if found}
        for row, cells in rows.items()
    }


def main(peer: str) -> None:
    asks: dict[str, Callable[[], Ask]] = {
        "jax": jax,
        "torch": torch,
        "array_api": array_api,
    }
    rows = table(asks[peer]())
    package = "array_api_strict" if peer == "array_api" else peer
    found = {
        "peer": f"{package} {importlib.import_module(package).__version__}",
        "asked": asks[peer].__doc__,
        "command": f"python tests/promotion/generate.py {peer}",
        "cells": rows,
    }
    lines = [f'  "{row}": {json.dumps(cells)}' for row, cells in rows.items()]
    head = json.dumps({k: v for k, v in found.items() if k != "cells"}, indent=1)
    text = head[:-2] + ',\n "cells": {\n' + ",\n".join(lines) + "\n }\n}\n"
    assert json.loads(text) == found
    Path(__file__).with_name(f"{peer}.json").write_text(text)


if __name__ == "__main__":
    main(sys.argv[1])
