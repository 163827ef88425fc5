# SPDX-License-Identifier: BSD-3-Clause
"""Jobs of processes that this test starts: ways to start, deaths, exceptions that leave."""

import os
import subprocess
import sys
import textwrap

import pytest

import tutti

HEAD = """
import os, signal, sys
import numpy as np
import tutti
rank, size, folder = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
"""


def job(n, folder, body, timeout=120):
    """Run a program as n ranks: (status, output) of each."""
    script = folder / "program.py"
    script.write_text(HEAD + textwrap.dedent(body))
    environment = {name: value for name, value in os.environ.items()
                   if not name.startswith("TUTTI_")}
    environment["TUTTI_LOG"] = "error"  # warnings of ranks that are late would be in the output
    ranks = [subprocess.Popen([sys.executable, str(script), str(rank), str(n), str(folder)],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              env=environment) for rank in range(n)]
    try:
        return [(rank.returncode, out) for rank, out in
                [(rank, rank.communicate(timeout=timeout)[0]) for rank in ranks]]
    finally:
        for rank in ranks:
            if rank.poll() is None:
                rank.kill()
                rank.wait()


FILES = """
import time
def gather_in_files(part, turn=[0]):
    turn[0] += 1
    name = os.path.join(folder, f"part{turn[0]}.")
    with open(name + f"{rank}.new", "wb") as out:
        out.write(part)
    os.rename(name + f"{rank}.new", name + str(rank))
    parts, limit = [], time.monotonic() + 60
    for other in range(size):
        while not os.path.exists(name + str(other)):
            assert time.monotonic() < limit
            time.sleep(0.01)
        with open(name + str(other), "rb") as part:
            parts.append(part.read())
    return parts
"""


def test_allgather(tmp_path):
    """The ranks find each other through an all-gather of the program."""
    results = job(3, tmp_path, FILES + """
with tutti.init(nranks=size, rank=rank, allgather=gather_in_files, timeout_ms=60000,
                options={"TUTTI_INSECURE": 1}) as ctx:
    total = np.zeros(1)
    ctx.world.Allreduce(np.full(1, rank + 1.0), total)
    print(total[0])
""")
    assert results == [(0, "6.0\n")] * 3


def test_unique_id(tmp_path):
    """The id of rank 0 in a file; a wrong length, and an all-gather that fails, are errors."""
    results = job(2, tmp_path, FILES + """
path = os.path.join(folder, "id")
if rank == 0:
    with open(path + ".new", "wb") as out:
        out.write(tutti.unique_id())
    os.rename(path + ".new", path)
limit = time.monotonic() + 60
while not os.path.exists(path):
    assert time.monotonic() < limit
    time.sleep(0.01)
id = open(path, "rb").read()
try:
    tutti.init(nranks=size, rank=rank, id=id[:-1])
except ValueError as error:
    assert "192 bytes, this one 191" in str(error)
with tutti.init(nranks=size, rank=rank, id=id, transport="shm", tolerant=True) as ctx:
    assert ctx.world.state()["flags"] == 1
    ctx.world.Barrier()
def stop(part):
    raise KeyboardInterrupt
for gather in (lambda part: [part], stop):
    try:
        tutti.init(nranks=size, rank=rank, allgather=gather)
    except tutti.Error as error:
        print("refused", error.code < 0, error)
""")
    assert [status for status, _ in results] == [0, 0], results
    assert all(out.count("refused True config.allgather returned 1\n") == 2
               for _, out in results), results


def test_death(tmp_path):
    """Survivors of a killed rank get its rank, host and the reason, and go on without it."""
    results = job(3, tmp_path, FILES + """
ctx = tutti.init(nranks=size, rank=rank, allgather=gather_in_files, timeout_ms=60000)
world, one = ctx.world, np.ones(1000)
try:
    world.Allreduce(tutti.IN_PLACE, one)  # the death may be noticed in it
    if rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    while True:
        world.Allreduce(tutti.IN_PLACE, one, op=tutti.MAX)
except tutti.PeerError as error:
    assert error.rank == 1 and error.host and error.reason == str(error), vars(error)
    assert error.call == "allreduce" and error.code == -4097, vars(error)
    assert "rank 1" in error.reason and error.host in error.reason, error.reason
gone, = world.failed()
assert (gone.rank, gone.world_rank) == (1, 1) and gone.reason
assert isinstance(world.error(), tutti.PeerError)
living = world.Shrink()
one[...] = 1
living.Allreduce(tutti.IN_PLACE, one)
assert (one == 2).all()
print("survived", living.size)
""")
    assert results[1][0] == -9
    for rank in (0, 2):
        assert results[rank][0] == 0 and "survived 2\n" in results[rank][1], results


def test_exception(tmp_path):
    """An exception that leaves the context of one rank ends the calls of the others at once."""
    results = job(3, tmp_path, FILES + """
try:
    with tutti.init(nranks=size, rank=rank, allgather=gather_in_files, timeout_ms=60000) as ctx:
        ctx.world.Barrier()
        if rank == 2:
            raise KeyError("mine")
        ctx.world.Recv(bytearray(1), 2)
except tutti.AbortedError as error:
    print("aborted")
except KeyError:
    print("raised")
""")
    assert [out.splitlines()[-1] for _, out in results] == ["aborted", "aborted", "raised"]
    assert [status for status, _ in results] == [0, 0, 0], results


def test_alone():
    """A job of one rank; objects of a context that has ended say so."""
    context = tutti.init(nranks=1, rank=0)
    world = context.world
    world.Barrier()
    context.finalize()
    context.finalize()
    assert not context.alive and not world.alive
    for call in (world.Barrier, context.stats, lambda: tutti.Win.Create(None, world)):
        with pytest.raises(tutti.Error, match="ended"):
            call()
    with pytest.raises(tutti.Error, match="TUTTI_CHUNKS|CHUNKS"):
        tutti.init(nranks=1, rank=0, options={"TUTTI_CHUNKS": 1})
    with pytest.raises(ValueError, match="NUL"):
        tutti.init(nranks=1, rank=0, transport="s\0hm")
