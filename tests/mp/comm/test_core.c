/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Long lives and odd orders: objects made and freed many times, threads, windows of failed
 * communicators.
 */
#include "config.h"

#include "lib/comm/comm.h"
#include "tests/mp/job.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

/* ---- windows ---- */

static int many_windows(struct mp_job *job)
{
	struct tutti_win *win, *old;
	uint64_t *mem, value;
	int i, next = (job->rank + 1) % job->n, prev = (job->rank + job->n - 1) % job->n;

	MP_OK(tutti_alloc(job->ctx, 4096, (void **)&mem));
	MP_OK(tutti_win_create(job->world, mem, 4096, 0, &old));
	for (i = 0; i < 40; i++) {
		MP_OK(tutti_win_create(job->world, mem, 4096, 0, &win));
		value = (uint64_t)i << 8 | (unsigned)job->rank;
		mem[256] = value;
		MP_OK(tutti_put_notify(win, next, &mem[256], 8, 8));
		MP_OK(tutti_put_notify(old, next, &mem[256], 8, 16));
		MP_OK(tutti_wait_notify(win, prev, 1));
		MP_OK(tutti_wait_notify(old, prev, 1));
		TT_EXPECT(mem[1] == ((uint64_t)i << 8 | (unsigned)prev));
		TT_EXPECT(mem[2] == mem[1]);
		MP_OK(tutti_win_flush_all(old));
		MP_OK(tutti_win_free(win));
	}
	MP_OK(tutti_win_free(old));
	return tutti_free(mem);
}

static void test_many_windows(void)
{
	TT_CHECK(MP_RUN(.n = 3, .fn = many_windows) == 0);
}

static int window_and_comm(struct mp_job *job)
{
	struct tutti_comm *comm;
	struct tutti_win *win;

	MP_OK(tutti_comm_dup(job->world, &comm));
	MP_OK(tutti_win_create(comm, NULL, 0, 0, &win));
	MP_OK(tutti_comm_free(comm));
	MP_ERR(tutti_comm_free(comm), -EINVAL);
	MP_ERR(tutti_finalize(job->ctx), -EBUSY);
	return tutti_win_free(win);
}

static void test_window_and_comm(void)
{
	TT_CHECK(MP_RUN(.n = 2, .fn = window_and_comm) == 0);
}

/*
 * Rank 2 dies while rank 0 reads from rank 1, which stands still: nothing is written after the
 * error.
 */
static int window_fails(struct mp_job *job)
{
	struct tutti_comm *pair; /* without rank 2: its barrier polls */
	struct tutti_win *win;
	size_t size = 1 << 20, i;
	char *mem, *mine;

	MP_OK(tutti_comm_split(job->world, job->rank == 2, 0, &pair));
	MP_OK(tutti_alloc(job->ctx, size, (void **)&mem));
	MP_OK(tutti_alloc(job->ctx, size, (void **)&mine));
	memset(mem, 'p', size);
	MP_OK(tutti_win_create(job->world, mem, size, 0, &win));
	if (!job->rank) {
		MP_OK(tutti_get(win, 1, mine, 8, 0)); /* connects */
		MP_OK(tutti_win_flush(win, 1));
	}
	mp_meet(job);
	if (job->rank) {
		TT_EXPECT(mp_await(&job->shared->word[job->rank], 1, 20000));
		if (job->rank == 2)
			_exit(0);
	} else {
		TT_EXPECT(!mp_stop(atomic_load(&job->shared->pid[1])));
		for (i = 0; i < 16; i++)
			MP_OK(tutti_get(win, 1, mine, size, 0));
		atomic_store(&job->shared->word[2], 1);
		MP_ERR(tutti_win_flush(win, 1), -TUTTI_EPEER);
		memset(mine, 0, size);
	}
	(void)tutti_win_free(win);
	if (!job->rank) {
		TT_EXPECT(!kill(atomic_load(&job->shared->pid[1]), SIGCONT));
		atomic_store(&job->shared->word[1], 1);
	}
	(void)tutti_barrier(pair);
	for (i = 0; !job->rank && i < size; i++)
		TT_EXPECT(!mine[i]);
	(void)tutti_comm_free(pair);
	MP_OK(tutti_free(mine));
	MP_OK(tutti_free(mem));
	mp_leave(job);
	return 0;
}

