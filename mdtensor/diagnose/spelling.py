"""How the module of a method reaches a class: what is proposed can be pasted there."""

from __future__ import annotations

import builtins
import inspect
import sys
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import plum

from mdtensor.diagnose.hints import Hint, type_name
from mdtensor.diagnose.source import Source
from mdtensor.dispatch.operation import method


@dataclass(frozen=True, eq=False)
class Scope:
    """The names of a module.

    Args:
        names: what each stands for.

    Example:
        >>> import collections.abc
        >>> scope = Scope({"c": collections, "Own": Scope})
        >>> tuple(map(scope.spelled, (collections.abc.Sized, Scope, int)))
        ('c.abc.Sized', 'Own', 'int')
    """

    names: Mapping[str, Any]

    @classmethod
    def of(cls, implementation: Callable[..., Any]) -> Scope:
        """Of the module that a function was written in."""
        return cls(getattr(inspect.unwrap(implementation), "__globals__", {}))

    def spelled(self, cls: type) -> str:
        """A class as it is written here, or after the import that it wants."""
        if cls is type(None):
            return "None"
        found = self._reached(cls, cls.__module__, cls.__qualname__.split("."))
        return found or (cls.__qualname__ if _is_importable(cls) else type_name(cls))

    def annotation(self, kind: Hint) -> str:
        """A hint: `typing.Union`, since plum mistakes some `A | B` for others."""
        if kind.top:
            return self._of_typing("Any")
        if kind.exotic is not None:
            return str(kind)
        members = ", ".join(map(self.spelled, kind.members))
        if len(kind.members) == 1:
            return members
        return f"{self._of_typing('Union')}[{members}]"

    def imports(self, kinds: Iterable[Hint]) -> list[str]:
        """The imports that `annotation` wants for some hints."""
        found: dict[str, set[str]] = {}
        for kind in kinds:
            for module, name in self._wanted(kind):
                found.setdefault(module, set()).add(name)
        return [
            f"from {module} import {', '.join(sorted(names))}"
            for module, names in sorted(found.items())
        ]

    def _wanted(self, kind: Hint) -> Iterator[tuple[str, str]]:
        if kind.exotic is not None:
            return
        name = "Any" if kind.top else "Union" if len(kind.members) > 1 else ""
        if name and not self._reached(getattr(typing, name), "typing", [name]):
            yield "typing", name
        for cls in () if kind.top else kind.members:
            path = cls.__qualname__.split(".")
            here = self._reached(cls, cls.__module__, path)
            if not here and _is_importable(cls):
                yield cls.__module__, path[0]

    def _of_typing(self, name: str) -> str:
        return self._reached(getattr(typing, name), "typing", [name]) or name

    def decorator(self, found: Source) -> str:
        """What stands above a method of a function."""
        call = found.call
        name = self._reached(call, call.__module__, [found.short])
        if found.is_operation:
            declares = self._reached(method, method.__module__, ["method"])
            return f"@{declares or 'method'}({name or found.short})"
        for at, value in self.names.items():
            if isinstance(value, plum.Dispatcher) and _holds(value, call):
                return f"@{at}"
        return f"@{name}.dispatch" if name else "@dispatch"

    def _reached(self, value: Any, module: str, path: list[str]) -> str:
        """The name of a value here: bound, inside what is bound, or in a module."""
        if _follow(self.names, path) is value:
            return ".".join(path)
        bare = len(path) == 1 and path[0] not in self.names
        if bare and getattr(builtins, path[0], None) is value:
            return path[0]
        other = next((n for n, held in self.names.items() if held is value), "")
        return other or next(self._through_modules(value, module, path), "")

    def _through_modules(
        self, value: Any, module: str, path: list[str]
    ) -> Iterator[str]:
        """`np.ndarray`, or `collections.abc.Sized`, with the module it was made in."""
        modules = [(n, m) for n, m in self.names.items() if _is_module(m)]
        for name, held in modules:
            if _follow(vars(held), path) is value:
                yield ".".join([name, *path])
        for name, held in modules:
            inside = module.removeprefix(f"{held.__name__}.")
            way = [*inside.split("."), *path]
            if inside != module and _follow(vars(held), way) is value:
                yield ".".join([name, *way])


def _is_importable(cls: type) -> bool:
    """Whether its module has it under its name; of None nothing has."""
    home = sys.modules.get(cls.__module__)
    path = cls.__qualname__.split(".")
    return home is not None and _follow(vars(home), path) is cls


def _is_module(value: Any) -> bool:
    return type(value) is types.ModuleType


def _holds(dispatcher: plum.Dispatcher, call: Any) -> bool:
    return any(known is call for known in dispatcher.functions.values())


def _follow(names: Mapping[str, Any], path: list[str]) -> Any:
    """What a dotted name stands for; nothing is computed on the way."""
    value: Any = None
    for at, name in enumerate(path):
        if at:
            is_open = isinstance(value, type) or _is_module(value)
            names = vars(value) if is_open else {}
        if name not in names:
            return None
        value = names[name]
    return value
