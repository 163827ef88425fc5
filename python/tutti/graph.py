# SPDX-License-Identifier: BSD-3-Clause
"""Graphs of ranks, collectives of neighbours, push-sum. See tutti_decentralized(7)."""

from __future__ import annotations

import ctypes as C
from typing import Any, Callable, Iterable, Optional

from . import _abi
from ._abi import Datatype, Weights
from ._library import check, instance, lib
from .buffers import Buffer, Memory, Spec, memory
from .codec import _Handle
from .communicator import Comm
from .errors import ArgumentError
from .request import Request, hold


class Graph(_Handle):
    """Which rank averages with which, and with what weights; the same on all ranks. Local."""

    def __init__(self, handle: C.c_void_p) -> None:
        super().__init__(handle, lib.graph_free)

    @classmethod
    def _make(cls, call: Callable, *args: Any) -> Graph:
        handle = C.c_void_p()
        check(call(*args, C.addressof(handle)))
        return cls(handle)

    @classmethod
    def ring(cls, nranks: int) -> Graph:
        """Each rank and the two beside it."""
        return cls._make(lib.graph_ring, nranks)

    @classmethod
    def torus(cls, rows: int, cols: int) -> Graph:
        """Rank row * cols + col and the ranks above, below, left and right."""
        return cls._make(lib.graph_torus, rows, cols)

    @classmethod
    def star(cls, nranks: int) -> Graph:
        """Rank 0 and each other rank."""
        return cls._make(lib.graph_star, nranks)

    @classmethod
    def complete(cls, nranks: int) -> Graph:
        """Each rank and all others."""
        return cls._make(lib.graph_complete, nranks)

    @classmethod
    def exponential(cls, nranks: int) -> Graph:
        """Each rank sends to the ranks 1, 2, 4, ... further on."""
        return cls._make(lib.graph_exponential, nranks)

    @classmethod
    def one_peer(cls, nranks: int) -> Graph:
        """In step t each rank sends to the rank 2**(t mod log2 nranks) further on."""
        return cls._make(lib.graph_one_peer, nranks)

    @classmethod
    def regular(cls, nranks: int, degree: int, seed: int = 0) -> Graph:
        """A random connected graph in which each rank has degree neighbours."""
        return cls._make(lib.graph_regular, nranks, degree, seed)

    @classmethod
    def edges(cls, nranks: int, edges: Iterable[tuple], weights: Weights = Weights.METROPOLIS
              ) -> Graph:
        """The graph of these (from, to) or (from, to, weight)."""
        made = []
        for edge in edges:
            if len(edge) not in (2, 3):
                raise ArgumentError(f"an edge is {edge!r}; pass (from, to) or (from, to, weight)")
            made.append(_abi.Edge(*[_abi.number(C.c_int, rank) for rank in edge[:2]], *edge[2:]))
        return cls._make(lib.graph_edges, nranks, (_abi.Edge * max(len(made), 1))(*made),
                         len(made), weights)

    @property
    def size(self) -> int:
        """The number of ranks."""
        return lib.graph_size(self._pointer())

    @property
    def period(self) -> int:
        """Steps until the graph repeats."""
        return lib.graph_period(self._pointer())

    def weight(self, to: int, source: int, step: int = 0) -> float:
        """The share of rank source's value in the next one of rank to; 0: no edge."""
        return lib.graph_weight(self._pointer(), step, to, source)

    def _neighbors(self, call: Callable, rank: int, step: int) -> list[int]:
        ranks, n = (C.c_int * max(self.size, 1))(), C.c_int()
        check(call(self._pointer(), step, rank, ranks, self.size, C.addressof(n)))
        return list(ranks[:n.value])

    def in_neighbors(self, rank: int, step: int = 0) -> list[int]:
        """The ranks that rank receives from."""
        return self._neighbors(lib.graph_in, rank, step)

    def out_neighbors(self, rank: int, step: int = 0) -> list[int]:
        """The ranks that rank sends to."""
        return self._neighbors(lib.graph_out, rank, step)

    def check(self, *, rows: bool = False, columns: bool = False, symmetric: bool = False) -> None:
        """Raise ArgumentError, which names the place, unless the weights are like this."""
        check(lib.graph_check(self._pointer(), rows | columns << 1 | symmetric << 2))

    def lambda2(self) -> float:
        """The factor by which disagreement shrinks per step."""
        found = C.c_double()
        check(lib.graph_lambda2(self._pointer(), C.addressof(found)))
        return found.value


