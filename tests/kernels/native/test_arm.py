"""Libraries for 64-bit Arm run as machine code under qemu: the bytes of this machine.

`make arm` prepares the folder MDTENSOR_ARM and runs these tests.
"""

import json
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest
from support import libraries, mixed_net, stored_plans

from mdtensor.kernels.native.targets import MACHINES
from mdtensor.quant.certificate import verify

ARM = Path(os.environ.get("MDTENSOR_ARM") or "no folder")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.compiled,
    pytest.mark.skipif(not ARM.is_dir(), reason="run make arm"),
]
#: For each ISA a CPU that has no better one.
CPUS = {"generic": "cortex-a72", "neon": "neoverse-n1"}
each_isa = pytest.mark.parametrize("isa", CPUS)


def output(isa, *command, **variables):
    """What `python command` prints on Arm, by the library of an ISA alone."""
    kept = {name: value for name, value in os.environ.items() if "MDTENSOR" not in name}
    own = {
        "QEMU_CPU": CPUS[isa],
        "MDTENSOR_KERNELS": "native",
        "MDTENSOR_LIBRARIES": str(ARM / "libraries"),
        "PYTHONPATH": str(libraries.TESTS),
    }
    done = subprocess.run(
        [str(ARM / "python"), *map(str, command)],
        env=kept | own | variables,
        cwd=libraries.TESTS.parent,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr + done.stdout[-4000:]
    return done.stdout.strip()


def test_every_isa_has_a_cpu():
    assert CPUS.keys() == MACHINES["aarch64"].targets.keys()


#: What a process finds of its CPU and its kernels, and the modules of a compiler.
FOUND = """
import json, platform, sys
import mdtensor.quant
from mdtensor.kernels.cpu import isa
from mdtensor.kernels.native import library
names = [name for name in ("numba", "llvmlite") if name in sys.modules]
found = platform.machine(), isa.ISA, library.describe(isa.ISA), names
print(json.dumps(found))
"""


@each_isa
def test_the_cpu_is_found_without_a_compiler(isa):
    assert json.loads(output(isa, "-c", FOUND)) == ["aarch64", isa, "a library", []]


@each_isa
def test_a_network_gives_the_bytes_of_this_machine(isa):
    here = libraries.output(mixed_net.__file__)
    assert output(isa, mixed_net.__file__) == here


# A CPU with the dot product runs both libraries.
def test_every_library_conforms():
    facts = json.loads(output("neon", "-m", "mdtensor", "verify", "--json"))
    assert {run["isa"] for run in facts["runs"]} == CPUS.keys()
    assert {run["hash"] for run in facts["runs"]} == {verify.WHOLE}


def test_a_cpu_without_the_dot_product_conforms():
    """An instruction that the CPU lacks would end the process."""
    given = "-m", "mdtensor", "verify", "--json", "--quick"
    facts = json.loads(output("generic", *given))
    assert {run["isa"] for run in facts["runs"]} == {"generic"}
    assert {run["hash"] for run in facts["runs"]} == {verify.QUICK}


#: Compiles a model to a plan: sys.argv is the model, the shape, the ISA and the plan.
COMPILE = """
import sys
from mdtensor.quant import load
model, shape, isa, plan = sys.argv[1:]
load(model).compile(plan, tuple(map(int, shape.split(","))), isas=[isa])
"""


@each_isa
def test_a_stored_plan(isa, tmp_path):
    """Arm and this machine write the same file, and Arm's runner gives its bytes."""
    model, x = stored_plans.small_network(tmp_path)
    model.save(tmp_path / "net.onnx")
    np.save(tmp_path / "x.npy", x)
    given = "-c", COMPILE, tmp_path / "net.onnx", ",".join(map(str, x.shape)), isa
    output(isa, *given, tmp_path / "arm.mdt")
    chosen = {"MDTENSOR_ISA": f"{isa}-emulated"} if isa == "neon" else {}
    libraries.output(*given, tmp_path / "here.mdt", **chosen)
    files = [(tmp_path / f"{name}.mdt").read_bytes() for name in ("arm", "here")]
    assert files[0] == files[1]
    shown = output(
        isa,
        *("-m", "mdtensor_run", tmp_path / "arm.mdt", tmp_path / "x.npy"),
        *("-o", tmp_path / "y.npy"),
    )
    assert np.array_equal(np.load(tmp_path / "y.npy"), np.asarray(model(x))), shown


#: The part of the suite that runs steps, programs, threads and exact rounding.
CORE = (
    *("test_steps.py", "test_program.py", "test_feed.py", "test_moves.py"),
    *("test_norms.py", "test_attention.py", "test_extreme.py", "test_join.py"),
    *("test_thread_pool.py", "test_cut.py", "test_wide_weights.py"),
)


@each_isa
def test_the_kernel_suite(isa):
    files = [libraries.TESTS / "kernels/cpu" / name for name in CORE]
    given = "-m", "pytest", "-p", "no:cacheprovider", "-k", "not emulated", "-x"
    assert " passed" in output(isa, *given, *files)
