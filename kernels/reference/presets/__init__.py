"""The oracle of `kernels/presets`: one code, Python integers, rationals, float32."""
