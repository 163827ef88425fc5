/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Requests for accumulates at their target: which ones are refused, how many of a rank are kept
 * while another rank holds the lock of the part, and that they wake a target that makes no call.
 */
#include "config.h"

#include "tests/mp/job.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <unistd.h>

#include "lib/rma/win_accumulate.h"

#define WORDS 8192		    /* of a part: more than a request has */
#define BEYOND (TT_ACC_SERVED + 40) /* requests of a rank that keeps to no bound */
#define FIRST 1000		    /* their sequence numbers: the window's own are below */

enum { HELD = 5, LISTENS, GO_ON, FREE, COUNTED };

struct request {
	struct tt_acc_head head;
	uint64_t data[4];
};

static int add(struct tutti_win *win, int rank)
{
	static const uint64_t one = 1;
	int err = tutti_accumulate(win, rank, &one, 1, TUTTI_UINT64, TUTTI_SUM, 0);

	return err ? err : tutti_win_flush(win, rank);
}

static int length_of(const struct tt_list *head)
{
	const struct tt_list *l;
	int n = 0;

	for (l = head->next; l != head; l = l->next)
		n++;
	return n;
}

/* As a message of rank would come; under the lock. */
static void ask(struct tutti_win *win, int rank, uint32_t seq)
{
	struct request r = {{.count = 1, .datatype = TUTTI_UINT64, .op = TUTTI_SUM}, {1}};
	struct tt_key key = {.comm = win->accs->port.comm,
			     .seq = seq,
			     .lane = TT_ACC_REQUEST,
			     .index = (uint32_t)rank,
			     .port = 1};
	uint32_t len = sizeof(r.head) + sizeof(r.data[0]);

	win->accs->port.message(&win->accs->port, win->comm->world[rank], &key, len, &r, len, NULL);
}

/* ---- refused ---- */

/* Answers a request with these fields and so many bytes of data. */
static int answer(const struct tutti_win *win, size_t data, struct tt_acc_head head)
{
	return tt_acc_check(win, &head, sizeof(head) + data, win->accs->most);
}

static int fields_body(struct mp_job *job)
{
	enum { U64 = TUTTI_UINT64, SUM = TUTTI_SUM, SIZE = WORDS * 8, MOST = TT_ACC_MOST / 8 };
	struct tutti_win *win, *read_only;
	uint64_t *mine, *other;

	MP_OK(tutti_win_allocate(job->world, SIZE, TUTTI_WIN_ACCUMULATE, (void **)&mine, &win));
	MP_OK(tutti_win_allocate(job->world, 8, TUTTI_WIN_ACCUMULATE | TUTTI_WIN_READ_ONLY,
				 (void **)&other, &read_only));
	TT_EXPECT(win->accs->most == TT_ACC_MOST);
#define ANSWER(data, ...) answer(win, data, (struct tt_acc_head){__VA_ARGS__})
	/* offset, count, datatype, op, fetch, pad */
	TT_EXPECT(!ANSWER(16, 0, 2, U64, SUM, 0, 0) && !ANSWER(16, 0, 2, U64, SUM, 1, 0));
	TT_EXPECT(!ANSWER(TT_ACC_MOST, 0, MOST, U64, SUM, 0, 0));
	TT_EXPECT(!ANSWER(8, SIZE - 8, 1, U64, SUM, 0, 0));
	TT_EXPECT(!ANSWER(0, 0, 1, U64, TUTTI_NO_OP, 1, 0));
	TT_EXPECT(ANSWER(8, SIZE - 7, 1, U64, SUM, 0, 0) == -ERANGE);
	TT_EXPECT(ANSWER(8, UINT64_MAX, 1, U64, SUM, 0, 0) == -ERANGE);
	TT_EXPECT(ANSWER(0, SIZE, 1, U64, TUTTI_NO_OP, 1, 0) == -ERANGE);
	TT_EXPECT(ANSWER(TT_ACC_MOST + 8, 0, MOST + 1, U64, SUM, 0, 0) == -EPROTO);
	TT_EXPECT(ANSWER(0, 0, MOST + 1, U64, TUTTI_NO_OP, 1, 0) == -EPROTO);
	TT_EXPECT(ANSWER(0, 0, 0, U64, SUM, 0, 0) == -EPROTO);
	TT_EXPECT(ANSWER(8, 0, 2, U64, SUM, 0, 0) == -EPROTO);
	TT_EXPECT(ANSWER(16, 0, 1, U64, SUM, 0, 0) == -EPROTO);
	TT_EXPECT(ANSWER(8, 0, 1, U64, SUM, 2, 0) == -EPROTO);
	TT_EXPECT(ANSWER(8, 0, 1, U64, SUM, 0, 1) == -EPROTO);
	TT_EXPECT(ANSWER(8, 0, 1, 999, SUM, 0, 0) == -EPROTO);
	TT_EXPECT(ANSWER(8, 0, 1, U64, TUTTI_AVG, 0, 0) == -EPROTO);
	TT_EXPECT(ANSWER(4, 0, 1, TUTTI_FLOAT32, TUTTI_BOR, 0, 0) == -EPROTO);
	TT_EXPECT(ANSWER(8, 0, 1, U64, TUTTI_NO_OP, 1, 0) == -EPROTO);
	TT_EXPECT(ANSWER(0, 0, 1, U64, TUTTI_NO_OP, 0, 0) == -EPROTO);
#undef ANSWER
	TT_EXPECT(answer(read_only, 8, (struct tt_acc_head){0, 1, U64, SUM, 0, 0}) == -EACCES);
	TT_EXPECT(!answer(read_only, 0, (struct tt_acc_head){0, 1, U64, TUTTI_NO_OP, 1, 0}));
	MP_OK(tutti_win_free(read_only));
	MP_OK(tutti_win_free(win));
	return 0;
}

