"""Array parameters in PostgreSQL's binary form, put together by hand.

The driver can do it, element by element; this takes a third of the time, and the types never depend
on the values, so that a statement is prepared once.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import Any, ClassVar

from psycopg.abc import AdaptContext, Buffer
from psycopg.adapt import Dumper
from psycopg.pq import Format

_HEADER = Struct("!iiIii")  # dimensions, whether there are NULLs, element type, length, lower bound
_EMPTY = Struct("!iiI")
_LENGTH = Struct("!i").pack
_NULL = _LENGTH(-1)


class Packed:
    """An array ready to be sent."""

    __slots__ = ("data",)
    element: ClassVar[int]
    array: ClassVar[int]

    def __init__(self, parts: list[bytes], size: int) -> None:
        if size:
            header = _HEADER.pack(1, 1, self.element, size, 1)
        else:
            header = _EMPTY.pack(0, 0, self.element)
        self.data = b"".join([header, *parts])


class TextArray(Packed):
    """text[]"""

    element, array = 25, 1009

    def __init__(self, items: Sequence[str | None]) -> None:
        parts = []
        for item in items:
            if item is None:
                parts.append(_NULL)
            else:
                data = item.encode()
                parts.append(_LENGTH(len(data)))
                parts.append(data)
        super().__init__(parts, len(items))


class _Fixed(Packed):
    """An array of numbers."""

    pack: ClassVar[Any]
    width: ClassVar[int]

    def __init__(self, items: Sequence[Any]) -> None:
        pack, width = self.pack, self.width
        parts = [_NULL if item is None else pack(width, item) for item in items]
        super().__init__(parts, len(items))


class BigintArray(_Fixed):
    """bigint[]"""

    element, array = 20, 1016
    pack, width = Struct("!iq").pack, 8


class IntegerArray(_Fixed):
    """integer[]"""

    element, array = 23, 1007
    pack, width = Struct("!ii").pack, 4


class FloatArray(_Fixed):
    """float8[]"""

    element, array = 701, 1022
    pack, width = Struct("!id").pack, 8


class BooleanArray(_Fixed):
    """boolean[]"""

    element, array = 16, 1000
    pack, width = Struct("!i?").pack, 1


class _PackedDumper(Dumper):
    format = Format.BINARY

    def dump(self, obj: Packed) -> Buffer:
        return obj.data


def register(context: AdaptContext) -> None:
    """Let a connection send these."""
    for kind in (TextArray, BigintArray, IntegerArray, FloatArray, BooleanArray):
        dumper = type(f"{kind.__name__}Dumper", (_PackedDumper,), {"oid": kind.array})
        context.adapters.register_dumper(kind, dumper)
