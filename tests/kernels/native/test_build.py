"""Builds: CPUs, types of entries, and what is left of a build that fails."""

import json
import os
import platform
import re
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
from mdtensor.kernels.native.targets import MACHINES, environment

X86, ARM = MACHINES["x86_64"], MACHINES["aarch64"]
OLD = {"format": 0, "libraries": {}, "glue": {"file": "_glue-old.abi3.so"}}


def test_features_of_this_cpu_are_those_of_llvm():
    if not isa.IS_X86 or not isa.CPUINFO.exists():
        pytest.skip("only for x86 under Linux")
    with isa.CPUINFO.open() as lines:
        ours = isa.x86_features(lines)
    theirs = {name for name, has in llvm.get_host_cpu_features().items() if has}
    asked = {name for target in X86.targets.values() for name in target.needs}
    asked |= {name for needed in isa.NEEDED.values() for name in needed}
    asked |= set(isa.NOTED_FEATURES) - {"neon", "dotprod", "i8mm"}
    assert ours & asked == theirs & asked


@pytest.mark.parametrize("machine", MACHINES)
def test_every_isa_may_use_what_it_needs(machine):
    for name, target in MACHINES[machine].targets.items():
        assert set(isa.NEEDED[name]) <= set(target.needs)


#: Names features that LLVM does not know; sys.argv is the triple, the CPU, features.
UNKNOWN = """
import sys
import llvmlite.binding as llvm
llvm.initialize_all_targets()
target = llvm.Target.from_triple(sys.argv[1])
target.create_target_machine(cpu=sys.argv[2], features=sys.argv[3])
"""


def warnings_of_llvm(machine, isa_name, more=""):
    given = environment(machine, isa_name, tuple(llvm.get_host_cpu_features()))
    cpu, features = given["NUMBA_CPU_NAME"], given["NUMBA_CPU_FEATURES"]
    command = sys.executable, "-c", UNKNOWN, MACHINES[machine].triple, cpu
    done = subprocess.run(
        [*command, features + more], check=True, capture_output=True, text=True
    )
    return done.stderr


@pytest.mark.parametrize("machine", MACHINES)
def test_every_feature_of_a_target_has_llvms_name(machine):
    for name in MACHINES[machine].targets:
        assert warnings_of_llvm(machine, name) == ""
    assert "+dotproduct" in warnings_of_llvm(machine, "generic", ",+dotproduct")


@pytest.mark.parametrize("name", X86.targets)
def test_variables_switch_all_other_features_off(name):
    given = environment("x86_64", name, ("sse3", "avx2", "avx512f", "amx-int8"))
    features = given["NUMBA_CPU_FEATURES"].split(",")
    assert {each[1:] for each in features if each[0] == "+"} == {
        *X86.base,
        *X86.targets[name].needs,
    }
    assert "-amx-int8" in features and given["MDTENSOR_ISA"] == name


@pytest.mark.parametrize("name", ARM.targets)
def test_variables_for_arm(name):
    given = environment("aarch64", name, ("sse3", "avx2"))
    features = given["NUMBA_CPU_FEATURES"].split(",")
    on = {each[1:] for each in features if each[0] == "+"}
    assert on == set(ARM.targets[name].needs)
    assert {each[1:] for each in features if each[0] == "-"} == set(ARM.unused) - on
    assert given["MDTENSOR_BUILD_MACHINE"] == "aarch64"


#: What numba compiles of a product, for a machine that is named to LLVM.
FOREIGN = """
from mdtensor.kernels.native.foreign import compile_for
compile_for("aarch64", "aarch64-unknown-linux-gnu")
import numba
product = numba.njit(lambda x, y: x * y)
product.compile("int32(int32, int32)")
(text,) = product.inspect_asm().values()
print(text)
"""


@pytest.mark.compiled
def test_numba_compiles_for_another_machine():
    variables = {"NUMBA_CPU_NAME": "neoverse-n1", "NUMBA_CPU_FEATURES": "+neon"}
    shown = libraries.output("-c", FOREIGN, **variables)
    assert re.search(r"\t(mul|smull|madd|smaddl)\t", shown) and "%r" not in shown


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
        build.c_compiler(platform.machine())


def test_a_build_for_another_machine_needs_its_compiler(monkeypatch):
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(build.sys, "platform", "linux")
    other = "aarch64" if platform.machine() == "x86_64" else "x86_64"
    match = "Install aarch64-linux-gnu-gcc" if other == "aarch64" else "are built there"
    with pytest.raises(build.BuildError, match=match):
        build.c_compiler(other)
    with pytest.raises(build.BuildError, match=r"Linux on x86_64 or aarch64, .* sparc"):
        build.c_compiler("sparc")


def test_a_newer_c_library_fails_the_build(tmp_path):
    path = tmp_path / "mdt_generic.so"
    path.write_bytes(b"\0GLIBC_2.2.5\0GLIBC_2.17\0")
    assert build.install(path, tmp_path)["file"].startswith("mdt_generic-")
    path.write_bytes(b"\0GLIBC_2.4\0GLIBC_2.38\0")
    with pytest.raises(build.BuildError, match=r"\(2, 17\) or older, got \(2, 38"):
        build.install(path, tmp_path)


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

    monkeypatch.setattr(build, "c_compiler", lambda machine: "cc")
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
build.c_compiler = lambda machine: "cc"
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
