# SPDX-License-Identifier: BSD-3-Clause
"""Constants, structs and functions of libtutti, as ctypes declares them.

tests/python/test_abi.py compares all of this with the C headers. A struct with a size in front may
be shorter than in a newer header: the library takes missing fields as 0.
"""

from __future__ import annotations

import ctypes as C
from enum import IntEnum, IntFlag
from operator import index


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


class Late(IntEnum):
    """What a partial all-reduce does with a contribution that comes late."""

    CARRY = 0
    DROP = 1


class Divide(IntEnum):
    """The divisor of an average of a partial all-reduce."""

    BY_TAKING_PART = 0
    BY_SIZE = 1


class Weights(IntEnum):
    """How the edges of a graph get their weights."""

    GIVEN = 1
    METROPOLIS = 2
    IN = 3
    OUT = 4


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
    Late: "TUTTI_PARTIAL_",
    Divide: "TUTTI_PARTIAL_",
    Weights: "TUTTI_WEIGHTS_",
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
    "TUTTI_LAYOUT_BYTES": 1,
    "TUTTI_GRID_MAX": 8,
    "TUTTI_GRAPH_ROWS": 1,
    "TUTTI_GRAPH_COLUMNS": 2,
    "TUTTI_GRAPH_SYMMETRIC": 4,
    "TUTTI_PARTIAL_MAJORITY": -1,
    "TUTTI_PAIR_ANY": -1,
    "TUTTI_CODEC_FIXED": 1,
    "TUTTI_FACTORS_GATHER": 1,
    "TUTTI_FACTORS_DENSE": 2,
    "TUTTI_REDUCER_SUM": 1,
    "TUTTI_REDUCER_UNUSED": 2,
    "TUTTI_SHARDED_SUM": 1,
    "TUTTI_SHARDED_REDUCED": 2,
    "TUTTI_LOCAL_DELAYED": 1,
}
ANY_SOURCE = ANY_TAG = UNDEFINED = NEVER = NOTIFY_RANK = ASYNC = -1

log_fn = C.CFUNCTYPE(None, C.c_int, C.c_char_p, C.c_void_p)
allgather_fn = C.CFUNCTYPE(C.c_int, C.c_void_p, C.c_void_p, C.c_size_t, C.c_void_p)
op_fn = C.CFUNCTYPE(None, C.c_void_p, C.c_void_p, C.c_size_t, C.c_int, C.c_void_p)
update_fn = op_fn
fill_fn = C.CFUNCTYPE(None, C.c_void_p, C.c_uint64, C.c_size_t, C.c_int, C.c_void_p)
describe_fn = C.CFUNCTYPE(None, C.c_char_p, C.c_char_p, C.c_char_p, C.c_char_p, C.c_void_p)

bound_fn = C.CFUNCTYPE(C.c_size_t, C.c_size_t, C.c_void_p)
encode_fn = C.CFUNCTYPE(C.c_int, C.c_void_p, C.c_size_t, C.c_uint64, C.c_uint64, C.c_void_p,
                        C.POINTER(C.c_size_t), C.c_void_p)
decode_fn = C.CFUNCTYPE(C.c_int, C.c_void_p, C.c_size_t, C.c_uint64, C.c_void_p, C.c_size_t,
                        C.c_void_p)


def _integer(kind):
    """The type of an argument that refuses integers which kind would cut to its bits."""
    bits = C.sizeof(kind) * 8
    least = 0 if kind(-1).value > 0 else -1 << (bits - 1)
    most = least + (1 << bits) - 1

    class Integer(kind):
        """Made for argtypes alone."""

        @classmethod
        def from_param(cls, value):
            """What ctypes passes for value."""
            value = index(value)
            if not least <= value <= most:
                raise OverflowError(f"{value} is out of range; it must be from {least} to {most}")
            return kind(value)

    return Integer


def array(kind, values):
    """A C array of integers, each of which must fit."""
    return (kind * len(values))(*[number(kind, value) for value in values])


def number(kind, value):
    """value as an integer that fits kind."""
    value = index(value)
    if kind(value).value != value:
        raise OverflowError(f"{value} does not fit {C.sizeof(kind) * 8} bits "
                            f"{'without' if kind(-1).value > 0 else 'with'} a sign")
    return value


