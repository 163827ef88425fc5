/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Copies of a server at the moments that count: what its death leaves, when it dies behind an
 * answer, within a clock, or within a meeting. Here a test looks into the servers, so that the
 * moment is met and not waited for.
 */
#include "config.h"

#include "tests/mp/job.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/inject.h"
#include "lib/ps/server/server.h"

/*
 * Ranks 0 and 1 serve, each with a copy of the other; the others work. Server 0, on rank 0, is the
 * one that dies.
 */
static int open_ps(struct mp_job *job, int staleness, struct tutti_ps **ps)
{
	struct tutti_ps_config config = {.size = sizeof(config),
					 .staleness = staleness,
					 .copies = 2,
					 .role = job->rank < 2 ? TUTTI_PS_SERVER : TUTTI_PS_WORKER};

	return tutti_ps_open(job->world, &config, ps);
}

static int kill_head(struct mp_job *job)
{
	return kill(atomic_load(&job->shared->pid[0]), SIGKILL);
}

/* This rank goes on with the copy. */
static bool taken_over(struct mp_job *job)
{
	return mp_log_await(job, "its replicas go on");
}

/* Rank 2 kills, all workers have seen it. */
static int change(struct mp_job *job)
{
	if (job->rank == 2)
		TT_EXPECT(!kill_head(job));
	TT_EXPECT(taken_over(job));
	return 0;
}

static bool workers_meet(struct mp_job *job, int word)
{
	atomic_fetch_add(&job->shared->word[word], 1);
	return mp_await(&job->shared->word[word], job->n - 2, 20000);
}

/* ---- an answer says that all copies have it ---- */

#define PUSHES 3

static bool is_gone(struct mp_job *job, int server)
{
	char text[64];

	snprintf(text, sizeof(text), "server %d (rank %d) has failed", server, server);
	return mp_log_await(job, text);
}

/* Bells of this rank that are counted, for all to see, as they ring. */
static struct {
	void (*ring)(struct tt_bell *bell);
	atomic_int *word;
} counted;

static void count(struct tt_bell *bell)
{
	atomic_fetch_add(counted.word, 1);
	counted.ring(bell);
}

/* Counts messages to the last replica of server 0, if this rank has it. */
static void count_log(struct mp_job *job, struct tutti_ps *ps, int workers)
{
	struct tt_ps_server *srv = ps->srv[ps->copies - 1];
	int i;

	counted.word = &job->shared->word[0];
	tt_wire_lock(ps->comm->ctx->wire);
	counted.ring = srv->log->bell.ring;
	for (i = 0; i < workers * TT_PS_SLOTS; i++)
		srv->log[i].bell.ring = count;
	tt_wire_unlock(ps->comm->ctx->wire);
}

/* All that this worker has sent server 0, which has answered it, is at its last copy. */
static bool all_there(struct mp_job *job, const struct tutti_ps *ps)
{
	return atomic_load(&job->shared->word[0]) >= (int)ps->link[0].sent;
}

/*
 * Delays messages to the last replica: an update that the head or a middle replica answered too
 * early is not there yet, and would be lost with them.
 */
