"""Mutants: copies of the package with one small fault each, and the tests that run.

A mutant changes one operator, comparison or number of one line. The sites are taken at
equal distances, so the same source always gives the same mutants.
"""

import ast
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue

ROOT = Path(__file__).parents[2]
SWAPS: dict[type, type] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
    ast.BitAnd: ast.BitOr,
    ast.And: ast.Or,
    ast.Or: ast.And,
}


@dataclass(frozen=True)
class Mutant:
    """A fault: a file of the checkout, the line, its text before and after."""

    path: str
    line: int
    before: str
    after: str

    def __str__(self) -> str:
        return (
            f"{self.path}:{self.line}: {self.before.strip()}  ->  {self.after.strip()}"
        )


def mutants(path: str, count: int) -> list[Mutant]:
    """Return `count` mutants of a file, at equal distances; fewer if it is short."""
    text = (ROOT / path).read_text(encoding="utf-8")
    found = list(_mutants(path, text))
    count = min(count, len(found))
    return [found[(2 * i + 1) * len(found) // (2 * count)] for i in range(count)]


def _mutants(path: str, text: str) -> Iterator[Mutant]:
    lines = text.splitlines()
    tree = ast.parse(text)
    functions = [n for n in tree.body if isinstance(n, ast.FunctionDef | ast.ClassDef)]
    for function in functions:
        for node in _code(function):
            changed = _change(node)
            if changed is None or node.lineno != node.end_lineno:
                continue
            line = lines[node.lineno - 1]
            # Columns are bytes.
            raw, new = line.encode(), f"({changed})".encode()
            after = raw[: node.col_offset] + new + raw[node.end_col_offset :]
            yield Mutant(path, node.lineno, line, after.decode())


def _code(node: ast.AST) -> Iterator[ast.expr]:
    """Yield the expressions that compute: no annotations, docstrings and errors."""
    for name, field in ast.iter_fields(node):
        if name in {"annotation", "returns", "decorator_list", "bases", "msg"}:
            continue
        for child in field if isinstance(field, list) else [field]:
            if isinstance(child, ast.Raise | ast.JoinedStr) or not isinstance(
                child, ast.AST
            ):
                continue
            if isinstance(child, ast.expr):
                yield child
            yield from _code(child)


def _change(node: ast.expr) -> str | None:
    """Return the text of the expression with a fault, or None."""
    match node:
        case ast.Compare(left=left, ops=[op], comparators=comparators):
            if type(op) in SWAPS:
                swapped = ast.Compare(left, [SWAPS[type(op)]()], comparators)
                return ast.unparse(swapped)
        case ast.BinOp(left=left, op=op, right=right):
            if type(op) in SWAPS:
                return ast.unparse(ast.BinOp(left, SWAPS[type(op)](), right))
        case ast.BoolOp(op=op, values=values):
            return ast.unparse(ast.BoolOp(SWAPS[type(op)](), values))
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return ast.unparse(operand)
        case ast.Constant(value=value) if type(value) is int:
            return str(value + 1)
    return None


def copy_checkout(place: Path) -> Path:
    """Copy package and tests, with the folders as in a wheel."""
    skip = shutil.ignore_patterns("__pycache__", "*.pyi", ".*")
    shutil.copytree(ROOT / "mdtensor", place / "mdtensor", ignore=skip)
    for name in ("kernels", "quant"):
        shutil.copytree(ROOT / name, place / "mdtensor" / name, ignore=skip)
    shutil.copytree(ROOT / "tests", place / "tests", ignore=skip)
    shutil.copy(ROOT / "pyproject.toml", place)
    # Checked by content: a mutant may have the size and the second of the original.
    compiled = [sys.executable, "-m", "compileall", "-q", "--invalidation-mode"]
    subprocess.run([*compiled, "checked-hash", place / "mdtensor"], check=True)
    return place


def passes(place: Path, tests: tuple[str, ...], seconds: float) -> bool:
    """Run tests in a copy; a run that takes longer is a failure."""
    own = {"PYTHONPATH": str(place), "PYTHONDONTWRITEBYTECODE": "1"}
    own |= {"NUMBA_DISABLE_JIT": "1", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider"]
    try:
        done = subprocess.run(
            [*command, *tests],
            cwd=place,
            env=os.environ | own,
            capture_output=True,
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0


@dataclass(frozen=True)
class Trial:
    """A fault, the tests that shall notice it, and the seconds that they may take."""

    mutant: Mutant
    tests: tuple[str, ...]
    most: float

    def survives(self, place: Path) -> bool:
        """Return whether the tests pass although the copy has the fault."""
        name, _, rest = self.mutant.path.partition("/")
        is_core = name == "mdtensor"
        file = place / "mdtensor" / (rest if is_core else self.mutant.path)
        whole = file.read_text(encoding="utf-8")
        lines = whole.splitlines(keepends=True)
        assert lines[self.mutant.line - 1].rstrip("\n") == self.mutant.before
        lines[self.mutant.line - 1] = self.mutant.after + "\n"
        file.write_text("".join(lines), encoding="utf-8")
        try:
            return passes(place, self.tests, self.most)
        finally:
            file.write_text(whole, encoding="utf-8")


def survivors(work: list[Trial], places: list[Path]) -> list[Mutant]:
    """Return the mutants that no test notices; each copy runs one at a time."""
    free: SimpleQueue[Path] = SimpleQueue()
    for place in places:
        free.put(place)

    def run(trial: Trial) -> bool:
        place = free.get()
        try:
            return trial.survives(place)
        finally:
            free.put(place)

    with ThreadPoolExecutor(len(places)) as pool:
        outcomes = list(pool.map(run, work))
    return [t.mutant for t, alive in zip(work, outcomes, strict=True) if alive]
