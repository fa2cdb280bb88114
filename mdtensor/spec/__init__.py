"""Shape inference: types and shapes in, types and shapes out, nothing computed."""
