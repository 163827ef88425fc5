# SPDX-License-Identifier: BSD-3-Clause
"""Constants, structs and functions of libtutti, as ctypes declares them.

tests/python/test_abi.py compares all of this with the C headers. A struct with a size in front may
be shorter than in a newer header: the library takes missing fields as 0.
"""

from __future__ import annotations

import ctypes as C
from enum import IntEnum, IntFlag


class ErrorCode(IntEnum):
    """Codes beyond errno, without their minus sign."""

    PEER = 4097
    MISMATCH = 4098
    ABORTED = 4099
    AUTH = 4100
    VERSION = 4101
    TRANSPORT = 4102
    BOOT = 4103
    REVOKED = 4104


class Datatype(IntEnum):
    """Types of elements."""

    INT8 = 0
    UINT8 = 1
    INT16 = 2
    UINT16 = 3
    INT32 = 4
    UINT32 = 5
    INT64 = 6
    UINT64 = 7
    BOOL = 8
    FLOAT16 = 9
    BFLOAT16 = 10
    FLOAT32 = 11
    FLOAT64 = 12
    COMPLEX64 = 13
    COMPLEX128 = 14
    INT32_INDEX = 15
    INT64_INDEX = 16
    FLOAT32_INDEX = 17
    FLOAT64_INDEX = 18


class Op(IntEnum):
    """Operators of reductions; REPLACE and NO_OP are for accumulates only."""

    SUM = 0
    PROD = 1
    MIN = 2
    MAX = 3
    AVG = 4
    BAND = 5
    BOR = 6
    BXOR = 7
    LAND = 8
    LOR = 9
    LXOR = 10
    MINLOC = 11
    MAXLOC = 12
    REPLACE = 0x7FFFFFFE
    NO_OP = 0x7FFFFFFD


class Coll(IntEnum):
    """The collectives."""

    ALLREDUCE = 1
    BCAST = 2
    BARRIER = 3
    REDUCE = 4
    REDUCE_SCATTER_BLOCK = 5
    REDUCE_SCATTER = 6
    ALLGATHER = 7
    ALLGATHERV = 8
    GATHER = 9
    GATHERV = 10
    SCATTER = 11
    SCATTERV = 12
    ALLTOALL = 13
    ALLTOALLV = 14
    SCAN = 15
    EXSCAN = 16


class Role(IntFlag):
    """What a rank is in a parameter server."""

    WORKER = 1
    SERVER = 2
    BOTH = 3
    LEAVE = 4


class Rule(IntEnum):
    """How a push changes a value."""

    SUM = 0
    ASSIGN = 1
    SGD = 2
    MOMENTUM = 3
    NESTEROV = 4
    ADAGRAD = 5
    RMSPROP = 6
    ADAM = 7
    ADAMW = 8
    CALLBACK = 9


class Combine(IntEnum):
    """How the pushes of all workers within a clock are applied."""

    EACH = 0
    SUM = 1
    MEAN = 2


class Initial(IntEnum):
    """Values before the first push."""

    UNSET = 0
    ZERO = 1
    CONSTANT = 2
    UNIFORM = 3
    NORMAL = 4
    FILL = 5


class LogLevel(IntEnum):
    """How much the log says."""

    DEFAULT = 0
    ERROR = 1
    WARN = 2
    INFO = 3
    DEBUG = 4
    TRACE = 5
    NONE = 6


# Python name of an enum: prefix of its members in C.
ENUM_PREFIXES = {
    ErrorCode: "TUTTI_E",
    Datatype: "TUTTI_",
    Op: "TUTTI_",
    Coll: "TUTTI_COLL_",
    Role: "TUTTI_PS_",
    Rule: "TUTTI_PS_",
    Combine: "TUTTI_PS_COMBINE_",
    Initial: "TUTTI_PS_",
    LogLevel: "TUTTI_LOG_",
}

