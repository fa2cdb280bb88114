"""The command as a process: exit codes, pipes, signals, packages that are missing."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.forks import Forks

import mdtensor
from mdtensor.cli.errors import EXTRAS, ending

MODULE = [sys.executable, "-m", "mdtensor"]
#: A process in which one package cannot be imported.
WITHOUT = """
import sys
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == sys.argv[1]:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Blocked())
for name in [n for n in sys.modules if n.split(".")[0] == sys.argv[1]]:
    del sys.modules[name]
from mdtensor.cli import execute
sys.exit(execute(sys.argv[2:]))
"""


@pytest.fixture(scope="module")
def forks() -> Iterator[Forks]:
    """Processes that start with mdtensor and numba imported, which takes seconds."""
    with Forks("import mdtensor, numba") as server:
        yield server


def process(*command: object, **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        list(map(str, command)), capture_output=True, text=True, timeout=120, **options
    )


def test_the_module_is_the_command() -> None:
    done = process(*MODULE, "info", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["mdtensor"] == mdtensor.__version__


def test_the_installed_command() -> None:
    done = process(Path(sys.executable).with_name("mdtensor"), "--version")
    assert done.stdout == f"mdtensor {mdtensor.__version__}\n"


def test_bad_input_ends_with_2_and_one_line(tmp_path: Path) -> None:
    done = process(*MODULE, "run", tmp_path / "gone.onnx", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("mdtensor: ModelError: there is no file ")
    assert done.stderr.count("\n") == 1


NO_RUNWAY = (
    "OptionError: MDTENSOR_ISA=sve: no such ISA. "
    "Use one of generic, neon, avx2, avxvnni, avx512, vnni.\n"
)


@pytest.mark.parametrize(
    "arguments",
    [["info"], ["verify", "--quick"], ["support", "add"], ["stubs", "--check"]],
    ids=" ".join,
)
def test_a_runway_that_there_is_not(forks: Forks, arguments: list[str]) -> None:
    script = "import sys; from mdtensor.cli import execute; sys.exit(execute({}))"
    found = forks.run(
        script.format(arguments), environment=os.environ | {"MDTENSOR_ISA": "sve"}
    )
    assert found == (2, "", f"mdtensor: {NO_RUNWAY}")


@pytest.mark.parametrize(
    "call",
    [
        "md.quant",
        "md.astype(md.ones(10**6), md.float16)",
        "md.for_each(1, lambda i, x: None, md.flat_in(x))",
    ],
)
def test_kernels_on_a_runway_that_there_is_not(forks: Forks, call: str) -> None:
    """The package itself, and what NumPy computes, need none."""
    script = f"import mdtensor as md; x = md.asarray([1.0]); x = x + x; {call}"
    environment = os.environ | {"MDTENSOR_ISA": "sve"}
    code, _, errors = forks.run(script, environment=environment)
    assert code == 1
    assert errors.endswith(f"\nmdtensor.errors.{NO_RUNWAY}")


def test_a_closed_pipe_is_no_trace() -> None:
    """As `mdtensor info --json | head -1` meets it, if head is quick."""
    reader, writer = os.pipe()
    os.close(reader)
    for command in (["info", "--json"], ["info"], []):
        done = subprocess.run(
            [*MODULE, *command], stdout=writer, stderr=subprocess.PIPE, timeout=120
        )
        assert done.stderr == b""
    os.close(writer)


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Children heed an interrupt, also where a shell runs the tests without."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_ends_quietly_with_130() -> None:
    """The demo says on stderr what it does, so it is met in the middle."""
    command = [*MODULE, "demo", "--json"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as running:
        assert running.stderr is not None
        assert running.stderr.readline().startswith("calibrating on ")
        running.send_signal(signal.SIGINT)
        out, err = running.communicate(timeout=120)
    assert (running.returncode, out) == (130, "")
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("package", "arguments", "extra"),
    [
        ("typer", ["info"], "cli"),
        ("rich", ["info"], "cli"),
        ("onnx", ["run", "net.onnx", "x.npy"], "onnx"),
        ("onnxruntime", ["demo", "--json"], "demo"),
        ("skimage", ["demo", "--json"], "demo"),
        ("rapidocr_onnxruntime", ["demo", "--json"], "demo"),
        ("threadpoolctl", ["demo", "--json"], "demo"),
        ("PIL", ["demo", "--json"], "demo"),
        ("starlette", ["serve", "net.onnx"], "serve"),
        (
            "distributed",
            ["run", "net.onnx", "--data", "*", "-o", "out", "--engine", "dask://a:1"],
            "dask",
        ),
    ],
)
def test_a_package_that_is_missing(
    forks: Forks, package: str, arguments: list[str], extra: str
) -> None:
    """Each is named at once, before any work, with what installs it."""
    code, out, errors = forks.run(WITHOUT, [package, *arguments])
    assert (code, out) == (2, ""), errors
    assert errors.count("\n") == 1
    install = f"mdtensor[{extra}]"
    if package == "rapidocr_onnxruntime" and sys.version_info >= (3, 13):
        install = "--ignore-requires-python rapidocr-onnxruntime==1.4.4"
    assert f"`pip install {install}`" in errors


def test_every_optional_package_has_its_extra() -> None:
    for name, extra in EXTRAS.items():
        code, line = ending(ModuleNotFoundError(f"No module named {name!r}", name=name))
        assert code == 2 and name in line and f"mdtensor[{extra}]" in line


def test_how_other_errors_end() -> None:
    assert ending(KeyboardInterrupt()) == (130, "")
    assert ending(MemoryError())[0] == 2
    code, line = ending(OSError(28, "No space left on device", "/a\nb"))
    assert (code, line) == (2, "mdtensor: /a b: No space left on device.")


@pytest.mark.parametrize("error", [ZeroDivisionError(), ModuleNotFoundError(name="x")])
def test_a_fault_of_ours_keeps_its_trace(error: Exception) -> None:
    with pytest.raises(type(error)):
        ending(error)
