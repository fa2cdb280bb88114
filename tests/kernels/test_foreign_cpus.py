"""Tiles for CPUs that are not here: what LLVM makes of them, and Arm's on an emulator.

The oracle of a tile is its formula in int64; operands are laid out as the docstrings
of the kernels say.
"""

import re
import runpy
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

FOREIGN = Path(__file__).with_name("foreign.py")
Arm = runpy.run_path(str(Path(__file__).with_name("arm.py")))["Arm"]
CODES, WEIGHTS = (0, 255), (-128, 127)
EVERY = -1  # lanes, as a mask


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Assembly and object files by the name of the CPU."""
    place = tmp_path_factory.mktemp("foreign")
    subprocess.run([sys.executable, FOREIGN, place], check=True)
    return place


@pytest.fixture
def cpu(folder):
    return Arm(folder / "Neoverse N1.o")


def function(folder, cpu, name):
    """The instructions of one function."""
    text = (folder / f"{cpu}.s").read_text()
    body = re.search(rf"^{name}:\n(.*?)^\.Lfunc_end", text, re.MULTILINE | re.DOTALL)
    return [line.strip() for line in body[1].splitlines() if line.startswith("\t")]


#: By CPU: the instruction, its registers, and how many 4 rows of a panel take.
INNER = {
    "Neoverse N1": (r"sdot\tv", 16),
    "Neoverse V1": (r"usdot\tv", 16),
    "Alder Lake": (r"vpdpbusd\t.*%ymm", 8),
    "Skylake": (r"vpmaddwd\t.*%zmm", 32),
    "Cascade Lake": (r"vpdpbusd\t.*%zmm", 16),
    "Ice Lake": (r"vpdpbusd\t.*%zmm", 16),
}


@pytest.mark.parametrize("name", INNER)
def test_sums_stay_in_registers(folder, name):
    instruction, count = INNER[name]
    for tile in ("product", "sums"):
        lines = function(folder, name, tile)
        places = [i for i, line in enumerate(lines) if re.search(instruction, line)]
        loop = lines[places[0] : places[-1] + 1]
        assert len(places) == count
        assert not [line for line in loop if re.search(r"\[?%?[er]?sp\b", line)]


def test_four_pixels_are_interleaved_by_few_instructions(folder):
    # Arm's has two loops: all channels, or those that exist
    counts = {"Neoverse N1": 2, "Skylake": 2, "Cascade Lake": 2, "Ice Lake": 1}
    for name, count in counts.items():
        lines = function(folder, name, "transpose")
        moves = [line for line in lines if re.match("vperm|vpshuf|st4", line)]
        assert len(moves) == count


@pytest.fixture
def product(rng):
    """4 rows of codes, 16 columns of weights packed for Arm, bias, exact sums."""
    k = 44
    a = rng.integers(*CODES, (4, k), endpoint=True).astype(np.uint8)
    w = rng.integers(*WEIGHTS, (16, k), endpoint=True).astype(np.int8)
    a[0], w[:2] = 255, np.array([[-128], [127]])
    bias = rng.integers(-3000, 3000, 16).astype(np.int32)
    bias[3] = 256 - a[1].astype(int) @ w[3]  # half of 512
    heads = 128 * w.sum(1, dtype=np.int32)
    groups = w.reshape(16, k // 4, 4).transpose(1, 0, 2)
    packed = np.concatenate([heads.view(np.int8), groups.reshape(-1)])
    return a, packed, bias, a.astype(np.int64) @ w.T.astype(np.int64) + bias


def job_of(cpu, product):
    """The operands of a tile, in the emulator's memory."""
    a, packed, bias, _ = product
    k = a.shape[1]
    return cpu.place(a), k, k // 4, cpu.place(packed), cpu.place(bias)


@pytest.mark.parametrize("columns", [16, 5])
def test_sums_on_arm(cpu, product, columns):
    out = np.full((4, 16), 7, np.int32)
    at = cpu.place(out)
    cpu.call("sums", *job_of(cpu, product), 4 * 16, (1 << columns) - 1, at)
    found = cpu.read(at, out)
    assert np.array_equal(found[:, :columns], product[3][:, :columns])
    assert (found[:, columns:] == 7).all()


