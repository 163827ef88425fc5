# SPDX-License-Identifier: BSD-3-Clause
"""Structs, constants and functions of tutti._abi against the C headers, by a compiled program."""

import ctypes as C
import os
import re
import shlex
import subprocess

import pytest

from tutti import _abi
from tutti._library import lib

SRC = os.environ["TT_SRC"]
COMPILER = shlex.split(os.environ.get("CC", "cc"))
INCLUDE = ["-I" + os.path.join(SRC, "include")]
HEADERS = "#include <tutti/train.h>\n#include <tutti/extend.h>\n"


def c_lines():
    """Lines of a C program that prints "NAME VALUE", and the values that Python has."""
    lines, expected = [], {}

    def add(name, expression, value):
        lines.append(f'printf("{name} %lld\\n", (long long)({expression}));')
        expected[name] = int(value)

    for name, struct in _abi.STRUCTS.items():
        add(f"sizeof.{name}", f"sizeof(struct tutti_{name})", C.sizeof(struct))
        for field, *_ in struct._fields_:
            at = getattr(struct, field)
            add(f"{name}.{field}", f"offsetof(struct tutti_{name}, {field})", at.offset)
            add(f"{name}.{field}.size", f"sizeof(((struct tutti_{name} *)0)->{field})", at.size)
    for enum, prefix in _abi.ENUM_PREFIXES.items():
        for member in enum.__members__.values():
            c_name = prefix + member.name
            if enum is _abi.Combine and member.name == "EACH":
                c_name = "TUTTI_PS_EACH"
            add(c_name, c_name, member.value)
    for name, value in _abi.CONSTANTS.items():
        add(name, name, value)
    add("TUTTI_IN_PLACE", "(unsigned long)TUTTI_IN_PLACE", _abi.IN_PLACE_ADDRESS - 2**64)
    return lines, expected


@pytest.fixture(scope="module")
def printed(tmp_path_factory):
    """What the C program prints."""
    folder = tmp_path_factory.mktemp("abi")
    source, program = folder / "abi.c", folder / "abi"
    body = "\n".join(c_lines()[0])
    source.write_text("#include <stdio.h>\n#include <stddef.h>\n#include <tutti/train.h>\n"
                      "#include <tutti/extend.h>\n"
                      f"int main(void)\n{{\n{body}\nreturn 0;\n}}\n")
    subprocess.run([*COMPILER, *INCLUDE, "-o", str(program), str(source)], check=True)
    out = subprocess.run([str(program)], check=True, capture_output=True, text=True).stdout
    return dict(line.rsplit(" ", 1) for line in out.splitlines())


def test_layouts_and_values(printed):
    """Every offset, size and value; a struct with a size in front may have grown in C."""
    wrong = []
    for name, value in c_lines()[1].items():
        real = int(printed[name])
        kind, _, struct = name.partition(".")
        grown = kind == "sizeof" and _abi.STRUCTS[struct].SIZED and real > value
        if real != value and not grown:
            wrong.append(f"{name}: C has {real}, Python {value}")
    assert not wrong, "\n".join(wrong)
    assert len(printed) > 300


def test_sized():
    """A struct has a size exactly if its first field is one."""
    for struct in _abi.STRUCTS.values():
        assert (struct._fields_[0][0] == "size") == struct.SIZED
        assert not struct.SIZED or struct().size == C.sizeof(struct)


def declarations():
    """Result and arguments of each function in the headers."""
    text = subprocess.run([*COMPILER, "-E", "-P", *INCLUDE, "-xc", "-"], check=True, text=True,
                          capture_output=True, input=HEADERS).stdout
    text = re.sub(r"typedef [^;]*;", "", text)
    found = re.findall(r"([\w *]+?[ *])tutti_(\w+)\s*\(([^()]*)\);", text)
    return {name: (result, arguments) for result, name, arguments in found}


def kind_of(text):
    """The letter of _abi.KINDS for a C type."""
    if "*" in text or "[" in text or "_fn" in text:
        return "p"
    for word, kind in (("size_t", "z"), ("uint64_t", "U"), ("unsigned", "u"), ("double", "d"),
                       ("enum", "i"), ("int", "i"), ("void", "v")):
        if re.search(rf"\b{word}\b", text):
            return kind
    raise AssertionError(text)


@pytest.mark.parametrize("name", sorted({**_abi.FUNCTIONS, **_abi.TRAIN_FUNCTIONS}))
def test_function(name):
    """Kinds of the result and of the arguments."""
    result, arguments = declarations_once()[name]
    mine_result, mine = {**_abi.FUNCTIONS, **_abi.TRAIN_FUNCTIONS}[name].split(":")
    wanted = kind_of(result)
    assert mine_result == ("s" if wanted == "p" and "char" in result else wanted)
    theirs = [] if arguments.strip() == "void" else arguments.split(",")
    assert mine == "".join(kind_of(one) for one in theirs)


_declarations = {}


def declarations_once():
    """The declarations, read once."""
    if not _declarations:
        _declarations.update(declarations())
    return _declarations


def test_datatype_sizes():
    """Sizes that buffers uses are those of the library."""
    from tutti.buffers import SIZES

    assert set(SIZES) == set(_abi.Datatype)
    for datatype, size in SIZES.items():
        assert lib.datatype_size(datatype) == size
