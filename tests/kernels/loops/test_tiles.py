"""Products of codes by tiles: the bytes of one thread for each sum, in every order."""

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from support.cuda_text import empty, run

from mdtensor.kernels.emulated import compiler
from mdtensor.kernels.emulated.launcher import ORDERS
from mdtensor.kernels.loops import cuda_tiles
from mdtensor.kernels.loops.cuda import render
from mdtensor.kernels.loops.ir import Input, Loop, Value, apply, cast, load, scalar
from mdtensor.kernels.loops.kernel import Kernel

pytestmark = pytest.mark.skipif(not compiler.compiler(), reason="needs g++")


SIDES = cuda_tiles.SIDES


@cache
def product(
    types: tuple[str, str], zeros: tuple[bool, bool], tile: int = SIDES[0]
) -> Kernel:
    """The sums of (a - zero) * (b - zero of the column), plus a number for the column.

    Inputs: a, b, the number added, and the zero points that there are.
    """
    a, b = (cast(load(i, t), "int32") for i, t in enumerate(types))
    inputs = [*map(Input, types), Input("int32")]
    if zeros[0]:
        a = apply("sub", a, scalar(len(inputs), "int32"))
        inputs.append(Input("int32", True))
    if zeros[1]:
        b = apply("sub", b, load(len(inputs), "int32"))
        inputs.append(Input("int32"))
    finish = apply("add", Value("total", "int32"), load(2, "int32"))
    loop = Loop(tuple(inputs), apply("mul", a, b), "dot", finish, True, tile=tile,
                name="product")  # fmt: skip
    return render(loop)


def codes(type: str, *shape: int, seed: int) -> Any:
    info = np.iinfo(type)
    rng = np.random.default_rng(seed)
    return rng.integers(info.min, info.max, shape, type, endpoint=True)


#: Types, zero points and tiles: each value of one with each value of another.
VARIANTS = [
    (("int8", "int8"), (False, False), 64), (("uint8", "int8"), (True, False), 64),
    (("int8", "uint8"), (False, True), 64), (("uint8", "uint8"), (True, True), 64),
    (("int8", "int8"), (True, True), 128), (("uint8", "uint8"), (False, False), 128),
    (("uint8", "int8"), (False, True), 128), (("int8", "uint8"), (True, False), 128),
    (("int8", "int8"), (False, False), 16), (("uint8", "int8"), (True, True), 16),
    (("int8", "uint8"), (True, False), 16), (("uint8", "uint8"), (False, True), 16),
    (("uint8", "int8"), (True, True), 64),
    (("int8", "uint8"), (False, False), 1), (("uint8", "int8"), (True, True), 1),
    (("int8", "int8"), (True, False), 1), (("uint8", "uint8"), (False, True), 1),
]  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def compiled() -> None:
    """One run of g++ for all texts takes less time than one for each."""
    compiler.prepare(product(*one) for one in VARIANTS)


def sums_of(
    kernel: Kernel, a: Any, b: Any, given: Any, out: Any, order: str = "ascending"
) -> bytes:
    """The sums of rows of a and b [..., k], from a kernel."""
    views = a[..., :, None, :], b[..., None, :, :]
    axes = (max(a.ndim, b.ndim),)
    return bytes(run(kernel, *views, *given, out=out, axes=axes, order=order).tobytes())


@settings(max_examples=40)
@given(
    variant=st.sampled_from(VARIANTS),
    groups=st.sampled_from([(), (1,), (2,), (2, 3)]),
    sizes=st.tuples(st.integers(1, 140), st.integers(1, 140), st.integers(0, 150)),
    turned=st.tuples(st.booleans(), st.booleans()),
    skipped=st.integers(0, 4),
    order=st.sampled_from(ORDERS),
)
def test_sums_are_exact(
    variant: Any,
    groups: Any,
    sizes: Any,
    turned: Any,
    skipped: int,
    order: str,
) -> None:
    """Rows of any length and alignment, or codes of a row far from each other."""
    types, zeros, tile = variant
    m, n, k = sizes
    a = lines(types[0], (*groups, m), k, turned[0], skipped)
    b = lines(types[1], (*groups, n) if groups[1:] else (n,), k, turned[1], skipped)
    bias = np.arange(n, dtype=np.int32) - 7
    zero_a, zero_b = np.array(-5, np.int32), np.arange(n, dtype=np.int32) % 11 - 3
    steps_a = a.astype(np.int64) - zeros[0] * zero_a
    steps_b = b.astype(np.int64) - zeros[1] * zero_b[:, None]
    wanted = (steps_a @ steps_b.swapaxes(-1, -2) + bias).astype(np.int32)
    given = [bias[:, None], *[zero_a] * zeros[0], *[zero_b[:, None]] * zeros[1]]
    out = empty(wanted.shape, "int32")
    kernel = product(types, zeros, tile)
    assert sums_of(kernel, a, b, given, out, order) == wanted.tobytes()


