"""CUDA C++ text on the CPU: a header for g++, and the compiler that includes it.

`cuda_host.h` runs the blocks of a launch one after another, and the threads of a block
in an order that you choose. It shows what a kernel computes, not how fast a GPU is.
"""
