# SPDX-License-Identifier: BSD-3-Clause
"""Buffers: datatypes, counts, no copies, refusals."""

import array
import gc
import os

import numpy as np
import pytest

import tutti
from tutti.buffers import datatype_of, memory

NUMPY = {
    "int8": tutti.INT8, "uint8": tutti.UINT8, "int16": tutti.INT16, "uint16": tutti.UINT16,
    "int32": tutti.INT32, "uint32": tutti.UINT32, "int64": tutti.INT64, "uint64": tutti.UINT64,
    "bool": tutti.BOOL, "float16": tutti.FLOAT16, "float32": tutti.FLOAT32,
    "float64": tutti.FLOAT64, "complex64": tutti.COMPLEX64, "complex128": tutti.COMPLEX128,
}


@pytest.mark.parametrize("dtype", NUMPY)
def test_numpy(dtype):
    """A NumPy array is described as it is, at its own address."""
    values = np.zeros((3, 4), dtype)
    found = memory(values, True)
    assert found.datatype == NUMPY[dtype] and found.count == 12
    assert found.address == values.ctypes.data


def test_pairs():
    """Structured arrays of a value and an index."""
    for value, index, datatype in (("i4", "i4", tutti.INT32_INDEX), ("f4", "i4",
                                   tutti.FLOAT32_INDEX), ("i8", "i8", tutti.INT64_INDEX),
                                   ("f8", "i8", tutti.FLOAT64_INDEX)):
        found = memory(np.zeros(5, [("value", value), ("index", index)]), True)
        assert (found.datatype, found.count) == (datatype, 5)


def test_other_buffers():
    """bytes, bytearray, array.array and memoryview."""
    assert memory(b"12345", False).count == 5
    assert memory(bytearray(6), True).datatype == tutti.UINT8
    assert memory(array.array("d", [1, 2]), True).datatype == tutti.FLOAT64
    assert memory(memoryview(array.array("i", [1, 2, 3]))[1:], True).count == 2
    assert memory(array.array("l", [1]), True).datatype == tutti.INT64


def test_lists():
    """[buffer, datatype], with counts and displacements."""
    words = np.zeros(10, np.uint16)
    assert memory([words, tutti.BFLOAT16], True).datatype == tutti.BFLOAT16
    assert memory([words, 4, tutti.BFLOAT16], True).count == 4
    assert memory([words, 7], True).count == 7
    found = memory([words, [1, 2], [3, 8]], True)
    assert (found.counts, found.displs) == ([1, 2], [3, 8])
    found = memory([words, ([4, 6], None), tutti.UINT16], True)
    assert (found.counts, found.displs) == ([4, 6], None)
    found = memory([words, ([4, 6], [0, 4])], True)
    assert (found.counts, found.displs) == ([4, 6], [0, 4])


@pytest.mark.parametrize("spec,text", [
    (np.zeros((4, 4))[:, 1], "contiguous"),
    ([np.zeros(3), 4], "count 4 does not fit a buffer of 3"),
    ([np.zeros(3), -1], "count -1"),
    ([np.zeros(3), [2, 2]], "block 1 (displacement 2, count 2)"),
    ([np.zeros(3), [1, 1], [0]], "2 counts, but 1 displacements"),
    ([np.zeros(3), [1, 1], [0, -1]], "displacement -1"),
    ([bytearray(7), tutti.FLOAT32], "no whole number of FLOAT32"),
    ([np.zeros(3), 1, 2, 3], "not understood"),
    ([], "empty list"),
    (np.zeros(3, ">f4"), "format"),
    (np.zeros(3, "U4"), "format"),
    (np.zeros(3, [("a", "f4"), ("b", "f4")]), "format"),
    (17, "type int"),
    ("text", "type str"),
])
def test_refused(spec, text):
    """Each refusal says why, and is an ArgumentError and a ValueError."""
    with pytest.raises(tutti.ArgumentError, match="") as caught:
        memory(spec, True)
    assert text in str(caught.value)
    assert isinstance(caught.value, ValueError) and caught.value.code == -22


def test_read_only():
    """Memory that cannot be written is sent, not received into."""
    values = np.zeros(3)
    values.flags.writeable = False
    assert memory(values, False).count == 3
    for spec in (values, b"abc"):
        with pytest.raises(tutti.ArgumentError, match="can be written"):
            memory(spec, True)


def test_formats():
    """Formats with an order of bytes; unknown ones."""
    assert datatype_of("<f", 4) == tutti.FLOAT32
    assert datatype_of("=q", 8) == tutti.INT64
    for form in (">i", "w", "T{f:a:f:b:}", "", "ii"):
        with pytest.raises(tutti.ArgumentError):
            datatype_of(form, 4)


def test_pinned():
    """A buffer that a running request uses cannot be resized, and lives although forgotten."""
    with tutti.init(nranks=1, rank=0) if "TUTTI_RANK" not in os.environ else _none() as ctx:
        if ctx is None:
            pytest.skip("in a job")
        data = bytearray(8)
        request = ctx.world.Irecv(data, 0, 5)
        with pytest.raises(BufferError):
            data.extend(b"more")
        del request
        gc.collect()
        with pytest.raises(BufferError):
            data.extend(b"more")
        ctx.world.Send(b"12345678", 0, 5)
        running = list(tutti.request._running)
        running[0].Wait()
        data.extend(b"more")
        assert data == b"12345678more" and not tutti.request._running


class _none:
    def __enter__(self):
        return None

    def __exit__(self, *exc):
        return None
