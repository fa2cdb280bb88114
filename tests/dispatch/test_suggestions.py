"""Names of NumPy and PyTorch lead to ours."""

import inspect
from typing import Any

import numpy as np
import pytest
import scipy.special
from support.each import each

import mdtensor as md
from mdtensor.dispatch.suggestions import ATTRIBUTES, QUANTIZED, RENAMED, WRITTEN

TEXTS = {
    "concatenate": "'concatenate'. Use mdtensor.concat.",
    "norm": "'norm'. Use mdtensor.linalg.vector_norm.",
    "softmx": "'softmx'. Use mdtensor.softmax.",
    "polyfit": "'polyfit'. mdtensor does not have polyfit: use "
    "asarray(numpy.polyfit(...)).",
    "cbrt": "'cbrt'. mdtensor does not have cbrt: numpy.cbrt takes tensors and returns "
    "tensors.",
    "vectorize": "'vectorize'. Use mdtensor.elementwise(function).",
    "hanning": "'hanning'. mdtensor does not have hanning: use "
    "asarray(numpy.hanning(...)).",
    "expm": "'expm'. mdtensor does not have expm.",
    "ne": "'ne'. Use mdtensor.not_equal.",
    "ptp": "'ptp'. Use mdtensor.max(x) - mdtensor.min(x).",
    "conv3d": "'conv3d'. mdtensor does not have conv3d.",
    "bilinear": "'bilinear'. mdtensor does not have bilinear.",
    "rsqrt": "'rsqrt'. Use 1 / mdtensor.sqrt(x).",
    "sgn": "'sgn'. Use mdtensor.sign.",
    "solve": "'solve'. Use mdtensor.linalg.solve.",
    "clamp_": "'clamp_'. mdtensor.clip returns a new tensor; to write into x: "
    "x[...] = mdtensor.clip(x).",
    "quantize_per_tensor": "'quantize_per_tensor'. Use quant.quantize(x, "
    "QParams(scale, zero_point)).",
    "stft": "'stft'. mdtensor does not have stft.",
    "relu_": "'relu_'. mdtensor.relu returns a new tensor; to write into x: "
    "x[...] = mdtensor.relu(x).",
    "grad": "'grad'. mdtensor does not compute gradients.",
    "rand": "'rand'. mdtensor does not draw random numbers: use "
    "asarray(numpy.random.default_rng().random(shape)).",
    "_private": "'_private'.",
}


def text(call: Any) -> str:
    with pytest.raises(AttributeError) as caught:
        call()
    return str(caught.value)


@pytest.mark.parametrize("name", TEXTS)
def test_of_the_package(name: str) -> None:
    head = "module 'mdtensor' has no attribute "
    assert text(lambda: getattr(md, name)) == head + TEXTS[name]


