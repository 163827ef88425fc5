# SPDX-License-Identifier: BSD-3-Clause
"""One-sided access: windows. Offsets are in bytes from the base of the target's window."""

from __future__ import annotations

import ctypes as C
from typing import Any, Optional, Sequence

from . import _abi
from ._abi import Op
from ._library import check, lib
from .buffers import SIZES, Buffer, Memory, Pinned, Spec, memory
from .communicator import Comm
from .context import _ByteArrays
from .errors import Error
from .request import Request


class Win:
    """Memory that every rank of a communicator exposes to the others."""

    def __init__(self, comm: Comm, handle: C.c_void_p, size: int, base: Optional[int] = None,
                 pinned: Optional[Pinned] = None) -> None:
        self.comm = comm
        self.size = size
        self._handle: Optional[int] = handle.value
        self._base = base
        self._pinned = pinned
        self._arrays = _ByteArrays()
        # What the library reads or writes until a flush.
        self._keep: list = []

    @classmethod
    def Create(cls, buffer: Optional[Buffer], comm: Comm, *, read_only: bool = False,
               accumulate: bool = False) -> Win:
        """Expose buffer (None: nothing). Collective."""
        pinned = None if buffer is None else Pinned(buffer, not read_only)
        size = pinned.nbytes if pinned else 0
        handle = C.c_void_p()
        check(lib.win_create(comm._pointer(), pinned and pinned.address, size,
                             int(read_only) | 2 * int(accumulate), C.addressof(handle)),
              comm._pointer())
        return cls(comm, handle, size, pinned=pinned)

    @classmethod
    def _allocated(cls, call: Any, size: int, comm: Comm, accumulate: bool) -> Win:
        handle, base = C.c_void_p(), C.c_void_p()
        check(call(comm._pointer(), size, 2 * int(accumulate), C.addressof(base),
                   C.addressof(handle)), comm._pointer())
        return cls(comm, handle, size, base=base.value)

    @classmethod
    def Allocate(cls, size: int, comm: Comm, *, accumulate: bool = False) -> Win:
        """Expose size zero bytes of the library's. Collective."""
        return cls._allocated(lib.win_allocate, size, comm, accumulate)

    @classmethod
    def Allocate_shared(cls, size: int, comm: Comm, *, accumulate: bool = False) -> Win:
        """As Allocate; ranks of one host load and store each other's parts: Shared_query."""
        return cls._allocated(lib.win_allocate_shared, size, comm, accumulate)

    def _pointer(self) -> int:
        if self._handle is None or not self.comm.context.alive:
            raise Error("the window has ended: it was freed, or its context was finalized")
        return self._handle

    def tomemory(self) -> memoryview:
        """This rank's memory of an allocated window, for numpy.frombuffer."""
        self._pointer()
        if not self.size or not self._base:
            return memoryview(bytearray())
        return self._arrays.make(self._base, self.size)

    def Shared_query(self, rank: int) -> memoryview:
        """The part of a rank of a shared window."""
        base, size = C.c_void_p(), C.c_size_t()
        check(lib.win_shared_query(self._pointer(), rank, C.addressof(base), C.addressof(size)))
        if not size.value or not base.value:
            return memoryview(bytearray())
        return self._arrays.make(base.value, size.value)

    def Free(self) -> None:
        """Free the window. Collective."""
        self._arrays.check_unused("freeing a window")
        check(lib.win_free(self._pointer()), self.comm._pointer())
        self._handle = None
        self._keep.clear()
        if self._pinned is not None:
            self._pinned.release()

    def __enter__(self) -> Win:
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if kind is None and self._handle is not None and self.comm.context.alive:
            self.Free()

    def _check(self, code: int) -> None:
        check(code, self.comm._pointer() if self.comm.alive else None)

    def _held(self, spec: Spec, writable: bool) -> tuple[Memory, int]:
        data = memory(spec, writable)
        self._keep.append(data)
        return data, data.count * SIZES[data.datatype or _abi.Datatype.UINT8]

    def Put(self, origin: Spec, rank: int, offset: int = 0) -> None:
        """Write origin to the window of rank; origin may be reused after a flush."""
        data, nbytes = self._held(origin, False)
        self._check(lib.put(self._pointer(), rank, data.address, nbytes, offset))

    def Put_notify(self, origin: Spec, rank: int, offset: int = 0,
                   id: Optional[int] = None) -> None:
        """As Put; then the target's count of this id, or of this rank, rises by 1."""
        data, nbytes = self._held(origin, False)
        if id is None:
            code = lib.put_notify(self._pointer(), rank, data.address, nbytes, offset)
        else:
            code = lib.put_notify_id(self._pointer(), rank, data.address, nbytes, offset, id)
        self._check(code)

    def Wait_notify(self, rank: Optional[int] = None, count: int = 1,
                    id: Optional[int] = None) -> None:
        """Wait for count notifications of a rank, or of an id, and consume them."""
        if (rank is None) == (id is None):
            raise ValueError("Wait_notify: pass either a rank or an id")
        if id is None:
            self._check(lib.wait_notify(self._pointer(), rank, count))
        else:
            self._check(lib.wait_notify_id(self._pointer(), id, count))

    def Get(self, origin: Spec, rank: int, offset: int = 0) -> None:
        """Read the window of rank into origin; complete after a flush."""
        data, nbytes = self._held(origin, True)
        self._check(lib.get(self._pointer(), rank, data.address, nbytes, offset))

    def _strided(self, call: Any, origin: Spec, rank: int, offset: int, block: int, count: int,
                 local_stride: int, stride: int, writable: bool) -> None:
        data, nbytes = self._held(origin, writable)
        if count > 0 and (local_stride < 0 or (count - 1) * local_stride + block > nbytes):
            raise ValueError(f"{count} blocks of {block} bytes, {local_stride} apart, are not "
                             f"inside the buffer of {nbytes} bytes")
        strides = _abi.Strides(block=block, count=count, local_stride=local_stride, stride=stride)
        self._check(call(self._pointer(), rank, data.address, offset, C.addressof(strides)))

    def Put_strided(self, origin: Spec, rank: int, offset: int, *, block: int, count: int,
                    local_stride: int, stride: int) -> None:
        """As Put, of count blocks of bytes at equal distances here and there."""
        self._strided(lib.put_strided, origin, rank, offset, block, count, local_stride, stride,
                      False)

    def Get_strided(self, origin: Spec, rank: int, offset: int, *, block: int, count: int,
                    local_stride: int, stride: int) -> None:
        """As Get, of count blocks of bytes at equal distances here and there."""
        self._strided(lib.get_strided, origin, rank, offset, block, count, local_stride, stride,
                      True)

    def Accumulate(self, origin: Spec, rank: int, offset: int = 0, op: int = Op.SUM) -> None:
        """Combine origin with the window of rank; local memory may be reused after a flush."""
        data, _ = self._held(origin, False)
        self._check(lib.accumulate(self._pointer(), rank, data.address, data.count, data.datatype,
                                   op, offset))

    def Get_accumulate(self, origin: Spec, result: Spec, rank: int, offset: int = 0,
                       op: int = Op.SUM) -> None:
        """As Accumulate; result receives the old elements. NO_OP only gets: origin is None."""
        data, old = memory(origin, False), memory(result, True)
        self._keep += [data, old]
        if data.pinned is not None and data.count != old.count:
            raise ValueError(f"origin has {data.count} elements, result {old.count}")
        self._check(lib.get_accumulate(self._pointer(), rank, data.address, old.address, old.count,
                                       old.datatype, op, offset))

    def Fetch_add(self, value: int, rank: int, offset: int = 0) -> int:
        """Add value to the 64-bit word at offset, modulo 2**64: its value before."""
        old = C.c_uint64()
        self._check(lib.fetch_add(self._pointer(), rank, value & (2**64 - 1), offset,
                                  C.addressof(old)))
        return old.value

    def Compare_and_swap(self, compare: int, value: int, rank: int, offset: int = 0) -> int:
        """The word at offset becomes value if it equals compare: its value before."""
        old = C.c_uint64()
        self._check(lib.compare_swap(self._pointer(), rank, compare, value, offset,
                                     C.addressof(old)))
        return old.value

    def _request(self, call: Any, spec: Spec, rank: int, offset: int, writable: bool) -> Request:
        data = memory(spec, writable)
        nbytes = data.count * SIZES[data.datatype or _abi.Datatype.UINT8]
        pointer = self._pointer()
        return Request._begin(lambda at: call(pointer, rank, data.address, nbytes, offset, at),
                              self.comm, [data])

    def Rput(self, origin: Spec, rank: int, offset: int = 0) -> Request:
        """As Put, with a request that is complete when the bytes are in place."""
        return self._request(lib.iput, origin, rank, offset, False)

    def Rget(self, origin: Spec, rank: int, offset: int = 0) -> Request:
        """As Get, with a request that is complete when origin has the bytes."""
        return self._request(lib.iget, origin, rank, offset, True)

    def Raccumulate(self, origin: Spec, rank: int, offset: int = 0, op: int = Op.SUM) -> Request:
        """As Accumulate, with a request."""
        data, pointer = memory(origin, False), self._pointer()
        return Request._begin(
            lambda at: lib.iaccumulate(pointer, rank, data.address, data.count, data.datatype, op,
                                       offset, at), self.comm, [data])

    def Flush(self, rank: int) -> None:
        """Wait until this rank's operations on rank are complete."""
        self._check(lib.win_flush(self._pointer(), rank))

    def Flush_all(self) -> None:
        """Wait until this rank's operations on all ranks are complete."""
        self._check(lib.win_flush_all(self._pointer()))
        self._keep.clear()


__all__: Sequence[str] = ["Win"]
