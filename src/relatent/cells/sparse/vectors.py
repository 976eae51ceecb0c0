"""Sums and products of rows on vectors as wide as the registers of this CPU.

LLVM vectorises such short loops with a check for overlap and a remainder per row, which cost more than the sums; BLAS
prepares each product, which costs as much as multiplying a few hundred rows of a small rank. These functions are
written for LLVM's vectors, which exist on every CPU. A product reads whole vectors: after the last row of an array that
it reads, REGISTER_BYTES have to be allocated.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

REGISTER_BYTES = 64  # of the widest register of any CPU
SUM_BYTES = 32  # of a row added at once: wider sums often cross cache lines, and took longer
MAX_REGISTERS = 3  # of a row's columns in a tile: with four rows, the factors fit the 16 registers of most CPUs
TILE_ROWS = {3: 4, 2: 4, 1: 8}  # by the registers: at least eight sums, as two begin per cycle and take four
_CONTRACT = ("contract",)  # a product and a sum may become one instruction


class _Rows:
    """The rows of a matrix, contiguous each."""

    def __init__(self, context: Any, builder: Any, kind: Any, value: Any):
        self.builder, array = builder, context.make_array(kind)(context, builder, value)
        self.element, self.item_bytes = array.data.type.pointee, context.get_abi_sizeof(array.data.type.pointee)
        self._data = builder.bitcast(array.data, ir.IntType(8).as_pointer())
        self._stride = builder.extract_value(array.strides, 0)
        self.width = builder.extract_value(array.shape, array.shape.type.count - 1)

    def row(self, number: Any) -> Any:
        """A pointer to the first element of a row."""
        start = self.builder.gep(self._data, [self.builder.mul(number, self._stride)])
        return self.builder.bitcast(start, self.element.as_pointer())


def _load(builder: Any, pointer: Any, at: Any, kind: Any) -> Any:
    place = builder.bitcast(builder.gep(pointer, [at]), kind.as_pointer())
    return builder.load(place, align=_item_bytes(kind))


def _store(builder: Any, value: Any, pointer: Any, at: Any) -> None:
    place = builder.bitcast(builder.gep(pointer, [at]), value.type.as_pointer())
    builder.store(value, place, align=_item_bytes(value.type))


def _item_bytes(kind: Any) -> int:
    return 8 if isinstance(kind.element if isinstance(kind, ir.VectorType) else kind, ir.DoubleType) else 4


def _splat(builder: Any, scalar: Any, lanes: int) -> Any:
    number = ir.IntType(32)
    kind = ir.VectorType(scalar.type, lanes)
    first = builder.insert_element(ir.Constant(kind, ir.Undefined), scalar, ir.Constant(number, 0))
    return builder.shuffle_vector(first, first, ir.Constant(ir.VectorType(number, lanes), [0] * lanes))


def _add_product(builder: Any, total: Any, a: Any, b: Any) -> Any:
    return builder.fadd(total, builder.fmul(a, b, flags=_CONTRACT), flags=_CONTRACT)


def _register_lanes(context: Any, item_bytes: int) -> int:
    features = context.codegen().magic_tuple()[2]  # by which Numba also tells compiled code of other CPUs apart
    size = 64 if "+avx512f" in features else 32 if "+avx2" in features else 16
    return size // item_bytes


@intrinsic
def take_next(_, counter):  # type: ignore[no-untyped-def]
    """The number in an array of one, which is one more afterwards; threads that share it get each number once."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        place = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        return builder.atomic_rmw("add", place, ir.Constant(place.type.pointee, 1), "monotonic")

    return types.int64(counter), generate


