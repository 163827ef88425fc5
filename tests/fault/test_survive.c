/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Going on without ranks that are gone: who is gone is the same list everywhere, agreement is
 * uniform, shrink gives a communicator that works, again and again, and a rank that was taken for
 * dead stays out.
 */
#include "config.h"

#include "lib/boot/ctl.h"
#include "lib/comm/comm.h"
#include "tests/mp/job.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#define WORDS 5000

/* Each rank's part is its world rank + 1, so the sum tells who took part. */
static int check_sum(struct mp_job *job, struct tutti_comm *comm, unsigned members)
{
	static const size_t counts[] = {1, 700, WORDS};
	int32_t *v, want = 0;
	size_t c, i;
	int r;

	for (r = 0; r < 32; r++)
		want += members >> r & 1 ? r + 1 : 0;
	TT_EXPECT(tutti_comm_size(comm) == __builtin_popcount(members));
	MP_OK(tutti_alloc(job->ctx, WORDS * 4, (void **)&v));
	for (c = 0; c < 3; c++) {
		for (i = 0; i < counts[c]; i++)
			v[i] = job->rank + 1;
		MP_OK(tutti_allreduce(TUTTI_IN_PLACE, v, counts[c], TUTTI_INT32, TUTTI_SUM, comm));
		for (i = 0; i < counts[c]; i++)
			TT_EXPECT(v[i] == want);
	}
	MP_OK(tutti_free(v));
	return 0;
}

/* All-reduces until one fails; that must be because of victim. */
static int until_death(struct mp_job *job, struct tutti_comm *comm, int victim)
{
	struct tutti_error_info info = {.size = sizeof(info)};
	float v[WORDS] = {0};
	int err, i;

	for (i = 0; i < 1000000; i++) {
		err = tutti_allreduce(TUTTI_IN_PLACE, v, i % 3 ? WORDS : 4, TUTTI_FLOAT32,
				      TUTTI_SUM, comm);
		if (err)
			break;
	}
	MP_ERR(err, -TUTTI_EPEER);
	MP_OK(tutti_last_error(&info));
	TT_EXPECT(info.rank == victim && info.host[0] && info.phase[0] &&
		  !strcmp(info.call, "allreduce"));
	TT_EXPECT(info.sequence >= 1);
	MP_OK(tutti_comm_error(comm, &info));
	TT_EXPECT(info.rank == victim && info.phase[0] && !strcmp(info.call, "allreduce"));
	return 0;
}

/* The victim, and nobody else. */
static int check_list(struct mp_job *job, struct tutti_comm *comm, int victim)
{
	struct tutti_failed list[MP_MAX];
	int n = -1;

	MP_OK(tutti_comm_failed(comm, list, MP_MAX, &n));
	TT_EXPECT(n == 1 && list[0].world_rank == victim && list[0].host[0] && list[0].reason[0]);
	MP_OK(tutti_barrier(comm) ? 0 : 1); /* the old one stays failed */
	return 0;
}

/* The same ranks, hosts and words everywhere: rank last shows what it has. */
static int same_list(struct mp_job *job, struct tutti_comm *old, struct tutti_comm *now, int last)
{
	struct tutti_failed list[MP_MAX], *all = (struct tutti_failed *)job->shared->gather;
	int i, n;

	MP_OK(tutti_comm_failed(old, list, MP_MAX, &n));
	MP_OK(tutti_barrier(now));
	if (job->rank == last) {
		memcpy(all, list, (size_t)n * sizeof(*list));
		atomic_store(&job->shared->word[63], n);
	}
	MP_OK(tutti_barrier(now));
	TT_EXPECT(n == atomic_load(&job->shared->word[63]));
	for (i = 0; i < n; i++) {
		if (strcmp(list[i].reason, all[i].reason))
			fprintf(stderr, "rank %d: '%s', another: '%s'\n", job->rank, list[i].reason,
				all[i].reason);
		TT_EXPECT(list[i].rank == all[i].rank && !strcmp(list[i].host, all[i].host) &&
			  !strcmp(list[i].reason, all[i].reason));
	}
	return 0;
}

