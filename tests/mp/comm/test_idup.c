/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Nonblocking dup and split: several at once, in other orders on other ranks, beside blocking
 * calls, late ranks, errors and deaths.
 */
#include "config.h"

#include "tests/mp/job.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#define PARENTS 3
#define EACH 8 /* on each parent: dups and splits in turn */
#define ALL (PARENTS * EACH)
#define MESSAGES 200

/* The members of comm are ranks first, first + step, ... of the world, in this order or reversed.
 */
static int check_comm(struct mp_job *job, struct tutti_comm *comm, int first, int step, bool back)
{
	int i, n = 0, sum = 0, place = -1;
	int32_t v[2] = {job->rank + 1, 1};

	for (i = first; i < job->n; i += step) {
		place = i == job->rank ? n : place;
		sum += i + 1;
		n++;
	}
	TT_EXPECT(tutti_comm_size(comm) == n && place >= 0);
	TT_EXPECT(tutti_comm_rank(comm) == (back ? n - 1 - place : place));
	MP_OK(tutti_allreduce(TUTTI_IN_PLACE, v, 2, TUTTI_INT32, TUTTI_SUM, comm));
	TT_EXPECT(v[0] == sum && v[1] == n);
	return 0;
}

/* The k-th on its parent. */
static int begin_one(struct mp_job *job, struct tutti_comm *parent, int k, struct tutti_comm **comm,
		     struct tutti_request **req)
{
	if (k % 2)
		MP_OK(tutti_comm_isplit(parent, job->rank % 2, -job->rank, comm, req));
	else
		MP_OK(tutti_comm_idup(parent, comm, req));
	return 0;
}

static int check_one(struct mp_job *job, int k, struct tutti_comm *comm)
{
	return k % 2 ? check_comm(job, comm, job->rank % 2, 2, true)
		     : check_comm(job, comm, 0, 1, false);
}

/* On each rank another parent's comes first; ways: which calls collect them. */
static int collect_all(struct mp_job *job, struct tutti_request **req)
{
	int i, done = 0, index, left = ALL;

	switch (job->rank % 3) {
	case 0:
		MP_OK(tutti_waitall(ALL, req));
		break;
	case 1:
		for (; left; left--)
			MP_OK(tutti_waitany(ALL, req, &index));
		break;
	default:
		for (i = ALL - 1; i >= 0; i--, done = 0)
			while (!done)
				MP_OK(tutti_test(&req[i], &done));
	}
	for (i = 0; i < ALL; i++)
		TT_EXPECT(!req[i]);
	return 0;
}

static int orders_body(struct mp_job *job)
{
	struct tutti_comm *parent[PARENTS], *comm[ALL] = {NULL};
	struct tutti_request *req[ALL], *sum[PARENTS];
	int32_t v[PARENTS];
	int i, k, p;

	for (p = 0; p < PARENTS; p++)
		MP_OK(tutti_comm_dup(job->world, &parent[p]));
	for (i = 0; i < PARENTS; i++) {
		p = (i + job->rank) % PARENTS;
		v[p] = p;
		for (k = 0; k < EACH / 2; k++)
			TT_EXPECT(!begin_one(job, parent[p], k, &comm[EACH * p + k],
					     &req[EACH * p + k]));
		MP_OK(tutti_iallreduce(TUTTI_IN_PLACE, &v[p], 1, TUTTI_INT32, TUTTI_SUM, parent[p],
				       &sum[p]));
	}
	for (i = 0; i < PARENTS; i++) {
		p = (2 * i + job->rank) % PARENTS;
		for (k = EACH / 2; k < EACH; k++)
			TT_EXPECT(!begin_one(job, parent[p], k, &comm[EACH * p + k],
					     &req[EACH * p + k]));
	}
	TT_EXPECT(!collect_all(job, req));
	MP_OK(tutti_waitall(PARENTS, sum));
	for (i = 0; i < ALL; i++)
		TT_EXPECT(!check_one(job, i % EACH, comm[i]));
	for (p = 0; p < PARENTS; p++) {
		TT_EXPECT(v[p] == p * job->n);
		MP_OK(tutti_comm_free(parent[p]));
	}
	for (i = 0; i < ALL; i++)
		MP_OK(tutti_comm_free(comm[i]));
	return 0;
}

