"""mypy and pyright, both strict, see the classes that calls really give."""

import ast
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import mdtensor as md

ROOT = Path(__file__).parents[2]
HERE = Path(__file__).parent
#: What is written for users of type checkers; other pages may go without annotations.
PAGES = ("README.md", "docs/array-api.md", "docs/promotion.md")
FENCE = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
Revealed = dict[tuple[str, int], str]
#: Methods of one operation share its name; statements may be there to be refused.
ALLOWED = ("Redeclaration", "UnusedExpression", "PossiblyUnboundVariable")
PYRIGHT = {f"report{name}": False for name in ALLOWED}
SOURCES = {"mdtensor": "", "kernels": "kernels", "quant": "quant"}

if sys.platform == "win32":
    pytest.skip("copies the tree as POSIX does", allow_module_level=True)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the package as it is installed, and what is to be checked."""
    folder = tmp_path_factory.mktemp("typed")
    ignored = shutil.ignore_patterns("__pycache__")
    for source, target in (
        ("mdtensor", ""),
        ("kernels", "kernels"),
        ("quant", "quant"),
    ):
        place = folder / "site" / "mdtensor" / target
        shutil.copytree(ROOT / source, place, ignore=ignored, dirs_exist_ok=True)
    for name in ("examples.py", "refused.py"):
        shutil.copy(HERE / name, folder / name)
    for page in PAGES:
        name = re.sub(r"\W", "_", page)
        (folder / f"page_{name}.py").write_text(code_of((ROOT / page).read_text()))
    return folder


def code_of(page: str) -> str:
    """The Python of a page, on the page's lines; without what must raise our errors."""
    lines = [""] * (page.count("\n") + 1)
    for match in FENCE.finditer(page):
        first = page.count("\n", 0, match.start()) + 1
        block = match.group(1).splitlines()
        for node in ast.walk(ast.parse(match.group(1))):
            if isinstance(node, ast.Try) and "Error" in ast.unparse(node.handlers[0]):
                for refused in node.body:
                    last = refused.end_lineno or refused.lineno
                    count = last - refused.lineno + 1
                    indent = " " * refused.col_offset
                    block[refused.lineno - 1 : last] = [f"{indent}..."] * count
        lines[first : first + len(block)] = block
    return "\n".join(lines) + "\n"


