"""The modules of `mdtensor.kernels.cuda`, each imported when it is first used.

`mdtensor.cuda` has the types of a GPU on every machine, and most machines have no GPU.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_MODULES = {"driver", "exchange", "gpu"}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    # Kept: launches look it up.
    found = globals()[name] = import_module(f"mdtensor.kernels.cuda.{name}")
    return found
