# SPDX-License-Identifier: BSD-3-Clause
"""tutti moves and combines training data between the processes of a job.

    import numpy, tutti

    with tutti.init() as ctx:
        gradient = numpy.ones(1000, numpy.float32)
        ctx.world.Allreduce(tutti.IN_PLACE, gradient, op=tutti.AVG)

Start it with tutti_run -n 4 python3 program.py. Names are those of mpi4py where they mean the same.
doc/PYTHON.md is a tutorial.
"""

from ._abi import (
    ANY_SOURCE, ANY_TAG, ASYNC, NEVER, UNDEFINED, Combine, Datatype, ErrorCode, Initial,
    LogLevel, Op, Role, Rule,
)
from ._library import lib as _lib
from .buffers import IN_PLACE
from .codec import Codec, Feedback, PowerSGD, UserCodec, allreduce_factors
from .communicator import Comm, Failed
from .context import Context, Registered, describe, init, set_log, unique_id
from .errors import (
    AbortedError, ArgumentError, AuthError, BootError, BusyError, CanceledError, Error,
    MismatchError, PeerError, RevokedError, TimeoutError, TransportError, VersionError,
)
from .gossip import Divide, Gossip, Late, Pair, Partial, Rounds, elastic_average
from .graph import Graph, PushSum, Weights
from .grid import Grid
from .layout import Layout
from .messages import Message
from .ps import ParameterServer, Table
from .request import Request, Status, group
from .window import Win

__version__: str = _lib.version().decode()

INT8, UINT8, INT16, UINT16 = Datatype.INT8, Datatype.UINT8, Datatype.INT16, Datatype.UINT16
INT32, UINT32, INT64, UINT64 = Datatype.INT32, Datatype.UINT32, Datatype.INT64, Datatype.UINT64
BOOL, FLOAT16, BFLOAT16 = Datatype.BOOL, Datatype.FLOAT16, Datatype.BFLOAT16
FLOAT32, FLOAT64 = Datatype.FLOAT32, Datatype.FLOAT64
COMPLEX64, COMPLEX128 = Datatype.COMPLEX64, Datatype.COMPLEX128
INT32_INDEX, INT64_INDEX = Datatype.INT32_INDEX, Datatype.INT64_INDEX
FLOAT32_INDEX, FLOAT64_INDEX = Datatype.FLOAT32_INDEX, Datatype.FLOAT64_INDEX
SUM, PROD, MIN, MAX, AVG = Op.SUM, Op.PROD, Op.MIN, Op.MAX, Op.AVG
BAND, BOR, BXOR, LAND, LOR, LXOR = Op.BAND, Op.BOR, Op.BXOR, Op.LAND, Op.LOR, Op.LXOR
MINLOC, MAXLOC, REPLACE, NO_OP = Op.MINLOC, Op.MAXLOC, Op.REPLACE, Op.NO_OP

__all__ = [name for name in dir() if not name.startswith("_")]
