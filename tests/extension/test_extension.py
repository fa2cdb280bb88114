"""Packages of others, built and installed beside ours: no file of ours is touched.

Rows 7 (an operation) and 8 (an element type) of the requirements, C3, and a wrapper
type. What they must do is checked in `fresh/`, in a process that starts with their
import.
"""

import ast
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import test_architecture as house

import mdtensor

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
SOURCES = ROOT / "docs" / "how-to" / "extending"
PACKAGES = {"float8": "mdtensor_float8", "squared": "mdtensor_squared"}
PACKAGES["units"] = "mdtensor_units"
#: A device, which needs a driver: `tests/test_webgpu.py` runs it.
DEVICES = {"webgpu": "mdtensor_webgpu"}


def run(*command: str, path: Path, **options: str) -> str:
    """What a command of this Python says, with `path` in front of what it imports."""
    done = subprocess.run(
        [sys.executable, *command],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(path), **options},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where wheels of the packages, built from copies of their sources, are."""
    place = tmp_path_factory.mktemp("packages")
    shutil.copytree(SOURCES, place / "sources")
    pip = ("-m", "pip", "--disable-pip-version-check", "-q")
    sources = [str(place / "sources" / name) for name in PACKAGES]
    options = ("--no-index", "--no-build-isolation", "--no-deps", "--no-cache-dir")
    run(*pip, "wheel", *options, "-w", str(place / "wheels"), *sources, path=place)
    wheels = sorted(map(str, (place / "wheels").iterdir()))
    assert len(wheels) == len(PACKAGES)
    target = ("--target", str(place / "site"))
    run(*pip, "install", "--no-index", "--no-deps", *target, *wheels, path=place)
    return place / "site"


@pytest.mark.long
def test_in_a_fresh_process(site: Path) -> None:
    options = ("-o", "python_files=check_*.py", "-p", "no:cacheprovider")
    said = run("-m", "pytest", *options, str(HERE / "fresh"), path=site)
    assert int(re.findall(r"(\d+) passed", said)[-1]) > 500


ANALYZED = """
import mdtensor as md
import mdtensor_float8, mdtensor_squared, mdtensor_units
from mdtensor.diagnose import analyze

print(len(analyze().findings))

@md.method(md.sin)
def sin(x: mdtensor_units.Quantity, /):
    ...  # of a type that is not mine either

@md.method(md.add)
def add(x1: md.Tensor, x2: mdtensor_float8.Float8Tensor, /):
    ...  # nor is this one, and methods for others fit as well

print(*sorted({found.rule for found in analyze().findings}))
"""


def test_our_checker_finds_nothing_in_them(site: Path) -> None:
    """No ambiguity, no hole, no method without a type of its own; sins are found."""
    findings, planted = run("-c", ANALYZED, path=site).splitlines()
    assert findings == "0"
    assert {"MDT001", "MDT005"} <= set(planted.split())


def test_the_page_runs(site: Path, tmp_path: Path) -> None:
    """In a process of its own: it registers types."""
    script = "import sys, pathlib; from test_docs import run_page; "
    script += "print(run_page(pathlib.Path(sys.argv[1])))"
    paths = os.pathsep.join([str(site), str(ROOT / "tests")])
    page = ROOT / "docs" / "how-to" / "extending.md"
    said = run("-c", script, str(page), path=Path(paths))
    assert int(said.splitlines()[-1]) > 3


def test_the_page_shows_the_sources() -> None:
    page = (ROOT / "docs" / "how-to" / "extending.md").read_text()
    sources = "\n".join(path.read_text() for path in SOURCES.rglob("*.py"))
    known = set(map(str.strip, sources.splitlines()))
    shown = re.findall(r"^```py\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert len(shown) > 3
    unknown = [line for block in shown for line in block.splitlines()]
    assert [line for line in unknown if line.strip() not in known] == []


def test_no_file_of_ours_differs(site: Path) -> None:
    """Building, installing and importing them left the checkout as it was."""
    if not (ROOT / ".git").exists():
        pytest.skip("no checkout")
    command = [
        "git",
        "status",
        "--porcelain",
        "--",
        "mdtensor",
        "kernels",
        "quant",
        "docs",
    ]
    before = subprocess.run(command, cwd=ROOT, capture_output=True, text=True).stdout
    run("-c", f"import {', '.join(PACKAGES.values())}", path=site)
    after = subprocess.run(command, cwd=ROOT, capture_output=True, text=True).stdout
    assert after == before
    assert not list(SOURCES.rglob("*.egg-info")) + list(SOURCES.rglob("build"))


# --- the arrows of a stranger ---------------------------------------------------------

PUBLIC = {
    "mdtensor": {*dir(mdtensor), "quant"},
    "mdtensor.quant": {n for n in dir(mdtensor.quant) if not n.startswith("_")},
    "mdtensor.extend": set(mdtensor.extend.__all__),
}
#: What a package of others keeps of our own rules.
KEPT = [
    house.no_cycles,
    house.names_say_something,
    house.files_are_short,
    house.functions_are_short,
    house.no_star_imports,
    house.no_types_behind_type_checking,
    house.methods_have_plain_signatures,
    house.no_precedence,
]


def public_names_only(checkout: house.Checkout) -> Iterator[str]:
    """Packages of others import what ours offers, and touch nothing behind it."""
    for module in checkout.values():
        for found in house.imports(module, checkout):
            if not house.is_inside(found.module, "mdtensor"):
                continue
            known = PUBLIC.get(found.module)
            if known is None or (found.name and found.name not in known):
                yield module.at(found.line, f"imports {found.module} {found.name}")
        for node in ast.walk(module.tree):
            if isinstance(node, ast.Attribute) and _is_private(node):
                yield module.at(node.lineno, f"touches {ast.unparse(node)}")


def _is_private(node: ast.Attribute) -> bool:
    is_own = isinstance(node.value, ast.Name) and node.value.id in {"self", "cls"}
    is_dunder = node.attr.startswith("__") and node.attr.endswith("__")
    return node.attr.startswith("_") and not is_own and not is_dunder


@pytest.mark.parametrize("rule", [public_names_only, *KEPT], ids=lambda f: f.__name__)
@pytest.mark.parametrize("name", [*PACKAGES, *DEVICES])
def test_packages_keep(rule: house.Rule, name: str) -> None:
    package = {**PACKAGES, **DEVICES}[name]
    folders = ((package, f"src/{package}"),)
    checkout = house.read(SOURCES / name, folders)
    assert package in checkout
    assert list(rule(checkout)) == []


@pytest.mark.parametrize(
    "sin",
    [
        "from mdtensor.ops.operands import deduced",
        "import mdtensor.dispatch",
        "from mdtensor import nothing_like_it",
        "def f():\n    from mdtensor.promotion.lattice import DEFAULT",
        "import mdtensor as md\nmd.add.operation._methods.clear()",
        "from mdtensor.extend import operand_array",
    ],
)
def test_a_sin_of_a_stranger_is_found(sin: str, tmp_path: Path) -> None:
    (tmp_path / "src" / "guest").mkdir(parents=True)
    (tmp_path / "src" / "guest" / "__init__.py").write_text(sin)
    checkout = house.read(tmp_path, (("guest", "src/guest"),))
    assert list(public_names_only(checkout))
