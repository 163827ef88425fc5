# SPDX-License-Identifier: BSD-3-Clause
"""Parts of a training loop, of libtutti_train: reducer, sharded optimizer, local steps.

    from tutti.train import Reducer, Rule, Sharded

See tutti_training(7). Lists of tensors are lists of buffers of one datatype.
"""

from __future__ import annotations

import ctypes as C
import os
from typing import Any, Optional, Sequence

from . import _abi
from ._abi import Datatype, Rule
from ._library import check, encoded, in_use, train
from .buffers import Buffer, Memory, memory
from .codec import Codec, _floats, _Handle
from .communicator import Comm
from .errors import ArgumentError, Error


class _Tensors:
    """Buffers as the library takes them: arrays of counts and addresses."""

    def __init__(self, buffers: Sequence[Buffer]) -> None:
        self.memory: list[Memory] = [memory(one, True) for one in buffers]
        kinds = {one.datatype for one in self.memory}
        if len(kinds) != 1:
            raise ArgumentError(f"{len(buffers)} tensors of {len(kinds)} datatypes; pass one or "
                                "more tensors of one datatype")
        self.datatype: Datatype = kinds.pop()  # type: ignore[assignment]
        n = len(self.memory)
        self.counts = (C.c_size_t * n)(*[one.count for one in self.memory])
        self.pointers = (C.c_void_p * n)(*[one.address for one in self.memory])

    def release(self) -> None:
        """Let the objects go."""
        for one in self.memory:
            if one.pinned is not None:
                one.pinned.release()

    def same(self, other: _Tensors) -> None:
        """Raise ArgumentError unless these are as long as the others, of their datatype."""
        if list(self.counts) != list(other.counts) or self.datatype != other.datatype:
            raise ArgumentError(f"tensors of {list(other.counts)[:8]} elements; pass "
                                f"{list(self.counts)[:8]} of {self.datatype!r}")


def rule(kind: Rule, **numbers: float) -> Any:
    """An update rule from SGD to ADAMW: rate, momentum, beta1, beta2, epsilon, weight_decay."""
    known = [name for name, _ in _abi.RuleConfig._fields_[3:]]
    for name in numbers:
        if name not in known:
            raise ArgumentError(f"a rule has no number '{name}'; pass some of {', '.join(known)}")
    return _abi.RuleConfig(rule=kind, **numbers)


def _rule_pointer(given: Any) -> Any:
    if not isinstance(given, _abi.RuleConfig):
        raise ArgumentError(f"{given!r} is no rule; pass rule(Rule.SGD, rate=0.1), for example")
    return C.pointer(given)


class _Part(_Handle):
    """Something of the library that belongs to a communicator and works on tensors."""

    _tensors: _Tensors

    def __init__(self, create: Any, free: Any, comm: Comm, config: Any, keep: Any) -> None:
        handle = C.c_void_p()
        pointer = Comm._of(comm, "comm")
        check(create(pointer, C.addressof(config), C.addressof(handle)), pointer)
        super().__init__(handle, free)
        self.comm = comm
        self._keep = keep
        in_use.add(self)

    def Free(self) -> None:
        """Free it, in the middle of a step, too: that ends the step."""
        handle, self._handle = self._handle, None
        if handle is None:
            return
        code = self._release(handle)  # it is freed, whatever this says
        in_use.discard(self)
        self._tensors.release()
        check(code)

    def _check(self, code: int) -> None:
        self.comm._check(code)


class Reducer(_Part):
    """Sums gradients over the ranks in buckets while the backward pass computes. Collective.

    average False: sums. unused: a step may leave out tensors, which count as zeros.
    """

    def __init__(self, comm: Comm, gradients: Sequence[Buffer], *, average: bool = True,
                 unused: bool = False, first_bytes: int = 0, bucket_bytes: int = 0,
                 codec: Optional[Codec] = None) -> None:
        self._tensors = _Tensors(gradients)
        config = _abi.ReducerConfig(
            n=len(gradients), counts=C.addressof(self._tensors.counts),
            gradients=C.addressof(self._tensors.pointers), datatype=self._tensors.datatype,
            flags=int(not average) | 2 * int(unused), first_bytes=first_bytes,
            bucket_bytes=bucket_bytes, codec=codec and Codec._of(codec, "codec"))
        super().__init__(train.reducer_create, train.reducer_free, comm, config, codec)

    def ready(self, tensor: int) -> None:
        """The gradient of this tensor is complete. From any thread."""
        self._check(train.reducer_ready(self._pointer(), tensor))

    def finish(self) -> None:
        """End the step: all gradients are reduced. Collective."""
        self._check(train.reducer_finish(self._pointer()))

    def accumulate(self, on: bool) -> None:
        """The following steps send nothing, or the next step sends what has added up."""
        self._check(train.reducer_accumulate(self._pointer(), int(on)))

    def unused(self, tensor: int) -> int:
        """Of the last step: 0 if all ranks had this tensor ready, 1 if some had not, 2 if none."""
        found = train.reducer_unused(self._pointer(), tensor)
        self._check(found)
        return found

    def bucket(self, tensor: int) -> tuple[int, int]:
        """The bucket of a tensor, and its first element there."""
        bucket, offset = C.c_size_t(), C.c_size_t()
        self._check(train.reducer_bucket(self._pointer(), tensor, C.addressof(bucket),
                                         C.addressof(offset)))
        return bucket.value, offset.value

    def save(self, state: Buffer) -> None:
        """Copy what this rank's encodings have left out to state: codec.states vectors."""
        data = _floats(state, True, "the state")
        self._check(train.reducer_save(self._pointer(), data.address, data.count))

    def restore(self, state: Buffer) -> None:
        """Set what encodings have left out to that of save."""
        data = _floats(state, False, "the state")
        self._check(train.reducer_restore(self._pointer(), data.address, data.count))

    def stats(self) -> dict[str, int]:
        """The fields of struct tutti_reducer_stats."""
        stats = _abi.ReducerStats()
        self._check(train.reducer_stats(self._pointer(), C.addressof(stats)))
        return stats.as_dict()


