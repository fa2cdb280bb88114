"""Readings as text."""

import pytest

from bench.harness import Count
from bench.harness.table import shown, table, tabled
from bench.harness.turns import QUICK


def test_table_is_markdown() -> None:
    assert table(("a", "bb"), [("ccc", "d")]) == (
        "| a   | bb |\n| --- | -- |\n| ccc | d  |"
    )


@pytest.mark.parametrize(
    ("value", "text"),
    [(1.5e-7, "150 ns"), (2.25e-6, "2.25 us"), (0.0125, "12.5 ms"), (3, "3 s")],
)
def test_seconds_have_a_handy_unit(value: float, text: str) -> None:
    assert shown(value, "s") == text


def test_counts_are_whole() -> None:
    assert shown(12345, "bytes") == "12,345"
    assert shown(0.5123, "ulp") == "0.512"


def test_one_row_is_a_list_and_many_are_a_grid() -> None:
    one = Count("a", lambda: {"mdtensor": 1, "rival": 2}, "lines").read(QUICK)
    two = Count("b", lambda: {"mdtensor": 3, "other": 4}, "lines").read(QUICK)
    assert tabled(one) == (
        "| a        | lines | mdtensor / this (95 %) |\n"
        "| -------- | ----- | ---------------------- |\n"
        "| mdtensor | 1     |                        |\n"
        "| rival    | 2     | 0.50                   |"
    )
    assert tabled([*one, *two]) == (
        "| lines | mdtensor | rival | other | mdtensor / rival | mdtensor / other |\n"
        "| ----- | -------- | ----- | ----- | ---------------- | ---------------- |\n"
        "| a     | 1        | 2     |       | 0.50             |                  |\n"
        "| b     | 3        |       | 4     |                  | 0.75             |"
    )
