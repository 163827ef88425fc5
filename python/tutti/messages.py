# SPDX-License-Identifier: BSD-3-Clause
"""Messages between two ranks."""

from __future__ import annotations

import ctypes as C
from typing import TYPE_CHECKING, Any, Callable, Optional

from ._abi import ANY_SOURCE, ANY_TAG
from ._library import check, lib
from .buffers import Memory, Spec, memory
from .request import Request, Status, hold

if TYPE_CHECKING:
    from .communicator import Comm


class Message:
    """A message that Mprobe or Improbe has taken out; Recv receives it, once."""

    def __init__(self, comm: Comm, handle: C.c_void_p) -> None:
        self._comm = comm
        self._handle = handle

    def Recv(self, buf: Spec, status: Optional[Status] = None) -> None:
        """Receive the message."""
        data, status = memory(buf, True), status or Status()
        check(lib.mrecv(data.address, data.count, data.datatype, C.addressof(self._handle),
                        status._address()), self._comm._pointer())

    def Irecv(self, buf: Spec) -> Request:
        """Receive the message, nonblocking."""
        data, status = memory(buf, True), Status()
        return Request._begin(
            lambda at: lib.imrecv(data.address, data.count, data.datatype,
                                  C.addressof(self._handle), status._address(), at),
            self._comm, [data, status], status=status)


class Messages:
    """Sends, receives and probes of a communicator."""

    if TYPE_CHECKING:
        def _pointer(self) -> int: ...

    def _send(self, call: Callable, buf: Spec, dest: int, tag: int) -> None:
        data, pointer = memory(buf, False), self._pointer()
        hold([data])
        check(call(data.address, data.count, data.datatype, dest, tag, pointer), pointer)

    def _isend(self, call: Callable, buf: Spec, dest: int, tag: int, persistent: bool) -> Request:
        data, pointer = memory(buf, False), self._pointer()
        return Request._begin(
            lambda at: call(data.address, data.count, data.datatype, dest, tag, pointer, at),
            self, [data], persistent=persistent)

    def _irecv(self, call: Callable, buf: Spec, source: int, tag: int,
               persistent: bool) -> Request:
        data, status, pointer = memory(buf, True), Status(), self._pointer()
        return Request._begin(
            lambda at: call(data.address, data.count, data.datatype, source, tag, pointer,
                            status._address(), at),
            self, [data, status], persistent=persistent, status=status)

    def Send(self, buf: Spec, dest: int, tag: int = 0) -> None:
        """Send buf to rank dest."""
        self._send(lib.send, buf, dest, tag)

    def Ssend(self, buf: Spec, dest: int, tag: int = 0) -> None:
        """As Send, complete only when a receive has matched the message."""
        self._send(lib.ssend, buf, dest, tag)

    def Isend(self, buf: Spec, dest: int, tag: int = 0) -> Request:
        """As Send, nonblocking."""
        return self._isend(lib.isend, buf, dest, tag, False)

    def Issend(self, buf: Spec, dest: int, tag: int = 0) -> Request:
        """As Ssend, nonblocking."""
        return self._isend(lib.issend, buf, dest, tag, False)

    def Send_init(self, buf: Spec, dest: int, tag: int = 0) -> Request:
        """As Send, persistent."""
        return self._isend(lib.send_init, buf, dest, tag, True)

    def Ssend_init(self, buf: Spec, dest: int, tag: int = 0) -> Request:
        """As Ssend, persistent."""
        return self._isend(lib.ssend_init, buf, dest, tag, True)

    def Recv(self, buf: Spec, source: int = ANY_SOURCE, tag: int = ANY_TAG,
             status: Optional[Status] = None) -> None:
        """Receive a message of at most the elements of buf."""
        data, status, pointer = memory(buf, True), status or Status(), self._pointer()
        hold([data, status])
        check(lib.recv(data.address, data.count, data.datatype, source, tag, pointer,
                       status._address()), pointer)

    def Irecv(self, buf: Spec, source: int = ANY_SOURCE, tag: int = ANY_TAG) -> Request:
        """As Recv, nonblocking; the request's status has the message."""
        return self._irecv(lib.irecv, buf, source, tag, False)

    def Recv_init(self, buf: Spec, source: int = ANY_SOURCE, tag: int = ANY_TAG) -> Request:
        """As Recv, persistent."""
        return self._irecv(lib.recv_init, buf, source, tag, True)

    def Sendrecv(self, sendbuf: Spec, dest: int, sendtag: int = 0, recvbuf: Spec = None,
                 source: int = ANY_SOURCE, recvtag: int = ANY_TAG,
                 status: Optional[Status] = None) -> None:
        """Send and receive at once; the buffers must not overlap."""
        send, recv = memory(sendbuf, False), _received(recvbuf)
        status, pointer = status or Status(), self._pointer()
        hold([send, recv, status])
        check(lib.sendrecv(send.address, send.count, send.datatype, dest, sendtag, recv.address,
                           recv.count, recv.datatype or send.datatype, source, recvtag, pointer,
                           status._address()), pointer)

    def Probe(self, source: int = ANY_SOURCE, tag: int = ANY_TAG,
              status: Optional[Status] = None) -> Status:
        """Wait for a message: its status."""
        status, pointer = status or Status(), self._pointer()
        check(lib.probe(source, tag, pointer, status._address()), pointer)
        return status

    def Iprobe(self, source: int = ANY_SOURCE, tag: int = ANY_TAG,
               status: Optional[Status] = None) -> bool:
        """True if there is such a message now."""
        status, pointer, found = status or Status(), self._pointer(), C.c_int()
        check(lib.iprobe(source, tag, pointer, C.addressof(found), status._address()), pointer)
        return bool(found.value)

    def Mprobe(self, source: int = ANY_SOURCE, tag: int = ANY_TAG,
               status: Optional[Status] = None) -> Message:
        """Wait for a message and take it out: no other receive finds it."""
        status, pointer, handle = status or Status(), self._pointer(), C.c_void_p()
        check(lib.mprobe(source, tag, pointer, C.addressof(handle), status._address()), pointer)
        return Message(self, handle)  # type: ignore[arg-type]

    def Improbe(self, source: int = ANY_SOURCE, tag: int = ANY_TAG,
                status: Optional[Status] = None) -> Optional[Message]:
        """As Mprobe, but None if there is no such message now."""
        status, pointer = status or Status(), self._pointer()
        handle, found = C.c_void_p(), C.c_int()
        check(lib.improbe(source, tag, pointer, C.addressof(found), C.addressof(handle),
                          status._address()), pointer)
        return Message(self, handle) if found.value else None  # type: ignore[arg-type]


def _received(recvbuf: Any) -> Memory:
    return memory(recvbuf, True)
