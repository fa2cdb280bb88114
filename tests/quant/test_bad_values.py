"""Every public callable of quant, each parameter with what it cannot mean.

The names are read from the packages and the parameters from the signatures, so what is
new is swept as well: a parameter that is missing in `GOOD` fails until it is there. All
errors are ours, and nothing warns.
"""

import inspect
import warnings
from functools import partial

import numpy as np
import pytest

import mdtensor as md
from mdtensor import quant
from mdtensor.quant import QInt8Tensor, QParams, gguf, observers, weights

RNG = np.random.default_rng(0)
GRID, WEIGHTS = QParams(0.5), RNG.standard_normal((4, 32))
SAMPLES, CODES = RNG.standard_normal((64, 32)), QInt8Tensor([[1, 2]], scale=0.5)
NUMBERS = md.asarray(WEIGHTS.astype(np.float32))
#: What a parameter may be; what one callable alone takes is by its name.
GOOD = {
    "codes": [1],
    "value": NUMBERS,
    "qparams": GRID,
    "scale": 0.5,
    "zero_point": 0,
    "x": NUMBERS,
    "out": GRID,
    "weights": WEIGHTS,
    "samples": SAMPLES,
    "source": GRID,
    "function": float,
    "values": SAMPLES,
    "low": -1.0,
    "high": 1.0,
    "dtype": quant.qint8,
    "found": WEIGHTS,
    "wanted": WEIGHTS,
    "bias": None,
    "inputs": 32,
    "n": 2,
    "rule": "exact",
    "tensors": {"w": NUMBERS},
    "blocks": {},
    "metadata": {},
    "path": "good.gguf",
    "type": "F32",
    "data": np.zeros(8, np.uint8),
    "shape": (2,),
    "kernel_size": 2,
    "tensor": CODES,
    "method": "rtn",
    "input_scale": None,
    "weight_error": 0.0,
    "output_error": None,
    "axes": 0,
    "axis": None,
    "what": "grid",
    "code": 1,
    "order": np.arange(32),
    "name": "a",
    "key": "a",
    "default": None,
}
OWN = {
    "dequantize": {"x": CODES},
    "requantize": {"x": CODES},
    "equalize": {"weights": [WEIGHTS.T, WEIGHTS]},
    "patches": {"x": np.ones((1, 2, 5, 5))},
    "Table": {"x": CODES, "error": 0.0},
    "Table.__call__": {"x": CODES},
    "Blocks.quantize": {"type": "Q8_0"},
    "QParams.along": {"values": np.ones(()), "shape": (2,)},
}
#: What takes or describes models: their own tests have wrong arguments.
OF_MODELS = (
    *(
        "Calibration",
        "Comparison",
        "DecidedModel",
        "Model",
        "ShadowModel",
        "SizedModel",
        "Stream",
    ),
    *("compare", "load"),
)
#: They trust their caller, as those of plain tensors do: calls wait for them.
TRUSTING = ("wrap", "from_codes", "of_spec", "along")
BAD = [
    *(None, True, -1, 0, 2**31, 2**63, 10**400, 1.5, float("nan"), float("inf"), 1j),
    *("x", "", "\0", b"x", [], [1, 2], [None], {}, (), {"a": 1}),
    *(np.ones(2), np.ones((2, 2)), np.array("x"), np.array([None]), np.array(1j)),
    *(np.float32(2), object(), int, slice(None), range(3), lambda *a: None),
    *(GRID, CODES, NUMBERS, quant.qint8, md.int8, np.dtype("i1")),
]


def made(name, kind):
    """An object with the methods of a public class; None of one that has none."""
    if isinstance(kind, type) and issubclass(kind, quant.QuantizedTensor):
        is_kind = inspect.isabstract(kind) or not hasattr(kind, "dtype")
        return None if is_kind else kind([1], scale=0.5)
    make = {
        "QParams": lambda: GRID,
        "Table": lambda: kind(lambda v: v, GRID, GRID),
        "InputMoments": lambda: seen(kind(32)),
        "Blocks": lambda: kind.of(NUMBERS),
    }
    if name.endswith("Observer"):
        return seen(kind())
    return make[name]() if name in make else None


def seen(observer):
    observer.observe(SAMPLES)
    return observer


