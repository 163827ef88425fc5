# SPDX-License-Identifier: BSD-3-Clause
dist_man_MANS += man/tutti_gossip_create.3 man/tutti_gossip_post.3 man/tutti_gossip_mix.3 \
	man/tutti_gossip_flush.3 man/tutti_gossip_versions.3 man/tutti_gossip_state.3 \
	man/tutti_gossip_free.3 \
	man/tutti_pair_create.3 man/tutti_pair_average.3 man/tutti_pair_lock.3 \
	man/tutti_pair_unlock.3 man/tutti_pair_state.3 man/tutti_pair_free.3 \
	man/tutti_elastic_average.3
