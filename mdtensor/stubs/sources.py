"""Stubs from the source of a module: the same names, with generated replacements."""

from __future__ import annotations

import ast
import inspect
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from types import ModuleType
from typing import Any

from mdtensor.dispatch.operation import Operation
from mdtensor.dtypes import DType
from mdtensor.stubs.overloads import function
from mdtensor.tensor import leaf

Named = Callable[[Operation], str]


def namespace(module: ModuleType, class_of: Named, made: dict[str, str]) -> list[str]:
    """Return the stub of a module that re-exports public names.

    Args:
        module: the module; it imports each public name under the same name.
        class_of: returns the class of an operation's calls.
        made: the stub modules from which generated names must be imported.
    """
    lines: list[str] = []
    for node in _tree(module).body:
        if isinstance(node, ast.ImportFrom):
            lines += _import(module, node, class_of, made)
        elif isinstance(node, ast.Assign):
            lines += _assign(module, node, class_of)
    # Names that `__getattr__` provides lazily are not bound in the source.
    for name in sorted({*dir(module)} - _bound_names(_tree(module))):
        found = getattr(module, name)
        if name.startswith("_"):
            continue
        at = found.__name__ if inspect.ismodule(found) else found.__module__
        home = at.rpartition(".")[0] if inspect.ismodule(found) else made.get(name, at)
        lines.append(f"from {home} import {name} as {name}")
    return lines


def _is_operation(value: Any) -> bool:
    return isinstance(getattr(value, "operation", None), Operation)


def _bound_names(tree: ast.Module) -> set[str]:
    """Return the names that the statements of a module bind."""
    found: set[str] = set()
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and node.names[0].name == "*":
            found |= set(sys.modules[str(node.module)].__all__)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            found |= {alias.asname or alias.name for alias in node.names}
        elif isinstance(node, ast.ClassDef | ast.FunctionDef):
            found.add(node.name)
        elif isinstance(node, ast.Assign):
            names = [n for target in node.targets for n in ast.walk(target)]
            found |= {n.id for n in names if isinstance(n, ast.Name)}
    return found


def _tree(module: ModuleType) -> ast.Module:
    return ast.parse(inspect.getsource(module))


def _import(
    module: ModuleType, node: ast.ImportFrom, class_of: Named, made: dict[str, str]
) -> Iterator[str]:
    names = [alias for alias in node.names if alias.name == "*" or alias.asname]
    # One import per home keeps the order of the source.
    by_home: dict[str, list[str]] = {}
    for alias in names:
        public = alias.asname or alias.name
        if public != "*" and public not in dir(module):
            continue
        found: Any = getattr(module, public, None)
        if _is_operation(found):
            yield from _operation(public, found.operation, class_of)
        elif isinstance(found, DType):
            yield _dtype(public, found)
        else:
            home = made.get(public, str(node.module))
            words = "*" if public == "*" else f"{alias.name} as {public}"
            by_home.setdefault(home, []).append(words)
    for home, listed in by_home.items():
        yield from _from(home, listed)


def _from(home: str, words: list[str]) -> Iterator[str]:
    if len(words) == 1:
        yield f"from {home} import {words[0]}"
        return
    yield f"from {home} import ("
    yield from (f"    {word}," for word in words)
    yield ")"


def _operation(name: str, operation: Operation, class_of: Named) -> Iterator[str]:
    yield f"{name}: _calls.{class_of(operation)}"
    summary = (inspect.getdoc(operation.declaration) or "").split("\n")[0]
    if summary:
        yield f'"""{summary}"""'


def _assign(module: ModuleType, node: ast.Assign, class_of: Named) -> Iterator[str]:
    """Yield the lines of assignments such as `subtract = sub` and `newaxis = None`."""
    for target in node.targets:
        names = target.elts if isinstance(target, ast.Tuple) else [target]
        for name in [n.id for n in names if isinstance(n, ast.Name)]:
            found = getattr(module, name)
            if _is_operation(found):
                yield from _operation(name, found.operation, class_of)
            elif isinstance(found, DType):
                yield _dtype(name, found)
            elif not name.startswith("_") or name.endswith("version__"):
                yield f"{name}: {_hint(found)}"


def _dtype(name: str, found: DType) -> str:
    """Return the line of an element type, generic in its tensors."""
    return f"{name}: Final[DType[{leaf(found).__name__}]]"


def _hint(value: Any) -> str:
    if isinstance(value, list):
        return f"list[{type(value[0]).__name__ if value else 'str'}]"
    return "None" if value is None else type(value).__name__


#: Functions of a module for names that its stub has.
LAZY = ("__getattr__", "__dir__")
#: The statements of a module that its stub keeps.
KEPT = (ast.Import, ast.ImportFrom, ast.ClassDef, ast.FunctionDef, ast.AnnAssign)


