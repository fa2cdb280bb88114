"""Patches of findings: edits of the source after which a finding is gone.

A patch only adds a method for calls that fail, or removes a method that never runs, so
no call that works today changes. Other fixes need a decision, so they stay text.
"""

from __future__ import annotations

import ast
import builtins
import difflib
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import plum

from mdtensor.diagnose.finding import Finding, MethodInfo

Definition = ast.FunctionDef | ast.AsyncFunctionDef
#: The body of a new method: the call fails as before, and the text says what to do.
BODY = 'raise NotImplementedError("write the method for these types")'


@dataclass(frozen=True, order=True)
class Edit:
    """The replacement of one region of a file.

    Args:
        file: the file.
        start: line and column of the first character to remove, both from 1.
        end: line and column after the last character; equal to `start` to insert.
        text: the new characters.
    """

    file: Path
    start: tuple[int, int]
    end: tuple[int, int]
    text: str


@dataclass(frozen=True)
class Module:
    """The source of an imported module.

    Args:
        file: its path.
        text: its characters, with the line ends of the file.
    """

    file: Path
    text: str

    @classmethod
    def of(cls, name: str) -> Module | None:
        """Return the source of a module, or None if it cannot be patched."""
        path = getattr(sys.modules.get(name), "__file__", None)
        # Only Python sources can be patched, and the diff is UTF-8.
        if path is None or not path.endswith(".py"):
            return None
        try:
            return cls(Path(path), Path(path).read_bytes().decode())
        except (OSError, UnicodeDecodeError):
            return None

    @property
    def lines(self) -> list[str]:
        """Return the lines with their ends."""
        # `splitlines` would also split at form feeds, which Python and git do not.
        return self.text.replace("\r\n", "\n").split("\n")

    @property
    def newline(self) -> str:
        return "\r\n" if "\r\n" in self.text else "\n"

    def parse(self) -> ast.Module | None:
        """Return the syntax tree, or None if the file has changed and is damaged."""
        try:
            return ast.parse(self.text.removeprefix("\ufeff"))
        except (SyntaxError, ValueError):
            return None

    def after(self, line: int, added: Iterable[str]) -> Edit:
        """Return the edit that adds lines after a line; before the first one for 0."""
        if not line:
            text = "".join(each + self.newline for each in added)
            return Edit(self.file, (1, 1), (1, 1), text)
        place = line, len(self.lines[line - 1]) + 1
        text = "".join(self.newline + each for each in added)
        return Edit(self.file, place, place, text)

    def without(self, first: int, last: int) -> Edit:
        """Return the edit that removes lines, and the empty lines after them."""
        lines = self.lines
        while last < len(lines) - 1 and not lines[last].strip():
            last += 1
        is_end = last == len(lines)
        end = (last, len(lines[-1]) + 1) if is_end else (last + 1, 1)
        return Edit(self.file, (first, 1), end, "")


def edits(finding: Finding) -> tuple[Edit, ...]:
    """Return the edits after which a finding is gone; none if it needs a decision.

    Args:
        finding: a finding of `analyze`; its modules are imported.
    """
    if finding.rule == "MDT001" and finding.module:
        return tuple(_addition(finding))
    if finding.rule == "MDT003":
        return tuple(_removal(*finding.methods))
    return ()


def _addition(finding: Finding) -> Iterator[Edit]:
    """Yield the edits that add the method of a fix after a tied method."""
    places = [m for m in finding.methods if m.module == finding.module]
    last = max(places, key=lambda method: method.line)
    module, tree, found = _locate(last)
    if module is None or tree is None or found is None:
        return
    node, owner = found
    imports = [line for line in finding.fix.splitlines() if line.startswith("from ")]
    head = finding.fix.splitlines()[len(imports) :]
    decorator = _decorator(node, module) or _dispatcher(head[0], finding)
    if not decorator:
        return
    head = [decorator, f"def {node.name}({head[1].partition('(')[2]}"]
    if not _is_sound([*imports, head[1]], finding.module):
        return
    used = {n.id for n in ast.walk(ast.parse("\n".join(head))) if type(n) is ast.Name}
    code = [head[0], head[1].removesuffix(" ..."), f"    {BODY}"]
    indent = " " * node.col_offset
    place = (node if owner else _later(node, tree, used)).end_lineno or 1
    blank = [""] if owner else ["", ""]
    yield module.after(place, [*blank, *(indent + line for line in code)])
    if imports:
        yield module.after(_import_line(tree), imports)


def _removal(earlier: MethodInfo, later: MethodInfo) -> Iterator[Edit]:
    """Yield the edit that removes a method that a later one in its file replaced."""
    module, tree, found = _locate(earlier)
    # Without the other module, which may be optional, the earlier method does run.
    if earlier.module != later.module or earlier.line == later.line:
        return
    if module is None or tree is None or found is None:
        return
    node, owner = found
    # Defaults make shorter methods, which may still run.
    if node.args.defaults or len(node.decorator_list) != 1:
        return
    if isinstance(node.decorator_list[0], ast.Call) or (owner and len(owner.body) == 1):
        return
    first = node.decorator_list[0].lineno
    yield module.without(first, node.end_lineno or first)


