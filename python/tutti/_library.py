# SPDX-License-Identifier: BSD-3-Clause
"""Finds and loads libtutti, and turns its codes into exceptions."""

from __future__ import annotations

import ctypes as C
import gc
import os
import weakref
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Callable, Iterator, Optional, TypeVar

from . import _abi
from .errors import ArgumentError, Error, error_class

SONAME = "libtutti.so.0"
TRAIN_SONAME = "libtutti_train.so.0"
# Major and minor version that the structs of _abi are from.
VERSION = (0, 1)
INTEGERS = set("ziuU")


def _open(soname: str) -> C.CDLL:
    # lib/python3.x/site-packages/tutti is installed beside lib/libtutti.so.0.
    beside = Path(__file__).resolve().parents[3:4]
    tried = [str(folder / soname) for folder in beside if (folder / soname).exists()] + [soname]
    reason = ""
    for name in tried:
        try:
            return C.CDLL(name)
        except OSError as error:
            reason = str(error)
    raise ImportError(
        f"loading tutti: {reason}; install {soname.split('.', maxsplit=1)[0]}, or set "
        "LD_LIBRARY_PATH to its folder"
    )


def _refusing(function: Any, name: str) -> Callable:
    """function, with tutti's exception for an argument that it cannot take."""

    def call(*arguments: Any) -> Any:
        try:
            return function(*arguments)
        except C.ArgumentError as error:
            reason = str(error).split(": ", 2)
            raise ArgumentError(f"{name}: {reason[-1]}") from None

    return call


def _declare(library: C.CDLL, declarations: dict) -> dict:
    functions = {}
    for name, kinds in declarations.items():
        function = getattr(library, "tutti_" + name)
        result, arguments = kinds.split(":")
        function.restype = _abi.KINDS[result]
        function.argtypes = [_abi.ARGUMENTS[kind] for kind in arguments]
        functions[name] = _refusing(function, name) if set(arguments) & INTEGERS else function
    return functions


class Library:
    """The functions of libtutti by their names without "tutti_"; they return what C returns."""

    def __init__(self) -> None:
        self.__dict__.update(_declare(_open(SONAME), _abi.FUNCTIONS))
        number = self.version_num()
        if (number // 10000, number // 100 % 100) != VERSION:
            raise ImportError(
                f"loading tutti: libtutti is version {self.version().decode()}, this package is "
                f"for {VERSION[0]}.{VERSION[1]}; install both from one release"
            )

    def __getattr__(self, name: str):
        raise AttributeError(name)


class TrainLibrary:
    """The functions of libtutti_train, which is loaded at the first use."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        self.__dict__.update(_declare(_open(TRAIN_SONAME), _abi.TRAIN_FUNCTIONS))
        if name not in self.__dict__:
            raise AttributeError(name)
        return self.__dict__[name]


lib = Library()
train = TrainLibrary()


def instance(value: Any, kind: type, name: str) -> Any:
    """The argument, which must be of this class."""
    if not isinstance(value, kind):
        given = "None" if value is None else f"of type {type(value).__name__}"
        raise ArgumentError(f"{name} is {given}; pass a tutti.{kind.__name__}")
    return value


class Owned:
    """An object that refers to something of the library: it has no copies."""

    def _pointer(self) -> Any:
        raise NotImplementedError

    @classmethod
    def _of(cls, value: Any, name: str) -> Any:
        """The pointer of an argument, which must be of this class."""
        return instance(value, cls, name)._pointer()

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise TypeError(f"a tutti.{type(self).__name__} can neither be copied nor pickled: it "
                        "belongs to this process")


_Scoped = TypeVar("_Scoped", bound="Scoped")


class Scoped(Owned):
    """An object that the end of a with block frees."""

    def Free(self) -> None:
        """Free it."""
        raise NotImplementedError

    def __enter__(self: _Scoped) -> _Scoped:
        return self

    def __exit__(self, kind: Any, error: Optional[BaseException], trace: Any) -> None:
        try:
            self.Free()
        except Error as refused:
            # An exception that leaves the block is not replaced.
            if error is None:
                raise
            if hasattr(error, "add_note"):
                error.add_note(f"at the end of the with block: {refused}")


# Objects with memory or functions of the program that the library uses until they are freed,
# although the program may have forgotten them.
in_use: set = set()


# Where functions of the library are found.
function_tables: list = [lib.__dict__, train.__dict__]


def refuse_forked() -> None:
    """In a forked child of a process with a context: all calls but those on texts fail."""
    def refused(*_: Any) -> Any:
        raise Error("this process is a fork of a rank, and only the rank itself may use tutti; "
                    "start processes that use tutti with another method than fork")

    for table in function_tables:
        for name in table:
            if name not in ("strerror", "version", "version_num", "datatype_size"):
                table[name] = refused
    lib.__dict__["free"] = lambda address: 0  # called when views end; the memory is the rank's
    train.__dict__.update({name: refused for name in _abi.TRAIN_FUNCTIONS})


def error_of(code: int, comm: int | None = None) -> Exception:
    """The exception for a negative code, with the details that the library has."""
    info = _abi.ErrorInfo()
    found = lib.last_error(C.addressof(info)) == 0 and info.code == code
    if not found and comm is not None:
        found = lib.comm_error(comm, C.addressof(info)) == 0 and info.code == code
    if not found:
        info = _abi.ErrorInfo(code=code, rank=-1, text=lib.strerror(code))
    return error_from(info)


def error_from(info: _abi.ErrorInfo) -> Exception:
    """The exception that has these details."""
    return error_class(info.code)(
        info.text.decode(errors="replace"), code=info.code, rank=info.rank,
        host=info.host.decode(errors="replace"), call=info.call.decode(), sequence=info.sequence,
        field=info.field.decode(), phase=info.phase.decode(), bytes_received=info.bytes,
    )


# What functions of the program raised while the library called them, for the next call to tell.
_raised: list = []


def function_of(value: Any, name: str) -> Callable:
    """The argument, which must be a function."""
    if not callable(value):
        raise ArgumentError(f"{name} is {value!r:.60}; pass a function")
    return value


def guarded(function: Callable) -> Callable:
    """function for the library to call, which cannot take an exception."""

    def call(*arguments: Any) -> None:
        try:
            function(*arguments)
        except BaseException as error:  # pylint: disable=broad-except
            _raised.append(error)

    return call


@contextmanager
def lent(address: Optional[int], nbytes: int, form: str = "B") -> Iterator[memoryview]:
    """Memory of the library for a function of the program, until the function returns."""
    if not nbytes or not address:
        yield memoryview(bytearray())
        return
    array = (C.c_ubyte * nbytes).from_address(address)
    alive, view = weakref.ref(array), memoryview(array).cast("B").cast(form)
    del array
    yield view
    with suppress(BufferError):  # it has users: array, too
        view.release()
    if alive() is not None:
        gc.collect()
    if alive() is not None:
        raise Error("a function keeps memory that was lent to it for one call; keep a copy")


def check(code: int, comm: int | None = None) -> None:
    """Raise the exception of a negative code, or of a function that the library called."""
    if code < 0:
        raise error_of(code, comm)
    if _raised:
        error = _raised[0]
        _raised.clear()
        raise Error(f"a function that tutti called raised {error!r}; the values that it was to "
                    "change are undefined") from error


def encoded(text: str | os.PathLike) -> bytes:
    """Text for a char pointer; a NUL inside would end it early."""
    value = os.fsencode(text)
    if b"\0" in value:
        raise ValueError(f"{text!r}: a NUL is inside the text; remove it")
    return value