#: What NumPy or SciPy return for the values of `NAMES`, by what PyTorch or NumPy call.
EXPRESSIONS: dict[str, Any] = {
    "addmm": lambda x, y, a, b: x + a @ b,
    "angle": lambda z: np.angle(z),
    "append": lambda x, y: np.concatenate([x, y]),
    "atleast_1d": lambda x: x.reshape(-1),
    "average": lambda x, weights: np.average(x, weights=weights),
    "bucketize": lambda x, edges: np.digitize(x, edges, right=True),
    "cdist": lambda x, y: np.linalg.norm(x[:, None] - y[None], axis=-1),
    "column_stack": lambda columns: np.column_stack(columns),
    "cosine_similarity": lambda x, y: (
        (x * y).sum(-1) / np.linalg.norm(x, axis=-1) / np.linalg.norm(y, axis=-1)
    ),
    "deg2rad": lambda x: np.deg2rad(x),
    "diagflat": lambda x: np.diagflat(x),
    "digitize": lambda x, edges: np.digitize(x, edges),
    "ediff1d": lambda x: np.ediff1d(x),
    "erfc": lambda x: scipy.special.erfc(x),
    "fix": lambda x: np.trunc(x),
    "flatnonzero": lambda x: np.flatnonzero(x),
    "fliplr": lambda x: np.fliplr(x),
    "flipud": lambda x: np.flipud(x),
    "hardshrink": lambda x, weight: np.where(np.abs(x) > weight, x, 0),
    "inner": lambda x, y: np.inner(x, y),
    "kthvalue": lambda x, k: np.sort(x)[..., k - 1],
    "lerp": lambda x, y, weight: x + weight * (y - x),
    "lgamma": lambda x: scipy.special.gammaln(x),
    "logspace": lambda start, stop, num: np.logspace(start, stop, num),
    "masked_fill": lambda x, mask, value: np.where(mask, value, x),
    "masked_select": lambda x, mask: x[mask],
    "mse_loss": lambda x, y: ((x - y) ** 2).mean(),
    "nanargmax": lambda gaps: np.nanargmax(gaps),
    "nanprod": lambda gaps: np.nanprod(gaps),
    "pairwise_distance": lambda x, y: np.linalg.norm(x - y, axis=-1),
    "ptp": lambda x: np.ptp(x),
    "rad2deg": lambda x: np.rad2deg(x),
    "smooth_l1_loss": lambda x, y: scipy.special.huber(1, x - y).mean(),
    "softmin": lambda x: scipy.special.softmax(-x, axis=-1),
    "softshrink": lambda x, weight: np.sign(x) * np.maximum(np.abs(x) - weight, 0),
    "tanhshrink": lambda x: x - np.tanh(x),
    "threshold": lambda x, weight, value: np.where(x > weight, x, value),
    "tri": lambda n, m: np.tri(n, m),
}


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_expressions_are_those_of_numpy(name: str) -> None:
    rng = np.random.default_rng(2)
    x, y = rng.normal(size=(2, 3)), rng.normal(size=(2, 3))
    given: dict[str, Any] = {
        "x": x,
        "y": y,
        "z": x + 1j * y,
        "a": y[:, :2],
        "b": x[:2],
        "mask": x > 0,
        "gaps": np.where(x > 0, x, np.nan),
        "columns": [x[0], y[0]],
        "weight": 0.25,
        "weights": y**2,
        "edges": np.array([-1.0, 0.0, 1.0]),
        "k": 2,
        "value": 9.0,
        "start": 1.0,
        "stop": 2.0,
        "num": 3,
        "base": 10.0,
        "n": 2,
        "m": 3,
    }
    names = inspect.signature(EXPRESSIONS[name]).parameters
    wanted = EXPRESSIONS[name](**{n: given[n] for n in names})
    ours = {
        n: md.asarray(v) if isinstance(v, np.ndarray) else v for n, v in given.items()
    }
    ours["columns"] = [md.asarray(column) for column in given["columns"]]
    ours["x"] = ours[next(n for n in ("gaps", "z", "x") if n in names or n == "x")]
    code = WRITTEN[name].removesuffix(", which returns a tensor")
    found = eval(code, {"mdtensor": md, "scipy": scipy, "inf": np.inf, **ours})
    np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-6)


def test_what_is_in_quant() -> None:
    """Every type, grid and call for one tensor that a user may look for in `md`."""
    kinds = [n for n in dir(md.quant) if n.startswith(("Q", "qint", "qfloat", "quint"))]
    kinds = [n for n in kinds if not n.startswith("Quantized")]
    for name in (*kinds, "quantize", "dequantize", "requantize", "load_plan"):
        assert text(lambda name=name: getattr(md, name)).endswith(
            f"Use mdtensor.quant.{name}."
        )


@pytest.mark.parametrize(
    ("module", "name", "hint"),
    [
        (md.linalg, "norm", "linalg.vector_norm or mdtensor.linalg.matrix_norm."),
        (md.linalg, "cond", "'cond'. mdtensor does not have linalg.cond."),
        (md.fft, "rftt", "'rftt'. Use mdtensor.fft.rfft."),
        (md.quant, "quantise", "'quantise'. Use mdtensor.quant.quantize."),
        (md.linalg, "_private", "'_private'."),
        (md.quant, "quantize_static", " model.quantize(model.calibrate(samples))."),
        (md.quant, "fake_quantize", " quant.dequantize(quant.quantize(x, qparams))."),
    ],
)
def test_of_a_module(module: Any, name: str, hint: str) -> None:
    found = text(lambda: getattr(module, name))
    assert found.startswith(f"module {module.__name__!r} has no attribute {name!r}.")
    assert found.endswith(hint)


def test_the_module_that_pytorch_users_call() -> None:
    module: Any = md.tensor
    for call in (lambda: module([1, 2]), lambda: module([1], dtype=md.int8)):
        with pytest.raises(
            md.errors.DispatchError, match=r"Use asarray\(values\)"
        ) as one:
            call()
        assert one.value.operation == "tensor"
    assert module.Tensor is md.Tensor and module.__name__ == "mdtensor.tensor"