IN_PLACE_ADDRESS = C.c_void_p(-1).value
CONSTANTS = {
    "TUTTI_ANY_SOURCE": -1,
    "TUTTI_ANY_TAG": -1,
    "TUTTI_TAG_MAX": 0x7FFFFFFF,
    "TUTTI_UNDEFINED": -1,
    "TUTTI_NEVER": -1,
    "TUTTI_COMM_NAME_MAX": 47,
    "TUTTI_COMM_TOLERANT": 1,
    "TUTTI_CALL_PERSISTENT": 1,
    "TUTTI_NOTIFY_IDS": 256,
    "TUTTI_NOTIFY_RANK": -1,
    "TUTTI_WIN_READ_ONLY": 1,
    "TUTTI_WIN_ACCUMULATE": 2,
    "TUTTI_PS_ASYNC": -1,
    "TUTTI_PS_EACH": 0,
    "TUTTI_OPAQUE_FLAG": 1 << 28,
}
ANY_SOURCE = ANY_TAG = UNDEFINED = NEVER = NOTIFY_RANK = ASYNC = -1

log_fn = C.CFUNCTYPE(None, C.c_int, C.c_char_p, C.c_void_p)
allgather_fn = C.CFUNCTYPE(C.c_int, C.c_void_p, C.c_void_p, C.c_size_t, C.c_void_p)
op_fn = C.CFUNCTYPE(None, C.c_void_p, C.c_void_p, C.c_size_t, C.c_int, C.c_void_p)
update_fn = op_fn
fill_fn = C.CFUNCTYPE(None, C.c_void_p, C.c_uint64, C.c_size_t, C.c_int, C.c_void_p)
describe_fn = C.CFUNCTYPE(None, C.c_char_p, C.c_char_p, C.c_char_p, C.c_char_p, C.c_void_p)


class Struct(C.Structure):
    """A struct whose first field, if it is the size, is set."""

    def __init__(self, **fields):
        super().__init__(**fields)
        if self._fields_[0][0] == "size" and type(self).SIZED:
            self.size = C.sizeof(self)

    SIZED = True

    def as_dict(self) -> dict:
        """The fields but the size, text decoded."""
        values = {}
        for name, *_ in self._fields_:
            value = getattr(self, name)
            if name not in ("size", "reserved", "pad"):
                values[name] = value.decode() if isinstance(value, bytes) else value
        return values


def _struct(name: str, *fields: tuple, sized: bool = True) -> type:
    members = {"_fields_": list(fields), "SIZED": sized, "__doc__": f"struct tutti_{name}"}
    made = type(name, (Struct,), members)
    STRUCTS[name] = made
    return made


def _fields(kind, names: str) -> list:
    return [(name, kind) for name in names.split()]


STRUCTS: dict = {}
_i, _u, _z, _p, _q, _d = C.c_int, C.c_uint, C.c_size_t, C.c_void_p, C.c_uint64, C.c_double

