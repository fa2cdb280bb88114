"""A rival that fell over early would be a fast rival."""

import pytest

from bench.rivals import enums


def kernel(x1: object, x2: object) -> tuple[object, object]:
    return x1, x2


def test_the_rivals_dispatch() -> None:
    enum = enums.pair_registry(enums.DType, kernel)
    number = enums.pair_registry(enums.IntDType, kernel)
    cases = enums.match_dispatch(kernel)
    for name in enums.NAMES:
        x = enums.TaggedTensor(None, enums.DType[name])
        assert enum(x, x) == (x, x)
        assert cases(x, x) == (x, x)
        x = enums.TaggedTensor(None, enums.IntDType[name])
        assert number(x, x) == (x, x)
    for dispatch in (enums.class_pairs, enums.nested_classes):
        poke = dispatch((int, str), kernel)
        assert poke(1, "a") == (1, "a")
        with pytest.raises(KeyError):
            poke(1.0, "a")
