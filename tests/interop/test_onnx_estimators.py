"""scikit-learn's estimators, written by skl2onnx: loaded, and compared with both."""

import warnings
from typing import Any

import numpy as np
import pytest
from support.onnx_ml import peer

from mdtensor.errors import ModelError
from mdtensor.quant import load

sklearn = pytest.importorskip("sklearn")
skl2onnx = pytest.importorskip("skl2onnx")

from skl2onnx import to_onnx  # noqa: E402
from skl2onnx.common import _container  # noqa: E402
from sklearn import (  # noqa: E402
    calibration,
    cluster,
    compose,
    cross_decomposition,
    decomposition,
    discriminant_analysis,
    ensemble,
    feature_selection,
    gaussian_process,
    impute,
    linear_model,
    multiclass,
    naive_bayes,
    neighbors,
    neural_network,
    pipeline,
    preprocessing,
    svm,
    tree,
)

pytestmark = pytest.mark.slow

RNG = np.random.default_rng(0)
CENTERS = RNG.normal(scale=2.5, size=(4, 5))
POINTS = np.concatenate([RNG.normal(at, 1.0, (40, 5)) for at in CENTERS])
POINTS = POINTS.astype(np.float32)
LABELS = np.repeat([0, 1, 2, 3], 40)
TARGET = np.sin(POINTS @ [1.0, -2.0, 0.5, 0.25, 0.1]) + POINTS[:, 0]
PROBES = RNG.normal(scale=2.5, size=(200, 5)).astype(np.float32)

CLASSIFIERS = [
    tree.DecisionTreeClassifier(max_depth=5, random_state=0),
    ensemble.RandomForestClassifier(20, random_state=0),
    ensemble.ExtraTreesClassifier(20, random_state=0),
    ensemble.GradientBoostingClassifier(n_estimators=10, random_state=0),
    ensemble.HistGradientBoostingClassifier(max_iter=10, random_state=0),
    ensemble.AdaBoostClassifier(n_estimators=5, random_state=0),
    ensemble.BaggingClassifier(n_estimators=5, random_state=0),
    ensemble.VotingClassifier(
        [("a", linear_model.LogisticRegression()), ("b", naive_bayes.GaussianNB())],
        flatten_transform=False,
    ),
    linear_model.LogisticRegression(),
    linear_model.SGDClassifier(loss="log_loss", random_state=0),
    linear_model.SGDClassifier(random_state=0),
    linear_model.RidgeClassifier(),
    linear_model.Perceptron(random_state=0),
    svm.SVC(random_state=0),
    svm.SVC(kernel="poly", random_state=0),
    svm.SVC(kernel="linear", random_state=0),
    svm.SVC(kernel="sigmoid", gamma=0.01, random_state=0),
    svm.NuSVC(random_state=0),
    svm.LinearSVC(random_state=0),
    neighbors.KNeighborsClassifier(),
    naive_bayes.GaussianNB(),
    naive_bayes.BernoulliNB(),
    discriminant_analysis.LinearDiscriminantAnalysis(),
    discriminant_analysis.QuadraticDiscriminantAnalysis(reg_param=0.1),
    neural_network.MLPClassifier((8,), max_iter=300, tol=1e-2, random_state=0),
    calibration.CalibratedClassifierCV(linear_model.LogisticRegression(), cv=2),
    multiclass.OneVsRestClassifier(linear_model.LogisticRegression()),
    pipeline.make_pipeline(
        preprocessing.StandardScaler(),
        decomposition.PCA(3),
        ensemble.RandomForestClassifier(10, random_state=0),
    ),
]
REGRESSORS = [
    tree.DecisionTreeRegressor(max_depth=5, random_state=0),
    tree.ExtraTreeRegressor(random_state=0),
    ensemble.RandomForestRegressor(20, random_state=0),
    ensemble.ExtraTreesRegressor(20, random_state=0),
    ensemble.GradientBoostingRegressor(n_estimators=10, random_state=0),
    ensemble.HistGradientBoostingRegressor(max_iter=10, random_state=0),
    ensemble.BaggingRegressor(n_estimators=5, random_state=0),
    ensemble.AdaBoostRegressor(n_estimators=5, random_state=0),
    linear_model.LinearRegression(),
    linear_model.Ridge(),
    linear_model.Lasso(0.01),
    linear_model.SGDRegressor(random_state=0),
    svm.SVR(),
    svm.NuSVR(),
    svm.LinearSVR(random_state=0),
    neighbors.KNeighborsRegressor(),
    neural_network.MLPRegressor(
        hidden_layer_sizes=(8,), max_iter=300, tol=1e-2, random_state=0
    ),
    gaussian_process.GaussianProcessRegressor(alpha=1.0),
    cross_decomposition.PLSRegression(2),
]
TRANSFORMERS = [
    preprocessing.StandardScaler(),
    preprocessing.MinMaxScaler(),
    preprocessing.MaxAbsScaler(),
    preprocessing.RobustScaler(),
    preprocessing.Normalizer("l1"),
    preprocessing.Normalizer("l2"),
    preprocessing.Binarizer(threshold=0.5),
    preprocessing.PolynomialFeatures(2),
    preprocessing.KBinsDiscretizer(3, encode="onehot-dense", quantile_method="linear"),
    impute.SimpleImputer(),
    decomposition.PCA(3),
    decomposition.TruncatedSVD(2, random_state=0),
    decomposition.KernelPCA(2, kernel="rbf"),
    feature_selection.SelectKBest(k=2),
    cluster.KMeans(4, n_init=2, random_state=0),
    compose.ColumnTransformer(
        [("a", preprocessing.StandardScaler(), [0, 1]), ("b", "passthrough", [2])]
    ),
]
NAMES = {"ids": lambda model: str(model).replace("\n", "").replace(" ", "")[:60]}