/* A message that is no request of this window is ignored: nothing is kept, and nothing changes. */
static int ignored_body(struct mp_job *job)
{
	enum {
		LEN = sizeof(struct tt_acc_head) + 8,
		LONG = sizeof(struct tt_acc_head) + TT_ACC_MOST
	};
	static const struct {
		int peer; /* the sender */
		uint32_t lane, index;
		uint64_t total;
		uint32_t len;
		bool closing;
	} m[] = {
		{1, TT_ACC_REPLY, 1, LEN, LEN, false},
		{1, TT_ACC_REQUEST, 2, LEN, LEN, false},
		{1, TT_ACC_REQUEST, 0, LEN, LEN, false},
		{0, TT_ACC_REQUEST, 1, LEN, LEN, false},
		{1, TT_ACC_REQUEST, 1, LEN + 8, LEN, false},
		{1, TT_ACC_REQUEST, 1, 31, 31, false},
		{1, TT_ACC_REQUEST, 1, LONG + 1, 0, false},
		{1, TT_ACC_REQUEST, 1, LEN, LEN, true},
	};
	struct request r = {{.count = 1, .datatype = TUTTI_UINT64, .op = TUTTI_SUM}, {1}};
	struct tutti_win *win;
	struct tt_accs *accs;
	uint64_t *mine;
	size_t i;

	MP_OK(tutti_win_allocate(job->world, 64, TUTTI_WIN_ACCUMULATE, (void **)&mine, &win));
	accs = win->accs;
	for (i = 0; !job->rank && i < sizeof(m) / sizeof(m[0]); i++) {
		struct tt_key key = {accs->port.comm, FIRST, m[i].lane, m[i].index, 1};

		tt_wire_lock(job->ctx->wire);
		accs->closing = m[i].closing;
		accs->port.message(&accs->port, m[i].peer, &key, m[i].total, &r, m[i].len, NULL);
		accs->closing = false;
		tt_wire_unlock(job->ctx->wire);
		TT_EXPECT(!mine[0] && !accs->peer[0].served && !accs->peer[1].served);
		TT_EXPECT(tt_list_empty(&accs->served) && tt_list_empty(&accs->locked));
	}
	mp_meet(job);
	MP_OK(add(win, 0));
	MP_OK(tutti_barrier(job->world));
	TT_EXPECT(job->rank || mine[0] == 2);
	MP_OK(tutti_win_free(win));
	return 0;
}

