"""Builds: CPUs, types of entries, and what is left of a build that fails."""

import json
import os
import signal
import subprocess
import sys
import time

import llvmlite.binding as llvm
import pytest
from support import libraries

from mdtensor.kernels import build
from mdtensor.kernels.cpu import isa, kernel_set
from mdtensor.kernels.native import library
from mdtensor.kernels.native.entries import KERNELS, SHARED, signatures
from mdtensor.kernels.native.targets import BASE, TARGETS, environment

OLD = {"format": 0, "libraries": {}, "glue": {"file": "_glue-old.abi3.so"}}


def test_features_of_this_cpu_are_those_of_llvm():
    if not isa.IS_X86 or not isa.CPUINFO.exists():
        pytest.skip("only for x86 under Linux")
    with isa.CPUINFO.open() as lines:
        ours = isa.x86_features(lines)
    theirs = {name for name, has in llvm.get_host_cpu_features().items() if has}
    asked = {name for target in TARGETS.values() for name in target.needs}
    asked |= {name for needed in isa.NEEDED.values() for name in needed}
    asked |= set(isa.NOTED_FEATURES) - {"neon", "dotprod", "i8mm"}
    assert ours & asked == theirs & asked


def test_every_feature_of_a_target_has_llvms_name():
    known = set(llvm.get_host_cpu_features())
    for name, target in TARGETS.items():
        assert set(target.needs) <= known
        assert set(isa.NEEDED[name]) <= set(target.needs)


@pytest.mark.parametrize("name", TARGETS)
def test_variables_switch_all_other_features_off(name):
    given = environment(name, ("sse3", "avx2", "avx512f", "amx-int8"))
    features = given["NUMBA_CPU_FEATURES"].split(",")
    assert {each[1:] for each in features if each[0] == "+"} == {
        *BASE,
        *TARGETS[name].needs,
    }
    assert "-amx-int8" in features and given["MDTENSOR_ISA"] == name


def test_every_step_and_shared_function_is_an_entry():
    found = signatures(isa.ISA)
    assert set(SHARED) < set(found)
    assert len(found) == len(SHARED) + len(KERNELS)
    assert set(KERNELS) <= set(kernel_set.entries(isa.ISA))


@pytest.mark.compiled
def test_types_of_entries():
    from mdtensor.kernels.native import compiler

    letters = [
        compiler.letters_of(compiler.type_of(t)) for t in ["uint8[]", "int16[,]"]
    ]
    letters += [compiler.letters_of(compiler.type_of(t)) for t in ["step[]", "window"]]
    letters += [compiler.letters_of(compiler.type_of(t)) for t in ["int32", "float32"]]
    assert letters == ["1B", "2h", "1V", "w", "i", "f"]


def test_a_build_without_a_compiler_says_so(monkeypatch):
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setenv("PATH", "")
    with pytest.raises(build.BuildError, match=r"no C compiler|expected Linux"):
        build.c_compiler()


def test_a_failing_command_shows_its_output():
    with pytest.raises(build.BuildError, match="17"):
        build.run([sys.executable, "-c", "print(17); raise SystemExit(1)"])


@pytest.fixture
def folder(tmp_path):
    """A folder with an older build."""
    (tmp_path / library.INDEX).write_text(json.dumps(OLD))
    (tmp_path / "_glue-old.abi3.so").write_bytes(b"old")
    return tmp_path


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_a_failed_build_leaves_the_old_files(folder, monkeypatch):
    before = contents(folder)

    def fail(*_):
        raise build.BuildError("no space left")

    monkeypatch.setattr(build, "c_compiler", lambda: "cc")
    monkeypatch.setattr(build, "build_glue", fail)
    with pytest.raises(build.BuildError, match="no space left"):
        build.build(["generic"], folder)
    assert contents(folder) == before


#: A build whose compilers write at once, and which stops before the index.
SLOW_BUILD = """
import sys, time
from pathlib import Path
from mdtensor.kernels import build
def made(compiler, folder, *name):
    path = folder / ("mdt_generic.so" if name else "_glue.abi3.so")
    path.write_bytes(b"new")
    return (path, {}) if name else path
build.c_compiler = lambda: "cc"
build.build_glue = build.build_library = made
whole = build.replace
def replace(path, content):
    if path.name.endswith(".json"):
        print("ready", flush=True)
        time.sleep(60)
    whole(path, content)
if len(sys.argv) > 2:
    build.replace = replace
build.build(["generic"], Path(sys.argv[1]))
"""


def test_a_killed_build_leaves_the_old_index(folder):
    before = contents(folder)
    command = [sys.executable, "-c", SLOW_BUILD, str(folder)]
    child = subprocess.Popen([*command, "slow"], stdout=subprocess.PIPE, text=True)
    line = child.stdout.readline()
    while line and line != "ready\n":
        line = child.stdout.readline()
    os.kill(child.pid, signal.SIGKILL)
    child.wait()
    child.stdout.close()
    assert before.items() <= contents(folder).items()
    # The next build finishes, and clears what the killed one left.
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    index = json.loads((folder / library.INDEX).read_text())
    names = {entry["file"] for entry in (index["glue"], *index["libraries"].values())}
    assert {path.name for path in folder.iterdir()} == {library.INDEX, *names}


@pytest.mark.slow
@pytest.mark.compiled
def test_a_build_from_nothing(tmp_path):
    start = time.time()
    libraries.output("-m", "mdtensor.kernels.build", "generic", "--to", tmp_path)
    found = library.read_index(tmp_path)
    assert set(found["libraries"]) == {"generic"}
    print(f"{time.time() - start:.0f} s")
