"""A small network with every step; run as a script it prints a digest of all values."""

import hashlib
from fractions import Fraction

import numpy as np

from mdtensor.kernels.cpu.program import products, steps
from mdtensor.kernels.cpu.program.program import Program

SHAPE = (2, 3, 10, 14)


class Recorder:
    """Appends steps to a Program and keeps what was appended."""

    def __init__(self):
        self.rng = np.random.default_rng(7)
        self.program = Program()
        self.calls = []  # (step, input slots, output slot)

    def __call__(self, step, *slots):
        result = self.program.append(step, *slots)
        self.calls.append((step, slots, result))
        return result

    def conv(self, x, oc, kernel, stride=(1, 1), groups=1, exact=False):
        ic = x.shape[-1] // groups
        weight = self.rng.integers(-128, 128, (oc, ic, kernel, kernel), dtype=np.int8)
        bias = self.rng.integers(-999, 999, oc, dtype=np.int32)
        steps_ = self.rng.uniform(0.5, 1, oc) / (100 * kernel * ic**0.5)
        ratios = [Fraction(1, 512), *(Fraction(float(np.float32(s))) for s in steps_)]
        return self(
            products.Conv2d(
                *(weight, bias),
                stride=stride,
                padding=(kernel // 2,) * 4,
                groups=groups,
                x_zero_point=120,
                ratios=None if exact else ratios[:oc],
                zero_point=118,
                clamp=(3, 250),
            ),
            x,
        )


def record(images=SHAPE[0]):
    """(Recorder, outputs): convolutions of all sorts, squeeze-excite, residual."""
    net = Recorder()
    table = np.clip(np.arange(256) * 0.7 + 20, 0, 255).astype(np.uint8)
    x = net.program.input((images, *SHAPE[1:]), np.float32)
    v = net(steps.Quantize(0.01, 128, channels_first=True, padded_channels=4), x)
    v = net.conv(v, 8, 3, (2, 2))
    v = skip = net(steps.Lookup(table), v)
    v = net.conv(v, 24, 1)
    v = net.conv(v, 24, 3, (1, 1), groups=24)
    s = net(steps.Mean(Fraction(3, 2), 118, 90), v)
    s = net(steps.Lookup(table), net.conv(s, 24, 1))
    v = net(steps.Mul(Fraction(1, 128), (118, 3), 118), v, s)
    v = net.conv(v, 8, 1)
    v = net(steps.Add((Fraction(1, 2), Fraction(2, 3)), (118, 120), 110), v, skip)
    v = net.conv(v, 16, 3, groups=2)
    v = net(steps.Mul(Fraction(1, 64), (100, 101), 118), v, v)
    v = net.conv(v, 16, 5, (2, 1), groups=16)
    pooled = net(steps.MaxPool((2, 2), (2, 2), (0, 0, 1, 1)), v)
    v = net(
        steps.AvgPool((3, 3), (2, 2), (1, 1, 1, 1), ratio=Fraction(1), x_zero_point=9),
        v,
    )
    exact = net.conv(v, 5, 3, exact=True)
    depthwise = net.conv(v, 16, 3, groups=16, exact=True)
    v = net(steps.Mean(Fraction(1), 9, 9, keepdims=False), v)
    weight = net.rng.integers(-128, 128, (10, 16), dtype=np.int8)
    linear = products.Linear(
        weight, x_zero_point=9, ratios=[Fraction(1, 300)] * 10, zero_point=100
    )
    v = net(steps.Dequantize(0.1, 100), net(linear, v))
    codes = net(steps.Quantize(0.5, 3), v)
    return net, [v, exact, depthwise, pooled, codes]


def sample():
    """The network's input."""
    return np.random.default_rng(3).normal(0, 0.6, SHAPE).astype(np.float32)


def digest(arrays):
    """One hash of the bytes of all arrays."""
    text = hashlib.sha256()
    for array in arrays:
        text.update(repr((array.shape, array.dtype.str)).encode())
        text.update(array.tobytes())
    return text.hexdigest()


if __name__ == "__main__":
    net, outputs = record()
    print(digest(net.program.build(outputs).values(sample())))
