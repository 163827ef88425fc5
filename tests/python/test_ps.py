# SPDX-License-Identifier: BSD-3-Clause
"""The parameter server: dense tables, rows, rules, clocks, checkpoints."""

import numpy as np
import pytest

import tutti
from tutti import Combine, Initial, ParameterServer, Role, Rule


def test_dense(world):
    """Pushes of all workers of a clock are in the pulls of the next."""
    with ParameterServer(world) as server:
        table = server.dense("sums", 100, tutti.FLOAT32, init=Initial.ZERO)
        values = np.empty(100, "f4")
        for clock in range(3):
            table.push(np.full(100, world.rank + 1, "f4"))
            server.clock()
            table.pull(values)
            assert (values == (clock + 1) * world.size * (world.size + 1) // 2).all()
        assert table.last_read()["age"] == 0
        part = np.empty(10, "f4")
        table.ipull(part, 90).Wait()
        assert (part == values[90:]).all()
        world.Barrier()
        table.ipush(np.ones(10, "f4"), 90).Wait()
        server.iclock().Wait()
        table.pull(values)
        assert values[95] == values[0] + world.size and values[89] == values[0]
        world.Barrier()
        total = sum(server.server_bytes(index) for index in range(world.size))
        assert total == 400
        assert table.held()["elements"] == 0
        with pytest.raises(tutti.Error, match="outside"):
            table.pull(np.empty(101, "f4"))
    with pytest.raises(tutti.Error, match="closed"):
        server.clock()


def test_rules(world):
    """SGD of the mean of all workers' gradients, from values that one worker sets."""
    with ParameterServer(world) as server:
        table = server.dense("weights", 8, tutti.FLOAT64, rule=Rule.SGD, rate=0.5,
                             combine=Combine.MEAN)
        if world.rank == 0:
            table.set(np.arange(8.0))
        world.Barrier()
        values = np.empty(8)
        table.pull(values)
        assert (values == np.arange(8)).all()
        world.Barrier()
        table.push(np.full(8, 2.0 * world.rank))
        server.clock()
        table.pull(values)
        assert np.allclose(values, np.arange(8) - 0.5 * (world.size - 1), atol=1e-12)
        with pytest.raises(tutti.ArgumentError, match="rat"):
            server.dense("wrong", 8, rat=1)


def test_functions(world):
    """A rule and initial values of the program."""
    def update(value, change):
        own, other = np.frombuffer(value, "f4"), np.frombuffer(change, "f4")
        own[...] = np.maximum(own, other)

    def fill(value, first):
        own = np.frombuffer(value, "f4")
        own[...] = first + np.arange(len(own))

    with ParameterServer(world) as server:
        table = server.dense("largest", 50, rule=Rule.CALLBACK, update=update, init=Initial.FILL,
                             fill=fill)
        values = np.empty(50, "f4")
        table.pull(values)
        assert (values == np.arange(50)).all()
        world.Barrier()
        table.push(np.full(50, 20.0 + world.rank, "f4"))
        server.clock()
        table.pull(values)
        assert (values == np.maximum(np.arange(50), 20 + world.size - 1)).all()


def test_function_raises(world):
    """What the program's rule raises is raised by a call of the server's process, once."""
    def update(value, change):
        raise KeyError("lost")

    told = []

    def tell(call, *arguments):
        try:
            call(*arguments)
        except tutti.Error as error:
            assert "raised KeyError('lost')" in str(error)
            assert isinstance(error.__cause__, KeyError)
            told.append(error)

    server = ParameterServer(world)
    table = server.dense("t", 5, rule=Rule.CALLBACK, update=update, init=Initial.ZERO)
    tell(table.push, np.ones(5, "f4"))
    tell(server.clock)
    tell(server.close)
    total = np.zeros(1, np.int64)
    world.Allreduce(np.full(1, len(told), np.int64), total)
    assert total[0] >= 1


def test_rows(world):
    """Rows are found by keys."""
    with ParameterServer(world) as server:
        table = server.rows("embedding", 4, 100, init=Initial.ZERO)
        keys = [7, 10**15, 3]
        table.push_rows(keys, np.ones((3, 4), "f4"))
        server.clock()
        rows = np.empty((2, 4), "f4")
        table.pull_rows(np.array([10**15, 5], "u8"), rows)
        assert (rows[0] == world.size).all() and not rows[1].any()
        table.ipull_rows([3, 7], rows).Wait()
        assert (rows == world.size).all()
        world.Barrier()
        table.ipush_rows([3], np.ones((1, 4), "f4")).Wait()
        server.clock()
        for keys, text in (([1.5], None), ([1, 2, 3], "12"), (np.zeros(2, "f4"), "64-bit")):
            with pytest.raises((tutti.ArgumentError, TypeError), match=text):
                table.pull_rows(keys, rows)


def test_roles_and_checkpoint(world, tmp_path_factory):
    """One server, other workers; a checkpoint brings the values back."""
    if world.size == 1:
        pytest.skip("one rank")
    role = Role.WORKER if world.rank else Role.SERVER
    path = bytearray(200)
    if world.rank == 0:
        name = str(tmp_path_factory.mktemp("ps") / "saved").encode()
        path[:len(name)] = name
    world.Bcast(path)
    path = bytes(path).rstrip(b"\0").decode()
    for turn in range(2):
        with ParameterServer(world, role=role, staleness=1) as server:
            table = server.dense("t", 10, tutti.INT64, init=Initial.ZERO)
            if role == Role.SERVER:
                continue
            if turn == 0:
                table.push(np.full(10, 5, "i8"))
                server.clock_to(4)
                server.save(path)
            else:
                server.restore(path)
                values = np.empty(10, "i8")
                table.pull(values)
                assert (values == 5 * (world.size - 1)).all()


def test_resize(world):
    """Values and clocks move to the servers of another communicator; a rank leaves."""
    with world.Dup() as comm:
        server = ParameterServer(world)
        table = server.dense("sums", 10, init=Initial.ZERO)
        table.push(np.ones(10, "f4"))
        server.clock()
        leaves = world.size > 1 and world.rank == world.size - 1
        server = server.resize(comm, role=Role.LEAVE if leaves else Role.BOTH)
        assert (server is None) == leaves
        with pytest.raises(tutti.Error, match="closed"):
            table.pull(np.empty(10, "f4"))
        if server is not None:
            values = np.empty(10, "f4")
            with pytest.raises(tutti.ArgumentError, match="'sums' was made before a resize"):
                server.find("sums")
            table = server.dense("sums", 10, init=Initial.ZERO)
            table.pull(values)
            assert (values == world.size).all()
            server.find("sums").pull(values)
            server.close()
        with pytest.raises(tutti.Error, match="no option 'speed'"):
            ParameterServer.join(comm, speed=1)
        world.Barrier()


def test_elastic(world):
    """d = alpha (x - value) moves both, for one rank after the other."""
    with ParameterServer(world, staleness=1) as server:
        table = server.dense("center", 4, tutti.FLOAT64, init=Initial.ZERO)
        value = 0.0
        for rank in range(world.size):
            x = np.full(4, 10.0)
            if rank == world.rank:
                table.elastic(x, 0.25)
                assert np.allclose(x, 10 - 0.25 * (10 - value))
            value += 0.25 * (10 - value)
            world.Barrier()
        got = np.zeros(4)
        if world.rank == 0:
            table.elastic(got, 1)  # pulls may be older
            assert np.allclose(got, value)
        world.Barrier()


def test_versions(world):
    """A whole version is read once; its number is returned."""
    with ParameterServer(world, staleness=1) as server:
        table = server.dense("weights", 1000, tutti.FLOAT64, init=Initial.ZERO, versions=3)
        values = np.zeros(1000)
        for number in range(1, 6):
            if world.rank == 0:
                assert table.push_version(np.full(1000, float(number))) == number
            world.Barrier()
            assert table.pull_version(values, number - 1) == number
            assert (values == number).all()
            values[:] = 0
            assert table.pull_version(values, number) == number
            assert (values == 0).all()
            world.Barrier()


def test_freed_communicator(world):
    """A parameter server goes on when the communicator that it was made on is freed."""
    with world.Dup() as comm:
        server = ParameterServer(comm)
    table = server.dense("dense", 4)
    server.clock()
    with pytest.raises(tutti.Error, match="outside table"):
        table.ipull(np.zeros(4, "f4"), offset=9)
    server.close()
