"""Searches for a trace, kept on disk by what the trace computes and by the CPU."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from mdtensor.graph.search import Found, Tried, search
from mdtensor.graph.trace import WAYS, Trace

#: The version of what is searched, and how: files of others are not read.
VERSION = 1


def search_trace(trace: Trace, tensors: Sequence[Any], seconds: float) -> Found:
    """Return the fastest way to run a trace, searched now or earlier.

    Args:
        trace: the calls.
        tensors: what the function took.
        seconds: the budget.
    """
    file = _file(trace)
    found = None if file is None else _read(file)
    if found is not None:
        return found
    made = {name: trace.as_way(name) for name in WAYS}
    # Without a generated loop it is the default once more.
    if not made["generated"].loops:
        del made["generated"]
    ways = {name: partial(_run, way) for name, way in made.items()}
    found = search(ways["calls"], ways, tensors, seconds)
    # A search that ran out of time is made again.
    if file is not None and not any(one.why.startswith("not") for one in found.tried):
        _write(file, found)
    return found


def _run(trace: Trace, *tensors: Any) -> Any:
    return trace.run(tensors)


def _file(trace: Trace) -> Path | None:
    """Return where the result is kept; None if this machine keeps nothing."""
    # It loads numba.
    from mdtensor.kernels.cpu import jit

    # The folder is that of the CPU, and of the sources of kernels.
    folder: Path | None = jit.cache_folder()
    text = hashlib.sha256(f"{VERSION} {sorted(WAYS)}\n{trace}".encode()).hexdigest()
    return None if folder is None else folder / f"search-{text[:32]}.json"


def _read(file: Path) -> Found | None:
    """Return a kept result; None if there is none, or it is damaged."""
    try:
        best, default, tried, noise = json.loads(file.read_text())
        rows = tuple(Tried(str(n), float(s), str(why)) for n, s, why in tried)
        if best not in WAYS:
            return None
        return Found(best, str(default), rows, float(noise), is_kept=True)
    except (OSError, ValueError, TypeError):
        return None


def _write(file: Path, found: Found) -> None:
    from mdtensor.kernels.cpu import jit

    try:
        jit.write_entry(file, json.dumps(found[:-1]).encode())
    except OSError:
        return  # a full disk; the next process searches again
