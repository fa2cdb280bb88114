"""The deviations that docs/reference/array-api.md lists, and no others."""

import inspect
import re
from pathlib import Path
from typing import Any

from standard.test_signatures import METHODS, SPACES

import mdtensor as md

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "array-api.md").read_text()
INFINITE = complex("inf+2j")
DEVIATIONS = {"sqrt"}
ITS_OWN = {"Device", "ArrayAPIStrictFlags"}


def test_the_page_lists_them() -> None:
    section = PAGE.split("## Deviations")[1].split("\n## ")[0]
    assert set(re.findall(r"^\| `([\w.]+)` \|", section, re.M)) == DEVIATIONS


def test_the_page_counts_them() -> None:
    main, linalg, fft = (functions(theirs) for theirs, _ in SPACES.values())
    count = len(METHODS) + len(main | linalg) + len(fft)
    share = f"{len(DEVIATIONS) / count:.1%}".replace("%", " %")
    listed = f"{len(DEVIATIONS)} of {count} functions and methods ({share})"
    assert listed in PAGE


def functions(space: Any) -> set[str]:
    names = {name for name in space.__all__ if name not in ITS_OWN}
    found = {name: getattr(space, name) for name in names}
    return {name for name, value in found.items() if inspect.isfunction(value)}


def test_square_roots_far_out() -> None:
    assert complex(md.sqrt(md.asarray(INFINITE))) == complex("inf+0j")
    assert complex(md.sqrt(md.asarray(-INFINITE.conjugate()))) == complex("0+infj")
