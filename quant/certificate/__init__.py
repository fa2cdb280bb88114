"""What `mdtensor verify` runs: every integer kernel, on every runway, on fixed inputs.

A case is an input, a way to compute, and the result that the oracle gives for it:
`kernels/reference`, Python integers and fractions. The hash of all results is published
(`published.py`), and a machine conforms if each runway and number of threads gives it.

    input    bytes of SHAKE-256 of the case's name, as integers; see `draw.py`
    hash     SHA-256 over the cases in the order of their names: for each the text
             `kernel: name <dtype> <shape>` and a newline, then its elements, row by
             row, little-endian; see `digest.py`

Nothing in it depends on a random generator, a version of NumPy or the order of threads.
"""
