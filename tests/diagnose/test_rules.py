"""Each rule finds its own sinning example, and nothing in the repaired one."""

import re

import pytest

from mdtensor.diagnose import analyze, rule, rules
from mdtensor.errors import OptionError

IDS = [f"MDT{number:03}" for number in range(1, 15)]


def run(source):
    """The namespace of an example; it makes a Dispatcher called `dispatch`."""
    namespace = {"__name__": "example"}
    exec(compile(source, "example.py", "exec", dont_inherit=True), namespace)
    return namespace


def findings(source):
    namespace = run(source)
    report = analyze(namespace["dispatch"])
    if "promise" in namespace:
        namespace["promise"].withdraw()
    return report.findings


def test_ids_are_numbered_without_a_gap():
    assert [found.id for found in rules()] == IDS


@pytest.mark.parametrize("name", IDS)
def test_the_example_sins(name):
    assert name in {finding.rule for finding in findings(rule(name).example)}


@pytest.mark.parametrize("name", IDS)
def test_the_repaired_example_is_clean(name):
    assert findings(rule(name).repaired) == ()


@pytest.mark.parametrize("name", IDS)
def test_a_finding_says_what_and_where_and_what_to_do(name):
    found = next(f for f in findings(rule(name).example) if f.rule == name)
    assert found.level == rule(name).level
    assert found.message and found.fix and found.distribution
    assert re.fullmatch("[0-9a-f]{12}", found.fingerprint)
    for method in found.methods:
        assert method.file == "example.py"
        assert method.line > 0
        assert "0x" not in method.signature


@pytest.mark.parametrize("name", IDS)
def test_a_rule_explains_itself(name):
    text = str(rule(name))
    assert text.startswith(f"{name} ({rule(name).level}): {rule(name).title}")
    assert "Bad:" in text and "Good:" in text
    assert max(map(len, text.splitlines())) <= 92


@pytest.mark.parametrize("name", IDS)
def test_the_fingerprint_survives_moved_lines(name):
    before = findings(rule(name).example)
    moved = findings("# one more line\n\n" + rule(name).example)
    assert [f.fingerprint for f in before] == [f.fingerprint for f in moved]
    assert before == moved or any(f.methods for f in before)


def test_another_signature_is_another_fingerprint():
    source = rule("MDT001").example
    other = source.replace("class Real", "class Rational").replace("Real,", "Rational,")
    other = other.replace("b: Real", "b: Rational")
    assert findings(source)[0].fingerprint != findings(other)[0].fingerprint


def test_unions_are_spoken_of_where_there_are_some():
    source = rule("MDT008").example
    fix = "give each its own __qualname__"
    assert {f.fix for f in findings(source) if f.rule == "MDT008"} == {fix}
    united = source.replace("x: First", "x: Union[First, int]")
    united = f"from typing import Union\n{united}"
    fix += ", and write typing.Union, not |"
    assert {f.fix for f in findings(united) if f.rule == "MDT008"} == {fix}


def test_an_unknown_rule_is_refused():
    with pytest.raises(OptionError, match="no rule 'MDT999'"):
        rule("MDT999")
