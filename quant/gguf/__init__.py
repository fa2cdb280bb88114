"""Tensors in GGUF files, the format of llama.cpp, read and written exactly.

    file = quant.read_gguf("model.gguf")     # maps the file, decodes nothing
    w = file["blk.0.attn_q.weight"]          # Blocks: type Q4_0, shape (4096, 4096)
    w.tensor()                               # QInt4Tensor on a grid of blocks of 32
    w.dequantize()                           # Float32Tensor, for any type of blocks
    quant.write_gguf("other.gguf", {"w": x}, {"general.name": "mine"})

It needs the package gguf, which decodes the bits of a block.
"""

from mdtensor.quant.gguf.blocks import Blocks as Blocks
from mdtensor.quant.gguf.file import (
    GGUFFile as GGUFFile,
    read_gguf as read_gguf,
    write_gguf as write_gguf,
)
