"""Tensors in GGUF files, the format of llama.cpp: what blocks say, exactly.

    file = quant.read_gguf("model.gguf")     # maps the file, decodes nothing
    w = file["blk.0.attn_q.weight"]          # Blocks: type Q4_0, shape (4096, 4096)
    w.tensor()                               # QInt4Tensor on a grid of blocks of 32
    w.dequantize()                           # Float32Tensor, of any type of blocks
    quant.write_gguf("other.gguf", {"w": x}, {"general.name": "mine"})

Needs the package gguf, which knows what the bits of a block mean.
"""

from mdtensor.quant.gguf.blocks import Blocks as Blocks
from mdtensor.quant.gguf.file import (
    GGUFFile as GGUFFile,
    read_gguf as read_gguf,
    write_gguf as write_gguf,
)
