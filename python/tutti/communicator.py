# SPDX-License-Identifier: BSD-3-Clause
"""Communicators: ordered groups of ranks."""

from __future__ import annotations

import ctypes as C
from typing import TYPE_CHECKING, Any, NamedTuple, Optional, Sequence

from . import _abi
from ._abi import UNDEFINED, Op
from ._library import Scoped, check, encoded, error_from, lib
from .collectives import Collectives
from .errors import ArgumentError, Error
from .messages import Messages
from .request import Request

if TYPE_CHECKING:
    from .context import Context


class Failed(NamedTuple):
    """A rank that has failed."""

    rank: int
    world_rank: int
    host: str
    reason: str


class Comm(Collectives, Messages, Scoped):
    """A communicator. Context.world is the first; Dup, Split and Create make others."""

    def __init__(self, context: Context, handle: C.c_void_p, owned: bool = True) -> None:
        self.context = context
        self._handle: Optional[int] = handle.value
        self._owned = owned
        self.rank: int = lib.comm_rank(self._handle)
        self.size: int = lib.comm_size(self._handle)

    @property
    def alive(self) -> bool:
        """False once the communicator or its context has ended."""
        return self._handle is not None and self.context.alive

    def _pointer(self) -> int:
        if not self.alive or self._handle is None:
            raise Error("the communicator has ended: it was freed, or its context was finalized")
        return self._handle

    def _check(self, code: int) -> None:
        """Raise the exception of a call on an object that may outlive this communicator."""
        check(code, self._handle if self.alive else None)

    def _made(self, handle: C.c_void_p) -> Optional[Comm]:
        return Comm(self.context, handle) if handle.value else None

    def Get_rank(self) -> int:
        """The rank of this process."""
        return self.rank

    def Get_size(self) -> int:
        """The number of ranks."""
        return self.size

    @property
    def name(self) -> str:
        """A name that errors and reports of this rank show."""
        return self.Get_name()

    @name.setter
    def name(self, name: str) -> None:
        self.Set_name(name)

    def Get_name(self) -> str:
        """The name, "" if there is none."""
        text = C.create_string_buffer(_abi.CONSTANTS["TUTTI_COMM_NAME_MAX"] + 1)
        check(lib.comm_get_name(self._pointer(), text, len(text)))
        return text.value.decode()

    def Set_name(self, name: str) -> None:
        """Set the name."""
        check(lib.comm_set_name(self._pointer(), encoded(name)))

    def world_rank(self, rank: int) -> int:
        """The rank in the world of a rank of this communicator."""
        found = lib.comm_world_rank(self._pointer(), rank)
        check(found if found < -1 else 0)
        return found

    def translate_ranks(self, ranks: Sequence[int], other: Comm) -> list[int]:
        """The ranks in other of these ranks, UNDEFINED for those that other does not have."""
        mine, theirs = _abi.array(C.c_int, ranks), (C.c_int * len(ranks))()
        check(lib.comm_translate_ranks(self._pointer(), len(ranks), mine, Comm._of(other, "other"),
                                       theirs))
        return list(theirs)

    def Set_timeout(self, timeout_ms: int) -> None:
        """The deadline of later calls; 0: the job's; NEVER: none."""
        check(lib.comm_set_timeout(self._pointer(), timeout_ms), self._handle)

    def Dup(self) -> Comm:
        """A communicator of the same ranks. Collective."""
        handle = C.c_void_p()
        check(lib.comm_dup(self._pointer(), C.addressof(handle)), self._handle)
        return Comm(self.context, handle)

    Clone = Dup

    def Split(self, color: int = 0, key: int = 0) -> Optional[Comm]:
        """One communicator for each color; None for color UNDEFINED. Collective."""
        handle = C.c_void_p()
        check(lib.comm_split(self._pointer(), color, key, C.addressof(handle)), self._handle)
        return self._made(handle)

    def Split_host(self, key: int = 0) -> Optional[Comm]:
        """One communicator for each host. Collective."""
        handle = C.c_void_p()
        check(lib.comm_split_host(self._pointer(), key, C.addressof(handle)), self._handle)
        return self._made(handle)

    def Idup(self) -> Request:
        """As Dup, nonblocking: the request's result is the communicator."""
        handle, pointer = C.c_void_p(), self._pointer()
        return Request._begin(lambda at: lib.comm_idup(pointer, C.addressof(handle), at), self,
                              [handle], finish=lambda: self._made(handle))

    def Isplit(self, color: int = 0, key: int = 0) -> Request:
        """As Split, nonblocking: the request's result is the communicator."""
        handle, pointer = C.c_void_p(), self._pointer()
        return Request._begin(
            lambda at: lib.comm_isplit(pointer, color, key, C.addressof(handle), at), self,
            [handle], finish=lambda: self._made(handle))

    def Create(self, color: int = 0, key: int = 0, *, tolerant: bool = False,
               name: str = "") -> Optional[Comm]:
        """As Split, with properties of its own. Collective."""
        config = _abi.CommConfig(color=color, key=key, flags=int(tolerant), name=encoded(name))
        handle = C.c_void_p()
        check(lib.comm_create(self._pointer(), C.addressof(config), C.addressof(handle)),
              self._handle)
        return self._made(handle)

    def Create_group(self, ranks: Sequence[int], tag: int = 0, *, tolerant: bool = False,
                     name: str = "") -> Comm:
        """A communicator of these ranks, called by them alone."""
        array = _abi.array(C.c_int, ranks)
        config = _abi.CommConfig(flags=int(tolerant), name=encoded(name), nranks=len(ranks),
                                 ranks=array, tag=tag)
        handle = C.c_void_p()
        check(lib.comm_create_group(self._pointer(), C.addressof(config), C.addressof(handle)),
              self._handle)
        return Comm(self.context, handle)

    def Free(self) -> None:
        """Free the communicator; requests and windows keep what they need of it."""
        pointer = self._pointer()
        if not self._owned:
            raise ArgumentError("the communicator is freed by its grid, or as its context is "
                                "finalized")
        check(lib.comm_free(pointer), pointer)
        self._handle = None

    def __exit__(self, *exc: Any) -> None:
        if self._owned and self.alive:
            super().__exit__(*exc)

    def __repr__(self) -> str:
        return f"<tutti.Comm rank {self.rank} of {self.size}>"

    def Abort(self, errorcode: int = 1) -> None:
        """Make all calls on all communicators of the job fail with AbortedError."""
        check(lib.comm_abort(self._pointer(), errorcode))

    def failed(self) -> list[Failed]:
        """The ranks that have failed."""
        pointer, n = self._pointer(), C.c_int()
        array = (_abi.Failed * self.size)()
        check(lib.comm_failed(pointer, array, self.size, C.addressof(n)))
        return [Failed(f.rank, f.world_rank, f.host.decode(), f.reason.decode())
                for f in array[:n.value]]

    def ack_failed(self) -> list[Failed]:
        """Acknowledge all ranks that have failed, on a tolerant communicator: these ranks."""
        pointer, n = self._pointer(), C.c_int()
        array = (_abi.Failed * self.size)()
        check(lib.comm_failed(pointer, array, self.size, C.addressof(n)))
        check(lib.comm_ack_failed(pointer, array, n.value), pointer)
        return [Failed(f.rank, f.world_rank, f.host.decode(), f.reason.decode())
                for f in array[:n.value]]

    def state(self) -> dict[str, int]:
        """The fields of struct tutti_comm_state."""
        state = _abi.CommState()
        check(lib.comm_state(self._pointer(), C.addressof(state)))
        return state.as_dict()

    def error(self) -> Optional[Exception]:
        """The failure that the communicator is in, else its last error, else None."""
        info = _abi.ErrorInfo()
        if lib.comm_error(self._pointer(), C.addressof(info)) != 0:
            return None
        return error_from(info)

    def Revoke(self) -> None:
        """Make all calls on this communicator fail with RevokedError on all its ranks."""
        check(lib.comm_revoke(self._pointer()), self._handle)

    def Shrink(self) -> Comm:
        """A communicator of the live ranks. Collective over them."""
        handle = C.c_void_p()
        check(lib.comm_shrink(self._pointer(), C.addressof(handle)), self._handle)
        return Comm(self.context, handle)

    def Grow(self, nranks: int, timeout_ms: int = 0) -> Context:
        """A new context of nranks ranks: the live ranks and new processes. Collective."""
        handle = C.c_void_p()
        check(lib.comm_grow(self._pointer(), nranks, timeout_ms, C.addressof(handle)), self._handle)
        return type(self.context)(handle)

    def Agree(self, value: int, op: int = Op.BAND) -> int:
        """The bitwise AND (BAND) or OR (BOR) of the values of the live ranks."""
        word = C.c_uint64(_abi.number(C.c_uint64, value))
        check(lib.comm_agree(self._pointer(), op, C.addressof(word)), self._handle)
        return word.value


__all__ = ["Comm", "Failed", "UNDEFINED"]