/* A blocking call matches; ranks without a color get NULL; the parent may be freed meanwhile. */
static int mixed_body(struct mp_job *job)
{
	struct tutti_comm *a, *b, *c, *none = (struct tutti_comm *)job;
	struct tutti_request *req = NULL;

	if (job->rank % 2)
		MP_OK(tutti_comm_dup(job->world, &a));
	else
		MP_OK(tutti_comm_idup(job->world, &a, &req));
	MP_OK(tutti_wait(&req));
	TT_EXPECT(!check_comm(job, a, 0, 1, false));
	MP_OK(tutti_comm_isplit(a, job->rank ? 5 : TUTTI_UNDEFINED, 0, &none, &req));
	MP_OK(tutti_wait(&req));
	if (job->rank) {
		TT_EXPECT(!check_comm(job, none, 1, 1, false));
		MP_OK(tutti_comm_free(none));
	}
	TT_EXPECT(job->rank || !none);
	MP_OK(tutti_comm_idup(a, &b, &req));
	MP_OK(tutti_comm_free(a));
	MP_ERR(tutti_comm_idup(a, &c, &(struct tutti_request *){NULL}), -EINVAL);
	MP_OK(tutti_wait(&req));
	TT_EXPECT(!check_comm(job, b, 0, 1, false));
	MP_OK(tutti_comm_free(b));
	return 0;
}

/* The others use the new communicator before rank 0 has collected it. */
static int late_body(struct mp_job *job)
{
	struct tutti_comm *comm = NULL;
	struct tutti_request *req, *sum, *msg[MESSAGES] = {NULL};
	int32_t in, out = job->rank, v = job->rank + 1;
	int i, r, done = 0;

	MP_OK(tutti_comm_idup(job->world, &comm, &req));
	if (job->rank) {
		MP_OK(tutti_wait(&req));
		MP_OK(tutti_iallreduce(TUTTI_IN_PLACE, &v, 1, TUTTI_INT32, TUTTI_SUM, comm, &sum));
		for (i = 0; i < MESSAGES; i++)
			MP_OK(tutti_isend(&out, 1, TUTTI_INT32, 0, i, comm, &msg[i]));
	}
	while (!job->rank && !done)
		MP_OK(tutti_request_get_status(req, &done));
	TT_EXPECT(job->rank || (req && comm)); /* it has ended, and stays */
	mp_meet(job);
	if (!job->rank) {
		MP_OK(tutti_wait(&req));
		MP_OK(tutti_iallreduce(TUTTI_IN_PLACE, &v, 1, TUTTI_INT32, TUTTI_SUM, comm, &sum));
	}
	for (r = 1; !job->rank && r < job->n; r++)
		for (i = 0; i < MESSAGES; i++) {
			MP_OK(tutti_recv(&in, 1, TUTTI_INT32, r, i, comm, NULL));
			TT_EXPECT(in == r);
		}
	MP_OK(tutti_waitall(MESSAGES, msg));
	MP_OK(tutti_wait(&sum));
	TT_EXPECT(v == job->n * (job->n + 1) / 2);
	MP_OK(tutti_barrier(comm));
	MP_OK(tutti_comm_free(comm));
	return 0;
}

static int differ_body(struct mp_job *job)
{
	struct tutti_comm *parent, *comm = NULL;
	struct tutti_request *req = NULL;
	int32_t v = 1;

	MP_OK(tutti_comm_dup(job->world, &parent));
	if (job->rank)
		MP_OK(tutti_iallreduce(TUTTI_IN_PLACE, &v, 1, TUTTI_INT32, TUTTI_SUM, parent,
				       &req));
	else
		MP_OK(tutti_comm_idup(parent, &comm, &req));
	MP_ERR(tutti_wait(&req), -TUTTI_EMISMATCH);
	MP_SAID("allreduce");
	MP_SAID("comm_dup #1");
	TT_EXPECT(!comm);
	MP_ERR(tutti_comm_idup(parent, &comm, &req), -TUTTI_EMISMATCH);
	TT_EXPECT(!comm && !req);
	MP_OK(tutti_barrier(job->world));
	return 0;
}

/* Only rank 0 calls: the others hear of it at their next call. */
static int timeout_body(struct mp_job *job)
{
	struct tutti_comm *parent, *comm = NULL;
	struct tutti_request *req;

	MP_OK(tutti_comm_dup(job->world, &parent));
	if (!job->rank) {
		MP_OK(tutti_comm_idup(parent, &comm, &req));
		MP_OK(tutti_request_set_timeout(req, 150));
		MP_ERR(tutti_wait(&req), -ETIMEDOUT);
		TT_EXPECT(!comm);
	}
	mp_meet(job);
	MP_OK(tutti_barrier(job->world));
	return 0;
}

