/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tolerant communicators: ranks die while the others exchange messages, put, get and add in a
 * window, and wait in collectives. Every operation between ranks that live succeeds with the right
 * values; every other one fails with -TUTTI_EPEER; then shrink makes collectives work again.
 *
 *	TT_SET="5 0x9" test_tolerant one_shm	ranks, victims
 */
#include "config.h"

#include "tests/fault/survive.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#define ROUNDS 30
#define LONG 30000 /* elements: several times the eager limit */
#define RANKS 8

struct set {
	int n;
	unsigned victims;
	bool pending; /* collectives are under way when the ranks die */
};

struct peer {
	bool lost; /* an operation has said so */
	int32_t out[LONG], in[LONG];
	struct tutti_request *send, *recv;
};

struct work {
	struct mp_job *job;
	const struct set *set;
	struct tutti_comm *comm;
	struct tutti_win *win;
	uint64_t *mem; /* by origin: the last value put; then a counter */
	struct peer *peer;
	int32_t *sum; /* of the collective that is under way */
	struct tutti_request *coll;
};

static bool dies(const struct work *w, int rank)
{
	return w->set->victims >> rank & 1;
}

static int32_t value_of(int from, int to, int round, int i)
{
	return from * 1000003 + to * 10007 + round * 101 + i;
}

/* Odd rounds are long, even ones short. */
static int len_of(int round)
{
	return round % 2 ? LONG : 10;
}

/* 0: the operation succeeded; 1: it failed as operations on a dead rank do. */
static int lost_by(struct work *w, int rank, int err)
{
	struct tutti_error_info info = {.size = sizeof(info)};
	struct mp_job *job = w->job;

	if (!err)
		return 0;
	tutti_last_error(&info);
	if (err != -TUTTI_EPEER || !dies(w, rank)) {
		fprintf(stderr, "rank %d, with rank %d: %s\n", job->rank, rank, info.text);
		mp_failed(job, "an operation on a live rank", err, __FILE__, __LINE__);
		return -1;
	}
	w->peer[rank].lost = true;
	return 1;
}

static int begin_round(struct work *w, int r, int round)
{
	struct peer *p = &w->peer[r];
	int i, n = len_of(round), me = w->job->rank;

	for (i = 0; i < n; i++)
		p->out[i] = value_of(me, r, round, i);
	memset(p->in, 0, (size_t)n * sizeof(p->in[0]));
	if (lost_by(w, r, tutti_irecv(p->in, LONG, TUTTI_INT32, r, round, w->comm, NULL, &p->recv)))
		return !p->lost;
	return lost_by(w, r,
		       tutti_isend(p->out, (size_t)n, TUTTI_INT32, r, round, w->comm, &p->send)) <
	       0;
}

static int end_round(struct work *w, int r, int round)
{
	struct peer *p = &w->peer[r];
	int i, n = len_of(round), got;

	if (lost_by(w, r, tutti_wait(&p->send)) < 0)
		return 1;
	got = lost_by(w, r, tutti_wait(&p->recv));
	for (i = 0; !got && i < n; i++)
		TT_EXPECT(p->in[i] == value_of(r, w->job->rank, round, i));
	return got < 0;
}

static int access_round(struct work *w, int r, int round)
{
	uint64_t mine = (uint64_t)round + 1, read = 0, old = 0;
	int me = w->job->rank, got;

	got = lost_by(w, r, tutti_put(w->win, r, &mine, sizeof(mine), (uint64_t)me * 8));
	if (!got)
		got = lost_by(w, r, tutti_win_flush(w->win, r));
	if (!got)
		got = lost_by(w, r, tutti_get(w->win, r, &read, sizeof(read), (uint64_t)me * 8));
	if (!got)
		got = lost_by(w, r, tutti_win_flush(w->win, r));
	if (!got)
		TT_EXPECT(read == mine);
	if (!got)
		got = lost_by(w, r, tutti_fetch_add(w->win, r, 1, RANKS * 8, &old));
	return got < 0;
}

static void maybe_die(struct work *w, int round)
{
	if (dies(w, w->job->rank) && round == 5 + 3 * w->job->rank)
		kill(getpid(), SIGKILL);
}

