# SPDX-License-Identifier: BSD-3-Clause
# Fuzzers of everything that reads what others wrote. configure --enable-fuzz CC=clang links them
# with libFuzzer; elsewhere driver.c feeds them. tests/fuzz/corpus has inputs that reach most of
# the code.
TT_FUZZERS = tests/fuzz/fuzz_link tests/fuzz/fuzz_frames tests/fuzz/fuzz_ctl tests/fuzz/fuzz_wire \
	tests/fuzz/fuzz_ps tests/fuzz/fuzz_accumulate tests/fuzz/fuzz_env tests/fuzz/fuzz_hosts \
	tests/fuzz/fuzz_tune tests/fuzz/fuzz_codec tests/fuzz/fuzz_state
check_PROGRAMS += $(TT_FUZZERS)
dist_check_SCRIPTS += tests/fuzz/fuzz.sh
TESTS += tests/fuzz/fuzz.sh
EXTRA_DIST += tests/fuzz/corpus tests/fuzz/tune.dict tests/fuzz/driver.c tests/fuzz/fuzz.h

# Sources are NAME.c where nothing else is said.
if FUZZ
TT_FUZZ_LIBS = @TT_FUZZER@ libtt.la $(TT_LIBS)
else
check_LTLIBRARIES += libttfuzz.la
libttfuzz_la_SOURCES = tests/fuzz/driver.c tests/fuzz/fuzz.h
TT_FUZZ_LIBS = libttfuzz.la libtt.la $(TT_LIBS)
endif
tests_fuzz_fuzz_link_LDADD = $(TT_FUZZ_LIBS)
tests_fuzz_fuzz_frames_LDADD = $(TT_FUZZ_LIBS)
tests_fuzz_fuzz_ctl_LDADD = $(TT_FUZZ_LIBS)
tests_fuzz_fuzz_wire_LDADD = $(TT_FUZZ_LIBS)
tests_fuzz_fuzz_ps_LDADD = $(TT_FUZZ_LIBS)
tests_fuzz_fuzz_accumulate_LDADD = $(TT_FUZZ_LIBS)
tests_fuzz_fuzz_env_LDADD = $(TT_FUZZ_LIBS)
tests_fuzz_fuzz_tune_LDADD = $(TT_FUZZ_LIBS)
tests_fuzz_fuzz_codec_LDADD = libtt_reference.la $(TT_FUZZ_LIBS)
tests_fuzz_fuzz_state_LDADD = libtt_train.la $(TT_FUZZ_LIBS)
tests_fuzz_fuzz_hosts_LDADD = $(TT_FUZZ_LIBS)
tests_fuzz_fuzz_hosts_SOURCES = tests/fuzz/fuzz_hosts.c tools/run/hosts.c tools/run/frame.c \
	tools/run/run.h

# For tests/ci.sh and soak, which build them apart.
.PHONY: fuzzers
fuzzers: $(TT_FUZZERS)