static int args_body(struct mp_job *job)
{
	struct tutti_comm_state state = {.size = sizeof(state)};
	struct tutti_comm *comm = NULL, *parent;
	struct tutti_request *req = NULL;
	int done = 0;

	MP_ERR(tutti_comm_idup(NULL, &comm, &req), -EINVAL);
	MP_ERR(tutti_comm_idup(job->world, NULL, &req), -EINVAL);
	MP_SAID("newcomm");
	MP_ERR(tutti_comm_idup(job->world, &comm, NULL), -EINVAL);
	MP_SAID("request");
	MP_ERR(tutti_comm_isplit(job->world, -2, 0, &comm, &req), -EINVAL);
	MP_SAID("color is -2");
	MP_OK(tutti_group_start());
	MP_ERR(tutti_comm_idup(job->world, &comm, &req), -EINVAL);
	MP_SAID("tutti_group");
	MP_OK(tutti_group_end());
	TT_EXPECT(!comm && !req);
	parent = tutti_self(job->ctx);
	MP_OK(tutti_comm_idup(parent, &comm, &req));
	MP_OK(tutti_wait(&req));
	TT_EXPECT(tutti_comm_size(comm) == 1);
	MP_OK(tutti_comm_free(comm));
	comm = NULL;
	MP_OK(tutti_comm_dup(job->world, &parent));
	if (job->rank == job->n - 1) /* the others find theirs running until then */
		mp_meet(job);
	MP_OK(tutti_comm_idup(parent, &comm, &req));
	MP_ERR(tutti_cancel(req), -EINVAL);
	MP_ERR(tutti_start(req), -EINVAL);
	if (job->rank < job->n - 1) {
		MP_ERR(tutti_request_free(req), -EBUSY);
		TT_EXPECT(!comm);
		MP_OK(tutti_comm_state(parent, &state));
		TT_EXPECT(state.requests == 1 && state.pending == 1);
		mp_meet(job);
	}
	while (!done)
		MP_OK(tutti_request_get_status(req, &done));
	TT_EXPECT(comm && !check_comm(job, comm, 0, 1, false));
	MP_OK(tutti_request_free(req)); /* it has ended: the communicator is there */
	return 0;
}

/* Communicators whose memory of the host is mapped. */
static int count_areas(void)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	char line[512];
	int n = 0;

	while (maps && fgets(line, sizeof(line), maps))
		n += strstr(line, "tutti-area") != NULL;
	if (maps)
		fclose(maps);
	return n;
}

/* A rank that dies has begun its part, or has not; then the others wait for its host memory. */
struct death {
	bool tolerant, begun;
	int victim;
};

/* Nothing is left of n failed requests. */
static int check_left(struct mp_job *job, struct tutti_comm *parent, int areas)
{
	struct tutti_comm_state state = {.size = sizeof(state)};

	MP_OK(tutti_comm_state(parent, &state));
	TT_EXPECT(state.requests == 0 && state.pending == 0);
	MP_OK(tutti_comm_free(parent));
	TT_EXPECT(count_areas() == areas);
	return 0;
}

static int test_often(struct mp_job *job, int n, struct tutti_request **req)
{
	int i, done;

	for (i = 0; i < n; i++, mp_sleep_ms(1)) {
		MP_OK(tutti_test(req, &done));
		TT_EXPECT(!done);
	}
	return 0;
}

/* All have begun splits, which cannot end, when the victim dies; it has perhaps sent its part. */
static int begin_and_die(struct mp_job *job, const struct death *d, struct tutti_comm *parent,
			 struct tutti_comm **comm, struct tutti_request **req)
{
	bool victim = job->rank == d->victim;
	int k;

	if (!victim)
		mp_meet(job);
	for (k = 0; k < EACH && (d->begun || !victim); k++)
		TT_EXPECT(!begin_one(job, parent, k, &comm[k], &req[k]));
	if (d->begun || !victim)
		TT_EXPECT(!test_often(job, victim ? 3 : 20, &req[0]));
	if (victim)
		mp_meet(job);
	mp_meet(job);
	if (victim)
		kill(getpid(), SIGKILL);
	return 0;
}

