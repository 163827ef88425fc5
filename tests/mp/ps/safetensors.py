# SPDX-License-Identifier: BSD-3-Clause
# Reads a safetensors file by nothing but the format's description: what is in it, and the sum of
# each tensor.
import json
import struct
import sys

CODE = {
    "I8": "b", "U8": "B", "I32": "i", "U32": "I",
    "I64": "q", "U64": "Q", "F32": "f", "F64": "d",
}

with open(sys.argv[1], "rb") as f:
    data = f.read()
length = struct.unpack("<Q", data[:8])[0]
header = json.loads(data[8:8 + length])
body = data[8 + length:]
meta = header.pop("__metadata__")
assert all(isinstance(v, str) for v in meta.values())
at = 0
for name, t in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
    begin, end = t["data_offsets"]
    count = 1
    for n in t["shape"]:
        count *= n
    code = CODE[t["dtype"]]
    assert begin == at, "a hole before " + name
    assert end - begin == count * struct.calcsize(code), "length of " + name
    at = end
    values = struct.unpack("<%d%s" % (count, code), body[begin:end])
    print(name, t["dtype"], "x".join(map(str, t["shape"])), sum(values))
assert at == len(body), "bytes behind the last tensor"
print("clocks", meta["clocks"], "min", meta["min_clock"], "version", meta["tutti_ps"])
