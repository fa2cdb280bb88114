"""WebGPU, a device in a package of its own; its tests are in its own folder.

`make webgpu` requires an adapter: there its absence is a failure.
"""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "docs" / "how-to" / "extending" / "webgpu"
#: Set by `make webgpu`.
REQUIRED = bool(os.environ.get("MDTENSOR_REQUIRES_WEBGPU"))

WITHOUT_PACKAGE = """
import sys
sys.modules["wgpu"] = None  # as if it were not installed
import mdtensor as md, mdtensor_webgpu
place = md.device("webgpu")
assert place in md.devices() and md.memory_stats(place).used == 0
try:
    md.asarray([1.0]).to(place)
except md.DeviceError as error:
    print(error)
print(md.asarray([1.0]).device)
"""

WITHOUT_ADAPTER = """
import sys, types
gpu = types.SimpleNamespace(request_adapter_sync=lambda **options: None)
sys.modules["wgpu"] = types.SimpleNamespace(gpu=gpu)
import mdtensor as md, mdtensor_webgpu
print(md.device("webgpu").missing)
"""


def run(*command: str, path: Path) -> str:
    """What a command of this Python prints, with `path` first on its path."""
    done = subprocess.run(
        [sys.executable, *command],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_without_wgpu_one_sentence_says_what_to_install() -> None:
    lines = run("-P", "-c", WITHOUT_PACKAGE, path=PACKAGE / "src").splitlines()
    problem = "webgpu cannot be used: wgpu is not installed: pip install wgpu"
    assert lines[0].endswith(f"{problem}. Use cpu.")
    assert lines[1:] == ["cpu"]


def test_without_an_adapter_one_sentence_says_what_to_install() -> None:
    said = run("-P", "-c", WITHOUT_ADAPTER, path=PACKAGE / "src")
    assert said.startswith("wgpu finds no adapter: install a Vulkan driver")
    assert "apt-get install mesa-vulkan-drivers" in said


@pytest.mark.slow
@pytest.mark.webgpu
def test_the_package_passes_its_own_tests_from_a_wheel(tmp_path: Path) -> None:
    """Built, installed, found by its entry point, and run on an adapter."""
    if not REQUIRED and not has_adapter():
        pytest.skip("no adapter; `make webgpu` requires one")
    source, site = tmp_path / "source", tmp_path / "site"
    shutil.copytree(PACKAGE, source)
    pip = ("-P", "-m", "pip", "--disable-pip-version-check", "-q")
    options = ("--no-index", "--no-build-isolation", "--no-deps", "--no-cache-dir")
    run(*pip, "install", *options, "--target", str(site), str(source), path=tmp_path)
    # Only the installed package has the entry point that finds the device.
    shutil.rmtree(source / "src")
    pytest_ = ("-P", "-m", "pytest", "-c", str(source / "pyproject.toml"))
    said = run(*pytest_, "--rootdir", str(source), str(source / "tests"), path=site)
    found = re.search(r"(\d+) passed", said)
    assert found is not None and int(found[1]) > 300, said
    assert "skipped" not in said, said


def has_adapter() -> bool:
    if importlib.util.find_spec("wgpu") is None:
        return False
    code = "import mdtensor_webgpu; print(mdtensor_webgpu.webgpu.missing)"
    return run("-P", "-c", code, path=PACKAGE / "src").strip() == ""