/* Ranks die one after the other, in an order that begins with the arg; the last two go on to the
 * end. */
static int deaths_body(struct mp_job *job)
{
	struct tutti_comm *comm = job->world, *next;
	unsigned members = (1u << job->n) - 1;
	int i, victim, last = 0;
	uint64_t value;

	for (i = 0; i < job->n - 2; i++) {
		victim = (*(int *)job->arg + i) % job->n;
		TT_EXPECT(!check_sum(job, comm, members));
		atomic_fetch_add(&job->shared->word[i], 1); /* all of these calls are over everywhere */
		TT_EXPECT(mp_await(&job->shared->word[i], job->n - i, 20000));
		if (job->rank == victim) {
			mp_sleep_ms(5);
			kill(getpid(), SIGKILL);
		}
		if (until_death(job, comm, victim))
			return 1;
		members &= ~(1u << victim);
		last = 31 - __builtin_clz(members);
		TT_EXPECT(!check_list(job, comm, victim));
		MP_OK(tutti_comm_shrink(comm, &next));
		TT_EXPECT(!same_list(job, comm, next, last));
		value = ~(1ull << job->rank);
		MP_OK(tutti_comm_agree(next, TUTTI_BAND, &value));
		TT_EXPECT(value == ~(uint64_t)members);
		value = 1ull << job->rank;
		MP_OK(tutti_comm_agree(comm, TUTTI_BOR, &value));
		TT_EXPECT(value == members);
		if (comm != job->world)
			MP_OK(tutti_comm_free(comm));
		comm = next;
	}
	TT_EXPECT(!check_sum(job, comm, members));
	MP_OK(tutti_comm_split(comm, 0, 0, &next));
	TT_EXPECT(!check_sum(job, next, members));
	(void)tutti_finalize(job->ctx);
	job->ctx = NULL;
	return 0;
}

static unsigned victims_of(int n, int first)
{
	unsigned killed = 0;
	int i;

	for (i = 0; i < n - 2; i++)
		killed |= 1u << (first + i) % n;
	return killed;
}

static void shrink_over(const char *env)
{
	int first, files = mp_shm_files();

	for (first = 0; first < 4; first++)
		TT_CHECK(!MP_RUN(.n = 5, .env = env, .fn = deaths_body, .arg = &first,
				 .killed = victims_of(5, first)));
	TT_CHECK(mp_shm_files() <= files);
}

static void shrink_node(void)
{
	shrink_over("TUTTI_NODE=on");
}

static void shrink_shm(void)
{
	shrink_over("TUTTI_TRANSPORT=shm");
}

static void shrink_ofi(void)
{
	if (mp_no_ofi())
		TT_SKIP("%s", mp_no_ofi());
	shrink_over("TUTTI_TRANSPORT=ofi");
}

static void shrink_verbs(void)
{
	if (mp_no_verbs())
		TT_SKIP("%s", mp_no_verbs());
	shrink_over("TUTTI_TRANSPORT=verbs");
}

/* ---- 200 cycles ---- */

/* One rank revokes while the others are in a call that it does not make; then all go on. */
static int cycle(struct mp_job *job, struct tutti_comm **comm, int i)
{
	struct tutti_comm *next;
	int32_t v[WORDS] = {0};
	int err;

	if (job->rank == i % job->n) {
		MP_OK(tutti_comm_revoke(*comm));
		err = tutti_barrier(*comm);
	} else {
		err = tutti_allreduce(TUTTI_IN_PLACE, v, WORDS, TUTTI_INT32, TUTTI_SUM, *comm);
	}
	MP_ERR(err, -TUTTI_EREVOKED);
	MP_OK(tutti_comm_shrink(*comm, &next));
	if (*comm != job->world)
		MP_OK(tutti_comm_free(*comm));
	*comm = next;
	if (check_sum(job, next, (1u << job->n) - 1))
		return 1;
	mp_meet(job); /* or the next revoke ends the last call at some */
	return 0;
}

