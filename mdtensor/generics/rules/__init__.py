"""Shape rules: types and shapes in, type and shape out, nothing computed.

Each rule is in the file of its family. Rules change the element type of a spec with
`TensorSpec.with_dtype`, which keeps the device, and compute sizes with
`mdtensor.spec.shapes`.
"""
