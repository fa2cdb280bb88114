"""Source locations of functions, relative to their package."""

from __future__ import annotations

import functools
import inspect
from typing import Any


def place_of(function: Any) -> str:
    """Return `package/file.py:line` of a function; the bare name of a builtin."""
    # A wrapper's own line would hide the function that does the work.
    found: Any = inspect.unwrap(function)
    while isinstance(found, functools.partial):
        found = found.func
    module = getattr(found, "__module__", None) or type(found).__module__
    written = found if hasattr(found, "__code__") else type(found).__call__
    if not hasattr(written, "__code__"):
        return f"{module}.{getattr(found, '__name__', type(found).__name__)}"
    code = written.__code__
    file = code.co_filename.rsplit("/", 1)[-1]
    names = module.split(".")
    # A package is the folder of its `__init__.py`, a module is a file.
    place = "/".join([*(names if file == "__init__.py" else names[:-1]), file])
    return f"{place}:{code.co_firstlineno}"
