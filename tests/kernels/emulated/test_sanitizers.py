"""The suites of kernels with g++'s checkers of addresses and of undefined behaviour.

A wrapper of g++ adds them, and names itself, so its libraries are apart in the cache.
The checkers must be in the process before Python is, so each suite has its own process.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from mdtensor.kernels.emulated import compiler

TESTS = Path(__file__).parents[2]
FLAGS = "-fsanitize=address,undefined -fno-sanitize-recover=undefined"
WRAPPER = """\
#!/bin/sh
[ "$1" = --version ] && exec echo "g++ {flags}"
exec "{program}" "$@" {flags}
"""
PLANTED = """\
import sys
from mdtensor.kernels.loops.kernel import Kernel
from support.cuda_text import empty, run
head = 'extern "C" __global__ void planted(int* out, mdt::walk<1> w)'
print(run(Kernel("planted", f"{head} {{ %s }}", (), "int32"), out=empty(2, "int32")))
"""
SUITES = ["kernels/loops/test_tiles.py"]
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not compiler.compiler(), reason="needs g++"),
]


def library(name: str) -> str:
    """Return the path of a library of g++, or only its name if there is none."""
    asked = [compiler.compiler(), f"-print-file-name={name}"]
    return subprocess.run(asked, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def checked(tmp_path: Path) -> dict[str, str]:
    """The environment of a process whose kernels are checked."""
    libraries = [library(name) for name in ("libasan.so", "libubsan.so")]
    if not all(map(os.path.isabs, libraries)):
        pytest.skip("needs libasan and libubsan of g++")
    wrapper = tmp_path / "checked-g++"
    wrapper.write_text(WRAPPER.format(program=compiler.compiler(), flags=FLAGS))
    wrapper.chmod(0o755)
    return {
        **os.environ,
        "CXX": str(wrapper),
        "LD_PRELOAD": ":".join(libraries),
        # Python keeps memory until its end, and fibers have stacks of their own.
        "ASAN_OPTIONS": "detect_leaks=0:detect_stack_use_after_return=0",
        "PYTHONMALLOC": "malloc",
        "PYTHONPATH": str(TESTS),
        "MDTENSOR_TEST_DEVICE": "emucuda",
        "PYTEST_XDIST_WORKER": "",
    }


def said(given: dict[str, str], *arguments: str) -> tuple[int, str]:
    command = [sys.executable, *arguments]
    done = subprocess.run(
        command, cwd=TESTS.parent, env=given, capture_output=True, text=True
    )
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize("file", SUITES)
def test_a_suite_is_clean(checked: dict[str, str], file: str) -> None:
    suite = ("-m", "pytest", "-n", "0", "-m", "not slow", str(TESTS / file))
    code, text = said(checked, *suite)
    assert code == 0 and " passed" in text, text[-3000:]


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("out[w.count / 3] = 1;", ""),
        ("out[w.count] = 1;", "heap-buffer-overflow"),
        ("__shared__ int s[4]; s[w.count * 2] = 1; out[0] = s[0];", "index 4 out of b"),
        ("out[0] = 2147483647 + (int)w.count;", "signed integer overflow"),
        ("out[0] = *(int*)((char*)out + w.count - 1);", "misaligned address"),
    ],
)
def test_a_planted_fault_is_found(
    checked: dict[str, str], body: str, words: str
) -> None:
    code, text = said(checked, "-P", "-c", PLANTED % body)
    assert (code == 0) is not bool(words), text
    assert words in text
