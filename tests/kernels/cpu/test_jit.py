"""Compiled kernels are cached per source, signature and CPU, in any install."""

import os
import platform
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from support.forks import Forks

from mdtensor.kernels.cpu import cache_entry, jit

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
from mdtensor.kernels.cpu import cache_entry, jit
from mdtensor.kernels.cpu.probe import outer
print(outer(1), jit.cache_folder() is not None)
"""
COUNTED = SOURCE.replace(
    "print(",
    "from mdtensor.kernels.cpu.compilation import Watch\n"
    "with Watch() as watch: outer(1)\n"
    "print(watch.counts.compiled, watch.counts.loaded)\nraise SystemExit\n#",
)
#: What a process meets on a read-only file system, and on a full one.
READ_ONLY = """
import tempfile
def refuse(*_, **__): raise OSError(30, "Read-only file system")
tempfile.TemporaryFile = refuse
"""
FULL = """
import pathlib
plain = pathlib.Path.open
class Full:
    def __init__(self, file): self.file = file
    def __enter__(self): return self
    def __exit__(self, *_): self.file.close()
    def write(self, content):
        self.file.write(content[:9])
        raise OSError(28, "No space left on device")
def opened(path, *a, **k):
    file = plain(path, *a, **k)
    return Full(file) if "x" in str(a) else file
pathlib.Path.open = opened
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
    for name in (
        "__init__.py",
        "jit.py",
        "cache_entry.py",
        "isa.py",
        "compilation.py",
    ):
        shutil.copy(sources / "cpu" / name, root / "cpu")
    (root / "cpu/probe.py").write_text(CALLER)
    (root / "cpu/probed.py").write_text(CALLEE + "    return x * 10\n")
    return root


#: Forked processes start with numba, whose import and first compilation take seconds.
PRELUDE = "import numba; numba.njit(lambda x: x + 1)(1)"
WITH_UMASK = "import os; os.umask(0o022)\n"


@pytest.fixture(scope="module")
def forks():
    with Forks(PRELUDE) as server:
        yield server


def environment_of(root):
    """The variables of a process whose user has a home beside the kernels."""
    kept = {k: v for k, v in os.environ.items() if k != "NUMBA_CACHE_DIR"}
    return {**kept, "XDG_CACHE_HOME": str(root.parent / "home")}


@pytest.fixture
def run(forks):
    """`run(root)`: (printed words, log) of the probe in a process of its own."""

    def run(root, source=SOURCE, environment=None):
        chosen = environment or environment_of(root)
        code, words, log = forks.run(source, [str(root)], chosen)
        assert code == 0, log
        return words.split(), log

    return run


def run_as(user, root, source, environment):
    """The same in a process of another user."""
    done = subprocess.run(
        [sys.executable, "-B", "-c", source, str(root)],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
        **user,
    )
    return done.stdout.split(), done.stderr


@pytest.mark.compiled
def test_an_edited_callee_is_compiled_anew(copy, run):
    assert run(copy)[0] == ["11", "True"]
    files = set((copy / "__pycache__").rglob("*.nbc"))
    assert len(files) == 2
    assert run(copy)[0] == ["11", "True"]
    assert set((copy / "__pycache__").rglob("*.nbc")) == files
    (copy / "cpu/probed.py").write_text(CALLEE + "    return x * 20\n")
    assert run(copy)[0] == ["21", "True"]


@pytest.mark.compiled
def test_a_damaged_entry_is_compiled_anew(copy, run):
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
def test_the_folder_in_use_is_kept(copy, run):
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
def test_a_symbol_is_there_before_the_code_that_calls_it(shared, run):
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
def test_code_that_calls_what_is_not_here_is_compiled_anew(shared, run):
    run(shared)
    (outer,) = (shared / "__pycache__").rglob("outer-*.nbc")
    facts, made = cache_entry.unpack(outer.read_bytes())  # opens with what it needs
    elsewhere = made.replace(b"mdtensor.kernel.inner-", b"mdtensor.kernel.other-", 1)
    assert elsewhere != made
    outer.write_bytes(cache_entry.pack(facts, elsewhere))
    assert run(shared)[0] == ["11", "True"]
    assert b"mdtensor.kernel.other-" not in outer.read_bytes()


@pytest.mark.compiled
def test_symbols_need_no_cache(shared, run):
    (shared / "__pycache__").write_text("in the way")
    (shared.parent / "home").write_text("in the way")
    assert run(shared)[0] == ["11", "False"]


@pytest.mark.compiled
def test_a_read_only_install_uses_the_users_cache(copy, run):
    (copy / "__pycache__").write_text("in the way")
    assert run(copy)[0] == ["11", "True"]
    assert list((copy.parent / "home").rglob("*.nbc"))


