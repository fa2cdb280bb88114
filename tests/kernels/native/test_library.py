"""Kernels from libraries give the bytes of numba's, without numba, or not at all."""

import json
import sys

import numpy as np
import pytest
from support import libraries, mixed_net

from mdtensor import OptionError
from mdtensor.kernels.cpu import isa
from mdtensor.kernels.cpu.entry import Entry
from mdtensor.kernels.native import library

needs_libraries = pytest.mark.skipif(
    bool(libraries.missing()), reason=f"{libraries.missing()}: run make native"
)
pytestmark = pytest.mark.compiled
BUILT = []
if not libraries.missing():
    found = library.read_index(library.PLACE)["libraries"]
    BUILT = [n for n in found if set(found[n]["needs"]) <= isa.FEATURES]
each_isa = pytest.mark.parametrize("name", BUILT or ["none built"])

#: An inference, and the modules of a compiler that it loaded.
INFERENCE = """
import sys, numpy as np, mdtensor as md
from mdtensor import quant
x = quant.QInt8Tensor(np.ones((2, 8), np.int8), scale=0.5)
w = quant.QInt8Tensor(np.ones((4, 8), np.int8), scale=0.25)
y = md.relu(md.linear(x, w, out=quant.QParams(0.5)))
z = quant.dequantize(quant.quantize(md.asarray([0.1, 0.7]), quant.QParams(0.5)))
print(y.codes.tolist(), z.tolist())
print([name for name in ("numba", "llvmlite", "scipy") if name in sys.modules])
"""


@needs_libraries
@each_isa
def test_a_network_gives_the_bytes_of_numba(name):
    script = mixed_net.__file__
    native = libraries.output(script, MDTENSOR_ISA=name, MDTENSOR_KERNELS="native")
    assert native == libraries.output(script, MDTENSOR_ISA=name, MDTENSOR_KERNELS="jit")


@needs_libraries
@each_isa
def test_an_inference_loads_no_compiler(name):
    shown = libraries.output(
        "-c", INFERENCE, MDTENSOR_ISA=name, MDTENSOR_KERNELS="native"
    )
    assert shown.splitlines() == ["[[2, 2, 2, 2], [2, 2, 2, 2]] [0.0, 0.5]", "[]"]


@needs_libraries
@each_isa
def test_numba_gives_the_same(name):
    shown = libraries.output("-c", INFERENCE, MDTENSOR_ISA=name, MDTENSOR_KERNELS="jit")
    numbers, loaded = shown.splitlines()
    assert numbers == "[[2, 2, 2, 2], [2, 2, 2, 2]] [0.0, 0.5]"
    assert "numba" in loaded


#: Calls whose kernels for integers are in no library.
INTEGERS = """
import sys, numpy as np, mdtensor as md
x = np.random.default_rng(0).integers(-99, 99, (300, 400)).astype(np.int32)
t = md.asarray(x)
assert np.array_equal(md.max(t, axis=0), x.max(0))
rows = x.reshape(-1, 4)
assert np.array_equal(md.max(md.asarray(rows), axis=1), rows.max(1))
assert np.array_equal(md.cumulative_sum(t, axis=0), x.cumsum(0))
assert np.array_equal(md.topk(t, 3)[0], -np.sort(-x)[:, :3])
print("numba" in sys.modules)
"""


@pytest.mark.skipif(isa.IS_JIT_DISABLED, reason="libraries are not used")
def test_numpy_folds_integers_where_nothing_may_be_compiled(tmp_path):
    settings = {"MDTENSOR_KERNELS": "native", "MDTENSOR_LIBRARIES": str(tmp_path)}
    assert libraries.output("-c", INTEGERS, **settings) == "False"


MODE = "from mdtensor.kernels.native import library; print(library.MODE)"


@pytest.mark.parametrize("value", library.MODES)
def test_modes(value):
    assert libraries.output("-c", f"import mdtensor; {MODE}", MDTENSOR_KERNELS=value)


def test_an_unknown_mode_is_named():
    done = libraries.run("-c", "import mdtensor.quant", MDTENSOR_KERNELS="fast")
    assert "OptionError: MDTENSOR_KERNELS=fast: no such kernels" in done.stderr
    assert "Use one of auto, native, jit" in done.stderr


