"""The modules of kernels that a GPU needs, each imported when it is first used.

`mdtensor.cuda` has the types of a GPU on every machine, and most machines have no GPU.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_MODULES = {
    "blas": "mdtensor.kernels.cuda.blas",
    "cuda": "mdtensor.kernels.loops.cuda",
    "driver": "mdtensor.kernels.cuda.driver",
    "exchange": "mdtensor.kernels.cuda.exchange",
    "gpu": "mdtensor.kernels.cuda.gpu",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    # Kept: launches look it up.
    found = globals()[name] = import_module(_MODULES[name])
    return found
