"""The functions that a package declares or adds methods to."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from types import ModuleType
from typing import Any

import plum

from mdtensor.diagnose.source import source
from mdtensor.dispatch.operation import operations
from mdtensor.tensor import leaves


def functions_of(packages: Iterable[str]) -> tuple[Any, ...]:
    """The operations and functions of plum that imported packages have a part in.

    Those that a package declares, and those of others that it has methods for, if it
    has them under a name. Modules that are not imported yet are not looked at.

    Args:
        packages: names of packages or modules, what lies below them included.

    Example:
        >>> import mdtensor.quant
        >>> found = functions_of(["mdtensor.quant"])
        >>> {"add", "quantize"} <= {f.__name__ for f in found}
        True

    Source: ours.
    """
    wanted = tuple(packages)
    modules = [m for name, m in sorted(sys.modules.items()) if _inside(name, wanted)]
    found = {id(call): call for call in _candidates(filter(None, modules))}
    return tuple(call for call in found.values() if _has_part(call, wanted))


def brings_types(packages: Iterable[str]) -> bool:
    """Whether tensors that operations are called with are of classes from there.

    Args:
        packages: as of `functions_of`.

    Example:
        >>> brings_types(["mdtensor.quant"]), brings_types(["mdtensor.linalg"])
        (True, False)
    """
    wanted = tuple(packages)
    return any(_inside(leaf.__module__, wanted) for leaf in leaves())


def _candidates(modules: Iterable[ModuleType]) -> Iterator[Any]:
    yield from operations().values()
    for module in modules:
        for value in list(vars(module).values()):
            if isinstance(value, plum.Dispatcher):
                for group in (value.functions, *value.classes.values()):
                    yield from group.values()
            elif isinstance(value, plum.Function):
                yield value


def _has_part(call: Any, wanted: tuple[str, ...]) -> bool:
    found = source(call)
    methods = [*found.methods, *(broken.method for broken in found.unresolved)]
    homes = {str(call.__module__), *(method.module for method in methods)}
    return any(_inside(home, wanted) for home in homes)


def _inside(name: str, wanted: tuple[str, ...]) -> bool:
    return any(name == each or name.startswith(f"{each}.") for each in wanted)
