# SPDX-License-Identifier: BSD-3-Clause
dist_man_MANS += man/tutti_decentralized.7 \
	man/tutti_graph_ring.3 man/tutti_graph_torus.3 man/tutti_graph_star.3 \
	man/tutti_graph_complete.3 man/tutti_graph_exponential.3 man/tutti_graph_one_peer.3 \
	man/tutti_graph_regular.3 man/tutti_graph_edges.3 man/tutti_graph_free.3 \
	man/tutti_graph_size.3 man/tutti_graph_period.3 man/tutti_graph_weight.3 \
	man/tutti_graph_in.3 man/tutti_graph_out.3 man/tutti_graph_check.3 \
	man/tutti_graph_lambda2.3 \
	man/tutti_neighbor_allreduce.3 man/tutti_ineighbor_allreduce.3 \
	man/tutti_neighbor_allreduce_init.3 man/tutti_neighbor_allgather.3 \
	man/tutti_ineighbor_allgather.3 man/tutti_neighbor_allgather_init.3 \
	man/tutti_neighbor_alltoall.3 man/tutti_ineighbor_alltoall.3 \
	man/tutti_neighbor_alltoall_init.3 \
	man/tutti_push_sum_create.3 man/tutti_push_sum_free.3 man/tutti_push_sum_add.3 \
	man/tutti_push_sum_step.3 man/tutti_push_sum_drain.3 man/tutti_push_sum_get.3 \
	man/tutti_push_sum_missed.3 \
	man/tutti_neighbor_hier_allreduce.3 man/tutti_ineighbor_hier_allreduce.3 \
	man/tutti_neighbor_hier_allreduce_init.3