/* ---- kept ---- */

/* The replies of requests that another process makes for this rank. */
static struct reply {
	struct tt_xfer x;
	char buf[sizeof(struct tt_acc_reply)];
	bool over;
} reply[BEYOND];
static int replies, bad_replies;

static void replied(struct tt_xfer *x, const void *data, int status)
{
	struct tt_acc_reply r = {.status = -1};

	tt_container(x, struct reply, x)->over = true;
	if (!status)
		memcpy(&r, data, sizeof(r));
	bad_replies += r.status != 0;
	replies++;
}

static void listen_for(struct mp_job *job, const struct tutti_win *win, int n)
{
	int i;

	tt_wire_lock(job->ctx->wire);
	for (i = 0; i < n; i++) {
		reply[i].x = (struct tt_xfer){.kind = TT_XFER_KEYED,
					      .peer = 0,
					      .key = {.comm = win->accs->port.comm,
						      .seq = FIRST + (uint32_t)i,
						      .lane = TT_ACC_REPLY,
						      .index = (uint32_t)job->rank},
					      .fprint = sizeof(reply[i].buf),
					      .buf = reply[i].buf,
					      .len = sizeof(reply[i].buf),
					      .fn = replied};
		tt_list_init(&reply[i].x.link);
		tt_wire_recv(job->ctx->wire, &reply[i].x);
	}
	tt_wire_leave(job->ctx->wire);
	tt_wire_unlock(job->ctx->wire);
	atomic_fetch_add(&job->shared->word[LISTENS], 1);
}

/* Until wanted replies have come to n requests; takes the other receives back. */
static int await_replies(struct mp_job *job, int n, int wanted)
{
	double end = mp_now() + MP_HANG_MS / 1000;
	int i;

	while (replies < wanted && mp_now() < end) {
		tt_wire_lock(job->ctx->wire);
		tt_engine_progress(job->ctx);
		tt_wire_leave(job->ctx->wire);
		tt_wire_unlock(job->ctx->wire);
		usleep(100);
	}
	tt_wire_lock(job->ctx->wire);
	for (i = 0; i < n; i++)
		if (!reply[i].over)
			tt_wire_cancel(job->ctx->wire, &reply[i].x);
	tt_wire_unlock(job->ctx->wire);
	TT_EXPECT(replies == wanted && !bad_replies);
	return 0;
}

/* Rank 0, while rank 1 has the lock and afterwards. */
static int keep_some(struct mp_job *job, struct tutti_win *win, const uint64_t *sum)
{
	struct tt_wire *wire = job->ctx->wire;
	struct tt_accs *accs = win->accs;
	double end = mp_now() + MP_HANG_MS / 1000;
	int i, kept, most, served;
	uint64_t before;

	tt_wire_lock(wire);
	for (i = 0; i < BEYOND; i++)
		ask(win, 2, FIRST + (uint32_t)i);
	most = accs->peer[2].served;
	ask(win, 3, FIRST); /* the bound is of each rank */
	kept = length_of(&accs->locked);
	before = *sum;
	atomic_store(&job->shared->word[GO_ON], 1);
	mp_await(&job->shared->word[FREE], 1, MP_HANG_MS);
	tt_acc_serve_locked(accs);
	served = kept - length_of(&accs->locked);
	atomic_store(&job->shared->word[COUNTED], 1);
	while (accs->peer[2].served + accs->peer[3].served && mp_now() < end)
		tt_engine_progress(job->ctx);
	tt_wire_leave(wire);
	tt_wire_unlock(wire);
	TT_EXPECT(most == TT_ACC_SERVED && kept == TT_ACC_SERVED + 1 && before == 4);
	TT_EXPECT(served == TT_ACC_AT_ONCE);
	TT_EXPECT(!accs->peer[2].served && !accs->peer[3].served);
	return 0;
}

