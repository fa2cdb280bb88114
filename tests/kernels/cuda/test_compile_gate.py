"""Every text compiles for every architecture, without spills, to what was meant.

NVRTC and nvdisasm come from the extra `gpu-build`; no GPU and no driver are needed.
Without NVRTC these tests are skipped; `.ci/run` installs it.
"""

import os
import re
import subprocess
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from support import kernel_texts

import mdtensor as md
from mdtensor.kernels.cuda import compiler, nvrtc
from mdtensor.kernels.loops.cuda import SCALARS
from mdtensor.kernels.loops.cuda_tiles import PLANE
from mdtensor.kernels.loops.cuda_weights import WEIGHED
from mdtensor.kernels.loops.kernel import Kernel

ARCHITECTURES = (90, 80, 86, 89, 100, 120)
#: Texts in one run of the compiler.
BATCH = 40
#: Of so many texts one is compiled for each of the other architectures.
PART = 12
#: The fewest texts of all operations; fewer would mean that calls are missing.
LEAST = 1000


def library() -> Any:
    try:
        return nvrtc.library()
    except nvrtc.NvrtcError as error:
        if os.environ.get("MDTENSOR_NEEDS_NVRTC"):
            raise
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def kernels() -> list[Kernel]:
    library()
    with pytest.MonkeyPatch.context() as patch:
        return kernel_texts.collected(md.device("emucuda"), patch)


def compiled(batch: list[Kernel], arch: int) -> tuple[bytes, str]:
    text = "\n".join([SCALARS, *(kernel.text for kernel in batch)])
    options = (*compiler.options(arch), "--ptxas-options=-v")
    return nvrtc.compile_text(library(), text, options)


def require_no_spills(kernels: list[Kernel], arch: int) -> None:
    batches = [kernels[at : at + BATCH] for at in range(0, len(kernels), BATCH)]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        logs = [log for _, log in pool.map(lambda b: compiled(b, arch), batches)]
    text = "\n".join(logs)
    names = re.findall(r"Compiling entry function '(\w+)' for 'sm_(\d+)'", text)
    assert sorted(names) == sorted((k.name, str(arch)) for k in kernels)
    # Functions that are not inlined, as of sin, have a line of their own.
    spills = re.findall(r"(\d+) bytes spill stores, (\d+) bytes spill loads", text)
    assert len(spills) >= len(kernels)
    assert set(spills) == {("0", "0")}


@pytest.mark.slow
def test_every_text_compiles_without_spills(kernels: Any) -> None:
    assert len(kernels) >= LEAST
    require_no_spills(kernels, ARCHITECTURES[0])


@pytest.mark.slow
@pytest.mark.parametrize("arch", ARCHITECTURES[1:])
def test_some_texts_compile_without_spills(kernels: Any, arch: int) -> None:
    """Another part for each architecture; `at_length` takes all, 4 minutes for each."""
    require_no_spills(kernels[arch % PART :: PART], arch)


@pytest.mark.slow
@pytest.mark.parametrize("arch", ARCHITECTURES[1:])
def test_every_text_compiles_without_spills_at_length(kernels: Any, arch: int) -> None:
    require_no_spills(kernels, arch)


@pytest.mark.slow
def test_products_of_bytes_are_dot_products_of_four(kernels: Any) -> None:
    found = [kernel for kernel in kernels if "mdt::dot4" in kernel.text]
    assert len(found) >= 4
    for arch in ARCHITECTURES:
        code, _ = compiled(found, arch)
        listing = sass(code)
        for kernel in found:
            body = listing.partition(f".text.{kernel.name}:")[2].partition(".text.")[0]
            assert "IDP.4A" in body, (kernel.name, arch)
            # Four codes are one load.
            assert re.search(r"LDG\.E(\.CONSTANT)? R", body), (kernel.name, arch)


