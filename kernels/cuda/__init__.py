"""GPUs of NVIDIA through CuPy and NVRTC: rendered texts are compiled, loaded, launched.

    driver      what this machine has: the driver, CuPy, a GPU, NVRTC
    nvrtc       NVIDIA's compiler, by its C interface
    compiler    the machine code of a kernel for an architecture, cached by content
    gpu         one GPU: memory, copies, streams, launches
    blas        products of floats by cuBLAS
    exchange    arrays of CuPy on memory of ours, and the reverse

Nothing here imports CuPy before a GPU is used.
"""
