"""Every example a reader can see runs: README, docs/ and docstrings."""

import ast
import doctest
import importlib.util
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from support.reader_files import write_your_files

import mdtensor

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
#: A page that registers types runs in its own process; tests/extension has this one.
EXTENDING = DOCS / "how-to" / "extending.md"
#: A page that needs a device runs in `tests/test_webgpu.py`.
WEBGPU = DOCS / "how-to" / "webgpu.md"
FIRST_TYPE = DOCS / "tutorial" / "first-type.md"
FRESH = {EXTENDING, WEBGPU, FIRST_TYPE}
#: Written by `make site`, not kept in git, and made of docstrings.
GENERATED = {*(DOCS / "reference" / "api").glob("*.md")}
PAGES = [ROOT / "README.md", *sorted({*DOCS.rglob("*.md")} - FRESH - GENERATED)]
FENCE = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PACKAGES = {"mdtensor": "mdtensor", "kernels": "mdtensor.kernels"}
PACKAGES["quant"] = "mdtensor.quant"
RUNNER = ROOT / "quant" / "run_plan"


def blocks(page: str) -> Iterator[tuple[int, str]]:
    """The ```python blocks of a page, each with the number of its first line."""
    for match in FENCE.finditer(page):
        yield page.count("\n", 0, match.start()) + 2, match.group(1)


def run_page(page: Path) -> int:
    """Run the blocks in order in one namespace; a trace shows the page's own lines."""
    namespace = {"__name__": "__main__"}
    count = 0
    for line, code in blocks(page.read_text()):
        source = "\n" * (line - 1) + code
        exec(compile(source, str(page), "exec"), namespace)
        count += 1
    return count


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.relative_to(ROOT).as_posix())
def test_page_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # what an example writes does not land in the checkout
    write_your_files(tmp_path)
    text = page.read_text()
    assert text.count("```python") == len(list(blocks(text))), "a block is not closed"
    with mdtensor.registry.restored():
        run_page(page)


@pytest.mark.parametrize("page", [FIRST_TYPE], ids=lambda p: p.stem)
def test_page_that_registers_types_runs(page: Path, tmp_path: Path) -> None:
    script = "import pathlib, sys; from test_docs import run_page; "
    script += "assert run_page(pathlib.Path(sys.argv[1])) > 3"
    paths = os.pathsep.join([str(ROOT / "tests"), str(ROOT)])
    command = [sys.executable, "-W", "error", "-c", script, str(page)]
    done = subprocess.run(
        command, cwd=tmp_path, env={**os.environ, "PYTHONPATH": paths}, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout


def test_blocks_share_a_namespace_in_order(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "```python\nx = 1\n```\n\n```sh\nno\n```\n\n```python\nx + y\n```\n"
    )
    with pytest.raises(NameError, match="y") as caught:
        run_page(page)
    assert caught.traceback[-1].lineno + 1 == 10


def sources() -> list[tuple[str, Path]]:
    found = []
    for folder, package in PACKAGES.items():
        for path in sorted((ROOT / folder).rglob("*.py")):
            if RUNNER in path.parents:
                continue
            parts = path.relative_to(ROOT / folder).with_suffix("").parts
            below = [part for part in parts if part != "__init__"]
            found.append((".".join([package, *below]), path))
    return found + [
        (f"mdtensor_run.{p.stem}", p) for p in sorted(RUNNER.glob("[a-z]*.py"))
    ]


def docstrings(path: Path) -> Iterator[tuple[str, int, str]]:
    """From the source, so that operations and compiled kernels are seen as well."""
    kinds = ast.Module | ast.ClassDef | ast.FunctionDef
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, kinds) and (text := ast.get_docstring(node)):
            yield getattr(node, "name", path.stem), node.body[0].lineno - 1, text


