"""The oracle of `kernels/presets`: one code at a time, Python integers and float32."""
