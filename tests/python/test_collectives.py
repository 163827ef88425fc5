# SPDX-License-Identifier: BSD-3-Clause
"""Every collective in three forms against NumPy, over datatypes and sizes."""

import numpy as np
import pytest

import tutti

DTYPES = ["int8", "uint16", "int64", "float16", "float32", "complex64"]
SIZES = [0, 1, 1000, 40000]
FORMS = ["blocking", "nonblocking", "persistent"]


def call(comm, name, form, *args, **options):
    """Make the call in a form; a persistent one runs twice."""
    if form == "blocking":
        assert getattr(comm, name)(*args, **options) is None
    elif form == "nonblocking":
        assert getattr(comm, "I" + name.lower())(*args, **options).Wait()
    else:
        with getattr(comm, name + "_init")(*args, **options) as request:
            for _ in range(2):
                request.Start()
                request.Wait()


def data(rank, n, dtype, seed=0):
    """The input of a rank: small whole numbers, so that sums are exact."""
    return ((np.arange(n) * 7 + rank * 3 + seed) % 5).astype(dtype)


def inputs(world, n, dtype):
    """The inputs of all ranks."""
    return [data(rank, n, dtype) for rank in range(world.size)]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", SIZES)
def test_allreduce(world, n, dtype, form):
    """All-reduce by sum, out of place and in place."""
    send, recv = data(world.rank, n, dtype), np.empty(n, dtype)
    expected = sum(inputs(world, n, dtype)[1:], inputs(world, n, dtype)[0])
    call(world, "Allreduce", form, send, recv)
    assert recv.tobytes() == expected.astype(dtype).tobytes()
    if form != "persistent":
        call(world, "Allreduce", form, tutti.IN_PLACE, send)
        assert send.tobytes() == expected.astype(dtype).tobytes()


@pytest.mark.parametrize("op,function", [
    (tutti.PROD, np.multiply), (tutti.MIN, np.minimum), (tutti.MAX, np.maximum),
    (tutti.BAND, np.bitwise_and), (tutti.BOR, np.bitwise_or), (tutti.BXOR, np.bitwise_xor),
    (tutti.LAND, np.logical_and), (tutti.LOR, np.logical_or), (tutti.LXOR, np.logical_xor),
])
def test_operators(world, op, function):
    """The other operators."""
    recv = np.empty(300, np.int32)
    world.Allreduce(data(world.rank, 300, np.int32), recv, op=op)
    expected = inputs(world, 300, np.int32)[0]
    for other in inputs(world, 300, np.int32)[1:]:
        expected = function(expected, other)
    if op in (tutti.LAND, tutti.LOR, tutti.LXOR) and world.size > 1:
        expected = expected != 0
    assert (recv == expected.astype(np.int32)).all()


def test_average_and_pairs(world):
    """avg, and the pairs of a value and an index."""
    values = np.full(9, world.rank * 2.0)
    world.Allreduce(tutti.IN_PLACE, values, op=tutti.AVG)
    assert (values == world.size - 1).all()
    pair = np.array([((world.rank * 3) % 4, world.rank)], [("value", "f4"), ("index", "i4")])
    world.Allreduce(tutti.IN_PLACE, pair, op=tutti.MAXLOC)
    best = max((rank * 3 % 4, -rank) for rank in range(world.size))
    assert (pair["value"][0], pair["index"][0]) == (best[0], -best[1])


def test_bfloat16(world):
    """bfloat16, which NumPy does not have, in words of 16 bits."""
    words = (np.full(50, 1.0, np.float32).view(np.uint32) >> 16).astype(np.uint16)
    world.Allreduce(tutti.IN_PLACE, [words, tutti.BFLOAT16])
    assert ((words.astype(np.uint32) << 16).view(np.float32) == world.size).all()


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("n", SIZES)
def test_rooted(world, n, form):
    """Broadcast, reduce, gather and scatter from every root."""
    for root in range(world.size):
        buf = data(root, n, "f4") if world.rank == root else np.empty(n, "f4")
        call(world, "Bcast", form, buf, root)
        assert (buf == data(root, n, "f4")).all()
        at_root = world.rank == root
        recv = np.empty(n, "i8") if at_root else None
        call(world, "Reduce", form, data(world.rank, n, "i8"), recv, root=root)
        assert not at_root or (recv == sum(inputs(world, n, "i8"))).all()
        whole = np.empty((world.size, n), "i2") if at_root else None
        call(world, "Gather", form, data(world.rank, n, "i2"), whole, root)
        assert not at_root or (whole == np.stack(inputs(world, n, "i2"))).all()
        whole = np.stack(inputs(world, n, "f8")) if at_root else None
        part = np.empty(n, "f8")
        call(world, "Scatter", form, whole, part, root)
        assert (part == data(world.rank, n, "f8")).all()


