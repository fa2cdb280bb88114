"""Loops as data, and their renderers to the languages of devices.

`ir.py` is the intermediate representation: what a loop computes for each element,
without shapes. `walk.py` says where the elements are. `cuda.py` renders a loop to CUDA
C++; the functions that it calls are in `scalar.cuh`. The text is the same for every
compiler, so an emulated device runs what a GPU runs. `wgsl.py` renders a loop to the
language of WebGPU, with the functions of `scalar.wgsl`.
"""
