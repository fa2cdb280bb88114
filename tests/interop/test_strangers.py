"""`mdtensor dispatch check` on public packages that use plum, where installed."""

import importlib
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow

GENERATE = Path(__file__).parents[2] / "docs" / "generate"
sys.path.insert(0, str(GENERATE))
try:
    strangers = importlib.import_module("strangers")
finally:
    sys.path.remove(str(GENERATE))


# The packages are others' code, which may use what NumPy will drop.
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize(
    "row", strangers.read()["packages"], ids=lambda row: row["package"]
)
def test_an_installed_package(row: dict[str, Any]) -> None:
    """The check ends, plum confirms all, and the diff of `--write` mends what it says.

    `make interop` installs some packages; their versions may be newer than the page's.
    """
    try:
        metadata.version(row["package"])
    except metadata.PackageNotFoundError:
        pytest.skip(f"{row['package']} is not installed")
    new = strangers.measure(row["package"], row["module"])
    assert new.get("problem") == row.get("problem")
    assert new.get("unconfirmed", {}) == {}, new["doubtful"]
    if new["version"] == row["version"]:
        assert new["methods"] == row["methods"]
