"""Check public packages that use plum, and write docs/reference/strangers.md.

    python docs/generate/strangers.py measure backends lab  # distribution, module
    python docs/generate/strangers.py                       # the page, from results

`measure` runs `mdtensor dispatch check`, and `confirm` checks its findings by plum.
It applies the diff of `--write` to a copy of the package and checks again. It needs an
environment with mdtensor[cli] and the package, and it adds a row to `strangers.json`.
tests/diagnose/test_strangers.py compares the page with the results.
"""

import importlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from importlib import metadata
from pathlib import Path
from typing import Any

from confirm import unconfirmed

from mdtensor.diagnose.report import analyze, study_of
from mdtensor.diagnose.source import functions_of, sources

HERE = Path(__file__).parent
RESULTS = HERE / "strangers.json"
PAGE = HERE.parent / "reference" / "strangers.md"
#: Longest time for one check with its imports, in seconds.
LIMIT = 300
DIFF = "fixes.diff"
LEVELS = ("error", "warning", "info")


def check(module: str, folder: Path, *options: str) -> dict[str, Any]:
    """Run the command in a folder, and return its JSON and the seconds it took."""
    command = [sys.executable, "-m", "mdtensor", "dispatch", "check", module]
    command += ["--format", "json", "--fail-on", "never", *options]
    # The folder comes first, so that a patched copy in it is what the command imports.
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    start = time.perf_counter()
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True,
        timeout=LIMIT, check=False,
    )  # fmt: skip
    seconds = time.perf_counter() - start
    assert "Traceback" not in done.stderr, done.stderr
    if done.returncode:
        return {"problem": done.stderr.strip().splitlines()[-1], "seconds": seconds}
    return {**json.loads(done.stdout), "seconds": seconds}


def measure(name: str, module: str) -> dict[str, Any]:
    """Return the row of a package."""
    row = {"package": name, "version": metadata.version(name), "module": module}
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        found = check(module, folder, "--write", DIFF)
        row["seconds"] = round(found["seconds"], 1)
        if "problem" in found:
            return {**row, "problem": found["problem"]}
        row |= {key: found[key] for key in ("functions", "methods")}
        return {**row, **confirm(module), **repair(module, folder, found)}


def confirm(module: str) -> dict[str, Any]:
    """Analyse a package in this process, and confirm each finding."""
    importlib.import_module("mdtensor.quant")
    importlib.import_module(module)
    calls = functions_of([module])
    start = time.process_time()
    report = analyze(calls)
    seconds = round(time.process_time() - start, 2)
    wrong = unconfirmed(report.findings, sources(calls), study_of(calls).universe)
    return {
        "analysis": seconds,
        "findings": dict(sorted(Counter(f.rule for f in report.findings).items())),
        "unconfirmed": dict(sorted(Counter(f.rule for f in wrong).items())),
        "ambiguous": [f.message for f in report.of("MDT001")],
        "doubtful": [f"{f.rule}: {f.message}" for f in wrong],
    }


def repair(module: str, folder: Path, found: dict[str, Any]) -> dict[str, Any]:
    """Apply the diff to a copy of the package, and count the findings that are gone."""
    text = (folder / DIFF).read_text()
    files = sorted(set(re.findall(r"^--- a/(.*)$", text, re.MULTILINE)))
    for top in sorted({Path(file).parts[0] for file in files}):
        home = Path(importlib.import_module(top).__file__ or "").parent
        shutil.copytree(home, folder / top)
    if files:
        subprocess.run(["git", "apply", DIFF], cwd=folder, check=True)
    after = check(module, folder) if files else found
    assert "problem" not in after, after
    left = {f["fingerprint"] for f in after["findings"]}
    mendable = ("MDT001", "MDT003")
    before = [f for f in found["findings"] if f["rule"] in mendable]
    gone = [f for f in before if f["fingerprint"] not in left]
    new = len(left - {f["fingerprint"] for f in found["findings"]})
    return {
        "files": len(files),
        "mended": len(gone),
        "mendable": len(before),
        "new": new,
    }


def table(rows: list[dict[str, Any]]) -> str:
    """Return a row for each package."""
    heads = ["package", "functions", "methods", *LEVELS, "confirmed", "seconds"]
    lines = [
        f"| {' | '.join([*heads, 'mended'])} |",
        f"| --- |{' ---: |' * len(heads)}",
    ]
    for row in rows:
        link = f"[{row['package']}](https://pypi.org/project/{row['package']}/)"
        name = f"{link} {row['version']}"
        if "problem" in row:
            continue
        levels = [sum(count_level(row, level)) for level in LEVELS]
        total = sum(levels)
        right = total - sum(row["unconfirmed"].values())
        cells = [name, row["functions"], row["methods"], *levels]
        cells += [f"{right} of {total}", f"{row['analysis']:.1f}"]
        cells += [f"{row['mended']} of {row['mendable']}"]
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines)


def count_level(row: dict[str, Any], level: str) -> list[int]:
    from mdtensor.diagnose import rule

    return [n for name, n in row["findings"].items() if rule(name).level == level]


def by_rule(rows: list[dict[str, Any]]) -> str:
    """Return a row for each rule: findings, confirmed ones, packages."""
    from mdtensor.diagnose import rules

    lines = [
        "| rule | what | findings | confirmed | packages |",
        "| --- | --- | ---: | ---: | ---: |",
    ]
    for each in rules():
        found = [row["findings"].get(each.id, 0) for row in rows]
        wrong = sum(row["unconfirmed"].get(each.id, 0) for row in rows)
        if any(found):
            cells = [each.id, each.title, sum(found), sum(found) - wrong]
            cells += [sum(map(bool, found))]
            lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines)


def ambiguities(rows: list[dict[str, Any]], shown: int = 5) -> str:
    """Return the first ambiguous calls of each package."""
    lines = []
    for row in rows:
        calls = [text.split(": ")[1] for text in row["ambiguous"]]
        more = f", and {len(calls) - shown} more" if len(calls) > shown else ""
        listed = ", ".join(f"`{call}`" for call in calls[:shown])
        if calls:
            lines.append(f"- {row['package']}: {listed}{more}")
    return "\n".join(lines)


def page(text: str, found: dict[str, Any]) -> str:
    """Return the page with every generated block written again."""
    rows = [row for row in found["packages"] if "problem" not in row]
    failed = [row for row in found["packages"] if "problem" in row]
    blocks = {
        "machine": f"Python {found['python']}, plum {found['plum']}.",
        "packages": table(rows),
        "rules": by_rule(rows),
        "ambiguous": ambiguities(rows),
        "failed": "\n".join(
            f"- {row['package']} {row['version']}: `{row['problem']}`" for row in failed
        ),
    }
    marked = re.compile(r"(<!-- begin: (\w+) -->).*?(<!-- end -->)", re.DOTALL)
    return marked.sub(lambda m: f"{m[1]}\n\n{blocks[m[2]]}\n\n{m[3]}", text)


def read() -> dict[str, Any]:
    return json.loads(RESULTS.read_text()) if RESULTS.exists() else {"packages": []}


def store(row: dict[str, Any]) -> None:
    """Put a row into the results, in the order of names."""
    found = read()
    rows = [each for each in found["packages"] if each["package"] != row["package"]]
    found = {
        "python": platform.python_version(),
        "plum": metadata.version("plum-dispatch"),
        "packages": sorted([*rows, row], key=lambda each: each["package"]),
    }
    RESULTS.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    if sys.argv[1:2] == ["measure"]:
        store(measure(*sys.argv[2:4]))
    else:
        PAGE.write_text(page(PAGE.read_text(), read()))