#: Estimators whose files compute shapes from the number of rows, so it must be known.
FIXED = (
    ensemble.AdaBoostClassifier,
    ensemble.VotingClassifier,
    gaussian_process.GaussianProcessRegressor,
    neighbors.LocalOutlierFactor,
    preprocessing.PolynomialFeatures,
)


BOOLS = (bool, np.bool_, np.integer)


@pytest.fixture(autouse=True)
def _converter(monkeypatch: Any) -> None:
    """Let skl2onnx write what this version of scikit-learn has.

    It warns of attributes that scikit-learn renames, and passes bools and integers
    of NumPy on as attributes, which protobuf does not take.
    """
    warnings.simplefilter("ignore", FutureWarning)
    plain = _container.make_node

    def make_node(*given: Any, **attributes: Any) -> Any:
        for name, value in attributes.items():
            if isinstance(value, list) and any(isinstance(v, BOOLS) for v in value):
                attributes[name] = [int(one) for one in value]
        return plain(*given, **attributes)

    monkeypatch.setattr(_container, "make_node", make_node)


def outputs(fitted: Any, x: Any, **options: Any) -> tuple[list[Any], list[Any]]:
    """Our outputs and ONNX Runtime's, with probabilities as a matrix."""
    proto = to_onnx(fitted, x[:1], **options)
    found = load(proto, x.shape if isinstance(fitted, FIXED) else None)(x)
    ours = [
        np.asarray(one) for one in (found if isinstance(found, tuple) else (found,))
    ]
    return ours, peer(proto, {proto.graph.input[0].name: x})


@pytest.mark.parametrize("count", [2, 4])
@pytest.mark.parametrize("model", CLASSIFIERS, **NAMES)
def test_classifiers(model: Any, count: int) -> None:
    chosen = count > LABELS
    fitted = sklearn.base.clone(model).fit(POINTS[chosen], LABELS[chosen] * 3)
    has_map = not isinstance(fitted, svm.LinearSVC)
    options = {id(fitted): {"zipmap": False}} if has_map else None
    (labels, scores), theirs = outputs(fitted, PROBES, options=options)
    np.testing.assert_allclose(scores, theirs[1], rtol=1e-4, atol=2e-5)
    # The first of equal scores wins here, as in scikit-learn.
    order = np.sort(scores.reshape(len(scores), -1), axis=1)
    # A single score is compared with 0.
    gap = (
        np.abs(order).max(axis=1) if order.shape[1] < 2 else order[:, -1] - order[:, -2]
    )
    is_tie = gap < 1e-6
    assert (is_tie | (labels == theirs[0])).all() and is_tie.mean() < 0.25
    # Some files are not what scikit-learn computes; then ONNX Runtime differs as well.
    wanted = fitted.predict(PROBES)
    assert np.mean(labels != wanted) <= np.mean(theirs[0] != wanted)
    if hasattr(fitted, "predict_proba"):
        wanted = fitted.predict_proba(PROBES)
        assert np.abs(scores - wanted).max() < np.abs(theirs[1] - wanted).max() + 2e-5