static void test_window_fails(void)
{
	if (mp_no_ofi())
		TT_SKIP("%s", mp_no_ofi());
	TT_CHECK(MP_RUN(.n = 3, .fn = window_fails, .env = "TUTTI_TRANSPORT=ofi") == 0);
}

/* ---- communicators ---- */

struct dupper {
	pthread_t thread;
	struct mp_job *job;
	struct tutti_comm *comm;
	int result;
};

static int dup_often(struct dupper *d)
{
	struct mp_job *job = d->job;
	struct tutti_comm *comm[8];
	int64_t sum;
	int i, k;

	for (i = 0; i < 8; i++)
		MP_OK(tutti_comm_dup(d->comm, &comm[i]));
	for (k = 0; k < 20; k++)
		for (i = 0; i < 8; i++) {
			sum = i;
			MP_OK(tutti_allreduce(TUTTI_IN_PLACE, &sum, 1, TUTTI_INT64, TUTTI_SUM,
					      comm[i]));
			TT_EXPECT(sum == (int64_t)i * job->n);
		}
	for (i = 0; i < 8; i++)
		MP_OK(tutti_comm_free(comm[i]));
	return 0;
}

static void *dup_thread(void *arg)
{
	struct dupper *d = arg;

	d->result = dup_often(d);
	return NULL;
}

/* Threads that make communicators at the same time: no two of them share a name. */
static int threads_dup(struct mp_job *job)
{
	struct dupper d[3];
	int i, failed = 0;

	for (i = 0; i < 3; i++) {
		d[i] = (struct dupper){.job = job};
		MP_OK(tutti_comm_dup(job->world, &d[i].comm));
	}
	for (i = 0; i < 3; i++)
		TT_EXPECT(!pthread_create(&d[i].thread, NULL, dup_thread, &d[i]));
	for (i = 0; i < 3; i++) {
		pthread_join(d[i].thread, NULL);
		failed += d[i].result != 0;
	}
	for (i = 0; i < 3; i++)
		MP_OK(tutti_comm_free(d[i].comm));
	return failed;
}

static void test_threads_dup(void)
{
	TT_CHECK(MP_RUN(.n = 3, .fn = threads_dup) == 0);
}

/* ---- waiting ---- */

static double cpu_seconds(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

/*
 * A rank that waits for another's slots sleeps; the credits are gone, and there is nothing to poll
 * for.
 */
static int out_of_credits(struct mp_job *job)
{
	struct tutti_request *req[64];
	char data[64] = {0};
	double used;
	int i;

	MP_OK(tutti_barrier(job->world));
	MP_OK(tutti_bcast(data, 1, TUTTI_UINT8, 0, job->world));
	if (job->rank)
		mp_sleep_ms(600);
	used = cpu_seconds();
	for (i = 0; i < 64; i++)
		MP_OK(tutti_ibcast(data + i, 1, TUTTI_UINT8, 0, job->world, &req[i]));
	MP_OK(tutti_waitall(64, req));
	used = cpu_seconds() - used;
	if (!job->rank)
		TT_EXPECT(used < 0.3);
	return 0;
}

static void test_out_of_credits(void)
{
	TT_CHECK(MP_RUN(.n = 2, .fn = out_of_credits, .env = "TUTTI_SLOTS=4 TUTTI_WAIT=sleep") ==
		 0);
}

/* ---- self, names, groups made by their members alone ---- */

static int sum_is(struct mp_job *job, struct tutti_comm *comm, int expected)
{
	int32_t sum = job->rank;

	MP_OK(tutti_allreduce(TUTTI_IN_PLACE, &sum, 1, TUTTI_INT32, TUTTI_SUM, comm));
	TT_EXPECT(sum == expected);
	return 0;
}

/* tutti_comm_create takes none of the fields of groups. */
static int not_of_group(struct mp_job *job)
{
	static const struct {
		const char *field;
		struct tutti_comm_config how;
	} bad[] = {
		{"nranks", {.nranks = 1}}, {"ranks", {.ranks = &bad[0].how.nranks}},
		{"first", {.first = 1}},   {"stride", {.stride = 1}},
		{"tag", {.tag = -1}},
	};
	struct tutti_comm *comm;
	char text[64];
	size_t i;

	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct tutti_comm_config how = bad[i].how;

		how.size = sizeof(how);
		MP_ERR(tutti_comm_create(job->world, &how, &comm), -EINVAL);
		snprintf(text, sizeof(text), "tutti_comm_create: %s is set", bad[i].field);
		TT_EXPECT(mp_said(text));
	}
	return 0;
}

