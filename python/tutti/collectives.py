# SPDX-License-Identifier: BSD-3-Clause
"""Collectives, each in three forms: blocking, nonblocking (I...) and persistent (..._init).

All of them are the struct of tutti_call(3). Options that each has: timeout_ms, the deadline of
this call; priority, local.
"""

from __future__ import annotations

import ctypes as C
import functools
import inspect
from typing import TYPE_CHECKING, Any, Callable, Optional, Sequence

from . import _abi
from ._abi import Coll, Datatype, Op
from ._library import check, instance, lib
from .buffers import IN_PLACE, NOTHING, Memory, Pinned, Spec, memory
from .errors import ArgumentError
from .layout import Layout, check_inside
from .request import Request, hold

if TYPE_CHECKING:
    from .codec import Codec, Feedback
    from .communicator import Comm


def _sent(spec: Spec) -> Memory:
    return memory(spec, False, in_place=True)


class _Prepared:
    """The struct of a call, and all that must live as long as the operation."""

    def __init__(self, coll: Coll, send: Memory, recv: Memory, count: Optional[int] = None,
                 op: int = 0, root: int = 0) -> None:
        self.keep: list = [send, recv]
        datatype = _common_type(send, recv)
        self.call = _abi.Call(coll=coll, sendbuf=send.address, recvbuf=recv.address,
                              count=count or 0, datatype=datatype, op=op, root=root)

    def blocks(self, **counts: Optional[Sequence[int]]) -> None:
        """Set arrays of counts and displacements."""
        for field, values in counts.items():
            if values is not None:
                array = _abi.array(C.c_size_t, values)
                self.keep.append(array)
                setattr(self.call, field, C.addressof(array))


def _common_type(send: Memory, recv: Memory) -> Datatype:
    types = {m.datatype for m in (send, recv) if m.datatype is not None}
    if len(types) > 1:
        raise ArgumentError(
            f"the send buffer is {send.datatype!r}, the receive buffer {recv.datatype!r}; "
            "pass one datatype"
        )
    return types.pop() if types else Datatype.INT8


def _three_forms(prepare: Callable) -> tuple[Callable, Callable, Callable]:
    """The blocking, nonblocking and persistent method of a function that prepares the call."""
    name = prepare.__name__.strip("_").capitalize()

    def run(comm: Comm, form: int, args: Any, options: Any) -> Optional[Request]:
        timeout_ms = options.pop("timeout_ms", 0)
        priority = options.pop("priority", 0)
        made = prepare(comm, *args, **options)
        made.call.timeout_ms, made.call.priority = timeout_ms, priority
        made.call.flags = 1 if form == 2 else 0
        call, pointer = C.addressof(made.call), comm._pointer()
        if form == 0:
            hold(made.keep)
            check(lib.call(pointer, call, None), pointer)
            return None
        return Request._begin(lambda at: lib.call(pointer, call, at), comm, made.keep,
                              persistent=form == 2)

    def form(number: int, called: str, extra: str, result: str) -> Callable:
        @functools.wraps(prepare)
        def method(comm: Comm, *args: Any, **options: Any) -> Any:
            return run(comm, number, args, options)

        method.__name__, method.__qualname__ = called, "Comm." + called
        method.__doc__ = (prepare.__doc__ or "") + extra
        old = inspect.signature(prepare)
        more = [inspect.Parameter(option, inspect.Parameter.KEYWORD_ONLY, default=0,
                                  annotation="int") for option in ("timeout_ms", "priority")]
        method.__signature__ = old.replace(  # type: ignore[attr-defined]
            parameters=[*old.parameters.values(), *more], return_annotation=result)
        method.__annotations__ = {**prepare.__annotations__, "return": result}
        del method.__wrapped__  # type: ignore[attr-defined]
        return method

    return (form(0, name, "", "None"),
            form(1, "I" + name.lower(), " Nonblocking: Wait for the request.", "Request"),
            form(2, name + "_init", " Persistent: Start the request.", "Request"))


def _equal(first: Memory, second: Memory) -> int:
    """Elements of two buffers that must be as long."""
    if first.in_place or first.address is None and first.pinned is None:
        return second.count
    if first.count != second.count:
        raise ArgumentError(
            f"the send buffer has {first.count} elements, the receive buffer {second.count}; "
            "pass equal counts"
        )
    return first.count


