"""Tiles for CPUs that are not here: what LLVM makes of them, and Arm's on an emulator.

The oracle of a tile is its formula in int64; operands are laid out as the docstrings
of the kernels say.
"""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from support.arm import Arm

pytestmark = pytest.mark.compiled  # LLVM compiles the tiles in either case
FOREIGN = Path(__file__).with_name("foreign.py")

CODES, WEIGHTS = (0, 255), (-128, 127)
EVERY = -1  # lanes, as a mask


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Assembly and object files by the name of the CPU, once they are asked for."""
    return tmp_path_factory.mktemp("foreign")


def compiled(folder, cpu):
    """The assembly of all tiles for a CPU."""
    place = folder / f"{cpu}.s"
    if not place.exists():
        subprocess.run([sys.executable, FOREIGN, folder, cpu], check=True)
    return place


@pytest.fixture
def cpu(folder):
    return Arm(compiled(folder, "Neoverse N1").with_suffix(".o"))


def function(folder, cpu, name):
    """The instructions of one function."""
    text = compiled(folder, cpu).read_text()
    body = re.search(rf"^{name}:\n(.*?)^\.Lfunc_end", text, re.MULTILINE | re.DOTALL)
    lines = body[1].splitlines()
    return [line.strip() for line in lines if line.startswith(("\t", ".L"))]


#: By CPU: the instruction, its registers, and how many a step of 4 rows takes.
INNER = {
    "Neoverse N1": (r"sdot\tv", 16),
    "Neoverse V1": (r"sdot\tv", 16),
    "Alder Lake": (r"vpdpbusd\t.*%ymm", 8),
    "Skylake": (r"vpmaddwd\t.*%zmm", 32),
    "Cascade Lake": (r"vpdpbusd\t.*%zmm", 16),
    "Ice Lake": (r"vpdpbusd\t.*%zmm", 16),
}


#: One of Arm and one of x86 each time; each of the others takes some five seconds.
QUICK = ("Neoverse N1", "Cascade Lake")


def those(names):
    """Parameters of a test of several CPUs."""
    return [
        pytest.param(name, marks=() if name in QUICK else pytest.mark.slow)
        for name in names
    ]


def loops_of(lines, instruction):
    """The stretches from label to label in which `instruction` is."""
    part, found = [], []
    for line in [*lines, ".L"]:
        if line.startswith(".L"):
            found += [part] if any(re.search(instruction, x) for x in part) else []
            part = []
        part.append(line)
    return found


@pytest.mark.long
@pytest.mark.parametrize("name", those(INNER))
def test_sums_stay_in_registers(folder, name):
    instruction, count = INNER[name]
    for tile in ("product", "excepting_product", "certain_product", "sums"):
        lines = function(folder, name, tile)
        counts = [
            sum(bool(re.search(instruction, line)) for line in loop)
            for loop in loops_of(lines, instruction)
        ]
        assert counts == [2 * count, count], "two steps at once, then one"
        places = [i for i, line in enumerate(lines) if re.search(instruction, line)]
        loop = lines[places[0] : places[2 * count - 1] + 1]
        assert not [line for line in loop if re.search(r"\[?%?[er]?sp\b", line)]


@pytest.mark.long
@pytest.mark.parametrize("name", those(["Cascade Lake", "Ice Lake"]))
@pytest.mark.parametrize("shape", ["24x1", "12x2", "9x3", "8x3", "6x4", "5x5", "4x6"])
def test_the_largest_tiles_fit_the_registers(folder, name, shape):
    lines = function(folder, name, shape)
    places = [i for i, line in enumerate(lines) if "vpdpbusd" in line]
    loop = lines[places[0] : places[len(places) * 2 // 3 - 1] + 1]
    assert not [line for line in loop if "zmm" in line and "rsp" in line]
    rows, width = map(int, shape.split("x"))
    assert len(places) == 3 * rows * width


@pytest.mark.parametrize("name", those(["Cascade Lake", "Ice Lake"]))
def test_four_pixels_are_interleaved_by_few_instructions(folder, name):
    # each of 4 rows of pixels: 8 for 256 bytes, and products with 2 outputs in 2 rows
    for tile in ("twins", "halves"):
        lines = function(folder, name, tile)
        assert sum(line.startswith("vpunpck") for line in lines) == 4 * 8
        assert sum("vpdpbusd" in line for line in lines) == 3 * 2 * 2 * 4
    # 5 rows of two groups that share a pair of pixels
    lines = function(folder, name, "strided")
    assert sum(line.startswith("vpunpck") for line in lines) == 5 * (2 * 8 - 2)
    assert sum("vpdpbusd" in line for line in lines) == 6 * 2 * 4


def test_four_pixels_are_interleaved_by_few_instructions_on_arm(folder):
    lines = function(folder, "Neoverse N1", "certain_depthwise")
    assert len([line for line in lines if re.match(r"zip[12]\t", line)]) == 4 * 8


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
    cpu.call("sums", 1, *job_of(cpu, product), 4 * 16, columns, at)
    found = cpu.read(at, out)
    assert np.array_equal(found[:, :columns], product[3][:, :columns])
    assert (found[:, columns:] == 7).all()


def addend(tile, zero_point):
    """That of the fused multiply-add of a tile's epilogue."""
    if "_" in tile:  # certain, or excepting
        return zero_point + 1.5 * 2**23
    return (zero_point + 0.5) * 2**16 + 3


