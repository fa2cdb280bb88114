"""scikit-learn's estimators fit and predict on tensors as on the same arrays."""

from typing import Any

import numpy as np
import pytest

import mdtensor as md

sklearn = pytest.importorskip("sklearn")

from sklearn import (  # noqa: E402
    cluster,
    covariance,
    decomposition,
    discriminant_analysis,
    ensemble,
    feature_selection,
    gaussian_process,
    linear_model,
    manifold,
    mixture,
    naive_bayes,
    neighbors,
    neural_network,
    preprocessing,
    svm,
    tree,
)

pytestmark = pytest.mark.slow

RNG = np.random.default_rng(0)
POINTS = np.concatenate([RNG.normal(at, 1.0, (30, 4)) for at in (0.0, 2.0, 4.0)])
LABELS = np.repeat([0, 1, 2], 30)
TARGET = POINTS @ [1.0, -2.0, 0.5, 0.25] + 0.01 * RNG.normal(size=90)

CLASSIFIERS = [
    ensemble.RandomForestClassifier(8, random_state=0),
    ensemble.ExtraTreesClassifier(8, random_state=0),
    ensemble.GradientBoostingClassifier(n_estimators=5, random_state=0),
    ensemble.HistGradientBoostingClassifier(max_iter=5, random_state=0),
    ensemble.AdaBoostClassifier(n_estimators=5, random_state=0),
    ensemble.BaggingClassifier(n_estimators=5, random_state=0),
    tree.DecisionTreeClassifier(random_state=0),
    svm.SVC(random_state=0),
    svm.NuSVC(random_state=0),
    svm.LinearSVC(random_state=0),
    linear_model.LogisticRegression(),
    linear_model.SGDClassifier(random_state=0),
    linear_model.RidgeClassifier(),
    linear_model.Perceptron(random_state=0),
    neighbors.KNeighborsClassifier(),
    neighbors.RadiusNeighborsClassifier(5.0),
    neighbors.NearestCentroid(),
    naive_bayes.GaussianNB(),
    discriminant_analysis.LinearDiscriminantAnalysis(),
    discriminant_analysis.QuadraticDiscriminantAnalysis(reg_param=0.1),
    gaussian_process.GaussianProcessClassifier(random_state=0),
    neural_network.MLPClassifier((8,), max_iter=500, tol=1e-2, random_state=0),
]
REGRESSORS = [
    ensemble.RandomForestRegressor(8, random_state=0),
    ensemble.GradientBoostingRegressor(n_estimators=5, random_state=0),
    ensemble.HistGradientBoostingRegressor(max_iter=5, random_state=0),
    tree.DecisionTreeRegressor(random_state=0),
    svm.SVR(),
    svm.LinearSVR(random_state=0, max_iter=100_000, tol=1e-2),
    linear_model.LinearRegression(),
    linear_model.Ridge(),
    linear_model.Lasso(0.01),
    linear_model.ElasticNet(0.01),
    linear_model.HuberRegressor(max_iter=1000),
    linear_model.BayesianRidge(),
    linear_model.SGDRegressor(random_state=0),
    neighbors.KNeighborsRegressor(),
    gaussian_process.GaussianProcessRegressor(random_state=0),
    neural_network.MLPRegressor(
        hidden_layer_sizes=(8,), max_iter=500, tol=1e-2, random_state=0
    ),
]
ALONE = [
    ensemble.IsolationForest(n_estimators=10, random_state=0),
    svm.OneClassSVM(),
    neighbors.LocalOutlierFactor(novelty=True),
    covariance.EllipticEnvelope(random_state=0),
    cluster.KMeans(3, n_init=2, random_state=0),
    cluster.MiniBatchKMeans(3, n_init=2, random_state=0, batch_size=90),
    cluster.Birch(n_clusters=3),
    cluster.MeanShift(bandwidth=2.0),
    cluster.AffinityPropagation(random_state=0),
    mixture.GaussianMixture(3, random_state=0),
]
CLUSTERS = [
    cluster.DBSCAN(1.5),
    cluster.HDBSCAN(copy=True),
    cluster.OPTICS(),
    cluster.AgglomerativeClustering(3),
    cluster.SpectralClustering(3, random_state=0),
]
TRANSFORMERS = [
    decomposition.PCA(2, random_state=0),
    decomposition.KernelPCA(2, random_state=0),
    decomposition.TruncatedSVD(2, random_state=0),
    decomposition.FastICA(2, random_state=0, tol=1e-2, max_iter=1000),
    decomposition.IncrementalPCA(2),
    preprocessing.StandardScaler(),
    preprocessing.MinMaxScaler(),
    preprocessing.MaxAbsScaler(),
    preprocessing.RobustScaler(),
    preprocessing.Normalizer(),
    preprocessing.QuantileTransformer(n_quantiles=20),
    preprocessing.PowerTransformer(),
    preprocessing.PolynomialFeatures(),
    preprocessing.SplineTransformer(),
    preprocessing.KBinsDiscretizer(encode="ordinal", quantile_method="linear"),
    feature_selection.VarianceThreshold(),
    manifold.Isomap(n_neighbors=20),
    manifold.LocallyLinearEmbedding(random_state=0),
]


def name(estimator: Any) -> str:
    return type(estimator).__name__


def agree(found: Any, wanted: Any) -> None:
    """Raise unless the results on a tensor are those on its array."""
    np.testing.assert_allclose(np.asarray(found), np.asarray(wanted), rtol=1e-4)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("estimator", CLASSIFIERS, ids=name)
def test_classifiers(estimator: Any, dtype: Any) -> None:
    x, y = POINTS.astype(dtype), LABELS
    theirs = sklearn.clone(estimator).fit(x, y)
    ours = sklearn.clone(estimator).fit(md.asarray(x), md.asarray(y))
    assert np.array_equal(ours.predict(md.asarray(x)), theirs.predict(x))
    assert ours.score(md.asarray(x), md.asarray(y)) == theirs.score(x, y)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("estimator", REGRESSORS, ids=name)
def test_regressors(estimator: Any, dtype: Any) -> None:
    x, y = POINTS.astype(dtype), TARGET.astype(dtype)
    theirs = sklearn.clone(estimator).fit(x, y)
    ours = sklearn.clone(estimator).fit(md.asarray(x), md.asarray(y))
    agree(ours.predict(md.asarray(x)), theirs.predict(x))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("estimator", ALONE, ids=name)
def test_estimators_without_labels(estimator: Any, dtype: Any) -> None:
    x = POINTS.astype(dtype)
    theirs, ours = sklearn.clone(estimator).fit(x), sklearn.clone(estimator)
    found = ours.fit(md.asarray(x)).predict(md.asarray(x))
    assert np.array_equal(found, theirs.predict(x))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("estimator", CLUSTERS, ids=name)
def test_clusters(estimator: Any, dtype: Any) -> None:
    x = POINTS.astype(dtype)
    found = sklearn.clone(estimator).fit_predict(md.asarray(x))
    assert np.array_equal(found, sklearn.clone(estimator).fit_predict(x))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("estimator", TRANSFORMERS, ids=name)
def test_transformers(estimator: Any, dtype: Any) -> None:
    x = POINTS.astype(dtype)
    theirs = sklearn.clone(estimator).fit(x)
    ours = sklearn.clone(estimator).fit(md.asarray(x))
    found, wanted = ours.transform(md.asarray(x)), theirs.transform(x)
    np.testing.assert_allclose(np.asarray(found), wanted, rtol=1e-3, atol=1e-4)
