# SPDX-License-Identifier: BSD-3-Clause
"""Codecs: lossy encodings of float32 vectors, alone and in all-reduces."""

from __future__ import annotations

import ctypes as C
import errno
from typing import Any, Callable, Optional, Sequence

from . import _abi
from ._abi import Datatype, Op
from ._library import Scoped, check, encoded, function_of, lent, lib
from .buffers import Buffer, Memory, memory
from .communicator import Comm
from .errors import ArgumentError, Error


def _floats(buffer: Buffer, writable: bool, what: str) -> Memory:
    data = memory(buffer, writable)
    if data.datatype != Datatype.FLOAT32:
        raise ArgumentError(f"{what} is {data.datatype!r}; pass float32")
    return data


class _Handle(Scoped):
    """Something that the library frees; requests that use it keep it."""

    def __init__(self, handle: C.c_void_p, free: Any) -> None:
        self._handle: Optional[int] = handle.value
        self._release = free

    def _pointer(self) -> int:
        if self._handle is None:
            raise Error(f"this {type(self).__name__} was freed")
        return self._handle

    def Free(self) -> None:
        """Free it."""
        if self._handle is not None:
            check(self._release(self._handle))
            self._handle = None


class Codec(_Handle):
    """A codec, such as Codec("int8:block=256") or Codec("topk:1%"); see tutti_codec(7)."""

    def __init__(self, name: str) -> None:
        handle = C.c_void_p()
        check(lib.codec_create(encoded(name), C.addressof(handle)))
        super().__init__(handle, lib.codec_free)

    @property
    def name(self) -> str:
        """The name with all options."""
        return lib.codec_name(self._pointer()).decode()

    @property
    def states(self) -> int:
        """How many vectors of float32 the state of error feedback has."""
        return lib.codec_states(self._pointer())

    def bound(self, count: int) -> int:
        """The most bytes that an encoding of count elements has."""
        return lib.codec_bound(self._pointer(), count)

    def chosen(self, comm: Comm, count: int) -> str:
        """The codec that an all-reduce of count elements uses."""
        name = C.c_char_p()
        check(lib.codec_chosen(Comm._of(comm, "comm"), self._pointer(), count, C.addressof(name)))
        return (name.value or b"").decode()

    def encode(self, vector: Buffer, state: Optional[Buffer] = None, call: int = 0) -> bytes:
        """The encoding of a vector; state: residuals, states vectors of float32, 0 at first."""
        data = _floats(vector, False, "the vector")
        kept = None
        if state is not None:
            kept = _floats(state, True, "the state")
            if kept.count != self.states * data.count:
                raise ArgumentError(f"the state has {kept.count} elements, {self.name} needs "
                                    f"{self.states} times {data.count}")
        out = C.create_string_buffer(max(self.bound(data.count), 1))
        length = C.c_size_t()
        check(lib.codec_encode(self._pointer(), data.address, data.count, data.datatype,
                               kept and kept.address, call, out, C.addressof(length)))
        return out.raw[:length.value]

    def decode(self, encoding: Buffer, vector: Buffer, add: bool = False) -> None:
        """Decode into vector; add: to its elements."""
        data = _floats(vector, True, "the vector")
        source = memory([encoding, Datatype.UINT8], False)
        call = lib.codec_decode_add if add else lib.codec_decode
        check(call(self._pointer(), source.address, source.count, data.address, data.count,
                   data.datatype))

    def __repr__(self) -> str:
        return f"Codec({self.name!r})" if self._handle else "<tutti.Codec freed>"


def _guarded(codec: UserCodec, function: Callable[..., int]) -> Callable[..., int]:
    """As a callback: an exception fails the call, and is kept."""
    def forward(*args: Any) -> int:
        try:
            return function(*args[:-1])
        except BaseException as error:  # pylint: disable=broad-except
            codec.error = error
            return -errno.EPROTO
    return forward