def lines(type: str, shape: Any, k: int, is_turned: bool, skipped: int) -> Any:
    """Codes [*shape, k]: a part of longer rows, or with strides along them."""
    if is_turned:
        return codes(type, *shape[:-1], k, shape[-1], seed=k).swapaxes(-1, -2)
    return codes(type, *shape, k + skipped, seed=k)[..., skipped:]


@pytest.mark.parametrize("tile", [cuda_tiles.PLANE, *SIDES])
@pytest.mark.parametrize("order", ORDERS)
def test_windows_of_an_image_are_rows(order: str, tile: int) -> None:
    """An image [n, g, h, w, c] by filters [g, o, kh, kw, c], and channels first."""
    image, weight = codes("uint8", 2, 2, 9, 8, 3, seed=1), codes("int8", 2, 5, 3, 2, 3,
                                                                 seed=2)  # fmt: skip
    out = empty((2, 2, 5, 4, 7), "int32")
    taps = np.lib.stride_tricks.sliding_window_view(image, (3, 2), (2, 3))
    taps = taps[:, :, ::2].transpose(0, 1, 2, 3, 5, 6, 4)[:, :, None]
    filters = weight[None, :, :, None, None]
    both = np.broadcast_arrays(taps.astype(np.int64), filters)
    wanted = np.einsum("ngohwyxc,ngohwyxc->ngohw", *both)
    bias = np.zeros((1, 1, 5, 1, 1, 1, 1, 1), np.int32)
    kernel = product(("uint8", "int8"), (False, False), tile)
    found = run(kernel, taps, filters, bias, out=out, axes=(5, 6, 7), order=order)
    assert found.tobytes() == wanted.astype(np.int32).tobytes()


@pytest.mark.parametrize("order", ORDERS)
def test_more_rows_and_codes_than_a_block_has_at_once(order: str) -> None:
    """Several blocks of rows, by the one column of a group: a depthwise convolution."""
    a, b = codes("uint8", 3, 1300, 200, seed=1), codes("int8", 3, 1, 200, seed=2)
    zero_b = np.array([[5], [-7], [9]], np.int32)[..., None]
    given = np.zeros((1, 1), np.int32), np.array(131, np.int32), zero_b
    steps = a.astype(np.int64) - 131, b.astype(np.int64) - zero_b
    wanted = (steps[0] @ steps[1].swapaxes(-1, -2)).astype(np.int32)
    kernel = product(("uint8", "int8"), (True, True), cuda_tiles.PLANE)
    given = (*given[:2], zero_b[..., None])
    found = sums_of(kernel, a, b, given, empty(wanted.shape, "int32"), order)
    assert found == wanted.tobytes()


def test_sums_wrap() -> None:
    """A zero point of 2**27 makes steps whose sums leave 32 bits."""
    a, b = codes("int8", 3, 80, seed=1), codes("int8", 2, 80, seed=2)
    zero = np.array(2**27, np.int32)
    found = empty((3, 2), "int32")
    given = np.zeros((2, 1), np.int32), zero
    sums_of(product(("int8", "int8"), (True, False)), a, b, given, found)
    wanted = (a.astype(np.int64) - 2**27) @ b.T.astype(np.int64)
    assert (abs(wanted) > 2**31).any()
    assert found.tobytes() == wanted.astype(np.int32).tobytes()


