"""The stub files of a package: their texts, and where they are."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import ModuleType

from mdtensor import dtypes, extend, operators
from mdtensor.device import cpu
from mdtensor.dispatch.operation import Operation, operations
from mdtensor.stubs import members as creation, members as infix, sources
from mdtensor.stubs.members import attributes
from mdtensor.stubs.overloads import (
    INDENT,
    Calls,
    Overload,
    call_class,
    function,
    of_arrays,
    signature,
)
from mdtensor.stubs.probe import Spelling
from mdtensor.stubs.sources import Skeleton, namespace
from mdtensor.tensor import leaf, leaves

#: The stub of the types of operations; the module does not exist at run time.
CALLS = "mdtensor._calls"
#: The module whose types a loop declares, which type checkers cannot follow.
CUDA = "mdtensor.cuda"
HEADER = '''"""Types for type checkers, written by `mdtensor stubs`: do not edit.

They come from the operations and methods that are registered, under the default
promotion rules. `mdtensor stubs --check` tells what has changed since.
"""

# mypy: disable-error-code="assignment, misc, overload-cannot-match, overload-overlap"
# mypy: disable-error-code="override"
'''
OTHERS = """
from mdtensor import _calls
"""
NAMES = """
from typing import Final

from mdtensor import _calls
from mdtensor.dtypes import {dtype}
"""
TYPING = """
from array import array
from collections.abc import Collection, Sequence
from typing import Any, Generic, NamedTuple, TypeAlias, overload

import numpy as np
from numpy.typing import NDArray
from typing_extensions import TypeVar

from mdtensor.device import Device
from mdtensor.dispatch import Operation
from mdtensor.dispatch.method import Selection
from mdtensor.dtypes import DType
from mdtensor.generics.conv import OutputSize as OutputSize
from mdtensor.spec.options import DTypeName as DTypeName
from mdtensor.spec.shapes import Axes as Axes, Integers as Integers
from mdtensor.tensor import Tensor
"""
WORDS = """
_E = TypeVar("_E")
_T = TypeVar("_T", bound=Tensor)
Shape: TypeAlias = int | Sequence[int]
Nested: TypeAlias = _E | Sequence["Nested[_E]"]
"""
BASE = '''
class Call:
    """An operation; the classes below say what its calls give."""

    __name__: str
    operation: Operation
    def select(self, *types: type) -> Selection: ...
'''
SELF = """
from collections.abc import Collection, Sequence
from typing import Self, overload

from mdtensor.device import Device
from mdtensor.dtypes import DType
from mdtensor.tensor import Tensor
"""
LATER = "_LATER: dict[str, tuple[str, str]]"
SIBLINGS = """
from mdtensor.gpu.device import Cuda
"""
DTYPES = """
from typing import Generic, overload
from typing_extensions import TypeVar

