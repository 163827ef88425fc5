# SPDX-License-Identifier: BSD-3-Clause
"""The reducer, the sharded optimizer and local steps, against NumPy."""

import array
import errno
import gc
import weakref

import numpy as np
import pytest

import tutti
from tutti.train import LocalSteps, Reducer, Rule, Sharded, rule, version

COUNTS = [5, 300, 1, 40]


def tensors(seed, dtype="f4"):
    """Tensors of some sizes."""
    generator = np.random.default_rng(seed)
    return [generator.standard_normal(n).astype(dtype) for n in COUNTS]


def mean(lists):
    """Tensor by tensor."""
    return [np.mean(same, axis=0) for same in zip(*lists)]


def test_reducer(world):
    """Averages in several buckets; accumulation; unused tensors."""
    assert version() == tutti.__version__
    gradients = [np.zeros(n, "f4") for n in COUNTS]
    with Reducer(world, gradients, first_bytes=256, bucket_bytes=256,
                 unused=True) as reducer:
        for step in range(2):
            for mine, value in zip(gradients, tensors(100 * step + world.rank)):
                mine[...] = value
            for tensor in reversed(range(len(COUNTS))):
                reducer.ready(tensor)
            reducer.finish()
            for got, wanted in zip(gradients, mean([tensors(100 * step + rank)
                                                    for rank in range(world.size)])):
                assert np.allclose(got, wanted, atol=1e-6)
        for tensor in (0, 1, 2):
            reducer.ready(tensor)
        reducer.finish()
        assert reducer.unused(3) == 2 and reducer.unused(0) == 0
        assert reducer.stats()["steps"] == 3 and reducer.stats()["buckets"] > 1
        assert reducer.bucket(3)[0] == 0
        with pytest.raises(tutti.Error, match="4"):
            reducer.ready(4)
    with pytest.raises(tutti.ArgumentError, match="2 datatypes"):
        Reducer(world, [np.zeros(3, "f4"), np.zeros(3)])


@pytest.mark.parametrize("stage", [1, 2])
def test_sharded(world, stage, tmp_path):
    """SGD with momentum of averages; a saved state continues."""
    parameters, oracle = tensors(1, "f8"), tensors(1, "f8")
    momentum = [np.zeros(n) for n in COUNTS]
    path = tmp_path / "state"  # counts at rank 0 only

    def train(optimizer, steps, reduced=False):
        for step in steps:
            average = mean([tensors(10 * step + rank, "f8") for rank in range(world.size)])
            gradients = average if reduced else tensors(10 * step + world.rank, "f8")
            for tensor in reversed(range(len(COUNTS))):
                optimizer.ready(tensor, gradients[tensor])
            norm = optimizer.step()
            assert np.isclose(norm, np.sqrt(sum((one ** 2).sum() for one in average)))
            optimizer.wait()
            for x, m, g in zip(oracle, momentum, average):
                m *= 0.9
                m += g
                x -= 0.1 * m
            assert all(map(np.allclose, parameters, oracle))

    sgd = rule(Rule.MOMENTUM, rate=0.1, momentum=0.9)
    with Sharded(world, parameters, sgd, stage=stage) as optimizer:
        train(optimizer, [1, 2])
        optimizer.save(path)
        assert optimizer.memory()["state_bytes"] <= 8 * sum(COUNTS)
        with pytest.raises(tutti.ArgumentError, match="does not fit"):
            optimizer.ready(0, np.zeros(4))
    with Sharded(world, parameters, sgd, stage=stage, reduced=True) as optimizer:
        optimizer.restore(path)
        train(optimizer, [3], reduced=True)
    for wrong in (None, Rule.SGD):
        with pytest.raises(tutti.ArgumentError, match="is no rule"):
            Sharded(world, [np.zeros(3, "f4")], wrong)
    with pytest.raises(tutti.ArgumentError, match="no number 'speed'"):
        rule(Rule.SGD, speed=1)


def test_reducer_codec(world):
    """What an encoding leaves out is saved, and comes from another reducer."""
    codec, total = tutti.Codec("topk:50%"), sum(COUNTS)
    gradients = [np.zeros(n, "f4") for n in COUNTS]
    state = np.zeros(codec.states * total, "f4")
    got = [np.zeros(n, "f4") for n in COUNTS]
    for step in range(8):
        with Reducer(world, gradients, average=False, codec=codec) as reducer:
            reducer.restore(state)
            for mine in gradients:
                mine[...] = 1 + np.arange(len(mine)) if step == 0 else 0
            for tensor in range(len(COUNTS)):
                reducer.ready(tensor)
            reducer.finish()
            reducer.save(state)
            for one, mine in zip(got, gradients):
                one += mine
    assert all((one == world.size * (1 + np.arange(len(one)))).all() for one in got)
    with Reducer(world, gradients, codec=codec) as reducer:
        with pytest.raises(tutti.Error, match="count is 3"):
            reducer.save(np.zeros(3, "f4"))


def test_sharded_codec(world):
    """Small integers, which fp16 encodes as they are."""
    parameters = [np.zeros(n, "f4") for n in COUNTS]
    with Sharded(world, parameters, rule(Rule.SGD, rate=1), average=False,
                 codec=tutti.Codec("fp16")) as optimizer:
        for tensor in reversed(range(len(COUNTS))):
            optimizer.ready(tensor, np.full(COUNTS[tensor], world.rank + 1, "f4"))
        optimizer.step()
        optimizer.wait()
    assert all((x == -sum(range(1, world.size + 1))).all() for x in parameters)


