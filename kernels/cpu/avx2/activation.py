"""The activations of `generic/activation.py` on vectors of float32 of any width."""

from llvmlite import ir

from mdtensor.kernels.cpu import vectors
from mdtensor.kernels.cpu.generic.opcodes import (
    CLAMP,
    HARDSIGMOID,
    HARDSWISH,
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


def activate(b, values, kind, low, high):
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


def add_residual(b, values, residual, places):
    """Return values + the vectors at `residual` + places; as they are if it is 0."""
    before = b.block
    adding, after = b.append_basic_block("add"), b.append_basic_block("added")
    b.cbranch(b.icmp_signed("!=", residual, I64(0)), adding, after)
    b.position_at_end(adding)
    others = [vectors.load(b, b.add(residual, at), values[0].type) for at in places]
    sums = [b.fadd(x, y) for x, y in zip(values, others, strict=True)]
    b.branch(after)
    b.position_at_end(after)
    pairs = zip(values, sums, strict=True)
    return [_merge(b, [(before, x), (adding, y)]) for x, y in pairs]


def _merge(b, choices):
    """Return a phi of (block, value)."""
    phi = b.phi(choices[0][1].type)
    for block, value in choices:
        phi.add_incoming(value, block)
    return phi
