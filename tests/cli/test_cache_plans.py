"""`mdtensor cache` lists and deletes the plans that `load` keeps."""

import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support import stored_plans, tiny_network

from mdtensor.quant import load
from mdtensor.quant.plans import cache

Call = Callable[..., Any]


@pytest.fixture
def plans(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a plan of this version and a damaged one."""
    folder = tmp_path / "plans"
    model, _ = stored_plans.small_network(tmp_path)
    model.save(tmp_path / "net.onnx")
    monkeypatch.setenv(cache.VARIABLE, str(folder))
    load(tmp_path / "net.onnx")(tiny_network.images(1, 3))
    (folder / "damaged.mdt").write_bytes(b"mdtplan")
    return folder


def test_list_and_size(call: Call, plans: Path) -> None:
    facts = json.loads(call("cache", "list", "--json").out)
    rows = {row["model"]: row for row in facts["plans"]}
    assert set(rows) == {"net.onnx", "damaged"}
    assert rows["net.onnx"]["current"] and not rows["damaged"]["current"]
    assert rows["net.onnx"]["bytes"] == Path(rows["net.onnx"]["file"]).stat().st_size
    assert "net.onnx" in call("cache", "list").out
    (row,) = [row for row in facts["folders"] if row["folder"] == str(plans)]
    assert row["files"] == 2


@pytest.mark.parametrize(
    ("options", "left"), [([], 0), (["--old"], 1), (["--user"], 2)]
)
def test_clear(
    options: list[str],
    left: int,
    call: Call,
    plans: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("mdtensor.cli.cache.contents.entries", lambda: iter(()))
    assert call("cache", "clear", *options).code == 0
    assert len(list(plans.iterdir())) == left


@pytest.fixture
def only_plans(monkeypatch: pytest.MonkeyPatch) -> None:
    """No compiled functions: an export has plans only."""
    monkeypatch.setattr("mdtensor.cli.cache.contents.entries", lambda: iter(()))


def test_export_and_import(
    call: Call, plans: Path, only_plans: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    exported = plans.parent / "plans.zip"
    found = json.loads(call("cache", "export", str(exported), "--json").out)
    assert found["files"] == 1  # not the damaged one
    (want,) = [path for path in plans.iterdir() if path.stem != "damaged"]
    monkeypatch.setenv(cache.VARIABLE, str(plans.parent / "others"))
    assert call("cache", "import", str(exported)).code == 0
    (got,) = (plans.parent / "others").iterdir()
    assert got.name == want.name and got.read_bytes() == want.read_bytes()
    model = load(plans.parent / "net.onnx")
    model(tiny_network.images(1, 3))
    assert model._graph is None  # the imported plan ran


@pytest.mark.parametrize("damage", ["cut", "other", "name", "off"])
def test_bad_imports_add_nothing(
    damage: str,
    call: Call,
    plans: Path,
    only_plans: None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    exported = plans.parent / "plans.zip"
    call("cache", "export", str(exported))
    with zipfile.ZipFile(exported) as archive:
        (name,) = archive.namelist()
        content = archive.read(name)
    if damage == "other":
        monkeypatch.setattr(cache, "sources", lambda: "of another version")
    with zipfile.ZipFile(exported, "w") as archive:
        archive.writestr(
            "plans/../x.mdt" if damage == "name" else name,
            content[: len(content) // 2] if damage == "cut" else content,
        )
    others = plans.parent / "others"
    monkeypatch.setenv(cache.VARIABLE, "off" if damage == "off" else str(others))
    done = call("cache", "import", str(exported))
    assert done.code != 0 and not others.exists()
    words = {"cut": "damaged", "other": "another version", "name": "no export"}
    assert words.get(damage, "MDTENSOR_PLANS") in done.err