@pytest.mark.compiled
def test_nowhere_to_write_is_one_log_line(copy, run):
    (copy / "__pycache__").write_text("in the way")
    (copy.parent / "home").write_text("in the way")
    words, log = run(copy)
    assert words == ["11", "False"]
    assert log.count("LOG") == 1 and "no writable cache folder" in log


@pytest.mark.compiled
def test_a_cache_that_cannot_be_written_is_read(copy, run):
    """An image is warmed up once, then runs on a read-only file system."""
    assert run(copy, COUNTED)[0] == ["2", "0"]
    files = set(copy.parent.rglob("*.nbc"))
    words, log = run(copy, READ_ONLY + COUNTED)
    assert (words, log) == (["0", "1"], "")
    assert set(copy.parent.rglob("*.nbc")) == files and len(files) == 2


@pytest.mark.compiled
def test_kernels_are_found_in_any_folder(copy, run):
    """Those of the image stay in use when NUMBA_CACHE_DIR gets the new ones."""
    run(copy)
    own = copy.parent / "own"
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(own)}
    assert run(copy, COUNTED, environment)[0] == ["0", "1"]
    (outer,) = (copy / "__pycache__").rglob("outer-*.nbc")
    # A damaged file in the first folder does not hide a good one behind it.
    first = own / "mdtensor" / outer.parent.name
    first.mkdir(parents=True)
    (first / outer.name).write_bytes(outer.read_bytes()[:50])
    assert run(copy, COUNTED, environment)[0] == ["0", "1"]
    outer.unlink()
    assert run(copy, COUNTED, environment)[0] == ["1", "1"]
    assert len((first / outer.name).read_bytes()) > 50


@pytest.mark.compiled
def test_files_of_the_cache_have_the_mode_of_the_umask(copy, run):
    run(copy, WITH_UMASK + SOURCE)
    for path in (copy / "__pycache__").rglob("*"):
        assert path.stat().st_mode & 0o777 == (0o755 if path.is_dir() else 0o644)


@pytest.mark.compiled
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_root_warms_up_and_another_user_runs(copy, run):
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        root = Path(name) / "kernels"
        shutil.copytree(copy, root)
        stranger = {"user": 12345, "group": 12345, "extra_groups": []}
        try:
            version = "import numba, platform; print(platform.python_version())"
            found = subprocess.check_output(
                [sys.executable, "-c", version], text=True, **stranger
            )
        except (subprocess.CalledProcessError, PermissionError):
            pytest.skip("another user cannot read this Python")
        # A link that this user cannot follow may end at another Python.
        if found.strip() != platform.python_version():
            pytest.skip(f"another user runs Python {found.strip()}")
        run(root, WITH_UMASK + SOURCE)
        # Neither HOME nor an entry in passwd.
        bare = {"PATH": os.environ["PATH"]}
        assert run_as(stranger, root, COUNTED, bare)[0] == ["0", "1"]
        shutil.rmtree(root / "__pycache__")
        words, log = run_as(stranger, root, SOURCE, bare)
        assert words == ["11", "False"]
        assert log.count("LOG") == 1 and "no writable cache folder" in log


@pytest.mark.parametrize("home", [None, "~", "relative"])
def test_a_user_without_a_home(home, monkeypatch):
    """A name in passwd is missing in many containers; a relative place moves."""

    def fail(path):
        if str(path).startswith("~"):
            raise RuntimeError("Could not determine home directory.")
        return path

    monkeypatch.setattr(Path, "expanduser", fail)
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    if home:
        monkeypatch.setenv("XDG_CACHE_HOME", home)
    package = Path(jit.__file__).resolve().parents[1]
    assert list(jit._candidates()) == [package / "__pycache__"]


@pytest.mark.compiled
def test_a_full_disk_leaves_nothing_behind(copy, run):
    words, log = run(copy, FULL + SOURCE)
    assert words == ["11", "True"]
    assert "was not cached: [Errno 28] No space left on device" in log
    (folder,) = (copy / "__pycache__").iterdir()
    assert list(folder.iterdir()) == []


@pytest.mark.compiled
def test_files_of_killed_processes_are_removed(copy, run):
    run(copy)
    (folder,) = (copy / "__pycache__").iterdir()
    old, new = folder / f"a.nbc-0{jit.UNFINISHED}", folder / f"b.nbc-0{jit.UNFINISHED}"
    old.touch()
    new.touch()
    os.utime(old, (0, 0))
    run(copy)
    assert new.exists() and not old.exists()


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
