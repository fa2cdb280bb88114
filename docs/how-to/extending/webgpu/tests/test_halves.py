"""float16: 16 bits in memory, float32 in kernels, rounded once, as on the host."""

from typing import Any

import numpy as np
import pytest
from host import near, same, webgpu

import mdtensor as md

#: Every float16, signalling NaN included.
ALL = np.arange(2**16, dtype=np.uint16).view(np.float16)
NUMBERS = ALL[~np.isnan(ALL)]


def halves(*shape: int, seed: int = 0) -> Any:
    rng = np.random.default_rng(seed)
    return md.asarray((rng.standard_normal(shape) * 3).astype(np.float16))


def test_every_number_goes_there_and_back() -> None:
    x = md.asarray(ALL.reshape(256, 256))
    for call in (
        *(lambda x: x[:, ::-3], lambda x: md.flip(x, axis=0), lambda x: x[1:, 7]),
        *(lambda x: md.concat([x, x[:3]], axis=0), lambda x: md.reshape(x.mT, (-1,))),
    ):
        same(call, x)
    same(lambda x: md.astype(x, "float32"), md.asarray(NUMBERS))


def test_float32_is_rounded_to_the_nearest() -> None:
    """Each number, the middle to its neighbour, and the float32 next to that."""
    sizes = NUMBERS[:0x7C00].astype(np.float32)
    ties = (sizes[:-1] + sizes[1:]) / 2
    near_ties = [np.nextafter(ties, np.float32(end)) for end in (0, 1e9)]
    ends = np.array([65519.99, 65520, 65521, 1e30, np.inf, 1e-8, 2**-25, 1e-40], "f4")
    x = np.concatenate([sizes, ties, *near_ties, ends])
    x = md.asarray(np.concatenate([x, -x]))
    for casting in ("wrap", "saturate"):
        same(lambda x, c=casting: md.astype(x, "float16", casting=c), x)


@pytest.mark.parametrize("type", ["bool", "int8", "uint16", "int32", "uint32"])
def test_casts_of_integers(type: str) -> None:
    ends = [0, 1] if type == "bool" else [*range(-3, 3), 2049, 65519, 65520, 2**31 - 1]
    x = md.asarray(np.array(ends, np.int64).astype(type))
    for casting in ("wrap", "saturate"):
        same(lambda x, c=casting: md.astype(x, "float16", casting=c), x)
        same(lambda x, c=casting: md.astype(x, type, casting=c), halves(50))


def test_casts_that_do_not_fit_raise_the_error_of_the_host() -> None:
    for value, casting in ((1e5, "check"), (0.1, "exact"), (2049.0, "exact")):
        x = md.asarray(np.array([1.0, value], np.float32))
        with pytest.raises(md.CastError) as wanted:
            md.astype(x, "float16", casting=casting)
        with pytest.raises(md.CastError) as found:
            md.astype(x.to(webgpu), "float16", casting=casting)
        assert str(found.value).replace("WebGpu", "") == str(wanted.value)
    same(lambda x: md.astype(x, "float16", casting="check"), md.asarray([1.5, -2.0]))


@pytest.mark.parametrize("name", ["add", "sub", "mul", "maximum", "minimum", "less"])
def test_arithmetic_rounds_once(name: str) -> None:
    x, y = halves(40, 50), halves(1, 50, seed=1)
    same(getattr(md, name), x, y)
    same(lambda x: getattr(md, name)(x, 1.1), x)
    same(getattr(md, name), x, md.astype(y, "float32"))


def test_functions_and_reductions() -> None:
    x = halves(6, 70)
    for name in ("abs", "neg", "floor", "round", "relu", "sign"):
        same(getattr(md, name), x)
    for name in ("max", "min"):
        same(lambda x, name=name: getattr(md, name)(x, axis=1), x)
    same(lambda x: md.where(x > 0, x, 0.5), x)
    same(lambda x: md.sort(x, axis=1), x)
    for call in (
        *(lambda x: md.sum(x, axis=1), lambda x: md.mean(x, axis=0)),
        *(lambda x: md.softmax(x, axis=1), lambda x: md.exp(x), lambda x: md.tanh(x)),
        *(
            lambda x: md.layer_norm(x, normalized_shape=(70,)),
            lambda x: md.matmul(x, x.mT),
        ),
    ):
        # A float32 that is next to a tie rounds to one of two neighbours.
        near(call, x, ulp=2.0**13, absolute=1e-6)


def test_bfloat16_says_what_there_is() -> None:
    x = md.asarray([1.0]).to(webgpu)
    words = r"bfloat16 has no tensor type on webgpu.*float16, float32 or the device cpu"
    with pytest.raises(md.DeviceError, match=words):
        md.astype(x, "bfloat16")
    with pytest.raises(md.DeviceError, match="bfloat16"):
        md.astype(md.asarray([1.0]), "bfloat16").to(webgpu)