static int late_body(struct mp_job *job)
{
	int servers = *(int *)job->arg, i;
	struct tutti_ps_config config = {.size = sizeof(config),
					 .staleness = TUTTI_PS_ASYNC,
					 .copies = servers,
					 .role = job->rank < servers ? TUTTI_PS_SERVER
								     : TUTTI_PS_WORKER};
	struct tutti_ps_options opt = {.size = sizeof(opt), .init = TUTTI_PS_ZERO};
	struct tutti_ps_table *t, *r;
	struct tutti_ps *ps;
	int64_t one = 1, got;
	uint64_t key = 0;

	MP_OK(tutti_ps_open(job->world, &config, &ps));
	MP_OK(tutti_ps_dense(ps, "t", 2, TUTTI_INT64, &opt, &t)); /* element 0 is on server 0 */
	MP_OK(tutti_ps_rows(ps, "r", 1, 100, TUTTI_INT64, &opt, &r));
	while (tt_ps_server_of(ps, key))
		key++;
	if (job->rank == servers - 1)
		count_log(job, ps, 1);
	mp_meet(job);
	if (job->rank == servers) {
		for (i = 0; i < PUSHES; i++) {
			MP_OK(tutti_ps_push_rows(r, &key, 1, &one, TUTTI_INT64));
			TT_EXPECT(all_there(job, ps));
			MP_OK(tutti_ps_push(t, &one, 0, 1, TUTTI_INT64));
			TT_EXPECT(all_there(job, ps));
		}
		for (i = 0; i < servers - 1; i++)
			TT_EXPECT(!kill(atomic_load(&job->shared->pid[i]), SIGKILL));
		for (i = 0; i < servers - 1; i++)
			TT_EXPECT(is_gone(job, i));
		MP_OK(tutti_ps_pull(t, &got, 0, 1, TUTTI_INT64));
		TT_EXPECT(got == PUSHES);
		MP_OK(tutti_ps_pull_rows(r, &key, 1, &got, TUTTI_INT64));
		TT_EXPECT(got == PUSHES);
	}
	MP_OK(tutti_ps_close(ps));
	return 0;
}

static void answered(void)
{
	int servers = 2, i;

	for (i = 0; i < 2; i++)
		TT_CHECK(!MP_RUN(.n = 3, .fn = late_body, .arg = &servers, .killed = 1,
				 .env = "TUTTI_TRANSPORT=fault:shm "
					"TUTTI_FAULT=rank=1,delay=1:60000"));
	servers = 3;
	TT_CHECK(!MP_RUN(.n = 4, .fn = late_body, .arg = &servers, .killed = 3,
			 .env = "TUTTI_TRANSPORT=fault:shm "
				"TUTTI_FAULT=rank=2,delay=1:60000"));
}

/* ---- within a clock ---- */

#define WIDE 1000

#define KEYS 8 /* on either server there is one */

/* Those of clock c can be pulled, or not. */
static bool rows_are(struct tutti_ps_table *t, int c, int code)
{
	int64_t row;
	uint64_t key;
	int i, err;

	for (i = 0; i < KEYS; i++) {
		key = (uint64_t)(c * KEYS + i);
		row = 0;
		err = tutti_ps_pull_rows(t, &key, 1, &row, TUTTI_INT64);
		if (err != code || (!err && row != 7))
			return false;
	}
	return true;
}

/*
 * Under BSP no pull returns pushes of the current clock, nor rows created by them, whichever
 * server answers.
 */
static int running_body(struct mp_job *job)
{
	struct tutti_ps_options opt = {.size = sizeof(opt), .init = TUTTI_PS_ZERO};
	int64_t one[WIDE], got[WIDE], row[KEYS];
	uint64_t key[KEYS];
	struct tutti_ps_table *t, *r;
	struct tutti_ps *ps;
	int c, i;

	MP_OK(open_ps(job, 0, &ps));
	MP_OK(tutti_ps_dense(ps, "t", WIDE, TUTTI_INT64, &opt, &t));
	MP_OK(tutti_ps_rows(ps, "r", 1, 100, TUTTI_INT64, NULL, &r));
	mp_meet(job);
	for (i = 0; i < KEYS; i++)
		row[i] = 7;
	for (i = 0; i < WIDE; i++)
		one[i] = 1;
	for (c = 0; c < 2 && job->rank >= 2; c++) {
		MP_OK(tutti_ps_push(t, one, 0, WIDE, TUTTI_INT64));
		for (i = 0; i < KEYS; i++)
			key[i] = (uint64_t)(c * KEYS + i);
		if (job->rank == 2)
			MP_OK(tutti_ps_push_rows(r, key, KEYS, row, TUTTI_INT64));
		TT_EXPECT(workers_meet(job, c));
		if (c)
			TT_EXPECT(!change(job));
		MP_OK(tutti_ps_pull(t, got, 0, WIDE, TUTTI_INT64));
		for (i = 0; i < WIDE; i++)
			TT_EXPECT(got[i] == 2 * c);
		TT_EXPECT(rows_are(r, 0, c ? 0 : -ENOENT) && rows_are(r, 1, -ENOENT));
		TT_EXPECT(workers_meet(job, 10 + c));
		MP_OK(tutti_ps_clock(ps));
	}
	if (job->rank >= 2) {
		MP_OK(tutti_ps_pull(t, got, 0, WIDE, TUTTI_INT64));
		for (i = 0; i < WIDE; i++)
			TT_EXPECT(got[i] == 4);
		TT_EXPECT(rows_are(r, 0, 0) && rows_are(r, 1, 0));
	}
	MP_OK(tutti_ps_close(ps));
	return 0;
}

