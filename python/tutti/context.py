# SPDX-License-Identifier: BSD-3-Clause
"""Contexts: one for each process and job."""

from __future__ import annotations

import atexit
import ctypes as C
import errno
import gc
import os
import weakref
from typing import Any, Callable, Iterable, Optional

from . import _abi
from ._abi import Datatype, LogLevel, Op
from ._library import (Owned, Scoped, check, encoded, function_of, guarded, in_use, lent, lib,
                       refuse_forked)
from .buffers import Buffer, Pinned, Spec, memory
from .communicator import Comm
from .errors import ArgumentError, BusyError, Error
from .request import collect

# Called with a level and a line.
LogFunction = Callable[[LogLevel, str], None]
_log_callback: Any = None


def unique_id() -> bytes:
    """Make the id of a new job, in the process that will be its rank 0."""
    made = _abi.UniqueId()
    check(lib.unique_id_get(C.addressof(made)))
    return bytes(made.bytes)


def set_log(function: Optional[LogFunction], level: LogLevel = LogLevel.DEFAULT) -> None:
    """Send the log to function, called from any thread (None: standard error)."""
    global _log_callback  # pylint: disable=global-statement
    callback = None
    if function is not None:
        def forward(its_level: int, line: bytes, _: Any) -> None:
            function(LogLevel(its_level), line.decode(errors="replace"))
        callback = _abi.log_fn(forward)
        atexit.unregister(set_log)
        atexit.register(set_log, None)
    lib.set_log(C.cast(callback, C.c_void_p) if callback else None, None, level)
    # The last function stays: another thread may still be in it.
    _log_callback = (callback, _log_callback and _log_callback[0])


def describe() -> list[tuple[str, str, str, str]]:
    """Facts about transports, devices and settings: (section, name, key, value)."""
    facts: list = []
    collect = _abi.describe_fn(lambda *fact: facts.append(
        tuple((text or b"").decode(errors="replace") for text in fact[:4])))
    check(lib.describe(C.cast(collect, C.c_void_p), None))
    return facts


class _ByteArrays:
    """Memory of the library that Python objects may still refer to."""

    def __init__(self) -> None:
        self._alive: list = []

    def make(self, address: int, size: int) -> memoryview:
        """A writable view of this memory."""
        array = (C.c_ubyte * size).from_address(address)
        self._alive.append(weakref.ref(array, self._alive.remove))
        return memoryview(array).cast("B")

    def check_unused(self, call: str) -> None:
        """Raise BusyError while a view, or an array made from one, is alive."""
        if len(self._alive):
            gc.collect()
        if len(self._alive):
            raise BusyError(
                f"{call}: {len(self._alive)} arrays or views of the library's memory are still in "
                "use; delete them before", code=-errno.EBUSY)


class Registered(Scoped):
    """Memory that transports access directly, until Free or the end of the with block."""

    def __init__(self, context: Context, buffer: Buffer) -> None:
        self._pinned = Pinned(buffer, False)
        self._handle = C.c_void_p()
        check(lib.register(context._pointer(), self._pinned.address, self._pinned.nbytes,
                           C.addressof(self._handle)))
        in_use.add(self)

    def Free(self) -> None:
        """End the registration."""
        if self._handle:
            check(lib.deregister(self._handle))
            self._handle = C.c_void_p()
            in_use.discard(self)
            self._pinned.release()


class UserOp(int):
    """An operator of Context.create_op, for the reductions of that context."""


_contexts: weakref.WeakSet = weakref.WeakSet()


def _after_fork() -> None:
    if any(context.alive for context in _contexts):
        atexit.unregister(set_log)
        refuse_forked()


os.register_at_fork(after_in_child=_after_fork)