def test_modes_in_this_process():
    assert library.chosen_mode(None) == library.chosen_mode("") == "auto"
    assert [library.chosen_mode(mode) for mode in library.MODES] == [*library.MODES]
    with pytest.raises(OptionError, match="MDTENSOR_KERNELS=numba"):
        library.chosen_mode("numba")


#: A kernel of this process, or the error of the first one.
FIRST = """
import logging, numpy as np
logging.basicConfig()
import mdtensor.quant
from mdtensor.kernels.native import library
from mdtensor.kernels.cpu.entry import Entry
entry = Entry("generic.copies", "copy_f32")
print(entry(np.zeros(3, np.uint32), np.zeros(3, np.uint32)))
print(library.describe(entry.isa))
"""


@pytest.fixture
def damaged(tmp_path):
    """A copy of all libraries, and a function to run `FIRST` with them."""
    libraries.copy(tmp_path)

    def first(mode):
        return libraries.run(
            "-c", FIRST, MDTENSOR_KERNELS=mode, MDTENSOR_LIBRARIES=str(tmp_path)
        )

    return tmp_path, first


def check_refused(first, problem):
    """`auto` compiles by numba and says why; `native` ends in one error."""
    done = first("auto")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("True\nnumba: ") and problem in done.stdout
    done = first("native")
    last = done.stderr.strip().splitlines()[-1]
    assert done.returncode == 1 and "OptionError: " in last and problem in last
    return last


@needs_libraries
def test_whole_copies_are_used(damaged):
    assert damaged[1]("native").stdout == "True\na library\n"


@needs_libraries
@pytest.mark.parametrize("place", [0, 100, 5000, -1])
def test_a_flipped_bit_is_found(damaged, place):
    folder, first = damaged
    entry = library.read_index(folder)["libraries"][isa.ISA]
    code = bytearray((folder / entry["file"]).read_bytes())
    code[place] ^= 1
    (folder / entry["file"]).write_bytes(code)
    check_refused(first, f"{entry['file']} is damaged")


@needs_libraries
def test_a_truncated_or_missing_file_is_found(damaged):
    folder, first = damaged
    index = library.read_index(folder)
    glue = folder / index["glue"]["file"]
    glue.write_bytes(glue.read_bytes()[:1000])
    check_refused(first, f"{glue.name} is damaged")
    glue.unlink()
    check_refused(first, f"{glue.name} is missing")


@needs_libraries
@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"format": 1}'])
def test_a_damaged_index_is_found(damaged, text):
    folder, first = damaged
    (folder / library.INDEX).write_text(text)
    check_refused(first, f"{library.INDEX} is damaged")


@needs_libraries
@pytest.mark.parametrize("change", [{"stamp": "other"}, {"format": 0}])
def test_libraries_of_other_sources_are_not_used(damaged, change):
    folder, first = damaged
    index = library.read_index(folder) | change
    (folder / library.INDEX).write_text(json.dumps(index))
    last = check_refused(first, "the libraries were built from other sources")
    assert "python -m mdtensor.kernels.build" in last


@needs_libraries
def test_a_library_for_another_cpu_is_not_used(damaged):
    folder, first = damaged
    index = library.read_index(folder)
    index["libraries"][isa.ISA]["needs"].append("amx-int8x")
    (folder / library.INDEX).write_text(json.dumps(index))
    check_refused(first, "this CPU lacks amx-int8x")
    del index["libraries"][isa.ISA]
    (folder / library.INDEX).write_text(json.dumps(index))
    check_refused(first, f"no library was built for {isa.ISA}")


def test_the_stamp_follows_every_source(monkeypatch, tmp_path):
    (tmp_path / "native").mkdir()
    monkeypatch.setattr(library, "FOLDER", tmp_path / "native")
    seen = set()
    for name in ("a.py", "native/b.py", "native/glue.c"):
        for content in (b"1", b"2"):
            (tmp_path / name).write_bytes(content)
            seen.add(library.stamp.__wrapped__())
    (tmp_path / "native/notes.txt").write_text("no source")
    seen.add(library.stamp.__wrapped__())
    assert len(seen) == 6


def test_a_free_threaded_python_uses_none(monkeypatch):
    library.require_gil()
    monkeypatch.setattr(sys, "abiflags", "t", raising=False)
    monkeypatch.setattr(library, "MODE", "auto")
    with pytest.raises(library.Unusable, match="free-threaded"):
        library.Library("generic")


