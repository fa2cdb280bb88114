"""The cases of `mdtensor verify`: every integer kernel, on every ISA, on fixed inputs.

A case has an input, a way to compute, and the result that the oracle gives for it:
`kernels/reference`, Python integers and fractions. The hash of all results is published
(`verify.py`). A machine conforms if each ISA and each number of threads gives that
hash.

    input    bytes of SHAKE-256 of the case's name, as integers; see `case.py`
    hash     SHA-256 over the cases in the order of their names: for each the text
             `kernel: name <dtype> <shape>` and a newline, then its elements, row by
             row, little-endian; see `digest` in `case.py`

Nothing in it depends on a random generator, a version of NumPy or the order of threads.
"""
