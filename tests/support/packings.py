"""How an ISA packs weights, as a text."""

import hashlib

import numpy as np


def packed(own):
    """A text that differs where an ISA packs in another way, or has other kernels."""
    rng, text = np.random.default_rng(1), hashlib.sha256()
    for n, k, kernel in ((1, 1, 1), (70, 300, 3), (130, 17, 5), (200, 64, 2)):
        weight = rng.integers(-128, 128, (n, k), dtype=np.int8)
        taps = rng.integers(-255, 256, (n, kernel, kernel))
        text.update(own.pack_s8(weight).tobytes() + own.pack_depthwise(taps).tobytes())
    facts = {name: value for name, value in vars(own).items() if name.isupper()}
    keys = {
        name: value.key for name, value in vars(own).items() if hasattr(value, "key")
    }
    return f"{text.hexdigest()} {sorted(facts.items())} {sorted(keys.items())}"
