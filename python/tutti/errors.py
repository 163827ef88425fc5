# SPDX-License-Identifier: BSD-3-Clause
"""Exceptions. Each failed call raises an Error, or the class below that fits its code."""

from __future__ import annotations

import errno

from ._abi import ErrorCode


class Error(Exception):
    """A call has failed.

    code: the negative code. rank, host: the rank of the world that the error is about, -1 and ""
    if none is. reason: one sentence. call, sequence: which call of the communicator. field: the
    argument that differs. phase, bytes_received: how far the call had come.
    """

    def __init__(self, reason: str, *, code: int = -errno.EINVAL, rank: int = -1, host: str = "",
                 call: str = "", sequence: int = 0, field: str = "", phase: str = "",
                 bytes_received: int = 0) -> None:
        super().__init__(reason)
        self.reason = reason
        self.code = code
        self.rank = rank
        self.host = host
        self.call = call
        self.sequence = sequence
        self.field = field
        self.phase = phase
        self.bytes_received = bytes_received

    def Get_error_code(self) -> int:
        """The negative code."""
        return self.code

    def Get_error_string(self) -> str:
        """The reason."""
        return self.reason


class PeerError(Error):
    """A rank of the job died or became unreachable: see rank and host."""


class MismatchError(Error):
    """Ranks called different collectives, or with different arguments: see field."""


class AbortedError(Error):
    """The communicator or the job was aborted."""


class AuthError(Error):
    """A peer could not prove that it belongs to the job."""


class VersionError(Error):
    """Ranks run incompatible versions of the library."""


class TransportError(Error):
    """No usable transport, or a transport failed."""


class BootError(Error):
    """The ranks could not find each other at start."""


class RevokedError(Error):
    """The communicator was revoked."""


class TimeoutError(Error, TimeoutError):  # pylint: disable=redefined-builtin
    """The deadline of the call has passed."""


class CanceledError(Error):
    """The operation was canceled."""


class BusyError(Error):
    """Something is still in use: a request, a window, or memory of the library."""


class ArgumentError(Error, ValueError):
    """An argument is wrong."""


_CLASSES = {
    ErrorCode.PEER: PeerError,
    ErrorCode.MISMATCH: MismatchError,
    ErrorCode.ABORTED: AbortedError,
    ErrorCode.AUTH: AuthError,
    ErrorCode.VERSION: VersionError,
    ErrorCode.TRANSPORT: TransportError,
    ErrorCode.BOOT: BootError,
    ErrorCode.REVOKED: RevokedError,
    errno.ETIMEDOUT: TimeoutError,
    errno.ECANCELED: CanceledError,
    errno.EBUSY: BusyError,
    errno.EINVAL: ArgumentError,
}


def error_class(code: int) -> type[Error]:
    """The class for a negative code."""
    return _CLASSES.get(-code, Error)