static int cycles_body(struct mp_job *job)
{
	struct tutti_comm *comm = job->world;
	int i, n = *(int *)job->arg, fds = 0;
	long before = 0;

	for (i = 0; i < n; i++) {
		TT_EXPECT(!cycle(job, &comm, i));
		if (i == n / 4) {
			before = tt_resident();
			fds = tt_open_fds();
		}
	}
	printf("  rank %d: %ld KiB more after %d cycles, %d descriptors more\n", job->rank,
	       (tt_resident() - before) / 1024, n - n / 4, tt_open_fds() - fds);
	fflush(stdout);
	if (!mp_sanitized())
		TT_EXPECT(tt_resident() - before < (4l << 20));
	TT_EXPECT(tt_open_fds() <= fds + 2);
	(void)tutti_finalize(job->ctx);
	job->ctx = NULL;
	return 0;
}

static void cycles(const char *env)
{
	int n = 200;

	TT_CHECK(!MP_RUN(.n = 3, .env = env, .fn = cycles_body, .arg = &n, .timeout_ms = 120000));
}

static void cycles_node(void)
{
	cycles("TUTTI_NODE=on");
}

static void cycles_shm(void)
{
	cycles("TUTTI_TRANSPORT=shm");
}

static void cycles_ofi(void)
{
	if (mp_no_ofi())
		TT_SKIP("%s", mp_no_ofi());
	cycles("TUTTI_TRANSPORT=ofi");
}

/* ---- agreement while ranks die ---- */

static void *die_soon(void *arg)
{
	struct timespec t = {.tv_nsec = (long)(rand() % 2000000)};

	(void)arg;
	nanosleep(&t, NULL);
	kill(getpid(), SIGKILL);
	return NULL;
}

/* Ranks 0 and 1 die at some moment of the agreement: the others all get the same. */
static int agree_body(struct mp_job *job)
{
	uint64_t value = 1ull << job->rank;
	struct tutti_comm *next;
	pthread_t thread;
	int seed = *(int *)job->arg;

	srand((unsigned)(seed * 31 + job->rank));
	MP_OK(tutti_barrier(job->world));
	mp_meet(job);
	if (job->rank < 2 && pthread_create(&thread, NULL, die_soon, NULL))
		return 1;
	MP_OK(tutti_comm_agree(job->world, TUTTI_BOR, &value));
	while (job->rank < 2)
		mp_sleep_ms(1000);
	TT_EXPECT((value & 0x1c) == 0x1c);
	atomic_store(&job->shared->word[job->rank], (int)value);
	while (!tutti_barrier(job->world)) /* until both are known to be gone, or one: */
		;
	do
		MP_OK(tutti_comm_shrink(job->world, &next));
	while (tutti_barrier(next));
	TT_EXPECT(tutti_comm_size(next) == 3);
	for (seed = 2; seed < 5; seed++)
		TT_EXPECT(atomic_load(&job->shared->word[seed]) == (int)value);
	(void)tutti_finalize(job->ctx);
	job->ctx = NULL;
	return 0;
}

static void agrees(void)
{
	int seed;

	for (seed = 0; seed < 20; seed++)
		TT_CHECK(!MP_RUN(.n = 5, .env = "TUTTI_NODE=on", .fn = agree_body, .arg = &seed,
				 .killed = 3));
}

/* What can't agree says so. */
static int disagree_body(struct mp_job *job)
{
	uint64_t value = 1;
	int n;

	MP_ERR(tutti_comm_agree(job->world, TUTTI_SUM, &value), -EINVAL);
	MP_ERR(tutti_comm_agree(job->world, TUTTI_BAND, NULL), -EINVAL);
	MP_ERR(tutti_comm_shrink(job->world, NULL), -EINVAL);
	MP_ERR(tutti_comm_failed(job->world, NULL, 1, &n), -EINVAL);
	MP_OK(tutti_comm_failed(job->world, NULL, 0, &n));
	TT_EXPECT(n == 0);
	MP_ERR(tutti_comm_agree(job->world, job->rank ? TUTTI_BOR : TUTTI_BAND, &value),
	       -TUTTI_EMISMATCH);
	TT_EXPECT(value == 1);
	if (job->rank == 1) {
		mp_sleep_ms(1500);
		MP_OK(tutti_comm_agree(job->world, TUTTI_BAND, &value));
	} else {
		MP_ERR(tutti_comm_agree(job->world, TUTTI_BAND, &value), -ETIMEDOUT);
		MP_SAID("rank");
		MP_OK(tutti_comm_agree(job->world, TUTTI_BAND, &value)); /* repeated */
	}
	TT_EXPECT(value == 1);
	return 0;
}

