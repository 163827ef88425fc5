# SPDX-License-Identifier: BSD-3-Clause
"""Windows: put, get, notifications, atomics, accumulates, shared memory."""

import numpy as np
import pytest

import tutti
from tutti import Win


def test_put_and_get(world):
    """Each rank puts to the next, which waits for a notification; gets read it back."""
    after, before = (world.rank + 1) % world.size, (world.rank - 1) % world.size
    memory = np.zeros(1000, "i4")
    with Win.Create(memory, world) as win:
        world.Barrier()
        win.Put_notify(np.full(100, world.rank, "i4"), after, 400)
        win.Wait_notify(before)
        assert (memory[100:200] == before).all() and not memory[200:500].any()
        win.Set_priority(3)
        win.Put_notify(np.full(10, world.rank + 1, "i4"), after, 0, id=7)
        win.Wait_notify(id=7)
        assert (memory[:10] == before + 1).all()
        got = np.empty(10, "i4")
        win.Get(got, after)
        win.Flush(after)
        assert (got == world.rank + 1).all()
        win.Put(np.full(5, 9, "i4"), after, 3980)
        win.Flush_all()
        tutti.Request.Waitall([win.Rput(np.full(5, 8, "i4"), after, 2000)])
        got = np.empty(5, "i4")
        win.Rget(got, after, 2000).Wait()
        assert (got == 8).all()
        with pytest.raises(tutti.Error, match="outside"):
            win.Put(np.zeros(3, "i4"), after, 3996)
        with pytest.raises(ValueError, match="either"):
            win.Wait_notify()
        world.Barrier()
        assert (memory[995:] == 9).all()
    with pytest.raises(tutti.Error, match="freed"):
        win.Flush_all()


def test_strided(world):
    """Columns of a matrix travel in one call."""
    after, before = (world.rank + 1) % world.size, (world.rank - 1) % world.size
    with Win.Allocate(8 * 64, world) as win:
        matrix = np.arange(64, dtype="f8").reshape(8, 8) + world.rank
        win.Put_strided(matrix, after, 16, block=8, count=8, local_stride=64, stride=64)
        win.Flush(after)
        world.Barrier()
        there = np.frombuffer(win.tomemory(), "f8").reshape(8, 8)
        assert (there[:, 2] == np.arange(0, 64, 8) + before).all() and not there[:, 3].any()
        del there
        back = np.zeros((8, 8))
        win.Get_strided(back, after, 16, block=8, count=8, local_stride=64, stride=64)
        win.Flush(after)
        assert (back[:, 0] == matrix[:, 0]).all()
        with pytest.raises(ValueError, match="not inside"):
            win.Put_strided(matrix, after, 0, block=8, count=9, local_stride=64, stride=64)
        world.Barrier()


def test_atomics(world):
    """Fetch_add counts exactly; Compare_and_swap has one winner."""
    with Win.Allocate(16, world) as win:
        world.Barrier()
        seen = {win.Fetch_add(1, 0, 0) for _ in range(50)}
        assert len(seen) == 50
        world.Barrier()
        assert win.Fetch_add(0, 0, 0) == 50 * world.size
        won = np.array([win.Compare_and_swap(0, world.rank + 1, 0, 8) == 0], "i4")
        world.Allreduce(tutti.IN_PLACE, won)
        assert won[0] == 1
        assert win.Fetch_add(-1, world.rank, 8) in range(world.size + 1)
        world.Barrier()


