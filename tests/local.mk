# SPDX-License-Identifier: BSD-3-Clause
# Shell tests find both trees by these.
AM_TESTS_ENVIRONMENT = TT_SRC='$(abs_top_srcdir)'; TT_BUILD='$(abs_top_builddir)'; \
	TUTTI_TUNE_FILE=none; export TT_SRC TT_BUILD TUTTI_TUNE_FILE;
TEST_EXTENSIONS = .sh
SH_LOG_COMPILER = $(SHELL)
EXTRA_DIST += tests/sh.inc

if HAVE_CUNIT
check_LTLIBRARIES += libtttest.la
libtttest_la_SOURCES = tests/test.c tests/test.h
libtttest_la_CFLAGS = $(AM_CFLAGS) $(CUNIT_CFLAGS)
libtttest_la_LIBADD = libtt_verify.la libtt_reference.la libtt.la $(TT_LIBS) $(CUNIT_LIBS)

include tests/unit/local.mk
include tests/plan/local.mk
include tests/conform/local.mk
include tests/mp/local.mk
include tests/diag/local.mk
include tests/fault/local.mk
include tests/vm/local.mk
endif
# Longer than a check may take: TT_TIMES as many random programs.
.PHONY: soak
soak:
	$(MAKE) check TESTS=
	TT_TIMES=$${TT_TIMES:-30} tests/mp/coll/test_random
	timeout 900 tests/mp/coll/test_big
	TT_SRC=$(abs_top_srcdir) TT_BUILD=$(abs_top_builddir) \
		sh $(srcdir)/tests/python/torch.sh large || [ $$? = 77 ]
	TT_TIMES=$${TT_TIMES:-50} tests/fault/test_strangers
	TT_TIMES=$${TT_TIMES:-10} tests/diag/test_mismatch
	TT_TIMES=$${TT_TIMES:-10} tests/diag/test_integrity
	TT_TIMES=$${TT_TIMES:-50} tests/fault/test_nth
	mkdir -p fuzz && cd fuzz && { [ -f Makefile ] || \
		$(abs_top_srcdir)/configure -q --disable-static --enable-fuzz CC=clang \
			CFLAGS="-g -O1"; }
	$(MAKE) -C fuzz fuzzers
	TT_SRC=$(abs_top_srcdir) TT_BUILD=$(abs_top_builddir)/fuzz \
		TT_FUZZ_RUNS=$${TT_FUZZ_RUNS:-10000000} TT_FUZZ_SECONDS=$${TT_FUZZ_SECONDS:-3600} \
		sh $(srcdir)/tests/fuzz/fuzz.sh
	TT_PIPELINE_AXES=$${TT_PIPELINE_AXES:-10000} tests/mp/train/test_pipeline axes
	TT_SECONDS=$${TT_SECONDS:-3600} TT_BUILD=$(abs_top_builddir) tests/mp/ps/test_ps_soak
	TT_READS=$${TT_READS:-1000000} tests/mp/ps/test_ps_versions mixed
	TT_POINTS=$${TT_POINTS:-1000} tests/fault/test_points
	TT_ONLY=verbs TT_POINTS=$${TT_VERBS_POINTS:-1000} sh $(srcdir)/tests/vm/guest.sh \
		-t 3500 -- tests/fault/test_points || [ $$? = 77 ]
	TT_MORE=1 TT_SRC=$(abs_top_srcdir) TT_BUILD=$(abs_top_builddir) \
		sh $(srcdir)/tests/vm/verbs.sh || [ $$? = 77 ]
	TT_TIMES=2 sh $(srcdir)/tests/vm/guest.sh -t 3500 -- \
		tests/fault/test_nth verbs verbs_cm verbs_files || [ $$? = 77 ]
	TT_GROWS=$${TT_GROWS:-300} tests/fault/test_grow storm
	TT_ABORTS=$${TT_ABORTS:-1000} TT_RESTARTS=$${TT_RESTARTS:-100} tests/fault/test_cut_off
	TT_SUBSETS=$${TT_SUBSETS:-8} tests/fault/test_subsets apart
	TT_FORKS=$${TT_FORKS:-1000} tests/fault/test_fork
	TT_LOSSY=$${TT_LOSSY:-60} TT_CUTS=$${TT_CUTS:-2} tests/fault/test_net
	TT_CYCLES=$${TT_CYCLES:-1000} timeout 3600 ./libtool --mode=execute valgrind -q \
		--error-exitcode=99 --leak-check=full --errors-for-leak-kinds=definite \
		--show-leak-kinds=definite tests/fault/test_cycle
	TT_SRC=$(abs_top_srcdir) sh $(srcdir)/perf/staleness
	TT_SRC=$(abs_top_srcdir) sh $(srcdir)/perf/predict || [ $$? = 77 ]
	TT_SRC=$(abs_top_srcdir) sh $(srcdir)/perf/servers scale split || [ $$? = 77 ]
	TT_SRC=$(abs_top_srcdir) sh $(srcdir)/perf/servers raw
	TT_BUILD=$(abs_top_builddir) sh $(srcdir)/perf/waiting -r 5

include tests/fuzz/local.mk
include tests/lint/local.mk
include tests/install/local.mk
include tests/python/local.mk
