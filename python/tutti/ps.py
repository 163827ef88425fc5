# SPDX-License-Identifier: BSD-3-Clause
"""The parameter server: servers keep tables, workers pull from and push to them."""

from __future__ import annotations

import ctypes as C
import os
import sys
from typing import Any, Callable, Optional, Sequence

from . import _abi
from ._abi import Combine, Datatype, Initial, Role, Rule
from ._library import Owned, check, encoded, function_of, guarded, in_use, lent, lib
from .buffers import Memory, Spec, memory
from .codec import Codec
from .communicator import Comm
from .errors import ArgumentError, Error
from .request import Request


def _update_callback(function: Callable[[memoryview, memoryview], None]) -> Any:
    def forward(value: int, update: int, count: int, datatype: int, _: Any) -> None:
        nbytes = count * lib.datatype_size(datatype)
        with lent(value, nbytes) as own, lent(update, nbytes) as change:
            if nbytes:
                function(own, change)
    function_of(function, "update")
    return _abi.update_fn(guarded(forward))


def _fill_callback(function: Callable[[memoryview, int], None]) -> Any:
    def forward(value: int, first: int, count: int, datatype: int, _: Any) -> None:
        nbytes = count * lib.datatype_size(datatype)
        with lent(value, nbytes) as own:
            if nbytes:
                function(own, first)
    function_of(function, "fill")
    return _abi.fill_fn(guarded(forward))


def _check_signed(keys: Memory) -> None:
    """Raise ArgumentError for a negative key."""
    values: Any = (C.c_int64 * keys.count).from_address(keys.address or 0)
    numpy = sys.modules.get("numpy")
    least = min(values) if numpy is None else numpy.frombuffer(values, "i8").min()
    if least < 0:
        raise ArgumentError(f"key {least} is negative; keys are 0 to 2**64 - 1: pass large ones as "
                            "unsigned integers")


class Table(Owned):
    """A table of a parameter server. pull and push: elements of a dense table, or rows by keys."""

    def __init__(self, server: ParameterServer, handle: C.c_void_p, datatype: Datatype,
                 width: int = 0, keep: Optional[list] = None) -> None:
        self.server = server
        self.datatype = datatype
        self.width = width
        self._handle = handle.value
        self._keep = keep or []

    def _pointer(self) -> int:
        self.server._pointer()
        assert self._handle is not None
        return self._handle

    def _check(self, code: int) -> None:
        self.server.comm._check(code)

    def set(self, values: Spec) -> None:
        """Set the first values of a dense table, by one worker."""
        data = memory(values, False)
        self._check(lib.ps_set(self._pointer(), data.address, data.count, data.datatype))

    def pull(self, values: Spec, offset: int = 0) -> None:
        """Read elements from offset on into values."""
        data = memory(values, True)
        self._check(lib.ps_pull(self._pointer(), data.address, offset, data.count, data.datatype))

    def push(self, update: Spec, offset: int = 0) -> None:
        """Change elements from offset on by update, with the table's rule."""
        data = memory(update, False)
        self._check(lib.ps_push(self._pointer(), data.address, offset, data.count, data.datatype))

    def push_pull(self, update: Spec, values: Spec, offset: int = 0) -> None:
        """Push update, then pull the same elements into values."""
        data, into = memory(update, False), memory(values, True)
        if data.count != into.count or data.datatype != into.datatype:
            raise ArgumentError(f"update has {data.count} elements, values {into.count}; pass "
                                "equal counts and datatypes")
        self._check(lib.ps_push_pull(self._pointer(), data.address, into.address, offset,
                                     data.count, data.datatype))

    def elastic(self, x: Spec, alpha: float, offset: int = 0) -> None:
        """Elastic averaging: d = alpha (x - value), x -= d and value += d, for each element."""
        data = memory(x, True)
        self._check(lib.ps_elastic(self._pointer(), data.address, offset, data.count,
                                   data.datatype, alpha))

    def ipull(self, values: Spec, offset: int = 0) -> Request:
        """As pull, nonblocking."""
        return self._begin(lib.ps_ipull, memory(values, True), offset)

    def ipush(self, update: Spec, offset: int = 0) -> Request:
        """As push, nonblocking."""
        return self._begin(lib.ps_ipush, memory(update, False), offset)

    def _begin(self, call: Any, data: Memory, offset: int) -> Request:
        pointer = self._pointer()
        return Request._begin(
            lambda at: call(pointer, data.address, offset, data.count, data.datatype, at),
            self.server.comm, [data])

    def _rows(self, keys: Any, rows: Spec, writable: bool) -> tuple[Any, int, Memory]:
        if isinstance(keys, (list, tuple, range)):
            array = _abi.array(C.c_uint64, keys)
            where: Any = memory([array, Datatype.UINT64], False)
        else:
            where = memory(keys, False)
        if where.datatype not in (Datatype.UINT64, Datatype.INT64):
            raise ArgumentError(f"keys are {where.datatype!r}; pass 64-bit integers")
        if where.datatype == Datatype.INT64 and where.count:
            _check_signed(where)
        data = memory(rows, writable)
        if data.count != where.count * self.width:
            raise ArgumentError(f"{where.count} keys of {self.width} elements need a buffer of "
                                f"{where.count * self.width}, not {data.count}")
        return where, where.count, data

    def pull_rows(self, keys: Sequence[int], rows: Spec) -> None:
        """Read the rows of these keys into rows."""
        where, n, data = self._rows(keys, rows, True)
        self._check(lib.ps_pull_rows(self._pointer(), where.address, n, data.address,
                                     data.datatype))

    def push_rows(self, keys: Sequence[int], rows: Spec) -> None:
        """Change the rows of these keys by rows."""
        where, n, data = self._rows(keys, rows, False)
        self._check(lib.ps_push_rows(self._pointer(), where.address, n, data.address,
                                     data.datatype))

    def ipull_rows(self, keys: Sequence[int], rows: Spec) -> Request:
        """As pull_rows, nonblocking."""
        return self._begin_rows(lib.ps_ipull_rows, self._rows(keys, rows, True))

    def ipush_rows(self, keys: Sequence[int], rows: Spec) -> Request:
        """As push_rows, nonblocking."""
        return self._begin_rows(lib.ps_ipush_rows, self._rows(keys, rows, False))

    def _begin_rows(self, call: Any, parts: tuple) -> Request:
        where, n, data = parts
        pointer = self._pointer()
        return Request._begin(
            lambda at: call(pointer, where.address, n, data.address, data.datatype, at),
            self.server.comm, [where, data])

    def push_version(self, values: Spec) -> int:
        """Make values the newest whole version of a table with versions; returns its number."""
        data, number = memory(values, False), C.c_uint64()
        self._check(lib.ps_push_version(self._pointer(), data.address, data.count, data.datatype,
                                        C.addressof(number)))
        return number.value

    def pull_version(self, values: Spec, version: int = 0) -> int:
        """Read the newest whole version unless it is `version`, which values has; its number."""
        data, number = memory(values, True), C.c_uint64(_abi.number(C.c_uint64, version))
        self._check(lib.ps_pull_version(self._pointer(), data.address, data.count, data.datatype,
                                        C.addressof(number)))
        return number.value

    def exact(self, on: bool = True) -> None:
        """Pulls of a table with publish read the values themselves, or the encoded copies."""
        self._check(lib.ps_exact(self._pointer(), int(on)))

    def flush(self) -> None:
        """Push what this worker holds back."""
        self._check(lib.ps_flush(self._pointer()))

    def last_read(self) -> dict[str, Any]:
        """The staleness of the last complete pull: struct tutti_ps_read."""
        read = _abi.PsRead()
        self._check(lib.ps_last_read(self._pointer(), C.addressof(read)))
        return read.as_dict()

    def held(self) -> dict[str, Any]:
        """The residuals of this worker's pushes: struct tutti_ps_held."""
        held = _abi.PsHeld()
        self._check(lib.ps_held(self._pointer(), C.addressof(held)))
        return held.as_dict()


