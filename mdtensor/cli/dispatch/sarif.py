"""Findings as SARIF 2.1.0, which code hosts show beside the lines."""

from typing import Any
from urllib.parse import quote

import mdtensor
from mdtensor.cli.dispatch.checking import Checked
from mdtensor.cli.dispatch.places import anchor, path_of
from mdtensor.diagnose import Finding, MethodInfo, Rule, rules

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
ROOT = "SRCROOT"
#: The name of our fingerprint; another number if it is ever made differently.
FINGERPRINT = "mdtensorDispatch/v1"
LEVELS = {"error": "error", "warning": "warning", "info": "note"}


def sarif(checked: Checked) -> dict[str, Any]:
    """One run with all rules, and the findings as its results.

    Paths count from the folder we stand in. What a baseline accepts is suppressed.
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
        "properties": {
            "function": finding.function,
            "witness": list(finding.witness),
            "count": finding.count,
            "total": finding.total,
            "reach": finding.reach,
        },
    }


def _location(method: MethodInfo) -> dict[str, Any]:
    artifact = {"uri": quote(path_of(method)), "uriBaseId": ROOT}
    return {
        "physicalLocation": {
            "artifactLocation": artifact,
            "region": {"startLine": max(method.line, 1)},
        },
        "logicalLocations": [{"fullyQualifiedName": method.signature}],
    }
