"""The demo as a user runs it, against the figures it has to reach."""

import json
import subprocess
import sys
from typing import Any

import pytest

OURS, PEER = "mdtensor int8", "onnxruntime int8"


@pytest.fixture(scope="module")
def facts() -> Any:
    command = [sys.executable, "-m", "mdtensor", "demo", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    assert "Warning" not in done.stderr and "Traceback" not in done.stderr
    return json.loads(done.stdout)


@pytest.mark.slow
def test_int8_agrees_with_float(facts: Any) -> None:
    found = facts["agreement"]
    rows = found["rows"]
    assert found["crops"] >= 100 and found["lines"] == 7
    assert rows[OURS]["agree"] >= 0.98 * found["crops"]
    assert rows[OURS]["agree"] >= rows[PEER]["agree"]
    assert rows[OURS]["agree_where_sure"] == found["sure"]
    assert rows["mdtensor float"]["agree"] == found["crops"]
    assert rows["mdtensor float"]["largest_difference"] < 1e-4


@pytest.mark.slow
def test_int8_is_small(facts: Any) -> None:
    sizes = facts["bytes"]
    assert sizes["int8 weights"] <= 0.27 * sizes["float weights"]
    assert sizes["mdtensor int8 file"] <= sizes["onnxruntime int8 file"]
    assert sizes["mdtensor int8 file"] <= 331_000


@pytest.mark.slow
def test_it_tells_times_the_plan_and_what_ran(facts: Any) -> None:
    assert set(facts["times"]) == {"1", "2"}
    for row in facts["times"].values():
        assert set(row["milliseconds"]) == set(facts["agreement"]["rows"])
        assert row["ratio"] > 0
    assert [n["operation"] for n in facts["plan"]["float"]] == ["softmax"]
    assert len(facts["which"]) == 3


@pytest.mark.slow
def test_the_page_is_read(facts: Any) -> None:
    rates = facts["page"]["wrong_characters"]
    assert rates["int8"] <= rates["float"] + 0.01
    assert "Let us first determine markers of the coins" in facts["page"]["text"]