_T_co = TypeVar("_T_co", covariant=True, default=Any)
"""


# Stubs are generated, because overloads by hand are true only until the first change
# (decision 0014). They stay in git, and a check compares them with their source
# (decision 0049).
class Package:
    """The stubs of a package and of the packages that extend it.

    Args:
        spaces: the modules whose public names get types.
        others: modules of other packages that declare operations.
    """

    def __init__(
        self, spaces: Iterable[ModuleType], others: Iterable[ModuleType] = ()
    ) -> None:
        self.spaces, self.others = list(spaces), list(others)
        self.spelling = Spelling(tuple(t for t in leaves() if t.device is cpu))
        self.calls = Calls(self.spelling)
        self.classes: dict[tuple[str, ...], str] = {}
        self.names: dict[Operation, str] = {}

    def files(self) -> dict[str, str]:
        """Return the text of each stub by the name of its module."""
        self._name_classes()
        made = self._creation_functions()
        found = {CALLS: self._calls(made), "mdtensor.operators": self._operators()}
        found["mdtensor.dtypes"] = self._dtypes()
        found[extend.__name__] = self._extension()
        found[CUDA] = self._siblings()
        for grid in {type(grid) for grid in self.calls.grids}:
            found[grid.__module__] = self._grids(grid)
        # These names exist only in the stub of the calls, so the others import them.
        moved = dict.fromkeys([*self.spelling.tuples, *made], CALLS)
        for space in self.spaces:
            lines = namespace(space, self.names.__getitem__, moved)
            found[space.__name__] = self._space(space, lines)
        for module in self.others:
            found[module.__name__] = self._other(module)
        return found

    def _siblings(self) -> str:
        """Return the stub of the tensor types of a GPU, which a loop declares."""
        kinds = [kind for kind in leaves() if kind.__module__ == CUDA]
        above = sorted({kind.__base__.__name__ for kind in kinds if kind.__base__})
        lines = [f"class {k.__name__}({k.__base__.__name__}): ..." for k in kinds]  # type: ignore[union-attr]
        imports = f"from mdtensor.types import {', '.join(above)}"
        names = ["cuda", *(kind.__name__ for kind in kinds)]
        return _join_lines(
            HEADER, SIBLINGS, imports, f"__all__ = {names!r}", "cuda: Cuda", *lines
        )

    def _extension(self) -> str:
        """Return the stub of the names for packages, some of them imported on use."""
        later = [
            f"from {home} import {there} as {name}"
            for name, (home, there) in sorted(extend._LATER.items())
        ]
        text = Skeleton({}, {}, {}, exported=extend.__all__).of(extend)
        names = f"__all__ = {sorted(extend.__all__)!r}"
        return _join_lines(HEADER, *later, LATER, names, text)

    def _space(self, space: ModuleType, lines: list[str]) -> str:
        typed = "\n".join(line for line in lines if ": Final" in line)
        dtype = "DType as DType" if hasattr(space, "DType") else "DType"
        head = NAMES.format(dtype=dtype) if typed else OTHERS
        return _join_lines(HEADER, head, *self._imports(typed, space.__name__), *lines)

    def _other(self, module: ModuleType) -> str:
        """Return the stub of a module of another package that declares operations."""
        named = {
            name: self.names[value.operation]
            for name, value in vars(module).items()
            if isinstance(getattr(value, "operation", None), Operation)
        }
        types = {
            name: f"Final[DType[{self.spelling.name(leaf(value))}]]"
            for name, value in vars(module).items()
            if isinstance(value, dtypes.DType)
        }
        text = Skeleton({}, {}, types, named).of(module)
        imports = self._imports(" ".join(types.values()), module.__name__)
        return _join_lines(HEADER, NAMES.format(dtype="DType"), *imports, text)

    def _name_classes(self) -> None:
        """Name one class for all operations with equal signatures."""
        alike: dict[tuple[str, ...], list[Operation]] = {}
        # Sorted, so that the names of classes do not depend on the order of imports.
        for _, call in sorted(operations().items()):
            overloads = self.calls.overloads(call.operation)
            if overloads:
                overloads = [*overloads, *of_arrays(call.operation)]
            else:
                # An option decides the type of the result.
                places = ("Any",) * len(call.operation.dispatched)
                overloads = [Overload(places, "Any")]
            key = tuple(signature(call.operation, o) for o in overloads)
            alike.setdefault(key, []).append(call.operation)
        for key, members in alike.items():
            first = "".join(word.title() for word in members[0].name.split("_"))
            self.classes[key] = f"Like{first}" if len(members) > 1 else first
            self.names |= dict.fromkeys(members, self.classes[key])

    def _creation_functions(self) -> dict[str, list[str]]:
        """Return the lines of the functions that make tensors, by name."""
        found = {}
        for space in self.spaces:
            # `dir` also has the names that are imported on use.
            for name in creation.NAMES & set(dir(space)):
                signatures = list(creation.overloads(name, getattr(space, name)))
                # `function` indents its lines for a class; these stand in a module.
                found[name] = [line[4:] for line in function(name, signatures)]
        return dict(sorted(found.items()))

    def _calls(self, made: dict[str, list[str]]) -> str:
        body = [line for lines in made.values() for line in lines]
        for key, name in self.classes.items():
            body += ["", *call_class(name, list(key))]
        tuples = _tuples(self.spelling.tuples.values())
        aliases = self.spelling.aliases()
        variables = [
            f'{name} = TypeVar("{name}", bound={bound})'
            for name, bound in sorted(self.spelling.variables.items())
        ]
        text = "\n".join([*aliases, *variables, *body])
        imports = self._imports(text, CALLS)
        variables += creation.variables()
        lines = (*imports, WORDS, *aliases, "", *variables, "", *tuples, BASE)
        return _join_lines(HEADER, TYPING, *lines, *body)

    def _imports(self, text: str, within: str) -> Iterator[str]:
        """Yield the imports that `text`, in the stub of `within`, needs."""
        words = set(re.findall(r"\w+", text)) - {"Tensor"}
        homes: dict[str, list[str]] = {}
        for found in self.spelling.imported:
            if found.__name__ in words:
                homes.setdefault(found.__module__, []).append(found.__name__)
        if within != CALLS:
            known = {line.split(":")[0] for line in self.spelling.aliases()}
            known |= {
                "Axes",
                "DTypeName",
                "Integers",
                "Nested",
                "OutputSize",
                "Shape",
                "_T",
            }
            known |= {*self.spelling.variables, *self.spelling.tuples}
            homes[CALLS] = sorted(words & known)
        spaces = [space.__name__ for space in self.spaces]
        for home, names in sorted(homes.items()):
            if home == within or not names:
                continue
            # An import of names from a package that imports this stub would be a cycle.
            if within in (CALLS, operators.__name__) and self._is_stranger(home):
                last = home.rpartition(".")[2]
                yield f"import {home} as _{last}"
                yield from (f"{name} = _{last}.{name}" for name in sorted(names))
            else:
                shown = (
                    f"{n} as {n}" if within in spaces else n for n in sorted(names)
                )
                yield f"from {home} import {', '.join(shown)}"

    def _is_stranger(self, home: str) -> bool:
        """Return whether a module imports the package, which would close a cycle.

        mypy resolves `from x import C` at once, but `import x` only on use.
        """
        known = [space.__name__ for space in self.spaces]
        strangers = [name for name in known if hasattr(sys.modules[name], "__path__")]
        inside = [name for name in strangers if home.startswith(f"{name}.")]
        return inside != [__package__.partition(".")[0]]

    def _operators(self) -> str:
        replaced = infix.methods(self.calls)
        text = Skeleton(replaced, {}, {}).of(operators)
        head = f"class {operators.Operators.__name__}:\n"
        bound = "\n".join(attributes(self.calls))
        text = text.replace(head, f"{head}{bound}\n")
        imports = self._imports(text, operators.__name__)
        return _join_lines(HEADER, SELF, *imports, text)

    def _dtypes(self) -> str:
        """Return the stub of the element types, generic in the type of tensors."""
        signatures = ["(name: DType[_T_co]) -> DType[_T_co]", "(name: object) -> DType"]
        replaced = {"dtype": [line[4:] for line in function("dtype", signatures)]}
        known = {n for n, v in vars(dtypes).items() if isinstance(v, dtypes.DType)}
        constants = dict.fromkeys(known, "Final[DType]")
        text = Skeleton(replaced, {"DType": "Generic[_T_co]"}, constants).of(dtypes)
        return self._generic(dtypes, text)

    def _grids(self, grid: type) -> str:
        """Return the stub of the module of a class of grids."""
        module = sys.modules[grid.__module__]
        return self._generic(module, sources.skeleton(grid).of(module))

    def _generic(self, module: ModuleType, text: str) -> str:
        """Return a stub whose classes are generic in a type of tensors."""
        return _join_lines(HEADER, DTYPES, *self._imports(text, module.__name__), text)


def _tuples(found: Iterable[type]) -> Iterator[str]:
    """Yield the lines of named tuples that are generic in their members."""
    known: set[str] = set()
    for t in found:
        fields: tuple[str, ...] = t._fields  # type: ignore[attr-defined]
        names = [f"_{field.title().replace('_', '')}T" for field in fields]
        for name in names:
            if name not in known:
                yield f'{name} = TypeVar("{name}")'
        known |= set(names)
        yield f"class {t.__name__}(NamedTuple, Generic[{', '.join(names)}]):"
        yield f'{INDENT}"""{inspect.getdoc(t)}"""'
        yield from (f"{INDENT}{f}: {n}" for f, n in zip(fields, names, strict=True))
        yield ""


def _join_lines(*lines: str) -> str:
    return "\n".join(lines) + "\n"


# Paths of stubs: next to their modules, or in a folder of your choice.


def places(files: dict[str, str], output: Path | None = None) -> dict[Path, str]:
    """Return the text of each stub by its path.

    Args:
        files: texts by the names of modules.
        output: the folder for packages of stubs; by default next to the modules.
    """
    return {_place(name, output): text for name, text in files.items()}


def _place(name: str, output: Path | None) -> Path:
    above, _, last = name.rpartition(".")
    module = sys.modules.get(name)
    is_package = hasattr(module, "__path__")
    if output is not None:
        path = output.joinpath(*name.split("."))
        return path / "__init__.pyi" if is_package else path.with_suffix(".pyi")
    if module is None:
        return _place(above, None).with_name(f"{last}.pyi")
    return Path(str(module.__file__)).with_suffix(".pyi")


def outdated(files: dict[Path, str]) -> list[Path]:
    """Return the paths of stubs that are missing or differ from the given text."""
    return [p for p, text in files.items() if not p.exists() or p.read_text() != text]