def _share(comm: Comm, whole: Memory) -> int:
    """Elements of one of size equal blocks."""
    size = comm.size
    if whole.count % size:
        raise ArgumentError(
            f"a buffer of {whole.count} elements is no {size} equal blocks; use the v form"
        )
    return whole.count // size


def _block(comm: Comm, block: Memory, whole: Memory) -> int:
    """Elements of a block, of which whole has one for each rank, if this rank has whole."""
    if block.in_place:
        return _share(comm, whole)
    if whole.pinned is not None and _share(comm, whole) != block.count:
        raise ArgumentError(
            f"a block has {block.count} elements, so the buffer of all {comm.size} blocks needs "
            f"{block.count * comm.size}, not {whole.count}"
        )
    return block.count


def _counts(comm: Comm, whole: Memory, what: str) -> Sequence[int]:
    if whole.counts is None:
        raise ArgumentError(f"{what} needs counts: pass [buffer, counts] or [buffer, counts, "
                            "displacements]")
    if len(whole.counts) != comm.size:
        raise ArgumentError(f"{len(whole.counts)} counts for {comm.size} ranks")
    return whole.counts


def _barrier(comm: Comm) -> _Prepared:
    """Wait until all ranks have come here."""
    return _Prepared(Coll.BARRIER, NOTHING, NOTHING)


def _bcast(comm: Comm, buf: Spec, root: int = 0) -> _Prepared:
    """All ranks get the root's buf."""
    data = memory(buf, comm.rank != root)
    return _Prepared(Coll.BCAST, NOTHING, data, data.count, root=root)


def _allreduce(comm: Comm, sendbuf: Spec, recvbuf: Spec, op: int = Op.SUM,
               codec: Optional[Codec] = None,
               feedback: Optional[Feedback] = None) -> _Prepared:
    """All ranks get the combination of all sendbufs; codec: the vector travels encoded."""
    send, recv = _sent(sendbuf), memory(recvbuf, True)
    made = _Prepared(Coll.ALLREDUCE, send, recv, _equal(send, recv), op)
    if codec is not None or feedback is not None:
        _encode(made, codec, feedback)
    return made


def _encode(made: _Prepared, codec: Optional[Codec], feedback: Optional[Feedback]) -> None:
    from . import codec as codecs  # pylint: disable=import-outside-toplevel

    if codec is not None:
        made.call.codec = codecs.Codec._of(codec, "codec")
    if feedback is not None:
        made.call.feedback = codecs.Feedback._of(feedback, "feedback")
    made.keep += [codec, feedback]


def _reduce(comm: Comm, sendbuf: Spec, recvbuf: Spec, op: int = Op.SUM,
            root: int = 0) -> _Prepared:
    """The root gets the combination of all sendbufs; recvbuf is None elsewhere."""
    send = _sent(sendbuf)
    recv = memory(recvbuf, True) if comm.rank == root else NOTHING
    count = _equal(send, recv) if comm.rank == root else send.count
    return _Prepared(Coll.REDUCE, send, recv, count, op, root)


def _reduce_scatter_block(comm: Comm, sendbuf: Spec, recvbuf: Spec, op: int = Op.SUM) -> _Prepared:
    """Rank i gets block i of the combination; in place: recvbuf has all blocks."""
    send, recv = _sent(sendbuf), memory(recvbuf, True)
    count = _share(comm, recv) if send.in_place else _block(comm, recv, send)
    return _Prepared(Coll.REDUCE_SCATTER_BLOCK, send, recv, count, op)


def _reduce_scatter(comm: Comm, sendbuf: Spec, recvbuf: Spec, recvcounts: Sequence[int],
                    op: int = Op.SUM) -> _Prepared:
    """Rank i gets recvcounts[i] elements of the combination."""
    send, recv = _sent(sendbuf), memory(recvbuf, True)
    if len(recvcounts) != comm.size:
        raise ArgumentError(f"{len(recvcounts)} counts for {comm.size} ranks")
    whole, need = (recv, sum(recvcounts)) if send.in_place else (send, sum(recvcounts))
    if whole.count < need or recv.count < recvcounts[comm.rank]:
        raise ArgumentError(f"the counts are {need} elements, the buffers {send.count} and "
                            f"{recv.count}")
    made = _Prepared(Coll.REDUCE_SCATTER, send, recv, op=op)
    made.blocks(recvcounts=recvcounts)
    return made