_set_field = C.Structure.__setattr__


class Struct(C.Structure):
    """A struct whose first field, if it is the size, is set; integers must fit their fields."""

    def __init__(self, *values, **fields):
        super().__init__(*values, **fields)
        if self._fields_[0][0] == "size" and type(self).SIZED:
            self.size = C.sizeof(self)

    def __setattr__(self, name, value):
        _set_field(self, name, value)
        # NumPy's integers are none of int. A pointer that is 0 reads as None.
        if value and getattr(self, name) != value and hasattr(value, "__index__"):
            raise OverflowError(f"{name}={value} does not fit its field")

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
    *_fields(_q, "cache_bytes late_sleeps pieces window_most"),
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
    "ps_config", ("size", _z),
    *_fields(_i, "role workers servers staleness copies weight backup pad"),
)
PsOptions = _struct(
    "ps_options", ("size", _z), *_fields(_i, "rule combine init"),
    *_fields(_d, "rate momentum beta1 beta2 epsilon weight_decay init_a init_b"),
    ("seed", _q), ("update", update_fn), ("fill", fill_fn), ("arg", _p), ("block", _z),
    *_fields(_i, "softsync staleness_aware essp n_fetch n_push threads"), ("budget", _d),
    ("codec", _p), ("significance", _d), ("flush", _i), ("publish", _p), ("versions", _i),
    ("priority", _i),
)
PsRead = _struct("ps_read", ("size", _z), *_fields(_q, "clock min_clock age version retries"),
                 ("tau", _d), ("dropped", _q))
PsHeld = _struct("ps_held", ("size", _z), *_fields(_q, "clock since elements"), ("sum", _d),
                 ("most", _d), *_fields(_q, "plain_bytes sent_bytes"))
PowerSgdConfig = _struct(
    "power_sgd_config", ("size", _z), ("n", _z), ("rows", _p), ("cols", _p), ("rank", _i),
    ("pad", _i), ("seed", _q),
)
Layout = _struct(
    "layout", ("size", _z), ("datatype", _i), ("flags", _u), ("count", _z), ("block", _z),
    ("stride", C.c_ssize_t), ("blocks", _p), ("displs", _p),
)
Edge = _struct("edge", ("from", _i), ("to", _i), ("weight", _d), sized=False)
GossipConfig = _struct(
    "gossip_config", ("size", _z), ("count", _z), *_fields(_i, "datatype nin nout"),
    *_fields(_p, "in out weights"),
)
GossipState = _struct(
    "gossip_state", ("size", _z),
    *_fields(_q, "posts sent skipped mixes mixed fresh empty torn bytes"),
    *_fields(_i, "dead_in dead_out"),
)
PairState = _struct("pair_state", ("size", _z), *_fields(_q, "averages waits broken bytes"))
PartialConfig = _struct(
    "partial_config", ("size", _z), *_fields(_i, "quorum cutoff_us late divide"),
)
PartialStats = _struct(
    "partial_stats", ("size", _z),
    *_fields(_q, "rounds calls late dropped skipped carried_bytes lost"),
    *_fields(_i, "decider living"),
)
CodecUser = _struct(
    "codec_user", ("size", _z), ("name", C.c_char_p), ("flags", _u), ("align", _z),
    ("bound", bound_fn), ("encode", encode_fn), ("decode", decode_fn), ("arg", _p),
)
# Of libtutti_train.
RuleConfig = _struct(
    "rule", ("size", _z), ("rule", _i), ("pad", _i),
    *_fields(_d, "rate momentum beta1 beta2 epsilon weight_decay"),
)
ReducerConfig = _struct(
    "reducer_config", ("size", _z), ("n", _z), ("counts", _p), ("gradients", _p),
    ("datatype", _i), ("flags", _u), ("first_bytes", _z), ("bucket_bytes", _z), ("codec", _p),
)
ReducerStats = _struct(
    "reducer_stats", ("size", _z),
    *_fields(_q, "steps accumulated buckets in_place bytes packed early exposed_ns"),
    *_fields(_q, "exposed_total_ns step_ns step_total_ns"),
)
ShardedConfig = _struct(
    "sharded_config", ("size", _z), ("n", _z), ("counts", _p), ("parameters", _p),
    ("datatype", _i), ("flags", _u), ("stage", _i), ("pad", _i), ("rule", C.POINTER(RuleConfig)),
    ("clip_norm", _d), ("bucket_bytes", _z), ("codec", _p),
)
ShardedMemory = _struct(
    "sharded_memory", ("size", _z), *_fields(_q, "state_bytes gradient_bytes buffer_bytes"),
)
LocalStepsConfig = _struct(
    "local_steps_config", ("size", _z), ("n", _z), ("counts", _p), ("parameters", _p),
    ("datatype", _i), ("flags", _u), ("every", _i), ("pad", _i), ("outer", C.POINTER(RuleConfig)),
    ("inner_rate", _d), ("codec", _p),
)

