"""Steps of recurrent layers: near the formula in float64, equal on every ISA."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from mdtensor.kernels.cpu import isa, kernel_set
from mdtensor.kernels.cpu.program import recurrent
from mdtensor.kernels.cpu.program.program import Program
from mdtensor.kernels.cpu.program.steps import F32
from mdtensor.kernels.reference import recurrent as reference

HAS_AVX2 = not (isa.IS_JIT_DISABLED or isa.lacking("avx2", isa.FEATURES))
ISAS = ["generic", *["avx2"] * HAS_AVX2]
#: Gates, states and functions of each layer.
LAYERS = {"lstm": (4, 2, 3), "gru": (3, 1, 2), "rnn": (1, 1, 1)}
ENTRY = st.sampled_from(
    [*((name, 0.0, 0.0) for name in recurrent.FUNCTIONS[:3]), ("hardsigmoid", 0.3, 0.6)]
)
#: Sizes of a sequence: steps, samples, inputs, units. 64 and more units make whole
#: tiles of one row.
SIZES = st.tuples(
    *(st.integers(1, 4), st.integers(1, 3), st.integers(1, 5)),
    st.sampled_from([1, 2, 3, 4, 7, 16, 17, 33, 68]),
)


def run(name: str, arrays: Any, states: Any, reads: bool, options: Any) -> Any:
    """Return the result of a step in a program."""
    x, w, r, b, holes, lengths = arrays
    fixed = None if reads or states is None else np.stack(states)
    step = recurrent.Recurrent(
        name, w, r, b, holes, fixed, lengths, reads=reads, **options
    )
    program = Program()
    given_ = [x, *(states if reads else ())]
    slots = [program.input(one.shape, F32) for one in given_]
    result = program.append(step, *slots)
    assert result.shape == step.output_shape(*(one.shape for one in given_))
    (found,) = program.build([result])(*given_)
    return found


def on(name: str, *arguments: Any) -> Any:
    return kernel_set.make_on(kernel_set.kernels(name), run, *arguments)


@pytest.mark.parametrize("name", LAYERS)
@settings(max_examples=25 if isa.IS_JIT_DISABLED else 80)
@given(SIZES, st.data())
def test_against_the_formula(name: str, sizes: Any, data: Any) -> None:
    t, n, i, k = sizes
    gates, count, functions = LAYERS[name]
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))

    def draw(*shape: int, is_optional: bool = False) -> Any:
        found = rng.uniform(-1, 1, shape).astype(np.float32)
        return None if is_optional and data.draw(st.booleans()) else found

    x, w, r = draw(t, n, i), draw(gates * k, i), draw(gates * k, k)
    b = draw(2, gates * k, is_optional=True)
    holes = draw(3, k, is_optional=True) if name == "lstm" else None
    lengths = rng.integers(0, t + 1, n) if data.draw(st.booleans()) else None
    reads = data.draw(st.booleans())
    states = None
    if reads or data.draw(st.booleans()):
        states = [draw(n, k) for _ in range(count)]
    options = {
        "functions": data.draw(st.tuples(*[ENTRY] * functions)),
        "limit": data.draw(st.sampled_from([None, 0.4])),
        "flag": name != "rnn" and data.draw(st.booleans()),
    }
    arrays = x, w, r, b, holes, lengths
    found = [on(one, name, arrays, states, reads, options) for one in ISAS]
    assert all(one.tobytes() == found[0].tobytes() for one in found)
    wide = [None if one is None else one.astype(np.float64) for one in arrays[:5]]
    before = [None] * count if states is None else states
    own = [*wide[:4], *before, *([wide[4]] if name == "lstm" else []), lengths]
    own += [options["functions"], options["limit"]]
    own += [] if name == "rnn" else [options["flag"]]
    want = getattr(reference, name)(*own)
    scale = max(1.0, float(np.abs(want).max()))
    np.testing.assert_allclose(found[0], want, atol=3e-5 * scale)


def test_nan_stays_in_its_sample() -> None:
    x = np.zeros((2, 3, 1), np.float32)
    x[0, 1] = np.nan
    w, r = np.ones((4, 1), np.float32), np.ones((4, 1), np.float32)
    options = {"functions": (("sigmoid", 0, 0), ("tanh", 0, 0), ("tanh", 0, 0))}
    found = run("lstm", (x, w, r, None, None, None), None, False, options)
    assert np.isnan(found[:, 1]).all() and np.isfinite(found[:, ::2]).all()


def test_macs_count_both_products() -> None:
    w, r = np.ones((12, 5), np.float32), np.ones((12, 3), np.float32)
    functions = (("sigmoid", 0, 0), ("tanh", 0, 0), ("tanh", 0, 0))
    step = recurrent.Recurrent("lstm", w, r, functions=functions)
    assert step.macs((7, 2, 5)) == 7 * 2 * 12 * (5 + 3)
    assert step.bytes >= (12 * 5 + 12 * 3) * 4
