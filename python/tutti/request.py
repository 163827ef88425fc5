# SPDX-License-Identifier: BSD-3-Clause
"""Requests: start, test, wait, cancel. And groups of calls."""

from __future__ import annotations

import ctypes as C
import errno
import threading
from contextlib import contextmanager
from sys import getrefcount
from typing import Any, Callable, Iterable, Iterator, Optional, Sequence

from . import _abi
from ._library import Scoped, check, error_of, instance, lib
from .buffers import SIZES
from .errors import ArgumentError, BusyError

# Requests whose operation may run: their buffers must live, whoever forgets the request.
_running: set = set()
_lock = threading.Lock()
_thread = threading.local()
# Buffers of persistent requests that were freed while they ran: the library still uses them.
_orphaned: list = []
# References to a request that only _running has: that one, the list, the loop and the argument.
_FORGOTTEN = 4


def hold(keep: list) -> None:
    """Keep these alive until the group of this thread ends; without a group, not at all."""
    held = getattr(_thread, "held", None)
    if held is not None:
        held.extend(keep)


@contextmanager
def group() -> Iterator[None]:
    """Start the calls of this thread inside the with block together, and wait for them.

    Blocking calls return at once; their results are there after the block.
    """
    outer = getattr(_thread, "held", None)
    if outer is None:
        _thread.held = []
    try:
        check(lib.group_start())
        try:
            yield
        finally:
            code = lib.group_end()
        check(code)
    finally:
        if outer is None:
            _thread.held = None


def collect() -> None:
    """Let go of operations that are complete and whose requests the program has forgotten."""
    with _lock:
        running = list(_running)
    for request in running:
        if not request.persistent and getrefcount(request) <= _FORGOTTEN:
            request.Test()


class Status:
    """The message of a receive or a probe."""

    def __init__(self) -> None:
        self._struct = _abi.Status(source=-1, tag=-1)

    @property
    def source(self) -> int:
        """The rank that sent the message."""
        return self._struct.source

    @property
    def tag(self) -> int:
        """The tag of the message."""
        return self._struct.tag

    @property
    def nbytes(self) -> int:
        """The length of the message."""
        return self._struct.bytes

    @property
    def datatype(self) -> _abi.Datatype:
        """The datatype that the sender named."""
        return _abi.Datatype(self._struct.datatype)

    def Get_source(self) -> int:
        """The rank that sent the message."""
        return self.source

    def Get_tag(self) -> int:
        """The tag of the message."""
        return self.tag

    def Get_count(self, datatype: _abi.Datatype = _abi.Datatype.UINT8) -> int:
        """The length in elements of datatype."""
        return self.nbytes // SIZES[datatype]

    def _set(self, other: "Status") -> None:
        C.memmove(C.byref(self._struct), C.byref(other._struct), C.sizeof(self._struct))

    def _address(self) -> int:
        return C.addressof(self._struct)


