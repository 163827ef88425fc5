# SPDX-License-Identifier: BSD-3-Clause
"""One-sided access: windows. Offsets are in bytes from the base of the target's window."""

from __future__ import annotations

import ctypes as C
from typing import Any, Callable, Optional, Sequence

from . import _abi
from ._abi import Op
from ._library import Owned, check, in_use, instance, lib
from .buffers import NOTHING, SIZES, Buffer, Memory, Pinned, Spec, memory
from .communicator import Comm
from .context import _ByteArrays
from .errors import ArgumentError, Error
from .layout import Layout, laid_out, with_layout
from .request import Request


def _and_result(origin: Spec, result: Spec) -> tuple[Memory, Memory]:
    """The buffers of a get_accumulate; origin may be None."""
    old = memory(result, True)
    if origin is None:
        return NOTHING, old
    data = memory(origin, False)
    if data.count != old.count or data.datatype != old.datatype:
        raise ArgumentError(f"origin has {data.count} {data.datatype!r}, result {old.count} "
                            f"{old.datatype!r}; pass equal ones")
    return data, old


class Win(Owned):
    """Memory that every rank of a communicator exposes to the others."""

    def __init__(self, comm: Comm, handle: C.c_void_p, size: int, base: Optional[int] = None,
                 pinned: Optional[Pinned] = None) -> None:
        self.comm = comm
        self.size = size
        self._handle: Optional[int] = handle.value
        self._base = base
        self._pinned = pinned
        self._arrays = _ByteArrays()
        # What the library reads or writes until a flush, by target.
        self._keep: dict[int, list] = {}
        in_use.add(self)

    @classmethod
    def Create(cls, buffer: Optional[Buffer], comm: Comm, *, read_only: bool = False,
               accumulate: bool = False) -> Win:
        """Expose buffer (None: nothing). Collective."""
        pinned = None if buffer is None else Pinned(buffer, not read_only)
        size = pinned.nbytes if pinned else 0
        handle = C.c_void_p()
        pointer = Comm._of(comm, "comm")
        check(lib.win_create(pointer, pinned and pinned.address, size,
                             int(read_only) | 2 * int(accumulate), C.addressof(handle)),
              pointer)
        return cls(comm, handle, size, pinned=pinned)

    @classmethod
    def _allocated(cls, call: Any, size: int, comm: Comm, accumulate: bool) -> Win:
        handle, base = C.c_void_p(), C.c_void_p()
        pointer = Comm._of(comm, "comm")
        check(call(pointer, size, 2 * int(accumulate), C.addressof(base), C.addressof(handle)),
              pointer)
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
        self._check(lib.win_free(self._pointer()))
        self._handle = None
        in_use.discard(self)
        self._keep.clear()
        if self._pinned is not None:
            self._pinned.release()

    def __enter__(self) -> Win:
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if kind is None and self._handle is not None and self.comm.context.alive:
            self.Free()

    def _check(self, code: int) -> None:
        self.comm._check(code)

    def _hold(self, rank: int, *what: Any) -> None:
        """Keep what until a flush of rank."""
        self._keep.setdefault(rank, []).extend(what)

    def _held(self, spec: Spec, rank: int, writable: bool) -> tuple[Memory, int]:
        data = memory(spec, writable)
        self._hold(rank, data)
        return data, data.count * SIZES[data.datatype or _abi.Datatype.UINT8]

    def _laid_out(self, origin: Spec, layout: Optional[Layout], writable: bool) -> tuple:
        """Address and layouts, here and at the target, of a put or get; what must be kept."""
        if with_layout(origin):
            data, here = laid_out(origin, writable)
        else:
            data, here = memory(origin, writable), None
        if layout is not None and instance(layout, Layout, "layout").elements != data.count:
            raise ArgumentError(f"the layout at the target has {layout.elements} elements, the "
                                f"local one {data.count}")
        return data.address, here and here.address, layout and layout.address, [data, here, layout]

    def _put_layout(self, call: Any, origin: Spec, rank: int, offset: int,
                    layout: Optional[Layout], writable: bool, *more: int) -> None:
        at, here, there, keep = self._laid_out(origin, layout, writable)
        self._hold(rank, *keep)
        self._check(call(self._pointer(), rank, at, here, offset, there, *more))

    def Put(self, origin: Spec, rank: int, offset: int = 0,
            layout: Optional[Layout] = None) -> None:
        """Write origin to the window of rank; origin may be reused after a flush.

        layout: of the elements at the target, from offset on. origin may be [buffer, layout].
        """
        if layout is not None or with_layout(origin):
            self._put_layout(lib.put_layout, origin, rank, offset, layout, False)
            return
        data, nbytes = self._held(origin, rank, False)
        self._check(lib.put(self._pointer(), rank, data.address, nbytes, offset))

    def Put_notify(self, origin: Spec, rank: int, offset: int = 0, id: Optional[int] = None,
                   layout: Optional[Layout] = None) -> None:
        """As Put; then the target's count of this id, or of this rank, rises by 1."""
        if layout is not None or with_layout(origin):
            self._put_layout(lib.put_layout_notify, origin, rank, offset, layout, False,
                             _abi.NOTIFY_RANK if id is None else id)
            return
        data, nbytes = self._held(origin, rank, False)
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

    def Test_notify(self, rank: Optional[int] = None, count: int = 1,
                    id: Optional[int] = None) -> bool:
        """As Wait_notify, but False, with none consumed, if so many have not come."""
        if (rank is None) == (id is None):
            raise ValueError("Test_notify: pass either a rank or an id")
        done = C.c_int()
        call, which = (lib.test_notify, rank) if id is None else (lib.test_notify_id, id)
        self._check(call(self._pointer(), which, count, C.addressof(done)))
        return bool(done.value)

    def Wait_notify_any(self, ids: Sequence[int]) -> int:
        """Wait for a notification of one of these ids, consume it: its place in ids."""
        index = C.c_int(-1)
        self._check(lib.wait_notify_any(self._pointer(), len(ids), _abi.array(C.c_int, ids),
                                        C.addressof(index)))
        return index.value

    def Test_notify_any(self, ids: Sequence[int]) -> int:
        """As Wait_notify_any, but UNDEFINED if there is none now."""
        index = C.c_int(-1)
        self._check(lib.test_notify_any(self._pointer(), len(ids), _abi.array(C.c_int, ids),
                                        C.addressof(index)))
        return index.value

    def Wait_notify_all(self, ids: Sequence[int]) -> None:
        """Wait for a notification of each of these ids, and consume one of each."""
        self._check(lib.wait_notify_all(self._pointer(), len(ids), _abi.array(C.c_int, ids)))

    def Test_notify_all(self, ids: Sequence[int]) -> bool:
        """As Wait_notify_all, but False, with none consumed, if one has not come."""
        done = C.c_int()
        self._check(lib.test_notify_all(self._pointer(), len(ids), _abi.array(C.c_int, ids),
                                        C.addressof(done)))
        return bool(done.value)

    def Get(self, origin: Spec, rank: int, offset: int = 0,
            layout: Optional[Layout] = None) -> None:
        """Read the window of rank into origin; complete after a flush. layout: as in Put."""
        if layout is not None or with_layout(origin):
            self._put_layout(lib.get_layout, origin, rank, offset, layout, True)
            return
        data, nbytes = self._held(origin, rank, True)
        self._check(lib.get(self._pointer(), rank, data.address, nbytes, offset))

    def _blocks(self, origin: Spec, block: int, count: int, local_stride: int, stride: int,
                writable: bool) -> tuple[Memory, Any]:
        data = memory(origin, writable)
        nbytes = data.count * SIZES[data.datatype or _abi.Datatype.UINT8]
        if count > 0 and (local_stride < 0 or (count - 1) * local_stride + block > nbytes):
            raise ValueError(f"{count} blocks of {block} bytes, {local_stride} apart, are not "
                             f"inside the buffer of {nbytes} bytes")
        return data, _abi.Strides(block=block, count=count, local_stride=local_stride,
                                  stride=stride)

    def _strided(self, call: Any, origin: Spec, rank: int, offset: int, writable: bool,
                 more: tuple = (), **blocks: int) -> None:
        data, strides = self._blocks(origin, writable=writable, **blocks)
        self._hold(rank, data)
        self._check(call(self._pointer(), rank, data.address, offset, C.addressof(strides), *more))

    def Put_strided(self, origin: Spec, rank: int, offset: int, *, block: int, count: int,
                    local_stride: int, stride: int, notify: bool = False,
                    id: Optional[int] = None) -> None:
        """As Put, of count blocks of bytes at equal distances here and there.

        notify: then the target's count for this rank, or for id, rises by 1.
        """
        blocks = {"block": block, "count": count, "local_stride": local_stride, "stride": stride}
        if notify or id is not None:
            self._strided(lib.put_strided_notify, origin, rank, offset, False,
                          (_abi.NOTIFY_RANK if id is None else id,), **blocks)
        else:
            self._strided(lib.put_strided, origin, rank, offset, False, **blocks)

    def Get_strided(self, origin: Spec, rank: int, offset: int, *, block: int, count: int,
                    local_stride: int, stride: int) -> None:
        """As Get, of count blocks of bytes at equal distances here and there."""
        self._strided(lib.get_strided, origin, rank, offset, True, block=block, count=count,
                      local_stride=local_stride, stride=stride)

    def _rstrided(self, call: Any, origin: Spec, rank: int, offset: int, writable: bool,
                  blocks: dict[str, int]) -> Request:
        data, strides = self._blocks(origin, writable=writable, **blocks)
        pointer, where = self._pointer(), C.addressof(strides)
        return Request._begin(lambda at: call(pointer, rank, data.address, offset, where, at),
                              self.comm, [data, strides])

    def Rput_strided(self, origin: Spec, rank: int, offset: int, **blocks: int) -> Request:
        """As Put_strided without a notification, with a request."""
        return self._rstrided(lib.iput_strided, origin, rank, offset, False, blocks)

    def Rget_strided(self, origin: Spec, rank: int, offset: int, **blocks: int) -> Request:
        """As Get_strided, with a request."""
        return self._rstrided(lib.iget_strided, origin, rank, offset, True, blocks)

    def Accumulate(self, origin: Spec, rank: int, offset: int = 0, op: int = Op.SUM) -> None:
        """Combine origin with the window of rank; local memory may be reused after a flush."""
        data, _ = self._held(origin, rank, False)
        self._check(lib.accumulate(self._pointer(), rank, data.address, data.count, data.datatype,
                                   op, offset))

    def Get_accumulate(self, origin: Spec, result: Spec, rank: int, offset: int = 0,
                       op: int = Op.SUM) -> None:
        """As Accumulate; result receives the old elements. NO_OP only gets: origin is None."""
        data, old = _and_result(origin, result)
        self._hold(rank, data, old)
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

    def _request(self, call: Any, laid: Any, origin: Spec, rank: int, offset: int,
                 layout: Optional[Layout], writable: bool) -> Request:
        pointer = self._pointer()
        if layout is not None or with_layout(origin):
            where, here, there, keep = self._laid_out(origin, layout, writable)
            return Request._begin(
                lambda at: laid(pointer, rank, where, here, offset, there, at), self.comm, keep)
        data = memory(origin, writable)
        nbytes = data.count * SIZES[data.datatype or _abi.Datatype.UINT8]
        return Request._begin(lambda at: call(pointer, rank, data.address, nbytes, offset, at),
                              self.comm, [data])

    def Rput(self, origin: Spec, rank: int, offset: int = 0,
             layout: Optional[Layout] = None) -> Request:
        """As Put, with a request that is complete when the bytes are in place."""
        return self._request(lib.iput, lib.iput_layout, origin, rank, offset, layout, False)

    def Rput_notify(self, origin: Spec, rank: int, offset: int = 0,
                    id: Optional[int] = None) -> Request:
        """As Put_notify, with a request."""
        data, pointer = memory(origin, False), self._pointer()
        nbytes = data.count * SIZES[data.datatype or _abi.Datatype.UINT8]
        if id is None:
            return Request._begin(
                lambda at: lib.iput_notify(pointer, rank, data.address, nbytes, offset, at),
                self.comm, [data])
        return Request._begin(
            lambda at: lib.iput_notify_id(pointer, rank, data.address, nbytes, offset, id, at),
            self.comm, [data])

    def Rget(self, origin: Spec, rank: int, offset: int = 0,
             layout: Optional[Layout] = None) -> Request:
        """As Get, with a request that is complete when origin has the bytes."""
        return self._request(lib.iget, lib.iget_layout, origin, rank, offset, layout, True)

    def Rfetch_add(self, value: int, rank: int, offset: int = 0) -> Request:
        """As Fetch_add; the request's result is the value before."""
        old, pointer = C.c_uint64(), self._pointer()
        return Request._begin(
            lambda at: lib.ifetch_add(pointer, rank, value & (2**64 - 1), offset,
                                      C.addressof(old), at),
            self.comm, [old], finish=lambda: old.value)

    def Rcompare_and_swap(self, compare: int, value: int, rank: int, offset: int = 0) -> Request:
        """As Compare_and_swap; the request's result is the value before."""
        old, pointer = C.c_uint64(), self._pointer()
        return Request._begin(
            lambda at: lib.icompare_swap(pointer, rank, compare, value, offset, C.addressof(old),
                                         at),
            self.comm, [old], finish=lambda: old.value)

    def Rget_accumulate(self, origin: Spec, result: Spec, rank: int, offset: int = 0,
                        op: int = Op.SUM) -> Request:
        """As Get_accumulate, with a request."""
        (data, old), pointer = _and_result(origin, result), self._pointer()
        return Request._begin(
            lambda at: lib.iget_accumulate(pointer, rank, data.address, old.address, old.count,
                                           old.datatype, op, offset, at), self.comm, [data, old])

    def Raccumulate(self, origin: Spec, rank: int, offset: int = 0, op: int = Op.SUM) -> Request:
        """As Accumulate, with a request."""
        data, pointer = memory(origin, False), self._pointer()
        return Request._begin(
            lambda at: lib.iaccumulate(pointer, rank, data.address, data.count, data.datatype, op,
                                       offset, at), self.comm, [data])

    def _flush(self, call: Callable[[], int], ranks: list) -> None:
        """Flush, and let go of what was kept before; other threads may put in the meantime."""
        kept = {rank: self._keep.pop(rank, []) for rank in ranks}
        try:
            self._check(call())
        except BaseException:
            for rank, what in kept.items():
                self._hold(rank, *what)
            raise

    def Flush(self, rank: int) -> None:
        """Wait until this rank's operations on rank are complete."""
        self._flush(lambda: lib.win_flush(self._pointer(), rank), [rank])

    def Flush_all(self) -> None:
        """Wait until this rank's operations on all ranks are complete."""
        self._flush(lambda: lib.win_flush_all(self._pointer()), list(self._keep))

    def Set_priority(self, priority: int) -> None:
        """Puts and gets from now on go before those of lower priority on the same peer."""
        self._check(lib.win_set_priority(self._pointer(), priority))

    def Iflush(self, rank: Optional[int] = None) -> Request:
        """A request that is complete when earlier operations on rank (None: all) are complete."""
        pointer = self._pointer()
        if rank is None:
            return Request._begin(lambda at: lib.win_iflush_all(pointer, at), self.comm, [])
        return Request._begin(lambda at: lib.win_iflush(pointer, rank, at), self.comm, [])


__all__: Sequence[str] = ["Win"]
