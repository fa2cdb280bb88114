"""Linear models and support vector machines of ai.onnx.ml, against ONNX Runtime."""

import math
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st
from support.onnx_ml import agree, compare, model, ours, peer

from mdtensor.errors import ModelError
from mdtensor.quant import load

SEEDS = st.integers(0, 9999)
TYPES = [np.float32, np.float64, np.int32, np.int64]
POSTS = ["NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"]
POST = st.sampled_from(POSTS)
KERNELS = st.sampled_from(["LINEAR", "POLY", "RBF", "SIGMOID"])
BOTH = ("l", "p")


def drawn(seed: int, dtype: Any, *shape: int) -> np.ndarray:
    numbers = np.random.default_rng(seed).normal(size=shape)
    return (numbers if np.dtype(dtype).kind == "f" else numbers * 4).astype(dtype)


def floats(seed: int, *shape: int) -> list[float]:
    """Numbers of float32, between 0 and 1 at times, for PROBIT."""
    rng = np.random.default_rng(seed + 1)
    return rng.uniform(-0.5, 0.5, shape).astype(np.float32).reshape(-1).tolist()


@given(SEEDS, st.integers(2, 3), POST, st.booleans())
def test_regressor(seed: int, targets: int, post: str, biased: bool) -> None:
    options: Any = {"intercepts": floats(seed + 2, targets)} if biased else {}
    options |= {"coefficients": floats(seed, targets, 4), "post_transform": post}
    agree_but_nan(
        "LinearRegressor",
        {"x": drawn(seed, np.float32, 5, 4)},
        targets=targets,
        **options,
    )


def test_one_target_is_transformed() -> None:
    """ONNX Runtime ignores LOGISTIC for one target; the text has no exception."""
    x = {"x": np.float32([[1, 2]])}
    options: Any = {"coefficients": [0.5, 0.25], "post_transform": "LOGISTIC"}
    (found,) = ours(model("LinearRegressor", x, **options), x)
    np.testing.assert_allclose(found, [[1 / (1 + math.exp(-1))]], rtol=1e-6)


def agree_but_nan(kind: str, feeds: Any, outputs: Any = ("y",), **options: Any) -> None:
    """Compare; PROBIT outside of 0 to 1 is NaN, and steep near its ends."""
    proto = model(kind, feeds, outputs, **options)
    found, wanted = ours(proto, feeds), peer(proto, feeds)
    if options.get("post_transform") == "PROBIT":
        assert np.array_equal(np.isnan(found[-1]), np.isnan(wanted[-1]))
        compare(found, wanted, rtol=1e-3, atol=1e-3)
    else:
        compare(found, wanted)


@given(SEEDS, st.sampled_from(TYPES[:3]), st.integers(2, 4), POST)
def test_classifier(seed: int, dtype: Any, count: int, post: str) -> None:
    options: Any = {"classlabels_ints": [7, 3, 5, 0][:count], "post_transform": post}
    options |= {
        "coefficients": floats(seed, count, 3),
        "intercepts": floats(seed + 1, count),
    }
    agree_but_nan("LinearClassifier", {"x": drawn(seed, dtype, 6, 3)}, BOTH, **options)


@given(SEEDS, st.sampled_from(POSTS[:4]))
def test_one_score_of_two_classes(seed: int, post: str) -> None:
    options: Any = {"classlabels_ints": [4, 9], "post_transform": post}
    options |= {"coefficients": floats(seed, 3), "intercepts": floats(seed + 1, 1)}
    agree("LinearClassifier", {"x": drawn(seed, np.float32, 6, 3)}, BOTH, **options)


def test_probit_of_one_score() -> None:
    """ONNX Runtime does not define that of the first class."""
    x = {"x": np.float32([[0.25]])}
    options: Any = {"classlabels_ints": [0, 1], "post_transform": "PROBIT"}
    options |= {"coefficients": [1.0], "intercepts": [0.0]}
    found = ours(model("LinearClassifier", x, BOTH, **options), x)[1]
    wanted = NormalDist().inv_cdf(0.25)
    np.testing.assert_allclose(found, [[-wanted, wanted]], atol=1e-3)


def vectors(seed: int, *sizes: int) -> Any:
    """Support vectors of three features for each class, and parameters of a kernel."""
    total = sum(sizes)
    params = [0.25, 0.5, float(seed % 4 + 1)]
    return {"support_vectors": floats(seed, total, 3), "kernel_params": params}


@given(SEEDS, KERNELS, st.sampled_from([0, 1]))
def test_svm_regressor(seed: int, kernel: str, one_class: int) -> None:
    options = {"n_supports": 5, "kernel_type": kernel, "one_class": one_class}
    options |= {"coefficients": floats(seed + 1, 5), "rho": floats(seed + 2, 1)}
    agree(
        "SVMRegressor",
        {"x": drawn(seed, np.float32, 6, 3)},
        **options,
        **vectors(seed, 5),
    )


def test_svm_regressor_without_vectors() -> None:
    options: Any = {
        "coefficients": floats(1, 3),
        "rho": [0.5],
        "kernel_params": [0.0] * 3,
    }
    agree("SVMRegressor", {"x": drawn(1, np.float32, 6, 3)}, **options)
    wide = {"x": drawn(1, np.float64, 6, 3)}
    options |= {"post_transform": "LOGISTIC"}
    (found,) = ours(model("SVMRegressor", wide, **options), wide)
    wanted = 1 / (1 + np.exp(-(wide["x"] @ options["coefficients"] + 0.5)))
    np.testing.assert_allclose(found[:, 0], wanted, rtol=1e-6)


