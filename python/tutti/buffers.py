# SPDX-License-Identifier: BSD-3-Clause
"""Memory of Python objects, found through the buffer protocol and never copied."""

from __future__ import annotations

import ctypes as C
import re
import sys
from operator import index
from typing import Any, Optional, Sequence, Union

from ._abi import IN_PLACE_ADDRESS, Datatype
from .errors import ArgumentError


class _InPlace:
    """As a send buffer: the result replaces the input in the receive buffer."""

    def __repr__(self) -> str:
        return "tutti.IN_PLACE"


IN_PLACE = _InPlace()

# A contiguous object with the buffer protocol, or a list: [object, datatype],
# [object, count, datatype]; in v forms also [object, counts, displacements, datatype].
Buffer = Any
Spec = Union[Buffer, Sequence[Any], _InPlace, None]

_WRITABLE, _FORMAT, _C_CONTIGUOUS = 0x1, 0x4, 0x38


class _PyBuffer(C.Structure):
    _fields_ = [
        ("buf", C.c_void_p), ("obj", C.c_void_p), ("len", C.c_ssize_t), ("itemsize", C.c_ssize_t),
        ("readonly", C.c_int), ("ndim", C.c_int), ("format", C.c_char_p),
        ("shape", C.POINTER(C.c_ssize_t)), ("strides", C.POINTER(C.c_ssize_t)),
        ("suboffsets", C.POINTER(C.c_ssize_t)), ("internal", C.c_void_p),
    ]


_get_buffer = C.pythonapi.PyObject_GetBuffer
_get_buffer.argtypes = [C.py_object, C.POINTER(_PyBuffer), C.c_int]
_get_buffer.restype = C.c_int
_release_buffer = C.pythonapi.PyBuffer_Release
_release_buffer.argtypes = [C.POINTER(_PyBuffer)]
_release_buffer.restype = None

_SIGNED = {1: Datatype.INT8, 2: Datatype.INT16, 4: Datatype.INT32, 8: Datatype.INT64}
_UNSIGNED = {1: Datatype.UINT8, 2: Datatype.UINT16, 4: Datatype.UINT32, 8: Datatype.UINT64}
_OTHER = {
    "?": Datatype.BOOL, "e": Datatype.FLOAT16, "f": Datatype.FLOAT32, "d": Datatype.FLOAT64,
    "Zf": Datatype.COMPLEX64, "Zd": Datatype.COMPLEX128, "c": Datatype.UINT8,
}
_PAIRS = {
    ("i", 8): Datatype.INT32_INDEX, ("f", 8): Datatype.FLOAT32_INDEX,
    ("l", 16): Datatype.INT64_INDEX, ("q", 16): Datatype.INT64_INDEX,
    ("d", 16): Datatype.FLOAT64_INDEX,
}
_FOREIGN = ">!" if sys.byteorder == "little" else "<"
_PAIR = re.compile(r"T\{[=<@>]?(.):\w+:[=<@>]?([ilq]):\w+:\}$")
SIZES = {
    Datatype.INT8: 1, Datatype.UINT8: 1, Datatype.INT16: 2, Datatype.UINT16: 2, Datatype.INT32: 4,
    Datatype.UINT32: 4, Datatype.INT64: 8, Datatype.UINT64: 8, Datatype.BOOL: 1,
    Datatype.FLOAT16: 2, Datatype.BFLOAT16: 2, Datatype.FLOAT32: 4, Datatype.FLOAT64: 8,
    Datatype.COMPLEX64: 8, Datatype.COMPLEX128: 16, Datatype.INT32_INDEX: 8,
    Datatype.INT64_INDEX: 16, Datatype.FLOAT32_INDEX: 8, Datatype.FLOAT64_INDEX: 16,
}


def datatype_of(form: str, itemsize: int) -> Datatype:
    """The datatype of a buffer's format, as module struct and NumPy write it."""
    pair = _PAIR.match(form)
    found: Optional[Datatype] = None
    if pair:
        found = _PAIRS.get((pair.group(1), itemsize))
    else:
        plain = form.lstrip("@=<>!")
        if plain in _OTHER:
            found = _OTHER[plain]
        elif plain in "bhilqn" and len(plain) == 1:
            found = _SIGNED.get(itemsize)
        elif plain in "BHILQN" and len(plain) == 1:
            found = _UNSIGNED.get(itemsize)
    if found is None or any(order in form for order in _FOREIGN):
        raise ArgumentError(
            f"elements of format '{form}' ({itemsize} bytes) have no datatype here; convert the "
            "array, or pass [buffer, datatype]"
        )
    return found


