"""Tiles of depthwise convolution: neighbouring outputs of 64 channels, or of 32.

A group is 4 neighbouring input pixels, whose bytes of one channel form a dword: one dot
product multiplies them by 4 weights. With 32 channels the right half of each vector
belongs to an output that lies `ahead` outputs to the right of the output of the left
half. `conv.py` says how pixels are found and how weights are packed.
"""

from typing import NamedTuple

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from mdtensor.kernels.cpu import vectors
from mdtensor.kernels.cpu.dot8 import simd
from mdtensor.kernels.cpu.dot8.epilogue import EPILOGUES, QUAD, load_vectors
from mdtensor.kernels.cpu.dot8.packing import BLOCK, GROUP, HALF
from mdtensor.kernels.cpu.dot8.simd import BYTES, I32, I64, PRODUCT, S32, WORDS

SHIFT = 4 * BLOCK  # bytes of the weights of one tap's shift, for 64 channels
PART = 4  # dwords of 128 bits


class Job(NamedTuple):
    """Place of a row of tiles, as LLVM values; arrays by address.

    Args:
        count, tile, last: how many tiles, the number of the first one, and the output
            that the last tile of a row starts with, which may overlap the tile before.
        ahead: distance, in outputs, from the left to the right half of vectors.
        lines: addresses of the lines of pixel addresses, one for each kernel row.
        rows, taps: the height of the kernel, and its width.
        dilation, step: bytes of a line from tap to tap, and from output to output.
        channel: bytes of a pixel before the first channel of the block.
        weights, bias: addresses for the block; the bias is int32 [4][16].
        row_pitch, pitch: bytes from row to row of outputs, and from output to output.
        out: address of output 0 of the row.
    """

    count: ir.Value
    tile: ir.Value
    last: ir.Value
    ahead: ir.Value
    lines: ir.Value
    rows: ir.Value
    taps: ir.Value
    dilation: ir.Value
    step: ir.Value
    channel: ir.Value
    weights: ir.Value
    bias: ir.Value
    row_pitch: ir.Value
    pitch: ir.Value
    out: ir.Value


FIELDS = len(Job._fields)


