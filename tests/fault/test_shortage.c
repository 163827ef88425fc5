/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Three allocations of rank 1 in a row fail during a call that other ranks wait in, from the N-th
 * on, for every N: the call works, or it or what it makes fails with one code on all ranks, the
 * error names rank 1, and the parent goes on. Then all allocations of all its threads fail, or many
 * calls in a row. At last, rank 1 has no room for mappings of its peers' memory, and for
 * connections. It may hear late what its peers say about these.
 */
#include <errno.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

#include "tests/fault/allocations.h"
#include "tests/fault/limits.h"

#define ROW 3
#define MOST 200 /* allocations of a call */
#define MADE 90	 /* calls in a row */

/* ---- the calls ---- */

typedef int make_fn(struct mp_job *job, struct tutti_comm *parent, struct tutti_comm **made);

static int make_dup(struct mp_job *job, struct tutti_comm *parent, struct tutti_comm **made)
{
	(void)job;
	return tutti_comm_dup(parent, made);
}

static int make_split(struct mp_job *job, struct tutti_comm *parent, struct tutti_comm **made)
{
	return tutti_comm_split(parent, 0, -job->rank, made);
}

static int make_create(struct mp_job *job, struct tutti_comm *parent, struct tutti_comm **made)
{
	struct tutti_comm_config how = {.size = sizeof(how), .flags = TUTTI_COMM_TOLERANT};

	(void)job;
	return tutti_comm_create(parent, &how, made);
}

static int make_idup(struct mp_job *job, struct tutti_comm *parent, struct tutti_comm **made)
{
	struct tutti_request *req;
	int err = tutti_comm_idup(parent, made, &req);

	(void)job;
	return err ? err : tutti_wait(&req);
}

static int make_isplit(struct mp_job *job, struct tutti_comm *parent, struct tutti_comm **made)
{
	struct tutti_request *req;
	int err = tutti_comm_isplit(parent, 0, job->rank, made, &req);

	return err ? err : tutti_wait(&req);
}

static int make_group(struct mp_job *job, struct tutti_comm *parent, struct tutti_comm **made)
{
	struct tutti_comm_config how = {.size = sizeof(how), .nranks = job->n};

	return tutti_comm_create_group(parent, &how, made);
}

static int make_shrunk(struct mp_job *job, struct tutti_comm *parent, struct tutti_comm **made)
{
	(void)job;
	return tutti_comm_shrink(parent, made);
}

static int make_agreement(struct mp_job *job, struct tutti_comm *parent, struct tutti_comm **made)
{
	uint64_t ranks = 1u << job->rank;

	(void)made;
	return tutti_comm_agree(parent, TUTTI_BOR, &ranks);
}

static make_fn *const make_fns[] = {make_dup,	 make_split, make_create, make_idup,
				    make_isplit, make_group, make_shrunk, make_agreement};

/* ---- what comes of them ---- */

/* All ranks have the same err, which names the rank without memory. */
static int check_error(struct mp_job *job, int err)
{
	atomic_int *code = &job->shared->word[0];

	if (job->rank == BAD)
		atomic_store(code, err);
	mp_meet(job);
	MP_ERR(err, atomic_load(code));
	TT_EXPECT(!err || names_rank(BAD));
	return 0;
}

/* *count: the allocations of the bad rank in the call. */
static int call_without(struct mp_job *job, make_fn *make, enum who who, long from, long row,
			long *count)
{
	struct tutti_comm *parent, *made = NULL;
	int err;

	MP_OK(tutti_comm_dup(job->world, &parent));
	MP_OK(tutti_barrier(parent));
	mp_meet(job);
	arm(job->rank == BAD ? who : NONE, from, row);
	err = make(job, parent, &made);
	mp_meet(job); /* news of a failure are on their way until then */
	*count = counted();
	arm(NONE, 0, 0);
	if (!err && made)
		err = tutti_barrier(made);
	TT_EXPECT((!err || err == -ENOMEM) && !check_error(job, err));
	if (made)
		MP_OK(tutti_comm_free(made));
	MP_OK(tutti_barrier(parent));
	return tutti_comm_free(parent);
}

static int caller_without(struct mp_job *job, void *make, long from, long *count)
{
	return call_without(job, *(make_fn **)make, CALLER, from, ROW, count);
}

static int caller_body(struct mp_job *job)
{
	size_t i;

	mp_log_level(job, TUTTI_LOG_NONE);
	MP_OK(tutti_barrier(job->world)); /* connects the ranks */
	for (i = 0; i < sizeof(make_fns) / sizeof(make_fns[0]); i++)
		TT_EXPECT(!each_allocation(job, caller_without, (void *)&make_fns[i], 1));
	return 0;
}