class Sharded(_Part):
    """An optimizer of which each rank keeps and updates its share (ZeRO 1, 2). Collective.

    reduced: gradients are those of all ranks already, with the same bits on each. codec: gradients
    travel encoded.
    """

    def __init__(self, comm: Comm, parameters: Sequence[Buffer], rule: Any, *, stage: int = 1,
                 average: bool = True, reduced: bool = False, clip_norm: float = 0,
                 bucket_bytes: int = 0, codec: Optional[Codec] = None) -> None:
        self._tensors = _Tensors(parameters)
        config = _abi.ShardedConfig(
            n=len(parameters), counts=C.addressof(self._tensors.counts),
            parameters=C.addressof(self._tensors.pointers), datatype=self._tensors.datatype,
            flags=int(not average) | 2 * reduced, stage=stage, rule=_rule_pointer(rule),
            clip_norm=clip_norm, bucket_bytes=bucket_bytes,
            codec=codec and Codec._of(codec, "codec"))
        super().__init__(train.sharded_create, train.sharded_free, comm, config, codec)
        self._gradients: list[Memory] = []

    def Free(self) -> None:
        """Free it, in the middle of a step, too: that ends the step."""
        try:
            super().Free()
        finally:
            self._gradients.clear()

    @staticmethod
    def _failed(pointer: int) -> bool:
        """Whether a collective may still use gradients, until Free; not after a refused call."""
        return train.sharded_wait(pointer, 0) != 0

    def ready(self, tensor: int, gradient: Buffer) -> None:
        """The gradient of this tensor is complete. From any thread."""
        pointer, data = self._pointer(), memory(gradient, False)
        if not 0 <= tensor < len(self._tensors.memory) or \
                data.count != self._tensors.counts[tensor] or \
                data.datatype != self._tensors.datatype:
            raise ArgumentError(f"a gradient of {data.count} {data.datatype!r} does not fit "
                                f"tensor {tensor}")
        try:
            self._check(train.sharded_ready(pointer, tensor, data.address))
        except Error:
            if self._failed(pointer):
                self._gradients.append(data)
            raise
        self._gradients.append(data)

    def step(self) -> float:
        """Update the parameters: the norm of the gradient before clipping. Collective."""
        norm = C.c_double()
        pointer = self._pointer()
        try:
            self._check(train.sharded_step(pointer, C.addressof(norm)))
        except Error:
            if not self._failed(pointer):
                self._gradients.clear()
            raise
        self._gradients.clear()
        return norm.value

    def wait(self, tensor: Optional[int] = None) -> None:
        """Wait until this parameter (None: all) is updated."""
        self._check(train.sharded_wait(self._pointer(),
                                       C.c_size_t(-1).value if tensor is None else tensor))

    def memory(self) -> dict[str, int]:
        """The fields of struct tutti_sharded_memory."""
        found = _abi.ShardedMemory()
        self._check(train.sharded_memory(self._pointer(), C.addressof(found)))
        return found.as_dict()

    def save(self, path: str | os.PathLike) -> None:
        """Write the state of all ranks to one file, at rank 0. Collective."""
        self._check(train.sharded_save(self._pointer(), encoded(path)))

    def restore(self, path: str | os.PathLike) -> None:
        """Continue with the state of a file, on any number of ranks. Collective."""
        self._check(train.sharded_restore(self._pointer(), encoded(path)))


class LocalSteps(_Part):
    """Each rank trains by itself for some steps, then the ranks combine. Collective.

    outer: rule(...) of the outer optimizer; None: parameters are averaged. inner_rate: steps are
    SGD of this rate, made here. delayed: a round's change is applied at the end of the next one.
    """

    def __init__(self, comm: Comm, parameters: Sequence[Buffer], every: int, *, outer: Any = None,
                 inner_rate: float = 0, delayed: bool = False,
                 codec: Optional[Codec] = None) -> None:
        self._tensors = _Tensors(parameters)
        self._inner = inner_rate > 0
        config = _abi.LocalStepsConfig(
            n=len(parameters), counts=C.addressof(self._tensors.counts),
            parameters=C.addressof(self._tensors.pointers), datatype=self._tensors.datatype,
            flags=int(delayed), every=every, outer=None if outer is None else _rule_pointer(outer),
            inner_rate=inner_rate, codec=codec and Codec._of(codec, "codec"))
        super().__init__(train.local_steps_create, train.local_steps_free, comm, config, codec)

    def step(self, gradients: Optional[Sequence[Buffer]] = None) -> None:
        """A step of this rank; the last one of a round is collective. gradients: inner_rate."""
        given = None
        if gradients is not None:
            given = _Tensors(gradients)
            self._tensors.same(given)
        if (given is None) == self._inner:
            raise ArgumentError("step: pass gradients exactly if there is an inner_rate")
        self._check(train.local_steps_step(self._pointer(), given and given.pointers))

    def finish(self) -> None:
        """End a round that has begun, and apply what is delayed. Collective."""
        self._check(train.local_steps_finish(self._pointer()))


def version() -> str:
    """The version of libtutti_train."""
    return train.train_version().decode()


__all__ = ["LocalSteps", "Reducer", "Rule", "Sharded", "rule", "version"]