static void disagrees(void)
{
	TT_CHECK(!MP_RUN(.n = 3, .env = "TUTTI_TIMEOUT=1s", .fn = disagree_body));
}

/* ---- a decision after the deadline of the rank that collects, and the word of it is lost ---- */

static tt_ctl_fn *agree_msg;
static atomic_int unheard, changed;

/* Loses the first DECIDE (doc/WIRE.md). */
static void deaf_once(void *arg, int from, const void *data, size_t len)
{
	uint32_t step;

	memcpy(&step, (const char *)data + 12, sizeof(step));
	if (step != 5 || atomic_fetch_add(&unheard, 1))
		agree_msg(arg, from, data, len);
}

static void seen(void *arg, int from, const void *data, size_t len)
{
	(void)arg, (void)from, (void)data, (void)len;
	atomic_store(&changed, 1);
}

/* Before somebody agrees; the control thread has seen it when this returns. */
static int become_deaf(struct mp_job *job)
{
	struct tt_boot_handlers *h = &job->ctx->boot->handlers;

	agree_msg = h->fn[TT_CTL_AGREE];
	h->fn[TT_CTL_AGREE] = deaf_once;
	h->fn[TT_CTL_GROW] = seen;
	MP_OK(tt_ctl_send(job->ctx->boot, job->rank, TT_CTL_GROW, "", 0));
	TT_EXPECT(mp_await(&changed, 1, 20000));
	return 0;
}

static int uncollected_body(struct mp_job *job)
{
	int64_t *timeout = &job->ctx->env.timeout.number, ms = *timeout;
	uint64_t value = 6 + (uint64_t)job->rank;

	TT_EXPECT(job->rank == 0 || !become_deaf(job));
	mp_meet(job);
	if (job->rank == 0) {
		*timeout = 200;
		MP_ERR(tutti_comm_agree(job->world, TUTTI_BAND, &value), -ETIMEDOUT);
		*timeout = ms;
		atomic_store(&job->shared->word[0], 1);
		TT_EXPECT(mp_await(&job->shared->word[0], 2, 20000)); /* and calls nothing */
	} else {
		*timeout = 10000;
		TT_EXPECT(mp_await(&job->shared->word[0], 1, 20000));
	}
	MP_OK(tutti_comm_agree(job->world, TUTTI_BAND, &value));
	TT_EXPECT(value == 6 && (job->rank == 0 || atomic_load(&unheard) > 1));
	atomic_store(&job->shared->word[0], 2);
	return 0;
}

static void uncollected(void)
{
	TT_CHECK(!MP_RUN(.n = 2, .fn = uncollected_body));
}

/* ---- revoke concerns one communicator ---- */

static int alone_body(struct mp_job *job)
{
	struct tutti_comm *next;
	uint64_t value = 5;
	int n = -1;

	MP_OK(tutti_comm_agree(job->world, TUTTI_BOR, &value));
	MP_OK(tutti_comm_failed(job->world, NULL, 0, &n));
	TT_EXPECT(value == 5 && n == 0);
	MP_OK(tutti_comm_revoke(job->world));
	MP_ERR(tutti_barrier(job->world), -TUTTI_EREVOKED);
	MP_OK(tutti_comm_shrink(job->world, &next));
	TT_EXPECT(!check_sum(job, next, 1));
	return tutti_comm_free(next);
}