static int self_and_names(struct mp_job *job)
{
	struct tutti_comm_config how = {.size = sizeof(how), .name = "gradients"};
	struct tutti_comm *self = tutti_self(job->ctx), *comm, *host = (void *)job;
	char name[TUTTI_COMM_NAME_MAX + 1], longest[64];
	int32_t v = 7;

	TT_EXPECT(self && self == tutti_self(job->ctx) && tutti_comm_size(self) == 1);
	TT_EXPECT(!sum_is(job, self, job->rank));
	MP_OK(tutti_send(&v, 0, TUTTI_INT32, 0, 0, self));
	MP_OK(tutti_recv(&v, 1, TUTTI_INT32, 0, 0, self, NULL));
	MP_ERR(tutti_comm_free(self), -EINVAL);
	TT_EXPECT(!not_of_group(job));
	MP_OK(tutti_comm_create(job->world, &how, &comm));
	MP_OK(tutti_comm_get_name(comm, name, sizeof(name)));
	TT_EXPECT(!strcmp(name, "gradients"));
	MP_ERR(tutti_comm_get_name(comm, name, 9), -ERANGE);
	memset(longest, 'x', sizeof(longest));
	longest[TUTTI_COMM_NAME_MAX + 1] = 0;
	MP_ERR(tutti_comm_set_name(comm, longest), -EINVAL);
	MP_ERR(tutti_comm_set_name(comm, "a\nb"), -EINVAL);
	longest[TUTTI_COMM_NAME_MAX] = 0;
	MP_OK(tutti_comm_set_name(comm, longest));
	MP_OK(tutti_comm_get_name(comm, name, sizeof(name)));
	TT_EXPECT(!strcmp(name, longest));
	MP_OK(tutti_comm_set_name(comm, "weights"));
	MP_OK(tutti_comm_split_host(comm, job->rank ? job->rank : TUTTI_UNDEFINED, &host));
	TT_EXPECT(job->rank ? tutti_comm_size(host) == job->n - 1 : !host);
	mp_meet(job);
	MP_OK(tutti_comm_revoke(comm));
	MP_ERR(tutti_barrier(comm), -TUTTI_EREVOKED);
	MP_SAID("(weights)");
	return 0;
}

static void test_self_and_names(void)
{
	int n;

	for (n = 1; n < 4; n++)
		TT_CHECK(MP_RUN(.n = n, .fn = self_and_names) == 0);
}

/* Ranks 0, 2, 4 ... while the others do something else; then the odd ones, in reverse. */
static int groups(struct mp_job *job)
{
	int list[MP_MAX], odd = job->n / 2, even = job->n - odd, i, round;
	struct tutti_comm_config how = {.size = sizeof(how), .nranks = even, .stride = 2};
	struct tutti_comm *comm, *again;

	for (i = 0; i < odd; i++)
		list[i] = 2 * (odd - i) - 1;
	if (job->rank % 2) {
		how.nranks = odd;
		how.ranks = list;
	}
	for (round = 0; round < 3; round++) {
		MP_OK(tutti_comm_create_group(job->world, &how, &comm));
		MP_OK(tutti_comm_create_group(job->world, &how, &again));
		TT_EXPECT(tutti_comm_size(comm) == how.nranks);
		TT_EXPECT(tutti_comm_rank(comm) ==
			  (job->rank % 2 ? odd - 1 - job->rank / 2 : job->rank / 2));
		TT_EXPECT(!sum_is(job, again, job->rank % 2 ? odd * odd : even * (even - 1)));
		TT_EXPECT(!sum_is(job, comm, job->rank % 2 ? odd * odd : even * (even - 1)));
		MP_OK(tutti_comm_free(comm));
		MP_OK(tutti_comm_free(again));
	}
	how.ranks = list;
	how.nranks = 2;
	list[0] = list[1] = job->rank;
	MP_ERR(tutti_comm_create_group(job->world, &how, &comm), -EINVAL);
	list[0] = job->n;
	MP_ERR(tutti_comm_create_group(job->world, &how, &comm), -EINVAL);
	how.nranks = 1;
	list[0] = (job->rank + 1) % job->n;
	MP_ERR(job->n > 1 ? tutti_comm_create_group(job->world, &how, &comm) : -EINVAL, -EINVAL);
	return 0;
}

