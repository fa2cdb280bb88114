"""Fourier transforms against their sums, written out as matrices."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

import mdtensor as md
from mdtensor.errors import DispatchError, OptionError, PromotionError, ShapeError

Numbers = np.ndarray[Any, Any]
REAL = {md.complex64: md.float32, md.complex128: md.float64}
COMPLEX = {real: dtype for dtype, real in REAL.items()}
#: Error relative to the largest element: pocketfft's grows as the logarithm of n.
TOLERANCE = {md.complex64: 1e-6, md.complex128: 1e-14}
SHAPES = st.lists(st.integers(1, 6), min_size=1, max_size=3).map(tuple)


def numbers(shape: tuple[int, ...], dtype: md.DType, seed: int = 1) -> md.Tensor:
    rng = np.random.default_rng(seed)
    values = rng.standard_normal(shape) + 1j * rng.standard_normal(shape)
    part = values if dtype.is_complex else values.real
    return md.from_numpy(part.astype(dtype.storage))


def dft(x: Numbers, n: int, axis: int, sign: int) -> Numbers:
    """Σ x[j] · exp(sign · 2πi · jk / n) over the first n elements, or as many zeros."""
    moved = np.moveaxis(np.asarray(x, np.complex128), axis, -1)[..., :n]
    j, k = np.arange(moved.shape[-1]), np.arange(n)
    # The exponent modulo n, in integers: no error of a large argument.
    wave = np.exp(sign * 2j * np.pi * (np.outer(j, k) % n) / n)
    return np.moveaxis(moved @ wave, -1, axis)


def scale(n: int, norm: str, inverse: bool) -> float:
    if norm == "ortho":
        return n**-0.5
    return 1 / n if (norm == "backward") == inverse else 1.0


def close(found: md.Tensor, want: Numbers, dtype: md.DType) -> bool:
    """Same type and shape, and no error above the tolerance."""
    error = np.abs(found.buffer - want).max(initial=0)
    bound = TOLERANCE[COMPLEX.get(dtype, dtype)] * max(1, np.abs(want).max(initial=0))
    return found.dtype is dtype and found.shape == want.shape and error <= bound


@given(SHAPES, st.sampled_from(list(REAL)), st.data())
def test_along_one_axis(shape: Any, dtype: md.DType, data: st.DataObject) -> None:
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    norm = data.draw(st.sampled_from(["backward", "ortho", "forward"]))
    n = data.draw(st.one_of(st.none(), st.integers(1, 9)))
    size, options = n or shape[axis], {"n": n, "axis": axis, "norm": norm}
    x, real = numbers(shape, dtype), numbers(shape, REAL[dtype])
    there, back = scale(size, norm, False), scale(size, norm, True)
    forward, backward = dft(x.buffer, size, axis, -1), dft(x.buffer, size, axis, 1)
    assert close(md.fft.fft(x, **options), there * forward, dtype)
    assert close(md.fft.ifft(x, **options), back * backward, dtype)
    half = range(size // 2 + 1)
    spectrum = dft(real.buffer, size, axis, -1).take(half, axis)
    assert close(md.fft.rfft(real, **options), there * spectrum, dtype)
    conjugate = dft(real.buffer, size, axis, 1).take(half, axis)
    assert close(md.fft.ihfft(real, **options), back * conjugate, dtype)


@given(SHAPES, st.sampled_from(list(REAL)), st.data())
def test_from_one_half(shape: Any, dtype: md.DType, data: st.DataObject) -> None:
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    norm = data.draw(st.sampled_from(["backward", "ortho", "forward"]))
    signal = numbers(shape, REAL[dtype])
    options = {"n": shape[axis], "axis": axis, "norm": norm}
    there = md.fft.rfft(signal, axis=axis, norm=norm)
    assert close(md.fft.irfft(there, **options), signal.buffer, REAL[dtype])
    back = md.fft.ihfft(signal, axis=axis, norm=norm)
    assert close(md.fft.hfft(back, **options), signal.buffer, REAL[dtype])


def test_a_half_has_an_even_length_unless_told() -> None:
    spectrum = md.fft.rfft(md.ones((6,)))
    for inverse in (md.fft.irfft, md.fft.hfft):
        assert inverse(spectrum).shape == (6,)
        assert inverse(spectrum, n=7).shape == (7,)
    assert md.fft.irfftn(spectrum, s=[-1], axes=[0]).shape == (6,)


@pytest.mark.parametrize("axes", [None, (0,), (2, 0), (-1, -2), ()], ids=str)
@pytest.mark.parametrize("norm", ["backward", "ortho", "forward"])
@pytest.mark.parametrize("dtype", list(REAL), ids=str)
def test_several_axes_are_one_after_the_other(
    axes: Any, norm: str, dtype: md.DType
) -> None:
    x = numbers((2, 3, 4), dtype)
    there = back = x.buffer
    for axis in (0, 1, 2) if axes is None else axes:
        n = x.shape[axis]
        there = scale(n, norm, False) * dft(there, n, axis, -1)
        back = scale(n, norm, True) * dft(back, n, axis, 1)
    assert close(md.fft.fftn(x, axes=axes, norm=norm), there, dtype)
    assert close(md.fft.ifftn(x, axes=axes, norm=norm), back, dtype)


@pytest.mark.parametrize("axes", [(0,), (2, 0), (0, 1, 2)], ids=str)
@pytest.mark.parametrize("dtype", list(REAL), ids=str)
def test_real_signals_over_several_axes(axes: Any, dtype: md.DType) -> None:
    x = numbers((2, 3, 4), REAL[dtype])
    sizes = [x.shape[axis] for axis in axes]
    spectrum = md.fft.rfftn(x, axes=axes)
    last = axes[-1]
    whole = md.fft.fftn(md.from_numpy(x.buffer + 0j), axes=axes).buffer
    half = whole.take(range(x.shape[last] // 2 + 1), last)
    assert close(spectrum, half, dtype)
    assert close(md.fft.irfftn(spectrum, s=sizes, axes=axes), x.buffer, REAL[dtype])


def test_sizes_cut_and_fill() -> None:
    x = numbers((3, 4), md.complex128)
    found = md.fft.fftn(x, s=(5, -1, 2)[:2], axes=(1, 0))
    want = dft(dft(x.buffer, 5, 1, -1), 3, 0, -1)
    assert close(found, want, md.complex128)


@pytest.mark.parametrize(
    "name", ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft", "fftn", "rfftn", "irfftn"]
)
@pytest.mark.parametrize("axis", [1, -1])
def test_an_empty_axis_is_filled_with_zeros(name: str, axis: int) -> None:
    """NumPy's `irfft` reads memory there that nothing wrote."""
    operation = getattr(md.fft, name)
    is_real = name in ("rfft", "ihfft", "rfftn")
    x = numbers((3, 0), md.float64 if is_real else md.complex128)
    sizes = (
        {"s": (6,), "axes": (axis,)} if name.endswith("n") else {"n": 6, "axis": axis}
    )
    for _ in range(5):
        np.full(64, 7.5)  # what lies in the memory that is used next
        found = np.asarray(operation(x, **sizes))
        assert found.shape == (3, 4 if is_real else 6)
        assert not found.any()


