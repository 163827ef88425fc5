# SPDX-License-Identifier: BSD-3-Clause
include tests/mp/run.mk
include tests/mp/examples.mk
include tests/mp/coll.mk
include tests/mp/train.mk
include tests/mp/gossip.mk
