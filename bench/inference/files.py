"""The file that each runtime is given, and its size."""

from collections.abc import Callable
from functools import partial

from bench.harness import Count
from bench.inference.networks import Network, saved
from bench.inference.runtimes import (
    LITERT,
    ORT_FLOAT,
    ORT_INT8,
    OURS,
    LeftOut,
    tflite_file,
)


def files(network: Network) -> dict[str, bytes]:
    """By runtime; without LiteRT, whose file is for one image, if it has none."""
    found = {
        OURS: saved(network.small),
        ORT_FLOAT: network.float_file,
        ORT_INT8: network.int8_file,
    }
    try:
        found[LITERT] = tflite_file(network, network.images[:1].shape)
    except LeftOut as reason:
        print(f"{LITERT} is left out: {reason}")
    return found


def size(name: str, network: Callable[[], Network]) -> Count:
    """Kilobytes of each file."""
    return Count(name, partial(_kilobytes, network), "kB", "Size on disk", OURS)


def _kilobytes(network: Callable[[], Network]) -> dict[str, float]:
    return {name: round(len(file) / 1000) for name, file in files(network()).items()}
