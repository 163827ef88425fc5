# SPDX-License-Identifier: BSD-3-Clause
"""Messages, requests and groups, in a ring of all ranks."""

import numpy as np
import pytest

import tutti


def neighbours(world):
    """The next rank and the one before."""
    return (world.rank + 1) % world.size, (world.rank - 1) % world.size


@pytest.mark.parametrize("n", [0, 1, 100, 300000])
@pytest.mark.parametrize("dtype", ["int8", "float32", "complex128"])
def test_ring(world, n, dtype):
    """Isend and Recv; Sendrecv; Issend and Irecv."""
    after, before = neighbours(world)
    send, recv = np.full(n, world.rank, dtype), np.full(n, -1).astype(dtype)
    request = world.Isend(send, after, 3)
    status = tutti.Status()
    world.Recv(recv, before, 3, status)
    request.Wait()
    assert (recv == before).all()
    assert (status.source, status.tag, status.nbytes) == (before, 3, send.nbytes)
    recv[...] = 0
    world.Sendrecv(send, after, 4, recv, before, 4, status)
    assert (recv == before).all() and status.Get_tag() == 4 and status.Get_source() == before
    recv[...] = 0
    requests = [world.Irecv(recv), world.Issend(send, after, 9)]
    tutti.Request.Waitall(requests)
    assert (recv == before).all() and requests[0].status.tag == 9
    assert not any(requests)


def test_probes(world):
    """Probe and matched probe tell the length of a message before it is received."""
    after, before = neighbours(world)
    request = world.Isend(np.arange(7, dtype="f4"), after, 1)
    status = world.Probe(before, 1)
    assert status.Get_count(tutti.FLOAT32) == 7 and status.datatype == tutti.FLOAT32
    assert world.Iprobe(before, 1)
    message = world.Mprobe(before, 1)
    assert not world.Iprobe(before, 1) and world.Improbe(before, 1) is None
    recv = np.empty(7, "f4")
    message.Recv(recv, status)
    request.Wait()
    assert (recv == np.arange(7)).all() and status.nbytes == 28
    request = world.Isend(np.arange(5, dtype="i8"), after, 2)
    world.Probe(before, 2)
    message = world.Improbe(before, 2)
    recv = np.empty(5, "i8")
    message.Irecv(recv).Wait()
    request.Wait()
    assert (recv == np.arange(5)).all()


def test_persistent(world):
    """Persistent sends and receives."""
    after, before = neighbours(world)
    send, recv = np.zeros(10, "i4"), np.empty(10, "i4")
    for send_init in (world.Send_init, world.Ssend_init):
        requests = [world.Recv_init(recv, before, 5), send_init(send, after, 5)]
        for turn in range(3):
            send[...] = world.rank * 10 + turn
            tutti.Request.Startall(requests)
            tutti.Request.Waitall(requests, [tutti.Status(), tutti.Status()])
            assert (recv == before * 10 + turn).all()
            assert requests[0].status.source == before
        for request in requests:
            request.Free()


def test_many(world):
    """Waitany, Waitsome, Testall, Testany and Testsome."""
    after, before = neighbours(world)
    n = 6
    recvs = [np.full(3, -1, "i4") for _ in range(n)]
    requests = [world.Irecv(recvs[tag], before, tag) for tag in range(n)]
    for tag in range(n):
        world.Send(np.full(3, tag, "i4"), after, tag)
    status = tutti.Status()
    first = tutti.Request.Waitany(requests, status)
    assert status.tag == first and (recvs[first] == first).all()
    done = {first}
    while len(done) < n - 1:
        done.update(tutti.Request.Waitsome(requests))
    done.update(tutti.Request.Testsome(requests))
    while any(requests):
        place, ended = tutti.Request.Testany(requests)
        if ended and place >= 0:
            done.add(place)
    assert done == set(range(n))
    assert tutti.Request.Waitany(requests) == tutti.UNDEFINED
    assert tutti.Request.Waitsome(requests) == []
    assert tutti.Request.Testany(requests) == (tutti.UNDEFINED, True)
    assert tutti.Request.Testall(requests) and tutti.Request.Testsome(requests) == []
    assert all((recvs[tag] == tag).all() for tag in range(n))


def test_cancel(world):
    """A canceled receive raises CanceledError; a message that is too long is refused by name."""
    request = world.Irecv(np.empty(3), world.rank, 77)
    assert not request.Test() and not request.Get_status()
    request.Cancel()
    with pytest.raises(tutti.CanceledError):
        request.Wait()
    assert not request
    world.Send(np.zeros(5), world.rank, 78)
    with pytest.raises(tutti.Error, match="40") as caught:
        world.Recv(np.empty(3), world.rank, 78)
    assert caught.value.code == -90  # EMSGSIZE
    world.Send(np.zeros(2, "f4"), world.rank, 78)
    with pytest.raises(tutti.MismatchError):
        world.Recv(np.empty(1), world.rank, 78)


def test_timeout(world):
    """A receive that no message comes for ends at its deadline; all else goes on."""
    request = world.Irecv(np.empty(3), world.rank, 79)
    request.Set_timeout(50)
    with pytest.raises(tutti.TimeoutError) as caught:
        request.Wait()
    assert isinstance(caught.value, TimeoutError)
    world.Barrier()


def test_group(world):
    """Calls in a group are complete after it, although their buffers were forgotten."""
    after, before = neighbours(world)
    recv, total = np.empty(4, "f4"), np.empty(2, "f8")
    with tutti.group():
        world.Recv(recv, before, 6)
        world.Send(np.full(4, world.rank, "f4"), after, 6)
        world.Allreduce(np.full(2, 1.0), total)
    assert (recv == before).all() and (total == world.size).all()
    with pytest.raises(tutti.Error):
        with tutti.group():
            world.Recv(recv, world.size + 5, 6)
    world.Barrier()


def test_errors(world):
    """Bad ranks and tags are refused with the numbers."""
    for call in (lambda: world.Send(b"x", world.size), lambda: world.Send(b"x", 0, -3),
                 lambda: world.Recv(bytearray(1), -7), lambda: world.Bcast(bytearray(1), 99)):
        with pytest.raises(tutti.ArgumentError) as caught:
            call()
        assert caught.value.code == -22 and caught.value.reason
    with pytest.raises(tutti.ArgumentError, match="contiguous"):
        world.Send(np.zeros((4, 4))[:, 1], 0)
