"""The block: what it is told, by whom, and where that is."""

import asyncio
import inspect
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

import mdtensor as md
from mdtensor.errors import LossError, OptionError, RegistrationError

HERE = Path(__file__).name


def line() -> int:
    frame = inspect.currentframe()
    assert frame is not None and frame.f_back is not None
    return frame.f_back.f_lineno


def test_entries_are_lines_operations_and_types() -> None:
    x = md.Int8Tensor([100, 1])
    with md.checked() as log:
        for _ in range(3):
            start, y = line(), x + x
        md.mul(y, x)
    first, second = log
    assert first.place.endswith(f"{HERE}:{start}")
    assert (first.operation, first.types) == ("add", ("Int8Tensor", "Int8Tensor"))
    assert (first.calls, first.elements, first.lost) == (3, 6, {"wrapped": 3})
    assert second.place.endswith(f"{HERE}:{start + 1}")
    assert bool(log) and len(log) == 2
    assert repr(log) == f"<Log of 2 entries, lost {dict(log.lost)}>"


def test_text() -> None:
    with md.checked() as log:
        at, _ = line(), md.Int8Tensor([100, 1]) + 100
        md.sum(md.asarray([3]))
        md.Int8Tensor([1]) + 1
    name = f"tests/checking/{HERE}"
    shown = str(log).replace(str(Path(__file__)), name)
    assert shown == (
        "3 calls checked, 1 of 3 lines lost something\n"
        f"{name}:{at}  add(Int8Tensor, int): 1 wrapped of 2\n"
        f"{name}:{at + 1}  sum(Int64Tensor): nothing lost of 1, 61 of 63 bits left"
    )


def test_an_empty_log_is_false() -> None:
    with md.checked() as log:
        md.asarray([1.0]) + 1.0
    assert not log and log.headroom is None and log.lost == {}


def test_raises() -> None:
    x = md.Int8Tensor([100, 1, 100])
    with pytest.raises(LossError) as caught, md.checked(raises=True):
        x + x
    assert str(caught.value) == (
        "add(Int8Tensor[3], Int8Tensor[3]): 2 of 3 elements wrapped. "
        "Use astype(x, dtype) to a wider type first."
    )
    assert isinstance(caught.value, ArithmeticError)
    with pytest.raises(LossError, match="1 of 1 elements rounded"):
        round_an_operand()


def round_an_operand() -> None:
    with md.checked(raises=True):
        md.asarray([2**24 + 1]) + md.asarray([1.0])


def test_an_operation_in_place_that_raises_writes_nothing() -> None:
    x = md.Int8Tensor([100])
    with pytest.raises(LossError), md.checked(raises=True):
        x += 100
    assert x.tolist() == [100]


def test_results_are_the_same_and_nothing_stays_behind() -> None:
    x = md.Int8Tensor([100])
    plain = (x + x).tolist()
    with md.checked() as log:
        assert (x + x).tolist() == plain
    x + x
    assert sum(entry.calls for entry in log) == 1
    assert md.Operation.observe is None


def test_blocks_nest_and_traces_go_along() -> None:
    x = md.Int8Tensor([100])
    with md.checked() as outer, md.traced() as calls:
        x + x
        with md.checked() as inner:
            x * x
    assert (outer.lost, inner.lost) == ({"wrapped": 2}, {"wrapped": 1})
    assert [call.operation for call in calls] == ["add", "mul"]


def test_other_threads_have_their_own() -> None:
    x = md.Int8Tensor([100])
    with md.checked() as log:
        thread = threading.Thread(target=lambda: x + x)
        thread.start()
        thread.join()
    assert len(log) == 0


def test_tasks_write_to_the_log_they_were_started_in() -> None:
    x = md.Int8Tensor([100])

    async def work() -> None:
        await asyncio.sleep(0)
        x + x

    async def main() -> Any:
        with md.checked() as log:
            await asyncio.gather(work(), work())
        return log

    assert asyncio.run(main()).lost == {"wrapped": 2}


def test_raises_is_true_or_false() -> None:
    with pytest.raises(OptionError) as caught:
        md.checked(raises="no")  # type: ignore[arg-type]
    assert str(caught.value) == "checked: raises is 'no'. Use True or False."


def test_one_block_is_entered_again_and_within_itself() -> None:
    x, block = md.Int8Tensor([100]), md.checked()
    with block as first:
        x + x
        with block as inner:
            x * x
        x - x
    with block as second:
        x + x
    assert [sum(entry.calls for entry in log) for log in (first, inner, second)] == [
        3,
        1,
        1,
    ]
    assert md.Operation.observe is None


def test_one_block_in_threads_and_tasks() -> None:
    x, block, logs = md.Int8Tensor([100]), md.checked(), []
    both = threading.Barrier(2, timeout=10)

    def work(count: int) -> None:
        with block as log:
            both.wait()
            for _ in range(count):
                x + x
            both.wait()
        logs.append((count, sum(entry.calls for entry in log)))

    threads = [threading.Thread(target=work, args=(n,)) for n in (1, 2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(logs) == [(1, 1), (2, 2)]

    async def task(count: int) -> int:
        with block as log:
            for _ in range(count):
                await asyncio.sleep(0)
                x + x
        return sum(entry.calls for entry in log)

    async def main() -> list[int]:
        return await asyncio.gather(task(1), task(2))

    assert asyncio.run(main()) == [1, 2]
    assert md.Operation.observe is None


def test_a_function_is_checked_at_each_call() -> None:
    @md.checked(raises=True)
    def double(x: Any) -> Any:
        return x + x

    assert double(md.Int8Tensor([1])).tolist() == [2]
    for _ in range(2):
        with pytest.raises(LossError):
            double(md.Int8Tensor([100]))
    assert md.Operation.observe is None


def test_audits_are_of_operations() -> None:
    with pytest.raises(RegistrationError) as caught:
        md.audit(len)
    assert str(caught.value) == (
        "len is not an operation. Pass an operation that @generic declared."
    )


AUDITS_OF_QUANT = """
import sys
import mdtensor as md
from mdtensor import quant
grid = quant.QParams(0.5)
with md.checked() as log:
    assert "mdtensor.quant.losses" not in sys.modules
    quant.quantize(md.asarray([1.0, 100.0]), grid)
assert log.lost == {"saturated": 1}, log
"""


def test_audits_of_a_package_are_imported_by_the_first_block(tmp_path: Path) -> None:
    run = [sys.executable, "-c", AUDITS_OF_QUANT]
    subprocess.run(run, cwd=tmp_path, check=True)


AUDITS_OF_A_PACKAGE = """
import sys
import mdtensor as md
from mdtensor.extend import audits_later
audits_later("audits_of_trunc")
assert "audits_of_trunc" not in sys.modules
with md.checked() as log:
    md.trunc(md.asarray([1.5]))
assert log.lost == {"cut": 1}, log
"""


def test_a_package_names_the_module_of_its_audits(tmp_path: Path) -> None:
    (tmp_path / "audits_of_trunc.py").write_text(
        "import mdtensor as md\n"
        "from mdtensor.extend import Lost, audit\n"
        "@audit(md.trunc)\n"
        "def cut(case):\n"
        "    yield Lost('cut', 1)\n"
    )
    # In a process of its own: other tests must not meet this audit.
    run = [sys.executable, "-c", AUDITS_OF_A_PACKAGE]
    subprocess.run(run, cwd=tmp_path, check=True)
