"""Kernels that are compiled ahead of time, and the libraries that hold them.

`python -m mdtensor.kernels.build` compiles the functions of `entries` once for each ISA
and writes a shared library for each into this folder, with a small extension module,
`glue.c`, that calls them, and `entries.json`, which describes all. `library` loads
them; nothing there needs a compiler, nor numba.
"""