static int all_rounds(struct work *w)
{
	int round, r, n = w->set->n, me = w->job->rank;

	for (round = 0; round < ROUNDS; round++) {
		maybe_die(w, round);
		for (r = 0; r < n; r++)
			if (r != me && !w->peer[r].lost)
				TT_EXPECT(!begin_round(w, r, round));
		for (r = 0; r < n; r++)
			if (w->peer[r].recv)
				TT_EXPECT(!end_round(w, r, round));
		for (r = 0; r < n; r++)
			if (!w->peer[r].lost)
				TT_EXPECT(!access_round(w, r, round));
	}
	return 0;
}

/* This rank's window: all live ranks have done all their rounds. */
static int check_window(struct work *w)
{
	int r, n = w->set->n;
	uint64_t least = 0, most = 0;

	for (r = 0; r < n; r++) {
		most += ROUNDS;
		if (dies(w, r))
			continue;
		least += ROUNDS;
		TT_EXPECT(w->mem[r] == ROUNDS);
	}
	TT_EXPECT(w->mem[RANKS] >= least && w->mem[RANKS] < most);
	return 0;
}

/* The first rank that lives, seen from this one on. */
static int next_alive(const struct work *w, int step)
{
	int r = w->job->rank;

	do
		r = (r + step + w->set->n) % w->set->n;
	while (dies(w, r));
	return r;
}

static int ring_from_any(struct work *w)
{
	struct tutti_status status = {0};
	struct tutti_request *recv;
	struct mp_job *job = w->job;
	int32_t in = -1, out = job->rank;

	MP_OK(tutti_irecv(&in, 1, TUTTI_INT32, TUTTI_ANY_SOURCE, 7777, w->comm, &status, &recv));
	MP_OK(tutti_send(&out, 1, TUTTI_INT32, next_alive(w, 1), 7777, w->comm));
	MP_OK(tutti_wait(&recv));
	TT_EXPECT(in == next_alive(w, -1) && status.source == in);
	return 0;
}

/* mp_meet of the ranks that live. */
static void meet(struct work *w)
{
	atomic_int *word = &w->job->shared->word[1];
	int k = w->set->n - __builtin_popcount(w->set->victims);

	atomic_fetch_add(word, 1);
	mp_await(word, k, 20000);
}

/* While a death is not acknowledged, a receive from any source fails and names it. */
static int any_source(struct work *w)
{
	struct tutti_failed list[RANKS];
	struct mp_job *job = w->job;
	int32_t in;
	int n, found = 5;

	MP_ERR(tutti_recv(&in, 1, TUTTI_INT32, TUTTI_ANY_SOURCE, 7777, w->comm, NULL),
	       -TUTTI_EPEER);
	MP_SAID("tutti_comm_ack_failed");
	MP_ERR(tutti_iprobe(TUTTI_ANY_SOURCE, 7777, w->comm, &found, NULL), -TUTTI_EPEER);
	TT_EXPECT(found == 5);
	MP_OK(tutti_comm_failed(w->comm, list, RANKS, &n));
	TT_EXPECT(n == __builtin_popcount(w->set->victims));
	MP_OK(tutti_comm_ack_failed(w->comm, list, n));
	MP_OK(tutti_comm_ack_failed(w->comm, list, n));
	list[0].rank = job->rank;
	MP_ERR(tutti_comm_ack_failed(w->comm, list, 1), -EINVAL);
	meet(w); /* no message of the ring may come before */
	TT_EXPECT(!ring_from_any(w));
	MP_OK(tutti_iprobe(TUTTI_ANY_SOURCE, 7777, w->comm, &found, NULL));
	TT_EXPECT(!found);
	return 0;
}

/* Waits until this rank has heard of all deaths. */
static int hear_all(struct work *w)
{
	struct tutti_comm_state state = {.size = sizeof(state)};
	struct mp_job *job = w->job;
	double until = mp_now() + 20;
	int r, found;
	int32_t x;

	for (r = 0; r < w->set->n; r++)
		if (dies(w, r))
			MP_ERR(tutti_recv(&x, 1, TUTTI_INT32, r, 9999, w->comm, NULL),
			       -TUTTI_EPEER);
	do { /* also until the collective under way, if any, has ended */
		MP_OK(tutti_iprobe(job->rank, 9999, w->comm, &found, NULL));
		MP_OK(tutti_comm_state(w->comm, &state));
		mp_sleep_ms(1);
	} while ((state.failed != __builtin_popcount(w->set->victims) || state.pending) &&
		 mp_now() < until);
	TT_EXPECT(!state.code && state.coll_code == -TUTTI_EPEER);
	TT_EXPECT(state.flags == TUTTI_COMM_TOLERANT && state.windows == 1 && !state.pending);
	TT_EXPECT(state.failed == __builtin_popcount(w->set->victims));
	TT_EXPECT(state.unacked == state.failed);
	return 0;
}