static void running(void)
{
	TT_CHECK(!MP_RUN(.n = 4, .fn = running_body, .killed = 1,
			 .env = "TUTTI_TRANSPORT=shm TUTTI_PS_VERIFY=1"));
}

/* ---- files ---- */

/* Saving applies the groups of n-softsync as they are; so it does at the copies. */
static int groups_body(struct mp_job *job)
{
	struct tutti_ps_options opt = {.size = sizeof(opt), .init = TUTTI_PS_ZERO, .softsync = 1};
	float u = job->rank == 2 ? 2 : 6, got = 0;
	struct tutti_ps_table *t;
	struct tutti_ps *ps;
	char path[80];
	double end;

	snprintf(path, sizeof(path), "%s/x", job->shared->dir);
	MP_OK(open_ps(job, TUTTI_PS_ASYNC, &ps));
	MP_OK(tutti_ps_dense(ps, "t", 1, TUTTI_FLOAT32, &opt, &t));
	mp_meet(job);
	if (job->rank >= 2) {
		if (job->rank == 2)
			MP_OK(tutti_ps_push(t, &u, 0, 1, TUTTI_FLOAT32));
		MP_OK(tutti_ps_save(ps, path));
		TT_EXPECT(workers_meet(job, 0));
		TT_EXPECT(!change(job));
		MP_OK(tutti_ps_pull(t, &got, 0, 1, TUTTI_FLOAT32));
		TT_EXPECT(got == 2);
		TT_EXPECT(workers_meet(job, 1));
		MP_OK(tutti_ps_push(t, &u, 0, 1,
				    TUTTI_FLOAT32)); /* a group of two: their mean is 4 */
		for (end = mp_now() + 10; got != 6 && mp_now() < end;)
			MP_OK(tutti_ps_pull(t, &got, 0, 1, TUTTI_FLOAT32));
		TT_EXPECT(got == 6);
	}
	MP_OK(tutti_ps_close(ps));
	return 0;
}

static void groups(void)
{
	TT_CHECK(!MP_RUN(.n = 4, .fn = groups_body, .killed = 1,
			 .env = "TUTTI_TRANSPORT=shm TUTTI_PS_VERIFY=1"));
}

/*
 * The replica's rank watches it handle a message passed on by the head, and kills the head before
 * it can answer. The number selects the message: a push, two workers at a meeting, an order to
 * save, and again a meeting; then the same for a restore.
 */
#define AT_SECOND_MEETING 5
#define AT_RESTORED 10

struct watch {
	struct mp_job *job;
	const struct tt_ps_server *copy;
	uint64_t moment; /* number of handled messages */
	bool met;
};

static void *watch(void *arg)
{
	struct watch *w = arg;
	double end = mp_now() + 20;

	while (atomic_load(&w->copy->order) < w->moment && mp_now() < end)
		;
	kill_head(w->job);
	w->met = mp_now() < end;
	return NULL;
}

