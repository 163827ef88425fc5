# SPDX-License-Identifier: BSD-3-Clause
"""Averaging that does not wait: mailboxes, pairs, elastic averaging, partial all-reduces."""

from __future__ import annotations

import ctypes as C
import errno
from typing import NamedTuple, Optional, Sequence

from . import _abi
from ._abi import Datatype, Divide, Late, Op
from ._library import check, lib
from .buffers import SIZES, Memory, Spec, memory
from .codec import _Handle
from .communicator import Comm
from .context import _ByteArrays
from .errors import ArgumentError


def _vector(spec: Spec, writable: bool, count: int, datatype: Datatype,
            in_place: bool = False) -> Memory:
    data = memory(spec, writable, in_place=in_place)
    if not data.in_place and (data.count != count or data.datatype != datatype):
        raise ArgumentError(f"a vector of {data.count} {data.datatype!r}; pass {count} "
                            f"{datatype!r}")
    return data


class Gossip(_Handle):
    """This rank's mailbox, with a slot for each in-neighbour. Collective, as Free.

    If rank a lists b in outs, b lists a in ins. weights: of ins, at most 1 together.
    """

    def __init__(self, comm: Comm, count: int, ins: Sequence[int], outs: Sequence[int],
                 weights: Optional[Sequence[float]] = None,
                 datatype: Datatype = Datatype.FLOAT32) -> None:
        if weights is not None and len(weights) != len(ins):
            raise ArgumentError(f"{len(weights)} weights for {len(ins)} in-neighbours")
        arrays = _abi.array(C.c_int, ins), _abi.array(C.c_int, outs)
        shares = None if weights is None else (C.c_double * len(weights))(*weights)
        config = _abi.GossipConfig(count=count, datatype=datatype, nin=len(ins), nout=len(outs),
                                   out=C.addressof(arrays[1]),
                                   weights=None if shares is None else C.addressof(shares))
        setattr(config, "in", C.addressof(arrays[0]))
        handle = C.c_void_p()
        check(lib.gossip_create(Comm._of(comm, "comm"), C.addressof(config), C.addressof(handle)),
              comm._pointer())
        super().__init__(handle, lib.gossip_free)
        self.count, self.datatype, self._nin = count, datatype, len(ins)

    def post(self, x: Spec) -> None:
        """Write x to this rank's slots at its out-neighbours; x may be reused at once."""
        data = _vector(x, False, self.count, self.datatype)
        check(lib.gossip_post(self._pointer(), data.address))

    def mix(self, x: Spec) -> None:
        """Move x towards the newest vectors of the in-neighbours. Local."""
        data = _vector(x, True, self.count, self.datatype)
        check(lib.gossip_mix(self._pointer(), data.address))

    def flush(self) -> None:
        """Wait until what was posted is in the slots of the live out-neighbours."""
        check(lib.gossip_flush(self._pointer()))

    def versions(self) -> list[int]:
        """By in-neighbour, which of its posts the last mix used; 0: none."""
        found = (C.c_uint64 * max(self._nin, 1))()
        check(lib.gossip_versions(self._pointer(), found))
        return list(found[:self._nin])

    def state(self) -> dict[str, int]:
        """The fields of struct tutti_gossip_state."""
        state = _abi.GossipState()
        check(lib.gossip_state(self._pointer(), C.addressof(state)))
        return state.as_dict()


class Pair(_Handle):
    """A vector on each rank that any two ranks average at once. Collective, as Free."""

    def __init__(self, comm: Comm, count: int, datatype: Datatype = Datatype.FLOAT32) -> None:
        handle, base = C.c_void_p(), C.c_void_p()
        check(lib.pair_create(Comm._of(comm, "comm"), count, datatype, C.addressof(base),
                              C.addressof(handle)), comm._pointer())
        super().__init__(handle, lib.pair_free)
        self._arrays = _ByteArrays()
        self._base, self._nbytes = base.value, count * SIZES[Datatype(datatype)]

    def tomemory(self) -> memoryview:
        """This rank's vector, for numpy.frombuffer; read or change it between lock and unlock."""
        self._pointer()
        if not self._nbytes or not self._base:
            return memoryview(bytearray())
        return self._arrays.make(self._base, self._nbytes)

    def average(self, rank: int = _abi.CONSTANTS["TUTTI_PAIR_ANY"]) -> int:
        """Replace this rank's vector and rank's (-1: a live one at random) by their average."""
        partner = C.c_int(_abi.number(C.c_int, rank))
        check(lib.pair_average(self._pointer(), rank, C.addressof(partner)))
        return partner.value

    def lock(self, rank: int) -> None:
        """Keep averages away from rank's vector until unlock."""
        check(lib.pair_lock(self._pointer(), rank))

    def unlock(self) -> None:
        """End the lock."""
        check(lib.pair_unlock(self._pointer()))

    def state(self) -> dict[str, int]:
        """The fields of struct tutti_pair_state."""
        state = _abi.PairState()
        check(lib.pair_state(self._pointer(), C.addressof(state)))
        return state.as_dict()

    def Free(self) -> None:
        """Free it; its vector ends."""
        self._arrays.check_unused("freeing a pair")
        super().Free()