/*
 * Rank 2 asks for more than a rank may, so the target ignores some; it does not ignore a request of
 * rank 3. It serves the ones that it keeps once each, a few before the wire's lock is released.
 */
static int kept_body(struct mp_job *job)
{
	struct tt_part_lock *lock;
	struct tutti_win *win;
	uint64_t *mine;

	MP_OK(tutti_win_allocate(job->world, 64, TUTTI_WIN_ACCUMULATE, (void **)&mine, &win));
	MP_OK(add(win, 0));
	mp_meet(job);
	lock = win->accs->peer[0].lock;
	if (job->rank == 1) {
		while (!tt_part_take(lock, 0, tt_part_name(1, getpid())))
			sched_yield();
		atomic_store(&job->shared->word[HELD], 1);
		mp_await(&job->shared->word[GO_ON], 1, MP_HANG_MS);
		tt_part_release(lock);
		atomic_store(&job->shared->word[FREE], 1);
		TT_EXPECT(mp_await(&job->shared->word[COUNTED], 1, MP_HANG_MS));
	}
	TT_EXPECT(mp_await(&job->shared->word[HELD], 1, MP_HANG_MS));
	if (job->rank > 1)
		listen_for(job, win, job->rank == 2 ? BEYOND : 1);
	TT_EXPECT(mp_await(&job->shared->word[LISTENS], 2, MP_HANG_MS));
	if (!job->rank)
		TT_EXPECT(!keep_some(job, win, mine));
	if (job->rank == 2)
		TT_EXPECT(!await_replies(job, BEYOND, TT_ACC_SERVED));
	if (job->rank == 3)
		TT_EXPECT(!await_replies(job, 1, 1));
	MP_OK(add(win, 0)); /* as if nothing had been */
	MP_OK(tutti_barrier(job->world));
	TT_EXPECT(job->rank || mine[0] == 4 + TT_ACC_SERVED + 1 + 4);
	MP_OK(tutti_win_free(win));
	return 0;
}

/* ---- woken ---- */

/*
 * The first request starts the progress thread of a target that makes no call. Its standby thread
 * would serve requests as well, but looks for them only now and then.
 */
static int woken_body(struct mp_job *job)
{
	struct tutti_win *win;
	uint64_t *mine;
	bool runs = false;
	int waited;

	MP_OK(tutti_alloc(job->ctx, 64, (void **)&mine));
	mine[0] = 0;
	MP_OK(tutti_win_create(job->world, mine, 64, TUTTI_WIN_ACCUMULATE, &win));
	TT_EXPECT(!job->ctx->thread_runs);
	mp_meet(job);
	if (job->rank)
		MP_OK(add(win, 0));
	for (waited = 0; !job->rank && !runs && waited < MP_HANG_MS; waited++) {
		mp_sleep_ms(1);
		tt_wire_lock(job->ctx->wire);
		runs = job->ctx->thread_runs;
		tt_wire_unlock(job->ctx->wire);
	}
	TT_EXPECT(runs == !job->rank);
	MP_OK(tutti_win_free(win));
	TT_EXPECT(job->rank || mine[0] == 1);
	return 0;
}

static void refused(void)
{
	TT_CHECK(!MP_RUN(.n = 1, .env = "TUTTI_TRANSPORT=shm", .fn = fields_body));
	TT_CHECK(!MP_RUN(.n = 2, .env = "TUTTI_TRANSPORT=shm", .fn = ignored_body));
}

static void kept(void)
{
	TT_CHECK(!MP_RUN(.n = 4, .env = "TUTTI_TRANSPORT=shm", .fn = kept_body));
}

static void woken(void)
{
	TT_CHECK(!MP_RUN(.n = 2, .env = "TUTTI_TRANSPORT=shm", .fn = woken_body));
}

int main(int argc, char **argv)
{
	static const struct tt_test tests[] = {
		{"refused", refused}, {"kept", kept}, {"woken", woken}, {NULL, NULL}};

	return tt_test_main("accumulate_served", tests, argc, argv);
}