@pytest.mark.parametrize("columns", [16, 5])
@pytest.mark.parametrize("tile", ["certain_product", "excepting_product"])
def test_codes_of_exceptions_on_arm(cpu, product, tile, columns):
    sums, zero_point, scale = product[3], 131, np.float32(1 / 1021)
    want = np.clip(np.rint(sums * np.float64(scale)) + zero_point, 0, 255)
    for met in (False, True):
        exceptions = np.full(16, -(2**31), np.int32)
        exceptions[2:] = sums[1, 2:] + 10**6  # of no sum
        exceptions[4] = sums[3, 4] if met else 10**6
        out, spill = np.full((4, 16), 7, np.uint8), np.zeros((4, 16), np.int32)
        at, spilled = cpu.place(out), cpu.place(spill)
        ended = cpu.call(
            *(tile, 1, *job_of(cpu, product), 16, columns, at),
            *(cpu.place(np.full(16, scale)), cpu.place(exceptions)),
            *(addend(tile, zero_point), spilled),
        )
        found = cpu.read(at, out)
        assert np.array_equal(found[:, :columns], want[:, :columns])
        assert (found[:, columns:] == 7).all()
        is_met = met and tile == "excepting_product"
        assert ended == 2 + is_met
        assert np.array_equal(cpu.read(spilled, spill), sums if is_met else spill)


@pytest.mark.parametrize("columns", [16, 5])
@pytest.mark.parametrize(("scale", "has_ties"), [(1 / 1021, 0), (1 / 512, 1)])
def test_codes_on_arm(cpu, product, scale, has_ties, columns):
    sums, zero_point = product[3], 131
    scale = np.float32(scale)
    scaled = sums * np.float64(scale)  # exact, since neither has more than 24 bits
    near = np.abs(np.abs(scaled - np.rint(scaled)) - 0.5) < 2.0**-13
    near &= (scaled > -zero_point) & (scaled < 255 - zero_point)
    assert near.any() == has_ties
    want = np.clip(np.rint(scaled) + zero_point, 0, 255)
    out, spill = np.full((4, 16), 7, np.uint8), np.zeros((4, 16), np.int32)
    at, spilled = cpu.place(out), cpu.place(spill)
    scales = cpu.place(np.full(16, scale))
    ended = cpu.call(
        *("product", 1, *job_of(cpu, product), 16, columns, at, scales, 0),
        *(addend("product", zero_point), spilled),
    )
    found = cpu.read(at, out)
    decided = ~near[:, :columns]
    assert np.array_equal(found[:, :columns][decided], want[:, :columns][decided])
    assert (found[:, columns:] == 7).all()
    assert ended == 2 + has_ties
    assert np.array_equal(cpu.read(spilled, spill), sums if has_ties else spill)


CHANNELS = 64


