/* SPDX-License-Identifier: BSD-3-Clause */
/* Communicators: dup, split in every way, hosts, hundreds of them, several threads, timeouts. */
#include "config.h"

#include "tests/mp/job.h"

#include <errno.h>
#include <malloc.h>
#include <stdio.h>
#include <unistd.h>

/* All members of comm add up to want, each giving its rank in the world + 1. */
static int sums_to(struct mp_job *job, struct tutti_comm *comm, int want)
{
	int32_t v[3] = {job->rank + 1, 100 * (job->rank + 1), 1};

	MP_OK(tutti_allreduce(TUTTI_IN_PLACE, v, 3, TUTTI_INT32, TUTTI_SUM, comm));
	if (v[0] != want || v[1] != 100 * want || v[2] != tutti_comm_size(comm))
		fprintf(stderr, "rank %d: %d of %d ranks, expected %d\n", job->rank, v[0], v[2],
			want);
	TT_EXPECT(v[0] == want && v[1] == 100 * want && v[2] == tutti_comm_size(comm));
	return 0;
}

static int dup_body(struct mp_job *job)
{
	int all = job->n * (job->n + 1) / 2;
	struct tutti_comm *a, *b;

	MP_OK(tutti_comm_dup(job->world, &a));
	MP_OK(tutti_comm_dup(a, &b));
	TT_EXPECT(tutti_comm_rank(b) == job->rank && tutti_comm_size(b) == job->n);
	TT_EXPECT(tutti_comm_context(b) == job->ctx && a != b && a != job->world);
	TT_EXPECT(!sums_to(job, a, all) && !sums_to(job, b, all) && !sums_to(job, job->world, all));
	MP_OK(tutti_comm_free(a));
	TT_EXPECT(!sums_to(job, b, all));
	MP_OK(tutti_comm_free(b));
	return 0;
}

/* The expected sum over the members of color, and this rank's expected place among them. */
static void expect_split(struct mp_job *job, int color, int (*color_of)(int), int (*key_of)(int),
			 int *sum, int *rank, int *size)
{
	int i;

	*sum = *rank = *size = 0;
	for (i = 0; i < job->n; i++) {
		if (color_of(i) != color)
			continue;
		*sum += i + 1;
		++*size;
		*rank += key_of(i) < key_of(job->rank) ||
			 (key_of(i) == key_of(job->rank) && i < job->rank);
	}
}

static int zero(int r)
{
	return 0;
}

static int parity(int r)
{
	return r % 2;
}

static int third(int r)
{
	return r % 3 == 2 ? TUTTI_UNDEFINED : r % 3;
}

static int own(int r)
{
	return r * 1000000;
}

static int backward(int r)
{
	return -r;
}

static int pairs(int r)
{
	return r / 2 * -5;
}

static int split_once(struct mp_job *job, int (*color_of)(int), int (*key_of)(int))
{
	int color = color_of(job->rank), sum, rank, size;
	struct tutti_comm *c = (void *)job, *d;

	expect_split(job, color, color_of, key_of, &sum, &rank, &size);
	MP_OK(tutti_comm_split(job->world, color, key_of(job->rank), &c));
	if (color == TUTTI_UNDEFINED) {
		TT_EXPECT(!c);
		return 0;
	}
	TT_EXPECT(tutti_comm_rank(c) == rank && tutti_comm_size(c) == size);
	TT_EXPECT(!sums_to(job, c, sum));
	/* and the parts of a part */
	MP_OK(tutti_comm_split(c, rank % 2, 0, &d));
	MP_OK(tutti_barrier(d));
	TT_EXPECT(tutti_comm_size(d) == (rank % 2 ? size / 2 : (size + 1) / 2));
	MP_OK(tutti_comm_free(c));
	MP_OK(tutti_barrier(d));
	MP_OK(tutti_comm_free(d));
	return 0;
}

static int split_body(struct mp_job *job)
{
	int (*const colors[])(int) = {zero, parity, third, own};
	int (*const keys[])(int) = {zero, backward, pairs};
	size_t i, k;

	for (i = 0; i < 4; i++)
		for (k = 0; k < 3; k++)
			TT_EXPECT(!split_once(job, colors[i], keys[k]));
	return 0;
}