def test_of_a_tensor() -> None:
    x: Any = md.ones((2,))
    head = "Float32Tensor has no attribute "
    assert text(lambda: x.permute) == f"{head}'permute'. Use mdtensor.permute_dims(x)."
    assert text(lambda: x.sums) == f"{head}'sums'. Use mdtensor.sum(x)."
    assert text(lambda: x.rsqrt()) == f"{head}'rsqrt'. Use 1 / mdtensor.sqrt(x)."
    assert text(lambda: x.msort()) == f"{head}'msort'. Use mdtensor.sort(x, axis=0)."
    assert text(lambda: x.norm).endswith("'norm'. Use mdtensor.linalg.vector_norm(x).")
    assert text(lambda: x.colour) == f"{head}'colour'."
    assert not hasattr(x, "__cuda_array_interface__")
    assert text(lambda: x.numpy()) == f"{head}'numpy'. Use numpy.asarray(x)."
    assert text(lambda: x.float()) == f"{head}'float'. Use astype(x, float32)."
    assert text(lambda: x.long()) == f"{head}'long'. Use astype(x, int64)."
    assert text(lambda: x.view(2, 1)) == f"{head}'view'. Use mdtensor.reshape(x)."
    assert text(lambda: x.detach()) == (
        f"{head}'detach'. mdtensor does not compute gradients."
    )


def test_what_is_not_there_is_said_in_one_sentence() -> None:
    x: Any = md.ones((2,))
    missing = "'roots'. mdtensor does not have roots: use asarray(numpy.roots(...))."
    assert text(lambda: x.roots).endswith(missing)
    for name in ("median", "split", "topk", "isclose"):
        hint = text(lambda name=name: getattr(x, name))
        assert hint.endswith(f"Use mdtensor.{name}(x).")
    assert text(lambda: x.add_(1)).endswith("to write into x: x += y.")
    assert text(lambda: x.backward()).endswith("mdtensor does not compute gradients.")
    assert text(lambda: x.cuda()).endswith("'cuda'. Use x.to('cuda').")
    assert text(lambda: md.random).endswith(".random(shape)).")
    x[...] = md.relu(x)


def test_what_a_tensor_lacks_is_worked_out_once(monkeypatch: Any) -> None:
    """`getattr(x, name, None)` is often asked, and shows no text."""
    x: Any = md.ones((2,))
    told = text(lambda: x.softmx)
    monkeypatch.setattr("mdtensor.tensor.attribute", None)
    assert text(lambda: x.softmx) == told
    monkeypatch.undo()
    monkeypatch.setattr(md, "softmxx", md.softmax, raising=False)
    assert text(lambda: x.softmx).endswith("Use mdtensor.softmxx(x).")


@pytest.mark.parametrize("name", ATTRIBUTES)
def test_every_other_attribute_runs(name: str) -> None:
    """What is left open in the advice has a value here."""
    x: Any = md.ones((2, 2))
    known = {**vars(md), "md": md, "numpy": np, "x": x, "shape": (1, 2, 2)}
    known |= {"mask": x > 0, "value": 1.0}
    advice = ATTRIBUTES[name]
    assert not hasattr(x, name)
    if "cuda" not in advice:
        exec(advice, known)


@pytest.mark.parametrize("name", QUANTIZED)
def test_attributes_of_quantized_tensors(name: str) -> None:
    x = md.quant.quantize(md.ones((2, 2)), md.quant.QParams(0.5))
    assert text(lambda: getattr(x, name)).endswith(f" Use {QUANTIZED[name]}.")
    exec(QUANTIZED[name], {"mdtensor": md, "x": x})


def test_files_are_read_elsewhere() -> None:
    for name in ("load", "load_file"):
        hint = text(lambda name=name: getattr(md, name))
        assert hint.endswith(
            " Use mdtensor.safetensors.load_file(path) for tensors, "
            "or mdtensor.quant.load(path) for a model."
        )
    assert text(lambda: md.save).endswith(
        " Use mdtensor.safetensors.save_file(tensors, path)."
    )


@each("theirs", RENAMED)
def test_every_hint_leads_somewhere(theirs: str) -> None:
    found: Any = md
    for part in RENAMED[theirs].split("."):
        found = getattr(found, part)
    assert callable(found) or isinstance(found, md.DType)


@pytest.mark.parametrize("name", [n for n in dir(md.linalg) if n[0].islower()])
def test_functions_of_matrices_are_found_in_their_module(name: str) -> None:
    for place in (md, md.ones((2, 2))):
        if not hasattr(place, name):
            with pytest.raises(AttributeError, match=rf"linalg\.{name}"):
                getattr(place, name)