class Skeleton(ast.NodeTransformer):
    """A transformer from the source of a module to its stub.

    Args:
        replaced: new text for methods, by name.
        bases: new bases of classes, by name.
        constants: new annotations of names of the module.
        operations: the classes of the calls of its operations, by name.
        exported: imported names that other modules take from this one.
    """

    def __init__(
        self,
        replaced: dict[str, list[str]],
        bases: dict[str, str],
        constants: dict[str, str],
        operations: dict[str, str] | None = None,
        exported: Iterable[str] = (),
    ) -> None:
        self.replaced, self.bases, self.constants = replaced, bases, constants
        self.operations, self.exported = operations or {}, " ".join(exported)

    def of(self, module: ModuleType) -> str:
        """Return the text of the stub of `module`."""
        tree = _tree(module)
        body = [n for n in tree.body if isinstance(n, KEPT) or self._keeps(n)]
        body = [n for n in body if getattr(n, "name", "") not in LAZY]
        tree.body = [n for n in body if getattr(n, "module", "") != "__future__"]
        made = ast.fix_missing_locations(self.visit(tree))
        words = f"{ast.unparse(made)} {self.exported}"
        made.body = [n for n in made.body if _is_used(n, words)]
        text = ast.unparse(made)
        return re.sub(r"\n+(?= )", "\n", re.sub(r":\n +\.\.\.", ": ...", text))

    def visit_ClassDef(self, node: ast.ClassDef) -> Any:
        bases = self.bases.get(node.name)
        node.bases = [ast.parse(bases, mode="eval").body] if bases else node.bases
        node.keywords = [k for k in node.keywords if k.arg == "metaclass"]
        self.generic_visit(node)
        node.body = [n for n in node.body if not isinstance(n, ast.Expr)] or [_dots()]
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> Any:
        if node.name in self.operations:
            called = self.operations.get(node.name, "")
            # Methods follow under the same name and must not appear again.
            self.operations[node.name] = ""
            return ast.parse(called and f"{node.name}: _calls.{called}").body
        new = self.replaced.get(node.name)
        if new:
            return ast.parse("\n".join(new)).body
        node.body = [_dots()]
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> Any:
        name = ast.unparse(node.target)
        new = self.constants.get(name)
        node.annotation = ast.parse(new, mode="eval").body if new else node.annotation
        node.value = None
        return node

    def visit_Assign(self, node: ast.Assign) -> Any:
        name = ast.unparse(node.targets[0])
        if name in self.constants:
            return ast.parse(f"{name}: {self.constants[name]}").body
        return node if name == "__slots__" or self._keeps(node) else None

    def _keeps(self, node: ast.AST) -> bool:
        """Return whether stubs keep an assignment: an alias or a known constant."""
        if not isinstance(node, ast.Assign):
            return False
        is_known = ast.unparse(node.targets[0]) in self.constants
        return is_known or isinstance(node.value, ast.Subscript)


def _dots() -> ast.Expr:
    return ast.Expr(ast.Constant(...))


def _is_used(node: ast.stmt, text: str) -> bool:
    """Return whether the node is needed; remove unused names of an import."""
    if isinstance(node, ast.Import | ast.ImportFrom):
        names = [(alias, _binds(node, alias)) for alias in node.names]
        node.names = [a for a, n in names if n == "*" or _is_twice(n, text)]
        return bool(node.names)
    return True


def _binds(node: ast.stmt, alias: ast.alias) -> str:
    """Return the name that an import binds: os for `import os.path`."""
    is_module = isinstance(node, ast.Import)
    first = alias.name.partition(".")[0] if is_module else alias.name
    return alias.asname or first


def _is_twice(name: str, text: str) -> bool:
    """Return whether a name is in the text besides its import."""
    return len(re.findall(rf"\b{re.escape(name)}\b", text)) > 1


# Classes of grids, generic in the type of the tensors on them.

VARIABLE = "_T_co"


def skeleton(grid: type) -> Skeleton:
    """Return the stub of the module of a class of grids, generic in the tensors.

    Args:
        grid: a class whose `__init__` takes `dtype`, the element type of the tensors.
    """
    made = [line[4:] for line in function("__init__", list(_init_signatures(grid)))]
    bases = {grid.__name__: f"Generic[{VARIABLE}]"}
    return Skeleton({"__init__": made}, bases, {"dtype": f"DType[{VARIABLE}]"})


def _init_signatures(grid: type) -> Iterator[str]:
    """Yield the signatures of `__init__` without `dtype` and with it."""
    given = list(inspect.signature(grid).parameters.values())
    default = next(p.default for p in given if p.name == "dtype")
    if isinstance(default, DType):
        own = f"{grid.__name__}[{leaf(default).__name__}]"
        yield _signature([p for p in given if p.name != "dtype"], f"self: {own}")
    yield _signature(given, "self")


def _signature(given: list[inspect.Parameter], first: str) -> str:
    words, is_named = [first], False
    for p in given:
        if p.kind is p.KEYWORD_ONLY and not is_named:
            words, is_named = [*words, "*"], True
        hint = inspect.formatannotation(p.annotation).replace("typing.", "")
        if p.name == "dtype":
            words.append(f"dtype: DType[{VARIABLE}]")
        else:
            default = "" if p.default is p.empty else f" = {p.default!r}"
            words.append(f"{p.name}: {hint}{default}")
    return f"({', '.join(words)}) -> None"