static void dups(void)
{
	int n;

	for (n = 1; n <= 4; n++)
		TT_CHECK(!MP_RUN(.n = n, .fn = dup_body));
}

static void split(void)
{
	int n;

	for (n = 1; n <= 7; n += 2)
		TT_CHECK(!MP_RUN(.n = n, .fn = split_body));
	if (!mp_no_ofi())
		TT_CHECK(!MP_RUN(.n = 4, .env = "TUTTI_TRANSPORT=ofi", .fn = split_body));
}

/* ---- hosts ---- */

/*
 * *arg: ranks of a host share its memory, and connect only if the chosen algorithms send messages
 * inside it.
 */
static int hosts_body(struct mp_job *job)
{
	struct tutti_comm *host, *across;
	struct tutti_config config = {0};
	int i, sum = 0, of_host = job->rank % 2, seen[2] = {0};
	float *v;

	setenv("TUTTI_HOST_ID", of_host ? "odd" : "even", 1);
	mp_log_level(job, TUTTI_LOG_INFO);
	MP_OK(mp_join(job, MP_ID, &config));
	MP_OK(tutti_comm_split_host(job->world, 0, &host));
	for (i = of_host; i < job->n; i += 2)
		sum += i + 1;
	TT_EXPECT(!sums_to(job, host, sum));
	MP_OK(tutti_comm_split(job->world, tutti_comm_rank(host), 0, &across));
	MP_OK(tutti_alloc(job->ctx, 300000 * 4, (void **)&v));
	for (i = 0; i < 300000; i++)
		v[i] = (float)(job->rank + 1);
	/* within the hosts, between them: the sum over all */
	MP_OK(tutti_allreduce(TUTTI_IN_PLACE, v, 300000, TUTTI_FLOAT32, TUTTI_SUM, host));
	MP_OK(tutti_allreduce(TUTTI_IN_PLACE, v, 300000, TUTTI_FLOAT32, TUTTI_SUM, across));
	for (i = 0; i < 300000; i++)
		TT_EXPECT(v[i] == (float)(job->n * (job->n + 1) / 2));
	MP_OK(tutti_allreduce(TUTTI_IN_PLACE, v, 300000, TUTTI_FLOAT32, TUTTI_AVG, job->world));
	TT_EXPECT(v[0] == (float)(job->n * (job->n + 1) / 2) && v[299999] == v[0]);
	for (i = 0; i < job->n; i++) {
		char text[64];

		snprintf(text, sizeof(text), "rank %d is reached over shm", i);
		if (mp_log_has(job, text)) {
			TT_EXPECT(i % 2 == of_host);
			seen[1]++;
		}
		snprintf(text, sizeof(text), "rank %d is reached over ofi, tcp", i);
		if (mp_log_has(job, text)) {
			TT_EXPECT(i % 2 != of_host);
			seen[0]++;
		}
	}
	TT_EXPECT(seen[0] > 0 && (seen[1] > 0 || *(bool *)job->arg));
	MP_OK(tutti_free(v));
	MP_OK(tutti_comm_free(host));
	MP_OK(tutti_comm_free(across));
	return 0;
}

static void hosts(void)
{
	bool shared = true, by_messages = false;
	int n;

	if (mp_no_ofi())
		TT_SKIP("%s", mp_no_ofi());
	for (n = 4; n <= 6; n += 2) {
		TT_CHECK(!MP_RUN(.n = n, .fn = hosts_body, .arg = &shared, .no_init = true));
		TT_CHECK(!MP_RUN(.n = n, .fn = hosts_body, .arg = &by_messages, .no_init = true,
				 .env = "TUTTI_NODE=off"));
	}
}

/* One at least has been told why; then all leave. */
static int some_told(struct mp_job *job, bool told)
{
	atomic_fetch_add(&job->shared->word[0], told);
	mp_meet(job);
	TT_EXPECT(atomic_load(&job->shared->word[0]) > 0);
	mp_leave(job);
	return 0;
}

/* Different hosts, and only shm allowed: that can't work, and must say so. */
static int apart_body(struct mp_job *job)
{
	struct tutti_config config = {0};
	int err;

	setenv("TUTTI_HOST_ID", job->rank ? "a" : "b", 1);
	err = mp_join(job, MP_ID, &config);
	if (!err)
		err = tutti_barrier(job->world);
	TT_EXPECT(err == -TUTTI_ETRANSPORT || err == -TUTTI_EPEER);
	return some_told(job, err == -TUTTI_ETRANSPORT);
}

