"""Prefetch rows of A before they are used, so that a core waits for many loads at once."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

LINE = 64  # bytes per cache line
PREFETCH_ROWS = 16  # rows ahead: more than the loads a core keeps in flight
_FUNCTION = "llvm.prefetch.p0"


@intrinsic
def prefetch(_, A, row, byte):  # type: ignore[no-untyped-def]
    """Prefetch the cache line at a byte of a row of A, without waiting for it."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        stride = builder.extract_value(array.strides, 0)
        pointer = ir.IntType(8).as_pointer()
        offset = builder.add(builder.mul(arguments[1], stride), arguments[2])
        place = builder.gep(builder.bitcast(array.data, pointer), [offset])
        number = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [pointer, number, number, number])
        function = builder.module.globals.get(_FUNCTION) or ir.Function(builder.module, kind, _FUNCTION)
        read, keep, data = (ir.Constant(number, value) for value in (0, 3, 1))
        builder.call(function, [place, read, keep, data])
        return context.get_dummy_value()

    return types.void(A, types.int64, types.int64), generate
