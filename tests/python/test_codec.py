# SPDX-License-Identifier: BSD-3-Clause
"""Codecs alone and in all-reduces; PowerSGD."""

import errno

import numpy as np
import pytest

import tutti
from tutti import Codec, Feedback, PowerSGD, UserCodec


def test_alone():
    """Encode and decode; residuals conserve the sum."""
    vector = np.linspace(-1, 1, 1000, dtype="f4")
    with Codec("fp16") as codec:
        encoding = codec.encode(vector)
        assert len(encoding) == codec.bound(1000) == 2000
        back = np.empty(1000, "f4")
        codec.decode(encoding, back)
        assert (back == vector.astype("f2").astype("f4")).all()
        codec.decode(encoding, back, add=True)
        assert (back == 2 * vector.astype("f2").astype("f4")).all()
        with pytest.raises(tutti.Error):
            codec.decode(encoding[:-1], back)
        with pytest.raises(tutti.ArgumentError, match="float32"):
            codec.encode(np.zeros(3))
    with pytest.raises(tutti.Error, match="freed"):
        codec.encode(vector)
    codec = Codec("topk:10%")
    state, sent = np.zeros(codec.states * 1000, "f4"), np.zeros(1000, "f4")
    for turn in range(5):
        codec.decode(codec.encode(vector, state, turn), sent, add=True)
    assert np.allclose(sent + state[:1000], 5 * vector, atol=1e-5)
    assert codec.name.startswith("topk") and "topk" in repr(codec)
    with pytest.raises(tutti.ArgumentError, match="state has 3"):
        codec.encode(vector, np.zeros(3, "f4"))
    with pytest.raises(tutti.ArgumentError):
        Codec("inta8")


def test_allreduce(world):
    """An all-reduce with a codec, with and without feedback."""
    n = 4096
    vector = np.sin(np.arange(n) * (world.rank + 1)).astype("f4")
    exact, coded = np.empty(n, "f4"), np.empty(n, "f4")
    world.Allreduce(vector, exact, op=tutti.SUM)
    codec = Codec("int8")
    world.Allreduce(vector, coded, codec=codec)
    assert np.abs(coded - exact).max() < 0.1
    same = np.empty((world.size, n), "f4")
    world.Allgather(coded, same)
    assert (same == coded).all()
    total = np.zeros(n, "f8")
    with Feedback(world, codec, n) as feedback:
        for _ in range(4):
            world.Allreduce(vector, coded, codec=codec, feedback=feedback)
            total += coded
        state = np.empty(codec.states * n, "f4")
        feedback.save(state)
        residual = np.empty(n, "f4")
        world.Allreduce(state[:n].copy(), residual)
        assert np.abs(total + residual - 4.0 * exact).max() < 1e-3
        feedback.reset()
        feedback.restore(state)
    two = Codec("dgc:10%")  # vectors of state
    with Feedback(world, two, n) as feedback:
        world.Allreduce(vector, coded, codec=two, feedback=feedback)
        state = np.zeros(two.states * n, "f4")
        feedback.save(state)
        assert state[:n].any() and state[n:].any()
        feedback.restore(state)
    assert "int8" in Codec("auto:int8").chosen(world, n) or \
        Codec("auto:int8").chosen(world, n) == "plain"


def test_power_sgd(world):
    """Matrices of rank 1 are summed exactly up to rounding."""
    shapes = [(20, 30), (1, 7)]
    first = np.outer(np.arange(20), np.ones(30)).astype("f4")
    with PowerSGD(world, shapes, rank=2, seed=5) as state:
        matrices = [first * 1.0, np.full((1, 7), world.rank, "f4")]
        state.Allreduce(matrices)
        assert np.allclose(matrices[0], first * world.size, rtol=1e-3, atol=1e-2)
        assert (matrices[1] == sum(range(world.size))).all()
        with pytest.raises(tutti.ArgumentError, match="20 x 30"):
            state.Allreduce([np.zeros((3, 3), "f4"), matrices[1]])
        with pytest.raises(tutti.ArgumentError, match="1 matrices"):
            state.Allreduce([first])


