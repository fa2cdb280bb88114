"""mypy and pyright, both strict, see the classes that calls really give."""

import ast
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest

import mdtensor as md

ROOT = Path(__file__).parents[2]
HERE = Path(__file__).parent
DOCS = ROOT / "docs"
#: A page that registers types needs stubs of its own.
EXTENDING = DOCS / "how-to" / "extending.md"
FRESH = {EXTENDING, DOCS / "tutorial" / "first-type.md"}
PAGES = [ROOT / "README.md", *sorted({*DOCS.rglob("*.md")} - FRESH)]
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
    install(folder / "site")
    for name in ("examples.py", "refused.py"):
        shutil.copy(HERE / name, folder / name)
    for page in PAGES:
        if "```python" in page.read_text():
            write_program(page, folder)
    return folder


def write_program(page: Path, folder: Path) -> Path:
    name = re.sub(r"\W", "_", str(page.relative_to(ROOT)))
    path = folder / f"page_{name}.py"
    path.write_text(code_of(page.read_text()))
    return path


def install(site: Path) -> None:
    """The package as a wheel would lay it out."""
    ignored = shutil.ignore_patterns("__pycache__")
    for source, target in SOURCES.items():
        place = site / "mdtensor" / target
        shutil.copytree(ROOT / source, place, ignore=ignored, dirs_exist_ok=True)


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
    return run_mypy(project, "site")


@pytest.fixture(scope="module")
def pyright(project: Path) -> list[dict[str, Any]]:
    return run_pyright(project, "site")


