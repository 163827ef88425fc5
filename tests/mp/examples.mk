# SPDX-License-Identifier: BSD-3-Clause
# The programs people run, as they run them.
check_PROGRAMS += tests/mp/perf_json
tests_mp_perf_json_SOURCES = tests/mp/perf_json.c
tests_mp_perf_json_LDADD = $(JANSSON_LIBS)

EXTRA_DIST += tests/mp/digits.inc
dist_check_SCRIPTS += tests/mp/elastic.sh tests/mp/digits.sh tests/mp/examples.sh tests/mp/trained.sh tests/mp/perf.sh tests/mp/tune.sh tests/mp/mpi.sh tests/mp/cluster.sh
TESTS += tests/mp/elastic.sh tests/mp/digits.sh tests/mp/examples.sh tests/mp/trained.sh tests/mp/perf.sh tests/mp/tune.sh tests/mp/mpi.sh tests/mp/cluster.sh
