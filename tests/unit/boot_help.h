/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by the tests of lib/boot: jobs on loopback, recording handlers, shared memory.
 */
#ifndef BOOT_HELP_H
#define BOOT_HELP_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

#include "lib/boot/boot.h"
#include "tests/test.h"

#define BT_RANKS 64
/* Bounds of a job and of one wait in it: of a hang, not of a slow machine. */
#define BT_BOUND_MS 180000
#define BT_HANG_MS 60000

/* Events of one rank's handlers. */
struct bt_seen {
	pthread_mutex_t lock;
	int nmsg[BT_RANKS]; /* messages from each rank to this one */
	int nall[BT_RANKS]; /* and to all */
	bool disorder;
	bool gone[BT_RANKS];
	int ngone, twice;
	char why[BT_RANKS][160];
};

/* Known to all ranks of a test. */
struct bt_job {
	int port;
	int victim;
	int64_t limit;
	atomic_int here, saw;
	atomic_int pid[BT_RANKS];
	char text[160];
};

/* Anonymous shared memory, zeroed: for ranks that are forked later. */
void *bt_shared(size_t size);
/* Parameters of rank of n, store at 127.0.0.1:port, a secret, 2 minutes to start. */
struct tt_boot_params bt_params(int rank, int n, int port);
void bt_seen_init(struct bt_seen *seen);
struct tt_boot_handlers bt_handlers(struct bt_seen *seen);
int bt_gone_count(struct bt_seen *seen);
bool bt_gone(struct bt_seen *seen, int rank, char *why, size_t size);
int bt_received(struct bt_seen *seen);
/* The last error's text contains s; prints it if not. */
bool bt_error_has(const char *s);
/* A job without a victim, in shared memory: munmap it. */
struct bt_job *bt_job_new(void);
/* A job of n ranks that must all succeed, except killed ones. */
void bt_job_run(int n, tt_rank_fn *fn, unsigned killed);
/* Contacts rank 0 and joins at once; *boot is NULL on failure. */
int bt_boot(const struct tt_boot_params *params, const struct tt_boot_handlers *handlers,
	    const void *card, size_t card_len, struct tt_boot **boot);
/* bt_boot with a card that bt_rank_start_stop checks. */
int bt_start(struct tt_boot_params *p, struct bt_seen *seen, struct tt_boot **boot);
/* A rank that starts, checks all cards, and stops; arg: struct bt_job. */
int bt_rank_start_stop(int rank, int n, void *arg);
/* In a rank: bt_start fails with this code and a text that contains text. */
int bt_expect_failure(struct tt_boot_params *p, int code, const char *text);
/* Wait until cond, or until it is plain that it never will be. */
#define BT_WAIT(cond)                                                                              \
	do {                                                                                       \
		uint64_t bt_deadline = tt_deadline_ms(BT_HANG_MS);                                 \
		while (!(cond) && !tt_passed(bt_deadline))                                         \
			usleep(2000);                                                              \
	} while (0)

#endif