static void run(mp_fn *fn)
{
	static const char *const envs[] = {"TUTTI_IF=lo", "TUTTI_IF=lo TUTTI_NODE=off",
					   "TUTTI_IF=lo TUTTI_NODE=off TUTTI_TRANSPORT=ofi"};
	size_t i;

	if (mp_no_limit())
		TT_SKIP("%s", mp_no_limit());
	for (i = 0; i < sizeof(envs) / sizeof(envs[0]); i++)
		if (!strstr(envs[i], "ofi") || !mp_no_ofi())
			TT_CHECK(!MP_RUN(.n = 3, .env = envs[i], .fn = fn));
}

static void caller(void)
{
	run(caller_body);
}

/* No thread of the rank has memory during a call, of which the control thread sends news. */
static int control_body(struct mp_job *job)
{
	long count;
	size_t i;

	mp_log_level(job, TUTTI_LOG_NONE);
	MP_OK(tutti_barrier(job->world));
	for (i = 0; i < sizeof(make_fns) / sizeof(make_fns[0]); i++)
		MP_OK(call_without(job, make_fns[i], ALL, 1, LONG_MAX, &count));
	return 0;
}

static void control(void)
{
	run(control_body);
}

/* More calls in a row fail than the rank has memory to tell of before any news has left. */
static int row_body(struct mp_job *job)
{
	struct tutti_comm *made[MADE] = {NULL};
	int i, err[MADE], bad[MADE], failed = 0;

	mp_log_level(job, TUTTI_LOG_NONE);
	MP_OK(tutti_comm_dup(job->world, &made[0]));
	MP_OK(tutti_comm_free(made[0]));
	arm(job->rank == BAD ? SLOW : NONE, 1, LONG_MAX);
	for (i = 0; i < MADE; i++)
		bad[i] = err[i] = tutti_comm_dup(job->world, &made[i]);
	mp_meet(job);
	arm(NONE, 0, 0);
	MP_OK(tutti_bcast(bad, MADE, TUTTI_INT32, BAD, job->world));
	for (i = 0; i < MADE; i++) {
		failed += bad[i] == -ENOMEM;
		MP_ERR(err[i] ? err[i] : tutti_barrier(made[i]), bad[i]);
		TT_EXPECT(!bad[i] || err[i] || names_rank(BAD));
		if (!err[i])
			MP_OK(tutti_comm_free(made[i]));
	}
	TT_EXPECT(failed > MADE / 2);
	return tutti_barrier(job->world);
}

static void row(void)
{
	run(row_body);
}

/* ---- connections ---- */

#define LONG (256 << 10)
#define ROOM 10 /* operations, after which there is memory */

static int exchange(struct tutti_comm *comm, int peer, char *data, size_t len)
{
	return tutti_sendrecv(data, len, TUTTI_UINT8, peer, 0, data + LONG, len, TUTTI_UINT8, peer,
			      0, comm, NULL);
}

/* Rank 1 cannot map the memory of a peer that it is connected to, and sends to it all the same. */
static int first_use_body(struct mp_job *job)
{
	static char data[2 * LONG];
	size_t i;

	if (job->rank != 2)
		memset(data, 'a' + job->rank, LONG);
	if (job->rank != 0) /* what the calls themselves need */
		MP_OK(exchange(job->world, 3 - job->rank, data, LONG));
	if (job->rank == 0)
		MP_OK(tutti_send(data, 1, TUTTI_UINT8, BAD, 1, job->world));
	if (job->rank == BAD)
		MP_OK(tutti_recv(data + LONG, 1, TUTTI_UINT8, 0, 1, job->world, NULL));
	mp_meet(job);
	if (job->rank == BAD)
		TT_EXPECT(limit_memory(0));
	if (job->rank != 2) {
		MP_OK(exchange(job->world, 1 - job->rank, data, 100));
		MP_OK(exchange(job->world, 1 - job->rank, data, LONG));
		for (i = 0; i < LONG; i++)
			TT_EXPECT(data[LONG + i] == 'a' + 1 - job->rank);
	}
	if (job->rank == BAD)
		TT_EXPECT(unlimit_memory());
	return tutti_barrier(job->world);
}

static void first_use(void)
{
	if (mp_no_limit())
		TT_SKIP("%s", mp_no_limit());
	TT_CHECK(!MP_RUN(.n = 3, .env = "TUTTI_IF=lo TUTTI_NODE=off TUTTI_TRANSPORT=shm",
			 .fn = first_use_body));
}