static int meeting_body(struct mp_job *job)
{
	bool restores = *(bool *)job->arg;
	struct tutti_ps_options opt = {.size = sizeof(opt), .init = TUTTI_PS_ZERO};
	struct watch w = {.job = job};
	int64_t two[2] = {5, 5}, got[2];
	struct tutti_ps_table *t;
	struct tutti_ps *ps;
	pthread_t thread;
	char path[80];

	snprintf(path, sizeof(path), "%s/x", job->shared->dir);
	MP_OK(open_ps(job, 1, &ps));
	MP_OK(tutti_ps_dense(ps, "t", 2, TUTTI_INT64, &opt, &t));
	if (job->rank == 1) {
		w.copy = ps->srv[1];
		w.moment = restores ? AT_RESTORED : AT_SECOND_MEETING;
		TT_EXPECT(!pthread_create(&thread, NULL, watch, &w));
	}
	mp_meet(job);
	if (job->rank >= 2) {
		if (job->rank == 2)
			MP_OK(tutti_ps_push(t, two, 0, 2, TUTTI_INT64));
		MP_OK(tutti_ps_save(ps, path));
		if (restores)
			MP_OK(tutti_ps_restore(ps, path));
		MP_OK(tutti_ps_pull(t, got, 0, 2, TUTTI_INT64));
		TT_EXPECT(got[0] == 5 && got[1] == 5);
	}
	if (job->rank == 1)
		TT_EXPECT(!pthread_join(thread, NULL) && w.met);
	if (job->rank) /* also if it came late */
		TT_EXPECT(taken_over(job));
	MP_OK(tutti_ps_close(ps));
	return 0;
}

static void meeting(void)
{
	bool restores;
	int i;

	for (i = 0; i < 3; i++) {
		restores = i == 2; /* the replica gets one worker's message before the other's, and
				      the head gets the replica's answer late */
		TT_CHECK(!MP_RUN(.n = 4, .fn = meeting_body, .arg = &restores, .killed = 1,
				 .env = "TUTTI_TRANSPORT=fault:shm TUTTI_FAULT=delay=1:10000"));
	}
}

/*
 * At the copy's rank: bells of the second meeting at server 0. The head dies when the copy has one
 * worker's message only.
 */
static struct {
	struct tt_ps_server *copy;
	void (*log_ring)(struct tt_bell *bell), (*in_ring)(struct tt_bell *bell);
	struct tt_bell *kept;
	atomic_bool lost;
} half;

static void never_told(struct tt_win_end *end, int status)
{
	(void)end, (void)status;
}

/* From here on the head gets no answer from the replica, so it does not answer. */
static void ring_untold(struct tt_bell *bell)
{
	half.copy->ack_end.over = never_told;
	half.copy->ack_busy = true;
	half.log_ring(bell);
}

static void lose(struct tt_bell *bell)
{
	(void)bell;
	atomic_store(&half.lost, true);
}

static void keep(struct tt_bell *bell)
{
	half.kept = bell;
}

/*
 * Worker 0 sends a push, a meeting, an order to save and the second meeting, worker 1 two
 * meetings.
 */
static void plan_half(struct tutti_ps *ps)
{
	struct tt_ps_server *copy = half.copy = ps->srv[1];

	tt_wire_lock(ps->comm->ctx->wire);
	half.log_ring = copy->log->bell.ring;
	half.in_ring = copy->client[1].bell[1][0].bell.ring;
	copy->log[3].bell.ring = ring_untold;
	copy->log[TT_PS_SLOTS + 1].bell.ring = lose;
	copy->client[1].bell[1][0].bell.ring = keep;
	tt_wire_unlock(ps->comm->ctx->wire);
}

/* When worker 0 has sent its message again, and had time to be answered, that of worker 1 comes. */
static void *half_watch(void *arg)
{
	struct tutti_ps *ps = half.copy->ps;
	double end = mp_now() + 20, late;

	while (!atomic_load(&half.lost) && mp_now() < end)
		;
	for (late = mp_now() + 0.2;
	     atomic_load(&half.copy->order) < AT_SECOND_MEETING && mp_now() < late;)
		;
	kill_head(arg);
	taken_over(arg);
	mp_sleep_ms(200);
	tt_wire_lock(ps->comm->ctx->wire);
	half.copy->ack_busy = false;
	half.copy->client[1].bell[1][0].bell.ring = half.in_ring;
	if (half.kept)
		half.in_ring(half.kept);
	tt_wire_wake(ps->comm->ctx->wire);
	tt_wire_unlock(ps->comm->ctx->wire);
	return NULL;
}

/*
 * A worker that is answered before the replica has the other worker's message gets the answer of
 * the previous meeting, which no worker led.
 */