def _scan(comm: Comm, sendbuf: Spec, recvbuf: Spec, op: int = Op.SUM) -> _Prepared:
    """Rank i gets the combination of ranks 0 to i."""
    send, recv = _sent(sendbuf), memory(recvbuf, True)
    return _Prepared(Coll.SCAN, send, recv, _equal(send, recv), op)


def _exscan(comm: Comm, sendbuf: Spec, recvbuf: Spec, op: int = Op.SUM) -> _Prepared:
    """Rank i gets the combination of ranks 0 to i - 1; rank 0: undefined."""
    send, recv = _sent(sendbuf), memory(recvbuf, True)
    return _Prepared(Coll.EXSCAN, send, recv, _equal(send, recv), op)


def _allgather(comm: Comm, sendbuf: Spec, recvbuf: Spec) -> _Prepared:
    """All ranks get the sendbufs of all, in rank order."""
    send, recv = _sent(sendbuf), memory(recvbuf, True)
    return _Prepared(Coll.ALLGATHER, send, recv, _block(comm, send, recv))


def _allgatherv(comm: Comm, sendbuf: Spec, recvbuf: Spec) -> _Prepared:
    """All ranks get blocks of [buffer, counts, displacements] elements."""
    send, recv = _sent(sendbuf), memory(recvbuf, True)
    counts = _counts(comm, recv, "allgatherv")
    made = _Prepared(Coll.ALLGATHERV, send, recv,
                     counts[comm.rank] if send.in_place else send.count)
    made.blocks(recvcounts=counts, recvdispls=recv.displs)
    return made


def _gather(comm: Comm, sendbuf: Spec, recvbuf: Spec, root: int = 0) -> _Prepared:
    """The root gets the sendbufs of all, in rank order; recvbuf is None elsewhere."""
    send = _sent(sendbuf)
    recv = memory(recvbuf, True) if comm.rank == root else NOTHING
    return _Prepared(Coll.GATHER, send, recv, _block(comm, send, recv), root=root)


def _gatherv(comm: Comm, sendbuf: Spec, recvbuf: Spec, root: int = 0) -> _Prepared:
    """The root gets blocks of [buffer, counts, displacements] elements."""
    send = _sent(sendbuf)
    recv = memory(recvbuf, True) if comm.rank == root else NOTHING
    made = _Prepared(Coll.GATHERV, send, recv, send.count, root=root)
    if comm.rank == root:
        counts = _counts(comm, recv, "gatherv")
        made.call.count = counts[root] if send.in_place else send.count
        made.blocks(recvcounts=counts, recvdispls=recv.displs)
    return made


def _scatter(comm: Comm, sendbuf: Spec, recvbuf: Spec, root: int = 0) -> _Prepared:
    """Rank i gets block i of the root; sendbuf is None elsewhere."""
    send = memory(sendbuf, False) if comm.rank == root else NOTHING
    recv = memory(recvbuf, True, in_place=True)
    return _Prepared(Coll.SCATTER, send, recv, _block(comm, recv, send), root=root)


def _scatterv(comm: Comm, sendbuf: Spec, recvbuf: Spec, root: int = 0) -> _Prepared:
    """Rank i gets its block of the root's [buffer, counts, displacements]."""
    send = memory(sendbuf, False) if comm.rank == root else NOTHING
    recv = memory(recvbuf, True, in_place=True)
    made = _Prepared(Coll.SCATTERV, send, recv, recv.count, root=root)
    if comm.rank == root:
        counts = _counts(comm, send, "scatterv")
        made.call.count = counts[root] if recv.in_place else recv.count
        made.blocks(sendcounts=counts, senddispls=send.displs)
    return made


def _alltoall(comm: Comm, sendbuf: Spec, recvbuf: Spec) -> _Prepared:
    """Block j of rank i becomes block i of rank j."""
    send, recv = _sent(sendbuf), memory(recvbuf, True)
    _equal(send, recv)
    return _Prepared(Coll.ALLTOALL, send, recv, _share(comm, recv))


def _alltoallv(comm: Comm, sendbuf: Spec, recvbuf: Spec) -> _Prepared:
    """As Alltoall, of [buffer, counts, displacements]."""
    send, recv = _sent(sendbuf), memory(recvbuf, True)
    made = _Prepared(Coll.ALLTOALLV, send, recv)
    made.blocks(recvcounts=_counts(comm, recv, "alltoallv"), recvdispls=recv.displs)
    if not send.in_place:
        made.blocks(sendcounts=_counts(comm, send, "alltoallv"), senddispls=send.displs)
    return made