static void apart(void)
{
	TT_CHECK(!MP_RUN(.n = 2, .env = "TUTTI_TRANSPORT=shm", .fn = apart_body, .no_init = true));
}

/* ---- transports that are opened when they are needed ---- */

static int not_opened_body(struct mp_job *job)
{
	struct tutti_config config = {0};

	mp_log_level(job, TUTTI_LOG_INFO);
	MP_OK(mp_join(job, MP_ID, &config));
	TT_EXPECT(!sums_to(job, job->world, job->n * (job->n + 1) / 2));
	TT_EXPECT(mp_log_has(job, "reached over shm") && !mp_log_has(job, "ofi"));
	return 0;
}

/* Is a library of this name loaded? */
static bool mapped(const char *name)
{
	char line[512];
	bool found = false;
	FILE *f = fopen("/proc/self/maps", "re");

	while (f && !found && fgets(line, sizeof(line), f))
		found = strstr(line, name);
	if (f)
		fclose(f);
	return found;
}

/* Windows of one host need the network as little as collectives do: its libraries are not even
 * loaded. */
static int not_loaded_body(struct mp_job *job)
{
	int next = (job->rank + 1) % job->n, before = (job->rank + job->n - 1) % job->n;
	struct tutti_config config = {0};
	uint64_t *mem, old;
	struct tutti_win *win;

	mp_log_level(job, TUTTI_LOG_INFO);
	MP_OK(mp_join(job, MP_ID, &config));
	MP_OK(tutti_alloc(job->ctx, 4096, (void **)&mem));
	memset(mem, 0, 4096);
	MP_OK(tutti_win_create(job->world, mem, 4096, 0, &win));
	mem[8] = (uint64_t)job->rank + 1;
	MP_OK(tutti_put(win, next, &mem[8], 8, 8));
	MP_OK(tutti_win_flush_all(win));
	MP_OK(tutti_fetch_add(win, next, 7, 0, &old));
	MP_OK(tutti_barrier(job->world));
	TT_EXPECT(mem[0] == 7 && mem[1] == (uint64_t)before + 1);
	MP_OK(tutti_win_free(win));
	MP_OK(tutti_free(mem));
	TT_EXPECT(!mp_log_has(job, "ofi"));
	TT_EXPECT(!mapped("libfabric") && !mapped("libibverbs") && !mapped("librdmacm"));
	return 0;
}

#define OPENED "transport ofi is opened now that it is needed"
#define LONG (1 << 20)

static int swap(struct mp_job *job, int peer, char *out, char *in)
{
	memset(out, job->rank + 1, LONG);
	MP_OK(tutti_sendrecv(out, LONG, TUTTI_UINT8, peer, 1, in, LONG, TUTTI_UINT8, peer, 1,
			     job->world, NULL));
	TT_EXPECT(in[0] == peer + 1 && in[LONG - 1] == peer + 1);
	return 0;
}

/*
 * A pair for which shared memory fails late: ranks 1 and 2 open libfabric and register existing
 * regions with it; rank 0, to which both are connected, does not open it.
 */
static int late_pair_body(struct mp_job *job)
{
	struct tutti_stats a = {.size = sizeof(a)}, b = {.size = sizeof(b)};
	struct tutti_config config = {0};
	char *in, *out;
	int i;

	mp_log_level(job, TUTTI_LOG_INFO);
	MP_OK(mp_join(job, MP_ID, &config));
	MP_OK(tutti_alloc(job->ctx, LONG, (void **)&in));
	MP_OK(tutti_alloc(job->ctx, LONG, (void **)&out));
	TT_EXPECT(job->rank == 1 || !swap(job, 2 - job->rank, out, in));
	if (job->rank == 1)
		TT_EXPECT(!mp_forbid_vm());
	mp_meet(job);
	for (i = 0; i < 2 && job->rank > 0; i++) {
		MP_OK(tutti_stats_get(job->ctx, &a));
		TT_EXPECT(!swap(job, 3 - job->rank, out, in));
		MP_OK(tutti_stats_get(job->ctx, &b));
	}
	TT_EXPECT(b.copied_bytes - a.copied_bytes < 4096); /* heads only */
	TT_EXPECT(mp_log_has(job, OPENED) == (job->rank > 0));
	mp_meet(job);
	TT_EXPECT(!sums_to(job, job->world, job->n * (job->n + 1) / 2));
	MP_OK(tutti_free(in));
	MP_OK(tutti_free(out));
	return 0;
}

