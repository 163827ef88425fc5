# SPDX-License-Identifier: BSD-3-Clause
"""Messages between two ranks."""

from __future__ import annotations

import ctypes as C
from typing import TYPE_CHECKING, Any, Callable, Optional

from ._abi import ANY_SOURCE, ANY_TAG
from ._library import Owned, check, function_tables, instance, lib
from .buffers import NOTHING, Spec, memory
from .layout import laid_out, with_layout
from .request import Request, Status, hold

if TYPE_CHECKING:
    from .communicator import Comm


# With a layout: another function of the library.
_WITH_LAYOUT = {
    "send": lib.send_layout, "isend": lib.isend_layout, "send_init": lib.send_layout_init,
    "ssend": lib.ssend_layout, "issend": lib.issend_layout, "ssend_init": lib.ssend_layout_init,
    "recv": lib.recv_layout, "irecv": lib.irecv_layout, "recv_init": lib.recv_layout_init,
    "mrecv": lib.mrecv_layout, "imrecv": lib.imrecv_layout,
}
_PLAIN = {
    "send": lib.send, "isend": lib.isend, "send_init": lib.send_init, "ssend": lib.ssend,
    "issend": lib.issend, "ssend_init": lib.ssend_init, "recv": lib.recv, "irecv": lib.irecv,
    "recv_init": lib.recv_init, "mrecv": lib.mrecv, "imrecv": lib.imrecv,
}
function_tables += [_WITH_LAYOUT, _PLAIN]


def _status(status: Optional[Status]) -> Status:
    return Status() if status is None else instance(status, Status, "status")


def _form(name: str, buf: Spec, writable: bool) -> tuple[Callable, tuple, list]:
    """The function for buf, its first arguments, and what must live as long as the operation."""
    if with_layout(buf):
        data, layout = laid_out(buf, writable)
        return _WITH_LAYOUT[name], (data.address, layout.address), [data, layout]
    data = memory(buf, writable)
    return _PLAIN[name], (data.address, data.count, data.datatype), [data]


class Message(Owned):
    """A message that Mprobe or Improbe has taken out; Recv receives it, once."""

    def __init__(self, comm: Comm, handle: C.c_void_p) -> None:
        self._comm = comm
        self._handle = handle

    def Recv(self, buf: Spec, status: Optional[Status] = None) -> None:
        """Receive the message."""
        call, what, keep = _form("mrecv", buf, True)
        status = _status(status)
        self._comm._check(call(*what, C.addressof(self._handle), status._address()))

    def Irecv(self, buf: Spec) -> Request:
        """Receive the message, nonblocking."""
        call, what, keep = _form("imrecv", buf, True)
        status = Status()
        return Request._begin(
            lambda at: call(*what, C.addressof(self._handle), status._address(), at),
            self._comm, [*keep, status], status=status)


