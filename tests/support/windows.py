"""Random windows of convolutions, loaded by the tests of kernels and steps."""


def draw_window(rng, spare_rows=(0, 1, 2, 3, 4)):
    """((h, w), kernel, stride, padding, dilation); the map hardly holds the window.

    Args:
        spare_rows: rows that h may exceed the least height by.
    """
    kernel, stride, padding, dilation = (
        tuple(rng.integers(low, high, count).tolist())
        for low, high, count in ((1, 6, 2), (1, 4, 2), (0, 5, 4), (1, 4, 2))
    )
    reach = [(kernel[i] - 1) * dilation[i] + 1 for i in (0, 1)]
    fit = [max(1, reach[i] - padding[i] - padding[i + 2]) for i in (0, 1)]
    size = fit[0] + int(rng.choice(spare_rows)), fit[1] + int(rng.integers(0, 5))
    return size, kernel, stride, padding, dilation