class ParameterServer(Owned):
    """A parameter server of the ranks of a communicator. Collective.

    role: what this rank is. staleness: 0 is BSP, s at most s clocks apart, ASYNC no bound.
    """

    def __init__(self, comm: Comm, *, role: Role = Role.BOTH, staleness: int = 0, workers: int = 0,
                 servers: int = 0, copies: int = 0, weight: int = 0) -> None:
        config = _abi.PsConfig(role=role, workers=workers, servers=servers, staleness=staleness,
                               copies=copies, weight=weight)
        handle, pointer = C.c_void_p(), Comm._of(comm, "comm")
        check(lib.ps_open(pointer, C.addressof(config), C.addressof(handle)), pointer)
        self.comm = comm
        self.role = role
        self._handle: Optional[int] = handle.value
        self._tables: dict[bytes, Table] = {}
        # Of the parameter servers that were resized to this one: it calls their functions.
        self._earlier: list[Table] = []
        in_use.add(self)

    def _pointer(self) -> int:
        if self._handle is None or not self.comm.context.alive:
            raise Error("the parameter server has ended: it was closed, or its context finalized")
        return self._handle

    def _options(self, options: dict[str, Any], keep: list) -> Any:
        made = _abi.PsOptions()
        for name, value in options.items():
            if name == "update":
                value = _update_callback(value)
            elif name == "fill":
                value = _fill_callback(value)
            elif name in ("codec", "publish"):
                keep.append(value)
                value = value and Codec._of(value, name)
            if name in ("size", "arg") or name not in dict(_abi.PsOptions._fields_):
                raise ArgumentError(f"table option '{name}' is unknown; see tutti_ps_dense(3)")
            keep.append(value)
            setattr(made, name, value)
        return made

    def dense(self, name: str, count: int, datatype: Datatype = Datatype.FLOAT32,
              **options: Any) -> Table:
        """A table of count elements. options: fields of struct tutti_ps_options. Collective.

        rule, combine and init take Rule, Combine and Initial. update(value, update) and
        fill(value, first) get views of bytes, in the server's thread.
        """
        handle, keep = C.c_void_p(), []  # type: C.c_void_p, list
        made = self._options(options, keep)
        self.comm._check(lib.ps_dense(self._pointer(), encoded(name), count, datatype,
                                      C.addressof(made), C.addressof(handle)))
        return self._made(name, Table(self, handle, Datatype(datatype), keep=keep))

    def rows(self, name: str, width: int, rows: int, datatype: Datatype = Datatype.FLOAT32,
             **options: Any) -> Table:
        """A table of at most rows rows of width elements, found by 64-bit keys. Collective."""
        handle, keep = C.c_void_p(), []  # type: C.c_void_p, list
        made = self._options(options, keep)
        self.comm._check(lib.ps_rows(self._pointer(), encoded(name), width, rows, datatype,
                                     C.addressof(made), C.addressof(handle)))
        return self._made(name, Table(self, handle, Datatype(datatype), width, keep))

    def _made(self, name: str, table: Table) -> Table:
        self._tables[encoded(name)] = table
        return table

    def find(self, name: str, datatype: Optional[Datatype] = None,
             width: Optional[int] = None) -> Table:
        """The table of this name, made by dense or rows of this object. Local.

        datatype, width of rows: if given, they must be its.
        """
        check(lib.ps_find(self._pointer(), encoded(name), C.addressof(C.c_void_p())))
        table = self._tables.get(encoded(name))
        if table is None:
            raise ArgumentError(f"find: table '{name}' was made before a resize; call dense or "
                                "rows on this parameter server first")
        if datatype not in (None, table.datatype) or width not in (None, table.width):
            raise ArgumentError(f"table '{name}' is of {table.datatype!r} and width {table.width}, "
                                f"not {datatype!r} and {width}")
        return table

    def clock(self) -> None:
        """This worker's clock rises by one; wait for workers that are too far behind."""
        self.comm._check(lib.ps_clock(self._pointer()))

    def iclock(self) -> Request:
        """As clock, nonblocking."""
        pointer = self._pointer()
        return Request._begin(lambda at: lib.ps_iclock(pointer, at), self.comm, [])

    def clock_to(self, clock: int) -> None:
        """Set this worker's clock, which must not go back."""
        self.comm._check(lib.ps_clock_to(self._pointer(), clock))

    def server_bytes(self, index: int) -> int:
        """Bytes of values on a server."""
        nbytes = C.c_uint64()
        check(lib.ps_server_bytes(self._pointer(), index, C.addressof(nbytes)))
        return nbytes.value

    def save(self, path: str | os.PathLike) -> None:
        """Write a checkpoint. Collective over the workers."""
        self.comm._check(lib.ps_save(self._pointer(), encoded(path)))

    def restore(self, path: str | os.PathLike) -> None:
        """Read a checkpoint into existing tables. Collective over the workers."""
        self.comm._check(lib.ps_restore(self._pointer(), encoded(path)))

    @classmethod
    def join(cls, comm: Comm, *, role: Role = Role.BOTH, **config: int) -> ParameterServer:
        """As a new rank: the parameter server that other ranks of comm resize. Collective."""
        made = cls._resized(None, comm, role, config)
        assert made is not None
        return made

    def resize(self, comm: Comm, *, role: Role = Role.BOTH,
               **config: int) -> Optional[ParameterServer]:
        """Continue with the ranks of comm; None for a rank that leaves. Collective.

        Tables and clocks move. This object and its tables end: call dense or rows on the new one,
        with the same arguments.
        """
        made = self._resized(self._pointer(), comm, role, config)
        if made is not None:
            made._earlier = [*self._earlier, *self._tables.values()]
        self._ended()
        return made

    def _ended(self) -> None:
        self._handle = None
        in_use.discard(self)

    @classmethod
    def _resized(cls, old: Optional[int], comm: Comm, role: Role,
                 config: dict[str, int]) -> Optional[ParameterServer]:
        known = [name for name, _ in _abi.PsConfig._fields_[2:] if name != "pad"]
        for name in config:
            if name not in known:
                raise ArgumentError(f"resize has no option '{name}'; see tutti_ps_resize(3)")
        wanted, handle = _abi.PsConfig(role=role, **config), C.c_void_p()
        pointer = Comm._of(comm, "comm")
        check(lib.ps_resize(old, pointer, C.addressof(wanted), C.addressof(handle)), pointer)
        if not handle.value:
            return None
        made = cls.__new__(cls)
        made.comm, made.role, made._handle = comm, role, handle.value
        made._tables, made._earlier = {}, []
        in_use.add(made)
        return made

    def close(self) -> None:
        """End the parameter server when every live worker has come here. Collective."""
        code = lib.ps_close(self._pointer())
        if code >= 0:
            self._ended()
        self.comm._check(code)

    def __enter__(self) -> ParameterServer:
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if kind is None and self._handle is not None and self.comm.context.alive:
            self.close()


__all__ = ["Combine", "Initial", "ParameterServer", "Role", "Rule", "Table"]