static int death_body(struct mp_job *job)
{
	const struct death *d = job->arg;
	struct tutti_comm_config how = {.size = sizeof(how),
					.flags = d->tolerant ? TUTTI_COMM_TOLERANT : 0};
	struct tutti_comm *parent, *comm[EACH] = {NULL}, *left, *next;
	struct tutti_error_info info = {.size = sizeof(info)};
	struct tutti_request *req[EACH] = {NULL};
	int k, areas;

	MP_OK(tutti_comm_create(job->world, &how, &parent));
	MP_OK(tutti_barrier(parent));
	areas = count_areas();
	TT_EXPECT(!begin_and_die(job, d, parent, comm, req));
	for (k = 0; k < EACH; k++) {
		MP_ERR(tutti_wait(&req[k]), -TUTTI_EPEER);
		TT_EXPECT(!comm[k] && !req[k]);
	}
	MP_ERR(tutti_comm_isplit(parent, 0, 0, &comm[0], &req[0]), -TUTTI_EPEER);
	MP_OK(tutti_last_error(&info));
	TT_EXPECT(!strcmp(info.call, "comm_isplit") && info.rank == d->victim);
	TT_EXPECT(!comm[0] && !req[0]);
	MP_OK(tutti_comm_shrink(parent, &left));
	TT_EXPECT(!check_left(job, parent, areas)); /* one more, one less */
	MP_OK(tutti_comm_idup(left, &next, &req[0]));
	MP_OK(tutti_wait(&req[0]));
	TT_EXPECT(!check_comm(job, next, !d->victim, d->victim == 1 ? 2 : 1, false));
	TT_EXPECT(!mp_leave_failed(job));
	return 0;
}

/* It dies after so many looks at its own request, others wait in the blocking call. */
struct death_in_dup {
	int victim, looks;
};

static int dup_death_body(struct mp_job *job)
{
	const struct death_in_dup *d = job->arg;
	struct tutti_error_info info = {.size = sizeof(info)};
	struct tutti_comm *parent, *comm = NULL;
	struct tutti_request *req;
	int i, err, done;
	char name[24];

	MP_OK(tutti_comm_dup(job->world, &parent));
	MP_OK(tutti_barrier(parent));
	mp_meet(job);
	if (job->rank == d->victim) {
		MP_OK(tutti_comm_idup(parent, &comm, &req));
		for (i = 0; i < d->looks; i++)
			MP_OK(tutti_test(&req, &done));
		kill(getpid(), SIGKILL);
	}
	err = tutti_comm_dup(parent, &comm);
	MP_ERR(err ? err : tutti_barrier(comm), -TUTTI_EPEER);
	MP_OK(tutti_last_error(&info));
	snprintf(name, sizeof(name), "rank %d ", d->victim);
	TT_EXPECT(info.rank == d->victim && info.host[0] && strstr(info.text, name));
	MP_ERR(tutti_comm_dup(parent, &comm), -TUTTI_EPEER);
	MP_OK(tutti_last_error(&info));
	TT_EXPECT(info.rank == d->victim && !strcmp(info.call, "comm_dup"));
	return mp_leave_failed(job);
}

/*
 * The ranks of one host share memory that the lowest one makes. It has sent its part, but makes no
 * calls until the others have given up: only the new communicator fails, on all ranks. The news may
 * reach that rank before or after its request ends.
 */
static int no_area_body(struct mp_job *job)
{
	struct tutti_comm *parent, *comm = NULL;
	struct tutti_request *req;
	int err;

	MP_OK(tutti_comm_dup(job->world, &parent));
	MP_OK(tutti_barrier(parent));
	if (job->rank)
		mp_meet(job);
	MP_OK(tutti_comm_idup(parent, &comm, &req));
	TT_EXPECT(!test_often(job, 3, &req));
	mp_meet(job);
	if (!job->rank)
		mp_meet(job);
	if (job->rank) {
		TT_EXPECT(!test_often(job, 20, &req));
		MP_OK(tutti_request_set_timeout(req, 200));
		MP_ERR(tutti_wait(&req), -ETIMEDOUT);
		MP_SAID("rank 0 on host ");
		MP_SAID("made no area");
	}
	mp_meet(job);
	if (!job->rank) {
		err = tutti_wait(&req);
		TT_EXPECT(!err == !!comm);
		MP_ERR(err ? err : tutti_barrier(comm), -ETIMEDOUT);
		MP_SAID("made no area");
		if (comm)
			MP_OK(tutti_comm_free(comm));
		comm = NULL;
	}
	TT_EXPECT(!comm && !req);
	MP_OK(tutti_comm_idup(parent, &comm, &req));
	MP_OK(tutti_wait(&req));
	TT_EXPECT(!check_comm(job, comm, 0, 1, false));
	return 0;
}

