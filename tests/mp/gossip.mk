# SPDX-License-Identifier: BSD-3-Clause
# Averaging without a centre.
TT_GOSSIP_TESTS = tests/mp/gossip/test_pair tests/mp/gossip/test_gossip \
	tests/mp/gossip/test_elastic
check_PROGRAMS += $(TT_GOSSIP_TESTS)
TESTS += $(TT_GOSSIP_TESTS)
dist_check_SCRIPTS += tests/mp/programs/decentralized.sh
TESTS += tests/mp/programs/decentralized.sh
tests_mp_gossip_test_pair_SOURCES = tests/mp/gossip/test_pair.c
tests_mp_gossip_test_pair_LDADD = libttmp.la
tests_mp_gossip_test_gossip_SOURCES = tests/mp/gossip/test_gossip.c
tests_mp_gossip_test_gossip_LDADD = libttmp.la
tests_mp_gossip_test_elastic_SOURCES = tests/mp/gossip/test_elastic.c
tests_mp_gossip_test_elastic_LDADD = libttmp.la -lm
