"""Read a scanned page with three int8 networks: detector, direction, recognizer.

    python -m docs.applications.ocr boxes.png

RapidOCR does everything around the networks, so only what runs them differs.
"""

import sys
from functools import partial
from pathlib import Path

import numpy as np
import rapidocr_onnxruntime
from rapidocr_onnxruntime import RapidOCR

from docs.applications import page
from mdtensor.quant import load

MODELS = Path(rapidocr_onnxruntime.__file__).with_name("models")
#: Lines of this page lie close together and are bent.
OPTIONS = {"det_use_dilation": False, "det_box_thresh": 0.1, "det_unclip_ratio": 2.0}
#: Where RapidOCR keeps what runs each network, the file, and the sizes of its input.
PARTS = {
    "text_det": ("infer", "*_det_*.onnx", (1, 3, 736, 1472)),
    "text_cls": ("infer", "*_cls_*.onnx", (1, 3, 48, 192)),
    "text_rec": ("session", "*_rec_*.onnx", (1, 3, 48, 1024)),
}


def quantize(engine, pages):
    """Replace the networks by int8 ones, calibrated on what they see of `pages`."""
    for part, (place, file, shape) in PARTS.items():
        owner, seen = getattr(engine, part), []
        setattr(owner, place, partial(watched, getattr(owner, place), seen))
        for one in pages:
            page.read(engine, one)
        network = load(next(MODELS.glob(file)), shape)
        small = network.quantize(network.calibrate(page.fitted(seen, shape)))
        setattr(owner, place, partial(answer, small, shape))


def watched(run, seen, batch):
    seen.extend(batch)
    return run(batch)


def answer(small, shape, batch):
    """Run one picture after the other; return what a session of RapidOCR returns."""
    return [np.concatenate([np.asarray(small(x)) for x in page.fitted(batch, shape)])]


def main(boxes_file=None):
    engine = RapidOCR(**OPTIONS, det_score_mode="slow")
    _, by_float = page.read(engine, page.PAGE)
    quantize(engine, [page.page_of_characters(seed) for seed in range(4)])
    boxes, text = page.read(engine, page.PAGE)
    rates = {"int8": page.error_rate(text), "float": page.error_rate(by_float)}
    print(text, rates, sep="\n")
    if boxes_file:
        page.with_boxes(page.PAGE, boxes).save(boxes_file)
    return {"text": text, "boxes": len(boxes), "rates": rates}


if __name__ == "__main__":
    main(*sys.argv[1:])