def test_accumulate(world):
    """Accumulates of all ranks add up; Get_accumulate returns what was there."""
    with Win.Allocate(80, world, accumulate=True) as win:
        world.Barrier()
        win.Accumulate(np.full(10, world.rank + 1, "f8"), 0)
        win.Raccumulate(np.full(10, 1, "f8"), 0, op=tutti.SUM).Wait()
        win.Flush_all()
        world.Barrier()
        old = np.empty(10)
        win.Get_accumulate(None, old, 0, op=tutti.NO_OP)
        win.Flush(0)
        assert (old == world.size * (world.size + 1) // 2 + world.size).all()
        world.Barrier()
        if world.rank == 0:
            win.Get_accumulate(np.full(10, 5.0), old, 0, op=tutti.REPLACE)
            win.Flush(0)
            mine = np.frombuffer(win.tomemory(), "f8")
            assert (mine == 5).all()
            del mine
        world.Barrier()


def test_shared(world):
    """Ranks of a host load each other's parts; a part that is in use keeps the window."""
    win = Win.Allocate_shared(64, world)
    mine = np.frombuffer(win.tomemory(), "i8")
    mine[...] = world.rank
    world.Barrier()
    for rank in range(world.size):
        assert (np.frombuffer(win.Shared_query(rank), "i8") == rank).all()
    world.Barrier()
    with pytest.raises(tutti.BusyError):
        win.Free()
    del mine
    win.Free()


def test_read_only_and_empty(world):
    """Read-only memory may be got, not put; a rank may expose nothing."""
    rank = (world.rank + 1) % world.size
    constant = np.frombuffer(bytes(range(16)), "u1")
    with Win.Create(constant, world, read_only=True) as win:
        got = np.empty(16, "u1")
        win.Get(got, rank)
        win.Flush(rank)
        assert (got == np.arange(16)).all()
        with pytest.raises(tutti.Error):
            win.Put(got, rank)
            win.Flush(rank)
        world.Barrier()
    with Win.Create(None, world) as win:
        world.Barrier()
    with pytest.raises(tutti.ArgumentError, match="can be written"):
        Win.Create(constant, world.context.self_comm)


def test_more_requests(world):
    """Notifications of ids, requests of atomics, strided puts and flushes."""
    after, before = (world.rank + 1) % world.size, (world.rank - 1) % world.size
    with Win.Allocate(256, world) as win:
        assert not win.Test_notify(before) and win.Test_notify_any([3, 4]) == tutti.UNDEFINED
        assert not win.Test_notify_all([3])
        world.Barrier()
        win.Rput_notify(np.full(2, 7, "i4"), after, 64).Wait()
        win.Rput_notify(np.full(2, 8, "i4"), after, 72, id=3).Wait()
        win.Put_strided(np.arange(4, dtype="i8"), after, 128, block=8, count=4, local_stride=8,
                        stride=16, id=4)
        win.Wait_notify(before)
        assert win.Wait_notify_any([3]) == 0
        win.Wait_notify_all([4])
        there = np.frombuffer(win.tomemory(), "i4")
        assert there[16:20].tolist() == [7, 7, 8, 8]
        del there
        words = np.frombuffer(win.tomemory(), "i8")
        assert words[16:24:2].tolist() == [0, 1, 2, 3] and not words[17:24:2].any()
        del words
        got = np.zeros(4, "i8")
        win.Rget_strided(got, after, 128, block=8, count=4, local_stride=8, stride=16).Wait()
        assert got.tolist() == [0, 1, 2, 3]
        win.Rput_strided(got, after, 192, block=8, count=4, local_stride=8, stride=8).Wait()
        request = win.Rfetch_add(5, after)
        request.Wait()
        assert request.result == 0
        request = win.Rcompare_and_swap(5, 9, after)
        request.Wait()
        assert request.result == 5 and win.Fetch_add(0, after) == 9
        world.Barrier()
        win.Put(np.zeros(2, "i4"), after, 64)
        win.Iflush(after).Wait()
        win.Iflush().Wait()
        world.Barrier()
        words = np.frombuffer(win.tomemory(), "i8")
        assert words[24:28].tolist() == [0, 1, 2, 3] and words[8] == 0
        del words
    with Win.Allocate(8, world, accumulate=True) as win:
        world.Barrier()
        old = np.empty(1, "i8")
        win.Rget_accumulate(np.ones(1, "i8"), old, 0).Wait()
        assert 0 <= old[0] < world.size
        world.Barrier()


def test_reduce_local(ctx):
    """b = a op b in this process."""
    b = np.arange(4.0)
    ctx.reduce_local(np.full(4, 2.0), b, tutti.MAX)
    assert b.tolist() == [2, 2, 2, 3]
    with pytest.raises(tutti.ArgumentError, match="equal"):
        ctx.reduce_local(np.zeros(3), b)


def test_freed_communicator(world):
    """A window may end after the communicator that it was made on."""
    with world.Dup() as comm:
        win = Win.Allocate(8, comm)
    win.Put(np.ones(1), world.rank)
    win.Flush_all()
    win.Free()
    with pytest.raises(tutti.Error, match="the window has ended"):
        win.Free()
