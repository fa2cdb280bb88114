"""Quantized tensors: an extension of mdtensor that uses its public names only."""

if __name__ != "mdtensor.quant":
    raise ImportError("import mdtensor.quant, not quant: two copies break dispatch")
