# SPDX-License-Identifier: BSD-3-Clause
"""Grids, graphs, collectives of neighbours and push-sum, against NumPy's matrices."""

import numpy as np
import pytest

import tutti
from tutti import Graph, Grid, PushSum


def test_grid(world):
    """Communicators along the axes; names, coordinates, refused values."""
    with Grid(world, [0, 1], ["data", "tensor"]) as grid:
        assert grid.dims == [world.size, 1] and grid.axis("tensor") == 1
        everyone = grid.comm()
        assert everyone.size == world.size
        assert grid.rank(grid.coords()) == everyone.rank
        assert grid.coords(0) == [0, 0]
        one = np.ones(3, "i4")
        grid.comm("data").Allreduce(tutti.IN_PLACE, one)
        assert (one == world.size).all() and grid.comm("tensor").size == 1
        for comm in (everyone, world, world.context.self_comm):
            with pytest.raises(tutti.ArgumentError, match="freed by"):
                comm.Free()
        assert grid.comm().size == world.size
        with pytest.raises(tutti.Error):
            grid.axis("pipeline")
        with pytest.raises(tutti.ArgumentError, match="axis 2"):
            grid.comm(2)
    with pytest.raises(tutti.Error, match="freed"):
        grid.coords()
    with pytest.raises(tutti.Error):
        Grid(world, [world.size + 1])


def weights(graph, step=0):
    """The matrix of the weights."""
    n = graph.size
    return np.array([[graph.weight(to, source, step) for source in range(n)] for to in range(n)])


@pytest.mark.parametrize("make", [Graph.ring, Graph.star, Graph.complete, Graph.exponential,
                                  Graph.one_peer])
def test_graphs(make):
    """Rows sum to 1, neighbours are where weights are, and the rate is the matrix's."""
    with make(8) as graph:
        assert graph.size == 8
        product = np.eye(8)
        for step in range(graph.period):
            matrix = weights(graph, step)
            assert np.allclose(matrix.sum(1), 1)
            for rank in range(8):
                others = [one for one in range(8) if one != rank]
                assert graph.in_neighbors(rank, step) == [o for o in others if matrix[rank, o]]
                assert graph.out_neighbors(rank, step) == [o for o in others if matrix[o, rank]]
            product = matrix @ product
        graph.check(rows=True)
        second = sorted(abs(np.linalg.eigvals(product)))[-2] ** (1 / graph.period)
        assert abs(graph.lambda2() - second) < 1e-2


def test_edges():
    """Graphs of given edges and weights, random ones, and what check says."""
    graph = Graph.edges(3, [(0, 1, 0.25), (0, 0, 1.0), (1, 1, 0.75), (2, 2, 1.0)],
                        tutti.Weights.GIVEN)
    assert (weights(graph) == [[1, 0, 0], [0.25, 0.75, 0], [0, 0, 1]]).all()
    with pytest.raises(tutti.ArgumentError):
        graph.check(columns=True)
    assert Graph.torus(3, 4).in_neighbors(0) == [1, 3, 4, 8]
    assert (weights(Graph.regular(10, 3, 5)) == weights(Graph.regular(10, 3, 5))).all()
    with pytest.raises(tutti.Error):
        Graph.regular(5, 3)


@pytest.mark.parametrize("step", [0, 1])
def test_neighbors(world, step):
    """Three collectives in three forms over the one-peer graph."""
    rank, size = world.rank, world.size
    with Graph.one_peer(size) as graph:
        mine, got = np.arange(5.0) + rank, np.empty(5)
        wanted = weights(graph, step) @ np.stack([np.arange(5.0) + r for r in range(size)])
        ins, outs = graph.in_neighbors(rank, step), graph.out_neighbors(rank, step)
        world.Neighbor_allreduce(mine, got, graph, step)
        assert np.allclose(got, wanted[rank])
        got[:] = np.nan
        world.Ineighbor_allreduce(mine, got, graph, step).Wait()
        assert np.allclose(got, wanted[rank])
        got[:] = np.nan
        with world.Neighbor_allreduce_init(mine, got, graph, step) as request:
            request.Start()
            request.Wait()
        assert np.allclose(got, wanted[rank])
        blocks = np.empty((len(ins), 5))
        world.Neighbor_allgather(mine, blocks, graph, step)
        assert (blocks == np.array([np.arange(5.0) + r for r in ins]).reshape(-1, 5)).all()
        send = np.array([np.arange(5.0) + 10 * rank + o for o in outs]).reshape(-1, 5)
        world.Ineighbor_alltoall(send, blocks, graph, step).Wait()
        assert (blocks == np.array([np.arange(5.0) + 10 * r + rank
                                    for r in ins]).reshape(-1, 5)).all()
        if size > 1:
            with pytest.raises(tutti.ArgumentError, match="blocks of one size"):
                world.Neighbor_allgather(mine, np.empty(7), graph, step)
    with Graph.ring(1) as hosts:
        world.Neighbor_hier_allreduce(np.full(4, float(rank)), got[:4], hosts)
        assert np.allclose(got[:4], (size - 1) / 2)
        got[:4] = rank
        world.Ineighbor_hier_allreduce(tutti.IN_PLACE, got[:4], hosts).Wait()
        assert np.allclose(got[:4], (size - 1) / 2)


def test_push_sum(world):
    """Sums of x and w stay; z comes to the mean."""
    rank, size = world.rank, world.size
    with PushSum(world, 3) as state, Graph.exponential(size) as graph:
        state.add(np.full(3, float(rank)))
        for step in range(40):
            state.step(graph, step)
            world.Barrier()
        state.drain()
        z = np.empty(3)
        weight = np.array([state.get(z)])
        total = z * weight
        world.Allreduce(tutti.IN_PLACE, weight)
        world.Allreduce(tutti.IN_PLACE, total)
        assert np.allclose(weight, size) and np.allclose(total, size * (size - 1) / 2)
        assert np.allclose(z, (size - 1) / 2, atol=1e-3) and state.missed >= 0
        with pytest.raises(tutti.ArgumentError, match="pass 3 float64"):
            state.add(np.zeros(4))


def test_freed_communicator(world):
    """Push-sum goes on when the communicator that it was made on is freed."""
    with world.Dup() as comm:
        average = PushSum(comm, 2)
    with average, Graph.ring(world.size) as ring:
        average.add(np.ones(2))
        average.step(ring)
        average.drain()
