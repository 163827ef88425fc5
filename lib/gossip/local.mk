# SPDX-License-Identifier: BSD-3-Clause
libtt_la_SOURCES += lib/gossip/gossip.h lib/gossip/elastic.c \
	lib/gossip/gossip_base.c lib/gossip/gossip_make.c lib/gossip/gossip_mix.c \
	lib/gossip/gossip_post.c lib/gossip/pair_average.c lib/gossip/pair_lock.c