def _interleave(b, x, y, kind):
    """Interleave elements of x and y within each 128 bits.

    Return two vectors: the lower halves interleaved, and the upper halves.
    """
    x, y = b.bitcast(x, kind), b.bitcast(y, kind)
    size = kind.count // (kind.count * kind.element.width // 128)
    order = [i // 2 + kind.count * (i % 2) for i in range(size)]
    lanes = range(0, kind.count, size)
    return [
        b.shuffle_vector(
            *(x, y),
            vectors.constant(I32, [lane + half + i for lane in lanes for i in order]),
        )
        for half in (0, size // 2)
    ]


def group_of(b, rows):
    """Return a group, 4 pixels of 64 channels, as 4 vectors of [channel][pixel].

    Vector k has channels 4 * k to 4 * k + 3 of every 16.

    Args:
        rows: the 64 bytes of each pixel.
    """
    # Interleaving inside 128 bits is one instruction. It changes the order of channels,
    # which packing restores for free (decision 0041).
    pairs = [_interleave(b, *rows[i : i + 2], BYTES) for i in (0, 2)]
    found = []
    for first, second in zip(*pairs, strict=True):
        found += _interleave(b, first, second, WORDS)
    return [PRODUCT.codes(b, b.bitcast(vector, BYTES)) for vector in found]


def _load_pixel(b, job, halves, place):
    """Load 64 bytes of the pixel whose address is at `place`.

    With two halves, load 32 bytes of it and 32 of the pixel `ahead` outputs further on.
    """
    part = ir.VectorType(BYTES.element, BYTES.count // halves)
    ahead = b.mul(job.ahead, job.step)
    places = [place, b.add(place, ahead)][:halves]
    pixels = [b.add(simd.load(b, at, I64), job.channel) for at in places]
    return simd.concat(b, *[simd.load(b, pixel, part) for pixel in pixels])


def _load_group(b, job, halves, place, step):
    """Load the group of pixels whose addresses start at `place`, `step` apart."""
    places = [b.add(place, b.mul(step, I64(i))) for i in range(GROUP)]
    return group_of(b, [_load_pixel(b, job, halves, at) for at in places])


def _add(b, sums, group, weights):
    """Return sums + group * weights; all three are 4 vectors."""
    found = []
    for k, (old, codes) in enumerate(zip(sums, group, strict=True)):
        packed = simd.load(b, b.add(weights, I64(64 * k)), BYTES)
        found.append(PRODUCT.add(b, old, codes, PRODUCT.weights(b, packed)))
    return found


def starts_of(taps, stride, pixels):
    """Return the first input pixel of each group that a row of outputs reads.

    A group is the 4 neighbouring input pixels that one dot product multiplies. With 3
    taps, neighbouring groups share two pixels, so that all taps of an output lie in one
    group and need one product.

    Args:
        pixels: how many neighbouring outputs the row has.
    """
    reach = (pixels - 1) * stride + taps
    step = 2 if taps == 3 else GROUP
    return range(0, reach - GROUP + step, step)


def shifts_of(taps, stride, pixels):
    """Yield (output, group, shift) for each product of a group that an output needs.

    `shift` is the output's first input pixel minus the first pixel of the group.
    """
    starts = starts_of(taps, stride, pixels)
    for p in range(pixels):
        own = [(g, p * stride - first) for g, first in enumerate(starts)]
        meets = [(g, shift) for g, shift in own if -taps < shift < GROUP]
        whole = [(g, shift) for g, shift in meets if 0 <= shift <= GROUP - taps]
        for g, shift in whole or meets:
            yield p, g, shift


def _add_line(b, job, shape, line, weights, sums):
    """Add the products of one line to `sums` of one row of outputs, or of two rows.

    Args:
        weights: for each row of outputs, the address of the kernel row that meets this
            line, or None if no kernel row does.
    """
    _, pixels, taps, stride, halves = shape
    sums, step = list(sums), I64(8)
    starts = starts_of(taps, stride, pixels)
    places = [b.add(line, I64(8 * first)) for first in starts]
    groups = [_load_group(b, job, halves, place, step) for place in places]
    for r, row in enumerate(weights):
        for p, g, shift in shifts_of(taps, stride, pixels):
            if row is not None:
                at, own = QUAD * (r * pixels + p), I64(SHIFT * (shift + taps - 1))
                part = _add(b, sums[at : at + QUAD], groups[g], b.add(row, own))
                sums[at : at + QUAD] = part
    return sums


def _add_any(b, job, halves, line, weights, sums):
    """Add one kernel row of any length to `sums` of one output, in groups of 4 taps."""
    own = b.add(weights, b.mul(b.sub(job.taps, I64(1)), I64(SHIFT)))

    def add_group(g, sums):
        place = b.add(line, b.mul(b.mul(job.dilation, I64(GROUP)), g))
        group = _load_group(b, job, halves, place, job.dilation)
        return _add(b, sums, group, b.sub(own, b.mul(g, I64(GROUP * SHIFT))))

    count = b.sdiv(b.add(job.taps, I64(GROUP - 1)), I64(GROUP))
    return vectors.repeat(b, count, sums, add_group)


def _accumulate(b, shape, job, x):
    """Return bias + taps, 4 vectors for each output of a tile, row-major."""
    rows, pixels, taps, stride, halves = shape
    row_bytes = b.mul(b.add(job.taps, I64(GROUP - 1)), I64(SHIFT))
    start = load_vectors(b, job.bias, QUAD, S32) * (rows * pixels)

    def line_of(i):
        return b.add(vectors.load(b, b.add(job.lines, b.mul(i, I64(8))), I64), x)

    def add_row(i, sums):
        weights = b.add(job.weights, b.mul(row_bytes, i))
        if not taps:
            return _add_any(b, job, halves, line_of(i), weights, sums)
        return _add_line(b, job, shape, line_of(i), [weights], sums)

    if rows == 1:
        return vectors.repeat(b, job.rows, start, add_row)
    # Two rows of outputs share a line: its taps are different kernel rows of each.
    kernel_rows = [b.add(job.weights, b.mul(row_bytes, I64(i))) for i in range(taps)]
    for i in range(taps + (rows - 1) * stride):
        own = [i - r * stride for r in range(rows)]
        weights = [kernel_rows[ky] if 0 <= ky < taps else None for ky in own]
        start = _add_line(b, job, shape, line_of(I64(i)), weights, start)
    return start


def _store_sums(b, quad, place):
    """Store 64 sums in the order of their channels."""
    part = [range(PART * i, PART * i + PART) for i in range(simd.LANES // PART)]
    for k, sums in enumerate(quad):
        for i, lanes in enumerate(part):
            four = b.shuffle_vector(sums, sums, vectors.constant(I32, lanes))
            simd.store(b, four, b.add(place, I64(4 * (16 * i + PART * k))))


def _rows_of(b, job, pixels, count, out):
    """Yield the addresses of `count` outputs of a tile, row-major."""
    for i in range(count):
        r, p = divmod(i, pixels)
        row = b.add(out, b.mul(job.row_pitch, I64(r)))
        yield b.add(row, b.mul(job.pitch, I64(p)))


def _each_tile(b, job, shape, tile):
    """Call `tile(x, out)` for tiles side by side, until a call returns 1.

    `x` is the offset of the tile's first pixel in a line, in bytes, and `out` the
    address of the tile's first output.
    """

    def place_tile(i):
        first = b.mul(i, I64(shape[1]))
        first = b.select(b.icmp_signed("<", first, job.last), first, job.last)
        return tile(b.mul(first, job.step), b.add(job.out, b.mul(first, job.pitch)))

    return vectors.advance(b, job.count, [job.tile], [I64(1)], place_tile)


def _store_codes(b, job, halves, codes, place, mask):
    """Store the codes whose bit in `mask` is set.

    They are 64 codes of one output, or 32 codes of each of two outputs.
    """
    if halves == 1:
        simd.store_lanes(b, codes, place, mask)
        return
    mask = b.trunc(mask, ir.IntType(HALF))
    right = b.add(place, b.mul(job.ahead, job.pitch))
    for at, start in ((place, 0), (right, HALF)):
        simd.store_lanes(b, simd.slice_bytes(b, codes, start, HALF), at, mask)


# Pixels are read in place through addresses, because transposing them in advance cost
# more (decision 0041).
@intrinsic(prefer_literal=True)
def tiles_u8(typingctx, rows, pixels, taps, stride, halves, epilogue, job):
    """Compute tiles of `depthwise_u8s8u8`, up to one that integers decide.

    Args:
        rows, pixels: literals; outputs of a tile, in 1 or 2 rows, `pixels` in each.
        taps, stride: literals; 3 or 5 and 1 or 2; 0 and 0 for any, with 1 output in
            each tile. Two rows are of 3 by 3 taps, and of one stride on both axes.
        halves: literal, 2 if vectors hold 32 channels of two outputs, else 1.
        epilogue: literal, number of the epilogue, to which `offset` belongs.
        job: as `Job`, then multiplier and exception_sums (float32 and int32 [4][16]),
            mask (a bit for each of 64 channels), offset, spill; arrays by address.

    Returns: 2 * tiles done, + 1 if integers decide lanes of the last one; then its sums
        are in `spill`, int32 [rows][pixels][64].
    """
    literals = vectors.literals(rows, pixels, taps, stride, halves, epilogue)
    if literals is None:
        return None
    *shape, number = literals

    def emit(context, b, signature, arguments):
        values = cgutils.unpack_tuple(b, arguments[6])
        job = Job(*values[:FIELDS])
        *constants, mask, offset, spill = values[FIELDS:]
        kind = EPILOGUES[number]
        simd.align_stack(b)
        outputs = shape[0] * shape[1]

        def tile(x, out):
            sums = _accumulate(b, shape, job, x)
            rescaler, scales = kind(b, offset), kind.load(b, *constants, QUAD)
            for i, place in enumerate(_rows_of(b, job, shape[1], outputs, out)):
                codes = rescaler.codes(b, sums[QUAD * i : QUAD * i + QUAD], scales)
                _store_codes(b, job, shape[-1], codes, place, mask)
            flag = rescaler.is_undecided(b)
            # Sums are stored for the few tiles that integers decide.
            with b.if_then(flag, likely=False):
                for i in range(outputs):
                    place = b.add(spill, I64(4 * BLOCK * i))
                    _store_sums(b, sums[QUAD * i : QUAD * i + QUAD], place)
            return b.zext(flag, I64)

        return _each_tile(b, job, shape, tile)

    whole, real = types.int64, types.float32
    kinds = [*[whole] * (FIELDS + 3), real, whole]
    signature = whole(rows, pixels, taps, stride, halves, epilogue, types.Tuple(kinds))
    return signature, emit


@intrinsic(prefer_literal=True)
def tile_s32(typingctx, halves, job):
    """Store the sums of output `tile`, int32 [64]; arguments as in `tiles_u8`."""
    literals = vectors.literals(halves)
    if literals is None:
        return None

    def emit(context, b, signature, arguments):
        job = Job(*cgutils.unpack_tuple(b, arguments[1]))
        x = b.mul(job.tile, job.step)
        _store_sums(b, _accumulate(b, (1, 1, 0, 0, *literals), job, x), job.out)
        return context.get_dummy_value()

    return types.void(halves, types.UniTuple(types.int64, FIELDS)), emit


@intrinsic
def arrange(typingctx, source, target):
    """Set target[4][16] = source[64], in the order of a tile's channels.

    Arrays are addresses of dwords.
    """

    def emit(context, b, signature, arguments):
        source, target = arguments
        whole = simd.concat(b, *load_vectors(b, source, QUAD, S32))
        for k in range(QUAD):
            lanes = [16 * (i // PART) + PART * k + i % PART for i in range(simd.LANES)]
            part = simd.permute(b, whole, lanes)
            simd.store(b, part, b.add(target, I64(64 * k)))
        return context.get_dummy_value()

    return types.void(*[types.int64] * 2), emit