UniqueId = _struct("unique_id", ("bytes", C.c_ubyte * 192), sized=False)
ErrorInfo = _struct(
    "error_info", ("size", _z), ("code", _i), ("rank", _i), ("host", C.c_char * 64),
    ("call", C.c_char * 32), ("sequence", _q), ("field", C.c_char * 32), ("text", C.c_char * 512),
    ("phase", C.c_char * 48), ("bytes", _q),
)
Config = _struct(
    "config", ("size", _z), ("nranks", _i), ("rank", _i), ("id", C.POINTER(UniqueId)),
    ("allgather", allgather_fn), ("allgather_arg", _p), ("transport", C.c_char_p),
    ("timeout_ms", _i), ("progress_thread", _i), ("log", log_fn), ("log_arg", _p),
    ("log_level", _i), ("tolerant", _i), ("options", C.POINTER(C.c_char_p)),
)
CommConfig = _struct(
    "comm_config", ("size", _z), ("color", _i), ("key", _i), ("flags", _u), ("name", C.c_char_p),
    ("nranks", _i), ("ranks", C.POINTER(_i)), ("first", _i), ("stride", _i), ("tag", _i),
)
Failed = _struct(
    "failed", ("rank", _i), ("world_rank", _i), ("host", C.c_char * 64), ("reason", C.c_char * 160),
    ("reserved", C.c_char * 24), sized=False,
)
CommState = _struct(
    "comm_state", ("size", _z), ("code", _i), ("coll_code", _i), ("flags", _u), ("failed", _i),
    ("unacked", _i), ("requests", _i), ("windows", _i), ("calls", _q), ("pending", _i),
)
Stats = _struct(
    "stats", ("size", _z),
    *_fields(_q, "copied_bytes put_bytes got_bytes pulled_bytes reduced_bytes eager_messages"),
    *_fields(_q, "put_messages control_messages parked_messages registrations allocations"),
    *_fields(_q, "connections sleeps cache_hits cache_misses cache_evictions cache_stale"),
    *_fields(_q, "cache_bytes late_sleeps"),
)
Call = _struct(
    "call", ("size", _z), ("coll", _i), ("flags", _u), ("sendbuf", _p), ("recvbuf", _p),
    ("count", _z), *_fields(_p, "sendcounts senddispls recvcounts recvdispls"),
    *_fields(_i, "datatype op root timeout_ms priority quorum cutoff_ms pad"),
    ("codec", _p), ("feedback", _p),
)
Status = _struct(
    "status", ("source", _i), ("tag", _i), ("bytes", _z), ("datatype", _i), ("reserved", _i * 3),
    sized=False,
)
Strides = _struct(
    "strides", ("size", _z), ("block", _z), ("count", _z), ("local_stride", C.c_ssize_t),
    ("stride", C.c_ssize_t),
)
PsConfig = _struct(
    "ps_config", ("size", _z), *_fields(_i, "role workers servers staleness copies weight backup pad"),
)
PsOptions = _struct(
    "ps_options", ("size", _z), *_fields(_i, "rule combine init"),
    *_fields(_d, "rate momentum beta1 beta2 epsilon weight_decay init_a init_b"),
    ("seed", _q), ("update", update_fn), ("fill", fill_fn), ("arg", _p), ("block", _z),
    *_fields(_i, "softsync staleness_aware essp n_fetch n_push threads"), ("budget", _d),
    ("codec", _p), ("significance", _d), ("flush", _i), ("publish", _p),
)
PsRead = _struct("ps_read", ("size", _z), *_fields(_q, "clock min_clock age version retries"),
                 ("tau", _d), ("dropped", _q))
PsHeld = _struct("ps_held", ("size", _z), *_fields(_q, "clock since elements"), ("sum", _d),
                 ("most", _d), *_fields(_q, "plain_bytes sent_bytes"))
PowerSgdConfig = _struct(
    "power_sgd_config", ("size", _z), ("n", _z), ("rows", _p), ("cols", _p), ("rank", _i),
    ("pad", _i), ("seed", _q),
)