static int revoke_body(struct mp_job *job)
{
	struct tutti_comm *a, *b;
	float v[100] = {0};

	MP_OK(tutti_comm_dup(job->world, &a));
	MP_OK(tutti_comm_dup(job->world, &b));
	if (job->rank == 0)
		MP_OK(tutti_comm_revoke(a));
	else
		MP_ERR(tutti_recv(v, 100, TUTTI_FLOAT32, 0, 1, a, NULL), -TUTTI_EREVOKED);
	MP_ERR(tutti_barrier(a), -TUTTI_EREVOKED);
	MP_SAID("rank 0 has revoked");
	TT_EXPECT(!check_sum(job, b, (1u << job->n) - 1));
	MP_OK(tutti_comm_free(a));
	MP_OK(tutti_comm_free(b));
	return 0;
}

/* What shares a connection that is closed fails for the same reason at both of its ends. */
static int sharing_body(struct mp_job *job)
{
	enum { MANY = 1 << 18 };
	struct tutti_request *request;
	struct tutti_comm *a, *b;
	float *v = calloc(MANY, sizeof(*v));

	MP_OK(tutti_comm_dup(job->world, &a));
	MP_OK(tutti_comm_dup(job->world, &b));
	TT_EXPECT(v && !check_sum(job, b, (1u << job->n) - 1));
	mp_meet(job);
	if (job->rank == 0) { /* the other one never sends */
		MP_OK(tutti_ibcast(v, MANY, TUTTI_FLOAT32, 1, a, &request));
		MP_OK(tutti_comm_revoke(a));
		MP_ERR(tutti_wait(&request), -TUTTI_EREVOKED);
	}
	MP_ERR(tutti_barrier(b), -TUTTI_EREVOKED);
	MP_SAID("rank 0 has revoked");
	MP_SAID("shared its connection");
	(void)tutti_finalize(job->ctx);
	job->ctx = NULL;
	free(v);
	return 0;
}

static void revokes(void)
{
	/* a job of one */
	TT_CHECK(!MP_RUN(.n = 1, .fn = alone_body));
	TT_CHECK(!MP_RUN(.n = 4, .fn = revoke_body));
	TT_CHECK(!MP_RUN(.n = 2, .env = "TUTTI_TRANSPORT=shm", .fn = sharing_body));
}

/* ---- connections that break between ranks that live ---- */

#define WORDS_MAX 4

/* Who says of whom that it can't be reached, and who is out then. */
struct verdict {
	int n, by[WORDS_MAX], rank[WORDS_MAX], out;
};

/* What a rank does that has lost the connection, without losing it. */
static void accuse(struct mp_job *job, const struct verdict *v)
{
	int i;

	for (i = 0; i < v->n; i++) {
		if (v->by[i] != job->rank)
			continue;
		tt_wire_lock(job->ctx->wire);
		tt_ctx_lost(job->ctx, v->rank[i], "said the test");
		tt_wire_unlock(job->ctx->wire);
	}
}

static int accused_body(struct mp_job *job)
{
	const struct verdict *v = job->arg;
	unsigned all = (1u << job->n) - 1;
	struct tutti_error_info info = {.size = sizeof(info)};
	struct tutti_comm *next;
	float x[100] = {0};
	int k, err = 0;

	TT_EXPECT(!check_sum(job, job->world, all));
	for (k = 0; k < 2; k++) {
		accuse(job, v);
		mp_meet(job);
		mp_sleep_ms(300);
		mp_meet(job);
	}
	while (!err) /* the heartbeats go on, so nothing but the words can end this */
		err = tutti_allreduce(TUTTI_IN_PLACE, x, 100, TUTTI_FLOAT32, TUTTI_SUM, job->world);
	MP_ERR(err, -TUTTI_EPEER);
	MP_OK(tutti_comm_error(job->world, &info));
	TT_EXPECT(info.rank == v->out);
	if (job->rank != v->out) {
		TT_EXPECT(!check_list(job, job->world, v->out));
		MP_OK(tutti_comm_shrink(job->world, &next));
		TT_EXPECT(!check_sum(job, next, all & ~(1u << v->out)));
	}
	(void)tutti_finalize(job->ctx);
	job->ctx = NULL;
	return 0;
}

