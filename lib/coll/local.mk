# SPDX-License-Identifier: BSD-3-Clause
libtt_la_SOURCES += \
	lib/coll/algs.c lib/coll/algs.def lib/coll/coll.c lib/coll/coll.h \
	lib/coll/costs.h lib/coll/costs.c lib/coll/costs_allreduce.c lib/coll/costs_node.c lib/coll/costs_hier.c \
	lib/coll/single.c lib/coll/allreduce_ring.c \
	lib/coll/allreduce_single_master.c lib/coll/allreduce_ps.c lib/coll/allreduce_radix.c \
	lib/coll/allreduce_recursive_doubling.c lib/coll/allreduce_halving_doubling.c \
	lib/coll/allreduce_dbt.c lib/coll/allreduce_circulant.c \
	lib/coll/allreduce_circulant_rsag.c \
	lib/coll/bcast_binomial.c lib/coll/bcast_chain.c lib/coll/barrier_dissemination.c \
	lib/coll/tree.c lib/coll/tree.h lib/coll/bcast_dbt.c lib/coll/bcast_scatter_allgather.c \
	lib/coll/reduce_linear.c lib/coll/reduce_binomial.c lib/coll/reduce_chain.c \
	lib/coll/reduce_dbt.c lib/coll/reduce_halving_gather.c \
	lib/coll/reduce_scatter.c lib/coll/reduce_scatter.h lib/coll/reduce_scatter_direct.c \
	lib/coll/reduce_scatter_ring.c lib/coll/reduce_scatter_halving.c \
	lib/coll/blocks.c lib/coll/blocks.h lib/coll/allgather_direct.c lib/coll/allgather_ring.c \
	lib/coll/allgather_bruck.c lib/coll/allgather_recursive_doubling.c \
	lib/coll/gather_linear.c lib/coll/scatter_linear.c lib/coll/gather_scatter_binomial.c \
	lib/coll/alltoall_pairwise.c lib/coll/alltoall_bruck.c \
	lib/coll/scan_chain.c lib/coll/scan_doubling.c \
	lib/coll/node.h lib/coll/allreduce_node.c lib/coll/barrier_node.c lib/coll/bcast_node.c \
	lib/coll/reduce_node.c lib/coll/reduce_scatter_node.c lib/coll/allgather_node.c \
	lib/coll/gather_scatter_node.c lib/coll/alltoall_node.c \
	lib/coll/hier.c lib/coll/hier.h lib/coll/allreduce_hier.c lib/coll/barrier_hier.c \
	lib/coll/bcast_hier.c lib/coll/reduce_hier.c lib/coll/allgather_hier.c lib/coll/reduce_scatter_hier.c \
	lib/coll/alltoall_hier.c lib/coll/gather_scatter_hier.c lib/coll/scan_hier.c
