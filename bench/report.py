"""docs/benchmarks.md from bench/results/*.json; fails if a promise is broken.

    python bench/report.py           # write the page
    python bench/report.py --check   # only say which limits are missed

The page is never typed by hand: a number in it comes from a run that can be repeated.
"""

import json
import sys
from pathlib import Path
from typing import Any

from harness import RESULTS, Limit, table

PAGE = Path(__file__).parents[1] / "docs" / "benchmarks.md"
HEAD = """# Benchmarks

Written by `bench/report.py` from `bench/results/`; run `make bench` to renew it.
Contenders of a table took turns in one run; an interval holds 95 % of the medians of
resampled rounds.
"""


def section(result: dict[str, Any]) -> str:
    """One benchmark: table, promises, notes, and where it ran."""
    place = result["environment"]
    packages = ", ".join(f"{n} {v}" for n, v in place["packages"].items())
    parts = [f"## {result['title']}", table(result["header"], result["rows"])]
    parts += ["\n".join(f"- {Limit(**limit)}." for limit in result["limits"])]
    parts += [result["notes"]]
    machine = f"{place['cpu']}, {place['cores']} cores, load {place['load']}"
    python = f"Python {place['python']}, {packages}"
    parts += [f"`{result['command']}` on {machine}, {python}."]
    return "\n\n".join(part for part in parts if part)


def main() -> int:
    results = [json.loads(path.read_text()) for path in sorted(RESULTS.glob("*.json"))]
    if "--check" not in sys.argv[1:]:
        PAGE.write_text("\n\n".join([HEAD.rstrip(), *map(section, results)]) + "\n")
        print(f"report: {len(results)} benchmarks in {PAGE.name}")
    limits = [Limit(**limit) for result in results for limit in result["limits"]]
    missed = [limit for limit in limits if not limit.holds]
    for limit in missed:
        print(limit)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
