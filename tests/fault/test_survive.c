/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Continuing without failed ranks: all ranks have the same list of failed ranks, agreement is
 * uniform, and shrink returns a working communicator, repeatedly.
 */
#include "config.h"

#include "lib/boot/control/control.h"
#include "lib/comm/comm.h"
#include "tests/fault/survive.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

/* The same ranks, hosts and texts on all ranks: rank last publishes its list. */
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
		atomic_fetch_add(&job->shared->word[i],
				 1); /* all of these calls are over everywhere */
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
	TT_EXPECT(!mp_leave_failed(job));
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
	TT_EXPECT(!mp_leave_failed(job));
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
	TT_EXPECT(!mp_leave_failed(job));
	return 0;
}

static void agrees(void)
{
	int seed;

	for (seed = 0; seed < 20; seed++)
		TT_CHECK(!MP_RUN(.n = 5, .env = "TUTTI_NODE=on", .fn = agree_body, .arg = &seed,
				 .killed = 3));
}

/* Communicators that cannot agree report it. */
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

/* ---- a rank whose call is refused, and that then calls as the others do ---- */

/* In the first turn that is the rank that collects. */
static int refuses_body(struct mp_job *job)
{
	int64_t *timeout = &job->ctx->env.timeout.number, ms = *timeout;
	uint64_t value = 4 + (uint64_t)job->rank;
	struct tutti_comm *next;
	char text[64];
	int turn, i;

	for (turn = 0; turn < 2; turn++) {
		snprintf(text, sizeof(text), "the call of rank %d was refused", 2 * turn);
		if (job->rank == 2 * turn) {
			if (turn)
				MP_ERR(tutti_comm_shrink(job->world, NULL), -EINVAL);
			else
				MP_ERR(tutti_comm_agree(job->world, TUTTI_SUM, &value), -EINVAL);
			TT_EXPECT(mp_await(&job->shared->word[turn], 2, MP_HANG_MS));
		} else {
			*timeout = 200;
			for (i = 0; i < 200; i++) {
				MP_ERR(turn ? tutti_comm_shrink(job->world, &next)
					    : tutti_comm_agree(job->world, TUTTI_BAND, &value),
				       -ETIMEDOUT);
				if (mp_said(text))
					break;
			}
			TT_EXPECT(mp_said(text) && mp_said(tutti_strerror(-EINVAL)));
			*timeout = ms;
			atomic_fetch_add(&job->shared->word[turn], 1);
		}
		if (turn) {
			MP_OK(tutti_comm_shrink(job->world, &next));
			MP_OK(tutti_comm_free(next));
		} else {
			MP_OK(tutti_comm_agree(job->world, TUTTI_BAND, &value));
			TT_EXPECT(value == 4);
		}
	}
	return 0;
}

/* Repeats the agreement until the text of its timeout names a refused call, or does not. */
static bool agrees_until(struct mp_job *job, bool refused)
{
	uint64_t value = 4;
	int i;

	for (i = 0; i < 200; i++) {
		MP_ERR(tutti_comm_agree(job->world, TUTTI_BAND, &value), -ETIMEDOUT);
		if (mp_said("the call of rank") == refused)
			return true;
	}
	return false;
}

/* The call of rank *arg was refused; then it calls, and rank 3 does not. */
static int mended_body(struct mp_job *job)
{
	int64_t *timeout = &job->ctx->env.timeout.number, ms = *timeout;
	int refused = *(const int *)job->arg;
	uint64_t value = 4;

	if (job->rank != 3) {
		*timeout = 50;
		if (job->rank == refused)
			MP_ERR(tutti_comm_agree(job->world, TUTTI_SUM, &value), -EINVAL);
		else
			TT_EXPECT(agrees_until(job, true));
		atomic_fetch_add(&job->shared->word[0], 1);
		TT_EXPECT(mp_await(&job->shared->word[0], 3, MP_HANG_MS));
		TT_EXPECT(agrees_until(job, false));
		*timeout = ms;
		atomic_fetch_add(&job->shared->word[1], 1);
	}
	TT_EXPECT(mp_await(&job->shared->word[1], 3, MP_HANG_MS));
	MP_OK(tutti_comm_agree(job->world, TUTTI_BAND, &value));
	TT_EXPECT(value == 4);
	return 0;
}

