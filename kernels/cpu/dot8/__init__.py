"""Kernels on the 8-bit dot product, or on the instructions that replace it.

They are written once, in vectors of 16 lanes of 32 bits, which may take several
registers. `isa.DOT_ISA` is the instruction set in use. Only three files differ between
instruction sets: `products.py` (how bytes are multiplied), `avx512.py` and `plain.py`
(everything else).
"""