@pytest.mark.slow
@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_tiles_are_multiplied_by_tensor_cores(kernels: Any, arch: int) -> None:
    """32 products of 16 x 8 sums are one instruction; 16 codes are one copy."""
    found = [kernel for kernel in kernels if kernel.tile > WEIGHED]
    assert {kernel.tile for kernel in found} == {16, 64, 128} and len(found) >= 10
    require_no_spills(found, arch)
    code, _ = compiled(found, arch)
    listing = sass(code)
    for kernel in found:
        body = listing.partition(f".text.{kernel.name}:")[2].partition(".text.")[0]
        products = re.findall(r"IMMA\.16832\.[SU]8\.[SU]8", body)
        # Two in 64 codes for each piece of 16 x 8 sums of a warp, of dense lines and of
        # others. Slices have four for 16 columns, and four steps of dense lines.
        pieces = (kernel.tile // 32) * (kernel.tile // 16)
        wanted = (1 + 4) * 4 if kernel.tile == 16 else 2 * 2 * pieces
        assert len(products) >= wanted, kernel.name
        assert "LDG.E.128" in body
        if kernel.tile != 16:
            assert "LDGSTS.E.BYPASS.128" in body and "LDSM.16.M88.4" in body
        # Sums stay in registers.
        assert not re.search(r"\b(LDL|STL)\b", body)


@pytest.mark.slow
@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_depthwise_products_read_a_table(kernels: Any, arch: int) -> None:
    """A tap of a row is a load of a byte and a product added, and has no division."""
    found = [kernel for kernel in kernels if kernel.tile == PLANE]
    assert found
    require_no_spills(found, arch)
    listing = sass(compiled(found, arch)[0])
    for kernel in found:
        body = listing.partition(f".text.{kernel.name}:")[2].partition(".text.")[0]
        # Four rows of a thread, and four taps at a time.
        assert len(re.findall(r"\bLDG\.E\.[SU]8", body)) >= 16
        assert len(re.findall(r"\bIMAD\b", body)) >= 16
        assert "LDS" in body and not re.search(r"\b(LDL|STL)\b", body)


@pytest.mark.slow
@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_weights_are_read_16_bytes_at_a_time(kernels: Any, arch: int) -> None:
    """Of four types, with and without zero points, times three types of floats."""
    found = [kernel for kernel in kernels if kernel.tile == WEIGHED]
    assert len(found) == 4 * 2 * 3
    require_no_spills(found, arch)
    listing = sass(compiled(found, arch)[0])
    for kernel in found:
        body = listing.partition(f".text.{kernel.name}:")[2].partition(".text.")[0]
        assert "LDG.E.128" in body
        # A code is converted once for four rows, of which each adds its product. FFMA2
        # of newer GPUs adds two.
        codes = 32 if re.search(r"column<4, ", kernel.text) else 16
        sums = [1 + bool(two) for two in re.findall(r"\bFFMA(2?)\b", body)]
        assert sum(sums) >= 4 * codes
        assert "SHFL.DOWN" in body and not re.search(r"\b(LDL|STL)\b", body)


@pytest.mark.slow
def test_no_product_and_sum_become_one(kernels: Any) -> None:
    """Only texts that ask for `fma` have one: the others have the bytes of the host."""
    # By what they call: operations share texts, and the first one names a text. Others,
    # as of a logarithm, are functions of NVIDIA's with products and sums of their own.
    called = {
        k: set(re.findall(r"mdt::(\w+)<(?:float|double)>", k.text))
        for k in kernels
        if k.tile != WEIGHED
    }
    plain = [
        k for k, names in called.items() if names and names <= {"add", "mul", "sub"}
    ]
    assert {"add", "mul", "sub"} == set().union(*(called[k] for k in plain))
    listing = sass(compiled(plain, 90)[0])
    assert "FADD" in listing and "DMUL" in listing
    assert not re.search(r"\b(FFMA|DFMA)\b", listing)


@pytest.mark.slow
def test_machine_code_is_whole_and_kept(
    kernels: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CuPy's wrapper would drop the last byte."""
    monkeypatch.setattr(compiler.store, "folder", lambda name: tmp_path)
    code = compiler.cubin(kernels[0], 90)
    assert code[:4] == b"\x7fELF"
    assert kernels[0].name in sass(code)
    monkeypatch.setattr(nvrtc, "compile_text", None)
    assert compiler.cubin(kernels[0], 90) == code
    bad = Kernel("bad", "int31 x;", (), "float32")
    monkeypatch.undo()
    with pytest.raises(nvrtc.NvrtcError, match=r"does not compile.*int31"):
        compiler.cubin(bad, 90)


def sass(code: bytes) -> str:
    """Return the listing of machine code."""
    package = find_spec("nvidia")
    folders = (package and package.submodule_search_locations) or ()
    tools = [p for f in folders for p in Path(f).glob("*/bin/nvdisasm")]
    if not tools:
        pytest.skip("nvdisasm is not installed: pip install 'mdtensor[gpu-build]'")
    place = Path(os.environ.get("TMPDIR", "/tmp")) / f"mdtensor-{os.getpid()}.cubin"
    place.write_bytes(code)
    try:
        done = subprocess.run([tools[0], "-c", place], capture_output=True, text=True)
    finally:
        place.unlink()
    assert done.returncode == 0, done.stderr
    return done.stdout
