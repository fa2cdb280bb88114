"""Decision pages name functions that exist and that carry the reason as a comment."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
GOVERNS = re.compile(r"^Governs: (.*?)\.\n\n", re.MULTILINE | re.DOTALL)
PAGE = "# 0001 Title\n\nGoverns: `a.py:f`.\n\n**Question.** Why?\n"
CODE = "# Because of this (decision 0001).\ndef f(): ...\n"


def pages(root: Path) -> list[Path]:
    return sorted((root / "docs" / "decisions").glob("[0-9]*.md"))


def comments(path: Path, name: str) -> str | None:
    """Return the comment lines above the last definition of `name`, or None."""
    source = path.read_text()
    kinds = (ast.FunctionDef, ast.ClassDef)
    found = [
        min([node.lineno, *(d.lineno for d in node.decorator_list)])
        for node in ast.walk(ast.parse(source))
        if isinstance(node, kinds) and node.name == name
    ]
    if not found:
        return None
    above = reversed(source.splitlines()[: max(found) - 1])
    lines = []
    for line in above:
        if not line.lstrip().startswith("#"):
            break
        lines.append(line.strip(" #"))
    return " ".join(reversed(lines))


def problems(root: Path) -> Iterator[str]:
    """Yield each reference of a page that leads nowhere or has no reason there."""
    for page in pages(root):
        number = page.name[:4]
        match = GOVERNS.search(page.read_text())
        if match is None:
            yield f"{number} governs nothing"
            continue
        for path, name in re.findall(r"`([^`:]+):([^`]+)`", match.group(1)):
            at = root / path
            text = comments(at, name) if at.exists() else None
            if text is None:
                yield f"{number}: {path}:{name} does not exist"
            elif f"(decision {number})." not in text:
                yield f"{number}: {path}:{name} lacks its reason"


def test_pages_and_lines_name_each_other() -> None:
    assert list(problems(ROOT)) == []


def test_index_lists_every_page() -> None:
    index = (ROOT / "docs" / "decisions" / "README.md").read_text()
    for page in pages(ROOT):
        title = page.read_text().partition("\n")[0].removeprefix(f"# {page.name[:4]} ")
        assert f"[{title}]({page.name})" in index


@pytest.mark.parametrize(
    ("page", "code", "problem"),
    [
        (PAGE, CODE, None),
        (PAGE.replace("Governs", "Rules"), CODE, "0001 governs nothing"),
        (PAGE, CODE.replace("f()", "g()"), "0001: a.py:f does not exist"),
        (PAGE.replace("a.py", "b.py"), CODE, "0001: b.py:f does not exist"),
        (PAGE, CODE.replace("0001", "0002"), "0001: a.py:f lacks its reason"),
    ],
)
def test_problems(tmp_path: Path, page: str, code: str, problem: str | None) -> None:
    folder = tmp_path / "docs" / "decisions"
    folder.mkdir(parents=True)
    (folder / "0001-title.md").write_text(page)
    (tmp_path / "a.py").write_text(code)
    assert list(problems(tmp_path)) == ([problem] if problem else [])