def _blocks(send: Memory, recv: Memory, send_blocks: int, recv_blocks: int) -> int:
    """Elements of a block: recv has recv_blocks of them, send has send_blocks."""
    known = recv if send.in_place or not send_blocks else send
    blocks = recv_blocks if known is recv else send_blocks
    if not blocks:
        return 0
    count = known.count // blocks
    if known.count % blocks or recv.count != count * recv_blocks or \
            not send.in_place and send.count != count * send_blocks:
        raise ArgumentError(f"buffers of {send.count} and {recv.count} elements for {send_blocks} "
                            f"and {recv_blocks} blocks; pass blocks of one size")
    if not send.in_place and send.datatype != recv.datatype:
        raise ArgumentError(f"the send buffer is {send.datatype!r}, the receive buffer "
                            f"{recv.datatype!r}; pass one datatype")
    return count


class Neighbors:
    """Collectives of neighbours: methods of a communicator."""

    def _neighbor(self, name: str, sendbuf: Spec, recvbuf: Spec, graph: Graph,
                  step: int) -> tuple[Callable, tuple, list]:
        comm: Any = self
        send, recv = memory(sendbuf, False, in_place=True), memory(recvbuf, True)
        instance(graph, Graph, "graph")
        sends = receives = 1
        if "allreduce" not in name:
            receives = len(graph.in_neighbors(comm.rank, step))
        if "alltoall" in name:
            sends = len(graph.out_neighbors(comm.rank, step))
        count = _blocks(send, recv, sends, receives)
        return getattr(lib, name), (send.address, recv.address, count, recv.datatype,
                                    graph._pointer(), step, comm._pointer()), [send, recv]

    def _neighbor_now(self, *args: Any) -> None:
        call, what, keep = self._neighbor(*args)
        hold(keep)
        check(call(*what), what[-1])

    def _neighbor_request(self, *args: Any) -> Request:
        call, what, keep = self._neighbor(*args)
        return Request._begin(lambda at: call(*what, at), self, keep,
                              persistent=args[0].endswith("_init"))

    def Neighbor_allreduce(self, sendbuf: Spec, recvbuf: Spec, graph: Graph, step: int = 0) -> None:
        """recvbuf: the weighted sum of the sendbufs of the in-neighbours and of this rank."""
        self._neighbor_now("neighbor_allreduce", sendbuf, recvbuf, graph, step)

    def Ineighbor_allreduce(self, sendbuf: Spec, recvbuf: Spec, graph: Graph,
                            step: int = 0) -> Request:
        """As Neighbor_allreduce, nonblocking."""
        return self._neighbor_request("ineighbor_allreduce", sendbuf, recvbuf, graph, step)

    def Neighbor_allreduce_init(self, sendbuf: Spec, recvbuf: Spec, graph: Graph,
                                step: int = 0) -> Request:
        """As Neighbor_allreduce, persistent."""
        return self._neighbor_request("neighbor_allreduce_init", sendbuf, recvbuf, graph, step)

    def Neighbor_hier_allreduce(self, sendbuf: Spec, recvbuf: Spec, graph: Graph,
                                step: int = 0) -> None:
        """The mean over each host, then the weighted sum over neighbouring hosts."""
        self._neighbor_now("neighbor_hier_allreduce", sendbuf, recvbuf, graph, step)

    def Ineighbor_hier_allreduce(self, sendbuf: Spec, recvbuf: Spec, graph: Graph,
                                 step: int = 0) -> Request:
        """As Neighbor_hier_allreduce, nonblocking."""
        return self._neighbor_request("ineighbor_hier_allreduce", sendbuf, recvbuf, graph, step)

    def Neighbor_hier_allreduce_init(self, sendbuf: Spec, recvbuf: Spec, graph: Graph,
                                     step: int = 0) -> Request:
        """As Neighbor_hier_allreduce, persistent."""
        return self._neighbor_request("neighbor_hier_allreduce_init", sendbuf, recvbuf, graph,
                                      step)

    def Neighbor_allgather(self, sendbuf: Spec, recvbuf: Spec, graph: Graph, step: int = 0) -> None:
        """sendbuf goes to each out-neighbour; recvbuf: a block of each in-neighbour, by rank."""
        self._neighbor_now("neighbor_allgather", sendbuf, recvbuf, graph, step)

    def Ineighbor_allgather(self, sendbuf: Spec, recvbuf: Spec, graph: Graph,
                            step: int = 0) -> Request:
        """As Neighbor_allgather, nonblocking."""
        return self._neighbor_request("ineighbor_allgather", sendbuf, recvbuf, graph, step)

    def Neighbor_allgather_init(self, sendbuf: Spec, recvbuf: Spec, graph: Graph,
                                step: int = 0) -> Request:
        """As Neighbor_allgather, persistent."""
        return self._neighbor_request("neighbor_allgather_init", sendbuf, recvbuf, graph, step)

    def Neighbor_alltoall(self, sendbuf: Spec, recvbuf: Spec, graph: Graph, step: int = 0) -> None:
        """As Neighbor_allgather, but sendbuf has a block for each out-neighbour, by rank."""
        self._neighbor_now("neighbor_alltoall", sendbuf, recvbuf, graph, step)

    def Ineighbor_alltoall(self, sendbuf: Spec, recvbuf: Spec, graph: Graph,
                           step: int = 0) -> Request:
        """As Neighbor_alltoall, nonblocking."""
        return self._neighbor_request("ineighbor_alltoall", sendbuf, recvbuf, graph, step)

    def Neighbor_alltoall_init(self, sendbuf: Spec, recvbuf: Spec, graph: Graph,
                               step: int = 0) -> Request:
        """As Neighbor_alltoall, persistent."""
        return self._neighbor_request("neighbor_alltoall_init", sendbuf, recvbuf, graph, step)