static void test_groups(void)
{
	static const char *const env[] = {"", "TUTTI_TRANSPORT=shm",
					  "TUTTI_TRANSPORT=ofi TUTTI_IF=lo"};
	int n, i;

	for (i = 0; i < 3; i++)
		for (n = 1; n < 6 && !(i == 2 && mp_no_ofi()); n++)
			TT_CHECK(MP_RUN(.n = n, .env = env[i], .fn = groups) == 0);
}

/*
 * Calls of rank *arg are refused, for newcomm and for a rank, and the other rank gives up as many
 * attempts, and says why; then they meet.
 */
static int group_refused(struct mp_job *job)
{
	struct tutti_error_info info = {.size = sizeof(info)};
	struct tutti_comm_config how = {.size = sizeof(how), .nranks = 2};
	struct tutti_comm *comm, *parent;
	int i, err, refused = *(int *)job->arg;
	atomic_int *told = &job->shared->word[0];
	bool here = job->rank == refused;

	MP_OK(tutti_comm_dup(job->world, &parent));
	MP_OK(tutti_comm_set_timeout(parent, 800)); /* longer than until a rank asks */
	for (i = 0; i < 10 && !atomic_load(told); i++) {
		if (here)
			MP_ERR(tutti_comm_create_group(parent, &how, NULL), -EINVAL);
		mp_meet(job);
		if (!here) {
			MP_ERR(tutti_comm_create_group(parent, &how, &comm), -ETIMEDOUT);
			MP_OK(tutti_last_error(&info));
			atomic_store(told, info.rank == refused && info.host[0] &&
						   mp_said("comm_create_group failed: Invalid"));
		}
		mp_meet(job);
	}
	TT_EXPECT(atomic_load(told));
	MP_OK(tutti_comm_set_timeout(parent, 100));
	how.first = here;
	MP_ERR(tutti_comm_create_group(parent, &how, &comm), here ? -EINVAL : -ETIMEDOUT);
	TT_EXPECT(here || (!tutti_last_error(&info) && info.rank == (refused ? -1 : 0)));
	how.first = 0;
	mp_meet(job);
	MP_OK(tutti_comm_set_timeout(parent, 20000));
	do { /* it joins an attempt of which it has not heard yet that the other has given it up */
		err = tutti_comm_create_group(parent, &how, &comm);
		TT_EXPECT(!err || here);
		if (!err) {
			err = tutti_barrier(comm);
			TT_EXPECT(!err || here);
			MP_OK(tutti_comm_free(comm));
		}
	} while (err == -ETIMEDOUT);
	MP_OK(err);
	return tutti_comm_free(parent);
}

/*
 * Flags differ; a call of rank 1 is refused, which does not count; it comes too late, which counts,
 * and then they meet.
 */
static int group_fails(struct mp_job *job)
{
	struct tutti_comm_config how = {.size = sizeof(how), .nranks = 2};
	struct tutti_error_info info = {.size = sizeof(info)};
	struct tutti_comm *comm, *parent;

	MP_OK(tutti_comm_dup(job->world, &parent));
	how.flags = job->rank ? TUTTI_COMM_TOLERANT : 0;
	MP_ERR(tutti_comm_create_group(parent, &how, &comm), -TUTTI_EMISMATCH);
	MP_OK(tutti_last_error(&info));
	TT_EXPECT(strstr(info.text, "different flags"));
	how.flags = 0;
	how.nranks = 1;
	if (job->rank)
		MP_ERR(tutti_comm_create_group(parent, &how, &comm), -EINVAL);
	how.nranks = 2;
	how.tag = 7;
	MP_OK(tutti_comm_set_timeout(parent, 300));
	mp_meet(job);
	if (!job->rank) {
		MP_ERR(tutti_comm_create_group(parent, &how, &comm), -ETIMEDOUT);
		MP_OK(tutti_last_error(&info));
		TT_EXPECT(strstr(info.text, "not all of the 2 ranks") &&
			  strstr(info.text, "tag 7: ") && strstr(info.text, "300 ms"));
		TT_EXPECT(strstr(job->log, "comm_create_group #1 of ") &&
			  !strstr(job->log, "allreduce"));
	}
	mp_meet(job);
	/* Rank 0's messages have come, perhaps before the news that it has given up. */
	if (job->rank && !tutti_comm_create_group(parent, &how, &comm))
		MP_OK(tutti_comm_free(comm));
	MP_OK(tutti_comm_set_timeout(parent, 0));
	mp_meet(job);
	MP_OK(tutti_comm_create_group(parent, &how, &comm));
	TT_EXPECT(!sum_is(job, comm, 1));
	MP_OK(tutti_comm_free(comm));
	MP_OK(tutti_comm_free(parent));
	return 0;
}