class Pinned:
    """The memory of an object, which can neither move nor be freed until release."""

    def __init__(self, owner: Buffer, writable: bool) -> None:
        self._view = _PyBuffer()
        self._held = False
        flags = _C_CONTIGUOUS | _FORMAT | (_WRITABLE if writable else 0)
        try:
            _get_buffer(owner, C.byref(self._view), flags)
        except (BufferError, TypeError, ValueError) as error:
            raise ArgumentError(
                f"a buffer of type {type(owner).__name__} cannot be used: {error}; pass a "
                "contiguous array" + (" that can be written" if writable else "")
            ) from None
        self._held = True
        self.address: Optional[int] = self._view.buf
        self.nbytes: int = self._view.len
        self.itemsize: int = self._view.itemsize

    def datatype(self) -> Datatype:
        """The datatype of the object's elements."""
        return datatype_of((self._view.format or b"B").decode(), self.itemsize)

    def release(self) -> None:
        """Let the object go."""
        if self._held:
            self._held = False
            _release_buffer(C.byref(self._view))

    __del__ = release


class Memory:
    """What a call gets: an address, elements, their datatype, and perhaps counts of blocks."""

    def __init__(self, address: Optional[int], count: int, datatype: Optional[Datatype],
                 pinned: Optional[Pinned] = None, counts: Optional[Sequence[int]] = None,
                 displs: Optional[Sequence[int]] = None) -> None:
        self.address = address
        self.count = count
        self.datatype = datatype
        self.pinned = pinned
        self.counts = counts
        self.displs = displs

    @property
    def in_place(self) -> bool:
        """True for IN_PLACE."""
        return self.address == IN_PLACE_ADDRESS and self.pinned is None


# The buffer of a rank that has none in this call.
NOTHING = Memory(None, 0, None)


def _integers(values: Optional[Sequence[int]]) -> Optional[list]:
    return None if values is None else [index(value) for value in values]


def _parts(spec: Sequence[Any]) -> tuple:
    """owner, count, counts, displs, datatype of a list."""
    owner, *rest = spec
    datatype = rest.pop() if rest and isinstance(rest[-1], Datatype) else None
    if len(rest) == 1 and isinstance(rest[0], (tuple, list)) and len(rest[0]) == 2 and \
            all(hasattr(part, "__len__") or part is None for part in rest[0]):
        rest = list(rest[0])
    if not rest or (len(rest) == 1 and rest[0] is None):
        return owner, None, None, None, datatype
    if len(rest) == 1 and not hasattr(rest[0], "__len__"):
        return owner, index(rest[0]), None, None, datatype
    if len(rest) <= 2 and hasattr(rest[0], "__len__"):
        displs = rest[1] if len(rest) == 2 else None
        return owner, None, _integers(rest[0]), _integers(displs), datatype
    raise ArgumentError(
        f"a buffer of {len(spec)} parts is not understood; pass [buffer, datatype], [buffer, "
        "count, datatype] or [buffer, counts, displacements, datatype]"
    )


def memory(spec: Spec, writable: bool, *, in_place: bool = False) -> Memory:
    """The memory that spec describes. in_place: it may be IN_PLACE."""
    if spec is None:
        raise ArgumentError("a buffer is None; pass a contiguous array, an empty one for nothing")
    if isinstance(spec, _InPlace):
        if not in_place:
            raise ArgumentError("IN_PLACE is no buffer of this call; pass a contiguous array")
        return Memory(IN_PLACE_ADDRESS, 0, None)
    owner, count, counts, displs, datatype = spec, None, None, None, None
    if isinstance(spec, (list, tuple)):
        if not spec:
            raise ArgumentError("an empty list is no buffer; pass [buffer, datatype]")
        owner, count, counts, displs, datatype = _parts(spec)
    pinned = Pinned(owner, writable)
    if datatype is None:
        datatype = pinned.datatype()
    size = SIZES[datatype]
    if pinned.nbytes % size:
        raise ArgumentError(
            f"a buffer of {pinned.nbytes} bytes is no whole number of {datatype.name} "
            f"({size} bytes)"
        )
    room = pinned.nbytes // size
    if count is not None and not 0 <= count <= room:
        raise ArgumentError(f"count {count} does not fit a buffer of {room} elements")
    _check_blocks(counts, displs, room)
    return Memory(pinned.address, room if count is None else count, datatype, pinned, counts,
                  displs)


def _check_blocks(counts: Optional[list], displs: Optional[list], room: int) -> None:
    if counts is None:
        return
    if displs is None:
        displs, begin = [], 0
        for one in counts:
            displs.append(begin)
            begin += one
    if len(displs) != len(counts):
        raise ArgumentError(f"{len(counts)} counts, but {len(displs)} displacements")
    for block, (one, begin) in enumerate(zip(counts, displs)):
        if one < 0 or begin < 0 or begin + one > room:
            raise ArgumentError(
                f"block {block} (displacement {begin}, count {one}) is not inside the buffer of "
                f"{room} elements"
            )
