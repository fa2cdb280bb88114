"""The scripts of docs/applications on their real inputs, with the figures they show."""

from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from PIL import Image

from bench.zoo.shelf import Absent

SCRIPTS = sorted((Path(__file__).parents[2] / "docs" / "applications").glob("*.py"))


def run(name: str, *needs: str, arguments: Any = ()) -> Any:
    """Run a script; skip the test where a package or a model cannot be had."""
    import importlib

    for package in needs:
        pytest.importorskip(package)
    module: ModuleType = importlib.import_module(f"docs.applications.{name}")
    try:
        return module.main(*arguments)
    except Absent as problem:
        pytest.skip(str(problem))


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_a_script_fits_on_a_screen(script: Path) -> None:
    source = [line for line in script.read_text().splitlines() if line.strip()]
    assert len(source) < 60


@pytest.mark.slow
def test_a_page_is_read(tmp_path: Path) -> None:
    found = run("ocr", arguments=[tmp_path / "boxes.png"])
    rates = found["rates"]
    assert rates["int8"] <= rates["float"] + 0.01 and rates["float"] < 0.03
    assert "markers are pixels that we can label" in found["text"]
    assert len(found["boxes"]) == 7
    with Image.open(tmp_path / "boxes.png") as picture:
        reds = [n for n, c in picture.getcolors(1 << 20) or () if c == (255, 0, 0)]
    assert sum(reds) > 7 * 2 * 100


@pytest.mark.slow
def test_a_word_is_heard() -> None:
    found = run("wake_word")
    assert found["float"]["heard"] >= 0.8 * found["words"]
    assert found["int8"]["heard"] >= found["float"]["heard"] - 2
    assert found["int8"]["false"] <= found["float"]["false"] + 2


@pytest.mark.slow
def test_sentences_are_found() -> None:
    found = run("sentence_search")
    assert found[32]["right"] == found["pairs"] == 20
    assert found[8]["right"] == 20 and found[8]["moved"] < 0.02
    assert found[4]["right"] >= 19 and found[4]["megabytes"] < 16


@pytest.mark.slow
def test_faces_are_found() -> None:
    found = run("faces")
    for facts in found.values():
        assert facts["right"] >= 149
        assert facts["found"] >= 73 and facts["false"] <= 6
        score, (left, top, right, bottom) = facts["astronaut"]
        # The face of the photograph is there; the hair is not part of the box.
        assert score > 0.8 and left < 0.4 < 0.5 < right and top < 0.2 < 0.3 < bottom


@pytest.mark.slow
def test_tables_are_classified() -> None:
    found = run("tables", "sklearn", "skl2onnx")
    for (_, name), shares in found.items():
        # Trees compare; only sums of floats may differ.
        slack = 0.0 if name == "forest" else 0.001
        assert abs(shares["float"] - shares["scikit-learn"]) <= slack
        assert shares["int8"] >= shares["float"] - 0.015
        assert shares["int8"] > 0.9
