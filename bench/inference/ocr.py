"""The detector and the recognizer of text beside the demo's classifier."""

from functools import cache

import numpy as np

from bench.inference.networks import Network
from mdtensor.cli import demo, demo_data
from mdtensor.quant.model.load import load

#: The page at its own size, to the next multiple of 32, and a line of text.
PAGE, LINE = (192, 384), (48, 320)


@cache
def detector() -> Network:
    """Where on a page text is; it was calibrated on the page upside down."""
    picture = demo_data.page()
    return _network("det", _pixels(picture, PAGE), [_pixels(picture[::-1, ::-1], PAGE)])


@cache
def recognizer() -> Network:
    """What a line says; it was calibrated on all lines of the page but the last."""
    picture = demo_data.page()
    *seen, last = (
        _pixels(picture[slice(*line), left : left + width], LINE)
        for line in demo_data.text_lines(picture)
        for left, _ in [demo_data.extent(picture, line)]
        for width in [(line[1] - line[0]) * LINE[1] // LINE[0]]
    )
    return _network("rec", last, seen)


def _network(kind: str, image: np.ndarray, samples: list[np.ndarray]) -> Network:
    (path,) = demo_data.classifier_path().parent.glob(f"*_{kind}_*.onnx")
    network = load(path, image.shape)
    small = network.quantize(network.calibrate(samples))
    rival = demo.quantize_by_tool(path, samples, "x")
    return Network(network, small, image, path.read_bytes(), rival, False)


def _pixels(picture: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """float32 [1, 3, *size], (x / 255 - 0.5) / 0.5."""
    colour = np.stack([picture] * 3, axis=-1).astype(np.float32)
    resized = demo_data.resize(colour, *size)
    return np.ascontiguousarray(((resized / 255 - 0.5) / 0.5).transpose(2, 0, 1)[None])
