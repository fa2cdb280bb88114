"""The page docs/reference/promotion.md, its picture and its claims."""

import importlib.util
import re
import subprocess
import sys
from itertools import combinations
from pathlib import Path
from types import ModuleType
from xml.etree import ElementTree

import pytest

from mdtensor.promotion import RULE_SETS
from mdtensor.promotion.lattice import DEFAULT_ARROWS

DOCS = Path(__file__).parents[2] / "docs"
AGAIN = "run python docs/generate/promotion.py"


@pytest.fixture(scope="module")
def generator() -> ModuleType:
    path = DOCS / "generate" / "promotion.py"
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_is_current(generator: ModuleType) -> None:
    text = generator.PAGE.read_text()
    assert generator.page(text) == text, AGAIN


def test_every_rule_set_is_on_the_page(generator: ModuleType) -> None:
    text = generator.PAGE.read_text()
    for rules in RULE_SETS:
        assert f"\n## {rules}\n" in text
        if rules != "strict":  # a diagonal
            assert f"<!-- begin: cells {rules} -->" in text
    for rules in {*RULE_SETS} - {"default", "strict"}:
        assert f"<!-- begin: differences {rules} -->" in text


def test_a_stale_page_is_found(generator: ModuleType) -> None:
    text = generator.PAGE.read_text()
    stale = text.replace("| **u32** | u32 | i64 |", "| **u32** | u32 | u32 |", 1)
    assert generator.page(stale) == text != stale


def test_every_difference_is_listed(generator: ModuleType) -> None:
    """As many types in the rows as there are pairs that differ."""
    for rules in RULE_SETS:
        rows = generator.differences(rules).splitlines()[2:]
        listed = sum(len(row.split("|")[2].split()) for row in rows)
        assert listed == len(generator.differing(rules))


def test_the_picture_is_current(generator: ModuleType) -> None:
    assert generator.PICTURE.read_text() == generator.picture(), AGAIN


def test_the_picture_shows_every_type_and_arrow(generator: ModuleType) -> None:
    drawing = ElementTree.fromstring(generator.picture())
    space = "{http://www.w3.org/2000/svg}"
    names = [text.text for text in drawing.iter(f"{space}text")]
    arrows = [path for path in drawing.iter(f"{space}path") if path.get("marker-end")]
    assert sorted(names) == sorted(DEFAULT_ARROWS)
    assert len(arrows) == sum(map(len, DEFAULT_ARROWS.values()))
    for a, b in combinations(generator.places().values(), 2):
        apart = abs(a[0] - b[0]) > generator.WIDE, abs(a[1] - b[1]) > generator.HIGH
        assert any(apart), "boxes overlap"


def test_the_example_of_a_type_of_your_own_prints_what_it_says() -> None:
    """In a process of its own, as a type stays."""
    page = (DOCS / "reference" / "promotion.md").read_text()
    (code,) = re.findall(r"^```py\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    said = re.findall(r"print\(.*\)  # (.*)", code)
    assert said
    assert done.stdout.splitlines() == said
