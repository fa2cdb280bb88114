"""OCR with three int8 networks: text detector, classifier of direction, recognizer.

RapidOCR does everything around the networks. `quantize` puts int8 networks in the place
of its sessions of ONNX Runtime, so only what runs the networks differs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from mdtensor.cli.demo_page import enlarged_page, error_rate, page_of_characters
from mdtensor.quant.model.load import load
from mdtensor.quant.model.model import Model
from mdtensor.quant.observers import MinMaxObserver, MSEObserver

Shape = tuple[int, int, int, int]
Run = Callable[[Any], Any]
#: Where RapidOCR keeps what runs each network, the file, and the sizes of its input.
PARTS: dict[str, tuple[str, str, Shape]] = {
    "text_det": ("infer", "*_det_*.onnx", (1, 3, 736, 1472)),
    "text_cls": ("infer", "*_cls_*.onnx", (1, 3, 48, 192)),
    "text_rec": ("session", "*_rec_*.onnx", (1, 3, 48, 1024)),
}


def start_engine() -> Any:
    """Return RapidOCR, with options for bent lines that lie close together."""
    from rapidocr_onnxruntime import RapidOCR

    return RapidOCR(
        det_use_dilation=False,
        det_box_thresh=0.1,
        det_unclip_ratio=2.0,
        det_score_mode="slow",
    )


def read(engine: Any, page: Any) -> tuple[list[Any], str]:
    """Return the boxes and the text that an engine finds on a page."""
    found, _ = engine(np.asarray(page.convert("RGB")))
    lines = found or []
    return [box for box, _, _ in lines], " ".join(text for _, text, _ in lines)


def quantize(
    engine: Any,
    pages: Sequence[Any],
    observer: Callable[[], MinMaxObserver] = MSEObserver,
) -> None:
    """Replace the networks by int8 ones, calibrated on what they see of `pages`."""
    import rapidocr_onnxruntime

    folder = Path(rapidocr_onnxruntime.__file__).with_name("models")
    seen: dict[str, list[Any]] = {part: [] for part in PARTS}
    for part, (place, _, _) in PARTS.items():
        owner = getattr(engine, part)
        setattr(owner, place, partial(_watched, getattr(owner, place), seen[part]))
    for page in pages:
        read(engine, page)
    for part, (place, file, shape) in PARTS.items():
        network = load(next(folder.glob(file)), shape)
        samples = _fitted(seen[part], shape)
        small = network.quantize(network.calibrate(samples, observer))
        setattr(getattr(engine, part), place, partial(_answer, small, shape))


def _watched(run: Run, seen: list[Any], batch: Any) -> Any:
    seen.extend(batch)
    return run(batch)


def _fitted(batch: Iterable[Any], shape: Shape) -> Iterator[Any]:
    """Yield the pictures of a batch, with zeros on the right up to the width."""
    for one in batch:
        room = shape[-1] - one.shape[-1]
        yield np.pad(one[None], ((0, 0), (0, 0), (0, 0), (0, room)))


def _answer(small: Model, shape: Shape, batch: Any) -> list[Any]:
    """Run one picture after the other; return what a session of RapidOCR returns."""
    return [np.concatenate([np.asarray(small(x)) for x in _fitted(batch, shape)])]


def read_page(numbers: Sequence[int], observer: Any = MSEObserver) -> dict[str, Any]:
    """Read the page with float and with int8 networks.

    Args:
        numbers: those of the pages of characters that calibrate.
        observer: the observer of ranges.

    Returns:
        The text that int8 reads, its boxes, and the error rate of each.
    """
    engine, page = start_engine(), enlarged_page()
    _, by_float = read(engine, page)
    quantize(engine, [page_of_characters(number) for number in numbers], observer)
    boxes, text = read(engine, page)
    rates = {"float": error_rate(by_float), "int8": error_rate(text)}
    return {"text": text, "boxes": boxes, "rates": rates}