/* One rank was asked to use libfabric from the start, the others open it for that one. */
static int late_others_body(struct mp_job *job)
{
	struct tutti_config config = {0};

	mp_log_level(job, TUTTI_LOG_INFO);
	if (job->rank == 2)
		setenv("TUTTI_TRANSPORT", "ofi", 1);
	MP_OK(mp_join(job, MP_ID, &config));
	TT_EXPECT(!sums_to(job, job->world, job->n * (job->n + 1) / 2));
	TT_EXPECT(mp_log_has(job, OPENED) == (job->rank < 2));
	TT_EXPECT(mp_log_has(job, "reached over ofi"));
	return 0;
}

/*
 * A rank on another host cannot open the transport that it has offered: all ranks get the reason.
 */
static int late_fails_body(struct mp_job *job)
{
	struct tutti_error_info info = {.size = sizeof(info)};
	struct tutti_config config = {0};
	int err;

	mp_log_level(job, TUTTI_LOG_INFO);
	setenv("TUTTI_HOST_ID", job->rank < 2 ? "a" : "b", 1);
	if (job->rank == 2)
		setenv("FI_PROVIDER", "none", 1);
	err = mp_join(job, MP_ID, &config);
	if (!err)
		err = tutti_barrier(job->world);
	TT_EXPECT(err == -TUTTI_ETRANSPORT || err == -TUTTI_EPEER);
	TT_EXPECT(!tutti_last_error(&info));
	TT_EXPECT(mp_log_has(job, OPENED) == (job->rank < 2));
	return some_told(job, strstr(info.text, "provider"));
}

static void when_needed(void)
{
	static mp_fn *const bodies[] = {not_opened_body, not_loaded_body, late_pair_body,
					late_others_body, late_fails_body};
	size_t i;

	if (mp_no_ofi())
		TT_SKIP("%s", mp_no_ofi());
	/*
	 * by the algorithm in which each sends to all others, which is not the choice on one
	 * processor
	 */
	for (i = 0; i < sizeof(bodies) / sizeof(bodies[0]); i++)
		TT_CHECK(!MP_RUN(.n = 3, .env = "TUTTI_NODE=off TUTTI_ALGO=allreduce:radix",
				 .fn = bodies[i], .no_init = true));
}

/* Calls of read so far; -1: the kernel does not count them. */
static long reads(void)
{
	return tt_proc_number("io", "syscr");
}

/* libfabric's provider verbs would take 10,000 for the kernel's symbols. */
static int few_reads_body(struct mp_job *job)
{
	struct tutti_config config = {0};
	long before = reads();

	MP_OK(mp_join(job, MP_ID, &config));
	TT_EXPECT(!sums_to(job, job->world, job->n * (job->n + 1) / 2));
	TT_EXPECT(mapped("libfabric"));
	TT_EXPECT(before < 0 || reads() - before < 4000);
	return 0;
}

static void few_reads(void)
{
	if (mp_no_ofi())
		TT_SKIP("%s", mp_no_ofi());
	if (!mp_no_verbs())
		TT_SKIP("%s", "there is an RDMA device");
	TT_CHECK(!MP_RUN(.n = 2, .env = "TUTTI_TRANSPORT=ofi", .fn = few_reads_body,
			 .no_init = true));
}

/* ---- hundreds ---- */

