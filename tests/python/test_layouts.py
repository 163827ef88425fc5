# SPDX-License-Identifier: BSD-3-Clause
"""Layouts in messages, puts, gets and all-to-alls, against NumPy's own indexing."""

import numpy as np
import pytest

import tutti
from tutti import Layout, Win


def neighbors(world):
    """The ranks after and before this one."""
    return (world.rank + 1) % world.size, (world.rank - 1) % world.size


def matrix(rank, dtype="f8"):
    """6 x 8 numbers of a rank."""
    return np.arange(48).reshape(6, 8).astype(dtype) + 100 * rank


@pytest.mark.parametrize("index", [np.s_[:, 2], np.s_[1:4, 2:5], np.s_[::-1, 1], np.s_[::2, ::3],
                                   np.s_[3, :]])
@pytest.mark.parametrize("dtype", ["f8", "i2", "c8"])
def test_messages(world, index, dtype):
    """Parts of a matrix go to the same part and to plain arrays, in three forms."""
    after, before = neighbors(world)
    mine, wanted = matrix(world.rank, dtype), matrix(before, dtype)[index]
    part = mine[index]
    start = part.__array_interface__["data"][0] - mine.__array_interface__["data"][0]
    spec = [mine, Layout.of(part), start]
    plain = np.empty(wanted.shape, dtype)
    request = world.Isend(spec, after)
    world.Recv(plain, before)
    request.Wait()
    assert (plain == wanted).all()
    there = np.zeros_like(mine)
    request = world.Irecv([there, Layout.of(there[index]), start], before, 7)
    world.Ssend(spec, after, 7)
    request.Wait()
    assert (there[index] == wanted).all()
    there[index] = 0
    assert not there.any()
    with world.Send_init(spec, after) as send, \
            world.Recv_init([there, Layout.of(part), start], before) as recv:
        tutti.Request.Startall([recv, send])
        tutti.Request.Waitall([recv, send])
    assert (there[index] == wanted).all()
    there[index] = 0
    request = world.Isend(spec, after)
    world.Mprobe(before).Recv([there, Layout.of(part), start])
    request.Wait()
    assert (there[index] == wanted).all()


def test_indexed_and_refused(world):
    """Blocks of different lengths; layouts that leave the buffer."""
    after, before = neighbors(world)
    layout = Layout.indexed(tutti.INT32, [7, 0, 3], [2, 1, 3])
    assert layout.elements == 6
    request = world.Isend([np.arange(10, dtype="i4") + world.rank, layout], after)
    got = np.empty(6, "i4")
    world.Recv(got, before)
    request.Wait()
    assert got.tolist() == [one + before for one in (7, 8, 0, 3, 4, 5)]
    with pytest.raises(tutti.ArgumentError, match="not inside the buffer of 36 bytes"):
        world.Send([np.zeros(9, "i4"), Layout.indexed(tutti.INT32, [7], [3])], after)
    with pytest.raises(tutti.ArgumentError, match="not inside"):
        world.Recv([np.zeros(9), Layout.vector(tutti.FLOAT64, 3, 1, -1)], before)
    with pytest.raises(tutti.ArgumentError, match="2 displacements for 1 blocks"):
        Layout.indexed(tutti.INT32, [0, 1], [1])


def test_windows(world):
    """Columns put to rows, columns read back, with requests and notifications."""
    after, before = neighbors(world)
    column = Layout.vector(tutti.FLOAT64, 6, 1, 8)
    mine = matrix(world.rank)
    with Win.Allocate(48 * 8, world) as win:
        world.Barrier()
        win.Put_notify([mine, column, 16], after, 8, layout=column)
        win.Wait_notify(before)
        win.Rput(np.full(6, 5.0), after, 24, layout=column).Wait()
        world.Barrier()
        there = np.frombuffer(win.tomemory()).reshape(6, 8)
        assert (there[:, 1] == matrix(before)[:, 2]).all() and (there[:, 3] == 5).all()
        assert there.sum() == matrix(before)[:, 2].sum() + 30
        del there
        got = np.zeros(6)
        win.Get(got, after, 8, layout=column)
        win.Flush(after)
        assert (got == mine[:, 2]).all()
        back = np.zeros((6, 8))
        win.Rget([back, column, 8], after, 8, layout=column).Wait()
        assert (back[:, 1] == mine[:, 2]).all()
        with pytest.raises(tutti.ArgumentError, match="has 6 elements, the local one 5"):
            win.Put(np.zeros(5), after, layout=column)
        world.Barrier()


def test_alltoallw(world):
    """A matrix in rows is transposed to one in columns, blocking and not."""
    size = world.size
    row = Layout.vector(tutti.INT32, 1, 4, 0)
    column = Layout.vector(tutti.INT32, 4, 1, size)
    mine = (np.arange(4 * size, dtype="i4") + 1000 * world.rank).reshape(size, 4)
    wanted = np.stack([np.arange(4) + 4 * world.rank + 1000 * rank for rank in range(size)], 1)
    send = [mine, None, [16 * rank for rank in range(size)], [row] * size]
    for call in (world.Alltoallw, lambda *args: world.Ialltoallw(*args).Wait()):
        got = np.zeros((4, size), "i4")
        call(send, [got, None, [4 * rank for rank in range(size)], [column] * size])
        assert (got == wanted).all()
    with pytest.raises(tutti.ArgumentError, match="not inside"):
        world.Alltoallw(send, [got, None, [4 * size] * size, [column] * size])
