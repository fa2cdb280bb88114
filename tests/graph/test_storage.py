"""How compiled parts store tensors: by type, and images channels last."""

import numpy as np

import mdtensor as md
import mdtensor.quant.codes  # the storage of codes
from mdtensor import quant
from mdtensor.graph.storage import channels_first, channels_last, storage_of


def test_images_turn_and_turn_back() -> None:
    image = np.arange(24).reshape(1, 2, 3, 4)
    last = channels_last(image)
    assert last.shape == (1, 3, 4, 2)
    assert last[0, 1, 2].tolist() == [6, 18]
    assert np.array_equal(channels_first(last), image)
    assert np.shares_memory(last, image)


def test_a_type_has_the_storage_of_its_nearest_class() -> None:
    assert storage_of(md.Float32Tensor).dtype == np.float32
    assert storage_of(md.Float64Tensor) is None
    for kind in (quant.QInt8Tensor, quant.QUInt4Tensor):
        found = storage_of(kind)
        assert found.dtype == np.uint8 and found.has_images
    assert storage_of(quant.QInt16Tensor) is None
