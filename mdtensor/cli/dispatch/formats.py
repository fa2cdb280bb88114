"""Findings for programs: JSON, JSON lines, GitHub annotations, SARIF, Markdown."""

import json
from collections.abc import Callable, Iterator
from dataclasses import asdict
from itertools import groupby
from typing import Any
from urllib.parse import quote

import mdtensor
from mdtensor.cli.dispatch.query import Checked, anchor, path_of, path_of_file
from mdtensor.diagnose import Finding, MethodInfo, Rule, rules
from mdtensor.diagnose.finding import level_counts
from mdtensor.diagnose.patches import edits
from mdtensor.errors import OptionError

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
ROOT = "SRCROOT"
#: The name of our fingerprint; its number changes if its computation changes.
FINGERPRINT = "mdtensorDispatch/v1"
LEVELS = {"error": "error", "warning": "warning", "info": "note"}


def sarif(checked: Checked) -> dict[str, Any]:
    """Return a SARIF log of one run, with all rules and the findings as results.

    Paths are relative to the current folder. Findings that the baseline accepts are
    suppressed.
    """
    known = rules()
    ids = [rule.id for rule in known]
    driver = {
        "name": "mdtensor dispatch",
        "version": mdtensor.__version__,
        "rules": [_rule(rule) for rule in known],
    }
    base = {"description": {"text": "The folder that was checked in."}}
    run = {
        "tool": {"driver": driver},
        "originalUriBaseIds": {ROOT: base},
        "columnKind": "unicodeCodePoints",
        "results": [_result(f, ids, checked) for f in checked.findings],
    }
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}


def _rule(rule: Rule) -> dict[str, Any]:
    return {
        "id": rule.id,
        "shortDescription": {"text": rule.title},
        "fullDescription": {"text": rule.explanation.strip()},
        "help": {"text": str(rule)},
        "defaultConfiguration": {"level": LEVELS[rule.level]},
    }


def _result(finding: Finding, ids: list[str], checked: Checked) -> dict[str, Any]:
    place = anchor(finding)
    others = [m for m in finding.methods if m is not place]
    known = finding.fingerprint in checked.known
    fix = f"\n\n{finding.fix}" if finding.fix else ""
    return {
        "ruleId": finding.rule,
        "ruleIndex": ids.index(finding.rule),
        "level": LEVELS[finding.level],
        "message": {"text": f"{finding.message}{fix}"},
        "locations": [_location(place)] if place else [],
        "relatedLocations": [
            {"id": at, "message": {"text": method.signature}, **_location(method)}
            for at, method in enumerate(others, 1)
        ],
        "partialFingerprints": {FINGERPRINT: finding.fingerprint},
        "baselineState": "unchanged" if known else "new",
        "suppressions": [{"kind": "external"}] if known else [],
        **_fixes(finding),
        "properties": {
            "function": finding.function,
            "witness": list(finding.witness),
            "count": finding.count,
            "total": finding.total,
            "reach": finding.reach,
        },
    }


def _fixes(finding: Finding) -> dict[str, Any]:
    """Return the edits of a finding as its one fix in SARIF; nothing without edits."""
    files: dict[str, list[dict[str, Any]]] = {}
    for edit in edits(finding):
        region = {
            "startLine": edit.start[0],
            "startColumn": edit.start[1],
            "endLine": edit.end[0],
            "endColumn": edit.end[1],
        }
        replacement: dict[str, Any] = {"deletedRegion": region}
        if edit.text:
            replacement["insertedContent"] = {"text": edit.text}
        files.setdefault(path_of_file(edit.file), []).append(replacement)
    changes = [
        {
            "artifactLocation": {"uri": quote(name), "uriBaseId": ROOT},
            "replacements": replacements,
        }
        for name, replacements in files.items()
    ]
    text = {"text": finding.fix}
    return (
        {"fixes": [{"description": text, "artifactChanges": changes}]} if files else {}
    )


def _location(method: MethodInfo) -> dict[str, Any]:
    artifact = {"uri": quote(path_of(method)), "uriBaseId": ROOT}
    return {
        "physicalLocation": {
            "artifactLocation": artifact,
            "region": {"startLine": max(method.line, 1)},
        },
        "logicalLocations": [{"fullyQualifiedName": method.signature}],
    }


TEXT, JSON = "text", "json"
Findings = Iterator[Finding]
JSON_SCHEMA = 1
#: Most annotations of one level that GitHub shows for a step.
SHOWN = 10
GITHUB = {"error": "error", "warning": "warning", "info": "notice"}


def facts(checked: Checked) -> dict[str, Any]:
    """Return the result of a check as plain data."""
    report = checked.report
    return {
        "schema": JSON_SCHEMA,
        "tool": "mdtensor",
        "version": mdtensor.__version__,
        "functions": len(report.functions),
        "methods": report.methods,
        "universe": report.universe,
        "summary": _summary(checked),
        "findings": [finding_facts(f, checked) for f in checked.findings],
        "stale": [asdict(entry) for entry in checked.stale],
    }


