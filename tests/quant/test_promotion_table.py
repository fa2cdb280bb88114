"""docs/quantized.md says what the calls give, and no pair is left open."""

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

DOCS = Path(__file__).parents[2] / "docs"


def load() -> ModuleType:
    path = DOCS / "generate_quantized.py"
    spec = importlib.util.spec_from_file_location("generate_quantized", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


GENERATE = load()
#: Where the operands play different parts, or the place in the row counts.
ERRORS = {"PromotionError", "GridError", "OptionError"}
ONE_WAY = {"linear", "conv2d", "concat"}


def test_the_page_is_what_the_calls_give() -> None:
    text = GENERATE.PAGE.read_text()
    assert GENERATE.page(text) == text, "run python docs/generate_quantized.py"


@pytest.mark.parametrize("name", GENERATE.OPERATIONS)
def test_every_pair_has_a_type_or_an_error_with_a_way_out(name: str) -> None:
    cells = GENERATE.table(name)
    assert len(cells) == len(GENERATE.TYPES) ** 2 - len(GENERATE.REAL) ** 2
    for pair, cell in cells.items():
        for found in filter(None, cell):
            error, separator, rest = found.partition(": ")
            assert not separator or error in (
                "PromotionError",
                "GridError",
                "OptionError",
            )
            assert not separator or rest.count(". ") >= 1, (pair, found)


@pytest.mark.parametrize("name", [n for n in GENERATE.OPERATIONS if n not in ONE_WAY])
def test_the_order_of_the_types_does_not_matter(name: str) -> None:
    cells = GENERATE.table(name)
    for (first, second), cell in cells.items():
        assert kinds(cell) == kinds(cells[second, first]), (first, second)


def kinds(cell: Any) -> list[str]:
    """Types of results, and of errors."""
    return [found.partition(":")[0] for found in cell]