static int many_body(struct mp_job *job)
{
	long before = 0, after;
	struct tutti_comm *c;
	float v[2000] = {0};
	int i, k;

	for (i = 0; i < 600; i++) {
		if (i == 100)
			before = tt_resident() / 1024;
		MP_OK(i % 2 ? tutti_comm_dup(job->world, &c)
			    : tutti_comm_split(job->world, i / 2 % 2, job->rank, &c));
		for (k = 0; k < 3; k++)
			MP_OK(tutti_allreduce(TUTTI_IN_PLACE, v, k ? 10 : 2000, TUTTI_FLOAT32,
					      TUTTI_SUM, c));
		MP_OK(tutti_comm_free(c));
	}
	after = tt_resident() / 1024;
	if (after - before > 2000)
		fprintf(stderr, "rank %d: %ld KiB more after 500 communicators\n", job->rank,
			after - before);
	/*
	 * The shells of freed ones stay, to catch their use: about 5 KiB each with their history.
	 */
	TT_EXPECT(after - before < (mp_sanitized() ? 100000 : 8000));
	return 0;
}

static void many(void)
{
	TT_CHECK(!MP_RUN(.n = 3, .fn = many_body));
}

/* Alive at the same time. */
static int crowd_body(struct mp_job *job)
{
	struct tutti_comm *c[100];
	struct tutti_request *req[100];
	int32_t v[100];
	int i;

	for (i = 0; i < 100; i++)
		MP_OK(tutti_comm_split(i ? c[i - 1] : job->world, 0, i % 2 ? job->rank : -job->rank,
				       &c[i]));
	for (i = 0; i < 100; i++) {
		v[i] = i + job->rank;
		MP_OK(tutti_iallreduce(TUTTI_IN_PLACE, &v[i], 1, TUTTI_INT32, TUTTI_MAX, c[i],
				       &req[i]));
	}
	MP_OK(tutti_waitall(100, req));
	for (i = 0; i < 100; i++) {
		TT_EXPECT(v[i] == i + job->n - 1);
		TT_EXPECT(tutti_comm_rank(c[i]) == (i % 2 ? job->rank : job->n - 1 - job->rank));
	}
	for (i = 0; i < 100; i++)
		MP_OK(tutti_comm_free(c[i * 37 % 100]));
	return 0;
}

static void crowd(void)
{
	TT_CHECK(!MP_RUN(.n = 3, .fn = crowd_body));
}

/* ---- threads ---- */

#define THREADS 4

struct worker {
	struct mp_job *job;
	struct tutti_comm *comm;
	pthread_barrier_t *together;
	int id, failed;
};

/* Messages, also from any source, and groups, beside those of the other threads. */
static int talk(struct mp_job *job, struct worker *w, int32_t *v, size_t count, int i)
{
	int n = job->n, next = (job->rank + 1) % n, before = (job->rank + n - 1) % n;
	struct tutti_request *req[2];
	int32_t mine = 1000 * job->rank + i, got = -1, a = 1, b = job->rank;
	struct tutti_status status;
	size_t k;

	MP_OK(tutti_irecv(&got, 1, TUTTI_INT32, TUTTI_ANY_SOURCE, w->id, w->comm, &status,
			  &req[0]));
	MP_OK(tutti_isend(&mine, 1, TUTTI_INT32, next, w->id, w->comm, &req[1]));
	MP_OK(tutti_waitall(2, req));
	TT_EXPECT(got == 1000 * before + i && status.source == before);
	for (k = 0; k < count; k++)
		v[k] = mine + (int32_t)k;
	MP_OK(tutti_group_start());
	MP_OK(tutti_isend(v, count / 2, TUTTI_INT32, next, 7, w->comm, &req[0]));
	MP_OK(tutti_irecv(v + count / 2, count / 2, TUTTI_INT32, before, 7, w->comm, NULL,
			  &req[1]));
	MP_OK(tutti_allreduce(TUTTI_IN_PLACE, &a, 1, TUTTI_INT32, TUTTI_SUM, w->comm));
	MP_OK(tutti_allreduce(TUTTI_IN_PLACE, &b, 1, TUTTI_INT32, TUTTI_SUM, w->comm));
	MP_OK(tutti_group_end());
	MP_OK(tutti_waitall(2, req));
	TT_EXPECT(a == n && b == n * (n - 1) / 2);
	for (k = 0; k < count / 2; k++)
		TT_EXPECT(v[count / 2 + k] == got + (int32_t)k);
	return 0;
}