def test_a_free_threaded_python_without_numba_says_so(monkeypatch):
    def load(_):
        raise ModuleNotFoundError("No module named 'numba'", name="numba")

    monkeypatch.setattr(sys, "abiflags", "t", raising=False)
    monkeypatch.setattr(isa, "IS_JIT_DISABLED", False)
    monkeypatch.setattr(library, "MODE", "auto")
    monkeypatch.setattr(library, "_state", library._state.__wrapped__)
    monkeypatch.setattr(Entry, "_load", load)
    said = "numba is not installed, and this Python is free-threaded. Use a Python with"
    with pytest.raises(OptionError, match=said):
        Entry("generic.copies", "copy_f32").call(np.zeros(1, np.uint32))


def in_process():
    """Whether this process itself uses libraries."""
    return library.describe(isa.ISA) == "a library"


@needs_libraries
@pytest.mark.skipif(not in_process(), reason="this process uses numba's kernels")
class TestCalls:
    """Calls through the glue."""

    copy = Entry("generic.copies", "copy_f32")

    def test_layouts_and_read_only_arrays(self):
        source = np.arange(6, dtype=np.uint32)
        source.flags.writeable = False
        out = np.zeros(6, np.uint32)
        assert self.copy(source, out) is True
        assert np.array_equal(source, out)

    @pytest.mark.parametrize(
        "wrong",
        [
            (np.zeros(3, np.uint32),),
            (np.zeros(3, np.uint32),) * 3,
            (np.zeros((3, 1), np.uint32), np.zeros(3, np.uint32)),
            (np.zeros(3, np.uint8), np.zeros(3, np.uint32)),
            (np.zeros(3, np.int32), np.zeros(3, np.uint32)),
            (3, np.zeros(3, np.uint32)),
            (None, None),
        ],
    )
    def test_wrong_arguments(self, wrong):
        with pytest.raises(TypeError):
            self.copy(*wrong)

    def test_arrays_with_gaps(self):
        with pytest.raises((ValueError, BufferError)):
            self.copy(np.zeros(6, np.uint32)[::2], np.zeros(3, np.uint32))

    def test_arrays_are_released(self):
        source = np.zeros(3, np.uint32)
        before = sys.getrefcount(source)
        for _ in range(10):
            self.copy(source, source)
            with pytest.raises(TypeError):
                self.copy(source, 3)
        assert sys.getrefcount(source) == before

    def test_an_exception_of_a_kernel(self):
        entry = Entry("generic.weight_only", "interleave")
        panels = np.zeros((1, 4, 16), np.uint8)
        entry(np.ones((16, 4), np.uint8), panels)
        assert panels.all()
        product = Entry(*library_entry("gemm_f32s8f32"))
        small, codes = np.zeros(4, np.float32), np.zeros(4, np.int8)
        with pytest.raises(ValueError, match="negative dimensions not allowed"):
            product(small, 1, 1, -5, codes, 1, small, small, 1, small, small, 1)


def library_entry(kernel):
    """The module and name of a kernel of the generic ISA, and that ISA."""
    return "generic.weight_only", kernel, "generic"


#: The part of the suite that runs steps, programs, threads and calls on tensors.
CORE = (
    *("test_steps.py", "test_program.py", "test_feed.py", "test_moves.py"),
    *("test_norms.py", "test_attention.py", "test_extreme.py", "test_join.py"),
    *("test_thread_pool.py", "test_cut.py", "test_wide_weights.py"),
    *("test_axis_folds.py", "test_leading.py"),
)


@needs_libraries
@pytest.mark.slow
@pytest.mark.parametrize("mode", ["native", "jit"])
def test_the_suite_passes_with_either(mode):
    folder = libraries.TESTS / "kernels/cpu"
    files = [folder / name for name in CORE]
    done = libraries.run(
        *("-m", "pytest", "-n", "0", "-p", "no:cacheprovider"),
        *("-k", "not emulated", *files),
        MDTENSOR_KERNELS=mode,
    )
    assert done.returncode == 0, done.stdout[-4000:]


@needs_libraries
@pytest.mark.slow
def test_every_library_conforms():
    facts = json.loads(
        libraries.output(
            "-m", "mdtensor", "verify", "--json", MDTENSOR_KERNELS="native"
        )
    )
    assert facts["conforms"] and facts["hash"] == facts["published"]
    assert {run["isa"] for run in facts["runs"]} <= set(BUILT)
