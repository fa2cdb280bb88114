"""The cost of change is counted from patches that were applied and checked."""

import pytest

from bench.expression import FOLDERS
from bench.expression.change import CHANGES, Cost, cost, read

PATCH = """diff --git a/old.py b/old.py
--- a/old.py
+++ b/old.py
@@ -1,3 +1,4 @@
 kept
-taken away
+put in its place
+and one more
diff --git a/new.py b/new.py
new file mode 100644
--- /dev/null
+++ b/new.py
@@ -0,0 +1,2 @@
+first
+second
"""


def test_what_is_new_is_no_edit() -> None:
    assert read(PATCH) == Cost(files=1, lines=3, new=2)
    assert read("") == Cost(0, 0, 0)


def test_the_third_change_needs_no_edit_of_ours() -> None:
    """All three patches apply, and the library passes the checks of all of them."""
    found = cost(FOLDERS["mdtensor"], "add_both")
    assert (found.files, found.lines) == (0, 0)
    assert found.new > 0


@pytest.mark.slow
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("folder", FOLDERS.values())
def test_every_patch_applies_and_works(folder: str, change: str) -> None:
    found = cost(folder, change)
    assert found.lines + found.new > 0


def test_only_the_enum_takes_an_operation_without_an_edit() -> None:
    """The expression problem: functions add operations easily, classes add types."""
    assert cost(FOLDERS["match on Enum"], "add_operation").files == 0
    assert cost(FOLDERS["match on Enum"], "add_type").files > 0
    assert cost(FOLDERS["virtual methods"], "add_operation").files > 0
