"""The real network that the model tests share: a classifier of text direction."""

import pytest

from mdtensor.cli import demo_data
from mdtensor.quant.model.model import load


@pytest.fixture(scope="session")
def crops():
    """(for calibration, held back), a few of each, in both directions."""
    calibration, held_back = demo_data.crops()
    return calibration[::12], held_back[::24]


@pytest.fixture(scope="session")
def classifier():
    """The float model, simplified."""
    return load(demo_data.classifier_path(), demo_data.INPUT_SHAPE)


@pytest.fixture(scope="session")
def small_classifier(classifier, crops):
    """The quantized model."""
    return classifier.quantize(classifier.calibrate(c.pixels for c in crops[0]))