@pytest.mark.parametrize("count", [2, 4])
def test_probabilities_of_support_vectors(count: int) -> None:
    chosen = count > LABELS
    fitted = svm.SVC(probability=True, random_state=0)
    fitted = fitted.fit(POINTS[chosen], LABELS[chosen])
    options = {id(fitted): {"zipmap": False}}
    (labels, scores), theirs = outputs(fitted, PROBES, options=options)
    assert labels.tolist() == theirs[0].tolist()
    np.testing.assert_allclose(scores, theirs[1], rtol=1e-3, atol=1e-5)
    np.testing.assert_allclose(scores, fitted.predict_proba(PROBES), atol=1e-4)


@pytest.mark.parametrize("model", REGRESSORS, **NAMES)
def test_regressors(model: Any) -> None:
    fitted = sklearn.base.clone(model).fit(POINTS, TARGET)
    (found, *_), (theirs, *_) = outputs(fitted, PROBES)
    wanted = fitted.predict(PROBES).reshape(found.shape)
    # Its float32 kernels nearly cancel, in ONNX Runtime as well.
    is_process = isinstance(model, gaussian_process.GaussianProcessRegressor)
    room = 5e-3 if is_process else 2e-5
    np.testing.assert_allclose(found, theirs, rtol=1e-4, atol=room)
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=room)


@pytest.mark.parametrize("model", TRANSFORMERS, **NAMES)
def test_transformers(model: Any) -> None:
    fitted = sklearn.base.clone(model).fit(POINTS, LABELS)
    found, theirs = outputs(fitted, PROBES)
    for one, other in zip(found, theirs, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-4)
    wanted = fitted.transform(PROBES)
    np.testing.assert_allclose(found[-1], wanted, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(
    "model",
    [
        ensemble.IsolationForest(n_estimators=20, random_state=0),
        neighbors.LocalOutlierFactor(novelty=True),
    ],
    **NAMES,
)
def test_outliers(model: Any) -> None:
    fitted = sklearn.base.clone(model).fit(POINTS)
    opsets = {"": 17, "ai.onnx.ml": 3}
    (labels, scores), theirs = outputs(fitted, PROBES, target_opset=opsets)
    assert np.mean(labels.reshape(-1) == fitted.predict(PROBES)) > 0.98
    assert np.mean(labels == theirs[0]) > 0.98
    wanted = fitted.decision_function(PROBES)
    np.testing.assert_allclose(scores.reshape(-1), wanted, rtol=1e-3, atol=1e-4)


def test_missing_values() -> None:
    """HistGradientBoosting sends NaN to the side that it learned."""
    x = POINTS.copy()
    x[RNG.random(x.shape) < 0.2] = np.nan
    probes = PROBES.copy()
    probes[RNG.random(probes.shape) < 0.3] = np.nan
    fitted = ensemble.HistGradientBoostingRegressor(max_iter=10).fit(x, TARGET)
    (found,), (theirs,) = outputs(fitted, probes)
    np.testing.assert_allclose(found, theirs, rtol=1e-4, atol=1e-5)
    wanted = fitted.predict(probes)
    np.testing.assert_allclose(found[:, 0], wanted, rtol=1e-4, atol=1e-5)


def test_labels_that_are_text() -> None:
    names = np.array(["a", "b", "c", "d"])[LABELS]
    fitted = ensemble.RandomForestClassifier(5, random_state=0).fit(POINTS, names)
    proto = to_onnx(fitted, POINTS[:1])
    with pytest.raises(ModelError, match="outputs="):
        load(proto)
    network = load(proto, outputs=[proto.graph.output[1].name])
    # The result of the ZipMap is the matrix, with a column for each label.
    found = np.asarray(network(PROBES))
    np.testing.assert_allclose(found, fitted.predict_proba(PROBES), atol=1e-5)


def test_categories() -> None:
    x = RNG.integers(0, 4, (50, 2))
    fitted = preprocessing.OneHotEncoder(sparse_output=False).fit(x)
    (found,), _ = outputs(fitted, x)
    assert found.tolist() == fitted.transform(x).tolist()
