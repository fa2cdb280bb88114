"""Shape rules: types and shapes in, type and shape out, nothing computed.

A rule is named after what it does and lies in the file of its family;
`TensorSpec.with_dtype` moves between element types on one device. The arithmetic of
shapes is in `mdtensor.generics.shapes`.
"""
