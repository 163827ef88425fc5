# SPDX-License-Identifier: BSD-3-Clause
"""Wrong arguments, forgotten objects, copies, forks: errors that say why, and no broken memory."""

import copy
import gc
import os
import pickle
import sys
import threading
import time
import weakref

import numpy as np
import pytest

import tutti
from tutti import Graph, Initial, Layout, ParameterServer, PushSum, Request, Rule, Win

ONES = np.ones(4, "f4")
EMPTY = np.zeros(4, "f4")
# Refused before any other rank hears of it.
REFUSED = {
    "graph is None": lambda w: w.Neighbor_allreduce(ONES, EMPTY, None),
    "graph is of type int": lambda w: w.Ineighbor_allgather(ONES, EMPTY, 5),
    "pass a tutti.Comm": lambda w: PushSum(None, 3),
    "comm is None": lambda w: ParameterServer(None),
    "pass a tutti.Codec": lambda w: w.Allreduce(ONES, EMPTY, codec="int8"),
    "pass a tutti.Feedback": lambda w: w.Allreduce(ONES, EMPTY, feedback=3),
    "other is None": lambda w: w.translate_ranks([0], None),
    "status is of type int": lambda w: w.Recv(EMPTY, 0, status=1),
    "a request is None": lambda w: Request.Waitall([None]),
    "an edge is": lambda w: Graph.edges(3, [(0, 1, 2, 3)]),
    "IN_PLACE is no buffer": lambda w: w.Bcast(tutti.IN_PLACE),
    "pass a contiguous array": lambda w: w.Allreduce(tutti.IN_PLACE, tutti.IN_PLACE),
    "a buffer is None": lambda w: w.Isend(None, 0),
    "of alltoallw is None": lambda w: w.Alltoallw(None, None),
    "a layout is of type str": lambda w: w.Alltoallw([ONES, None, None, ["x"] * w.size], [1] * 4),
    "the layout of a list": lambda w: Layout.of([1, 2]),
    "function is 3": lambda w: w.context.create_op(3),
    "decode is None": lambda w: tutti.UserCodec("x", len, len, None),
}


@pytest.mark.parametrize("text", REFUSED)
def test_refused(world, text):
    """Arguments of other classes."""
    with pytest.raises(tutti.ArgumentError, match=text):
        REFUSED[text](world)


def test_priority(world):
    """Options of a call are not cut."""
    for option in ("priority", "timeout_ms"):
        with pytest.raises(OverflowError, match=option):
            world.Allreduce(ONES, EMPTY, **{option: 2**40})


def test_tables(world):
    """Keys, options and widths of tables."""
    with ParameterServer(world) as server:
        for options, text in (({"codec": 12345}, "codec is of type int"),
                              ({"publish": "int8"}, "publish is of type str"),
                              ({"rule": Rule.CALLBACK, "update": 5}, "update is 5"),
                              ({"init": Initial.FILL, "fill": "x"}, "fill is 'x'")):
            with pytest.raises(tutti.ArgumentError, match=text):
                server.dense("refused", 4, **options)
        rows = server.rows("rows", 4, 10, init=Initial.ZERO)
        with pytest.raises(tutti.ArgumentError, match="key -7 is negative"):
            rows.push_rows(np.array([1, -7]), np.ones(8, "f4"))
        rows.pull_rows(np.array([1, 2**63], "u8"), np.empty(8, "f4"))
        for buffer in (None, tutti.IN_PLACE):
            with pytest.raises(tutti.ArgumentError, match="a buffer is None|IN_PLACE"):
                rows.push_rows([1], buffer)
        assert server.find("rows") is rows and server.find("rows", tutti.FLOAT32, 4) is rows
        for wrong in ({"width": 1}, {"datatype": tutti.INT64}):
            with pytest.raises(tutti.ArgumentError, match="width 4, not"):
                server.find("rows", **wrong)
        world.Barrier()


def test_lent(world):
    """A function cannot keep the memory that it is called with."""
    kept = []
    op = world.context.create_op(lambda a, b: kept.append(np.frombuffer(b, "f4")))
    with pytest.raises(tutti.Error, match="keep a copy"):
        world.context.reduce_local(ONES, EMPTY.copy(), op)
    world.context.free_op(op)


def test_copies(world):
    """Objects of the library belong to one owner in one process."""
    request = world.Isend(ONES, world.rank, 77)
    with Graph.ring(3) as graph, Win.Allocate(8, world) as win:
        for one in (world, world.context, graph, win, request):
            for call in (copy.copy, copy.deepcopy, pickle.dumps):
                with pytest.raises(TypeError, match="copied nor pickled"):
                    call(one)
    world.Recv(EMPTY.copy(), world.rank, 77)
    request.Wait()


def test_forgotten(world):
    """Memory of a window and of a freed request stays while the library may write to it."""
    exposed, target, received = np.zeros(8), (world.rank + 1) % world.size, np.zeros(4, "f4")
    alive, late = weakref.ref(exposed), weakref.ref(received)
    win = Win.Create(exposed, world)
    del win, exposed
    request = world.Recv_init(received, world.rank, 78)
    request.Start()
    request.Free()
    del request, received
    gc.collect()
    assert alive() is not None and late() is not None
    world.Send(ONES, world.rank, 78)
    window = next(one for one in tutti._library.in_use if isinstance(one, Win))
    for _ in range(3):
        window.Put(np.full(8, 5.0), target)
        window.Flush(target)
        assert not window._keep
    world.Barrier()
    assert (alive() == 5).all()
    window.Free()
    del window
    gc.collect()
    assert alive() is None


def test_threads(world):
    """A request that a thread waits for is refused to another one, which would free it."""
    request, said = world.Irecv(EMPTY.copy(), world.rank, 79), []
    thread = threading.Thread(target=lambda: said.append(request.Wait()))
    thread.start()
    deadline = time.monotonic() + 30
    while not request._waits.locked() and time.monotonic() < deadline:
        time.sleep(0.001)
    for call in (request.Wait, request.Test, lambda: Request.Waitany([request])):
        with pytest.raises(tutti.BusyError, match="another thread"):
            call()
    world.Send(ONES, world.rank, 79)
    thread.join(30)
    assert said == [True] and request.Wait() and request.Test()
    again = world.Isend(ONES, world.rank, 80)
    with pytest.raises(tutti.BusyError, match="in the list twice"):
        Request.Waitsome([again, again])
    world.Recv(EMPTY.copy(), world.rank, 80)
    for statuses in ([], [1]):
        with pytest.raises(tutti.ArgumentError, match="status"):
            Request.Waitall([again], statuses)
    assert Request.Waitall(one for one in [again])


def test_fork(world):
    """A child of a rank is refused, and its end disturbs nothing."""
    view, request = world.context.alloc(64), world.Irecv(EMPTY, world.rank, 81)
    child = os.fork()
    if not child:
        refused = 0
        try:
            for call in (world.Barrier, request.Wait, lambda: Win.Allocate(8, world),
                         lambda: world.Send(ONES, world.rank, 81), tutti.init):
                with pytest.raises(tutti.Error, match="fork of a rank"):
                    call()
                refused += 1
            sys.unraisablehook = lambda _: os._exit(99)
            del view
            gc.collect()
        finally:
            os._exit(refused)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 5
    world.Send(ONES, world.rank, 81)
    request.Wait()
    world.Barrier()
