"""Tensors in safetensors files, under the names of the package `safetensors`.

    from mdtensor.safetensors import load_file, safe_open, save_file

    save_file({"weight": w, "bias": b}, "layer.safetensors")
    layer = load_file("layer.safetensors")

    with safe_open("layer.safetensors") as file:  # reads on access
        w = file["weight"]

The package `safetensors` reads headers and writes files; install it with
`pip install mdtensor[safetensors]`. Nothing in a file is ever executed. Files of other
programs load as dense tensors. A tensor of several arrays, such as codes with scales,
is stored as arrays that any program can read, with a note in the metadata that
connects them: see `docs/how-to/storage.md`.

Source: https://github.com/huggingface/safetensors, "Format".
"""

from mdtensor.safetensors.file import (
    SafeTensors as SafeTensors,
    load as load,
    load_file as load_file,
    safe_open as safe_open,
    save as save,
    save_file as save_file,
)
