# SPDX-License-Identifier: BSD-3-Clause
"""Mailboxes, pairs, elastic averaging and partial all-reduces."""

import numpy as np
import pytest

import tutti
from tutti import Gossip, Pair, Partial, elastic_average


def test_mailboxes(world):
    """A mix moves x by the weights towards what the neighbours have posted."""
    rank, size = world.rank, world.size
    others = [one for one in range(size) if one != rank]
    with Gossip(world, 10, others, others, [0.1] * len(others)) as box:
        x = np.full(10, float(rank), "f4")
        box.mix(x)
        assert (x == rank).all() and box.versions() == [0] * len(others)
        world.Barrier()
        box.post(x)
        box.flush()
        world.Barrier()
        box.mix(x)
        assert np.allclose(x, rank + sum(0.1 * (other - rank) for other in others))
        assert box.versions() == [1] * len(others) and box.state()["posts"] == 1
        with pytest.raises(tutti.ArgumentError, match="pass 10"):
            box.post(np.zeros(9, "f4"))


def test_pairs(world):
    """Averages of pairs keep the sum."""
    with Pair(world, 6, tutti.INT64) as pair:
        x = np.frombuffer(pair.tomemory(), "i8")
        pair.lock(world.rank)
        x[...] = 100 * world.rank + 7
        pair.unlock()
        world.Barrier()
        if world.size > 1:
            for _ in range(5):
                assert pair.average() != world.rank
            assert pair.average((world.rank + 1) % world.size) == (world.rank + 1) % world.size
            assert pair.state()["averages"] == 6
        world.Barrier()
        total = x.copy()
        world.Allreduce(tutti.IN_PLACE, total)
        assert (total == sum(100 * rank + 7 for rank in range(world.size))).all()
        with pytest.raises(tutti.BusyError):
            pair.Free()
        del x


def test_elastic(world):
    """Elastic averaging, by its formula."""
    x, center = np.full(4, float(world.rank)), np.full(4, 10.0)
    elastic_average(x, center, 0.1, world)
    total = sum(range(world.size))
    assert np.allclose(x, world.rank - 0.1 * (world.rank - 10))
    assert np.allclose(center, 10 + 0.1 * (total - world.size * 10))
    with pytest.raises(tutti.ArgumentError, match="equal"):
        elastic_average(x, center[:3], 0.1, world)


def test_partial(world):
    """With all ranks as quorum it is an all-reduce; bitmap, results, statistics."""
    size = world.size
    with Partial(world, 50, tutti.FLOAT32, tutti.AVG) as partial:
        got, again = np.empty(50, "f4"), np.empty(50, "f4")
        for turn in range(3):
            rounds = partial.Allreduce(np.full(50, world.rank + turn, "f4"), got)
            assert (rounds.first, rounds.last) == (turn + 1, turn + 1)
            assert rounds.ranks == list(range(size))
            assert np.allclose(got, (size - 1) / 2 + turn)
        assert partial.result(3, again) == list(range(size)) and (again == got).all()
        assert partial.resync() == 3 and partial.stats()["calls"] == 3
        rounds = partial.drain(got)
        assert rounds.first == rounds.last + 1
    with Partial(world, 2, quorum=1, late=tutti.Late.DROP) as partial:
        seen = np.zeros(2, "f4")
        partial.Allreduce(np.ones(2, "f4"), seen)
        assert 1 <= seen[0] <= size
        partial.drain(seen)