/*
 * Rank 1 has no memory for a connection: the communicator that needs it fails at both ends, and the
 * next one tries again, also if a rank hears late of the failures.
 */
static int connect_body(struct mp_job *job)
{
	static char data[2 * LONG];
	struct tutti_comm *made[10];
	int i, err, late = *(const int *)job->arg;

	mp_log_level(job, TUTTI_LOG_NONE);
	for (i = 0; i < 10; i++)
		MP_OK(tutti_comm_shrink(job->world, &made[i])); /* connects no ranks */
	if (job->rank != 0)
		MP_OK(exchange(job->world, 3 - job->rank, data, 100));
	hear(job->rank == late ? LATE : AT_ONCE);
	mp_meet(job);
	for (i = 0; i < 10; i++) {
		if (job->rank == BAD && (i == 0 || i == 9))
			TT_EXPECT(i ? unlimit_memory() : limit_memory(0));
		mp_meet(job);
		err = job->rank == 2 ? 0 : exchange(made[i], 1 - job->rank, data, 100);
		MP_ERR(err, i < 9 && job->rank != 2 ? -ENOMEM : 0);
		TT_EXPECT(!err || names_rank(BAD));
	}
	hear(AT_ONCE);
	return tutti_barrier(job->world);
}

static void connect_again(void)
{
	static int late[] = {-1, 0, BAD};
	int i;

	if (mp_no_limit())
		TT_SKIP("%s", mp_no_limit());
	for (i = 0; i < 3; i++)
		TT_CHECK(!MP_RUN(.n = 3, .env = "TUTTI_IF=lo TUTTI_TRANSPORT=shm",
				 .fn = connect_body, .arg = &late[i]));
}

/*
 * A rank has no memory for an allocation, each in turn, of its first message to itself: the next
 * message tries again.
 */
static int to_itself_body(struct mp_job *job)
{
	static char data[2 * LONG];
	struct tutti_comm *comm;
	int from, err = -ENOMEM, failed = 0;

	mp_log_level(job, TUTTI_LOG_NONE);
	for (from = 1; from < MOST && err; from++) {
		MP_OK(tutti_comm_shrink(job->world, &comm));
		arm(CALLER, from, ROW);
		err = exchange(comm, job->rank, data, 100);
		arm(NONE, 0, 0);
		TT_EXPECT(!err || err == -ENOMEM);
		failed += err != 0;
	}
	TT_EXPECT(failed && !err);
	return 0;
}

static void to_itself(void)
{
	if (mp_no_limit())
		TT_SKIP("%s", mp_no_limit());
	TT_CHECK(!MP_RUN(.n = 2, .env = "TUTTI_IF=lo", .fn = to_itself_body));
}

/* How two ranks reach each other, over a connection that one of them may lack memory for. */
struct reach {
	enum { PUT, ATOMIC, REQUEST } by;
	int late;  /* rank that hears late what its peer's failures say; 0: both fail in turn */
	bool last; /* the last failure is a message's */
};

static int reach(const struct reach *how, struct tutti_win *win, int rank, size_t len)
{
	static char data[LONG];
	struct tutti_request *req;
	uint64_t old;
	int err;

	if (how->by != REQUEST)
		return how->by == ATOMIC ? tutti_fetch_add(win, rank, 1, 0, &old)
					 : tutti_put(win, rank, data, len, 0);
	err = tutti_iput(win, rank, data, len, 0, &req);
	return err ? err : tutti_wait(&req);
}

/* The rank that makes the i-th operation; at first rank 1 has no memory. */
static int reaches(const struct reach *how, int i)
{
	return !how->late ? 1 + i % 2 : i == ROOM ? how->late : 3 - how->late;
}

/*
 * Ranks 1 and 2 reach each other, and so many ranks make a window without connecting the two: each
 * operation fails once while rank 1 has no memory for the connection, and the next one tries again.
 * No answer to an earlier one fails it.
 */