def test_operands_may_be_views_read_only_and_empty() -> None:
    x = numbers((4, 6), md.complex64)
    strided = md.from_numpy(x.buffer.T[::2])
    assert close(md.fft.fft(strided), dft(strided.buffer, 4, -1, -1), md.complex64)
    constant = md.from_numpy(np.broadcast_to(np.complex64(2), (3, 4)))
    assert md.fft.fft(constant).tolist() == [[8, 0, 0, 0]] * 3
    empty = md.zeros((0, 4), dtype=md.complex64)
    assert md.fft.fft(empty, n=6).shape == (0, 6)
    assert md.fft.fft(empty, axis=0, n=2).tolist() == [[0j] * 4] * 2
    assert md.fft.rfftn(md.zeros((0, 4)), axes=[1]).shape == (0, 3)


@pytest.mark.parametrize("n", [1, 2, 5, 8])
def test_frequencies(n: int) -> None:
    k = [*range((n + 1) // 2), *range(-(n // 2), 0)]
    assert md.fft.fftfreq(n, dtype=md.float64).tolist() == [i / n for i in k]
    half = range(n // 2 + 1)
    assert md.fft.rfftfreq(n, d=0.5, dtype=md.float64).tolist() == [
        2 * i / n for i in half
    ]
    assert md.fft.fftshift(md.fft.fftfreq(n)).tolist() == sorted(
        md.fft.fftfreq(n).tolist()
    )


def test_types_of_frequencies() -> None:
    assert type(md.fft.fftfreq(3)) is md.Float32Tensor
    assert type(md.fft.rfftfreq(3, device="cpu")) is md.Float32Tensor
    third = md.fft.fftfreq(3, dtype=md.bfloat16)
    assert third.tolist() == [0.0, 0.333984375, -0.333984375]


@pytest.mark.parametrize("leaf", md.leaves()[:15])
def test_shifts_take_every_type(leaf: Any) -> None:
    x = md.from_numpy(np.array([[0, 1, 1], [1, 0, 0]]).astype(leaf.dtype.storage))
    assert md.fft.fftshift(x).tolist() == [[0, 1, 0], [1, 0, 1]]
    assert md.fft.fftshift(x, axes=1).tolist() == [[1, 0, 1], [0, 1, 0]]
    assert md.fft.ifftshift(md.fft.fftshift(x)).tolist() == x.tolist()
    assert md.fft.fftshift(x[0, 0]).tolist() == 0
    assert md.fft.ifftshift(x, axes=()).tolist() == x.tolist()


REALS, COMPLEXES = md.ones((2, 3)), md.ones((2, 3), dtype=md.complex64)


@pytest.mark.parametrize(
    ("call", "error", "head", "text"),
    [
        (
            lambda: md.fft.fft(COMPLEXES, n=0),
            OptionError,
            "fft(Complex64Tensor[2,3])",
            "n is 0. Use an integer of 1 or more.",
        ),
        (
            lambda: md.fft.fft(COMPLEXES[:, :0]),
            ShapeError,
            "fft(Complex64Tensor[2,0])",
            "the transformed axis is empty. Give n of 1 or more.",
        ),
        (
            lambda: md.fft.irfft(COMPLEXES[:, :1]),
            ShapeError,
            "irfft(Complex64Tensor[2,1])",
            "the transformed axis is empty. Give n of 1 or more.",
        ),
        (
            lambda: md.fft.fft(COMPLEXES, axis=2),
            ShapeError,
            "fft(Complex64Tensor[2,3])",
            "axis 2 does not exist in 2 dimensions. Axes go from -2 to 1.",
        ),
        (
            lambda: md.fft.fft(COMPLEXES, norm="none"),
            OptionError,
            "fft(Complex64Tensor[2,3])",
            "norm is 'none'. Use one of 'backward', 'ortho', 'forward'.",
        ),
        (
            lambda: md.fft.fftn(COMPLEXES, s=[3]),
            OptionError,
            "fftn(Complex64Tensor[2,3])",
            "s has 1 sizes for 2 dimensions, and axes is missing. Pass axes=.",
        ),
        (
            lambda: md.fft.fftn(COMPLEXES, s=[3], axes=[0, 1]),
            ShapeError,
            "fftn(Complex64Tensor[2,3])",
            "got 1 sizes for 2 axes. Give one size for each axis.",
        ),
        (
            lambda: md.fft.fftn(COMPLEXES, axes=[0, 0]),
            ShapeError,
            "fftn(Complex64Tensor[2,3])",
            "axes (0, 0) repeat. Name each axis once.",
        ),
        (
            lambda: md.fft.rfftn(REALS, axes=[]),
            ShapeError,
            "rfftn(Float32Tensor[2,3])",
            "axes is empty. Name at least one.",
        ),
        (
            lambda: md.fft.rfft(md.ones((3,), dtype=md.float16)),
            PromotionError,
            "rfft(Float16Tensor[3])",
            (
                "transforms are computed in float32 or float64, not float16. "
                "Use astype(x, float32)."
            ),
        ),
        (
            lambda: md.fft.fftfreq(0),
            OptionError,
            "fftfreq(int)",
            "n is 0. Use an integer of 1 or more.",
        ),
        (
            lambda: md.fft.rfftfreq(3, d=0),
            OptionError,
            "rfftfreq(int)",
            "d is 0. Use a number other than 0.",
        ),
        (
            lambda: md.fft.fftfreq(3, dtype=md.int8),
            OptionError,
            "fftfreq(int)",
            "dtype is int8. Use a floating type.",
        ),
    ],
)
def test_what_is_refused(
    call: Any, error: type[Exception], head: str, text: str
) -> None:
    with pytest.raises(error) as caught:
        call()
    assert str(caught.value) == f"{head}: {text}"


@given(SHAPES, st.sampled_from(list(REAL)), st.data())
def test_floats_have_the_spectrum_of_their_complex_numbers(
    shape: Any, dtype: md.DType, data: st.DataObject
) -> None:
    real = numbers(shape, REAL[dtype])
    same = md.astype(real, dtype)
    one = {"n": data.draw(st.sampled_from([None, 1, 5])), "axis": 0}
    several = {"axes": data.draw(st.sampled_from([None, (), (0,), (-1,)]))}
    for transform, options in (
        *((f, one) for f in (md.fft.fft, md.fft.ifft)),
        *((f, several) for f in (md.fft.fftn, md.fft.ifftn)),
    ):
        found, wanted = transform(real, **options), transform(same, **options)
        assert found.dtype is dtype
        assert found.buffer.tobytes() == wanted.buffer.tobytes()


def test_narrow_floats_and_integers_have_no_spectrum() -> None:
    with pytest.raises(PromotionError, match=r"not bfloat16\. Use astype\(x, float32"):
        md.fft.fftn(md.ones((3,), dtype=md.bfloat16))
    with pytest.raises(DispatchError, match=r"x is Int64Tensor.*Use astype\(x, "):
        md.fft.ifft(md.asarray([1, 2]))


def test_transforms_of_real_numbers_refuse_complex_ones() -> None:
    with pytest.raises(DispatchError, match="x is Complex64Tensor, not FloatingTen"):
        md.fft.rfft(COMPLEXES)
