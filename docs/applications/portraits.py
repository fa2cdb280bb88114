"""Pictures with and without faces, all from scikit-image's wheel."""

from pathlib import Path

import numpy as np
from skimage import data
from skimage.io import imread
from skimage.transform import resize

FOLDER = Path(data.__file__).parent
#: Grey pictures of 25 x 25 pixels: 100 faces of Labeled Faces in the Wild, 100 others.
PICTURES = np.load(FOLDER / "lfw_subset.npy")


def coloured(pictures, size):
    """Return pictures in three equal channels from -1 to 1."""
    grey = np.stack([resize(picture, (size, size)) for picture in pictures])
    return np.repeat(2 * grey[..., None] - 1, 3, axis=-1).astype(np.float32)


def pasted(pictures, size, seed):
    """Return a photograph without faces for each picture, which is pasted into it."""
    rng, coffee = np.random.default_rng(seed), imread(FOLDER / "coffee.png")
    ground = 2 * resize(coffee, (size, size * 3 // 2))[:, :size].astype(np.float32) - 1
    made = np.repeat(ground[None], len(pictures), axis=0)
    for one, picture in zip(made, pictures, strict=True):
        wide = rng.integers(size * 3 // 8, size * 5 // 8)
        top, left = rng.integers(0, size - wide, 2)
        one[top : top + wide, left : left + wide] = coloured([picture], wide)[0]
    return made


ASTRONAUT = 2 * resize(imread(FOLDER / "astronaut.png"), (128, 128)) - 1
ASTRONAUT = ASTRONAUT.astype(np.float32)