def depthwise(rng, rows, taps, stride, outputs):
    """Pixels [row][x][64], weights [64][row][tap] and their exact sums [x][64]."""
    reach = (outputs - 1) * stride + (taps + 3) // 4 * 4
    x = rng.integers(*CODES, (rows, reach, CHANNELS), endpoint=True)
    w = rng.integers(*WEIGHTS, (CHANNELS, rows, taps), endpoint=True)
    sums = np.zeros((outputs, CHANNELS), np.int64)
    for j, y, t in np.ndindex(outputs, rows, taps):
        sums[j] += x[y, j * stride + t] * w[:, y, t]
    return x.astype(np.uint8), w.astype(np.int8), sums


def in_tiles(values):
    """[.., 64] as [.., 4][16]: every 16 channels are 4 of each vector."""
    split = values.reshape(*values.shape[:-1], 4, 4, 4)
    return np.ascontiguousarray(np.swapaxes(split, -3, -2))


def shifted(w):
    """[row][shift][4][16][4]: byte p of shift s holds tap p - s, or 0."""
    _, rows, taps = w.shape
    packed = np.zeros((rows, taps + 3, CHANNELS, 4), np.int8)
    for at, p in np.ndindex(taps + 3, 4):
        tap = p - (at + 1 - taps)
        if 0 <= tap < taps:
            packed[:, at, :, p] = w[:, :, tap].T
    return np.moveaxis(in_tiles(np.moveaxis(packed, 2, -1)), 2, -1).copy()


def filter_job(cpu, x, w, stride, outputs, pitch, at):
    """A `Job` for these pixels, as the emulator has them."""
    rows, width, _ = x.shape
    first = cpu.place(x)
    pixels = first + CHANNELS * np.arange(rows * width).reshape(rows, width)
    table = cpu.place(np.array([cpu.place(line) for line in pixels]))
    bias = cpu.place(in_tiles(128 * w.sum((1, 2), dtype=np.int32)))
    window = table, rows, w.shape[2], 8, 8 * stride
    weights = cpu.place(shifted(w))
    return (outputs, 0, outputs - 1, 0, *window, 0, weights, bias, 0, pitch, at)


@pytest.mark.parametrize(("taps", "stride"), [(3, 1), (5, 2), (6, 8)])
def test_depthwise_sums_on_arm(cpu, taps, stride, rng):
    x, w, want = depthwise(rng, 3, taps, stride, 1)
    out = np.full(CHANNELS, 7, np.int32)
    at = cpu.place(out)
    cpu.call("filtered", *filter_job(cpu, x, w, stride, 1, 0, at))
    assert np.array_equal(cpu.read(at, out), want[0])


@pytest.mark.parametrize("channels", [CHANNELS, 7])
@pytest.mark.parametrize(
    "tile", ["depthwise", "certain_depthwise", "excepting_depthwise"]
)
def test_depthwise_codes_on_arm(cpu, tile, channels, rng):
    x, w, sums = depthwise(rng, 3, 3, 2, 4)
    scale = np.float32(1 / 1021)
    out, spill = np.full((4, 70), 7, np.uint8), np.zeros(CHANNELS, np.int32)
    at, spilled = cpu.place(out), cpu.place(spill)
    known = np.full(CHANNELS, -(2**31), np.int32)
    known[5] = sums[3, 5]  # met in the last of 4 tiles
    ended = cpu.call(
        *(tile, *filter_job(cpu, x, w, 2, 4, 70, at)),
        *(cpu.place(np.full(CHANNELS, scale)), cpu.place(in_tiles(known))),
        *((1 << channels) - 1 if channels < CHANNELS else EVERY, addend(tile, 100)),
        spilled,
    )
    want = np.clip(np.rint(sums * np.float64(scale)) + 100, 0, 255)
    found = cpu.read(at, out)
    assert np.array_equal(found[:, :channels], want[:, :channels])
    assert (found[:, channels:] == 7).all()
    is_met = tile == "excepting_depthwise"
    assert ended == 8 + is_met
    assert np.array_equal(cpu.read(spilled, spill), sums[3] if is_met else spill)


def test_channels_are_arranged_on_arm(cpu, rng):
    given = rng.integers(-(2**31), 2**31, CHANNELS).astype(np.int32)
    out = np.full((4, 4, 4), 7, np.int32)
    at = cpu.place(out)
    cpu.call("arrange", cpu.place(given), at)
    assert np.array_equal(cpu.read(at, out), in_tiles(given))
