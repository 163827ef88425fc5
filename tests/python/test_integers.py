# SPDX-License-Identifier: BSD-3-Clause
"""Integers that a parameter, a field or an array of C cannot hold are refused, not cut."""

import gc
import time

import numpy as np
import pytest

import tutti
from tutti import _abi
from tutti.buffers import memory
from tutti.ps import ParameterServer
from tutti.train import LocalSteps, Rule, rule

WIDE, HUGE = 2**32, 2**64
ONES = np.ones(4)
CALLS = {
    "root": lambda world: world.Bcast(ONES, root=WIDE),
    "op": lambda world: world.Allreduce(ONES, np.empty(4), op=WIDE + tutti.MAX),
    "color": lambda world: world.Split(color=WIDE * (world.rank + 1)),
    "dest": lambda world: world.Isend(ONES, dest=WIDE),
    "tag": lambda world: world.Isend(ONES, dest=world.rank, tag=WIDE + 7),
    "timeout": lambda world: world.Set_timeout(WIDE + 5),
    "ranks": lambda world: world.Create_group([WIDE]),
    "workers": lambda world: ParameterServer(world, workers=WIDE + 1),
    "staleness": lambda world: ParameterServer(world, staleness=WIDE),
    "numpy": lambda world: ParameterServer(world, staleness=np.int64(WIDE + 1)),
    "every": lambda world: LocalSteps(world, [ONES], np.int64(WIDE + 1)),
    "rule": lambda world: rule(np.int64(WIDE + Rule.SGD)),
    "rank": lambda world: tutti.PowerSGD(world, [(9, 9)], rank=np.int64(WIDE + 1)),
    "unsigned": lambda world: tutti.PowerSGD(world, [(9, 9)], seed=np.int64(-1)),
    "init": lambda world: tutti.init(timeout_ms=WIDE + 1),
}


def refuses(call):
    """It says that an integer does not fit."""
    with pytest.raises((tutti.ArgumentError, OverflowError)) as caught:
        call()
    assert "out of range" in str(caught.value) or "does not fit" in str(caught.value)


@pytest.mark.parametrize("name", CALLS)
def test_calls(world, name):
    """Of a communicator and of a parameter server."""
    refuses(lambda: CALLS[name](world))


def test_grid(world):
    """Axes and coordinates."""
    with tutti.Grid(world, np.array([0, 1])) as grid:
        for coordinate in (WIDE, np.int64(WIDE), 2**40):
            refuses(lambda: grid.rank([coordinate, 0]))
        assert grid.rank(np.array([world.rank, 0])) == world.rank
        assert grid.size(np.int64(0)) == world.size == grid.comm(np.int64(0)).size


def test_fields():
    """An integer that is set after the others."""
    config = _abi.Config()
    for wrong in (WIDE, np.int64(WIDE)):
        with pytest.raises(OverflowError, match="timeout_ms=4294967296 does not fit"):
            config.timeout_ms = wrong
    config.timeout_ms = np.int64(5)
    assert config.timeout_ms == 5


def test_tables(world):
    """Offsets, keys and numbers of versions."""
    with ParameterServer(world) as server:
        refuses(lambda: server.dense("wide", 4, tutti.FLOAT64, threads=WIDE))
        table = server.dense("dense", 4, tutti.FLOAT64)
        rows = server.rows("rows", 4, tutti.FLOAT64)
        for offset in (-1, HUGE):
            refuses(lambda: table.pull(ONES, offset=offset))
        for key in (-1, HUGE + 5):
            refuses(lambda: rows.push_rows([key], ONES))
        refuses(lambda: table.pull_version(ONES, -1))
        server.comm.Barrier()


def test_counts():
    """Whole numbers, in a list or an array."""
    with pytest.raises(TypeError):
        memory([ONES, 2.9, tutti.FLOAT64], False)
    assert memory([ONES, np.full(2, 2)], False).counts == [2, 2]
    assert memory([ONES, [np.int64(1)], np.zeros(1, int)], False).displs == [0]


def test_forgotten(world):
    """A request that nothing waits for is let go when its operation is complete."""
    result = np.zeros(4)
    world.Iallreduce(ONES, result)
    gc.collect()
    deadline = time.monotonic() + 30
    while tutti.request._running and time.monotonic() < deadline:
        tutti.request.collect()
    assert not tutti.request._running
    assert (result == world.size).all()