@pytest.mark.parametrize("form", FORMS)
def test_rooted_in_place(world, form):
    """In place at the root of reduce, gather and scatter."""
    root, n = world.size - 1, 12
    at_root = world.rank == root
    mine = data(world.rank, n, "i4")
    if form != "persistent":
        both = mine.copy()
        call(world, "Reduce", form, tutti.IN_PLACE if at_root else both, both if at_root else None,
             root=root)
        assert not at_root or (both == sum(inputs(world, n, "i4"))).all()
    whole = np.zeros((world.size, n), "i4")
    whole[root] = mine
    call(world, "Gather", form, tutti.IN_PLACE if at_root else mine, whole if at_root else None,
         root)
    assert not at_root or (whole == np.stack(inputs(world, n, "i4"))).all()
    part = np.zeros(n, "i4")
    call(world, "Scatter", form, whole if at_root else None, tutti.IN_PLACE if at_root else part,
         root)
    assert at_root or (part == mine).all()


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("n", SIZES)
def test_blocks(world, n, form):
    """All-gather, reduce-scatter of blocks and all-to-all."""
    size, rank = world.size, world.rank
    whole = np.empty((size, n), "f4")
    call(world, "Allgather", form, data(rank, n, "f4"), whole)
    assert (whole == np.stack(inputs(world, n, "f4"))).all()
    whole[...] = 0
    whole[rank] = data(rank, n, "f4")
    call(world, "Allgather", form, tutti.IN_PLACE, whole)
    assert (whole == np.stack(inputs(world, n, "f4"))).all()
    part = np.empty(n, "i8")
    call(world, "Reduce_scatter_block", form, data(rank, n * size, "i8"), part)
    assert (part == sum(inputs(world, n * size, "i8"))[rank * n:(rank + 1) * n]).all()
    send, recv = data(rank, n * size, "i4").reshape(size, n), np.empty((size, n), "i4")
    call(world, "Alltoall", form, send, recv)
    expected = [data(other, n * size, "i4").reshape(size, n)[rank] for other in range(size)]
    assert (recv == np.array(expected).reshape(size, n)).all()


@pytest.mark.parametrize("form", FORMS)
def test_varying(world, form):
    """The v forms, with displacements and without."""
    size, rank = world.size, world.rank
    counts = [3 * other + 1 for other in range(size)]
    begins = [sum(counts[:other]) + other for other in range(size)]
    room = sum(counts) + size
    expected = np.full(room, -1, "i4")
    for other, (count, begin) in enumerate(zip(counts, begins)):
        expected[begin:begin + count] = data(other, count, "i4")
    recv = np.full(room, -1, "i4")
    call(world, "Allgatherv", form, data(rank, counts[rank], "i4"), [recv, counts, begins])
    assert (recv == expected).all()
    recv = np.full(sum(counts), -1, "i4")
    call(world, "Allgatherv", form, data(rank, counts[rank], "i4"), [recv, counts])
    assert (recv == np.concatenate([data(o, c, "i4") for o, c in enumerate(counts)])).all()
    root = size // 2
    recv = np.full(room, -1, "i4") if rank == root else None
    call(world, "Gatherv", form, data(rank, counts[rank], "i4"),
         [recv, counts, begins] if rank == root else None, root)
    assert rank != root or (recv == expected).all()
    part = np.empty(counts[rank], "i4")
    call(world, "Scatterv", form, [expected, counts, begins] if rank == root else None, part, root)
    assert (part == data(rank, counts[rank], "i4")).all()
    part = np.empty(counts[rank], "i8")
    call(world, "Reduce_scatter", form, data(rank, sum(counts), "i8"), part, counts)
    begin = sum(counts[:rank])
    assert (part == sum(inputs(world, sum(counts), "i8"))[begin:begin + counts[rank]]).all()