static void accused(void)
{
	static const struct verdict verdicts[] = {
		{2, {1, 0}, {0, 1}, 1},		     /* as many each: not the one that decides */
		{1, {1}, {0}, 1},		     /* though it alone says so */
		{2, {3, 1}, {0, 0}, 0},		     /* it has lost two, */
		{2, {0, 0}, {3, 1}, 0},		     /* also by its own word */
		{4, {2, 1, 3, 2}, {1, 2, 1, 1}, 1},  /* each connection counts once */
		{1, {2}, {2}, 2},		     /* itself */
	};
	size_t i;

	for (i = 0; i < sizeof(verdicts) / sizeof(verdicts[0]); i++)
		TT_CHECK(!MP_RUN(.n = 4, .env = "TUTTI_NODE=on", .fn = accused_body,
				 .arg = (void *)&verdicts[i]));
}

/* A rank that is cut off hears of itself, whoever had gone before. */
static int cut_off_body(struct mp_job *job)
{
	struct tutti_error_info info = {.size = sizeof(info)};
	struct tutti_comm *comm, *next;

	TT_EXPECT(!check_sum(job, job->world, 7));
	mp_meet(job);
	if (job->rank == 2)
		kill(getpid(), SIGKILL);
	if (until_death(job, job->world, 2))
		return 1;
	MP_OK(tutti_comm_shrink(job->world, &comm));
	TT_EXPECT(!check_sum(job, comm, 3));
	atomic_fetch_add(&job->shared->word[0], 1);
	TT_EXPECT(mp_await(&job->shared->word[0], 2, 10000));
	if (job->rank == 1)
		accuse(job, &(struct verdict){1, {1}, {1}, 1});
	if (until_death(job, comm, 1))
		return 1;
	MP_ERR(tutti_comm_shrink(comm, &next), job->rank ? -TUTTI_EPEER : 0);
	if (job->rank) {
		MP_SAID("taken for dead");
		MP_OK(tutti_last_error(&info));
		TT_EXPECT(info.rank == 1);
	}
	(void)tutti_finalize(job->ctx);
	job->ctx = NULL;
	return 0;
}

static void cut_off(void)
{
	TT_CHECK(!MP_RUN(.n = 3, .env = "TUTTI_NODE=on", .fn = cut_off_body, .killed = 4));
}

/* ---- stopped for too long ---- */

struct stop {
	int victim, ms;
	const char *env;
};

static int evicted(struct mp_job *job)
{
	struct tutti_error_info info = {.size = sizeof(info)};
	struct tutti_comm *next;
	uint64_t value = 1;
	float v = 1;
	int err;

	do
		err = tutti_allreduce(TUTTI_IN_PLACE, &v, 1, TUTTI_FLOAT32, TUTTI_SUM, job->world);
	while (!err);
	MP_ERR(err, -TUTTI_EPEER);
	MP_OK(tutti_comm_error(job->world, &info));
	TT_EXPECT(info.rank == job->rank && strstr(info.text, "taken for dead"));
	MP_ERR(tutti_comm_agree(job->world, TUTTI_BAND, &value), -TUTTI_EPEER);
	MP_ERR(tutti_comm_shrink(job->world, &next), -TUTTI_EPEER);
	atomic_store(&job->shared->word[1], 1);
	(void)tutti_finalize(job->ctx);
	job->ctx = NULL;
	return 0;
}

static int stop_body(struct mp_job *job)
{
	const struct stop *s = job->arg;
	unsigned all = (1u << job->n) - 1;
	struct tutti_comm *next;
	double t0 = mp_now();

	TT_EXPECT(!check_sum(job, job->world, all));
	mp_meet(job);
	if (job->rank == s->victim) {
		atomic_store(&job->shared->word[0], 1);
		raise(SIGSTOP);
		return evicted(job);
	}
	if (until_death(job, job->world, s->victim))
		return 1;
	t0 = mp_now() - t0;
	TT_EXPECT(t0 < 0.5 + 1 + 2); /* the limit, a second, and a slow machine */
	MP_OK(tutti_comm_shrink(job->world, &next));
	TT_EXPECT(!check_sum(job, next, all & ~(1u << s->victim)));
	if (job->rank == (s->victim + 1) % job->n)
		kill(atomic_load(&job->shared->pid[s->victim]), SIGCONT);
	TT_EXPECT(mp_await(&job->shared->word[1], 1, 10000));
	TT_EXPECT(!check_sum(job, next, all & ~(1u << s->victim)));
	(void)tutti_finalize(job->ctx);
	job->ctx = NULL;
	return 0;
}