static int work(struct mp_job *job, struct worker *w)
{
	size_t count = w->id % 2 ? 20000 : 50, k;
	struct tutti_comm *sub;
	int32_t *v, root;
	int i;

	MP_OK(tutti_alloc(job->ctx, count * 4, (void **)&v));
	for (i = 0; i < 150; i++) {
		for (k = 0; k < count; k++)
			v[k] = (int32_t)k + job->rank * i + w->id;
		MP_OK(tutti_allreduce(TUTTI_IN_PLACE, v, count, TUTTI_INT32, TUTTI_MAX, w->comm));
		for (k = 0; k < count; k++)
			TT_EXPECT(v[k] == (int32_t)k + (job->n - 1) * i + w->id);
		root = i % job->n;
		v[0] = job->rank == root ? i : -1;
		MP_OK(tutti_bcast(v, 1, TUTTI_INT32, root, w->comm));
		TT_EXPECT(v[0] == i);
		if (i % 3 == 0)
			TT_EXPECT(!talk(job, w, v, count, i));
		if (i % 15 == 14) { /* communicators are made by several threads at once, too */
			pthread_barrier_wait(w->together);
			MP_OK(tutti_comm_split(w->comm, job->rank % 2, 0, &sub));
			MP_OK(tutti_barrier(sub));
			MP_OK(tutti_comm_free(sub));
		}
	}
	MP_OK(tutti_free(v));
	return 0;
}

static void *run_worker(void *arg)
{
	struct worker *w = arg;

	w->failed = work(w->job, w);
	if (w->failed)
		_exit(1); /* the other ranks' threads must not wait for this one */
	return NULL;
}

static int threads_body(struct mp_job *job)
{
	struct worker w[THREADS];
	pthread_barrier_t together;
	pthread_t t[THREADS];
	int i;

	pthread_barrier_init(&together, NULL, THREADS);
	for (i = 0; i < THREADS; i++) {
		w[i] = (struct worker){.job = job, .together = &together, .id = i};
		MP_OK(tutti_comm_dup(job->world, &w[i].comm));
	}
	for (i = 0; i < THREADS; i++)
		TT_EXPECT(!pthread_create(&t[i], NULL, run_worker, &w[i]));
	for (i = 0; i < THREADS; i++) {
		pthread_join(t[i], NULL);
		TT_EXPECT(!w[i].failed);
		MP_OK(tutti_comm_free(w[i].comm));
	}
	return 0;
}

static void threads(void)
{
	TT_CHECK(!MP_RUN(.n = 2, .fn = threads_body));
	TT_CHECK(!MP_RUN(.n = 3, .fn = threads_body, .env = "TUTTI_PROGRESS=thread"));
	if (!mp_no_ofi())
		TT_CHECK(!MP_RUN(.n = 2, .fn = threads_body, .env = "TUTTI_TRANSPORT=ofi"));
}

/*
 * The last rank makes no calls. The others wait for it, and for each other, in four communicators,
 * and ask each other what they wait for: more ranks than an answer has room for.
 */
static int asked_body(struct mp_job *job)
{
	enum { COUNT = 50000, COMMS = 4 };
	static float in[5 * COUNT], out[COMMS][5 * COUNT];
	struct tutti_request *req[COMMS];
	struct tutti_comm *comm[COMMS];
	int i;

	for (i = 0; i < COMMS; i++)
		MP_OK(tutti_comm_dup(job->world, &comm[i]));
	mp_meet(job);
	for (i = 0; i < COMMS && job->rank < job->n - 1; i++)
		MP_OK(tutti_ialltoall(in, out[i], COUNT, TUTTI_FLOAT32, comm[i], &req[i]));
	if (job->rank < job->n - 1)
		MP_ERR(tutti_waitall(COMMS, req), -ETIMEDOUT);
	mp_meet(job);
	return mp_leave_failed(job);
}

static void asked(void)
{
	TT_CHECK(!MP_RUN(.n = 5, .fn = asked_body,
			 .env = "TUTTI_TIMEOUT=3s TUTTI_NODE=off TUTTI_TRANSPORT=shm"));
}

int main(int argc, char **argv)
{
	static const struct tt_test tests[] = {
		{"dup", dups},
		{"split", split},
		{"hosts", hosts},
		{"apart", apart},
		{"when_needed", when_needed},
		{"few_reads", few_reads},
		{"many", many},
		{"crowd", crowd},
		{"threads", threads},
		{"asked", asked},
		{NULL, NULL},
	};

	return tt_test_main("comm", tests, argc, argv);
}