class Messages:
    """Sends, receives and probes of a communicator."""

    if TYPE_CHECKING:
        def _pointer(self) -> int: ...

    def _send(self, name: str, buf: Spec, dest: int, tag: int) -> None:
        call, what, keep = _form(name, buf, False)
        pointer = self._pointer()
        hold(keep)
        check(call(*what, dest, tag, pointer), pointer)

    def _isend(self, name: str, buf: Spec, dest: int, tag: int) -> Request:
        call, what, keep = _form(name, buf, False)
        pointer = self._pointer()
        return Request._begin(lambda at: call(*what, dest, tag, pointer, at), self, keep,
                              persistent=name.endswith("_init"))

    def _irecv(self, name: str, buf: Spec, source: int, tag: int) -> Request:
        call, what, keep = _form(name, buf, True)
        status, pointer = Status(), self._pointer()
        return Request._begin(
            lambda at: call(*what, source, tag, pointer, status._address(), at), self,
            [*keep, status], persistent=name.endswith("_init"), status=status)

    def Send(self, buf: Spec, dest: int, tag: int = 0) -> None:
        """Send buf, or [buf, layout], to rank dest."""
        self._send("send", buf, dest, tag)

    def Ssend(self, buf: Spec, dest: int, tag: int = 0) -> None:
        """As Send, complete only when a receive has matched the message."""
        self._send("ssend", buf, dest, tag)

    def Isend(self, buf: Spec, dest: int, tag: int = 0) -> Request:
        """As Send, nonblocking."""
        return self._isend("isend", buf, dest, tag)

    def Issend(self, buf: Spec, dest: int, tag: int = 0) -> Request:
        """As Ssend, nonblocking."""
        return self._isend("issend", buf, dest, tag)

    def Send_init(self, buf: Spec, dest: int, tag: int = 0) -> Request:
        """As Send, persistent."""
        return self._isend("send_init", buf, dest, tag)

    def Ssend_init(self, buf: Spec, dest: int, tag: int = 0) -> Request:
        """As Ssend, persistent."""
        return self._isend("ssend_init", buf, dest, tag)

    def Recv(self, buf: Spec, source: int = ANY_SOURCE, tag: int = ANY_TAG,
             status: Optional[Status] = None) -> None:
        """Receive a message of at most the elements of buf, or of [buf, layout]."""
        call, what, keep = _form("recv", buf, True)
        status, pointer = _status(status), self._pointer()
        hold([*keep, status])
        check(call(*what, source, tag, pointer, status._address()), pointer)

    def Irecv(self, buf: Spec, source: int = ANY_SOURCE, tag: int = ANY_TAG) -> Request:
        """As Recv, nonblocking; the request's status has the message."""
        return self._irecv("irecv", buf, source, tag)

    def Recv_init(self, buf: Spec, source: int = ANY_SOURCE, tag: int = ANY_TAG) -> Request:
        """As Recv, persistent."""
        return self._irecv("recv_init", buf, source, tag)

    def Sendrecv(self, sendbuf: Spec, dest: int, sendtag: int = 0, recvbuf: Spec = None,
                 source: int = ANY_SOURCE, recvtag: int = ANY_TAG,
                 status: Optional[Status] = None) -> None:
        """Send and receive at once; the buffers must not overlap."""
        send = memory(sendbuf, False)
        recv = NOTHING if recvbuf is None else memory(recvbuf, True)
        status, pointer = _status(status), self._pointer()
        hold([send, recv, status])
        check(lib.sendrecv(send.address, send.count, send.datatype, dest, sendtag, recv.address,
                           recv.count, recv.datatype or send.datatype, source, recvtag, pointer,
                           status._address()), pointer)

    def Probe(self, source: int = ANY_SOURCE, tag: int = ANY_TAG,
              status: Optional[Status] = None) -> Status:
        """Wait for a message: its status."""
        status, pointer = _status(status), self._pointer()
        check(lib.probe(source, tag, pointer, status._address()), pointer)
        return status

    def Iprobe(self, source: int = ANY_SOURCE, tag: int = ANY_TAG,
               status: Optional[Status] = None) -> bool:
        """True if there is such a message now."""
        status, pointer, found = _status(status), self._pointer(), C.c_int()
        check(lib.iprobe(source, tag, pointer, C.addressof(found), status._address()), pointer)
        return bool(found.value)

    def Mprobe(self, source: int = ANY_SOURCE, tag: int = ANY_TAG,
               status: Optional[Status] = None) -> Message:
        """Wait for a message and take it out: no other receive finds it."""
        status, pointer, handle = _status(status), self._pointer(), C.c_void_p()
        check(lib.mprobe(source, tag, pointer, C.addressof(handle), status._address()), pointer)
        return Message(self, handle)  # type: ignore[arg-type]

    def Improbe(self, source: int = ANY_SOURCE, tag: int = ANY_TAG,
                status: Optional[Status] = None) -> Optional[Message]:
        """As Mprobe, but None if there is no such message now."""
        status, pointer = _status(status), self._pointer()
        handle, found = C.c_void_p(), C.c_int()
        check(lib.improbe(source, tag, pointer, C.addressof(found), C.addressof(handle),
                          status._address()), pointer)
        return Message(self, handle) if found.value else None  # type: ignore[arg-type]
