/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Requests of accumulates, as any rank of a job may send them: to the port of a window that rank 0
 * of two has in the middle of a larger array. No byte beside the window may change, and none of it
 * by a request that is refused.
 */
#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <tutti/tutti.h>

#include "lib/comm/comm.h"
#include "lib/rma/win_accumulate.h"
#include "tests/fuzz/fuzz.h"

#define RANKS 2
#define GUARD 65536
#define SIZE 40000

static struct tutti_context *ctx[RANKS];
static struct tutti_win *win[RANKS];
static struct tutti_unique_id id;
static unsigned char *array;

static void *run_rank(void *arg)
{
	struct tutti_config config = {.size = sizeof(config), .nranks = RANKS, .id = &id};
	struct tutti_context **c = arg;
	int rank = (int)(c - ctx);

	config.rank = rank;
	if (tutti_init(&config, c) ||
	    tutti_win_create(tutti_world(*c), rank ? NULL : array + GUARD, rank ? 0 : SIZE,
			     TUTTI_WIN_ACCUMULATE, &win[rank]))
		abort();
	return NULL;
}

static void start(void)
{
	pthread_t thread[RANKS];
	int r;

	setenv("TUTTI_TRANSPORT", "shm", 1);
	setenv("TUTTI_TUNE_FILE", "none", 1);
	setenv("TUTTI_IF", "lo", 1);
	setenv("TUTTI_PARKED", "65536", 1); /* rank 1 takes every reply */
	setenv("TUTTI_INIT_TIMEOUT", "600s", 1);
	setenv("TUTTI_HEARTBEAT", "60s", 1);
	setenv("TUTTI_HEARTBEAT_LIMIT", "600s", 1); /* whatever else the machine does */
	tutti_set_log(NULL, NULL, TUTTI_LOG_NONE);
	array = calloc(1, 2 * GUARD + SIZE);
	if (!array || tutti_unique_id_get(&id))
		abort();
	for (r = 0; r < RANKS; r++)
		if (pthread_create(&thread[r], NULL, run_rank, &ctx[r]))
			abort();
	for (r = 0; r < RANKS; r++)
		pthread_join(thread[r], NULL);
}

static bool untouched(void)
{
	size_t i;

	for (i = 0; i < GUARD; i++)
		if (array[i] || array[GUARD + SIZE + i])
			return false;
	return true;
}

/* Mostly what a request can be, and sometimes anything. */
static struct tt_acc_head draw_head(struct fz *z)
{
	struct tt_acc_head head = {0};
	unsigned how = (unsigned)fz_u(z, 1), bytes;

	head.datatype = (uint32_t)fz_u(z, how & 1 ? 4 : 1);
	if (!(how & 1))
		head.datatype %= TUTTI_NUM_DATATYPES + 1;
	if (head.datatype == TUTTI_NUM_DATATYPES) {
		bytes = (unsigned)fz_u(z, 2);
		head.datatype = TUTTI_OPAQUE(bytes);
	}
	head.op = (uint32_t)fz_u(z, how & 2 ? 4 : 1);
	if (!(how & 2))
		head.op %= TUTTI_NUM_OPS + 2;
	if (head.op == TUTTI_NUM_OPS)
		head.op = TUTTI_REPLACE;
	else if (head.op == TUTTI_NUM_OPS + 1)
		head.op = TUTTI_NO_OP;
	head.count = (uint32_t)fz_u(z, how & 4 ? 4 : 2);
	head.offset = fz_u(z, how & 8 ? 8 : 2);
	head.fetch = (uint32_t)fz_u(z, how & 16 ? 4 : 1) % (how & 16 ? UINT32_MAX : 2);
	head.pad = how & 32 ? fz_u(z, 8) : 0;
	return head;
}

/* The length that goes with head, a little off, or none that does. */
static size_t length(struct fz *z, const struct tt_acc_head *head)
{
	size_t size = tutti_datatype_size((enum tutti_datatype)head->datatype);
	unsigned how = (unsigned)fz_u(z, 1);
	size_t len = sizeof(*head);

	if (head->op != TUTTI_NO_OP && size && head->count <= 100000)
		len += head->count * size;
	if (how & 1)
		len += (size_t)(how >> 2) - 32;
	return len < 120000 ? len : 120000;
}

static void message(struct fz *z)
{
	struct tt_accs *accs = win[0]->accs;
	struct tt_acc_head head = draw_head(z);
	unsigned from = (unsigned)fz_u(z, 1);
	size_t total = length(z, &head), size = total > sizeof(head) ? total : sizeof(head);
	unsigned char *copy = malloc(size), *before = malloc(SIZE); /* so that the end is an end */
	struct tt_key key = {.comm = accs->port.comm,
			     .seq = (uint32_t)fz_u(z, 2),
			     .lane = from >> 4 & 1,
			     .index = from & 8 ? (uint32_t)fz_u(z, 4) : from & 1,
			     .port = 1};
	bool bare = (from & 0xe0) == 0xe0;

	fz_fill(z, copy, size);
	memcpy(copy, &head, total < sizeof(head) ? total : sizeof(head));
	memcpy(before, array + GUARD, SIZE);
	tt_wire_lock(ctx[0]->wire);
	accs->port.message(&accs->port, (int)(from >> 1 & 1), &key, from & 4 ? total ^ 8 : total,
			   copy, bare ? 0 : (uint32_t)total, NULL);
	tt_wire_unlock(ctx[0]->wire);
	assert(untouched());
	if (bare || from & 4 || key.lane || tt_acc_check(win[0], &head, total, accs->most))
		assert(!memcmp(before, array + GUARD, SIZE));
	free(copy);
	free(before);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fz z = {data, size};
	int steps = 0, r;

	if (!ctx[0])
		start();
	while (z.len && steps++ < 16)
		message(&z);
	for (r = 0; r < RANKS; r++) {
		tt_wire_lock(ctx[r]->wire);
		tt_engine_progress(ctx[r]);
		tt_wire_unlock(ctx[r]->wire);
	}
	tt_wire_lock(ctx[1]->wire);
	tt_wire_forget_comm(ctx[1]->wire, win[0]->accs->port.comm); /* the replies */
	tt_wire_unlock(ctx[1]->wire);
	return 0;
}
