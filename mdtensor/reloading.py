"""Detection of modules that run again, by `importlib.reload` or IPython's autoreload.

A reload declares the same objects once more. Registries accept them in the place of the
first ones, and still refuse a name that two different modules declare.
"""

from __future__ import annotations

import sys
from typing import NamedTuple


class Origin(NamedTuple):
    """The run of a module that declared an object."""

    module: str
    file: str | None
    #: Each run of a module has a spec of its own.
    spec: object


#: The last run of each module.
_KNOWN: dict[str, Origin] = {}


def origin_of(module: object) -> Origin:
    """Return the current run of the module with this name."""
    name = f"{module}"
    spec = getattr(sys.modules.get(name), "__spec__", None)
    known = _KNOWN.get(name)
    # A module declares many objects.
    if known is None or known.spec is not spec:
        known = _KNOWN[name] = Origin(name, getattr(spec, "origin", None), spec)
    return known


def caller_origin(depth: int) -> Origin:
    """Return the run of the module `depth` calls above the caller of this function."""
    return origin_of(sys._getframe(depth + 1).f_globals.get("__name__"))


def is_reload(before: Origin, now: Origin) -> bool:
    """Return whether the same module runs again."""
    is_same_module = before.file is not None and before[:2] == now[:2]
    return is_same_module and before.spec is not now.spec
