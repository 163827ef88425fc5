# SPDX-License-Identifier: BSD-3-Clause
# One program and one .mk file a module.
include tests/unit/env.mk
include tests/unit/lock.mk
include tests/unit/copy.mk
include tests/unit/spawn.mk
include tests/unit/no_memory.mk
include tests/unit/mem.mk
include tests/unit/boot.mk
include tests/unit/ps.mk
include tests/unit/node.mk
include tests/unit/reduce.mk
include tests/unit/graph.mk
include tests/unit/codec.mk
include tests/unit/topo.mk
include tests/unit/stores.mk
include tests/unit/bind.mk
include tests/unit/wire.mk
include tests/unit/fault.mk
include tests/unit/ofi.mk
include tests/unit/rails.mk
include tests/unit/perf.mk
