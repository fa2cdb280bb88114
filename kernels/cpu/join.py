"""Tables behind tables are one: a chain of functions of codes takes one step.

What a table writes for another table alone need not exist; the last of a chain is
carried out for all. The codes are those of one step after another.
"""

from collections import Counter

from mdtensor.kernels.cpu.program import interpret
from mdtensor.kernels.cpu.program.steps import Lookup

CODES = 256


# Composing tables code by code is exact, so that a chain costs one step (decision
# 0038).
def joined(steps, outputs):
    """The steps of a Program, where each table does the work of those before it.

    Args:
        steps: (plan, row, input slots, output slot) in order.
        outputs: slots that have to be written.

    Returns: (the steps that are left, by their numbers in order; for each of all steps
    the number of that which does its work, which is often its own).
    """
    readers = Counter(slot.storage for _, _, slots, _ in steps for slot in slots)
    readers.update(slot.storage for slot in outputs)
    left, done_by = dict(enumerate(steps)), list(range(len(steps)))
    writers = {}
    for index, (_, row, slots, result) in enumerate(steps):
        if row[0].kind != interpret.LOOKUP:
            continue
        before = writers.get(slots[0].storage)
        if before is not None and readers[slots[0].storage] == 1:
            left[index] = _both(left.pop(before), steps[index])
            done_by = [index if by == before else by for by in done_by]
        writers[result.storage] = index
    return left, done_by


def _both(first, second):
    plan, _, slots, _ = first
    later, _, _, result = second
    table = later.constants[:CODES][plan.constants[:CODES]]
    return (*Lookup(table).prepared(later.shape), slots, result)