class Context(Owned):
    """A process's membership in a job; made by init."""

    def __init__(self, handle: C.c_void_p, keep: Optional[list] = None) -> None:
        self._handle: Optional[int] = handle.value
        self._keep = keep or []
        self._arrays = _ByteArrays()
        self.world = Comm(self, C.c_void_p(lib.world(self._handle)), owned=False)
        self._self: Optional[Comm] = None
        _contexts.add(self)

    @property
    def alive(self) -> bool:
        """False after finalize."""
        return self._handle is not None

    def _pointer(self) -> int:
        if self._handle is None:
            raise Error("the context has ended: it was finalized")
        return self._handle

    @property
    def self_comm(self) -> Comm:
        """A communicator of this rank alone."""
        if self._self is None:
            handle = lib.self(self._pointer())
            if not handle:
                check(-errno.ENOMEM)
            self._self = Comm(self, C.c_void_p(handle), owned=False)
        return self._self

    def stats(self) -> dict[str, int]:
        """Counters of this process since init: struct tutti_stats."""
        stats = _abi.Stats()
        check(lib.stats_get(self._pointer(), C.addressof(stats)))
        return stats.as_dict()

    def alloc(self, nbytes: int) -> memoryview:
        """Bytes of the registered pool: sent and received without a copy.

        They go back when the view, and all made from it, are gone; finalize raises BusyError
        before.
        """
        address = C.c_void_p()
        check(lib.alloc(self._pointer(), nbytes, C.addressof(address)))
        if not nbytes or not address.value:
            check(lib.free(address))
            return memoryview(bytearray())
        view = self._arrays.make(address.value, nbytes)
        weakref.finalize(view.obj, lambda at: lib.free(at), address.value)
        return view

    def empty(self, shape: Any, dtype: Any = "float32") -> Any:
        """A NumPy array in memory of alloc, with undefined contents."""
        import numpy  # pylint: disable=import-outside-toplevel

        kind = numpy.dtype(dtype)
        count = int(numpy.prod(shape, dtype=numpy.int64))
        array = numpy.frombuffer(self.alloc(count * kind.itemsize), dtype=kind, count=count)
        return array.reshape(shape)

    def register(self, buffer: Buffer) -> Registered:
        """Register memory of buffer with all transports, until Free."""
        return Registered(self, buffer)

    def create_op(self, function: Callable[[memoryview, memoryview], None],
                  commute: bool = True) -> UserOp:
        """An operator: function(a, b) makes b = a op b, element by element.

        a and b are views of bytes of equal length; a is from lower ranks. function is called for
        pieces, from any thread, and must not call tutti. The next call of this process raises what
        it raises.
        """
        function_of(function, "function")

        def forward(a: int, b: int, count: int, datatype: int, _: Any) -> None:
            size = count * lib.datatype_size(datatype)
            with lent(a, size) as first, lent(b, size) as second:
                if size:
                    function(first, second)
        callback, op = _abi.op_fn(guarded(forward)), C.c_int()
        check(lib.op_create(self._pointer(), C.cast(callback, C.c_void_p), None, int(commute),
                            C.addressof(op)))
        self._keep.append(callback)
        return UserOp(op.value)

    def create_premul_sum(self, scalar: Buffer) -> UserOp:
        """The sum of each rank's vector times its scalar, a buffer of one element."""
        one, op = memory(scalar, False), C.c_int()
        check(lib.op_create_premul_sum(self._pointer(), one.address, one.datatype or Datatype.UINT8,
                                       C.addressof(op)))
        return UserOp(op.value)

    def reduce_local(self, a: Spec, b: Spec, op: int = Op.SUM) -> None:
        """b = a op b, element by element, in the memory of this process; a is of lower ranks."""
        data, into = memory(a, False), memory(b, True)
        if data.count != into.count or data.datatype != into.datatype:
            raise ArgumentError(f"vectors of {data.count} {data.datatype!r} and {into.count} "
                                f"{into.datatype!r}; pass equal ones")
        check(lib.reduce_local(self._pointer(), data.address, into.address, data.count,
                               data.datatype, op))

    def free_op(self, op: int) -> None:
        """Free an operator of this context."""
        check(lib.op_free(self._pointer(), op))

    def finalize(self) -> None:
        """Leave the job. Collective."""
        if self._handle is None:
            return
        self._arrays.check_unused("finalize")
        collect()
        code = lib.finalize(self._handle)
        if code != -errno.EBUSY:
            self._handle = None
        check(code)

    def __enter__(self) -> Context:
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if kind is None:
            self.finalize()
        elif self.alive:
            # The other ranks would wait for this one until their deadline.
            lib.comm_abort(self.world._handle, 1)

    def __repr__(self) -> str:
        state = f"rank {self.world.rank} of {self.world.size}" if self.alive else "finalized"
        return f"<tutti.Context {state}>"


def _allgather_callback(function: Callable[[bytes], Iterable[bytes]]) -> Any:
    def forward(send: int, recv: int, length: int, _: Any) -> int:
        try:
            parts = b"".join(function(C.string_at(send, length)))
            C.memmove(recv, parts, len(parts))
            return 0
        except BaseException:  # pylint: disable=broad-except
            import traceback  # pylint: disable=import-outside-toplevel

            traceback.print_exc()
            return 1
    return _abi.allgather_fn(forward)


def init(*, rank: Optional[int] = None, nranks: int = 0, id: Optional[bytes] = None,
         allgather: Optional[Callable[[bytes], Iterable[bytes]]] = None, transport: str = "",
         timeout_ms: int = 0, progress_thread: Optional[bool] = None,
         tolerant: Optional[bool] = None,
         options: Optional[dict[str, Any]] = None) -> Context:
    """Join the job. Collective over all its ranks.

    Without arguments all comes from the environment, as tutti_run, torchrun, Slurm and MPI set it.
    With nranks and rank: id is from unique_id in rank 0, or allgather takes bytes and returns those
    of all ranks. options: variables of tutti_env(7), for this context alone.
    """
    config, keep = _abi.Config(), []
    if nranks:
        config.nranks, config.rank = nranks, -1 if rank is None else rank
    if id is not None:
        if len(id) != C.sizeof(_abi.UniqueId):
            raise ValueError(f"init: an id has {C.sizeof(_abi.UniqueId)} bytes, this one {len(id)}")
        config.id = C.pointer(_abi.UniqueId.from_buffer_copy(id))
    if allgather is not None:
        config.allgather = _allgather_callback(_sized(allgather, nranks))
        keep.append(config.allgather)
    config.transport = encoded(transport) if transport else None
    config.timeout_ms = timeout_ms
    config.progress_thread = 0 if progress_thread is None else 1 if progress_thread else -1
    config.tolerant = 0 if tolerant is None else 1 if tolerant else -1
    if options:
        lines = [encoded(f"{name}={value}") for name, value in options.items()]
        config.options = (C.c_char_p * (len(lines) + 1))(*lines, None)
    handle = C.c_void_p()
    check(lib.init(C.addressof(config), C.addressof(handle)))
    return Context(handle, keep)


def _sized(allgather: Callable[[bytes], Iterable[bytes]], nranks: int) -> Callable:
    """The parts, checked: the library has room for exactly these."""
    def checked(part: bytes) -> list[bytes]:
        parts = [bytes(one) for one in allgather(part)]
        if len(parts) != nranks or any(len(one) != len(part) for one in parts):
            raise ValueError(f"init: allgather returned parts of {[len(p) for p in parts]} bytes; "
                             f"{nranks} parts of {len(part)} are needed")
        return parts
    return checked