static int collectives_fail(struct work *w)
{
	struct tutti_error_info info = {.size = sizeof(info)};
	struct mp_job *job = w->job;
	struct tutti_comm *dup;
	int32_t x = 1;

	if (w->set->pending)
		MP_ERR(tutti_wait(&w->coll), -TUTTI_EPEER);
	MP_ERR(tutti_allreduce(TUTTI_IN_PLACE, &x, 1, TUTTI_INT32, TUTTI_SUM, w->comm),
	       -TUTTI_EPEER);
	MP_SAID("tutti_comm_shrink");
	tutti_last_error(&info);
	TT_EXPECT(info.rank >= 0 && dies(w, info.rank));
	MP_ERR(tutti_barrier(w->comm), -TUTTI_EPEER);
	MP_ERR(tutti_comm_dup(w->comm, &dup), -TUTTI_EPEER);
	return 0;
}

static int shrunk(struct work *w, struct tutti_comm **comm)
{
	struct tutti_comm_state state = {.size = sizeof(state)};
	struct mp_job *job = w->job;
	int k = __builtin_popcount(w->set->victims);

	MP_OK(tutti_comm_shrink(w->comm, comm));
	TT_EXPECT(tutti_comm_size(*comm) == w->set->n - k);
	TT_EXPECT(!check_sum(job, *comm, ((1u << w->set->n) - 1) & ~w->set->victims));
	MP_OK(tutti_comm_state(*comm, &state));
	TT_EXPECT(!state.coll_code && !state.failed && state.flags == TUTTI_COMM_TOLERANT);
	return 0;
}

static int open_work(struct work *w)
{
	struct tutti_comm_config how = {.size = sizeof(how), .flags = TUTTI_COMM_TOLERANT};
	struct mp_job *job = w->job;
	int r;

	w->comm = job->world;
	if (!getenv("TUTTI_TOLERANT"))
		MP_OK(tutti_comm_create(job->world, &how, &w->comm));
	MP_OK(tutti_alloc(job->ctx, (RANKS + 1) * 8, (void **)&w->mem));
	MP_OK(tutti_alloc(job->ctx, RANKS * sizeof(*w->peer), (void **)&w->peer));
	MP_OK(tutti_alloc(job->ctx, LONG * 4, (void **)&w->sum));
	memset(w->mem, 0, (RANKS + 1) * 8);
	memset(w->peer, 0, RANKS * sizeof(*w->peer));
	memset(w->sum, 0, LONG * 4);
	MP_OK(tutti_win_create(w->comm, w->mem, (RANKS + 1) * 8, 0, &w->win));
	/* connections to all, so that a death is not met by a connection under way only */
	for (r = 0; r < w->set->n; r++)
		TT_EXPECT(!access_round(w, r, -1));
	w->mem[RANKS] = 0;
	mp_meet(job);
	w->mem[RANKS] = 0;
	mp_meet(job);
	if (w->set->pending && !dies(w, job->rank))
		MP_OK(tutti_iallreduce(TUTTI_IN_PLACE, w->sum, LONG, TUTTI_INT32, TUTTI_SUM,
				       w->comm, &w->coll));
	return 0;
}

static int tolerant_body(struct mp_job *job)
{
	struct work w = {.job = job, .set = job->arg};
	struct tutti_comm *comm;

	TT_EXPECT(!open_work(&w));
	TT_EXPECT(!all_rounds(&w));
	TT_EXPECT(!hear_all(&w));
	TT_EXPECT(!collectives_fail(&w));
	TT_EXPECT(!any_source(&w));
	TT_EXPECT(!shrunk(&w, &comm));
	TT_EXPECT(!check_window(&w));
	MP_OK(tutti_barrier(comm));
	TT_EXPECT(!ring_from_any(&w));
	MP_ERR(tutti_win_free(w.win), -TUTTI_EPEER);
	MP_OK(tutti_free(w.peer));
	MP_OK(tutti_free(w.mem));
	MP_OK(tutti_free(w.sum));
	TT_EXPECT(!mp_leave_failed(job));
	return 0;
}