#define HALF " TUTTI_HEARTBEAT=100ms TUTTI_HEARTBEAT_LIMIT=500ms"

static void stopped(void)
{
	struct stop s = {0};

	for (s.victim = 0; s.victim < 3; s.victim++) {
		TT_CHECK(!MP_RUN(.n = 3, .env = "TUTTI_TRANSPORT=shm" HALF, .fn = stop_body,
				 .arg = &s));
		if (!mp_no_ofi())
			TT_CHECK(!MP_RUN(.n = 3, .env = "TUTTI_TRANSPORT=ofi" HALF, .fn = stop_body,
					 .arg = &s));
	}
}

/* A pause shorter than the limit is nothing. */
static int pause_body(struct mp_job *job)
{
	unsigned all = (1u << job->n) - 1;
	int i;

	for (i = 0; i < 3; i++) {
		if (job->rank == 0 && i)
			TT_EXPECT(!kill(atomic_load(&job->shared->pid[1]), SIGSTOP));
		if (job->rank == 0) {
			mp_sleep_ms(200);
			kill(atomic_load(&job->shared->pid[1]), SIGCONT);
		}
		TT_EXPECT(!check_sum(job, job->world, all));
	}
	return 0;
}

static void paused(void)
{
	TT_CHECK(!MP_RUN(.n = 3, .env = "TUTTI_HEARTBEAT=100ms TUTTI_HEARTBEAT_LIMIT=2s",
			 .fn = pause_body));
}

/* ---- busy under the library's own lock is alive, too ---- */

static void slow_op(const void *in, void *inout, size_t count, enum tutti_datatype datatype,
		    void *arg)
{
	(void)in, (void)inout, (void)count, (void)datatype, (void)arg;
	mp_sleep_ms(1500);
}

/* As for tutti_ras. */
static void *ask_often(void *arg)
{
	struct mp_job *job = arg;
	unsigned char ask[8] = {0};
	int i;

	for (i = 0; i < 30; i++) {
		tt_ctl_send(job->ctx->boot, TT_CTL_ALL, TT_CTL_ASK, ask, sizeof(ask));
		mp_sleep_ms(50);
	}
	return NULL;
}

static int busy_body(struct mp_job *job)
{
	pthread_t thread;
	enum tutti_op op;
	int32_t v = 1;

	MP_OK(tutti_op_create(job->ctx, slow_op, NULL, 1, &op));
	if (!job->rank)
		TT_EXPECT(!pthread_create(&thread, NULL, ask_often, job));
	MP_OK(tutti_allreduce(TUTTI_IN_PLACE, &v, 1, TUTTI_INT32, op, job->world));
	if (!job->rank)
		pthread_join(thread, NULL);
	MP_OK(tutti_op_free(job->ctx, &op));
	return 0;
}

static void busy(void)
{
	TT_CHECK(!MP_RUN(.n = 3, .env = "TUTTI_TRANSPORT=shm" HALF, .fn = busy_body));
}

/* ---- abort from another thread, at any moment ---- */

struct aborted {
	int seed;
	_Atomic double at; /* when */
	atomic_int longest_ms;
};

static void *abort_soon(void *arg)
{
	struct mp_job *job = arg;
	struct aborted *a = job->arg;
	struct timespec t = {.tv_nsec = (long)(rand() % 3000000)};

	nanosleep(&t, NULL);
	atomic_store(&a->at, mp_now());
	tutti_comm_abort(job->world, 7);
	return NULL;
}