@pytest.mark.parametrize("outer", [False, True])
def test_local_steps(world, outer):
    """SGD for three steps, then the average; an outer SGD of rate 1 is the same."""
    parameters, mine = tensors(1), [tensors(1) for _ in range(world.size)]
    options = {"inner_rate": 0.1, "outer": rule(Rule.SGD, rate=1)} if outer else {}
    with LocalSteps(world, parameters, 3, **options) as local:
        for step in range(3):
            for rank in range(world.size):
                for x, g in zip(mine[rank], tensors(10 * step + rank)):
                    x -= np.float32(0.1) * g
            if outer:
                local.step(tensors(10 * step + world.rank))
                continue
            for x, g in zip(parameters, tensors(10 * step + world.rank)):
                x -= np.float32(0.1) * g
            local.step()
        local.finish()
        assert all(np.allclose(got, wanted, atol=1e-5)
                   for got, wanted in zip(parameters, mean(mine)))
        with pytest.raises(tutti.ArgumentError, match="exactly if"):
            local.step(None if outer else parameters)


def test_refused_gradient(world):
    """A refused gradient leaves the first one, which the optimizer reads, in place."""
    parameters = [np.zeros(8, "f4"), np.zeros(4, "f4")]
    with Sharded(world, parameters, rule(Rule.SGD, rate=1)) as optimizer:
        first = np.ones(8, "f4")
        alive = weakref.ref(first)
        optimizer.ready(0, first)
        del first
        with pytest.raises(tutti.ArgumentError, match="ready already"):
            optimizer.ready(0, np.full(8, 5, "f4"))
        gc.collect()
        assert alive() is not None
        optimizer.ready(1, np.zeros(4, "f4"))
        optimizer.step()
        optimizer.wait()
    assert (parameters[0] == -1).all()


# For each class: made, then in the middle of a step, then at its end.
PARTS = {
    "reducer": (Reducer, lambda part: part.ready(0), lambda part: part.finish()),
    "sharded": (lambda comm, tensors: Sharded(comm, tensors, rule(Rule.SGD, rate=1)),
                lambda part: part.ready(0, np.ones(3, "f4")),
                lambda part: (part.step(), part.wait())),
    "local": (lambda comm, tensors: LocalSteps(comm, tensors, 1, outer=rule(Rule.SGD, rate=1),
                                               delayed=True),
              lambda part: part.step(), lambda part: part.finish()),
}


@pytest.mark.parametrize("name", PARTS)
def test_exception(world, name):
    """An exception in the middle of a step comes through, and all is freed."""
    make, begin, end = PARTS[name]
    tensor = array.array("f", [1, 2, 3])
    with pytest.raises(ZeroDivisionError) as caught:
        with make(world, [tensor]) as part:
            begin(part)
            raise ZeroDivisionError
    assert not hasattr(caught.value, "__notes__")
    tensor.append(4)
    with pytest.raises(tutti.Error, match="was freed"):
        end(part)
    alive = weakref.ref(part)
    del part, caught
    gc.collect()
    assert alive() is None
    world.Barrier()


def test_failed_gradient(world, monkeypatch):
    """A gradient is kept until Free if its reduction has begun and failed."""
    with Sharded(world, [np.zeros(3, "f4")], rule(Rule.SGD)) as optimizer:
        gradient = np.ones(3, "f4")
        alive = weakref.ref(gradient)
        with monkeypatch.context() as patch:
            patch.setattr(tutti.train.train, "sharded_ready", lambda *given: -errno.EIO)
            patch.setattr(tutti.train.train, "sharded_wait", lambda *given: -errno.EIO)
            with pytest.raises(tutti.Error):
                optimizer.ready(0, gradient)
        del gradient
        gc.collect()
        assert alive() is not None
    assert alive() is None


def test_refused_gradients(world):
    """A gradient that was refused, or whose step was, is not kept."""
    with Sharded(world, [np.zeros(3, "f4"), np.zeros(3, "f4")], rule(Rule.SGD)) as optimizer:
        kept, refused = np.ones(3, "f4"), np.ones(3, "f4")
        alive = [weakref.ref(kept), weakref.ref(refused)]
        optimizer.ready(0, kept)
        with pytest.raises(tutti.Error, match="ready already"):
            optimizer.ready(0, refused)
        del kept, refused
        gc.collect()
        assert alive[0]() is not None and alive[1]() is None
        with pytest.raises(tutti.Error, match="was not ready"):
            optimizer.step()
        gc.collect()
        assert alive[0]() is None
        for tensor in (0, 1):
            optimizer.ready(tensor, np.ones(3, "f4"))
        optimizer.step()
        optimizer.wait()


@pytest.mark.parametrize("name", PARTS)
def test_freed_communicator(world, name):
    """The communicator that a part was made on may be freed before the part."""
    make, begin, end = PARTS[name]
    with world.Dup() as comm:
        part = make(comm, [np.ones(3, "f4")])
    begin(part)
    end(part)
    part.Free()


@pytest.mark.parametrize("name", PARTS)
def test_unlocked(world, name):
    """After Free the program may resize its arrays, although the part is alive."""
    tensor = array.array("f", [1, 2, 3])
    part = PARTS[name][0](world, [tensor])
    with pytest.raises(BufferError):
        tensor.append(4)
    part.Free()
    tensor.append(4)
    with pytest.raises(tutti.Error, match="was freed"):
        PARTS[name][1](part)