#: Waits that products of tiles, and of slices, need: of dense lines, and of others.
#: Those have no codes in the third turn, so they need not wait before they write there.
NEEDED = {(64, True): (3, 2), (64, False): (2, 2), (16, True): (1, 0)}
#: Both of a table of codes: before it is read, and before it is written again.
NEEDED |= {(1, True): (2, 0)}


@pytest.mark.long
@pytest.mark.parametrize(("tile", "is_dense"), NEEDED)
@pytest.mark.parametrize("at", [0, 1], ids=["__syncthreads", "__syncwarp"])
def test_every_wait_is_needed(
    tile: int, is_dense: bool, at: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without one of them some order of threads gives other sums."""
    kernel = product(("uint8", "int8"), (True, True), tile)
    # Three turns: the last codes are where sums of lines are kept.
    k = 176 if is_dense else 170
    a, b = codes("uint8", 100, k, seed=1), codes("int8", 90, k, seed=2)
    wait = ("__syncthreads();", "__syncwarp();")[at]
    # Steps apart from codes, so that a stale one is a step, and not anywhere.
    steps = "return (int64*)codes[2] + "
    assert steps in compiler.SCALARS
    scalars = compiler.SCALARS.replace(steps, "static int64 of[256]; return of + ")
    whole = scalars + MARK + kernel.text
    parts = whole.split(wait)

    found = []
    for number in range(len(parts) - 1):
        name = f"removed_{tile}_{int(is_dense)}_{wait[2:8]}_{number}"
        # In a comment, since a kernel's text says whether it has barriers.
        without = f"/* {wait} */;"
        text = wait.join(parts[: number + 1]) + without
        text += wait.join(parts[number + 1 :])
        scalars, _, text = text.replace(kernel.name, name).partition(MARK)
        monkeypatch.setattr(compiler, "SCALARS", scalars)
        if differs(replace(kernel, name=name, text=text), a, b):
            found.append(number)
    monkeypatch.undo()
    assert not differs(kernel, a, b)
    assert len(found) == NEEDED[tile, is_dense][at], found


def test_copies_are_awaited(monkeypatch: pytest.MonkeyPatch) -> None:
    """A copy that is still on its way gives other sums."""
    kernel = product(("uint8", "int8"), (True, True))
    a, b = codes("uint8", 100, 176, seed=1), codes("int8", 90, 176, seed=2)
    wait, later = "arrive<TURNS - 2>();", "arrive<TURNS - 1>();"
    assert compiler.SCALARS.count(wait) == 1
    monkeypatch.setattr(compiler, "SCALARS", compiler.SCALARS.replace(wait, later))
    text = kernel.text.replace(kernel.name, "awaits_less")
    assert differs(replace(kernel, name="awaits_less", text=text), a, b)


MARK = "\n// The text of the kernel.\n"


def differs(kernel: Kernel, a: Any, b: Any) -> bool:
    """Whether some order of threads gives other sums than NumPy."""
    zero = np.arange(len(b), dtype=np.int32)[:, None]
    given = np.zeros((len(b), 1), np.int32), np.array(3, np.int32), zero
    steps = a.astype(np.int64) - 3, b.astype(np.int64) - zero
    wanted = (steps[0] @ steps[1].T).astype(np.int32).tobytes()
    found = (
        sums_of(kernel, a, b, given, empty((len(a), len(b)), "int32"), order)
        for order in ORDERS
    )
    return any(sums != wanted for sums in found)


def test_what_has_no_tiles() -> None:
    f32 = Input("float32")
    value = apply("mul", load(0, "float32"), load(1, "float32"))
    loop = Loop((f32, f32), value, "dot", is_serial=True, tile=64)
    with pytest.raises(ValueError, match="is not a product of codes of 8 bits"):
        render(loop)
    a, b = (cast(load(i, "int8"), "int32") for i in (0, 1))
    loop = Loop(
        (Input("int8"),) * 2, apply("mul", a, b), "dot", is_serial=True, tile=32
    )
    with pytest.raises(ValueError, match=r"has tiles of 32. Use \(1, 16, 64, 128\)"):
        render(loop)
