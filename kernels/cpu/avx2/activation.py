"""The activations of `generic/activation.py` on vectors of float32 of any width."""

from llvmlite import ir

from mdtensor.kernels.cpu import vectors
from mdtensor.kernels.cpu.generic import narrowing
from mdtensor.kernels.cpu.generic.float16 import HAS_F16C
from mdtensor.kernels.cpu.generic.opcodes import (
    AT_THE_END,
    BEFORE_ACTIVATING,
    BEFORE_ADDING,
    CLAMP,
    HARDSIGMOID,
    HARDSWISH,
    KINDS,
    LEAKY_RELU,
    RELU,
)
from mdtensor.kernels.cpu.vectors import I64


def _constant(x, number):
    """Return a vector like x with `number` in every lane."""
    return ir.Constant(x.type, [float(number)] * x.type.count)


def _larger(b, x, y):
    """Return x where x > y, else y; the second also if a lane is NaN."""
    return b.select(b.fcmp_ordered(">", x, y), x, y)


def _smaller(b, x, y):
    """Return x where x < y, else y; the second also if a lane is NaN."""
    return b.select(b.fcmp_ordered("<", x, y), x, y)


def _clamp(b, x, low, high):
    return _smaller(b, high, _larger(b, low, x))


def _relu(b, x, low, high):
    zero = _constant(x, 0)
    return b.select(b.fcmp_ordered("<=", x, zero), zero, x)


def _leaky_relu(b, x, low, high):
    return _larger(b, x, b.fmul(x, low))


def _hardsigmoid(b, x, low, high):
    line = b.fadd(b.fmul(x, low), high)
    return _clamp(b, line, _constant(x, 0), _constant(x, 1))


def _hardswish(b, x, low, high):
    part = b.fadd(x, _constant(x, 3))
    part = _clamp(b, part, _constant(x, 0), _constant(x, 6))
    at_least = _larger(b, _constant(x, -3), x)
    return b.fmul(at_least, b.fdiv(part, _constant(x, 6)))


FORMULAS = {
    RELU: _relu,
    CLAMP: _clamp,
    LEAKY_RELU: _leaky_relu,
    HARDSIGMOID: _hardsigmoid,
    HARDSWISH: _hardswish,
}


def _integers(x):
    return ir.VectorType(ir.IntType(32), x.type.count)


def _nearest_float16(b, x):
    """Return the float16 nearest to each lane; see `generic/narrowing.py`."""
    kind = _integers(x)
    # Two instructions of the CPU do the same, also for NaN.
    if HAS_F16C:
        halves = ir.VectorType(ir.HalfType(), x.type.count)
        return b.fpext(b.fptrunc(x, halves), x.type)

    def number(value):
        return ir.Constant(kind, [int(value)] * kind.count)

    bits = b.bitcast(x, kind)
    rest = b.and_(bits, number(narrowing.MAGNITUDE))
    odd = b.and_(b.lshr(rest, number(13)), number(1))
    normal = b.add(b.add(rest, number(narrowing.HALF)), odd)
    normal = b.and_(normal, number(narrowing.KEPT))
    shift = _constant(x, narrowing.SHIFT)
    above = b.fadd(b.bitcast(rest, x.type), shift)
    tiny = b.bitcast(b.fsub(above, shift), kind)
    # Without the sign, all numbers are positive integers.
    is_tiny = b.icmp_signed("<", rest, number(narrowing.NORMAL))
    found = b.select(is_tiny, tiny, normal)
    is_large = b.icmp_signed(">=", found, number(narrowing.TOO_LARGE))
    found = b.select(is_large, number(narrowing.INFINITY), found)
    quiet = b.or_(b.and_(rest, number(narrowing.KEPT)), number(narrowing.QUIET))
    is_nan = b.icmp_signed(">", rest, number(narrowing.INFINITY))
    found = b.select(is_nan, quiet, found)
    return b.bitcast(b.or_(found, b.and_(bits, number(narrowing.SIGN))), x.type)


def _nearest_bfloat16(b, x):
    """Return the bfloat16 nearest to each lane; see `generic/narrowing.py`."""
    kind = _integers(x)

    def number(value):
        return ir.Constant(kind, [int(value)] * kind.count)

    bits = b.bitcast(x, kind)
    odd = b.and_(b.lshr(bits, number(16)), number(1))
    rounded = b.add(b.add(bits, number(narrowing.UPPER_HALF)), odd)
    rounded = b.and_(rounded, number(narrowing.UPPER))
    quiet = b.or_(b.and_(bits, number(narrowing.UPPER)), number(0x400000))
    rest = b.and_(bits, number(narrowing.MAGNITUDE))
    is_nan = b.icmp_signed(">", rest, number(narrowing.INFINITY))
    return b.bitcast(b.select(is_nan, quiet, rounded), x.type)


ROUNDINGS = {1: _nearest_float16, 2: _nearest_bfloat16}


def _narrowed(b, values, code, place):
    """Return vectors rounded as two bits of `code` say."""
    before = b.block
    after = b.append_basic_block("rounded")
    blocks = {number: b.append_basic_block("rounding") for number in ROUNDINGS}
    switch = b.switch(b.and_(b.lshr(code, I64(place)), I64(3)), after)
    found = [(before, values)]
    for number, block in blocks.items():
        switch.add_case(I64(number), block)
        b.position_at_end(block)
        found.append((block, [ROUNDINGS[number](b, x) for x in values]))
        b.branch(after)
    b.position_at_end(after)
    return [_merge(b, [(block, some[i]) for block, some in found])
            for i in range(len(values))]  # fmt: skip


def activate(b, values, code, low, high):
    """Return vectors after an activation and its roundings; limits are float32."""
    values = _narrowed(b, values, code, BEFORE_ACTIVATING)
    kind = b.and_(code, I64(KINDS - 1))
    values = _activated(b, values, kind, low, high)
    return _narrowed(b, values, code, AT_THE_END)


def _activated(b, values, kind, low, high):
    """Return vectors after the activation `kind`; `low` and `high` are float32."""
    lanes, before = values[0].type.count, b.block
    after = b.append_basic_block("activated")
    blocks = {kind: b.append_basic_block("activation") for kind in FORMULAS}
    switch = b.switch(kind, after)
    found = [(before, values)]
    for number, block in blocks.items():
        switch.add_case(I64(number), block)
        b.position_at_end(block)
        limits = [vectors.splat(b, limit, lanes) for limit in (low, high)]
        found.append((block, [FORMULAS[number](b, x, *limits) for x in values]))
        b.branch(after)
    b.position_at_end(after)
    return [_merge(b, [(block, some[i]) for block, some in found])
            for i in range(len(values))]  # fmt: skip


def add_residual(b, values, code, residual, places):
    """Return values + the vectors at `residual` + places; as they are if it is 0."""
    before = b.block
    adding, after = b.append_basic_block("add"), b.append_basic_block("added")
    b.cbranch(b.icmp_signed("!=", residual, I64(0)), adding, after)
    b.position_at_end(adding)
    first = _narrowed(b, values, code, BEFORE_ADDING)
    others = [vectors.load(b, b.add(residual, at), values[0].type) for at in places]
    sums = [b.fadd(x, y) for x, y in zip(first, others, strict=True)]
    last = b.block
    b.branch(after)
    b.position_at_end(after)
    pairs = zip(values, sums, strict=True)
    return [_merge(b, [(before, x), (last, y)]) for x, y in pairs]


def _merge(b, choices):
    """Return a phi of (block, value)."""
    phi = b.phi(choices[0][1].type)
    for block, value in choices:
        phi.add_incoming(value, block)
    return phi