class Request(Scoped):
    """An operation that runs, or a persistent one. It keeps its buffers until it is complete."""

    def __init__(self, comm: Any, keep: list, persistent: bool = False,
                 status: Optional[Status] = None,
                 finish: Optional[Callable[[], Any]] = None) -> None:
        self._handle = C.c_void_p()
        self._comm = comm
        self._keep = keep
        self._finish = finish
        self.persistent = persistent
        self.status = status
        self.result: Any = None
        # A wait may free what another thread's wait still reads.
        self._waits = threading.Lock()

    def _enter(self) -> None:
        if not self._waits.acquire(False):
            raise BusyError("the request is in the list twice, or another thread waits for it",
                            code=-errno.EBUSY)

    @classmethod
    def _begin(cls, start: Callable[[int], int], comm: Any, keep: list, **options: Any) -> Request:
        """The request that start stores at the address that it is given."""
        request = cls(comm, keep, **options)
        code = start(C.addressof(request._handle))
        if code < 0:
            raise error_of(code, request._pointer())
        with _lock:
            _running.add(request)
        return request

    def _ended(self, code: int, status: Optional[Status] = None) -> None:
        """After a call that has reported the end, or an error."""
        if not self._handle or (self.persistent and code >= 0):
            if status is not None and self.status is not None:
                status._set(self.status)
        if not self._handle:
            self._drop()
            if code >= 0 and self._finish is not None:
                self.result, self._finish = self._finish(), None

    def _drop(self) -> None:
        with _lock:
            _running.discard(self)
        self._keep = []

    def _pointer(self) -> Optional[int]:
        return self._comm._pointer() if self._comm is not None and self._comm.alive else None

    def __bool__(self) -> bool:
        return bool(self._handle)

    def Wait(self, status: Optional[Status] = None) -> bool:
        """Wait until the operation is complete; an error of the operation is raised."""
        self._enter()
        try:
            code = lib.wait(C.addressof(self._handle))
            self._ended(code, status)
        finally:
            self._waits.release()
        check(code, self._pointer())
        return True

    def Test(self, status: Optional[Status] = None) -> bool:
        """True if the operation is complete."""
        done = C.c_int()
        self._enter()
        try:
            code = lib.test(C.addressof(self._handle), C.addressof(done))
            if done.value or not self._handle:
                self._ended(code, status)
        finally:
            self._waits.release()
        check(code, self._pointer())
        return bool(done.value)

    def Get_status(self) -> bool:
        """As Test, but a later Test or Wait still reports the end."""
        done = C.c_int()
        self._enter()
        try:
            code = lib.request_get_status(self._handle, C.addressof(done))
        finally:
            self._waits.release()
        check(code, self._pointer())
        return bool(done.value)

    def Start(self) -> None:
        """Start a persistent request."""
        check(lib.start(self._handle), self._pointer())

    def Cancel(self) -> None:
        """End a receive that no message has matched: Wait then raises CanceledError."""
        check(lib.cancel(self._handle), self._pointer())

    def Set_timeout(self, timeout_ms: int) -> None:
        """A deadline of its own, instead of the communicator's."""
        check(lib.request_set_timeout(self._handle, timeout_ms), self._pointer())

    def Free(self) -> None:
        """Free a persistent request, which may run; wait for another one."""
        if self._handle:
            if not self.persistent:
                self.Wait()
                return
            self._enter()
            try:
                done = C.c_int()
                lib.request_get_status(self._handle, C.addressof(done))
                check(lib.request_free(self._handle), self._pointer())
                self._handle = C.c_void_p()
                if not done.value:
                    _orphaned.append(self._keep)
                self._drop()
            finally:
                self._waits.release()

    @staticmethod
    def Startall(requests: Sequence[Request]) -> None:
        """Start all of these persistent requests, or none."""
        with _set(requests) as (requests, array):
            check(lib.startall(len(requests), array))

    @staticmethod
    def Waitall(requests: Sequence[Request], statuses: Optional[list] = None) -> bool:
        """Wait for all; the first error among them is raised after all are complete."""
        with _set(requests, statuses) as (requests, array):
            code = lib.waitall(len(requests), array)
            _store(requests, array, code, statuses)
        check(code, _first(requests))
        return True

    @staticmethod
    def Testall(requests: Sequence[Request], statuses: Optional[list] = None) -> bool:
        """True if all are complete."""
        done = C.c_int()
        with _set(requests, statuses) as (requests, array):
            code = lib.testall(len(requests), array, C.addressof(done))
            _store(requests, array, code, statuses if done.value else None)
        check(code, _first(requests))
        return bool(done.value)

    @staticmethod
    def Waitany(requests: Sequence[Request], status: Optional[Status] = None) -> int:
        """Wait for one: its place, or UNDEFINED if none is active."""
        index = C.c_int(-1)
        with _set(requests) as (requests, array):
            code = lib.waitany(len(requests), array, C.addressof(index))
            _store_one(requests, array, index.value, code, status)
        check(code, _first(requests))
        return index.value

    @staticmethod
    def Testany(requests: Sequence[Request],
                status: Optional[Status] = None) -> tuple[int, bool]:
        """The place of one that is complete, or UNDEFINED, and whether it waits for none."""
        index, done = C.c_int(-1), C.c_int()
        with _set(requests) as (requests, array):
            code = lib.testany(len(requests), array, C.addressof(index), C.addressof(done))
            _store_one(requests, array, index.value, code, status)
        check(code, _first(requests))
        return index.value, bool(done.value)

    @staticmethod
    def Waitsome(requests: Sequence[Request]) -> list[int]:
        """Wait until one or more are complete: their places."""
        return _some(lib.waitsome, requests)

    @staticmethod
    def Testsome(requests: Sequence[Request]) -> list[int]:
        """The places of those that are complete now."""
        return _some(lib.testsome, requests)


@contextmanager
def _set(requests: Iterable[Request], statuses: Optional[list] = None) -> Iterator[tuple]:
    """A list of the requests and an array of their handles, which no other thread waits for."""
    requests = [instance(request, Request, "a request") for request in requests]
    if statuses is not None:
        if len(statuses) < len(requests):
            raise ArgumentError(f"{len(statuses)} statuses for {len(requests)} requests")
        for status in statuses:
            instance(status, Status, "a status")
    entered = 0
    try:
        for request in requests:
            request._enter()
            entered += 1
        yield requests, (C.c_void_p * max(entered, 1))(*[r._handle.value for r in requests])
    finally:
        for request in requests[:entered]:
            request._waits.release()


def _first(requests: Sequence[Request]) -> Optional[int]:
    return requests[0]._pointer() if requests else None


def _store(requests: Sequence[Request], array: C.Array, code: int,
           statuses: Optional[list]) -> None:
    for index, request in enumerate(requests):
        had = bool(request._handle)
        request._handle = C.c_void_p(array[index])
        if had:
            request._ended(0 if request.persistent else code,
                           None if statuses is None else statuses[index])


def _store_one(requests: Sequence[Request], array: C.Array, index: int, code: int,
               status: Optional[Status]) -> None:
    if index >= 0:
        requests[index]._handle = C.c_void_p(array[index])
        requests[index]._ended(code, status)


def _some(call: Callable, requests: Sequence[Request]) -> list[int]:
    count, failed = C.c_int(), None
    with _set(requests) as (requests, array):
        n = len(requests)
        indices, results = (C.c_int * max(n, 1))(), (C.c_int * max(n, 1))()
        code = call(n, array, C.addressof(count), indices, results)
        for place, result in zip(indices[:count.value], results[:count.value]):
            _store_one(requests, array, place, result, None)
            if result < 0 and failed is None:
                failed = error_of(result, requests[place]._pointer())
    if failed is not None:
        raise failed
    check(code, _first(requests))
    return list(indices[:count.value])