#define APART "TUTTI_NODE=off" /* the ranks share no memory: only messages */
#define OFI "TUTTI_TRANSPORT=ofi TUTTI_IF=lo " APART

static int each(mp_fn *fn, int least, int most)
{
	int n, failed = 0;

	for (n = least; n <= most; n++)
		failed += MP_RUN(.n = n, .fn = fn);
	failed += MP_RUN(.n = most, .fn = fn, .env = APART);
	if (!mp_no_ofi())
		failed += MP_RUN(.n = most, .fn = fn, .env = OFI);
	return failed;
}

static void orders(void)
{
	TT_CHECK(!each(orders_body, 1, 4));
	TT_CHECK(!MP_RUN(.n = 3, .fn = orders_body, .env = "TUTTI_PROGRESS=thread"));
}

static void mixed(void)
{
	TT_CHECK(!each(mixed_body, 2, 3));
}

static void late(void)
{
	TT_CHECK(!each(late_body, 2, 3));
}

static void differ(void)
{
	TT_CHECK(!each(differ_body, 2, 3));
}

static void timed_out(void)
{
	TT_CHECK(!each(timeout_body, 2, 2));
}

static void args(void)
{
	TT_CHECK(!each(args_body, 1, 3));
}

static void dup_deaths(void)
{
	static const char *const envs[] = {"TUTTI_IF=lo", APART, OFI};
	struct death_in_dup d;
	unsigned i;

	for (i = 0; i < sizeof(envs) / sizeof(envs[0]); i++)
		for (d.victim = 0; d.victim < 4; d.victim += 3)
			for (d.looks = 0; d.looks < 5 && !(i == 2 && mp_no_ofi()); d.looks += 2)
				TT_CHECK(!MP_RUN(.n = 4, .fn = dup_death_body, .env = envs[i],
						 .arg = &d, .killed = 1u << d.victim));
}

#define SLOTS "TUTTI_ALGO=allgather:node_slots:0-64K"

static void no_area(void)
{
	TT_CHECK(!MP_RUN(.n = 3, .fn = no_area_body, .env = SLOTS));
}

/* Where ranks share no memory nothing follows the exchange. */
static void deaths(void)
{
	struct death d[] = {{false, false, 1}, {true, false, 1}, {false, true, 0}, {true, true, 0}};
	unsigned i;

	for (i = 0; i < sizeof(d) / sizeof(d[0]); i++) {
		TT_CHECK(!MP_RUN(.n = 3, .fn = death_body, .killed = 1u << d[i].victim,
				 .env = SLOTS, .arg = &d[i]));
		if (!d[i].begun && !mp_no_ofi())
			TT_CHECK(!MP_RUN(.n = 3, .fn = death_body, .killed = 1u << d[i].victim,
					 .env = OFI, .arg = &d[i]));
	}
}

#define VERBS "TUTTI_TRANSPORT=verbs TUTTI_TIMEOUT=60s " APART

static void verbs(void)
{
	struct death d[] = {{false, false, 1}, {true, false, 1}};
	unsigned i;

	if (mp_no_verbs())
		TT_SKIP("%s", mp_no_verbs());
	TT_CHECK(!MP_RUN(.n = 3, .fn = orders_body, .env = VERBS));
	for (i = 0; i < sizeof(d) / sizeof(d[0]); i++)
		TT_CHECK(!MP_RUN(.n = 3, .fn = death_body, .killed = 1u << d[i].victim,
				 .env = VERBS, .arg = &d[i]));
}

int main(int argc, char **argv)
{
	static const struct tt_test tests[] = {
		{"orders", orders},
		{"mixed", mixed},
		{"late", late},
		{"differ", differ},
		{"timed_out", timed_out},
		{"args", args},
		{"no_area", no_area},
		{"deaths", deaths},
		{"dup_deaths", dup_deaths},
		{"verbs", verbs},
		{NULL, NULL},
	};

	return tt_test_main("idup", tests, argc, argv);
}
