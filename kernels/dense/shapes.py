"""Shapes of arrays with any number of axes; NumPy's own functions stop at 32."""


def joint_shape(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """The shape to which all of `shapes` broadcast, which they do.

    Source: NumPy, `broadcast_shapes`.
    """
    rank = max(map(len, shapes))
    padded = ((1,) * (rank - len(shape)) + shape for shape in shapes)
    columns = zip(*padded, strict=True)
    return tuple(next((n for n in column if n != 1), 1) for column in columns)
