# SPDX-License-Identifier: BSD-3-Clause
"""Layouts: elements of a buffer that do not lie one after the other."""

from __future__ import annotations

import ctypes as C
from operator import index
from typing import Any, Optional, Sequence, Union

from . import _abi
from ._abi import Datatype
from .buffers import SIZES, Memory, Pinned, Spec, datatype_of
from .errors import ArgumentError


class Layout:
    """Where blocks of elements are, in the order in which they travel.

    vector: count blocks, the begins stride apart. indexed: block i begins displs[i] after the
    start. Distances are in elements, or with in_bytes in bytes; they may be negative. Calls take
    [buffer, layout] or [buffer, layout, offset], offset: the bytes from the buffer's begin to the
    start.
    """

    def __init__(self, datatype: Datatype, count: int, block: int, stride: int,
                 blocks: Optional[Sequence[int]], displs: Optional[Sequence[int]],
                 in_bytes: bool) -> None:
        self.datatype = Datatype(datatype)
        self._blocks = None if blocks is None else _abi.array(C.c_size_t, blocks)
        self._displs = None if displs is None else _abi.array(C.c_ssize_t, displs)
        self._struct = _abi.Layout(
            datatype=self.datatype, flags=int(in_bytes), count=count, block=block, stride=stride,
            blocks=None if self._blocks is None else C.addressof(self._blocks),
            displs=None if self._displs is None else C.addressof(self._displs))
        unit = 1 if in_bytes else SIZES[self.datatype]
        begins = [step * stride for step in (0, max(count - 1, 0))] if displs is None \
            else list(displs)
        lengths = [block] * len(begins) if blocks is None else list(blocks)
        ends = [begin * unit + length * SIZES[self.datatype]
                for begin, length in zip(begins, lengths)]
        self.low = min((begin * unit for begin in begins), default=0) if count else 0
        self.high = max(ends, default=0) if count else 0
        self.elements = count * block if blocks is None else sum(blocks)

    @classmethod
    def vector(cls, datatype: Datatype, count: int, block: int, stride: int, *,
               in_bytes: bool = False) -> Layout:
        """count blocks of block elements, the begins stride apart."""
        if count < 0 or block < 0:
            raise ArgumentError(f"a vector of {count} blocks of {block} elements; pass 0 or more")
        return cls(datatype, count, block, stride, None, None, in_bytes)

    @classmethod
    def indexed(cls, datatype: Datatype, displs: Sequence[int],
                blocks: Union[int, Sequence[int]] = 1, *, in_bytes: bool = False) -> Layout:
        """Blocks that begin at these displacements; blocks: elements of each, or of all."""
        if not hasattr(blocks, "__len__"):
            return cls(datatype, len(displs), index(blocks), 0, None, displs, in_bytes)
        if len(blocks) != len(displs):
            raise ArgumentError(f"{len(displs)} displacements for {len(blocks)} blocks")
        return cls(datatype, len(displs), 0, 0, blocks, displs, in_bytes)

    @classmethod
    def of(cls, array: Any) -> Layout:
        """The layout of a NumPy array with gaps, such as matrix[:, 2], from its first element."""
        interface = getattr(array, "__array_interface__", None)
        if interface is None:
            raise ArgumentError(f"the layout of a {type(array).__name__}; pass a NumPy array")
        item = array.dtype.itemsize
        datatype = datatype_of(array.dtype.char if array.dtype.kind != "c"
                               else "Z" + array.real.dtype.char, item)
        shape, strides = interface["shape"], interface["strides"]
        if strides is None:
            return cls.vector(datatype, 1, array.size, 0)
        if len(shape) == 1:
            return cls.vector(datatype, shape[0], 1, strides[0], in_bytes=True)
        if len(shape) == 2 and strides[1] == item:
            return cls.vector(datatype, shape[0], shape[1], strides[0], in_bytes=True)
        displs = [0]
        for extent, stride in zip(shape, strides):
            displs = [displ + step * stride for displ in displs for step in range(extent)]
        return cls.indexed(datatype, displs, in_bytes=True)

    @property
    def address(self) -> int:
        """Where the C struct is; it lives as long as this object."""
        return C.addressof(self._struct)


def with_layout(spec: Spec) -> bool:
    """True for [buffer, layout] and [buffer, layout, offset]."""
    return isinstance(spec, (list, tuple)) and len(spec) > 1 and isinstance(spec[1], Layout)


def laid_out(spec: Any, writable: bool) -> tuple[Memory, Layout]:
    """The memory of [buffer, layout, offset], with the address of the start; checked."""
    owner, layout, *rest = spec
    offset = index(rest[0]) if rest else 0
    pinned = Pinned(owner, writable)
    check_inside(layout, offset, pinned.nbytes)
    address = None if pinned.address is None else pinned.address + offset
    return Memory(address, layout.elements, layout.datatype, pinned), layout


def check_inside(layout: Layout, offset: int, nbytes: int) -> None:
    """Raise ArgumentError unless all blocks are inside the buffer."""
    if layout.elements and (offset + layout.low < 0 or offset + layout.high > nbytes):
        raise ArgumentError(
            f"the layout covers bytes {offset + layout.low} to {offset + layout.high}, which are "
            f"not inside the buffer of {nbytes} bytes")


__all__ = ["Layout"]