class Collectives:
    """The collectives of a communicator. IN_PLACE as sendbuf (scatters: as the root's recvbuf)."""

    Barrier, Ibarrier, Barrier_init = _three_forms(_barrier)
    Bcast, Ibcast, Bcast_init = _three_forms(_bcast)
    Allreduce, Iallreduce, Allreduce_init = _three_forms(_allreduce)
    Reduce, Ireduce, Reduce_init = _three_forms(_reduce)
    Reduce_scatter_block, Ireduce_scatter_block, Reduce_scatter_block_init = _three_forms(
        _reduce_scatter_block)
    Reduce_scatter, Ireduce_scatter, Reduce_scatter_init = _three_forms(_reduce_scatter)
    Scan, Iscan, Scan_init = _three_forms(_scan)
    Exscan, Iexscan, Exscan_init = _three_forms(_exscan)
    Allgather, Iallgather, Allgather_init = _three_forms(_allgather)
    Allgatherv, Iallgatherv, Allgatherv_init = _three_forms(_allgatherv)
    Gather, Igather, Gather_init = _three_forms(_gather)
    Gatherv, Igatherv, Gatherv_init = _three_forms(_gatherv)
    Scatter, Iscatter, Scatter_init = _three_forms(_scatter)
    Scatterv, Iscatterv, Scatterv_init = _three_forms(_scatterv)
    Alltoall, Ialltoall, Alltoall_init = _three_forms(_alltoall)
    Alltoallv, Ialltoallv, Alltoallv_init = _three_forms(_alltoallv)

    def Alltoallw(self, sendbuf: Sequence[Any], recvbuf: Sequence[Any]) -> None:
        """As Alltoallv, but each block has a Layout: [buffer, counts, bytes, layouts].

        Block i is counts[i] times layouts[i], the first one bytes[i] after the buffer's begin;
        None: 1 each, 0 each. A layout that is not used may be None.
        """
        args, keep, pointer = _w_arguments(self, sendbuf, recvbuf)  # type: ignore[arg-type]
        hold(keep)
        check(lib.alltoallw(*args, pointer), pointer)

    def Ialltoallw(self, sendbuf: Sequence[Any], recvbuf: Sequence[Any]) -> Request:
        """As Alltoallw, nonblocking."""
        args, keep, pointer = _w_arguments(self, sendbuf, recvbuf)  # type: ignore[arg-type]
        return Request._begin(lambda at: lib.ialltoallw(*args, pointer, at), self, keep)


def _w_arguments(comm: Comm, *sides: Sequence[Any]) -> tuple[list, list, int]:
    """Arguments of alltoallw for [buffer, counts, bytes, layouts] of both sides; what they need."""
    args: list = []
    keep: list = []
    for side, writable in zip(sides, (False, True)):
        if not isinstance(side, (list, tuple)) or len(side) != 4:
            raise ArgumentError(f"a side of alltoallw is {side!r:.60}; pass [buffer, counts, "
                                "bytes, layouts]")
        buffer, counts, displs, layouts = side
        counts = [1] * comm.size if counts is None else list(counts)
        displs = [0] * comm.size if displs is None else list(displs)
        if {len(counts), len(displs), len(layouts)} != {comm.size}:
            raise ArgumentError(f"{len(counts)} counts, {len(displs)} displacements and "
                                f"{len(layouts)} layouts for {comm.size} ranks")
        pinned = Pinned(buffer, writable)
        for count, displ, layout in zip(counts, displs, layouts):
            if layout is None and count:
                raise ArgumentError(f"a layout is None, but its count is {count}")
            layout = layout and instance(layout, Layout, "a layout")
            for begin in (0, (count - 1) * (layout.high - layout.low)) if count else ():
                check_inside(layout, displ + begin, pinned.nbytes)
        arrays = (_abi.array(C.c_size_t, counts), _abi.array(C.c_ssize_t, displs),
                  (C.c_void_p * comm.size)(*[one and one.address for one in layouts]))
        args += [pinned.address, *arrays]
        keep += [pinned, *arrays, *layouts]
    return args, keep, comm._pointer()


__all__ = ["Collectives", "IN_PLACE"]