def test_user_codec(world):
    """A codec of functions in Python, alone and in an all-reduce; one that fails."""
    def encode(vector, _first, _call):
        return np.asarray(vector).astype("f2").tobytes()

    def decode(encoding, _first, vector):
        vector[:] = memoryview(np.frombuffer(encoding, "f2").astype("f4"))

    with UserCodec("half", lambda count: 2 * count, encode, decode, fixed=True) as codec:
        vector = np.arange(64, dtype="f4") + world.rank
        back = np.empty(64, "f4")
        codec.decode(codec.encode(vector), back)
        assert (back == vector).all() and "half" in codec.name
        world.Allreduce(tutti.IN_PLACE, vector, codec=codec)
        assert (vector == sum(np.arange(64) + rank for rank in range(world.size))).all()
        assert codec.error is None

    def refuse(*_):
        raise ValueError("no bytes today")

    with UserCodec("refuses", lambda count: 4 * count, refuse, decode) as codec:
        with pytest.raises(tutti.Error):
            codec.encode(np.ones(3, "f4"))
        assert str(codec.error) == "no bytes today"


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit, GeneratorExit])
def test_user_codec_stopped(world, kind):
    """Exceptions that are no errors fail the call and are kept, too."""
    def stop(*_):
        raise kind

    with UserCodec("stops", lambda count: 4 * count, stop, stop) as codec:
        with pytest.raises(tutti.Error, match=f"encode returned -{errno.EPROTO}$"):
            codec.encode(np.ones(3, "f4"))
        assert isinstance(codec.error, kind)
        codec.error = None
        with pytest.raises(tutti.Error):
            codec.decode(b"1234", np.ones(1, "f4"))
        assert isinstance(codec.error, kind)
    with UserCodec("unbound", stop, stop, stop) as codec:
        with pytest.raises(kind):
            codec.bound(5)
        with pytest.raises(tutti.Error, match="is 0 bytes"):
            world.Allreduce(tutti.IN_PLACE, np.ones(3, "f4"), codec=codec)
        assert isinstance(codec.error, kind)


def test_user_codec_bound(world):
    """A bound is a number of bytes."""
    for wrong in ("12", None, 4.0, -1, 2**64):
        with UserCodec("wrong", lambda _, wrong=wrong: wrong, bytes, bytes) as codec:
            for call in (lambda: codec.bound(5), lambda: codec.encode(np.ones(3, "f4"))):
                with pytest.raises(tutti.ArgumentError, match="bound.* returned .*pass a function"):
                    call()
            with pytest.raises(tutti.Error):
                world.Allreduce(tutti.IN_PLACE, np.ones(3, "f4"), codec=codec)
            assert "returned" in str(codec.error)


def test_factors(world):
    """The sum of outer products, by factors and dense."""
    size, rank = world.size, world.rank
    u = [np.arange(6, dtype="f4").reshape(2, 3) + r for r in range(size)]
    v = [np.arange(8, dtype="f4").reshape(2, 4) - r for r in range(size)]
    wanted = sum(a.T @ b for a, b in zip(u, v))
    for how in ({}, {"gather": True}, {"dense": True}):
        got = np.empty((3, 4), "f4")
        tutti.allreduce_factors(u[rank], v[rank], got, world, **how)
        assert np.allclose(got, wanted)
    with pytest.raises(tutti.ArgumentError, match="shape"):
        tutti.allreduce_factors(u[rank], v[rank], np.empty((4, 3), "f4"), world)


def test_power_sgd_state(world):
    """A saved state continues with the same bits."""
    matrix = np.random.default_rng(world.rank).standard_normal((30, 20)).astype("f4")
    with PowerSGD(world, [(30, 20)], rank=2) as state:
        state.Allreduce([matrix.copy()])
        saved = np.empty(state.elements, "f4")
        state.save(saved)
        first, again = matrix.copy(), matrix.copy()
        state.Allreduce([first])
        state.restore(saved)
        state.Allreduce([again])
        assert (first == again).all()
        state.restore(None)