static int half_body(struct mp_job *job)
{
	struct tutti_ps_options opt = {.size = sizeof(opt), .init = TUTTI_PS_ZERO};
	struct tutti_ps_table *t;
	struct tutti_ps *ps;
	int64_t one = 1;
	pthread_t thread;
	char path[80];

	snprintf(path, sizeof(path), "%s/x", job->shared->dir);
	MP_OK(open_ps(job, 1, &ps));
	MP_OK(tutti_ps_dense(ps, "t", 2, TUTTI_INT64, &opt, &t));
	if (job->rank == 2)
		MP_OK(tutti_ps_push(t, &one, 0, 1, TUTTI_INT64));
	if (job->rank == 1)
		plan_half(ps);
	if (job->rank == 1)
		TT_EXPECT(!pthread_create(&thread, NULL, half_watch, job));
	mp_meet(job);
	if (job->rank >= 2)
		MP_OK(tutti_ps_save(ps, path));
	if (job->rank == 1)
		TT_EXPECT(!pthread_join(thread, NULL) && half.kept);
	MP_OK(tutti_ps_close(ps));
	return 0;
}

static void half_met(void)
{
	TT_CHECK(!MP_RUN(.n = 4, .fn = half_body, .killed = 1, .env = "TUTTI_TRANSPORT=shm",
			 .timeout_ms = 30000));
}

/*
 * A restore that one replica cannot do fails on all. Here the replica of server 0 believes once
 * that a worker's clock would go back; the second time it succeeds, and has the values when the
 * head has failed.
 */
static int unable_body(struct mp_job *job)
{
	struct tutti_ps_options opt = {.size = sizeof(opt), .init = TUTTI_PS_ZERO};
	int64_t two[2] = {5, 7}, got[2] = {0};
	struct tutti_ps_table *t;
	struct tutti_ps *ps;
	char path[80];
	double end;
	int i;

	snprintf(path, sizeof(path), "%s/x", job->shared->dir);
	MP_OK(open_ps(job, TUTTI_PS_ASYNC, &ps));
	MP_OK(tutti_ps_dense(ps, "t", 2, TUTTI_INT64, &opt, &t));
	for (i = 0; i < 2 && job->rank >= 2; i++) { /* saved values, and later ones */
		MP_OK(tutti_ps_push(t, two, 0, 2, TUTTI_INT64));
		MP_OK(i ? 0 : tutti_ps_save(ps, path));
	}
	for (i = 0; i < 2; i++) {
		mp_meet(job);
		tt_wire_lock(ps->comm->ctx->wire);
		if (job->rank == 1)
			ps->srv[1]->client[1].clock = i ? 0 : 9;
		tt_wire_unlock(ps->comm->ctx->wire);
		mp_meet(job);
		if (job->rank < 2)
			continue;
		MP_ERR(tutti_ps_restore(ps, path), i ? 0 : -EINVAL);
		if (!i)
			MP_SAID("server 0: a replica cannot restore");
		if (i)
			TT_EXPECT(!change(job));
		for (end = mp_now() + 10; got[0] + got[1] != (i ? 24 : 48) && mp_now() < end;)
			MP_OK(tutti_ps_pull(t, got, 0, 2, TUTTI_INT64));
		TT_EXPECT(got[0] == (i ? 10 : 20) && got[1] == (i ? 14 : 28));
		TT_EXPECT(workers_meet(job, i));
	}
	MP_OK(tutti_ps_close(ps));
	return 0;
}

static void unable(void)
{
	TT_CHECK(!MP_RUN(.n = 4, .fn = unable_body, .killed = 1,
			 .env = "TUTTI_TRANSPORT=shm TUTTI_PS_VERIFY=1"));
}

/* ---- lost messages from a replica to the head ---- */

/*
 * Rank 1's connection to the head is lost while rank 1 reports what it has. One of the two must
 * fail, and the pushes continue.
 */