@pytest.mark.parametrize("form", FORMS)
def test_alltoallv(world, form):
    """All-to-all of blocks that differ."""
    size, rank = world.size, world.rank
    sent = [rank + other for other in range(size)]
    received = [other + rank for other in range(size)]
    send = np.concatenate([np.full(n, rank * 100 + other, "i4") for other, n in enumerate(sent)])
    recv = np.empty(sum(received), "i4")
    call(world, "Alltoallv", form, [send, sent], [recv, received])
    expected = [np.full(n, other * 100 + rank, "i4") for other, n in enumerate(received)]
    assert (recv == np.concatenate(expected)).all()


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("n", SIZES)
def test_scans(world, n, form):
    """scan and exscan."""
    send, recv = data(world.rank, n, "i4"), np.full(n, -7, "i4")
    call(world, "Scan", form, send, recv)
    assert (recv == sum(inputs(world, n, "i4")[:world.rank + 1])).all()
    call(world, "Exscan", form, send, recv)
    assert world.rank == 0 or (recv == sum(inputs(world, n, "i4")[:world.rank])).all()
    call(world, "Barrier", form)


def test_user_operators(ctx):
    """Operators of the program: one in Python, and sums of scaled vectors."""
    world = ctx.world

    def combine(lower, upper):
        a, b = np.frombuffer(lower, "i8"), np.frombuffer(upper, "i8")
        b[...] = a * 10 + b

    first = ctx.create_op(lambda a, b: b.__setitem__(slice(None), a), commute=False)
    values = np.full(3000, world.rank + 1, "i8")
    world.Allreduce(tutti.IN_PLACE, values, op=first)
    assert (values == 1).all()
    ctx.free_op(first)
    digits = ctx.create_op(combine, commute=False)
    values = np.full(3000, world.rank + 1, "i8")
    world.Allreduce(tutti.IN_PLACE, values, op=digits)
    assert (values == int("".join(str(rank + 1) for rank in range(world.size)))).all()
    ctx.free_op(digits)
    wrong = ctx.create_op(lambda a, b: b[len(b)])
    with pytest.raises(tutti.Error, match="raised IndexError"):
        ctx.reduce_local(np.ones(3), np.ones(3), wrong)
    ctx.reduce_local(np.ones(3), np.ones(3))  # it is told once
    ctx.free_op(wrong)
    scaled = ctx.create_premul_sum(np.array([world.rank + 1], "f4"))
    values = np.full(10, 2, "f4")
    world.Allreduce(tutti.IN_PLACE, values, op=scaled)
    assert (values == world.size * (world.size + 1)).all()
    ctx.free_op(scaled)


def test_library_memory(ctx):
    """Arrays of the library's memory are reduced without a copy by the CPU on this rank."""
    values = ctx.empty((100, 1000), "f4")
    assert values.shape == (100, 1000)
    values[...] = ctx.world.rank
    ctx.world.Allreduce(tutti.IN_PLACE, values)
    assert (values == sum(range(ctx.world.size))).all()
    before = ctx.stats()["registrations"]
    with ctx.register(np.zeros(100000, "f4")):
        pass
    assert ctx.stats()["registrations"] >= before
    assert ctx.empty(0).size == 0 and len(ctx.alloc(0)) == 0


def test_options(world):
    """A deadline and a priority of a call; counts that differ between its buffers."""
    recv = np.empty(4, "f4")
    world.Allreduce(np.ones(4, "f4"), recv, timeout_ms=60000, priority=2)
    assert (recv == world.size).all()
    for args, text in (((np.ones(3, "f4"), recv), "3 elements"), ((np.ones(4, "f8"), recv),
                       "FLOAT64")):
        with pytest.raises(tutti.ArgumentError, match=text):
            world.Allreduce(*args)
    with pytest.raises(tutti.ArgumentError, match="counts"):
        world.Allgatherv(recv, recv)
    with pytest.raises(tutti.ArgumentError, match="0 counts"):
        world.Allgatherv(recv, [recv, []])
    with pytest.raises(tutti.ArgumentError):
        world.Allgather(recv, np.empty(4 * world.size + 1, "f4"))
    with pytest.raises(TypeError):
        world.Allreduce(recv)
