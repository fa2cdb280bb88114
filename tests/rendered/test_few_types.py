"""A device that runs rendered loops and has few types, as GPUs without float64 do."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from support.each import each

import mdtensor as md
from mdtensor import extend, registry
from mdtensor.emucuda import EmuCuda


class Few(EmuCuda):
    """One class for all tests: several of one name would be a finding of `diagnose`."""

    name = "few"


@contextlib.contextmanager
def few(*dtypes: md.DType) -> Iterator[md.Device]:
    """An emulated device with these types only; gone afterwards."""

    with registry.restored():
        place = md.register_device(Few())
        extend.siblings(place, "Few", map(md.leaf, dtypes), __name__)
        extend.register_rendered(place)
        yield place


def calls(x: Any, n: Any, yes: Any) -> dict[str, Callable[[], Any]]:
    """Return calls whose results have a type that the device lacks."""
    place = x.device
    return {
        "int64": lambda: md.argmax(x, axis=0),
        "int64 of sort": lambda: md.argsort(x),
        "int64 of counts": lambda: md.count_nonzero(x),
        "float64 of a quotient": lambda: n / n,
        "float64 of a number": lambda: 1 / n,
        "float64 of a cast": lambda: md.astype(x, md.float64),
        "float64 of a sum": lambda: md.sum(x, dtype=md.float64),
        "int64 of bool": lambda: yes + 1,
        "zeros": lambda: md.zeros((2,), dtype=md.int16, device=place),
        "arange": lambda: md.arange(3, device=place),
    }


def test_a_result_of_a_type_that_is_missing() -> None:
    with few(md.bool, md.int8, md.uint8, md.float32) as place:
        x = md.asarray([1.0, 2.0]).to(place)
        n = md.asarray([1, 2], dtype=md.int8).to(place)
        for name, call in calls(x, n, md.asarray([True]).to(place)).items():
            with pytest.raises((md.NoMethodError, md.DeviceError)) as caught:
                call()
            assert "cpu" in str(caught.value), name
        with pytest.raises(md.DeviceError) as caught:
            md.argmax(x, axis=0)
        assert str(caught.value).endswith(
            "int64 has no tensor type on few. Use int8, uint8 or the device cpu."
        )


@each(
    "dtypes",
    [
        (md.bool, md.int8, md.uint8, md.float16),
        (md.bool, md.int64, md.uint16, md.float64),
    ],
)
def test_a_device_without_float32_has_no_codes(dtypes: Any) -> None:
    """Scales are float32."""
    with few(*dtypes) as place:
        assert {x.dtype for x in md.leaves() if x.device is place} == set(dtypes)
        codes = md.quant.QInt8Tensor([1], scale=0.5)
        with pytest.raises(md.DeviceError, match="qint8 has no tensor type on few"):
            codes.to(place)
        x = md.asarray([1, 2], dtype=dtypes[1]).to(place)
        with pytest.raises(md.DeviceError, match="float"):
            md.astype(x, md.float32)