# Each function without its "tutti_": kinds of the result and of the arguments, by these letters.
KINDS = {
    "p": _p, "z": _z, "i": _i, "u": _u, "U": _q, "d": _d, "s": C.c_char_p, "v": None,
}
FUNCTIONS = {
    # errors, log, version
    "strerror": "s:i", "last_error": "i:p", "version": "s:", "version_num": "i:",
    "set_log": "v:ppi", "describe": "i:pp",
    # contexts
    "unique_id_get": "i:p", "init": "i:pp", "finalize": "i:p", "world": "p:p", "self": "p:p",
    "stats_get": "i:pp", "alloc": "i:pzp", "free": "i:p", "register": "i:ppzp", "deregister": "i:p",
    # communicators
    "comm_rank": "i:p", "comm_size": "i:p", "comm_world_rank": "i:pi",
    "comm_translate_ranks": "i:pippp", "comm_set_timeout": "i:pi", "comm_dup": "i:pp",
    "comm_create": "i:ppp", "comm_split": "i:piip", "comm_idup": "i:ppp", "comm_isplit": "i:piipp",
    "comm_create_group": "i:ppp", "comm_split_host": "i:pip", "comm_free": "i:p",
    "comm_abort": "i:pi", "comm_failed": "i:ppip", "comm_ack_failed": "i:ppi",
    "comm_set_name": "i:pp", "comm_get_name": "i:ppz", "comm_state": "i:pp", "comm_revoke": "i:p",
    "comm_shrink": "i:pp", "comm_grow": "i:piip", "comm_error": "i:pp", "comm_agree": "i:pip",
    # requests
    "start": "i:p", "startall": "i:ip", "test": "i:pp", "wait": "i:p",
    "request_get_status": "i:pp", "waitall": "i:ip", "testall": "i:ipp", "waitany": "i:ipp",
    "testany": "i:ippp", "waitsome": "i:ipppp", "testsome": "i:ipppp", "cancel": "i:p",
    "request_set_timeout": "i:pi", "request_free": "i:p",
    # collectives
    "datatype_size": "z:i", "call": "i:ppp", "op_create": "i:pppip",
    "op_create_premul_sum": "i:ppip", "reduce_local": "i:pppzii", "op_free": "i:pi",
    "group_start": "i:", "group_end": "i:",
    # messages
    "send": "i:pziiip", "isend": "i:pziiipp", "send_init": "i:pziiipp", "ssend": "i:pziiip",
    "issend": "i:pziiipp", "ssend_init": "i:pziiipp", "recv": "i:pziiipp", "irecv": "i:pziiippp",
    "recv_init": "i:pziiippp", "sendrecv": "i:pziiipziiipp", "probe": "i:iipp",
    "iprobe": "i:iippp", "mprobe": "i:iippp", "improbe": "i:iipppp", "mrecv": "i:pzipp",
    "imrecv": "i:pzippp",
    # windows
    "win_create": "i:ppzup", "win_allocate": "i:pzupp", "win_allocate_shared": "i:pzupp",
    "win_shared_query": "i:pipp", "win_free": "i:p", "put": "i:pipzU", "put_notify": "i:pipzU",
    "put_notify_id": "i:pipzUi", "wait_notify": "i:piU", "test_notify": "i:piUp",
    "wait_notify_id": "i:piU", "test_notify_id": "i:piUp", "get": "i:pipzU",
    "put_strided": "i:pipUp", "get_strided": "i:pipUp", "accumulate": "i:pipziiU",
    "get_accumulate": "i:pippziiU", "fetch_add": "i:piUUp", "compare_swap": "i:piUUUp",
    "iput": "i:pipzUp", "iget": "i:pipzUp", "iaccumulate": "i:pipziiUp",
    "iget_accumulate": "i:pippziiUp", "win_flush": "i:pi", "win_flush_all": "i:p",
    "win_iflush": "i:pip", "win_iflush_all": "i:pp",
    # parameter server
    "ps_open": "i:ppp", "ps_close": "i:p", "ps_resize": "i:pppp", "ps_dense": "i:ppzipp",
    "ps_rows": "i:ppzUipp", "ps_find": "i:ppp", "ps_server_bytes": "i:pip", "ps_set": "i:ppzi",
    "ps_pull": "i:ppzzi", "ps_push": "i:ppzzi", "ps_push_pull": "i:pppzzi", "ps_ipull": "i:ppzzip",
    "ps_ipush": "i:ppzzip", "ps_pull_rows": "i:ppzpi", "ps_push_rows": "i:ppzpi",
    "ps_ipull_rows": "i:ppzpip", "ps_ipush_rows": "i:ppzpip", "ps_clock": "i:p",
    "ps_iclock": "i:pp", "ps_clock_to": "i:pU", "ps_exact": "i:pi",
    "ps_last_read": "i:pp", "ps_held": "i:pp",
    "ps_flush": "i:p", "ps_save": "i:pp", "ps_restore": "i:pp",
    # codecs
    "codec_create": "i:pp", "codec_free": "i:p", "codec_name": "s:p", "codec_chosen": "i:ppzp",
    "codec_bound": "z:pz", "codec_states": "i:p", "codec_encode": "i:ppzipUpp",
    "codec_decode": "i:ppzpzi", "codec_decode_add": "i:ppzpzi", "feedback_create": "i:ppzp",
    "feedback_free": "i:p", "feedback_reset": "i:p", "feedback_save": "i:ppz",
    "feedback_restore": "i:ppz", "power_sgd_create": "i:ppp", "power_sgd_free": "i:p",
    "power_sgd_allreduce": "i:ppip", "power_sgd_elements": "z:p", "power_sgd_save": "i:ppz",
    "power_sgd_restore": "i:ppzp",
}