Found = tuple[Definition, ast.ClassDef | None]


def _locate(
    method: MethodInfo,
) -> tuple[Module | None, ast.Module | None, Found | None]:
    """Return the module of a method, its tree, and its definition with its class."""
    module = Module.of(method.module)
    tree = module.parse() if module else None
    # A method made by code of another file has a line of that file.
    if module is None or tree is None or module.file.name != Path(method.file).name:
        return None, None, None
    for owner in (None, *(n for n in tree.body if isinstance(n, ast.ClassDef))):
        for node in (owner or tree).body:
            if isinstance(node, Definition) and _first_line(node) == method.line:
                return module, tree, (node, owner)
    return module, tree, None


def _first_line(node: Definition) -> int:
    return min([node.lineno, *(d.lineno for d in node.decorator_list)])


def _decorator(node: Definition, module: Module) -> str:
    """Return the decorator of a method if it suits other types, or an empty text."""
    if len(node.decorator_list) != 1:
        return ""
    found = node.decorator_list[0]
    text = ast.get_source_segment(module.text.removeprefix("\ufeff"), found) or ""
    # A signature or a precedence is meant for one method.
    is_special = isinstance(found, ast.Call) and (found.keywords or ".multi" in text)
    return "" if is_special or "\n" in text else f"@{text}"


def _is_sound(lines: list[str], module: str) -> bool:
    """Return whether the header of a method works with the names of a module."""
    # No name leads to a class that a function returned, or of a missing package.
    text = "\n".join(lines)
    try:
        # Without the `annotations` of this file, so that they are evaluated.
        code = compile(text, "<fix>", "exec", dont_inherit=True)
        exec(code, dict(vars(sys.modules[module])))
    except Exception:
        return False
    return True


def _dispatcher(decorator: str, finding: Finding) -> str:
    """Return the decorator if its Dispatcher has the function of the finding, or ""."""
    name = decorator.removeprefix("@")
    value = vars(sys.modules[finding.module]).get(name)
    if not isinstance(value, plum.Dispatcher):
        return ""
    held = {f"{f.__module__}.{f.__qualname__}" for f in value.functions.values()}
    return decorator if finding.function in held else ""


def _later(node: Definition, tree: ast.Module, used: set[str]) -> ast.stmt:
    """Return the statement after which all names of the new method exist."""
    found: ast.stmt = node
    for each in tree.body:
        names = (n for n in ast.walk(each) if isinstance(n, ast.Name))
        bound = {n.id for n in names if _is_bound(n)} | {getattr(each, "name", "")}
        # Names of builtins and of functions that exist already are known earlier.
        new = bound & used - {node.name} - set(vars(builtins))
        if each.lineno > found.lineno and new:
            found = each
    return found


def _is_bound(node: ast.AST) -> bool:
    return isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)


def _import_line(tree: ast.Module) -> int:
    """Return the last line of the imports before the first definition.

    Without imports this is the end of the docstring, or 0.
    """
    line = 0
    for at, node in enumerate(tree.body):
        if isinstance(node, Definition | ast.ClassDef):
            break
        is_text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if isinstance(node, ast.Import | ast.ImportFrom) or (is_text and not at):
            line = node.end_lineno or line
    return line


def apply(text: str, changes: Iterable[Edit]) -> str:
    """Return a text after edits that do not overlap.

    Example:
        >>> apply("a\\nb\\n", [Edit(Path("x"), (2, 1), (2, 2), "c")])
        'a\\nc\\n'
    """
    lines = text.split("\n")
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line) + 1)
    # From the end, so that the places of earlier edits stay right.
    for edit in sorted(set(changes), reverse=True):
        first, last = (starts[at[0] - 1] + at[1] - 1 for at in (edit.start, edit.end))
        text = text[:first] + edit.text + text[last:]
    return text


def diff(name: str, text: str, changes: Iterable[Edit]) -> str:
    """Return a unified diff of one file that `git apply` and `patch -p1` read.

    Args:
        name: the path in the diff.
        text: the file as it is.
        changes: the edits.

    Example:
        >>> edit = Edit(Path("x.py"), (1, 1), (1, 2), "b")
        >>> print(diff("x.py", "a\\n", [edit]), end="")
        --- a/x.py
        +++ b/x.py
        @@ -1 +1 @@
        -a
        +b
    """
    old, new = (_lines(each) for each in (text, apply(text, changes)))
    found = difflib.unified_diff(old, new, f"a/{name}", f"b/{name}")
    end = "\n\\ No newline at end of file\n"
    return "".join(line if line.endswith("\n") else line + end for line in found)


def _lines(text: str) -> list[str]:
    parts = text.split("\n")
    ended = [f"{part}\n" for part in parts[:-1]]
    return [*ended, parts[-1]] if parts[-1] else ended
