# SPDX-License-Identifier: BSD-3-Clause
libtt_la_SOURCES += \
	lib/coll/algs.c lib/coll/algs.def \
	lib/coll/single.c lib/coll/allreduce_ring.c \
	lib/coll/allreduce_single_master.c lib/coll/allreduce_ps.c lib/coll/allreduce_radix.c \
	lib/coll/allreduce_recursive_doubling.c lib/coll/allreduce_halving_doubling.c \
	lib/coll/allreduce_dbt.c lib/coll/allreduce_circulant.c \
	lib/coll/allreduce_circulant_rsag.c \
	lib/coll/bcast_binomial.c lib/coll/bcast_chain.c lib/coll/barrier_dissemination.c