class UserCodec(Codec):
    """A codec of functions in Python; they run in any thread and must not call tutti.

    bound(count): the most bytes of an encoding. encode(vector, first, call) returns bytes;
    vector: a view of float32, elements first and up. decode(encoding, first, vector) writes to
    vector, and raises an exception for bytes that are no encoding. error: the last exception of a
    function, which has failed the call. fixed: each encoding has bound(count) bytes. align:
    vectors are divided at multiples of it. All ranks pass the same.
    """

    def __init__(self, name: str, bound: Callable[[int], int],
                 encode: Callable[[memoryview, int, int], bytes],
                 decode: Callable[[memoryview, int, memoryview], Any], *, fixed: bool = False,
                 align: int = 1) -> None:
        self.error: Optional[BaseException] = None
        self._bound = bound
        for what, function in (("bound", bound), ("encode", encode), ("decode", decode)):
            function_of(function, what)

        def forward_bound(count: int, _: Any) -> int:
            try:
                return self._checked_bound(count)
            except BaseException as error:  # pylint: disable=broad-except
                self.error = error
                return 0

        def forward_encode(source: int, count: int, first: int, call: int, out: int,
                           length: Any) -> int:
            with lent(source, count * 4, "f") as vector:
                encoding = bytes(encode(vector, first, call))
            most = self._checked_bound(count)
            if len(encoding) > most:
                raise ArgumentError(f"encode returned {len(encoding)} bytes, bound({count}) is "
                                    f"{most}")
            C.memmove(out, encoding, len(encoding))
            length[0] = len(encoding)
            return 0

        def forward_decode(source: int, length: int, first: int, out: int, count: int) -> int:
            with lent(source, length) as encoding, lent(out, count * 4, "f") as vector:
                decode(encoding, first, vector)
            return 0

        self._callbacks = (_abi.bound_fn(forward_bound),
                           _abi.encode_fn(_guarded(self, forward_encode)),
                           _abi.decode_fn(_guarded(self, forward_decode)))
        user = _abi.CodecUser(name=encoded(name), flags=int(fixed), align=align,
                              bound=self._callbacks[0], encode=self._callbacks[1],
                              decode=self._callbacks[2])
        handle = C.c_void_p()
        check(lib.codec_create_user(C.addressof(user), C.addressof(handle)))
        _Handle.__init__(self, handle, lib.codec_free)
        _forever.append(self._callbacks)

    def _checked_bound(self, count: int) -> int:
        nbytes = self._bound(count)
        try:
            return _abi.number(C.c_size_t, nbytes)
        except (TypeError, OverflowError):
            raise ArgumentError(f"codec bound({count}) returned {nbytes!r:.60}; pass a function "
                                "that returns a number of bytes") from None

    def bound(self, count: int) -> int:
        """The most bytes that an encoding of count elements has; raises what the function does."""
        self._checked_bound(_abi.number(C.c_size_t, count))
        return super().bound(count)


# Requests and feedback keep a codec that was freed, so its functions must stay.
_forever: list = []


class Feedback(_Handle):
    """The error feedback of one vector on one communicator: for Allreduce."""

    def __init__(self, comm: Comm, codec: Codec, count: int) -> None:
        handle = C.c_void_p()
        check(lib.feedback_create(Comm._of(comm, "comm"), Codec._of(codec, "codec"), count,
                                  C.addressof(handle)))
        super().__init__(handle, lib.feedback_free)
        self.codec = codec
        self.count = count

    def reset(self) -> None:
        """Set the residuals to 0."""
        check(lib.feedback_reset(self._pointer()))

    def _state(self, state: Buffer, writable: bool) -> Memory:
        data = _floats(state, writable, "the state")
        if data.count != self.codec.states * self.count:
            raise ArgumentError(f"the state has {data.count} elements; {self.codec.states} times "
                                f"{self.count} are needed")
        return data

    def save(self, state: Buffer) -> None:
        """Copy the residuals to state."""
        data = self._state(state, True)
        check(lib.feedback_save(self._pointer(), data.address, data.count))

    def restore(self, state: Buffer) -> None:
        """Set the residuals to those of save."""
        data = self._state(state, False)
        check(lib.feedback_restore(self._pointer(), data.address, data.count))


