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
PAGE = ROOT / "docs" / "how-to" / "webgpu.md"
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


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the package is installed: only so is there an entry point."""
    if not REQUIRED and not has_adapter():
        pytest.skip("no adapter; `make webgpu` requires one")
    place = tmp_path_factory.mktemp("webgpu")
    shutil.copytree(PACKAGE, place / "source")
    pip = ("-P", "-m", "pip", "--disable-pip-version-check", "-q", "install")
    options = ("--no-index", "--no-build-isolation", "--no-deps", "--no-cache-dir")
    target = ("--target", str(place / "site"))
    run(*pip, *options, *target, str(place / "source"), path=place)
    return place / "site"


@pytest.mark.slow
@pytest.mark.webgpu
def test_the_package_passes_its_own_tests_from_a_wheel(site: Path) -> None:
    """Built, installed, found by its entry point, and run on an adapter."""
    source = site.parent / "source"
    shutil.rmtree(source / "src")
    pytest_ = ("-P", "-m", "pytest", "-c", str(source / "pyproject.toml"))
    said = run(*pytest_, "--rootdir", str(source), str(source / "tests"), path=site)
    found = re.search(r"(\d+) passed", said)
    assert found is not None and int(found[1]) > 300, said
    assert "skipped" not in said, said


@pytest.mark.slow
@pytest.mark.webgpu
def test_the_page_runs(site: Path) -> None:
    """In a process of its own: it registers a device."""
    script = "import sys, pathlib; from test_docs import run_page; "
    script += "print(run_page(pathlib.Path(sys.argv[1])))"
    paths = os.pathsep.join([str(site), str(ROOT / "tests")])
    assert int(run("-c", script, str(PAGE), path=Path(paths)).splitlines()[-1]) > 5


def test_the_page_shows_the_sources() -> None:
    sources = "\n".join(path.read_text() for path in PACKAGE.rglob("*.py"))
    known = set(map(str.strip, sources.splitlines()))
    shown = re.findall(r"^ *```py\n(.*?)^ *```$", PAGE.read_text(), re.M | re.S)
    lines = [line.strip() for block in shown for line in block.splitlines()]
    assert len(shown) > 2 and [line for line in lines if line not in known] == []


def has_adapter() -> bool:
    if importlib.util.find_spec("wgpu") is None:
        return False
    code = "import mdtensor_webgpu; print(mdtensor_webgpu.webgpu.missing)"
    return run("-P", "-c", code, path=PACKAGE / "src").strip() == ""
