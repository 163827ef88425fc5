# SPDX-License-Identifier: BSD-3-Clause
"""Communicators: made, named, freed, revoked; contexts."""

import numpy as np
import pytest

import tutti


def total(comm):
    """The sum of 1 over the ranks."""
    one = np.ones(1, "i4")
    comm.Allreduce(tutti.IN_PLACE, one)
    return one[0]


def test_dup_and_split(ctx):
    """Dup, Split by parity, Split_host, Create and Create_group."""
    world = ctx.world
    with world.Dup() as copy:
        assert (copy.Get_rank(), copy.Get_size()) == (world.rank, world.size)
        assert total(copy) == world.size
    with pytest.raises(tutti.Error, match="freed"):
        copy.Barrier()
    color = world.rank % 2
    with world.Split(color, -world.rank if world.rank else 0) as half:
        members = [rank for rank in range(world.size) if rank % 2 == color]
        assert half.size == len(members) == total(half)
        assert sorted(half.world_rank(rank) for rank in range(half.size)) == members
        assert half.translate_ranks([half.rank], world) == [world.rank]
        assert world.translate_ranks([world.rank], half) == [half.rank]
    assert world.Split(tutti.UNDEFINED) is None
    with world.Split_host() as host:
        assert host.size == world.size
    with world.Create(0, 0, tolerant=True, name="patient") as patient:
        assert patient.name == "patient" and patient.state()["flags"] == 1
        patient.name = "new"
        assert patient.Get_name() == "new"
    if world.rank != world.size - 1 or world.size == 1:
        ranks = list(range(max(world.size - 1, 1)))
        with world.Create_group(ranks[::-1], tag=3) as group:
            assert total(group) == len(ranks)
            assert group.rank == len(ranks) - 1 - world.rank


def test_nonblocking(world):
    """Idup and Isplit: the result is there when the request is complete."""
    requests = [world.Idup(), world.Isplit(0, world.size - world.rank)]
    tutti.Request.Waitall(requests)
    with requests[0].result as copy, requests[1].result as turned:
        assert total(copy) == world.size
        assert turned.rank == world.size - 1 - world.rank and total(turned) == world.size


def test_self(ctx):
    """The communicator of this rank alone."""
    assert ctx.self_comm.size == 1 and total(ctx.self_comm) == 1
    assert ctx.self_comm is ctx.self_comm


def test_agree_and_shrink(world):
    """Agree, and Shrink of a communicator that was revoked."""
    assert world.Agree(0b110 | (world.rank == 0), tutti.BAND) == (0b111 if world.size == 1
                                                                   else 0b110)
    assert world.Agree(1 << world.rank, tutti.BOR) == (1 << world.size) - 1
    copy = world.Dup()
    assert copy.failed() == []
    world.Barrier()
    copy.Revoke()
    with pytest.raises(tutti.RevokedError):
        copy.Barrier()
    assert isinstance(copy.error(), tutti.RevokedError)
    with copy.Shrink() as new:
        assert total(new) == world.size
    copy.Free()


def test_mismatch(world):
    """Ranks that differ in a count all get the field that differs."""
    if world.size == 1:
        pytest.skip("one rank")
    copy = world.Dup()
    n = 4 if world.rank == 0 else 5
    with pytest.raises(tutti.MismatchError) as caught:
        copy.Allreduce(tutti.IN_PLACE, np.zeros(n, "f4"))
        copy.Barrier()
    assert caught.value.field == "count" and caught.value.call == "allreduce"
    copy.Free()
    world.Barrier()


def test_context(ctx):
    """Statistics, settings and what finalize waits for."""
    stats = ctx.stats()
    assert "put_bytes" in stats and "size" not in stats
    facts = tutti.describe()
    assert ("version" in {fact[0] for fact in facts}) and all(len(fact) == 4 for fact in facts)
    assert tutti.__version__.count(".") == 2
    view = ctx.alloc(64)
    with pytest.raises(tutti.BusyError, match="1 arrays"):
        ctx.finalize()
    view[:] = bytes(64)
    del view
    assert repr(ctx).startswith("<tutti.Context rank")
    assert repr(ctx.world).startswith("<tutti.Comm rank")


def test_log(ctx):
    """The log goes to a function."""
    lines = []
    tutti.set_log(lambda level, line: lines.append((level, line)), tutti.LogLevel.DEBUG)
    with ctx.world.Dup():
        pass
    tutti.set_log(None)
    assert all(isinstance(level, tutti.LogLevel) for level, _ in lines)