def finding_facts(finding: Finding, checked: Checked) -> dict[str, Any]:
    """Return one finding as plain data."""
    return {
        **asdict(finding),
        "fingerprint": finding.fingerprint,
        "baselined": finding.fingerprint in checked.known,
    }


def _summary(checked: Checked) -> dict[str, int]:
    ordered = sorted(f.rule for f in checked.findings)
    return {rule: len(list(group)) for rule, group in groupby(ordered)}


def counts(checked: Checked) -> str:
    """Return one line: `3 functions, 9 methods, 24 types: 1 error, 2 baselined`."""
    old, stale = len(checked.old), len(checked.stale)
    found = level_counts(checked.new)
    found += [f"{old} baselined"] if old else []
    found += [f"{stale} stale in the baseline"] if stale else []
    return f"{checked.report.sizes}: {', '.join(found) or 'nothing found'}"


def as_json(checked: Checked) -> str:
    """Return the result of a check as JSON."""
    return json.dumps(facts(checked), indent=2)


def as_jsonl(checked: Checked) -> str:
    """Return a line of JSON for each finding."""
    lines = (finding_facts(finding, checked) for finding in checked.findings)
    return "\n".join(map(json.dumps, lines))


def as_sarif(checked: Checked) -> str:
    """Return the result of a check as SARIF."""
    return json.dumps(sarif(checked), indent=2)


def as_github(checked: Checked) -> str:
    """Return an annotation for each function and level, and one with the counts."""
    lines, shown = [], dict.fromkeys(GITHUB, 0)
    for (at, _), group in _by_function(checked):
        level = list(GITHUB)[at]
        if shown[level] < SHOWN:
            lines.append(_annotation(list(group)))
        shown[level] += 1
    total = _property("mdtensor dispatch"), _data(counts(checked))
    return "\n".join([*lines, "::notice title={}::{}".format(*total)])


def _by_function(checked: Checked) -> Iterator[tuple[tuple[int, str], Findings]]:
    def key(finding: Finding) -> tuple[int, str]:
        return list(GITHUB).index(finding.level), finding.function

    return groupby(sorted(checked.new, key=key), key)


def _annotation(findings: list[Finding]) -> str:
    first = findings[0]
    place, where = anchor(first), ""
    if place is not None:
        where = f"file={_property(path_of(place))},line={max(place.line, 1)},"
    name = first.function.rpartition(".")[2]
    title = _property(f"{first.rule} in {name}" if name else first.rule)
    text = _data("\n\n".join(map(str, findings)))
    return f"::{GITHUB[first.level]} {where}title={title}::{text}"


def _data(text: str) -> str:
    # A workflow command of GitHub ends at a line break.
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    # Colon and comma separate the properties of a workflow command.
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def as_markdown(checked: Checked) -> str:
    """Return a table of the findings in Markdown, and the fix of each."""
    parts = ["# Dispatch", counts(checked) + "."]
    if checked.findings:
        rows = [
            "| rule | level | what | where | id |",
            "| --- | --- | --- | --- | --- |",
        ]
        parts.append("\n".join([*rows, *(_row(f, checked) for f in checked.findings)]))
    for finding in checked.new:
        if finding.fix:
            head = f"## {finding.rule} `{finding.fingerprint}`"
            parts += [head, _escape(finding.message), _code(finding.fix)]
    return "\n\n".join(parts)


def _row(finding: Finding, checked: Checked) -> str:
    places = "<br>".join(f"`{method.location}`" for method in finding.methods)
    known = " (baselined)" if finding.fingerprint in checked.known else ""
    cells = [finding.rule, finding.level + known, _escape(finding.message), places]
    return f"| {' | '.join([*cells, f'`{finding.fingerprint}`'])} |"


def _escape(text: str) -> str:
    for mark in "\\|<>*_`[]":
        text = text.replace(mark, f"\\{mark}")
    return text


def _code(text: str) -> str:
    return f"```python\n{text}\n```" if "def " in text else _escape(text)


FORMATS: dict[str, Callable[[Checked], str]] = {
    JSON: as_json,
    "jsonl": as_jsonl,
    "github": as_github,
    "sarif": as_sarif,
    "md": as_markdown,
}


def require_format(name: str, *, answers: bool = False) -> str:
    """Return the name of a format if it is valid.

    Args:
        name: the name from `--format`.
        answers: whether only text and JSON are valid.

    Raises:
        OptionError: the format is unknown.
    """
    names = (TEXT, JSON) if answers else (TEXT, *FORMATS)
    if name not in names:
        raise OptionError(f"unknown format --format {name}", f"Use {', '.join(names)}")
    return name