static int reach_body(struct mp_job *job)
{
	static char memory[LONG] __attribute__((aligned(8)));
	const struct reach *how = job->arg;
	static char data[2 * LONG];
	struct tutti_comm *other;
	struct tutti_win *win;
	bool message;
	int i, err;

	mp_log_level(job, TUTTI_LOG_NONE);
	MP_OK(tutti_comm_shrink(job->world, &other)); /* connects no ranks */
	MP_OK(tutti_win_create(job->world, memory, LONG, 0, &win));
	hear(how->late && job->rank == how->late ? LATE : AT_ONCE);
	for (i = 0; i < ROOM + 2; i++) {
		mp_meet(job);
		if (job->rank == BAD && (i == 0 || i == ROOM))
			TT_EXPECT(i ? unlimit_memory() : limit_memory(0));
		mp_meet(job);
		message = how->last && i == ROOM - 1;
		if (message ? job->rank != 1 && job->rank != 2 : job->rank != reaches(how, i))
			continue;
		err = message ? exchange(other, 3 - job->rank, data, 100)
			      : reach(how, win, 3 - job->rank, i < 6 ? 100 : LONG);
		MP_ERR(err, i < ROOM ? -ENOMEM : 0);
		TT_EXPECT(!err || names_rank(BAD));
	}
	mp_meet(job);
	hear(AT_ONCE);
	return tutti_win_free(win);
}

static void puts_again(void)
{
	static struct reach hows[] = {{PUT, 0, false},	  {ATOMIC, 0, false},  {ATOMIC, 0, true},
				      {PUT, 1, false},	  {ATOMIC, 1, false},  {PUT, 2, false},
				      {ATOMIC, 2, false}, {REQUEST, 0, false}, {REQUEST, 2, false}};
	size_t i;

	if (mp_no_limit())
		TT_SKIP("%s", mp_no_limit());
	for (i = 0; i < sizeof(hows) / sizeof(hows[0]); i++)
		TT_CHECK(!MP_RUN(.n = 6, .env = "TUTTI_IF=lo TUTTI_TRANSPORT=shm", .fn = reach_body,
				 .arg = &hows[i]));
}

/* Rank 1 has no memory for an allocation, each in turn, of its first put to rank 2. */
static int names_itself_body(struct mp_job *job)
{
	static char data[100], memory[100];
	struct tutti_win *win;
	int from, err = -ENOMEM, failed = 0;

	mp_log_level(job, TUTTI_LOG_NONE);
	MP_OK(tutti_win_create(job->world, memory, sizeof(memory), 0, &win));
	for (from = 1; from < MOST && err && job->rank == BAD; from++) {
		arm(CALLER, from, ROW);
		err = tutti_put(win, 2, data, sizeof(data), 0);
		arm(NONE, 0, 0);
		TT_EXPECT(!err || (err == -ENOMEM && names_rank(BAD)));
		failed += err != 0;
	}
	TT_EXPECT(job->rank != BAD || (failed && !err));
	mp_meet(job);
	return tutti_win_free(win);
}

static void names_itself(void)
{
	if (mp_no_limit())
		TT_SKIP("%s", mp_no_limit());
	TT_CHECK(
		!MP_RUN(.n = 6, .env = "TUTTI_IF=lo TUTTI_TRANSPORT=shm", .fn = names_itself_body));
}

/* A new job of the same ranks. Later allocations are of libraries that end the process. */
static int grow_body(struct mp_job *job)
{
	struct tutti_context *grown;
	long from;
	int err;

	mp_log_level(job, TUTTI_LOG_NONE);
	for (from = 1; from < 120; from += 7) {
		arm(job->rank == BAD ? CALLER : NONE, from, ROW);
		err = tutti_comm_grow(job->world, job->n, 0, &grown);
		arm(NONE, 0, 0);
		TT_EXPECT(!check_error(job, err));
		if (!err)
			MP_OK(tutti_finalize(grown));
		MP_OK(tutti_barrier(job->world));
	}
	return 0;
}

/* Rank 1 has memory for the threads of the new job, but not for its transports. */
static int no_transport_body(struct mp_job *job)
{
	struct tutti_context *grown;
	long room;
	int err;

	mp_log_level(job, TUTTI_LOG_NONE);
	for (room = 10; room <= 16; room += 2) {
		if (job->rank == BAD)
			TT_EXPECT(limit_memory(room << 20));
		err = tutti_comm_grow(job->world, job->n, 0, &grown);
		if (job->rank == BAD)
			TT_EXPECT(unlimit_memory());
		MP_ERR(err, -ENOMEM);
		TT_EXPECT(names_rank(BAD));
		MP_OK(tutti_barrier(job->world));
	}
	return 0;
}

