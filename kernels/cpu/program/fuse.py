"""Fusion of neighbouring steps of a Program: the bytes stay, a pass over memory goes.

A rule joins a step with the step that wrote one of its inputs, if nothing else reads
that value. The joined step takes the place of the later one.

    lookup table, lookup table             one table
    lookup table, extreme of two inputs    a table of the extreme
    extreme, lookup table                  a table of the extreme
    float product, activation              the tile activates its sums
    float product, sum with another value  the tile adds the value
    elementwise, elementwise               one program of instructions
"""

from collections import Counter

import numpy as np

from mdtensor.kernels.cpu.generic import opcodes
from mdtensor.kernels.cpu.generic.opcodes import HARDSWISH, INPUTS, KEEP
from mdtensor.kernels.cpu.program import kinds
from mdtensor.kernels.cpu.program.elementwise import Formula, prepared
from mdtensor.kernels.cpu.program.steps import Extreme, Lookup

CODES = 256
#: Tables of an Extreme: for both inputs, and for the result.
FIRST, SECOND, LAST = range(3)
#: Products whose tiles add a value; those that activate.
ADDING = (kinds.CONV_F32, kinds.WINDOWS_F32)
PRODUCTS = (*ADDING, kinds.DEPTHWISE_F32)
#: Instructions that round, as the number of an activation has them.
ROUNDINGS = {opcodes.TO_FLOAT16: 1, opcodes.TO_BFLOAT16: 2}
#: The most instructions of an elementwise program.
MOST_INSTRUCTIONS = 16
#: The most inputs of one in a program, whose rows have the places of two.
MOST_INPUTS = 2
#: The most registers and constants of one, so that their blocks stay there.
MOST_BLOCKS = 5


# Joining is exact, so that a chain costs one step (decision 0038). Products activate
# their sums in the tile (decision 0053).
def fuse(steps, outputs):
    """Join steps by the rules above and return the remaining steps.

    Args:
        steps: (plan, row, input slots, output slot) in order.
        outputs: slots that must be written.

    Returns: (remaining, done_by): the remaining steps by number, in the order in which
    they run, and for each step the number of the step that does its work, most often
    its own number. A product keeps its number; otherwise the later step does.
    """
    readers = Counter(slot.storage for _, _, slots, _ in steps for slot in slots)
    readers.update(slot.storage for slot in outputs)
    # By the place where a step runs: its number, and the step.
    left, writers = dict(enumerate(enumerate(steps))), {}
    done_by = list(range(len(steps)))
    for place in range(len(steps)):
        # Of two values that could be joined, the later one was written last.
        inputs = sorted(
            {slot.storage for slot in steps[place][2] if readers[slot.storage] == 1},
            key=lambda storage: -writers.get(storage, -1),
        )
        for storage in inputs:
            before = writers.get(storage)
            if before is None:
                continue
            (first, one), (second, other) = left[before], left[place]
            joined = _join(one, other)
            if joined is not None:
                number = first if one[1][0].kind in PRODUCTS else second
                done_by = [number if by in (first, second) else by for by in done_by]
                del left[before]
                left[place] = number, joined
        writers[steps[place][3].storage] = place
    return dict(left.values()), done_by


def _join(first, second):
    """Return one step for two, where `second` reads what `first` writes; else None."""
    pair = first[1][0].kind, second[1][0].kind
    if pair == (kinds.LOOKUP, kinds.LOOKUP):
        return _join_tables(first, second)
    if pair == (kinds.LOOKUP, kinds.EXTREME):
        return _translate_input(first, second)
    if pair == (kinds.EXTREME, kinds.LOOKUP):
        return _translate_result(first, second)
    if pair[1] != kinds.ELEMENTWISE_F32:
        return None
    if pair[0] in PRODUCTS:
        return _finish_product(first, second)
    if pair[0] == kinds.ELEMENTWISE_F32:
        return _join_programs(first, second)
    return None


def _join_tables(first, second):
    """Return one lookup step with the table of `first` followed by that of `second`."""
    plan, _, slots, _ = first
    later, _, _, result = second
    table = later.constants[:CODES][plan.constants[:CODES]]
    return (*Lookup(table).prepare(later.shape), slots, result)


def _tables_of(plan):
    """Return a copy of the tables of an Extreme, uint8 [3, 256]."""
    return plan.constants[: 3 * CODES].reshape(3, CODES).copy()