static void test_group_fails(void)
{
	int refused;

	TT_CHECK(MP_RUN(.n = 2, .env = "TUTTI_TIMEOUT=60000", .fn = group_fails) == 0);
	TT_CHECK(MP_RUN(.n = 2, .env = "TUTTI_TIMEOUT=60000 TUTTI_TRANSPORT=shm",
			.fn = group_fails) == 0);
	if (!mp_no_ofi())
		TT_CHECK(MP_RUN(.n = 2,
				.env = "TUTTI_TIMEOUT=60000 TUTTI_TRANSPORT=ofi TUTTI_IF=lo",
				.fn = group_fails) == 0);
	for (refused = 0; refused < 2; refused++)
		TT_CHECK(!MP_RUN(.n = 2, .fn = group_refused, .arg = &refused));
}

/* A rank that comes late is late for what the user has called. */
static int late_split(struct mp_job *job)
{
	struct tutti_comm *comm;

	if (job->rank)
		mp_sleep_ms(700);
	MP_OK(tutti_comm_split(job->world, 0, 0, &comm));
	MP_OK(tutti_comm_free(comm));
	if (!job->rank && (!strstr(job->log, "comm_split #1 of the world waits for rank 1") ||
			   strstr(job->log, "allgather")))
		fprintf(stderr, "%s\n", job->log);
	TT_EXPECT(job->rank || (strstr(job->log, "comm_split #1 of the world waits for rank 1") &&
				!strstr(job->log, "allgather")));
	return 0;
}

static void test_late_split(void)
{
	TT_CHECK(MP_RUN(.n = 2, .env = "TUTTI_TRANSPORT=shm TUTTI_LATE_AFTER=100",
			.fn = late_split) == 0);
}

/* ---- objects freed while they are in use ---- */

#define FREED 50000

static bool all_there(const int32_t *in)
{
	int32_t i;

	for (i = 0; i < FREED; i++)
		if (((volatile const int32_t *)in)[i] != i + 1)
			return false;
	return true;
}

/* Progress of what nobody waits for, until all elements are there: pieces come in any order. */
static int await_all(struct mp_job *job, const int32_t *in)
{
	double until = mp_now() + 20;
	int found;

	while (!all_there(in) && mp_now() < until)
		MP_OK(tutti_iprobe(TUTTI_ANY_SOURCE, 1, job->world, &found, NULL));
	TT_EXPECT(all_there(in));
	return 0;
}

static int freed_in_use(struct mp_job *job)
{
	int32_t *out, *in, sum = 1, i, peer = (job->rank + 1) % job->n;
	int from = (job->rank + job->n - 1) % job->n;
	struct tutti_request *send, *recv, *coll, *never;
	struct tutti_comm *comm;

	MP_OK(tutti_alloc(job->ctx, FREED * 4, (void **)&out));
	MP_OK(tutti_alloc(job->ctx, FREED * 4, (void **)&in));
	memset(in, 0, FREED * 4);
	for (i = 0; i < FREED; i++)
		out[i] = i + 1;
	MP_OK(tutti_comm_dup(job->world, &comm));
	MP_OK(tutti_irecv(in, FREED, TUTTI_INT32, from, 0, comm, NULL, &recv));
	MP_OK(tutti_request_free(recv));
	MP_OK(tutti_isend(out, FREED, TUTTI_INT32, peer, 0, comm, &send));
	MP_OK(tutti_request_free(send));
	if (job->arg) {
		MP_OK(tutti_irecv(in, 1, TUTTI_INT32, from, 5, job->world, NULL, &never));
		MP_OK(tutti_request_free(never)); /* taken back by tutti_finalize */
	}
	MP_OK(tutti_iallreduce(TUTTI_IN_PLACE, &sum, 1, TUTTI_INT32, TUTTI_SUM, comm, &coll));
	MP_OK(tutti_comm_free(comm));
	MP_ERR(tutti_barrier(comm), -EINVAL);
	MP_SAID("freed");
	MP_OK(tutti_wait(&coll));
	TT_EXPECT(sum == job->n);
	TT_EXPECT(!await_all(job, in));
	MP_OK(tutti_barrier(job->world)); /* its peer has read out by now */
	MP_OK(tutti_free(out));
	return tutti_free(in);
}