/* Ranks 1 and 2 have no memory: all ranks name the same one of them. */
static int several_body(struct mp_job *job)
{
	struct tutti_error_info info = {.size = sizeof(info)};
	atomic_int *blamed = &job->shared->word[2], *code = &job->shared->word[0];
	struct tutti_context *grown;
	int err, i;

	mp_log_level(job, TUTTI_LOG_NONE);
	for (i = 0; i < 20; i++) {
		if (job->rank)
			TT_EXPECT(limit_memory((i % 2 ? 4 : 10) << 20));
		err = tutti_comm_grow(job->world, job->n, 0, &grown);
		if (job->rank)
			TT_EXPECT(unlimit_memory());
		TT_EXPECT(err && !tutti_last_error(&info) && info.rank > 0);
		if (job->rank == BAD) {
			atomic_store(blamed, info.rank);
			atomic_store(code, err);
		}
		MP_OK(tutti_barrier(job->world));
		TT_EXPECT(info.rank == atomic_load(blamed) && err == atomic_load(code));
		mp_meet(job);
	}
	return 0;
}

static void grow(void)
{
	if (mp_no_limit())
		TT_SKIP("%s", mp_no_limit());
	TT_CHECK(!MP_RUN(.n = 3, .env = "TUTTI_IF=lo", .fn = grow_body));
	TT_CHECK(!MP_RUN(.n = 3, .env = "TUTTI_IF=lo TUTTI_NODE=off", .fn = no_transport_body));
	TT_CHECK(!MP_RUN(.n = 3, .env = "TUTTI_IF=lo", .fn = several_body));
}

/* Rank 3 comes later. While rank 1 lacks memory it does not get in, and waits for the next grow. */
static int newcomer_body(struct mp_job *job)
{
	struct tutti_context *grown = NULL;
	struct tutti_error_info info = {.size = sizeof(info)};
	long from = *(const long *)job->arg;
	int i, err = 1;

	if (job->rank == 3) {
		MP_OK(mp_join_later(job));
		return tutti_barrier(job->world);
	}
	MP_OK(mp_join_first(job, 3));
	mp_log_level(job, TUTTI_LOG_NONE);
	for (i = 0; i < 2 && err; i++) {
		arm(job->rank == BAD && !i ? CALLER : NONE, from, ROW);
		err = tutti_comm_grow(job->world, 4, 20000, &grown);
		arm(NONE, 0, 0);
		TT_EXPECT(!tutti_last_error(&info) && (!err || info.rank == BAD));
	}
	MP_OK(err);
	MP_OK(tutti_barrier(tutti_world(grown)));
	mp_leave_failed(job);
	job->ctx = grown;
	job->world = tutti_world(grown);
	return 0;
}

static void newcomer(void)
{
	static long from[] = {40, 80, 110};
	int i;

	if (mp_no_limit())
		TT_SKIP("%s", mp_no_limit());
	for (i = 0; i < 3; i++)
		TT_CHECK(!MP_RUN(.n = 4, .env = "TUTTI_BOOT_DIR=%d TUTTI_IF=lo", .no_init = true,
				 .fn = newcomer_body, .arg = &from[i]));
}

/* Rank 1 agrees until what it has kept is gone: the others wait, and say why; until it calls again.
 */
static int used_up_body(struct mp_job *job)
{
	int i, err = 0;

	mp_log_level(job, TUTTI_LOG_NONE);
	arm(job->rank == BAD ? ALL : NONE, 1, LONG_MAX);
	for (i = 0; i < MOST && !err; i++)
		err = make_agreement(job, job->world, NULL);
	TT_EXPECT(i > 1);
	MP_ERR(err, job->rank == BAD ? -ENOMEM : -ETIMEDOUT);
	TT_EXPECT(job->rank == BAD ||
		  mp_said("the call of rank 1 was refused: Cannot allocate memory"));
	TT_EXPECT(names_rank(BAD));
	arm(NONE, 0, 0);
	mp_meet(job);
	return make_agreement(job, job->world, NULL);
}

static void used_up(void)
{
	if (mp_no_limit())
		TT_SKIP("%s", mp_no_limit());
	TT_CHECK(!MP_RUN(.n = 3, .env = "TUTTI_IF=lo TUTTI_TIMEOUT=1s", .fn = used_up_body));
}

int main(int argc, char **argv)
{
	static const struct tt_test tests[] = {
		{"caller", caller},   {"control", control},	{"row", row},
		{"used_up", used_up}, {"first_use", first_use}, {"connect", connect_again},
		{"puts", puts_again}, {"to_itself", to_itself}, {"names_itself", names_itself},
		{"grow", grow},	      {"newcomer", newcomer},	{NULL, NULL}};

	return tt_test_main("shortage", tests, argc, argv);
}