def methods(name, kind):
    """The public methods of a class, bound, and what they take besides."""
    own = made(name, kind)
    is_tensor = isinstance(own, quant.QuantizedTensor)
    others = {"other": own}
    if is_tensor:
        parts, facts = own.to_parts()
        others |= {"parts": parts, "facts": facts, "qparams": own.qparams}
    for method, _ in inspect.getmembers(kind) if own is not None else ():
        is_ours = method in vars(quant.QuantizedTensor) or not is_tensor
        is_public = not method.startswith("_") or method == "__call__"
        if is_public and is_ours and method not in TRUSTING:
            bound = getattr(own, method)
            if inspect.ismethod(bound) or inspect.isfunction(bound):
                yield f"{name}.{method}", bound, others


def public():
    """Names, callables and what they alone take."""
    for package in (quant, weights, observers, gguf):
        for name in dir(package):
            value = getattr(package, name)
            is_model = package is quant and name in OF_MODELS
            is_ours = getattr(value, "__module__", "").startswith("mdtensor.quant")
            if callable(value) and is_ours and name[0] != "_" and not is_model:
                yield name, value, {}
                yield from methods(name, value) if isinstance(value, type) else ()


def given(name, function, own):
    """The arguments of a good call by name, and the names of all parameters."""
    parameters = inspect.signature(function).parameters.values()
    plain = [p for p in parameters if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)]
    known = GOOD | own | OWN.get(name, {})
    required = {p.name: known[p.name] for p in plain if p.default is p.empty}
    return required | OWN.get(name, {}), plain


def call(function, plain, arguments):
    placed = [
        arguments.pop(p.name)
        for p in plain
        if p.kind is p.POSITIONAL_ONLY and p.name in arguments
    ]
    return function(*placed, **arguments)


ALL = {name: (function, own) for name, function, own in public()}


@pytest.mark.parametrize("name", ALL)
def test_every_error_is_ours(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    function, own = ALL[name]
    arguments, plain = given(name, function, own)
    names = [p.name for p in plain]
    arguments = {n: v for n, v in arguments.items() if n in names}
    for parameter in names:
        for bad in BAD:
            answered(
                partial(call, function, plain, arguments | {parameter: bad}),
                f"{parameter}={type(bad).__name__} {bad!r:.40}",
            )


def answered(run, what):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            run()
        except md.MdtensorError as error:
            assert str(error)
        except Exception as error:
            pytest.fail(f"{what}: {type(error).__name__}: {error}")


def test_the_sweep_reaches_what_is_public():
    assert {"QParams", "quantize_weights", "InputMoments.merge", "Table.code"} <= {*ALL}
    assert {"MSEObserver.qparams", "write_gguf", "QInt4Tensor.from_parts"} <= {*ALL}
    assert len(ALL) > 90


@pytest.mark.parametrize(
    ("run", "said"),
    [
        (
            lambda: quant.quantize_weights(WEIGHTS, block_size=2**63),
            "block_size is 9223372036854775808. Use an integer of 1 or more.",
        ),
        (
            lambda: quant.quantize_weights(WEIGHTS, axis=np.ones(2)),
            (
                "axis is ndarray[2]. Use 0 (a scale for each output) or None (one "
                "scale for all)."
            ),
        ),
        (lambda: quant.InputMoments(True), "inputs is True. Use 1 or more."),
        (
            lambda: quant.InputMoments(2**31),
            (
                "the products of 2147483648 inputs do not fit into memory. Use fewer "
                "inputs."
            ),
        ),
        (
            lambda: quant.equalize(3),
            "weights is 3. Give a list with an entry for each layer.",
        ),
        (
            lambda: quant.Table(3, GRID, GRID),
            "function is 3. Pass a function of a Fraction.",
        ),
        (
            lambda: quant.Table(float, GRID, GRID).code(300),
            "Table: 300 is not a code of qint8. Use integers from -128 to 127.",
        ),
        (lambda: quant.read_gguf(3), "path is 3. Pass a str or a pathlib.Path."),
        (
            lambda: quant.load("\0"),
            "path is '\\x00'. Pass a str or a pathlib.Path.",
        ),
        (
            lambda: md.safetensors.load_file(3),
            "filename is 3. Pass a str or a pathlib.Path.",
        ),
        (
            lambda: QInt8Tensor.from_parts(3, {}),
            "parts is 3. Pass a result of to_parts.",
        ),
        (
            lambda: quant.grid_of(0, 1, dtype="qint8", symmetric=1),
            "grid_of: symmetric is 1. Use True or False.",
        ),
        (
            lambda: seen(quant.MSEObserver()).qparams(low="x"),
            "low is 'x'. Use a number.",
        ),
    ],
)
def test_what_errors_say(run, said):
    with pytest.raises(md.MdtensorError) as caught:
        run()
    assert str(caught.value) == said
