"""Find faces with int8 networks, in 150 labelled pictures and in photographs.

    python -m docs.applications.faces

MTCNN's refiner says whether a picture is a face, BlazeFace where in a photograph it is.
"""

import numpy as np

from bench.zoo import shelf
from bench.zoo.listing import entries
from docs.applications.blazeface import face
from docs.applications.portraits import ASTRONAUT, PICTURES, coloured, pasted
from mdtensor.quant import load

SEEN, HELD = np.arange(200) % 4 == 0, np.arange(200) % 4 != 0
IS_FACE, SURE = np.repeat([1, 0], 100), 0.5


def pair(name, samples):
    """Return a network of the zoo in float, and in int8 calibrated on samples."""
    network = load(shelf.fetch(entries(name)[0]))
    return network, network.quantize(network.calibrate(samples))


def count_right(refiner, pictures):
    # MTCNN swaps rows and columns.
    found = map(np.asarray, refiner(pictures.transpose(0, 2, 1, 3)))
    scores = next(part for part in found if part.shape[-1] == 2)
    return int((scores.argmax(axis=1) == IS_FACE[HELD]).sum())


def main():
    small, photographs = coloured(PICTURES, 24), pasted(PICTURES, 128, seed=0)
    refiners = pair("face-refiner", small[SEEN][:, None].transpose(0, 1, 3, 2, 4))
    detectors = pair("face-detector-front", photographs[SEEN][:, None])
    facts = {}
    for name, refine, detect in zip(
        ("float", "int8"), refiners, detectors, strict=True
    ):
        sure = np.array([face(detect, x)[0] > SURE for x in photographs[HELD]])
        facts[name] = {
            "right": count_right(refine, small[HELD]),
            "found": int(sure[:75].sum()),
            "false": int(sure[75:].sum()),
            "astronaut": [x.tolist() for x in face(detect, ASTRONAUT)],
        }
        print(name, facts[name])
    return facts


if __name__ == "__main__":
    main()