static int run_set(const char *env, struct set s)
{
	int failed = MP_RUN(.n = s.n, .env = env, .fn = tolerant_body, .arg = &s,
			    .killed = s.victims, .timeout_ms = 40000);

	if (failed)
		fprintf(stderr, "%d ranks, victims %#x, %s\n", s.n, s.victims, env);
	return failed;
}

/* Each single rank and each pair. */
static void each_set(const char *env, int n)
{
	struct set s = {.n = n};
	int failed = 0;

	for (s.victims = 1; s.victims < 1u << n; s.victims++) {
		if (__builtin_popcount(s.victims) > 2)
			continue;
		s.pending = !s.pending;
		failed += run_set(env, s);
	}
	TT_CHECK(!failed);
}

static void shm4(void)
{
	each_set("TUTTI_TRANSPORT=shm", 4);
}

static void shm5(void)
{
	each_set("TUTTI_TRANSPORT=shm", 5);
}

static void node4(void)
{
	each_set("TUTTI_NODE=on TUTTI_TOLERANT=1", 4);
}

static void ofi4(void)
{
	if (mp_no_ofi())
		TT_SKIP("%s", mp_no_ofi());
	each_set("TUTTI_TRANSPORT=ofi TUTTI_IF=lo", 4);
}

static void ofi5(void)
{
	if (mp_no_ofi())
		TT_SKIP("%s", mp_no_ofi());
	each_set("TUTTI_TRANSPORT=ofi TUTTI_IF=lo TUTTI_TOLERANT=1", 5);
}

/* In an emulated guest, where everything takes longer. */
static void verbs3(void)
{
	struct set s = {.n = 3, .victims = 2, .pending = true};

	if (mp_no_verbs())
		TT_SKIP("%s", mp_no_verbs());
	TT_CHECK(!run_set("TUTTI_TRANSPORT=verbs", s));
}

static void one(const char *env)
{
	const char *text = getenv("TT_SET");
	struct set s = {.n = 4, .victims = 2, .pending = true};

	if (text && sscanf(text, "%d %x", &s.n, &s.victims) != 2)
		TT_SKIP("TT_SET is ranks and victims");
	TT_CHECK(!run_set(env, s));
}

static void one_shm(void)
{
	one("TUTTI_TRANSPORT=shm");
}

static void one_ofi(void)
{
	if (mp_no_ofi())
		TT_SKIP("%s", mp_no_ofi());
	one("TUTTI_TRANSPORT=ofi TUTTI_IF=lo");
}

/* ---- a failed rank and the codes that follow from it are seen together ---- */

#define COMMS 60

static int state_body(struct mp_job *job)
{
	struct tutti_comm_state state = {.size = sizeof(state)};
	struct tutti_comm *comm[COMMS];
	int i, n = 0, victim = job->n - 1;

	for (i = 0; i < COMMS; i++)
		MP_OK(tutti_comm_dup(job->world, &comm[i]));
	mp_meet(job);
	if (job->rank == victim)
		kill(getpid(), SIGKILL);
	while (!n && job->rank % 2)
		MP_OK(tutti_comm_failed(comm[COMMS - 1], NULL, 0, &n));
	while (!state.failed)
		MP_OK(tutti_comm_state(comm[COMMS - 1], &state));
	MP_ERR(state.coll_code, -TUTTI_EPEER);
	MP_ERR(tutti_barrier(comm[COMMS - 1]), -TUTTI_EPEER);
	TT_EXPECT(!mp_leave_failed(job));
	return 0;
}

static void state(void)
{
	int i;

	for (i = 0; i < 4; i++)
		TT_CHECK(!MP_RUN(.n = 4, .env = "TUTTI_TOLERANT=1 TUTTI_TRANSPORT=shm",
				 .fn = state_body, .killed = 1 << 3));
}

int main(int argc, char **argv)
{
	static const struct tt_test tests[] = {
		{"shm4", shm4},	  {"shm5", shm5},     {"node4", node4},	    {"ofi4", ofi4},
		{"ofi5", ofi5},	  {"verbs3", verbs3}, {"one_shm", one_shm}, {"one_ofi", one_ofi},
		{"state", state}, {NULL, NULL}};

	return tt_test_main("tolerant", tests, argc, argv);
}
