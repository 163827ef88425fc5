/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by the tests of lib/boot: jobs on loopback, recording handlers, shared memory.
 */
#ifndef BOOT_HELP_H
#define BOOT_HELP_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

#include "lib/boot/boot.h"

#define BT_RANKS 64

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

/* Anonymous shared memory, zeroed: for ranks that are forked later. */
void *bt_shared(size_t size);
/* A loopback port that was free a moment ago. */
int bt_free_port(void);
/* Parameters of rank of n, store at 127.0.0.1:port, a secret, 20 s to start. */
struct tt_boot_params bt_params(int rank, int n, int port);
void bt_seen_init(struct bt_seen *seen);
struct tt_boot_handlers bt_handlers(struct bt_seen *seen);
int bt_gone_count(struct bt_seen *seen);
bool bt_gone(struct bt_seen *seen, int rank, char *why, size_t size);
int bt_received(struct bt_seen *seen);
/* The last error's text contains s; prints it if not. */
bool bt_error_has(const char *s);
/* Wait until cond or ms have passed. */
#define BT_WAIT(cond, ms)                                                                          \
	do {                                                                                       \
		uint64_t bt_deadline = tt_deadline_ms(ms);                                         \
		while (!(cond) && !tt_passed(bt_deadline))                                         \
			usleep(2000);                                                              \
	} while (0)

#endif
