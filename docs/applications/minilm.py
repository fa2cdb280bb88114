"""all-MiniLM-L6-v2 as a function of sentences, written with operations of mdtensor.

The weights decide what runs: tensors of float32, or of codes with 8 or 4 bits.
"""

import numpy as np

import mdtensor as md
from mdtensor.quant import QuantizedTensor, dequantize

LAYERS, HEADS, WIDTH, EPS = 6, 12, 384, 1e-12


def embed(weights, ids):
    """Return the embedding of a sentence, of length 1."""

    def dense(x, name):
        return md.linear(x, weights[f"{name}.weight"], weights[f"{name}.bias"])

    def norm(x, name):
        name = f"{name}.LayerNorm"
        scale, shift = weights[f"{name}.weight"], weights[f"{name}.bias"]
        return md.layer_norm(x, scale, shift, normalized_shape=(WIDTH,), eps=EPS)

    def heads(x):
        return md.permute_dims(md.reshape(x, (len(ids), HEADS, -1)), (1, 0, 2))

    tables = "embeddings.{}_embeddings.weight".format
    x = md.take(weights[tables("word")], md.asarray(ids), axis=0)
    # Only the rows of this sentence become floats, not the whole table.
    x = dequantize(x) if isinstance(x, QuantizedTensor) else x
    x = x + weights[tables("position")][: len(ids)] + weights[tables("token_type")][0]
    x = norm(x, "embeddings")
    for layer in range(LAYERS):
        name = f"encoder.layer.{layer}"
        parts = (f"{name}.attention.self.{part}" for part in ("query", "key", "value"))
        mixed = md.scaled_dot_product_attention(*(heads(dense(x, p)) for p in parts))
        mixed = md.reshape(md.permute_dims(mixed, (1, 0, 2)), (len(ids), WIDTH))
        mixed = dense(mixed, f"{name}.attention.output.dense")
        x = norm(x + mixed, f"{name}.attention.output")
        wide = md.gelu(dense(x, f"{name}.intermediate.dense"))
        x = norm(x + dense(wide, f"{name}.output.dense"), f"{name}.output")
    mean = np.asarray(md.mean(x, axis=0))
    return mean / np.linalg.norm(mean)
