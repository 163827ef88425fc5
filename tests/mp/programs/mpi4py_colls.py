# SPDX-License-Identifier: BSD-3-Clause
"""Collectives of mpi4py against an oracle, for preload_codes.sh: buffers and objects."""
from array import array

from mpi4py import MPI


def ints(values):
    return array("i", values)


def check(found, expected, what):
    if list(found) != list(expected):
        print(f"rank {comm.rank}: {what}: {found} instead of {expected}", flush=True)
        comm.Abort(1)


def reductions(comm):
    rank, size = comm.rank, comm.size
    mine = ints(rank + i for i in range(50))
    total = [sum(r + i for r in range(size)) for i in range(50)]
    out = ints([0] * 50)
    comm.Allreduce(mine, out, MPI.SUM)
    check(out, total, "Allreduce")
    out = ints(mine)
    comm.Allreduce(MPI.IN_PLACE, out, MPI.MAX)
    check(out, [size - 1 + i for i in range(50)], "Allreduce in place")
    for root in range(size):
        out = ints([0] * 50)
        comm.Reduce(mine, out if rank == root else None, MPI.SUM, root)
        if rank == root:
            check(out, total, "Reduce")
    comm.Scan(mine, out, MPI.SUM)
    check(out, [sum(r + i for r in range(rank + 1)) for i in range(50)], "Scan")
    comm.Exscan(mine, out, MPI.SUM)
    if rank:
        check(out, [sum(r + i for r in range(rank)) for i in range(50)], "Exscan")
    blocks = ints(rank + i for i in range(4 * size))
    out = ints([0] * 4)
    comm.Reduce_scatter_block(blocks, out, MPI.SUM)
    check(out, [sum(r + 4 * rank + i for r in range(size)) for i in range(4)], "blocks")


def moves(comm):
    rank, size = comm.rank, comm.size
    for root in range(size):
        out = ints([rank] * 1000)
        comm.Bcast(out, root)
        check(out, [root] * 1000, "Bcast")
        all_blocks = ints([0] * (3 * size))
        comm.Gather(ints([rank] * 3), all_blocks if rank == root else None, root)
        if rank == root:
            check(all_blocks, [r for r in range(size) for _ in range(3)], "Gather")
        out = ints([0] * 3)
        comm.Scatter(ints(range(3 * size)) if rank == root else None, out, root)
        check(out, range(3 * rank, 3 * rank + 3), "Scatter")
    out = ints([0] * (2 * size))
    comm.Allgather(ints([rank, -rank]), out)
    check(out, [s * r for r in range(size) for s in (1, -1)], "Allgather")
    out = ints([0] * size)
    comm.Alltoall(ints(rank * 10 + r for r in range(size)), out)
    check(out, [r * 10 + rank for r in range(size)], "Alltoall")
    comm.Barrier()


def objects(comm):
    """Pickled objects travel by the forms with counts."""
    rank, size = comm.rank, comm.size
    everyone = [{"rank": r, "text": "x" * r} for r in range(size)]
    check(comm.allgather(everyone[rank]), everyone, "allgather")
    check(comm.alltoall([(rank, r) for r in range(size)]), [(r, rank) for r in range(size)],
          "alltoall")
    found = comm.gather(everyone[rank], root=1)
    if rank == 1:
        check(found, everyone, "gather")
    check([comm.scatter(everyone if rank == 1 else None, root=1)], [everyone[rank]], "scatter")
    check([comm.bcast(everyone if rank == 2 else None, root=2)], [everyone], "bcast")


comm = MPI.COMM_WORLD
for where in (comm, comm.Dup(), comm.Split(0, -comm.rank)):
    reductions(where)
    moves(where)
    objects(where)
print("mpi4py passed", flush=True)