static void refuses(void)
{
	int rank;

	TT_CHECK(!MP_RUN(.n = 3, .fn = refuses_body));
	for (rank = 0; rank < 2; rank++)
		TT_CHECK(!MP_RUN(.n = 4, .fn = mended_body, .arg = &rank));
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

/* Before a rank agrees; the control thread has seen it when this returns. */
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

/*
 * Where a call that fails has offered memory of the caller, its connection closes, and a
 * communicator that shares it fails for the same reason at both ends. Memory of the library stays
 * allocated instead, and the other communicator goes on.
 */
static int sharing_body(struct mp_job *job)
{
	enum { MANY = 1 << 18 };
	bool callers = *(bool *)job->arg;
	struct tutti_request *request;
	struct tutti_comm *a, *b;
	float *v = calloc(MANY, sizeof(*v)), *mine = v;

	MP_OK(tutti_comm_dup(job->world, &a));
	MP_OK(tutti_comm_dup(job->world, &b));
	if (callers)
		MP_OK(tutti_alloc(job->ctx, MANY * sizeof(*v), (void **)&mine));
	TT_EXPECT(v && !check_sum(job, b, (1u << job->n) - 1));
	mp_meet(job);
	if (job->rank == 0) { /* the other one never sends */
		MP_OK(tutti_ibcast(mine, MANY, TUTTI_FLOAT32, 1, a, &request));
		MP_OK(tutti_comm_revoke(a));
		MP_ERR(tutti_wait(&request), -TUTTI_EREVOKED);
	}
	if (callers) {
		MP_ERR(tutti_barrier(b), -TUTTI_EREVOKED);
		MP_SAID("rank 0 has revoked");
		MP_SAID("shared its connection");
	} else {
		mp_meet(job);
		TT_EXPECT(!check_sum(job, b, (1u << job->n) - 1));
	}
	TT_EXPECT(!mp_leave_failed(job));
	free(v);
	return 0;
}

/* The same with a message: rank 1 has begun to send it, and then calls nothing. */
static int sharing_message_body(struct mp_job *job)
{
	enum { BYTES = 4 << 20 };
	struct tutti_request *request;
	struct tutti_comm *a, *b;
	void *mine;
	int i, done = 0;

	MP_OK(tutti_comm_dup(job->world, &a));
	MP_OK(tutti_comm_dup(job->world, &b));
	MP_OK(tutti_alloc(job->ctx, BYTES, &mine));
	MP_OK(tutti_barrier(b));
	if (job->rank == 1)
		MP_OK(tutti_isend(mine, BYTES, TUTTI_UINT8, 0, 0, a, &request));
	mp_meet(job);
	if (job->rank == 0) {
		MP_OK(tutti_irecv(mine, BYTES, TUTTI_UINT8, 1, 0, a, NULL, &request));
		for (i = 0; i < 20 && !done; i++) {
			MP_OK(tutti_test(&request, &done));
			mp_sleep_ms(1);
		}
		TT_EXPECT(!done);
		MP_OK(tutti_comm_revoke(a));
		MP_ERR(tutti_wait(&request), -TUTTI_EREVOKED);
	}
	mp_meet(job);
	if (job->rank == 1)
		MP_ERR(tutti_wait(&request), -TUTTI_EREVOKED);
	MP_ERR(tutti_barrier(b), -TUTTI_EREVOKED);
	MP_SAID("rank 0 has revoked");
	TT_EXPECT(!mp_leave_failed(job));
	return 0;
}

/* Rank 0 finalizes after the death of rank 3: the communicator of 0 and 1 fails because of 3. */
static int bereft_body(struct mp_job *job)
{
	struct tutti_error_info info = {.size = sizeof(info)};
	struct tutti_comm *pair;
	float v = 1;

	MP_OK(tutti_comm_split(job->world, job->rank / 2, 0, &pair));
	mp_meet(job);
	if (job->rank == 3)
		kill(getpid(), SIGKILL);
	while (job->rank != 1 && !tutti_barrier(job->world))
		;
	if (job->rank == 1) {
		while (!tutti_allreduce(TUTTI_IN_PLACE, &v, 1, TUTTI_FLOAT32, TUTTI_MAX, pair))
			;
		MP_OK(tutti_comm_error(pair, &info));
		TT_EXPECT(info.code == -TUTTI_EPEER && info.rank == 3 && info.host[0]);
		MP_SAID("rank 0 on host");
	}
	TT_EXPECT(!mp_leave_failed(job));
	return 0;
}

static void bereft(void)
{
	TT_CHECK(!MP_RUN(.n = 4, .fn = bereft_body, .killed = 8));
}

static void revokes(void)
{
	bool callers;
	int i;

	/* a job of one */
	TT_CHECK(!MP_RUN(.n = 1, .fn = alone_body));
	TT_CHECK(!MP_RUN(.n = 4, .fn = revoke_body));
	for (i = 0; i < 2; i++) {
		callers = i;
		TT_CHECK(!MP_RUN(.n = 2, .env = "TUTTI_TRANSPORT=shm", .fn = sharing_body,
				 .arg = &callers));
	}
	TT_CHECK(!MP_RUN(.n = 2, .env = "TUTTI_TRANSPORT=shm", .fn = sharing_message_body));
}

int main(int argc, char **argv)
{
	static const struct tt_test tests[] = {
		{"shrink_node", shrink_node}, {"shrink_shm", shrink_shm},
		{"shrink_ofi", shrink_ofi},   {"shrink_verbs", shrink_verbs},
		{"cycles_node", cycles_node}, {"cycles_shm", cycles_shm},
		{"cycles_ofi", cycles_ofi},   {"agrees", agrees},
		{"disagrees", disagrees},     {"refuses", refuses},
		{"uncollected", uncollected}, {"revokes", revokes},
		{"bereft", bereft},	      {NULL, NULL},
	};

	return tt_test_main("survive", tests, argc, argv);
}