@pytest.mark.parametrize("columns", [16, 5])
@pytest.mark.parametrize(("scale", "has_ties"), [(1 / 1021, 0), (1 / 512, 1)])
def test_codes_on_arm(cpu, product, scale, has_ties, columns):
    sums, zero_point, lo, hi = product[3], 131, 5, 250
    scale = np.float32(scale)
    scaled = sums * np.float64(scale)  # exact, since neither has more than 24 bits
    near = np.abs(np.abs(scaled - np.rint(scaled)) - 0.5) < 2.0**-13
    near &= (scaled > lo - zero_point) & (scaled < hi - zero_point)
    assert near.any() == has_ties
    want = np.clip(np.rint(scaled) + zero_point, lo, hi)
    out, spill = np.full((4, 16), 7, np.uint8), np.zeros((4, 16), np.int32)
    at, spilled = cpu.place(out), cpu.place(spill)
    scales = cpu.place(np.full(16, scale))
    flag = cpu.call(
        *("product", *job_of(cpu, product), 16, (1 << columns) - 1, at, scales),
        *(float(lo - zero_point), float(hi - zero_point), zero_point, spilled),
    )
    found = cpu.read(at, out)
    decided = ~near[:, :columns]
    assert np.array_equal(found[:, :columns][decided], want[:, :columns][decided])
    assert (found[:, columns:] == 7).all()
    assert flag == has_ties
    assert np.array_equal(cpu.read(spilled, spill), sums if has_ties else spill)


def depthwise(rng, rows, taps, stride, outputs):
    """Pixels [row][x][16], weights [16][row][tap] and their exact sums [x][16]."""
    reach = (outputs - 1) * stride + taps
    x = rng.integers(*CODES, (rows, -(-reach // 4) * 4, 16), endpoint=True)
    w = rng.integers(*WEIGHTS, (16, rows, taps), endpoint=True)
    sums = np.zeros((outputs, 16), np.int64)
    for j, y, t in np.ndindex(outputs, rows, taps):
        sums[j] += x[y, j * stride + t] * w[:, y, t]
    return x.astype(np.uint8), w.astype(np.int8), sums


def shifted(w):
    """[row][shift][16][4]: byte p of shift s holds tap p - s, or 0."""
    _, rows, taps = w.shape
    packed = np.zeros((rows, taps + 3, 16, 4), np.int8)
    for at, p in np.ndindex(taps + 3, 4):
        tap = p - (at + 1 - taps)
        if 0 <= tap < taps:
            packed[:, at, :, p] = w[:, :, tap].T
    return packed


def in_fours(x):
    """[row][x / 4][16][4] of [row][x][16]."""
    return x.reshape(len(x), -1, 4, 16).transpose(0, 1, 3, 2).copy()


@pytest.mark.parametrize(
    ("tile", "taps", "stride"), [("strided", 5, 2), ("any_shape", 6, 8)]
)
def test_depthwise_sums_on_arm(cpu, tile, taps, stride, rng):
    # outputs of any shape own their groups of 4 pixels: here, 2 of them
    x, w, want = depthwise(rng, 3, taps, stride, 4)
    image, spread = in_fours(x), stride // 4
    start = 128 * w.sum((1, 2), dtype=np.int32)
    out = np.full((4, 16), 7, np.int32)
    at = cpu.place(out)
    cpu.call(
        *(tile, taps, spread, 3, cpu.place(image), image[0].nbytes),
        *(cpu.place(shifted(w)), cpu.place(start), 3, 64, EVERY, at),
    )
    found = cpu.read(at, out)
    assert np.array_equal(found[:3], want[:3])
    assert (found[3] == 7).all()


def test_depthwise_codes_on_arm(cpu, rng):
    x, w, sums = depthwise(rng, 3, 3, 1, 4)
    image, scale = in_fours(x), np.float32(1 / 1021)
    start = 128 * w.sum((1, 2), dtype=np.int32)
    out = np.full((4, 20), 7, np.uint8)
    at = cpu.place(out)
    flag = cpu.call(
        *("depthwise", 3, 0, 3, cpu.place(image), image[0].nbytes),
        *(cpu.place(shifted(w)), cpu.place(start), 4, 20, EVERY, at),
        *(cpu.place(np.full(16, scale)), -100.0, 155.0, 100, cpu.place(sums)),
    )
    want = np.clip(np.rint(sums * np.float64(scale)) + 100, 0, 255)
    found = cpu.read(at, out)
    assert flag == 0 and np.array_equal(found[:, :16], want)
    assert (found[:, 16:] == 7).all()


@pytest.mark.parametrize("channels", [16, 3])
def test_pixels_are_interleaved_on_arm(cpu, channels, rng):
    pixels = rng.integers(0, 256, (8, channels)).astype(np.uint8)
    out = np.full((2, 16, 4), 7, np.uint8)
    at = cpu.place(out)
    mask = (1 << channels) - 1
    cpu.call("transpose", cpu.place(pixels), channels, 2, mask, 0, at)
    found = cpu.read(at, out)
    assert np.array_equal(found[:, :channels], in_fours_of(pixels))
    assert (found[:, channels:] == 0).all()


def in_fours_of(pixels):
    return pixels.reshape(2, 4, -1).transpose(0, 2, 1)