# Each function without its "tutti_": kinds of the result and of the arguments, by these letters.
KINDS = {
    "p": _p, "z": _z, "i": _i, "u": _u, "U": _q, "d": _d, "s": C.c_char_p, "v": None,
}
ARGUMENTS = {**KINDS, **{kind: _integer(KINDS[kind]) for kind in "ziuU"}}
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
    "win_set_priority": "i:pi",
    # parameter server
    "ps_open": "i:ppp", "ps_close": "i:p", "ps_resize": "i:pppp", "ps_dense": "i:ppzipp",
    "ps_rows": "i:ppzUipp", "ps_find": "i:ppp", "ps_server_bytes": "i:pip", "ps_set": "i:ppzi",
    "ps_pull": "i:ppzzi", "ps_push": "i:ppzzi", "ps_push_pull": "i:pppzzi", "ps_ipull": "i:ppzzip",
    "ps_ipush": "i:ppzzip", "ps_pull_rows": "i:ppzpi", "ps_push_rows": "i:ppzpi",
    "ps_ipull_rows": "i:ppzpip", "ps_ipush_rows": "i:ppzpip", "ps_clock": "i:p",
    "ps_iclock": "i:pp", "ps_clock_to": "i:pU", "ps_exact": "i:pi",
    "ps_push_version": "i:ppzip", "ps_pull_version": "i:ppzip",
    "ps_last_read": "i:pp", "ps_held": "i:pp",
    "ps_flush": "i:p", "ps_save": "i:pp", "ps_restore": "i:pp",
    # codecs
    "codec_create": "i:pp", "codec_free": "i:p", "codec_name": "s:p", "codec_chosen": "i:ppzp",
    "codec_bound": "z:pz", "codec_states": "i:p", "codec_encode": "i:ppzipUpp",
    "codec_decode": "i:ppzpzi", "codec_decode_add": "i:ppzpzi", "feedback_create": "i:ppzp",
    "feedback_free": "i:p", "feedback_reset": "i:p", "feedback_save": "i:ppz",
    "feedback_restore": "i:ppz", "power_sgd_create": "i:ppp", "power_sgd_free": "i:p",
    "power_sgd_allreduce": "i:ppip", "power_sgd_elements": "z:p", "power_sgd_save": "i:ppz",
    "power_sgd_restore": "i:ppzp", "codec_create_user": "i:pp",
    "allreduce_factors": "i:pppzzziup",
    # layouts
    "send_layout": "i:ppiip", "isend_layout": "i:ppiipp", "send_layout_init": "i:ppiipp",
    "ssend_layout": "i:ppiip", "issend_layout": "i:ppiipp", "ssend_layout_init": "i:ppiipp",
    "recv_layout": "i:ppiipp", "irecv_layout": "i:ppiippp", "recv_layout_init": "i:ppiippp",
    "mrecv_layout": "i:pppp", "imrecv_layout": "i:ppppp", "put_layout": "i:pippUp",
    "put_layout_notify": "i:pippUpi", "get_layout": "i:pippUp", "iput_layout": "i:pippUpp",
    "iget_layout": "i:pippUpp", "alltoallw": "i:ppppppppp", "ialltoallw": "i:pppppppppp",
    # more of windows
    "iput_notify": "i:pipzUp", "iput_notify_id": "i:pipzUip", "put_strided_notify": "i:pipUpi",
    "iput_strided": "i:pipUpp", "iget_strided": "i:pipUpp", "ifetch_add": "i:piUUpp",
    "icompare_swap": "i:piUUUpp", "wait_notify_any": "i:pipp", "test_notify_any": "i:pipp",
    "wait_notify_all": "i:pip", "test_notify_all": "i:pipp",
    # grids
    "grid_create": "i:pippp", "grid_free": "i:p", "grid_axis": "i:pp", "grid_size": "i:pi",
    "grid_comm": "i:pup", "grid_coords": "i:pip", "grid_rank": "i:pp",
    # graphs and neighbours
    "graph_ring": "i:ip", "graph_torus": "i:iip", "graph_star": "i:ip", "graph_complete": "i:ip",
    "graph_exponential": "i:ip", "graph_one_peer": "i:ip", "graph_regular": "i:iiUp",
    "graph_edges": "i:ipzip", "graph_free": "i:p", "graph_size": "i:p", "graph_period": "i:p",
    "graph_weight": "d:pUii", "graph_in": "i:pUipip", "graph_out": "i:pUipip",
    "graph_check": "i:pu", "graph_lambda2": "i:pp",
    "neighbor_allreduce": "i:ppzipUp", "ineighbor_allreduce": "i:ppzipUpp",
    "neighbor_allreduce_init": "i:ppzipUpp", "neighbor_allgather": "i:ppzipUp",
    "ineighbor_allgather": "i:ppzipUpp", "neighbor_allgather_init": "i:ppzipUpp",
    "neighbor_alltoall": "i:ppzipUp", "ineighbor_alltoall": "i:ppzipUpp",
    "neighbor_alltoall_init": "i:ppzipUpp", "neighbor_hier_allreduce": "i:ppzipUp",
    "ineighbor_hier_allreduce": "i:ppzipUpp", "neighbor_hier_allreduce_init": "i:ppzipUpp",
    "push_sum_create": "i:pzp", "push_sum_free": "i:p", "push_sum_add": "i:pp",
    "push_sum_step": "i:ppU", "push_sum_drain": "i:p", "push_sum_get": "i:ppp",
    "push_sum_missed": "U:p",
    # averaging that waits for no rank
    "gossip_create": "i:ppp", "gossip_post": "i:pp", "gossip_mix": "i:pp", "gossip_flush": "i:p",
    "gossip_versions": "i:pp", "gossip_state": "i:pp", "gossip_free": "i:p",
    "pair_create": "i:pzipp", "pair_average": "i:pip", "pair_lock": "i:pi", "pair_unlock": "i:p",
    "pair_state": "i:pp", "pair_free": "i:p", "elastic_average": "i:pppzidp",
    "partial_create": "i:pziipp", "partial_allreduce": "i:pppppp", "partial_drain": "i:ppppp",
    "partial_result": "i:pUpp", "partial_resync": "i:pp", "partial_stats_get": "i:pp",
    "partial_free": "i:p", "ps_elastic": "i:ppzzid",
}

# The same, of libtutti_train.
TRAIN_FUNCTIONS = {
    "train_version": "s:",
    "reducer_create": "i:ppp", "reducer_free": "i:p", "reducer_ready": "i:pz",
    "reducer_finish": "i:p", "reducer_accumulate": "i:pi", "reducer_unused": "i:pz",
    "reducer_stats": "i:pp", "reducer_bucket": "i:pzpp",
    "reducer_save": "i:ppz", "reducer_restore": "i:ppz",
    "sharded_create": "i:ppp", "sharded_free": "i:p", "sharded_ready": "i:pzp",
    "sharded_step": "i:pp", "sharded_wait": "i:pz", "sharded_memory": "i:pp",
    "sharded_save": "i:pp", "sharded_restore": "i:pp",
    "local_steps_create": "i:ppp", "local_steps_free": "i:p", "local_steps_step": "i:pp",
    "local_steps_finish": "i:p",
}