@pytest.fixture(scope="module")
def mypy(project: Path) -> list[str]:
    """What mypy says, a line each: `file:line: kind: text`."""
    pytest.importorskip("mypy", reason="mypy is in the extra `dev`")
    options = ["--strict", "--follow-imports=silent", "--disable-error-code=no-redef"]
    options += ["--python-executable", sys.executable, "--hide-error-context"]
    files = sorted(path.name for path in project.glob("*.py"))
    done = subprocess.run(
        [sys.executable, "-m", "mypy", *options, *files],
        cwd=project,
        env={"MYPYPATH": "site", "MYPY_CACHE_DIR": str(project / ".cache"), "PATH": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode in (0, 1), done.stderr
    return done.stdout.splitlines()


@pytest.fixture(scope="module")
def pyright(project: Path) -> list[dict[str, Any]]:
    """The diagnostics of pyright."""
    pytest.importorskip("basedpyright", reason="pyright is in the extra `dev`")
    settings = {
        "typeCheckingMode": "strict",
        "extraPaths": ["site"],
        **dict.fromkeys(PYRIGHT, False),
    }
    (project / "pyrightconfig.json").write_text(
        json.dumps({**settings, "include": ["*.py"], "pythonVersion": "3.11"})
    )
    options = ["--outputjson", "-p", str(project), "--pythonpath", sys.executable]
    done = subprocess.run(
        [sys.executable, "-m", "basedpyright", *options],
        cwd=project,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout, done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout)["generalDiagnostics"]
    return found


def expected() -> Revealed:
    """The comments of the examples."""
    lines = enumerate((HERE / "examples.py").read_text().splitlines(), 1)
    return {
        ("examples.py", number): line.rpartition("  # ")[2]
        for number, line in lines
        if line.strip().startswith("reveal_type(")
    }


def by_mypy(said: list[str]) -> Revealed:
    found = {}
    for line in said:
        match = re.match(r'(.+?):(\d+): note: Revealed type is "(.*)"$', line)
        if match:
            text = re.sub(r"tuple\[.*fallback=(.*)\]$", r"\1", match[3])
            found[match[1], int(match[2])] = re.sub(r"[\w.]+\.(?=\w)", "", text)
    return found


def by_pyright(said: list[dict[str, Any]]) -> Revealed:
    found = {}
    for entry in said:
        match = re.search(r' is "(.*)"$', entry["message"])
        if entry["severity"] == "information" and match:
            line = entry["range"]["start"]["line"] + 1
            found[Path(entry["file"]).name, line] = match[1]
    return found


def spelled(value: Any) -> str:
    """The type of a value, as a checker would write it."""
    if type(value) is tuple:
        return f"tuple[{spelled(value[0])}, ...]"
    if isinstance(value, tuple):
        return f"{type(value).__name__}[{', '.join(map(spelled, value))}]"
    return type(value).__name__


def test_python_gives_what_the_examples_say() -> None:
    said = expected()
    source = (HERE / "examples.py").read_text()
    ran = {}

    def reveal_type(value: Any) -> Any:
        line = sys._getframe(1).f_lineno
        ran["examples.py", line] = value
        return value

    code = compile(source.replace("Any, reveal_type", "Any"), "examples.py", "exec")
    exec(code, {"__name__": "examples", "reveal_type": reveal_type})
    assert ran.keys() == said.keys()
    for place, text in said.items():
        kind = getattr(md, text, object)
        is_leaf = hasattr(kind, "dtype") or (kind is object and text != "Any")
        assert isinstance(ran[place], kind)
        assert not is_leaf or spelled(ran[place]) == text, place


def test_mypy_sees_it(mypy: list[str]) -> None:
    assert by_mypy(mypy) == expected()


def test_pyright_sees_it(pyright: list[dict[str, Any]]) -> None:
    assert by_pyright(pyright) == expected()


def wrong_lines() -> set[int]:
    tree = ast.parse((HERE / "refused.py").read_text())
    first = next(
        n.lineno for n in tree.body if isinstance(n, ast.Expr) and n.lineno > 1
    )
    return {node.lineno for node in tree.body if node.lineno >= first}


def test_wrong_calls_are_refused_by_the_library() -> None:
    tree = ast.parse((HERE / "refused.py").read_text())
    wrong, namespace = wrong_lines(), {}
    for node in tree.body:
        code = compile(ast.Module([node], []), "refused.py", "exec")
        if node.lineno not in wrong:
            exec(code, namespace)
            continue
        with pytest.raises((md.MdtensorError, TypeError)):
            exec(code, namespace)


def test_mypy_refuses_wrong_calls(mypy: list[str]) -> None:
    errors = (re.match(r"refused.py:(\d+): error", line) for line in mypy)
    assert {int(match[1]) for match in errors if match} == wrong_lines()


def test_pyright_refuses_wrong_calls(pyright: list[dict[str, Any]]) -> None:
    assert {line for name, line, _ in errors_of(pyright) if name == "refused.py"} == (
        wrong_lines()
    )


def errors_of(said: list[dict[str, Any]]) -> Iterator[tuple[str, int, str]]:
    for entry in said:
        if entry["severity"] == "error":
            line = entry["range"]["start"]["line"] + 1
            yield Path(entry["file"]).name, line, entry["message"]


def test_nothing_else_is_refused_by_mypy(mypy: list[str]) -> None:
    said = [line for line in mypy if ": error: " in line]
    assert [line for line in said if not line.startswith("refused.py")] == []


def test_nothing_else_is_refused_by_pyright(pyright: list[dict[str, Any]]) -> None:
    assert [found for found in errors_of(pyright) if found[0] != "refused.py"] == []