class PowerSGD(_Handle):
    """Sums of matrices as approximations of low rank, with error feedback. Collective."""

    def __init__(self, comm: Comm, shapes: Sequence[tuple[int, int]], rank: int = 0,
                 seed: int = 0) -> None:
        n = len(shapes)
        rows = _abi.array(C.c_size_t, [shape[0] for shape in shapes])
        cols = _abi.array(C.c_size_t, [shape[1] for shape in shapes])
        config = _abi.PowerSgdConfig(n=n, rows=C.addressof(rows), cols=C.addressof(cols),
                                     rank=rank, seed=seed)
        handle = C.c_void_p()
        pointer = Comm._of(comm, "comm")
        check(lib.power_sgd_create(pointer, C.addressof(config), C.addressof(handle)), pointer)
        super().__init__(handle, lib.power_sgd_free)
        self.comm = comm
        self.shapes = list(shapes)

    def Allreduce(self, matrices: Sequence[Buffer], op: int = Op.SUM) -> None:
        """Sum (SUM) or average (AVG) the matrices in place."""
        if len(matrices) != len(self.shapes):
            raise ArgumentError(f"{len(matrices)} matrices; {len(self.shapes)} are needed")
        data = [_floats(matrix, True, "a matrix") for matrix in matrices]
        for one, (rows, cols) in zip(data, self.shapes):
            if one.count != rows * cols:
                raise ArgumentError(f"a matrix has {one.count} elements; {rows} x {cols} are "
                                    "needed")
        array = (C.c_void_p * max(len(data), 1))(*[one.address for one in data])
        check(lib.power_sgd_allreduce(self._pointer(), array, op, self.comm._pointer()),
              self.comm._pointer())

    @property
    def elements(self) -> int:
        """How many float32 a saved state has."""
        return lib.power_sgd_elements(self._pointer())

    def save(self, state: Buffer) -> None:
        """Copy the state, elements float32, to state. Local."""
        data = _floats(state, True, "the state")
        check(lib.power_sgd_save(self._pointer(), data.address, data.count))

    def restore(self, state: Optional[Buffer]) -> None:
        """Continue with a saved state, or None: as a new one. Collective."""
        data = None if state is None else _floats(state, False, "the state")
        check(lib.power_sgd_restore(self._pointer(), data and data.address,
                                    data.count if data else 0, self.comm._pointer()),
              self.comm._pointer())


def allreduce_factors(u: Buffer, v: Buffer, result: Buffer, comm: Comm, op: int = Op.SUM, *,
                      gather: bool = False, dense: bool = False) -> None:
    """result: the sum over the ranks of u.T @ v. Collective.

    u: k x rows, v: k x cols, result: rows x cols, arrays of float32. gather: the factors travel;
    dense: the matrix does; else what takes less time.
    """
    shapes = [memoryview(one).shape or () for one in (u, v, result)]
    if any(len(shape) != 2 for shape in shapes) or shapes[0][0] != shapes[1][0] or \
            shapes[2] != (shapes[0][1], shapes[1][1]):
        raise ArgumentError(f"factors of shapes {shapes[0]} and {shapes[1]} do not make a matrix "
                            f"of shape {shapes[2]}")
    pointer = Comm._of(comm, "comm")
    data = [_floats(u, False, "u"), _floats(v, False, "v"), _floats(result, True, "the result")]
    check(lib.allreduce_factors(*[one.address for one in data], shapes[2][0], shapes[2][1],
                                shapes[0][0], op, int(gather) | 2 * int(dense), pointer), pointer)
