"""float32 arrays whose function is compiled, the one that plans of networks run.

NumPy's own functions round otherwise, and otherwise on another CPU (decision 0067).
Other types stay NumPy's. The compiler or the library of kernels is loaded at the first
call of such a function, not by `import mdtensor`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, wraps
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
FLOAT32 = np.dtype(np.float32)

#: NumPy's functions that have a compiled one, and its name.
COMPILED = {np.exp: "exp", np.log: "log", np.tanh: "tanh"}


@cache
def _calls() -> dict[str, Callable[..., Array]]:
    """Return the compiled calls by name."""
    # Import late: `import mdtensor` must not choose kernels (decision 0002).
    from mdtensor.kernels.cpu.float_calls import CALLS

    return CALLS


def call(name: str, x: Array, *options: Any) -> Array:
    """Return what a compiled call returns for a float32 array."""
    return _calls()[name](x, *options)


def compiled(function: Callable[..., Array]) -> Callable[..., Array]:
    """Decorate a function to run the compiled call of its name for float32."""

    @wraps(function)
    def run(x: Array, *options: Any) -> Array:
        if x.dtype == FLOAT32:
            return call(function.__name__, x, *options)
        return function(x, *options)

    return run
