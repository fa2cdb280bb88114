"""Tensors in safetensors files, under the names of the package `safetensors`.

    from mdtensor.safetensors import load_file, safe_open, save_file

    save_file({"weight": w, "bias": b}, "layer.safetensors")
    layer = load_file("layer.safetensors")

    with safe_open("layer.safetensors") as file:  # reads what is asked for
        w = file["weight"]

A file is 8 bytes that say how long its header is, the header in JSON, and the elements
of all arrays; nothing in it is ever executed. Files of others load as dense tensors.
Tensors of more than one array, such as codes with scales, are arrays that anyone can
read, and a note in the metadata of what they are together: see
`docs/how-to/storage.md`.

Source: https://github.com/huggingface/safetensors, "Format".
"""

from mdtensor.safetensors.reading import (
    SafeTensors as SafeTensors,
    load as load,
    load_file as load_file,
    safe_open as safe_open,
)
from mdtensor.safetensors.writing import save as save, save_file as save_file
