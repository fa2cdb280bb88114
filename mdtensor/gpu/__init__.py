"""GPUs of NVIDIA as a device: memory, streams, and exchange with other libraries.

    memory     buffers in blocks of a pool, or in memory of another library
    streams    streams and events of CUDA, shared with CuPy and PyTorch
    device     allocation, copies and launches

Operations come from `mdtensor.rendered`: a GPU runs the texts that the emulated device
runs. `mdtensor.cuda` declares the tensor types.
"""
