# SPDX-License-Identifier: BSD-3-Clause
"""Backend "tutti" of torch.distributed, for CPU tensors.

    import torch, tutti.torch
    torch.distributed.init_process_group("tutti")

All process groups of a process share one context, which ends with the last of them. The rendezvous
goes through the store of torch.distributed, which authenticates no process: see SECURITY.md.
"""

import atexit
import sys
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from .codec import Codec, Feedback
from .communicator import Comm
from .context import Registered

try:
    from . import _torch  # type: ignore[attr-defined]
except ImportError as _error:
    raise ImportError(
        f"tutti.torch: {_error}; install python3-tutti-torch, or build tutti with configure "
        "--with-torch"
    ) from _error

_failed = False


def _create(options: Any, _: Any = None) -> Any:
    """The process group that torch.distributed asks for."""
    timeout = options.timeout
    if not isinstance(timeout, timedelta):
        timeout = timedelta(seconds=float(timeout))
    ranks = list(options.global_ranks_in_group)
    if not ranks:
        return _torch.make_world(options.store, options.group_rank, options.group_size, timeout)
    return _torch.make_group(ranks, options.group_rank, timeout)


def _remember_failure(*error: Any) -> None:
    global _failed  # pylint: disable=global-statement
    _failed = True
    _old_hook(*error)


_old_hook, sys.excepthook = sys.excepthook, _remember_failure
atexit.register(lambda: _torch.leave(_failed))
dist.Backend.register_backend("tutti", _create, extended_api=True)


class _Pointer:
    """A C pointer where the package expects one of its objects."""

    def __init__(self, address: int) -> None:
        self._address = address

    def _pointer(self) -> int:
        return self._address


class _GroupComm(_Pointer, Comm):  # pylint: disable=super-init-not-called
    """A process group's communicator, of which only the pointer is used."""


def _group(group: Any = None) -> Any:
    found = group or dist.distributed_c10d._get_default_group()
    if not isinstance(found, _torch.ProcessGroupTutti):
        raise ValueError("the process group is not of backend tutti")
    return found


def register(tensor: torch.Tensor, group: Any = None) -> Registered:
    """Register a tensor's memory with all transports, until Free or the end of the with block."""
    return Registered(_Pointer(_group(group).context), tensor.detach().numpy())  # type: ignore


class CodecState:
    """The state of codec_hook: a codec, and with feedback the residuals of each bucket."""

    def __init__(self, codec: str, feedback: bool = True, group: Any = None) -> None:
        self.codec = Codec(codec)
        self.group = _group(group)
        self.feedback = feedback
        self._states: dict[int, Feedback] = {}

    def _feedback(self, index: int, count: int) -> int:
        if not self.feedback:
            return 0
        state = self._states.get(index)
        if state is None or state.count != count:
            if state is not None:
                state.Free()
            comm = _GroupComm(self.group.comm)
            state = self._states[index] = Feedback(comm, self.codec, count)
        return state._pointer()


def codec_hook(state: CodecState,
               bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    """A hook of DistributedDataParallel: averages of gradients travel encoded.

        model.register_comm_hook(CodecState("int8"), codec_hook)
    """
    tensor = bucket.buffer()
    feedback = state._feedback(bucket.index(), tensor.numel())
    work = _torch.coded_average(state.group, tensor, state.codec._pointer(), feedback)
    return work.get_future().then(_first)


def _first(future: torch.futures.Future) -> torch.Tensor:
    return future.value()[0]


__all__ = ["CodecState", "codec_hook", "register"]
