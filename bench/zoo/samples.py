"""Inputs of the models: real pictures and a page, and generated sounds and numbers.

1x3x48x192 page -1 1        text lines of a scanned page, from -1 to 1
1x96x96x3 picture 0 1       pieces of photographs
1x16000 sound               voices with noise, from -1 to 1
1x40 tokens 30 int32        numbers below 30, in int64 by default
1x100 noise                 normal, in float32 by default; so are `zeros`, `ones`
"""

from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from mdtensor.cli import demo_data

#: Photographs in scikit-image's wheel.
PHOTOGRAPHS = ("astronaut.png", "chelsea.png", "coffee.png", "rocket.jpg")
#: Samples of sound in a second, and the lowest and highest voice.
RATE, VOICES = 16_000, (90, 260)
Array = Any


def sample(inputs: Mapping[str, str], seed: int) -> dict[str, Array]:
    """Return an array for each input, the same ones for the same seed."""
    rng = np.random.default_rng([seed, 32])
    return {name: _array(text.split(), rng) for name, text in inputs.items()}


def shapes(inputs: Mapping[str, str]) -> dict[str, tuple[int, ...]]:
    """Return the shape of each input."""
    return {name: _sizes(text.split()[0]) for name, text in inputs.items()}


def noise(shape: tuple[int, ...], dtype: Any, seed: int) -> Array:
    """Return data for an input that the list does not describe."""
    rng = np.random.default_rng([seed, 33])
    if np.dtype(dtype).kind in "iu":
        limits = np.iinfo(dtype)
        return rng.integers(limits.min, limits.max, shape, dtype, endpoint=True)
    return rng.standard_normal(shape).astype(dtype)


def _sizes(text: str) -> tuple[int, ...]:
    return tuple(int(size) for size in text.split("x"))


def _array(words: list[str], rng: np.random.Generator) -> Array:
    sizes, kind, *options = words
    made: Array = KINDS[kind](_sizes(sizes), rng, options)
    return np.ascontiguousarray(made)


def _noise(shape: tuple[int, ...], rng: np.random.Generator, options: Any) -> Array:
    return rng.standard_normal(shape).astype(*options or ["float32"])


def _zeros(shape: tuple[int, ...], rng: np.random.Generator, options: Any) -> Array:
    return np.zeros(shape, *options or ["float32"])


def _ones(shape: tuple[int, ...], rng: np.random.Generator, options: Any) -> Array:
    return np.ones(shape, *options or ["float32"])


def _tokens(shape: tuple[int, ...], rng: np.random.Generator, options: Any) -> Array:
    below, *dtype = options
    return rng.integers(1, int(below), shape).astype(*dtype or ["int64"])


def _sound(shape: tuple[int, ...], rng: np.random.Generator, options: Any) -> Array:
    """Harmonics of a voice that rises and falls, swells, and has noise in it."""
    seconds = np.arange(np.prod(shape)) / RATE
    pitch = rng.uniform(*VOICES) * (1 + 0.1 * np.sin(2 * np.pi * 3 * seconds))
    phase = 2 * np.pi * np.cumsum(pitch) / RATE
    voice = sum(rng.uniform(0, 1 / n) * np.sin(n * phase) for n in range(1, 16))
    swell = 0.5 + 0.5 * np.sin(2 * np.pi * 2 * seconds + rng.uniform(0, 6))
    heard = 0.2 * voice * swell + 0.01 * rng.standard_normal(seconds.shape)
    return np.clip(heard, -1, 1).reshape(shape).astype(np.float32)


def _picture(shape: tuple[int, ...], rng: np.random.Generator, options: Any) -> Array:
    name = PHOTOGRAPHS[rng.integers(len(PHOTOGRAPHS))]
    return _pieces(_photograph(name), shape, rng, options)


def _page(shape: tuple[int, ...], rng: np.random.Generator, options: Any) -> Array:
    picture = demo_data.page()
    # A line is wider than it is high; a piece of the page must have its proportions.
    lines = demo_data.text_lines(picture)
    height, _ = _size_of_image(shape)
    if height < 100:
        top, bottom = lines[rng.integers(len(lines))]
        picture = picture[top:bottom]
    colour = np.stack([picture] * 3, axis=-1).astype(np.float32)
    return _pieces(colour, shape, rng, options)


def _pieces(
    picture: Array, shape: tuple[int, ...], rng: np.random.Generator, options: Any
) -> Array:
    """Cut pieces of the proportions of the input, and scale them to its size."""
    low, high = map(float, options)
    height, width = _size_of_image(shape)
    found = []
    for _ in range(shape[0]):
        scale = min(picture.shape[0] / height, picture.shape[1] / width)
        scale *= rng.uniform(0.6, 1)
        rows, columns = max(int(height * scale), 1), max(int(width * scale), 1)
        top = rng.integers(picture.shape[0] - rows + 1)
        left = rng.integers(picture.shape[1] - columns + 1)
        piece = picture[top : top + rows, left : left + columns]
        found.append(demo_data.resize(piece, height, width))
    images = np.stack(found) / 255 * (high - low) + low
    return images if shape[-1] == 3 else images.transpose(0, 3, 1, 2)


def _size_of_image(shape: tuple[int, ...]) -> tuple[int, int]:
    return shape[1:3] if shape[-1] == 3 else shape[2:]  # type: ignore[return-value]


@cache
def _photograph(name: str) -> Array:
    from PIL import Image
    from skimage import data

    with Image.open(Path(data.__file__).with_name(name)) as picture:
        return np.asarray(picture.convert("RGB"), np.float32)


KINDS: Mapping[str, Callable[..., Array]] = {
    "noise": _noise,
    "zeros": _zeros,
    "ones": _ones,
    "tokens": _tokens,
    "sound": _sound,
    "picture": _picture,
    "page": _page,
}
