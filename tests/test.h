/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Used by every test program: CUnit, run from a table, with skips and with ranks as processes. A
 * program exits 0, 1, or 77 when every one of its tests was skipped.
 */
#ifndef TT_TEST_H
#define TT_TEST_H

#include <CUnit/CUnit.h>
#include <stdbool.h>

struct tt_test {
	const char *name;
	void (*fn)(void);
};

/*
 * Runs the tests (those named on the command line, else all; -l lists them) and prints
 * "ok|FAIL|skip suite.name (ms)" for each and a closing line that the harness counts.
 * The table ends with a NULL name.
 */
int tt_test_main(const char *suite, const struct tt_test *tests, int argc, char **argv);

/* Leave the current test as skipped, saying why. */
void tt_skip(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
#define TT_SKIP(...)                                                                               \
	do {                                                                                       \
		tt_skip(__VA_ARGS__);                                                              \
		return;                                                                            \
	} while (0)

#define TT_CHECK(cond) CU_ASSERT(cond)
/* Evaluates cond once, as it often is the call under test. */
#define TT_REQUIRE(cond)                                                                           \
	do {                                                                                       \
		bool tt_holds = (cond);                                                            \
                                                                                                   \
		CU_assertImplementation(tt_holds, __LINE__, #cond, __FILE__, "", CU_FALSE);        \
		if (!tt_holds)                                                                     \
			return;                                                                    \
	} while (0)

/* In the body of a rank (a child process): print and return failure. */
#define TT_EXPECT(cond)                                                                            \
	do {                                                                                       \
		if (!(cond)) {                                                                     \
			tt_expect_failed(#cond, __FILE__, __LINE__);                               \
			return 1;                                                                  \
		}                                                                                  \
	} while (0)
void tt_expect_failed(const char *cond, const char *file, int line);

/*
 * Run fn as n forked processes, rank 0..n-1; each exits with fn's return value (0: fine). Processes
 * still alive after timeout_ms are killed and count as failed (a hang). Returns how many failed;
 * ranks listed in the bit mask expect_killed must die by a signal instead.
 */
typedef int tt_rank_fn(int rank, int nranks, void *arg);
int tt_run_ranks(int n, tt_rank_fn *fn, void *arg, int timeout_ms, unsigned expect_killed);
/* The same; the ranks in may_end may also be ended by SIGKILL, and then need not return 0. */
int tt_run_ranks_that(int n, tt_rank_fn *fn, void *arg, int timeout_ms, unsigned expect_killed,
		      unsigned may_end);

/*
 * A loopback port that was free a moment ago, none of those that the system gives to sockets which
 * ask for no special one.
 */
int tt_free_port(void);
/* Files that this process has open: to see that none is left behind. */
int tt_open_fds(void);
/* Bytes of memory that this process has. */
long tt_resident(void);
/* The number behind LABEL: in a file of /proc/self; -1: there is none. */
long tt_proc_number(const char *file, const char *label);
/* Number of repetitions: from the environment variable, as in a soak, else a few. */
int tt_times(const char *name, int few);

/*
 * Sockets of this process that listen for connections, or accept datagrams or packets from any
 * peer.
 */
struct tt_listeners {
	int n, beyond, wild; /* all; not on a loopback address; on all addresses */
	int port[16];	     /* of the first ones */
};
struct tt_listeners tt_find_listeners(void);

#endif