for _name, _method in list(vars(Neighbors).items()):
    if not _name.startswith("__"):
        setattr(Comm, _name, _method)


class PushSum(_Handle):
    """Averages along directed graphs that change; no rank waits for another one. Collective."""

    def __init__(self, comm: Comm, count: int) -> None:
        handle = C.c_void_p()
        pointer = Comm._of(comm, "comm")
        check(lib.push_sum_create(pointer, count, C.addressof(handle)), pointer)
        super().__init__(handle, lib.push_sum_free)
        self.comm = comm
        self.count = count

    def _doubles(self, buffer: Buffer, writable: bool) -> Memory:
        data = memory(buffer, writable)
        if data.datatype != Datatype.FLOAT64 or data.count != self.count:
            raise ArgumentError(f"a vector of {data.count} {data.datatype!r}; pass {self.count} "
                                "float64")
        return data

    def add(self, delta: Buffer) -> None:
        """x += delta: the first values, or the step of an optimizer. Local."""
        check(lib.push_sum_add(self._pointer(), self._doubles(delta, False).address))

    def step(self, graph: Graph, step: int = 0) -> None:
        """Take in what has come, then send shares to the out-neighbours; wait for no rank."""
        self.comm._check(lib.push_sum_step(self._pointer(), Graph._of(graph, "graph"), step))

    def drain(self) -> None:
        """Wait until all pushes of all ranks have been taken in. Collective."""
        self.comm._check(lib.push_sum_drain(self._pointer()))

    def get(self, z: Optional[Buffer] = None) -> float:
        """Set z to x / w; the weight w. Local."""
        weight, vector = C.c_double(), (C.c_double * self.count)()
        data = self._doubles(vector if z is None else z, True)
        check(lib.push_sum_get(self._pointer(), data.address, C.addressof(weight)))
        return weight.value

    @property
    def missed(self) -> int:
        """Pushes that were not made, as the last one was under way."""
        return lib.push_sum_missed(self._pointer())


__all__ = ["Graph", "Neighbors", "PushSum", "Weights"]