static int abort_body(struct mp_job *job)
{
	struct aborted *a = job->arg;
	int seed = a->seed, err, ms;
	float v[WORDS] = {0};
	pthread_t thread;

	srand((unsigned)seed);
	if (job->rank == seed % job->n && pthread_create(&thread, NULL, abort_soon, job))
		return 1;
	do
		err = tutti_allreduce(TUTTI_IN_PLACE, v, seed % 2 ? 4 : WORDS, TUTTI_FLOAT32,
				      TUTTI_SUM, job->world);
	while (!err);
	ms = (int)((mp_now() - atomic_load(&a->at)) * 1e3);
	if (ms > atomic_load(&a->longest_ms))
		atomic_store(&a->longest_ms, ms);
	MP_ERR(err, -TUTTI_EABORTED);
	MP_SAID("code 7");
	if (job->rank == seed % job->n)
		pthread_join(thread, NULL);
	(void)tutti_finalize(job->ctx);
	job->ctx = NULL;
	return 0;
}

static void aborts(void)
{
	static const char *const env[] = {"TUTTI_NODE=on", "TUTTI_TRANSPORT=shm"};
	struct aborted *a = mp_shared_mem(sizeof(*a));
	int n = tt_times("TT_ABORTS", 40);
	bool fine = true;

	for (; a->seed < n && fine; a->seed++)
		fine = !MP_RUN(.n = 3, .env = env[a->seed / 2 % 2], .fn = abort_body, .arg = a);
	TT_CHECK(fine);
	printf("  %d aborts from another thread: every rank's call ended, after %d ms at most\n", a->seed,
	       a->longest_ms);
	munmap(a, sizeof(*a));
}

/* ---- what killed jobs leave behind disturbs no later one ---- */

static int leftover_body(struct mp_job *job)
{
	struct tutti_config config = {0};
	bool dies = *(int *)job->arg % 2 == 0;
	pthread_t thread;
	int err;

	srand((unsigned)(*(int *)job->arg * 8 + job->rank));
	if (dies && pthread_create(&thread, NULL, die_soon, NULL))
		return 1;
	err = mp_join(job, MP_ENV, &config);
	while (dies)
		mp_sleep_ms(1000);
	MP_OK(err);
	return check_sum(job, job->world, (1u << job->n) - 1);
}

/* The same directory, names and addresses every time; every other job is killed as it starts. */
static void leftovers(void)
{
	int i, n = 2 * tt_times("TT_RESTARTS", 8), files = mp_shm_files();
	char dir[] = "/tmp/tutti-left-XXXXXX", env[200];
	bool fine = mkdtemp(dir) != NULL;

	snprintf(env, sizeof(env), "TUTTI_BOOT_DIR=%s TUTTI_RANK=%%r TUTTI_NRANKS=%%n", dir);
	for (i = 0; i < n && fine; i++)
		fine = !MP_RUN(.n = 3, .env = env, .fn = leftover_body, .arg = &i, .way = MP_ENV,
			       .no_init = true, .killed = i % 2 ? 0 : 7);
	TT_CHECK(fine);
	TT_CHECK(mp_shm_files() <= files);
	printf("  %d jobs killed as they started, each with a job in its place that worked\n", i / 2);
	mp_remove_dir(dir); /* a rank 0 that dies while it writes its file leaves the unfinished one */
}

int main(int argc, char **argv)
{
	static const struct tt_test tests[] = {
		{"shrink_node", shrink_node},
		{"shrink_shm", shrink_shm},
		{"shrink_ofi", shrink_ofi},
		{"shrink_verbs", shrink_verbs},
		{"cycles_node", cycles_node},
		{"cycles_shm", cycles_shm},
		{"cycles_ofi", cycles_ofi},
		{"agrees", agrees},
		{"disagrees", disagrees},
		{"uncollected", uncollected},
		{"revokes", revokes},
		{"accused", accused},
		{"cut_off", cut_off},
		{"stopped", stopped},
		{"paused", paused},
		{"busy", busy},
		{"aborts", aborts},
		{"leftovers", leftovers},
		{NULL, NULL},
	};

	return tt_test_main("survive", tests, argc, argv);
}
