# SPDX-License-Identifier: BSD-3-Clause
# The programs people run, as they run them.
check_PROGRAMS += tests/mp/programs/perf_json
tests_mp_programs_perf_json_SOURCES = tests/mp/programs/perf_json.c
tests_mp_programs_perf_json_LDADD = $(JANSSON_LIBS)

EXTRA_DIST += tests/mp/programs/digits.inc
dist_check_SCRIPTS += tests/mp/programs/elastic.sh tests/mp/programs/digits.sh \
	tests/mp/programs/examples.sh tests/mp/programs/trained.sh tests/mp/programs/perf.sh \
	tests/mp/programs/tune.sh tests/mp/programs/mpi.sh tests/mp/programs/cluster.sh \
	tests/mp/programs/compare.sh tests/mp/programs/gpt.sh tests/mp/programs/rl.sh \
	tests/mp/programs/options.sh
TESTS += tests/mp/programs/elastic.sh tests/mp/programs/digits.sh tests/mp/programs/examples.sh \
	tests/mp/programs/trained.sh tests/mp/programs/perf.sh tests/mp/programs/tune.sh \
	tests/mp/programs/mpi.sh tests/mp/programs/cluster.sh tests/mp/programs/compare.sh \
	tests/mp/programs/gpt.sh tests/mp/programs/rl.sh tests/mp/programs/options.sh

# The libraries to preload under MPI programs; the programs are built by the tests.
EXTRA_DIST += tests/mp/programs/mpi_colls.c tests/mp/programs/mpi_moves.c \
	tests/mp/programs/mpi_others.c tests/mp/programs/mpi_reductions.c \
	tests/mp/programs/mpi_cases.h tests/mp/programs/mpi_fortran.f90 \
	tests/mp/programs/mpi4py_colls.py
dist_check_SCRIPTS += tests/mp/programs/preload.sh tests/mp/programs/preload_codes.sh
TESTS += tests/mp/programs/preload.sh tests/mp/programs/preload_codes.sh