static void test_freed_in_use(void)
{
	static const char *const env[] = {"", "TUTTI_TRANSPORT=shm",
					  "TUTTI_TRANSPORT=ofi TUTTI_IF=lo",
					  "TUTTI_PROGRESS=thread"};
	unsigned i;
	int n;

	for (i = 0; i < 4; i++)
		for (n = 1; n < 4 && !(i == 2 && mp_no_ofi()); n++)
			TT_CHECK(MP_RUN(.n = n, .env = env[i], .fn = freed_in_use,
					.arg = n == 2 && i == 1 ? &n : NULL) == 0);
}

static int count_comms(struct tutti_context *ctx)
{
	struct tt_list *l, *tmp;
	int n = 0;

	tt_wire_lock(ctx->wire);
	tt_list_each(l, tmp, &ctx->comms) n++;
	tt_wire_unlock(ctx->wire);
	return n;
}

/* A communicator that was freed before its requests goes with the last of them. */
static int last_use(struct mp_job *job)
{
	int n = count_comms(job->ctx), i;
	struct tutti_request *req[2];
	struct tutti_comm *comm;
	int32_t v = 0;

	for (i = 0; i < 20; i++) {
		MP_OK(tutti_comm_dup(job->world, &comm));
		MP_OK(tutti_send_init(&v, 1, TUTTI_INT32, 0, 0, comm, &req[0]));
		MP_OK(tutti_irecv(&v, 1, TUTTI_INT32, job->rank, 0, comm, NULL, &req[1]));
		MP_OK(tutti_comm_free(comm));
		TT_EXPECT(count_comms(job->ctx) == n + 1);
		MP_OK(tutti_cancel(req[1]));
		MP_OK(tutti_request_free(req[i % 2]));
		TT_EXPECT(count_comms(job->ctx) == n + 1);
		MP_ERR(tutti_wait(&req[1 - i % 2]), i % 2 ? 0 : -ECANCELED);
		if (i % 2)
			MP_OK(tutti_request_free(req[0]));
		TT_EXPECT(count_comms(job->ctx) == n);
	}
	return 0;
}

static void test_last_use(void)
{
	TT_CHECK(!MP_RUN(.n = 1, .fn = last_use));
	TT_CHECK(!MP_RUN(.n = 2, .fn = last_use));
}

/* A freed request that no other rank takes part in. */
static int freed_in_vain(struct mp_job *job)
{
	struct tutti_request *coll;
	struct tutti_comm *comm;
	int32_t *sum;

	MP_OK(tutti_alloc(job->ctx, FREED * 4, (void **)&sum));
	memset(sum, 0, FREED * 4);
	MP_OK(tutti_comm_dup(job->world, &comm));
	if (!job->rank) {
		MP_OK(tutti_iallreduce(TUTTI_IN_PLACE, sum, FREED, TUTTI_INT32, TUTTI_SUM, comm,
				       &coll));
		MP_OK(tutti_request_free(coll));
		MP_OK(tutti_comm_free(comm));
	}
	MP_OK(tutti_barrier(job->world));
	MP_OK(tutti_finalize(job->ctx)); /* takes it back */
	job->ctx = NULL;
	return 0;
}

static void test_freed_in_vain(void)
{
	TT_CHECK(!MP_RUN(.n = 2, .env = "TUTTI_IF=lo", .fn = freed_in_vain));
	TT_CHECK(!MP_RUN(.n = 2, .env = "TUTTI_IF=lo TUTTI_NODE=off", .fn = freed_in_vain));
	if (!mp_no_ofi())
		TT_CHECK(!MP_RUN(.n = 2, .env = "TUTTI_TRANSPORT=ofi TUTTI_IF=lo",
				 .fn = freed_in_vain));
}

int main(int argc, char **argv)
{
	static const struct tt_test tests[] = {
		{"many_windows", test_many_windows},
		{"window_and_comm", test_window_and_comm},
		{"window_fails", test_window_fails},
		{"threads_dup", test_threads_dup},
		{"out_of_credits", test_out_of_credits},
		{"freed_in_use", test_freed_in_use},
		{"freed_in_vain", test_freed_in_vain},
		{"last_use", test_last_use},
		{"self_and_names", test_self_and_names},
		{"groups", test_groups},
		{"group_fails", test_group_fails},
		{"late_split", test_late_split},
		{NULL, NULL},
	};

	return tt_test_main("core", tests, argc, argv);
}
