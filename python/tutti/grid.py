# SPDX-License-Identifier: BSD-3-Clause
"""Process grids: the ranks of a communicator along several axes, such as data x tensor."""

from __future__ import annotations

import ctypes as C
from operator import index
from typing import Optional, Sequence, Union

from . import _abi
from ._library import check, encoded, lib
from .codec import _Handle
from .communicator import Comm
from .errors import ArgumentError

Axis = Union[int, str]


class Grid(_Handle):
    """The ranks of a communicator as a grid, the last axis innermost. Collective.

        grid = Grid(world, [0, 2], ["data", "tensor"])  # 0: as many as are left
        grid.comm("data").Allreduce(...)
    """

    def __init__(self, comm: Comm, dims: Sequence[int],
                 names: Optional[Sequence[str]] = None) -> None:
        if names is not None and len(names) != len(dims):
            raise ArgumentError(f"{len(names)} names for {len(dims)} axes")
        sizes, handle = _abi.array(C.c_int, dims), C.c_void_p()
        texts = None if names is None else (C.c_char_p * len(names))(*map(encoded, names))
        check(lib.grid_create(Comm._of(comm, "comm"), len(dims), sizes, texts, C.addressof(handle)),
              comm._pointer())
        super().__init__(handle, lib.grid_free)
        self.ndim = len(dims)
        self._context = comm.context

    def axis(self, name: Axis) -> int:
        """The number of the axis of that name."""
        if not isinstance(name, (str, bytes)):
            return index(name)
        number = lib.grid_axis(self._pointer(), encoded(name))
        check(number)
        return number

    def size(self, axis: Axis) -> int:
        """The number of ranks along an axis."""
        found = lib.grid_size(self._pointer(), self.axis(axis))
        check(found)
        return found

    @property
    def dims(self) -> list[int]:
        """The number of ranks along each axis."""
        return [self.size(axis) for axis in range(self.ndim)]

    def comm(self, *axes: Axis) -> Comm:
        """The communicator of all ranks that differ in these axes alone; none: in all axes.

        The grid owns it. The first call for a set of some axes is collective.
        """
        numbers = [self.axis(axis) for axis in axes] if axes else range(self.ndim)
        for number in numbers:
            if not 0 <= number < self.ndim:
                raise ArgumentError(f"axis {number} of a grid of {self.ndim} axes")
        handle = C.c_void_p()
        check(lib.grid_comm(self._pointer(), sum(1 << number for number in set(numbers)),
                            C.addressof(handle)))
        return Comm(self._context, handle, owned=False)

    def coords(self, rank: Optional[int] = None) -> list[int]:
        """The coordinates of a rank of the communicator of all axes; None: of this rank."""
        found = (C.c_int * _abi.CONSTANTS["TUTTI_GRID_MAX"])()
        check(lib.grid_coords(self._pointer(), _abi.UNDEFINED if rank is None else rank, found))
        return list(found[:self.ndim])

    def rank(self, coords: Sequence[int]) -> int:
        """The rank at these coordinates, in the communicator of all axes."""
        if len(coords) != self.ndim:
            raise ArgumentError(f"{len(coords)} coordinates in a grid of {self.ndim} axes")
        found = lib.grid_rank(self._pointer(), _abi.array(C.c_int, coords))
        check(found)
        return found


__all__ = ["Grid"]
