"""Layers and their rivals do the same work, and every shape of the network is there."""

import numpy as np
import pytest

from bench import layers
from bench.harness.agreement import Disagreement
from bench.layers import EXACT, LAYERS, OURS, Layer

pytestmark = pytest.mark.compiled
SMALL = [Layer("pointwise", 4, 4, 5, 7), Layer("first", 8, 8, 3, 6, 3, 2)]
SMALL += [Layer("depthwise", 6, 6, 9, 9, 3, s, is_depthwise=True) for s in (1, 2)]


@pytest.mark.parametrize("layer", SMALL, ids=lambda layer: layer.name)
def test_a_layer_and_its_rivals_agree(layer: Layer) -> None:
    race = layers.beside(layer)
    results = {one.name: one.result() for one in race.make()}
    race.check(results)
    assert len(np.unique(results[OURS])) > 20  # the grid fits what comes out
    wrong = results[EXACT] ^ 2
    with pytest.raises(Disagreement, match="more than a code apart"):
        race.check(results | {EXACT: wrong})
    first, second = (one.result() for one in layer.on_threads())
    assert np.array_equal(first, second)


def test_the_network_is_whole() -> None:
    """300 million products with those of the classifier, as published."""
    kinds = [layer.kind for layer in LAYERS]
    assert [kinds.count(k) for k in ("first", "depthwise", "pointwise")] == [1, 10, 19]
    products = sum(layer.macs for layer in layers.layers()) + 1280 * 1000
    assert round(products / 1e6) == 301
    assert Layer("pointwise", 7, 7, 320, 1280) == LAYERS[-1]


def test_signs_do_not_change_a_result() -> None:
    signed, unsigned = (one.result() for one in layers.in_signs((3, 8, 4)))
    assert np.array_equal(signed.view(np.uint8), unsigned.view(np.uint8))
