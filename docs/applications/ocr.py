"""Read a scanned page with three int8 networks: detector, direction, recognizer.

    python -m docs.applications.ocr boxes.png

`mdtensor.cli.demo_ocr` puts the int8 networks into RapidOCR, in 20 lines.
"""

import sys

from mdtensor.cli.demo_ocr import read_page
from mdtensor.cli.demo_page import enlarged_page, with_boxes

#: The pages of random characters on which the networks are calibrated.
PAGES = range(4)


def main(boxes_file=None):
    found = read_page(PAGES)
    print(found["text"])
    for networks, rate in found["rates"].items():
        print(f"{networks}: {rate:.3f} of the characters are wrong")
    if boxes_file:
        with_boxes(enlarged_page(), found["boxes"]).save(boxes_file)
    return found


if __name__ == "__main__":
    main(*sys.argv[1:])
