"""Compiled kernels are cached per source, signature and CPU, in any install."""

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from mdtensor.kernels.cpu import jit

SOURCE = """
import sys, types
from pathlib import Path
root = Path(sys.argv[1])
package = types.ModuleType("mdtensor")
package.__path__ = []
sys.modules["mdtensor"] = package
import importlib.util
spec = importlib.util.spec_from_file_location(
    "mdtensor.kernels", root / "__init__.py", submodule_search_locations=[str(root)]
)
module = importlib.util.module_from_spec(spec)
sys.modules["mdtensor.kernels"] = module
spec.loader.exec_module(module)
import logging
logging.basicConfig(format="LOG %(message)s")
from mdtensor.kernels.cpu import jit
from mdtensor.kernels.cpu.probe import outer
print(outer(1), jit.cache_folder() is not None)
"""
CALLEE = "from mdtensor.kernels.cpu.jit import kernel\n@kernel\ndef inner(x):\n"
CALLER = """from mdtensor.kernels.cpu.jit import kernel
from mdtensor.kernels.cpu.probed import inner
@kernel
def outer(x):
    return inner(x) + 1
"""


@pytest.fixture
def copy(tmp_path):
    """A copy of the kernels with a caller and a callee in two files."""
    root = tmp_path / "kernels"
    (root / "cpu").mkdir(parents=True)
    sources = Path(jit.__file__).resolve().parents[1]
    shutil.copy(sources / "__init__.py", root)
    shutil.copy(sources / "refusal.py", root)
    for name in ("__init__.py", "jit.py", "isa.py", "compilation.py"):
        shutil.copy(sources / "cpu" / name, root / "cpu")
    (root / "cpu/probe.py").write_text(CALLER)
    (root / "cpu/probed.py").write_text(CALLEE + "    return x * 10\n")
    return root


def run(root, **environment):
    """(printed words, log) of the probe in a process of its own."""
    home = {"XDG_CACHE_HOME": str(root.parent / "home"), **environment}
    kept = {k: v for k, v in os.environ.items() if k != "NUMBA_CACHE_DIR"}
    done = subprocess.run(
        [sys.executable, "-B", "-c", SOURCE, str(root)],
        env=kept | home,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.split(), done.stderr


@pytest.mark.compiled
def test_an_edited_callee_is_compiled_anew(copy):
    assert run(copy)[0] == ["11", "True"]
    files = set((copy / "__pycache__").rglob("*.nbc"))
    assert len(files) == 2
    assert run(copy)[0] == ["11", "True"]
    assert set((copy / "__pycache__").rglob("*.nbc")) == files
    (copy / "cpu/probed.py").write_text(CALLEE + "    return x * 20\n")
    assert run(copy)[0] == ["21", "True"]


@pytest.mark.compiled
def test_a_damaged_entry_is_compiled_anew(copy):
    run(copy)
    for file in (copy / "__pycache__").rglob("*.nbc"):
        file.write_bytes(file.read_bytes()[:100])
    assert run(copy)[0] == ["11", "True"]
    for file in (copy / "__pycache__").rglob("*.nbc"):
        made = bytearray(file.read_bytes())
        made[len(made) // 2] ^= 1
        file.write_bytes(made)
    assert run(copy) == (["11", "True"], "")


@pytest.mark.compiled
def test_the_folder_in_use_is_kept(copy):
    run(copy)
    (own,) = (copy / "__pycache__").glob("kernels-*")
    os.utime(own, (0, 0))
    for number in range(jit.KEPT_STAMPS):
        (copy / "__pycache__" / f"kernels-{number}").mkdir()
    files = set(own.iterdir())
    assert run(copy) == (["11", "True"], "")
    assert set(own.iterdir()) == files
    left = {folder.name for folder in (copy / "__pycache__").glob("kernels-*")}
    assert own.name in left and len(left) == jit.KEPT_STAMPS


def test_an_interrupt_that_llvm_dropped_is_one_all_the_same():
    """ctypes drops it where LLVM hands over the code, and there is none then."""

    class Compiled:
        class library:
            @staticmethod
            def _get_compiled_object():
                raise RuntimeError("no compiled object yet for <Library 'f'>")

    with pytest.raises(KeyboardInterrupt):
        jit.is_large(Compiled)


@pytest.fixture
def shared(copy):
    """The copy with callees reached by symbol, however small."""
    jit = copy / "cpu/jit.py"
    text = jit.read_text()
    assert text.count("LARGE = 8192") == 1
    jit.write_text(text.replace("LARGE = 8192", "LARGE = 0"))
    return copy


@pytest.mark.compiled
def test_a_symbol_is_there_before_the_code_that_calls_it(shared):
    assert run(shared)[0] == ["11", "True"]
    (inner,) = (shared / "__pycache__").rglob("inner-*.nbc")
    (outer,) = (shared / "__pycache__").rglob("outer-*.nbc")
    assert b"mdtensor.kernel.inner-" in outer.read_bytes()
    assert run(shared)[0] == ["11", "True"]
    inner.unlink()
    assert run(shared)[0] == ["11", "True"]
    assert inner.exists()
    (shared / "cpu/probed.py").write_text(CALLEE + "    return x * 20\n")
    assert run(shared)[0] == ["21", "True"]


@pytest.mark.compiled
def test_code_that_calls_what_is_not_here_is_compiled_anew(shared):
    run(shared)
    (outer,) = (shared / "__pycache__").rglob("outer-*.nbc")
    made = outer.read_bytes()[jit.DIGEST :]  # opens with what it needs
    elsewhere = made.replace(b"mdtensor.kernel.inner-", b"mdtensor.kernel.other-", 1)
    assert elsewhere != made
    outer.write_bytes(hashlib.sha256(elsewhere).digest() + elsewhere)
    assert run(shared)[0] == ["11", "True"]
    assert b"mdtensor.kernel.other-" not in outer.read_bytes()


@pytest.mark.compiled
def test_symbols_need_no_cache(shared):
    (shared / "__pycache__").write_text("in the way")
    (shared.parent / "home").write_text("in the way")
    assert run(shared)[0] == ["11", "False"]


@pytest.mark.compiled
def test_a_read_only_install_uses_the_users_cache(copy):
    (copy / "__pycache__").write_text("in the way")
    assert run(copy)[0] == ["11", "True"]
    assert list((copy.parent / "home").rglob("*.nbc"))


@pytest.mark.compiled
def test_nowhere_to_write_is_one_log_line(copy):
    (copy / "__pycache__").write_text("in the way")
    (copy.parent / "home").write_text("in the way")
    words, log = run(copy)
    assert words == ["11", "False"]
    assert log.count("LOG") == 1 and "no writable cache folder" in log


@pytest.mark.compiled
def test_functions_of_one_name_are_told_apart():
    def made(step):
        def grow(x):
            return x + step

        return jit.kernel(grow)

    assert [made(step)(1) for step in (1, 2, 1)] == [2, 3, 2]


def test_the_stamp_sees_every_source():
    assert len(jit.stamp()) == 20
    assert jit.stamp() == jit.stamp()