def _translate_input(first, second):
    """Return one extreme that reads the input of a lookup step.

    It is one lookup step if both inputs are then the same codes.
    """
    plan, _, (source,), middle = first
    later, row, given, result = second
    tables, slots, shape = _tables_of(later), list(given), later.shape
    for number in (FIRST, SECOND):
        if given[number].storage == middle.storage:
            tables[number] = tables[number][plan.constants[:CODES]]
            slots[number] = source._replace(shape=shape)
    if slots[FIRST].storage == slots[SECOND].storage:
        choose = np.maximum if row[0].is_maximum else np.minimum
        table = tables[LAST][choose(tables[FIRST], tables[SECOND])]
        return (*Lookup(table).prepare(shape), (slots[FIRST],), result)
    step = Extreme(row[0].is_maximum, tables)
    return (*step.prepare(shape, shape), tuple(slots), result)


def _translate_result(first, second):
    """Return one extreme that writes the result of a lookup step."""
    plan, row, slots, _ = first
    later, _, _, result = second
    tables = _tables_of(plan)
    tables[LAST] = later.constants[:CODES][tables[LAST]]
    joined, own = Extreme(row[0].is_maximum, tables).prepare(plan.shape, plan.shape)
    return joined._replace(shape=later.shape), own, slots, result


def _finish_product(first, second):
    """Return a product that adds a value or activates its sums, or both."""
    plan, row, slots, middle = first
    later, _, given, result = second
    formula, fields = later.formula, dict(plan.fields)
    code = fields.get("activation", KEEP)
    # The value that the instructions so far computed from the product.
    value = [slot.storage for slot in given].index(middle.storage)
    if not formula.inputs[value].is_whole:
        return None
    for number, one in enumerate(formula.instructions, start=INPUTS):
        operands = {one.first, one.second}
        if one.operation in ROUNDINGS and one.first == value:
            code = _rounded(code, ROUNDINGS[one.operation])
            if code is None:
                return None
        elif code % opcodes.KINDS != KEEP:
            # Only a rounding may follow an activation.
            return None
        elif one.operation == opcodes.ADD and value in operands:
            others = [x for x in operands - {value} if 0 <= x < len(given)]
            adds = row[0].kind in ADDING
            if not adds or len(slots) > 1 or len(others) != 1:
                return None
            if not formula.inputs[others[0]].is_whole:
                return None
            fields["has_residual"] = 1
            slots = (*slots, given[others[0]])
            # What was rounded before an activation is rounded before the sum.
            before = code >> opcodes.BEFORE_ACTIVATING & 3
            code = before << opcodes.BEFORE_ADDING
        elif KEEP <= one.operation <= HARDSWISH and one.first == value:
            fields |= {"low": one.low, "high": one.high}
            code += one.operation
        else:
            return None
        value = number
    fields["activation"] = code
    row = row.copy()
    for name in ("has_residual", "activation", "low", "high"):
        row[name] = fields.get(name, 0)
    return plan._replace(fields=fields, shape=later.shape), row, slots, result


def _rounded(code, narrow):
    """Return the number of an activation with a rounding of the value so far."""
    is_active = code % opcodes.KINDS != KEEP
    place = opcodes.AT_THE_END if is_active else opcodes.BEFORE_ACTIVATING
    known = code >> place & 3
    return code | narrow << place if known in (0, narrow) else None


def _join_programs(first, second):
    """Return an Elementwise with the instructions of two; None if it cannot be."""
    plan, _, slots, middle = first
    later, _, given, result = second
    before, after = plan.formula, later.formula
    inputs = list(zip(slots, before.inputs, strict=True))
    others = list(zip(given, after.inputs, strict=True))
    # Views may lie between the two, so shapes differ, and places do not.
    known = [(slot.storage, one) for slot, one in inputs]
    places = []
    for slot, one in others:
        if slot.storage == middle.storage:
            # A value that is broadcast is computed once, before.
            if not one.is_whole:
                return None
            places.append(INPUTS + len(before.instructions) - 1)
            continue
        if (slot.storage, one) not in known:
            known.append((slot.storage, one))
            inputs.append((slot, one))
        places.append(known.index((slot.storage, one)))
    if len(inputs) > MOST_INPUTS:
        return None
    formula = Formula(
        (*before.instructions, *moved(after, places, before)),
        tuple(one for _, one in inputs),
        (*before.constants, *after.constants),
        after.elements,
    )
    if len(formula.instructions) > MOST_INSTRUCTIONS:
        return None
    if formula.registers + len(formula.constants) > MOST_BLOCKS:
        return None
    plan, row = prepared(formula, later.shape)
    return plan, row, tuple(slot for slot, _ in inputs), result


def moved(after, places, before):
    """Return the instructions of `after` as they stand behind `before`.

    Args: places: the value that each input of `after` is.
    """

    def value(x):
        if x < 0:
            return x - len(before.constants)
        return places[x] if x < len(places) else x + len(before.instructions)

    # An instruction on one value does not read its second.
    return tuple(
        one._replace(first=value(one.first), second=value(one.reads[-1]))
        for one in after.instructions
    )
