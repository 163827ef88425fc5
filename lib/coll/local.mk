# SPDX-License-Identifier: BSD-3-Clause
libtt_la_SOURCES += \
	lib/coll/algs.c lib/coll/algs.def lib/coll/blocks.c lib/coll/blocks.h lib/coll/coll.c \
	lib/coll/coll.h lib/coll/costs/costs.c lib/coll/costs/costs.h \
	lib/coll/costs/costs_allreduce.c lib/coll/costs/costs_hier.c lib/coll/costs/costs_node.c \
	lib/coll/hier/allgather_hier.c lib/coll/hier/allreduce_hier.c \
	lib/coll/hier/allreduce_hier_codec.c lib/coll/hier/neighbor_allreduce_hier.c \
	lib/coll/hier/alltoall_hier.c lib/coll/hier/barrier_hier.c lib/coll/hier/bcast_hier.c \
	lib/coll/hier/gather_scatter_hier.c lib/coll/hier/hier.c lib/coll/hier/hier.h \
	lib/coll/hier/reduce_hier.c lib/coll/hier/reduce_scatter_hier.c lib/coll/hier/scan_hier.c \
	lib/coll/node/allgather_node.c lib/coll/node/allreduce_node.c \
	lib/coll/node/alltoall_node.c lib/coll/node/alltoallv_node.c \
	lib/coll/node/barrier_node.c lib/coll/node/bcast_node.c \
	lib/coll/node/coll_node.h lib/coll/node/gather_scatter_node.c \
	lib/coll/node/gatherv_scatterv_node.c lib/coll/node/node_shares.c \
	lib/coll/node/reduce_node.c lib/coll/node/reduce_scatter_node.c lib/coll/node/scan_node.c \
	lib/coll/p2p/allgather_bruck.c lib/coll/p2p/allgather_direct.c \
	lib/coll/p2p/allgather_recursive_doubling.c lib/coll/p2p/allgather_ring.c \
	lib/coll/p2p/allreduce_codec_direct.c lib/coll/p2p/allreduce_codec_gather.c \
	lib/coll/p2p/allreduce_codec_merge.c lib/coll/p2p/allreduce_codec_dense.c \
	lib/coll/p2p/allreduce_codec_lists.c lib/coll/p2p/codec_lists.h \
	lib/coll/p2p/allreduce_circulant.c lib/coll/p2p/allreduce_circulant_rsag.c \
	lib/coll/p2p/allreduce_dbt.c lib/coll/p2p/allreduce_halving_doubling.c \
	lib/coll/p2p/allreduce_ps.c lib/coll/p2p/allreduce_radix.c \
	lib/coll/p2p/allreduce_recursive_doubling.c lib/coll/p2p/allreduce_ring.c \
	lib/coll/p2p/allreduce_single_master.c lib/coll/p2p/alltoall_bruck.c \
	lib/coll/p2p/alltoall_pairwise.c lib/coll/p2p/barrier_dissemination.c \
	lib/coll/p2p/bcast_binomial.c lib/coll/p2p/bcast_chain.c lib/coll/p2p/bcast_dbt.c \
	lib/coll/p2p/neighbors.c lib/coll/p2p/neighbors.h \
	lib/coll/p2p/neighbors_hier.c lib/coll/p2p/bcast_scatter_allgather.c \
	lib/coll/p2p/binary_tree.c \
	lib/coll/p2p/binary_tree.h lib/coll/p2p/gather_scatter_linear.c \
	lib/coll/p2p/gather_scatter_binomial.c lib/coll/p2p/reduce_binomial.c \
	lib/coll/p2p/reduce_chain.c lib/coll/p2p/reduce_dbt.c lib/coll/p2p/reduce_halving_gather.c \
	lib/coll/p2p/reduce_linear.c lib/coll/p2p/reduce_scatter.c lib/coll/p2p/reduce_scatter.h \
	lib/coll/p2p/reduce_scatter_direct.c lib/coll/p2p/reduce_scatter_halving.c \
	lib/coll/p2p/reduce_scatter_ring.c lib/coll/p2p/scan_chain.c lib/coll/p2p/scan_doubling.c \
	lib/coll/single_rank.c