static int deaf_body(struct mp_job *job)
{
	struct tutti_ps_options opt = {.size = sizeof(opt), .init = TUTTI_PS_ZERO};
	struct tutti_config config = {0};
	struct tutti_ps_table *t;
	struct tutti_ps *ps;
	int64_t one = 1, got;
	int i;

	if (job->rank == 1)
		setenv("TUTTI_FAULT", "error_after=400", 1);
	MP_OK(mp_join(job, MP_ID, &config));
	MP_OK(open_ps(job, TUTTI_PS_ASYNC, &ps));
	MP_OK(tutti_ps_dense(ps, "t", 2, TUTTI_INT64, &opt, &t));
	if (job->rank == 2) {
		for (i = 0; i < 1000; i++)
			MP_OK(tutti_ps_push(t, &one, 0, 1, TUTTI_INT64));
		TT_EXPECT(taken_over(job));
		MP_OK(tutti_ps_pull(t, &got, 0, 1, TUTTI_INT64));
		TT_EXPECT(got == 1000);
		MP_OK(tutti_ps_close(ps));
	} else {
		tutti_ps_close(ps); /* one of these is out */
	}
	mp_leave(job);
	return 0;
}

static void deaf(void)
{
	TT_CHECK(!MP_RUN(.n = 3, .no_init = true, .fn = deaf_body, .timeout_ms = 30000,
			 .env = "TUTTI_TRANSPORT=fault:shm TUTTI_TIMEOUT=20s"));
}

/* ---- no memory ---- */

#define MANY 200 /* more than a new map of keys has room for */

/*
 * Rank `out` has no memory when its map of the keys of server 0 grows: it goes, and all that was
 * pushed is there.
 */
static int short_body(struct mp_job *job)
{
	struct tutti_ps_options opt = {.size = sizeof(opt), .init = TUTTI_PS_ZERO};
	struct tt_env env = {.fault.text = "rank=0,alloc=1"};
	int out = *(int *)job->arg, i, n = 0;
	struct tutti_config config = {0};
	int64_t row[MANY], got[MANY];
	struct tutti_ps_table *t;
	struct tutti_ps *ps;
	uint64_t key[MANY];

	MP_OK(mp_join(job, MP_ID, &config));
	MP_OK(open_ps(job, TUTTI_PS_ASYNC, &ps));
	MP_OK(tutti_ps_rows(ps, "r", 1, 10 * MANY, TUTTI_INT64, &opt, &t));
	for (i = 0; n < MANY; i++)
		if (tt_ps_server_of(ps, (uint64_t)i) == 0)
			key[n++] = (uint64_t)i;
	for (i = 0; i < MANY; i++)
		row[i] = i;
	mp_meet(job);
	if (job->rank == out)
		MP_OK(tt_inject_arm(&env, 0));
	mp_meet(job);
	for (i = 0; i < 2 && job->rank == 2; i++)
		MP_OK(tutti_ps_push_rows(t, key, MANY, row, TUTTI_INT64));
	if (job->rank == 2) {
		MP_OK(tutti_ps_pull_rows(t, key, MANY, got, TUTTI_INT64));
		for (i = 0; i < MANY; i++)
			TT_EXPECT(got[i] == 2 * i);
		TT_EXPECT(mp_log_has(job, "has no memory for what server 0 is told"));
	}
	MP_ERR(tutti_ps_close(ps), job->rank == out ? -ENOMEM : 0);
	if (job->rank == out)
		MP_SAID("no memory for what server 0 is told");
	mp_leave(job); /* one of them is out */
	return 0;
}

/*
 * A copy that made other rows than the head would show others when it serves; so would a head that
 * had made fewer.
 */
static void no_memory(void)
{
	int out;

	for (out = 0; out < 2; out++)
		TT_CHECK(!MP_RUN(.n = 3, .no_init = true, .fn = short_body, .arg = &out,
				 .env = "TUTTI_TRANSPORT=shm TUTTI_PS_VERIFY=1"));
}

int main(int argc, char **argv)
{
	static const struct tt_test tests[] = {
		{"answered", answered}, {"running", running},	  {"groups", groups},
		{"meeting", meeting},	{"half_met", half_met},	  {"unable", unable},
		{"deaf", deaf},		{"no_memory", no_memory}, {NULL, NULL}};

	return tt_test_main("ps_chain", tests, argc, argv);
}
