"""Libraries for AVX-512, VNNI and AVX-VNNI run as machine code on Bochs' CPUs.

`make x86` prepares the folder MDTENSOR_X86_ROOT and runs these tests.
"""

import json
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest
from support import libraries, mixed_net, stored_plans, x86_root

from mdtensor.kernels.native.targets import MACHINES

ROOT = Path(os.environ.get("MDTENSOR_X86_ROOT") or "no folder")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.compiled,
    pytest.mark.skipif(not ROOT.is_dir(), reason="run make x86"),
]
each_isa = pytest.mark.parametrize("name", x86_root.CPUS)


def run(name, *command, **variables):
    """The finished process of `python command` with the CPU of an ISA."""
    kept = {key: value for key, value in os.environ.items() if "MDTENSOR" not in key}
    own = {
        "MDTENSOR_KERNELS": "native",
        "MDTENSOR_LIBRARIES": str(ROOT / "libraries"),
        "PYTHONPATH": str(libraries.TESTS),
    }
    return subprocess.run(
        [str(ROOT / name), *map(str, command)],
        env=kept | own | variables,
        cwd=libraries.TESTS.parent,
        capture_output=True,
        text=True,
    )


def output(name, *command, **variables):
    """What it prints; it must succeed, and call kernels on that CPU."""
    # Of this process, since others may run tests beside it.
    calls = ROOT / f"calls-{os.getpid()}"
    calls.unlink(missing_ok=True)
    done = run(name, *command, MDTENSOR_X86_CALLS=str(calls), **variables)
    assert done.returncode == 0, done.stderr + done.stdout[-4000:]
    assert calls.exists(), "no kernel was called"
    return done.stdout.strip()


def test_every_isa_beyond_avx2_has_a_cpu():
    known = MACHINES["x86_64"].targets
    assert x86_root.CPUS.keys() == known.keys() - {"generic", "avx2"}


#: What a process finds of its CPU and its kernels, and the modules of a compiler.
FOUND = """
import json, sys
import numpy as np
import mdtensor.quant
from mdtensor.kernels.cpu import isa, kernel_set
from mdtensor.kernels.native import library
bias = np.zeros(1, np.int32)
mdtensor.relu(mdtensor.quant.QInt8Tensor(np.ones(3, np.int8), scale=0.5))
names = [name for name in ("numba", "llvmlite") if name in sys.modules]
print(json.dumps([isa.ISA, library.describe(isa.ISA), names]))
"""


@each_isa
def test_the_cpu_has_the_instructions_and_no_better_ones(name):
    assert json.loads(output(name, "-c", FOUND)) == [name, "a library", []]


#: Calls a function of one instruction: sys.argv is its code.
INSTRUCTION = """
import ctypes, sys
import cpu, sitecustomize
code, place = bytes.fromhex(sys.argv[1]) + bytes([0xC3]), cpu.memory(4096) + 64
ctypes.memmove(place, code, len(code))
sitecustomize.emulated().call(place)
"""
#: vpdpbusd zmm0, zmm0, zmm0 needs VNNI, vpmaddwd zmm0, zmm0, zmm0 AVX-512, and the
#: first one with ymm0 and without a mask AVX-VNNI.
CODES = {"vnni": "62f27d4850c0", "avx512": "62f17d48f5c0", "avxvnni": "c4e27d50c0"}
RUN = {"vnni": {"vnni", "avx512"}, "avx512": {"avx512"}, "avxvnni": {"avxvnni"}}


@each_isa
@pytest.mark.parametrize("needed", CODES)
def test_an_instruction_that_the_cpu_lacks_ends_the_process(name, needed):
    done = run(name, "-c", INSTRUCTION, CODES[needed])
    assert (done.returncode == 0) == (needed in RUN[name]), done.stderr
    assert needed in RUN[name] or "unknown instruction" in done.stderr


@each_isa
def test_a_network_gives_the_bytes_of_this_machine(name):
    here = libraries.output(mixed_net.__file__)
    assert output(name, mixed_net.__file__) == here


#: The certificate of one library, without the others: sys.argv is the ISA.
CERTIFY = """
import json, sys
from mdtensor.quant.certificate import verify
from mdtensor.quant.certificate.cases import select_cases
runs = tuple(verify.compute([sys.argv[1]], False))
found = verify.judge(select_cases(False), runs, verify.WHOLE)
problems = [run.problem for run in runs]
print(json.dumps([found.conforms, len(found.hashes), problems, str(found.first)]))
"""


@each_isa
def test_every_library_conforms(name):
    found = json.loads(output(name, "-c", CERTIFY, name))
    assert found == [True, 2, ["", ""], "None"]


@each_isa
def test_a_stored_plan(name, tmp_path):
    """The runner gives the bytes of this machine."""
    model, x = stored_plans.small_network(tmp_path)
    model.compile(tmp_path / "net.mdt", x.shape, isas=[name])
    np.save(tmp_path / "x.npy", x)
    given = tmp_path / "net.mdt", tmp_path / "x.npy", "-o", tmp_path / "y.npy"
    # The runner looks for libraries beside itself.
    shown = output(name, "-m", "mdtensor_run", *given)
    assert np.array_equal(np.load(tmp_path / "y.npy"), np.asarray(model(x))), shown