@intrinsic
def add_row(_, Y, row, A, other, kept):  # type: ignore[no-untyped-def]
    """Y_row ← kept Y_row + A_other, for as many elements as Y has columns."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        Y, A = (_Rows(context, builder, signature.args[i], arguments[i]) for i in (0, 2))
        y, a, kept, width = Y.row(arguments[1]), A.row(arguments[3]), arguments[4], Y.width

        def add(at: Any, lanes: int) -> None:
            kind = ir.VectorType(Y.element, lanes)
            old, more = _load(builder, y, at, kind), _load(builder, a, at, kind)
            _store(builder, _add_product(builder, more, _splat(builder, kept, lanes), old), y, at)

        size = min(_register_lanes(context, Y.item_bytes), SUM_BYTES // Y.item_bytes)
        none, step, mask = (ir.Constant(width.type, value) for value in (0, size, -size))
        with cgutils.for_range_slice(builder, none, builder.and_(width, mask), step) as (at, _):
            add(at, size)
        while size > 1:  # the remainder as a sum of powers of two
            mask, size = mask.type(-size), size // 2
            with builder.if_then(builder.icmp_unsigned("!=", builder.and_(width, width.type(size)), none)):
                add(builder.and_(width, mask), size)
        return context.get_dummy_value()

    return types.void(Y, types.int64, A, types.int64, Y.dtype), generate


def _in_tiles(context: Any, builder: Any, rows: Any, right: _Rows, add: Callable[[list[Any], Any, int], None]) -> None:
    """Call `add` with the rows of each tile, its first column and its number of registers."""
    lanes, width = _register_lanes(context, right.item_bytes), right.width

    def number(value: int) -> Any:
        return ir.Constant(width.type, value)

    def with_registers(at: Any, registers: int) -> None:
        if registers > 1:
            is_wider = builder.icmp_signed(">", builder.sub(width, at), number((registers - 1) * lanes))
            with builder.if_else(is_wider) as (wider, narrower):
                with wider:
                    each_row(at, registers)
                with narrower:
                    with_registers(at, registers - 1)
        else:
            each_row(at, registers)

    def each_row(at: Any, registers: int) -> None:
        size = TILE_ROWS[registers]
        with cgutils.for_range_slice(builder, number(0), rows, number(size)) as (row, _):
            add(_tile_numbers(builder, row, size, rows), at, registers)

    with cgutils.for_range_slice(builder, number(0), width, number(MAX_REGISTERS * lanes)) as (at, _):
        with_registers(at, MAX_REGISTERS)


def _tile_numbers(builder: Any, first: Any, size: int, count: Any) -> list[Any]:
    """Numbers from the first one on; the last one again where there are no more."""
    last = builder.sub(count, ir.Constant(count.type, 1))
    numbers = [builder.add(first, ir.Constant(first.type, t)) for t in range(size)]
    return [builder.select(builder.icmp_signed("<", number, last), number, last) for number in numbers]


def _tile(
    context: Any, builder: Any, right: _Rows, size: int, registers: int, at: Any, count: Any, step: Callable[[Any], Any]
) -> list[list[Any]]:
    """Σ over `count` steps of scalars times registers of a row: for each register the sums of all scalars."""
    lanes = _register_lanes(context, right.item_bytes)
    kind = ir.VectorType(right.element, lanes)
    nothing = ir.Constant(kind, [0.0] * lanes)
    new: Callable[..., Any] = cgutils.alloca_once_value
    sums = [[new(builder, nothing) for _ in range(size)] for _ in range(registers)]
    with cgutils.for_range(builder, count) as loop:
        scalars, row = step(loop.index)
        vectors = [_load(builder, row, place, kind) for place in _places(builder, at, registers, lanes)]
        for t, scalar in enumerate(scalars):
            factor = _splat(builder, builder.load(scalar), lanes)
            for totals, vector in zip(sums, vectors, strict=True):
                builder.store(_add_product(builder, builder.load(totals[t]), factor, vector), totals[t])
    return [[builder.load(total) for total in totals] for totals in sums]


def _places(builder: Any, at: Any, registers: int, lanes: int) -> list[Any]:
    return [builder.add(at, ir.Constant(at.type, lanes * number)) for number in range(registers)]


def _add_to_rows(builder: Any, sums: list[list[Any]], rows: list[Any], width: Any, at: Any) -> None:
    """Add registers to rows from an element on, as far as the rows go. Rows may be the same if their sums are, too."""
    lanes = sums[0][0].type.count
    kind = ir.VectorType(rows[0].type.pointee, lanes)
    *before, last = _places(builder, at, len(sums), lanes)
    for totals, place in zip(sums, before, strict=False):
        _add_whole(builder, _as_kind(builder, totals, kind), rows, place)
    totals, rest = _as_kind(builder, sums[-1], kind), builder.sub(width, last)
    with builder.if_else(builder.icmp_signed(">=", rest, ir.Constant(rest.type, lanes))) as (whole, part):
        with whole:
            _add_whole(builder, totals, rows, last)
        with part:
            _add_part(builder, totals, rows, last, rest)


def _as_kind(builder: Any, totals: list[Any], kind: Any) -> list[Any]:
    return totals if totals[0].type == kind else [builder.fpext(total, kind) for total in totals]


def _add_whole(builder: Any, totals: list[Any], rows: list[Any], at: Any) -> None:
    kind = totals[0].type
    new = [builder.fadd(_load(builder, row, at, kind), total) for row, total in zip(rows, totals, strict=True)]
    for row, value in zip(rows, new, strict=True):
        _store(builder, value, row, at)


def _add_part(builder: Any, totals: list[Any], rows: list[Any], at: Any, count: Any) -> None:
    """Add the first elements of registers."""
    number, kind, lanes = ir.IntType(32), totals[0].type, totals[0].type.count
    pointer, bits, name = kind.as_pointer(), ir.VectorType(ir.IntType(1), lanes), f"v{lanes}f{8 * _item_bytes(kind)}.p0"
    loading = ir.FunctionType(kind, [pointer, number, bits, kind])
    storing = ir.FunctionType(ir.VoidType(), [kind, pointer, number, bits])
    declare: Callable[..., Any] = cgutils.get_or_insert_function
    load = declare(builder.module, loading, f"llvm.masked.load.{name}")
    store = declare(builder.module, storing, f"llvm.masked.store.{name}")
    counts = _splat(builder, builder.trunc(count, number), lanes)
    mask = builder.icmp_signed("<", ir.Constant(ir.VectorType(number, lanes), list(range(lanes))), counts)
    align, nothing = ir.Constant(number, _item_bytes(kind)), ir.Constant(kind, [0.0] * lanes)
    places = [builder.bitcast(builder.gep(row, [at]), pointer) for row in rows]
    old = [builder.call(load, [place, align, mask, nothing]) for place in places]
    new = [builder.fadd(value, total) for value, total in zip(old, totals, strict=True)]
    for place, value in zip(places, new, strict=True):
        builder.call(store, [value, place, align, mask])


@intrinsic
def add_products(_, F, ids, Y, count, C):  # type: ignore[no-untyped-def]
    """F_i += y C for the first `count` rows y of Y and their ids i, all different."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        F, Y, C = (_Rows(context, builder, signature.args[i], arguments[i]) for i in (0, 2, 4))
        ids = context.make_array(signature.args[1])(context, builder, arguments[1]).data

        def add(numbers: list[Any], at: Any, registers: int) -> None:
            rows = [Y.row(number) for number in numbers]

            def step(p: Any) -> Any:
                return [builder.gep(row, [p]) for row in rows], C.row(p)

            sums = _tile(context, builder, C, len(rows), registers, at, C.width, step)
            targets = [builder.sext(builder.load(builder.gep(ids, [number])), at.type) for number in numbers]
            _add_to_rows(builder, sums, [F.row(i) for i in targets], C.width, at)

        _in_tiles(context, builder, arguments[3], C, add)
        return context.get_dummy_value()

    return types.void(F, ids, Y, types.int64, C), generate


@intrinsic
def add_outer_products(_, M, A, ids, Y, count):  # type: ignore[no-untyped-def]
    """M += Σ a_iᵀ y over the first `count` rows y of Y and their ids i."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        M, A, Y = (_Rows(context, builder, signature.args[i], arguments[i]) for i in (0, 1, 3))
        ids = context.make_array(signature.args[2])(context, builder, arguments[2]).data

        def add(numbers: list[Any], at: Any, registers: int) -> None:
            def step(index: Any) -> Any:
                a = A.row(builder.sext(builder.load(builder.gep(ids, [index])), at.type))
                return [builder.gep(a, [number]) for number in numbers], Y.row(index)

            sums = _tile(context, builder, Y, len(numbers), registers, at, arguments[4], step)
            _add_to_rows(builder, sums, [M.row(number) for number in numbers], Y.width, at)

        _in_tiles(context, builder, Y.width, Y, add)
        return context.get_dummy_value()

    return types.void(M, A, ids, Y, types.int64), generate