@given(
    SEEDS,
    KERNELS,
    st.lists(st.integers(1, 3), min_size=2, max_size=4),
    st.sampled_from(POSTS[:4]),
    st.booleans(),
    st.sampled_from(TYPES[:3]),
)
def test_svm_classifier(
    seed: int, kernel: str, sizes: list[int], post: str, has_prob: bool, dtype: Any
) -> None:
    count, pairs = len(sizes), len(sizes) * (len(sizes) - 1) // 2
    options: Any = {"vectors_per_class": sizes, "kernel_type": kernel}
    options |= {"coefficients": floats(seed + 1, count - 1, sum(sizes))}
    options |= {
        "rho": floats(seed + 2, pairs),
        "classlabels_ints": [9, 4, 6, 0][:count],
    }
    options |= {"post_transform": post, **vectors(seed, *sizes)}
    if has_prob:
        options |= {
            "prob_a": floats(seed + 3, pairs),
            "prob_b": floats(seed + 4, pairs),
        }
    x = {"x": drawn(seed, dtype, 6, 3)}
    proto = model("SVMClassifier", x, BOTH, **options)
    compare(ours(proto, x), peer(proto, x), rtol=1e-4, atol=1e-5)


@given(SEEDS, st.sampled_from(POSTS[:4]))
def test_linear_svm_classifier(seed: int, post: str) -> None:
    options: Any = {"coefficients": floats(seed, 3, 3), "rho": floats(seed + 1, 3)}
    options |= {"classlabels_ints": [0, 1, 2], "kernel_params": [0.0] * 3}
    x = {"x": drawn(seed, np.float32, 6, 3)}
    agree("SVMClassifier", x, BOTH, post_transform=post, **options)


TWO = {"x": np.float32([[1, 2]])}
LINEAR = {"coefficients": [1.0] * 4, "classlabels_ints": [0, 1]}
SVM: dict[str, Any] = {
    "coefficients": [1.0] * 2,
    "rho": [1.0],
    "support_vectors": [1.0] * 4,
    "classlabels_ints": [0, 1],
    "vectors_per_class": [1, 1],
    "kernel_params": [1.0] * 3,
}


@pytest.mark.parametrize(
    ("kind", "attributes", "words"),
    [
        ("LinearRegressor", {"coefficients": [1.0] * 3}, "has 3 numbers as coeff"),
        (
            "LinearRegressor",
            {"coefficients": [1.0] * 2, "intercepts": [1.0] * 2},
            "as int",
        ),
        ("LinearClassifier", LINEAR | {"coefficients": [1.0] * 6}, "has 6 numbers"),
        ("LinearClassifier", LINEAR | {"classlabels_strings": ["a"]}, "Give one of"),
        ("LinearClassifier", LINEAR | {"classlabels_ints": [1]}, "has 1 class"),
        ("LinearClassifier", LINEAR | {"post_transform": "X"}, "post_transform='X'"),
        ("SVMClassifier", SVM | {"rho": [1.0] * 2}, "has 2 numbers as rho"),
        ("SVMClassifier", SVM | {"prob_a": [1.0]}, "has 0 numbers as prob_b"),
        ("SVMClassifier", SVM | {"vectors_per_class": [2]}, "as vectors_per_class"),
        ("SVMClassifier", SVM | {"vectors_per_class": [3, -1]}, "Use 0 or more"),
        ("SVMClassifier", SVM | {"support_vectors": [1.0] * 6}, "of 3 features for 2"),
        ("SVMClassifier", SVM | {"support_vectors": [1.0] * 3}, "3 numbers as 2"),
        ("SVMClassifier", SVM | {"kernel_params": [1.0]}, "as kernel_params"),
        ("SVMClassifier", SVM | {"kernel_type": "X"}, "kernel_type='X'"),
        ("SVMClassifier", SVM | {"vectors_per_class": [0, 0]}, "LinearClassifier"),
        ("SVMRegressor", {"coefficients": [1.0] * 2, "n_supports": -1}, "n_supports"),
        ("SVMRegressor", {"coefficients": [1.0] * 2}, "has 0 numbers as rho"),
    ],
)
def test_damaged_attributes(kind: str, attributes: Any, words: str) -> None:
    outputs = BOTH if "Classifier" in kind else ("y",)
    with pytest.raises(ModelError, match=words):
        load(model(kind, TWO, outputs, **attributes))


def test_labels_that_are_text() -> None:
    """The label cannot be a tensor, and the scores can."""
    options: Any = {"classlabels_strings": ["no", "yes"], "coefficients": [1.0] * 4}
    proto = model("LinearClassifier", TWO, BOTH, **options)
    with pytest.raises(ModelError, match=r"'l', which is text.*outputs=\[") as caught:
        load(proto)
    assert "LinearClassifier" in str(caught.value)
    assert ours(proto, TWO, outputs=["p"])[0].tolist() == [[3, 3]]
    proto.graph.node.add(op_type="Identity", input=["l"], output=["m"])
    proto.graph.output[0].name = "m"
    with pytest.raises(ModelError, match="reads 'l', which is text"):
        load(proto)