def run_examples(path: Path, namespace: dict[str, object]) -> tuple[int, str]:
    """How many examples ran, and what doctest says about those that failed."""
    said: list[str] = []
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    runner = doctest.DocTestRunner(optionflags=flags)
    for name, line, text in docstrings(path):
        if ">>>" in text:
            test = doctest.DocTestParser().get_doctest(
                text, dict(namespace), name, str(path), line
            )
            runner.run(test, out=said.append)
    return runner.tries, "".join(said)


WITH_EXAMPLES = [(name, path) for name, path in sources() if ">>>" in path.read_text()]


@pytest.mark.parametrize(
    ("name", "path"), WITH_EXAMPLES, ids=[name for name, _ in WITH_EXAMPLES]
)
def test_docstring_examples(
    name: str, path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    namespace = {"np": np, "md": mdtensor}
    with mdtensor.registry.restored():
        # A device registers itself when its module is imported.
        namespace.update(vars(importlib.import_module(name)))
        tries, failures = run_examples(path, namespace)
    assert not failures, failures
    assert tries, f"{path} shows >>> outside of a docstring"


def test_a_wrong_example_is_found(tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    path.write_text('def f():\n    """\n    >>> 1 + 1\n    3\n    """\n')
    tries, failures = run_examples(path, {})
    assert tries == 1
    assert "Expected:" in failures


LINK = re.compile(r"\]\(([^()\s]+)\)")
SOURCE = re.compile(r"^```.*?^```|`[^`\n]*`", re.MULTILINE | re.DOTALL)


def anchors(page: Path) -> set[str]:
    """Return the anchors that GitHub makes of the headings of a page."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    found: set[str] = set()
    for title in re.findall(r"^#+ (.*)$", text, re.MULTILINE):
        slug = re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")
        numbers = (f"-{n}" if n else "" for n in range(1000))
        found.add(next(slug + n for n in numbers if slug + n not in found))
    return found


def broken(page: Path) -> list[str]:
    """Return the links of a page that lead nowhere on GitHub."""
    found = []
    for link in LINK.findall(SOURCE.sub("", page.read_text())):
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        is_outside = link.startswith(("https://", "http://"))
        is_found = is_outside or target.exists()
        if not is_found or (
            anchor and not is_outside and anchor not in anchors(target)
        ):
            found.append(f"{page.relative_to(ROOT)}: {link}")
    return found


def test_links_between_pages_lead_somewhere() -> None:
    pages = [*PAGES, *FRESH, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"]
    assert [link for page in pages for link in broken(page)] == []


def test_a_broken_link_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"{__name__}.ROOT", tmp_path)
    page = tmp_path / "page.md"
    page.write_text("# One, two\n\n[a](#one-two) [b](#two) [c](gone.md) `[d](e.md)`\n")
    assert broken(page) == ["page.md: #two", "page.md: gone.md"]


def test_the_api_reference_has_every_public_name() -> None:
    spec = importlib.util.spec_from_file_location("api", DOCS / "generate" / "api.py")
    assert spec is not None and spec.loader is not None
    api = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = api  # its dataclass looks itself up
    spec.loader.exec_module(api)
    pages = api.pages()
    listed = {entry.path for _, entries in pages.values() for entry in entries}
    names = {name for name in mdtensor.__all__ if callable(getattr(mdtensor, name))}
    assert {f"mdtensor.{name}" for name in names} - listed == set()
    for name in (
        "quant.quantize",
        "quant.load",
        "linalg.svd",
        "fft.fft",
        "extend.compute",
    ):
        assert f"mdtensor.{name}" in listed
    page = api.page(*pages["conv"])
    assert "## mdtensor.conv2d" in page and "**groups**: input and output" in page


def test_public_names_are_documented() -> None:
    silent = [
        name
        for name, value in vars(mdtensor).items()
        if not name.startswith("_")
        and callable(value)
        and not (isinstance(value, type) and value.__module__ == "builtins")
        and not vars(value).get("__doc__", getattr(value, "__doc__", None))
    ]
    assert silent == []
