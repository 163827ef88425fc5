# SPDX-License-Identifier: BSD-3-Clause
"""Every public call of C has a form in Python, or is listed here with the reason why not."""

import os
import re
from pathlib import Path

from tutti import _abi

SRC = Path(os.environ["TT_SRC"])

# Calls of C without a form in Python.
LEFT_OUT = {
    "comm_context": "Comm.context is the object itself",
    "comm_perror": "prints to standard error; exceptions carry the text, Comm.error returns it",
    "datatype_name": "members of tutti.Datatype have names",
    "set_last_error": "for libraries written in C; Python raises exceptions",
    "comm_set_owner": "for libraries written in C",
    "rule_states": "for libraries written in C; tutti.train and tables apply rules",
    "rule_apply": "for libraries written in C; tutti.train and tables apply rules",
    "pipeline_create": "its work is in callbacks of a stage, which Python would serialize",
    "pipeline_free": "as pipeline_create",
    "pipeline_steps": "as pipeline_create",
    "pipeline_count": "as pipeline_create",
    "pipeline_attach": "as pipeline_create",
    "pipeline_run": "as pipeline_create",
}


def public(name):
    """The functions that a map exports, without "tutti_"."""
    text = re.sub(r"/\*.*?\*/", "", (SRC / name).read_text(), flags=re.S)
    return set(re.findall(r"\btutti_(\w+);", text))


def by_struct():
    """Collectives that go through tutti_call."""
    names = {coll.name.lower() for coll in _abi.Coll}
    return names | {"i" + name for name in names} | {name + "_init" for name in names}


def used():
    """Names of functions in the package's source."""
    text = "\n".join(path.read_text() for path in (SRC / "python/tutti").glob("*.py")
                     if path.name != "_abi.py")
    names = set(re.findall(r"\b(?:lib|_lib|library|train|self)\.(\w+)", text))
    return names | set(re.findall(r"\"(i?neighbor_\w+)\"", text))


def test_every_call():
    """Declared, or made by tutti_call, or left out for a reason: exactly one of these."""
    calls = public("libtutti.map") | public("libtutti_train.map")
    assert len(calls) > 200
    declared = set(_abi.FUNCTIONS) | set(_abi.TRAIN_FUNCTIONS)
    missing = calls - declared - by_struct() - set(LEFT_OUT)
    assert not missing, f"no form in Python: {sorted(missing)}"
    assert not declared - calls, f"not public in C: {sorted(declared - calls)}"
    assert not set(LEFT_OUT) - calls, f"left out, but not public: {sorted(set(LEFT_OUT) - calls)}"
    assert not set(LEFT_OUT) & declared, f"not left out: {sorted(set(LEFT_OUT) & declared)}"


def test_declared_calls_are_used():
    """A declaration that no code uses is no form in Python."""
    unused = (set(_abi.FUNCTIONS) | set(_abi.TRAIN_FUNCTIONS)) - used()
    assert not unused, f"declared, but not used: {sorted(unused)}"
