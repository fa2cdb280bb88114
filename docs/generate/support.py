"""Write the tables of docs/reference/support.md from the registry.

    python docs/generate/support.py

The script replaces the text between `begin` and `end` and keeps the prose.
tests/cli/test_support.py compares the page with the registry.
"""

import re
from pathlib import Path
from typing import Any

from mdtensor.cli.host import KINDS, MARKS, describe_support, markdown

PAGE = Path(__file__).parents[1] / "reference" / "support.md"


def marks() -> str:
    return "\n".join(f"- {mark} {meaning}" for mark, _, meaning in MARKS.values())


def types(facts: dict[str, Any]) -> str:
    """Return a table: the element types of each column, in the order of marks."""
    rows = ["| column | element types |", "| --- | --- |"]
    for kind, names in facts["types"].items():
        rows.append(f"| {KINDS.get(kind, kind)} | {' '.join(names)} |")
    return "\n".join(rows)


def page(text: str) -> str:
    """Return the page with every generated block written again."""
    facts = describe_support("mdtensor.*", "cpu", [])
    blocks = {
        "marks": marks(),
        "types": types(facts),
        "tables": markdown(facts, "cpu"),
    }
    marked = re.compile(r"(<!-- begin: (\w+) -->).*?(<!-- end -->)", re.DOTALL)
    return marked.sub(lambda m: f"{m[1]}\n\n{blocks[m[2]]}\n\n{m[3]}", text)


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text()))