def run_mypy(folder: Path, *paths: str) -> list[str]:
    """What mypy says of the programs in a folder, `file:line: kind: text` a line."""
    pytest.importorskip("mypy", reason="mypy is in the extra `dev`")
    options = ["--strict", "--follow-imports=silent", "--disable-error-code=no-redef"]
    options += ["--python-executable", sys.executable, "--hide-error-context"]
    files = sorted(path.name for path in folder.glob("*.py"))
    done = subprocess.run(
        [sys.executable, "-m", "mypy", *options, *files],
        cwd=folder,
        env={"MYPYPATH": os.pathsep.join(paths), "MYPY_CACHE_DIR": ".cache"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode in (0, 1), done.stderr
    return done.stdout.splitlines()


def run_pyright(folder: Path, *paths: str) -> list[dict[str, Any]]:
    """What pyright says of the programs in a folder."""
    pytest.importorskip("basedpyright", reason="pyright is in the extra `dev`")
    settings = {"typeCheckingMode": "strict", "extraPaths": paths, **PYRIGHT}
    settings |= {"include": ["*.py"], "pythonVersion": "3.11"}
    (folder / "pyrightconfig.json").write_text(json.dumps(settings))
    options = ["--outputjson", "-p", str(folder), "--pythonpath", sys.executable]
    done = subprocess.run(
        [sys.executable, "-m", "basedpyright", *options],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout, done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout)["generalDiagnostics"]
    return found


def expected(name: str = "examples.py") -> Revealed:
    """The comments of the examples."""
    lines = enumerate((HERE / name).read_text().splitlines(), 1)
    return {
        (name, number): line.rpartition("  # ")[2]
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


@pytest.mark.long
def test_mypy_sees_it(mypy: list[str]) -> None:
    assert by_mypy(mypy) == expected()


@pytest.mark.long
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


@pytest.mark.slow
def test_types_of_others_are_seen(tmp_path: Path) -> None:
    """Stubs with their types in a folder of the user's, before those of the package."""
    shutil.copy(HERE / "tiny.py", tmp_path / "tiny.py")
    write_stubs(tmp_path, "tiny")
    install(tmp_path / "site")
    (tmp_path / "tiny.py").unlink()
    shutil.copy(HERE / "tiny_examples.py", tmp_path / "tiny_examples.py")
    said = expected("tiny_examples.py")
    assert len(said) == 10
    assert by_mypy(run_mypy(tmp_path, "out", "site")) == said
    assert by_pyright(run_pyright(tmp_path, "out", "site")) == said


def write_stubs(folder: Path, *modules: str, paths: tuple[str, ...] = ()) -> None:
    """`mdtensor stubs` into the folder `out`, with modules of others."""
    command = [sys.executable, "-m", "mdtensor", "stubs", "-o", "out"]
    command += [word for module in modules for word in ("--import", module)]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([".", *paths])}
    subprocess.run(command, cwd=folder, env=env, check=True)


@pytest.mark.slow
def test_the_page_of_extensions_passes(tmp_path: Path) -> None:
    """Its packages and its own methods are in the stubs; a wrapper has no sine."""
    sources = sorted((ROOT / "docs" / "how-to" / "extending").glob("*/src/*"))
    paths = tuple(str(source.parent) for source in sources)
    page = write_program(EXTENDING, tmp_path)
    write_stubs(tmp_path, page.stem, *(source.name for source in sources), paths=paths)
    install(tmp_path / "site")
    (tmp_path / "wrong.py").write_text(WRONG)
    mypy = run_mypy(tmp_path, "out", "site", *paths)
    places = [line.split(" ")[0] for line in mypy if ": error: " in line]
    assert places == ["wrong.py:4:", "wrong.py:5:"], mypy
    pyright = errors_of(run_pyright(tmp_path, "out", "site", *paths))
    assert {(name, line) for name, line, _ in pyright} == {
        ("wrong.py", 4),
        ("wrong.py", 5),
    }


WRONG = """import mdtensor as md
from mdtensor_units import Quantity, Unit
way = Quantity(1.0, Unit(m=1))
md.sin(way)
way & way
way + 2 * way - md.max(way, axis=None)
"""


def pairs() -> tuple[str, Revealed]:
    """A program of two operands of every type, and what Python makes of it."""
    leaves = [t for t in md.leaves() if t.device is md.cpu and hasattr(md, t.__name__)]
    values: dict[str, Any] = {f"x_{t.dtype}": md.ones(1, dtype=t.dtype) for t in leaves}
    lines = ["from typing import reveal_type", "import mdtensor as md"]
    lines += [f"{name} = md.ones(1, dtype=md.{name[2:]})" for name in values]
    values |= {"True": True, "1": 1, "1.5": 1.5, "1j": 1j}
    said = {}
    for sign, a, b in product(["+", "/", "//", "&", "<", "@"], values, values):
        if "x" in a + b:
            lines.append(f"reveal_type({a} {sign} {b})")
            try:
                result = eval(f"{a} {sign} {b}", dict(values))
            except (md.MdtensorError, TypeError):
                continue
            said["pairs.py", len(lines)] = type(result).__name__
    return "\n".join(lines) + "\n", said


@pytest.mark.slow
def test_every_pair_of_types_is_seen_as_it_is(tmp_path: Path) -> None:
    text, said = pairs()
    (tmp_path / "pairs.py").write_text(text)
    install(tmp_path / "site")
    assert len(said) > 1200
    for found in (
        by_mypy(run_mypy(tmp_path, "site")),
        by_pyright(run_pyright(tmp_path, "site")),
    ):
        assert {place: found.get(place) for place in said} == said
        for place in found.keys() - said.keys():  # Python refuses
            line = text.splitlines()[place[1] - 1]
            # A checker takes True for 1, and 1 for 1.0; uint64 and int8 for integers.
            has_number = not re.match(r"reveal_type\(x_\S+ \S+ x_", line)
            is_kind = found[place] in ("Any", "Unknown", "IntegerTensor")
            # The quotient of two integers is a Float64Tensor, whatever the kind.
            is_mixed = re.search(r"x_uint64 / x_int\d|x_int\d+ / x_uint64", line)
            assert has_number or is_kind or is_mixed, line
