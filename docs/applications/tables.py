"""Classify three labelled tables with scikit-learn's models in integers.

python -m docs.applications.tables
"""

import numpy as np
from skl2onnx import to_onnx
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import mdtensor as md
from mdtensor.quant import load

#: What the scaler in front of a network computes.
SCALING = (md.sub, md.mul)
TABLES = {"digits": load_digits, "breast cancer": load_breast_cancer, "wine": load_wine}


def estimators():
    yield (
        "MLP",
        make_pipeline(
            StandardScaler(), MLPClassifier(64, max_iter=500, random_state=0)
        ),
    )
    yield "forest", RandomForestClassifier(50, random_state=0)


def right(network, rows, labels):
    """Return the share of rows that a network gives their label."""
    return float(np.mean(np.asarray(network(rows)[0]) == labels))


def main():
    found = {}
    for table, read in TABLES.items():
        x, y = read(return_X_y=True)
        x = x.astype(np.float32)
        seen, held, taught, wanted = train_test_split(
            x, y, test_size=0.4, random_state=0, stratify=y
        )
        for name, estimator in estimators():
            estimator.fit(seen, taught)
            options = {id(estimator): {"zipmap": False}}
            network = load(to_onnx(estimator, seen[:1], options=options))
            # Columns of very different ranges do not fit one grid of 8 bits.
            kept = [n.name for n in network.graph.nodes if n.operation in SCALING]
            calibration = network.calibrate(seen[::4, None])
            small = network.quantize(calibration, keep_float=kept)
            shares = {"scikit-learn": float(estimator.score(held, wanted))}
            shares["float"] = right(network, held, wanted)
            shares["int8"] = right(small, held, wanted)
            found[table, name] = shares
            listed = ", ".join(f"{key} {share:.3f}" for key, share in shares.items())
            print(f"{table}, {name}: {listed} of {len(held)} rows")
    return found


if __name__ == "__main__":
    main()
