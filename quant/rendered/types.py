"""The quantized tensor types of devices, beside those of the host.

4-bit codes, two in a byte, are weights there: they move, become floats, and are read by
`linear`. 8-bit floats have no types there yet.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from mdtensor import (
    Device,
    Operation,
    Tensor,
    TensorSpec,
    cpu,
    dtypes,
    leaf,
    leaves,
)
from mdtensor.errors import DeviceError, NoMethodError, describe, no_method_on
from mdtensor.extend import siblings
from mdtensor.quant import rules
from mdtensor.quant.qparams import QParams
from mdtensor.quant.tensor import (
    PackedTensor,
    QInt4Tensor,
    QInt8Tensor,
    QInt16Tensor,
    QInt32Tensor,
    QUInt4Tensor,
    QUInt8Tensor,
)

#: The types of codes that devices have: of 8 bits, of at most 16, and all.
NARROW = (QInt8Tensor, QUInt8Tensor)
SHORT = (*NARROW, QInt16Tensor)
AFFINE = (*SHORT, QInt32Tensor)
PACKED = (QInt4Tensor, QUInt4Tensor)


def has_scales(device: Device) -> bool:
    """Return whether a device has float32, the type of scales and real values."""
    return any(x.dtype is dtypes.float32 and x.device is device for x in leaves())


def declare(device: Device) -> None:
    """Declare the types that a device lacks; their names begin as its floats' do."""
    known = {kind.dtype for kind in leaves() if kind.device is device}
    wanted = [host for host in (*PACKED, *AFFINE) if host.dtype not in known]
    prefix = leaf(dtypes.float32, device).__name__.removesuffix("Float32Tensor")
    # As attributes of this module, so that tensors pickle.
    globals().update(siblings(device, prefix, wanted, __name__))


def types_on(device: Device, hosts: tuple[type[Tensor], ...]) -> tuple[Any, ...]:
    """Return the types of a device beside these types of the host."""
    return tuple(host.with_device(device) for host in hosts)


@dataclass(frozen=True)
class DeviceRule:
    """The shape rule of a method on a device: that of the host, on its types.

    Args:
        operation: the operation.
        device: the device.
    """

    operation: Operation
    device: Device

    def __call__(self, *specs: Any, **options: Any) -> Any:
        """Return the spec of the result, or several.

        Raises:
            NoMethodError: the result has a type that the device does not have, or
                4-bit codes, which no launch writes.
            MdtensorError: the rule of the host raises it.
        """
        hosts = tuple(map(partial(_moved, cpu), specs))
        kinds = (x.type if isinstance(x, TensorSpec) else type(x) for x in hosts)
        found = self.operation.select(*kinds).deduce(*hosts, **options)
        several = found if isinstance(found, tuple) else (found,)
        try:
            moved = tuple(map(partial(_moved, self.device), several))
        except DeviceError:
            # `infer` adds the call.
            raise no_method_on(self.device, "") from None
        if any(issubclass(one.type, PackedTensor) for one in moved):
            raise no_method_on(self.device, "")
        return moved if isinstance(found, tuple) else moved[0]


def _moved(device: Device, spec: Any) -> Any:
    if not isinstance(spec, TensorSpec):
        return spec
    return replace(spec, type=spec.type.with_device(device))


def add(
    device: Device, operation: Any, types: tuple[Any, ...], run: Callable[..., Any]
) -> None:
    """Add a method for a device, with the shape rule of the host."""
    # Here, because most programs have no such device (decision 0091).
    from mdtensor.extend import add_rendered

    rule = DeviceRule(operation.operation, device)
    add_rendered(operation, types, run, deduce=rule)


def no_method(name: str, *arguments: Any) -> NoMethodError:
    """Return the error of arguments that a method of a device does not take."""
    device = next(x.device for x in arguments if isinstance(x, Tensor))
    types = tuple(map(type, arguments))
    return no_method_on(device, describe(name, *arguments), types)


def is_exact(out: QParams | None) -> bool:
    """Return whether a result is rounded by the rule `exact`, or not at all."""
    return out is None or (out.rounding or rules.current()) == rules.EXACT