def elastic_average(x: Spec, center: Spec, alpha: float, comm: Comm) -> None:
    """Move x and the center, which is the same on all ranks, towards each other. Collective."""
    data, middle = memory(x, True), memory(center, True)
    if data.count != middle.count or data.datatype != middle.datatype or data.datatype is None:
        raise ArgumentError(f"x has {data.count} elements, the center {middle.count}; pass equal "
                            "counts and datatypes")
    pointer = Comm._of(comm, "comm")
    work = C.create_string_buffer(max(data.count * SIZES[data.datatype], 1))
    check(lib.elastic_average(data.address, middle.address, work, data.count, data.datatype,
                              alpha, pointer), pointer)


class Rounds(NamedTuple):
    """The rounds whose results a call has delivered, and the ranks in the last of them."""

    first: int
    last: int
    ranks: list[int]


class Partial(_Handle):
    """An all-reduce that does not wait for slow ranks. Collective, as Free.

    quorum: ranks that decide a round; 0: all that live; -1: more than half. cutoff_us: a round
    waits so long at most.
    """

    def __init__(self, comm: Comm, count: int, datatype: Datatype = Datatype.FLOAT32,
                 op: int = Op.SUM, *, quorum: int = 0, cutoff_us: int = 0, late: Late = Late.CARRY,
                 divide: Divide = Divide.BY_TAKING_PART) -> None:
        config = _abi.PartialConfig(quorum=quorum, cutoff_us=cutoff_us, late=late, divide=divide)
        handle = C.c_void_p()
        check(lib.partial_create(Comm._of(comm, "comm"), count, datatype, op, C.addressof(config),
                                 C.addressof(handle)), comm._pointer())
        super().__init__(handle, lib.partial_free)
        self.count, self.datatype, self._nranks = count, Datatype(datatype), comm.size

    def _ranks(self, bitmap: C.Array) -> list[int]:
        return [rank for rank in range(self._nranks) if bitmap[rank // 8] >> rank % 8 & 1]

    def _room(self) -> tuple:
        return (C.c_ubyte * (self._nranks // 8 + 1))(), C.c_uint64(), C.c_uint64()

    def Allreduce(self, sendbuf: Spec, recvbuf: Spec) -> Rounds:
        """Contribute; recvbuf: the sum of the results of rounds that this rank has not seen."""
        send = _vector(sendbuf, False, self.count, self.datatype, in_place=True)
        recv = _vector(recvbuf, True, self.count, self.datatype)
        bitmap, first, last = self._room()
        check(lib.partial_allreduce(self._pointer(), send.address, recv.address, bitmap,
                                    C.addressof(first), C.addressof(last)))
        return Rounds(first.value, last.value, self._ranks(bitmap))

    def drain(self, recvbuf: Spec) -> Rounds:
        """Wait for all living ranks to call this, and deliver every carry. Collective."""
        recv = _vector(recvbuf, True, self.count, self.datatype)
        bitmap, first, last = self._room()
        check(lib.partial_drain(self._pointer(), recv.address, bitmap, C.addressof(first),
                                C.addressof(last)))
        return Rounds(first.value, last.value, self._ranks(bitmap))

    def result(self, round_: int, recvbuf: Spec) -> Optional[list[int]]:
        """The result of a round, and who took part; None: it is not kept any more. Local."""
        recv, bitmap = _vector(recvbuf, True, self.count, self.datatype), self._room()[0]
        code = lib.partial_result(self._pointer(), round_, recv.address, bitmap)
        if code == -errno.ESTALE:
            return None
        check(code)
        return self._ranks(bitmap)

    def resync(self) -> int:
        """Skip to the last round that this rank knows: its number. Local."""
        round_ = C.c_uint64()
        check(lib.partial_resync(self._pointer(), C.addressof(round_)))
        return round_.value

    def stats(self) -> dict[str, int]:
        """The fields of struct tutti_partial_stats."""
        stats = _abi.PartialStats()
        check(lib.partial_stats_get(self._pointer(), C.addressof(stats)))
        return stats.as_dict()


__all__ = ["Divide", "Gossip", "Late", "Pair", "Partial", "Rounds", "elastic_average"]
