/* SPDX-License-Identifier: BSD-3-Clause */
/* Bad input, and ranks that lack memory: one clear error each. */
#include "config.h"

#include "tests/mp/job.h"

#include <errno.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

/* ---- arguments ---- */

static int bad_allreduce(struct mp_job *job)
{
	struct tutti_comm *w = job->world;
	struct tutti_request *req = (void *)job;
	float a[64] = {0}, b[64];

	MP_ERR(tutti_allreduce(a, b, 8, (enum tutti_datatype)99, TUTTI_SUM, w), -EINVAL);
	MP_SAID("99");
	MP_ERR(tutti_allreduce(a, b, 8, (enum tutti_datatype) - 1, TUTTI_SUM, w), -EINVAL);
	MP_ERR(tutti_allreduce(a, b, 8, TUTTI_FLOAT32, (enum tutti_op)77, w), -EINVAL);
	MP_SAID("77");
	MP_ERR(tutti_allreduce(a, b, 8, TUTTI_FLOAT32, TUTTI_BAND, w), -EINVAL);
	MP_SAID("band");
	MP_SAID("float32");
	MP_ERR(tutti_allreduce(a, b, 8, TUTTI_BFLOAT16, TUTTI_BXOR, w), -EINVAL);
	MP_ERR(tutti_allreduce(a, b, SIZE_MAX / 2, TUTTI_FLOAT64, TUTTI_SUM, w), -EINVAL);
	MP_SAID("count");
	MP_ERR(tutti_allreduce(a, b, (size_t)PTRDIFF_MAX + 1, TUTTI_INT8, TUTTI_SUM, w), -EINVAL);
	MP_ERR(tutti_allreduce(a, a + 4, 8, TUTTI_FLOAT32, TUTTI_SUM, w), -EINVAL);
	MP_SAID("overlap");
	MP_ERR(tutti_allreduce(a + 4, a, 8, TUTTI_FLOAT32, TUTTI_SUM, w), -EINVAL);
	MP_ERR(tutti_allreduce(NULL, a, 8, TUTTI_FLOAT32, TUTTI_SUM, w), -EINVAL);
	MP_SAID("sendbuf");
	MP_ERR(tutti_allreduce(a, NULL, 8, TUTTI_FLOAT32, TUTTI_SUM, w), -EINVAL);
	MP_ERR(tutti_allreduce(a, (void *)TUTTI_IN_PLACE, 8, TUTTI_FLOAT32, TUTTI_SUM, w), -EINVAL);
	MP_ERR(tutti_allreduce(a, b, 8, TUTTI_FLOAT32, TUTTI_SUM, NULL), -EINVAL);
	MP_ERR(tutti_iallreduce(a, b, 8, TUTTI_FLOAT32, TUTTI_SUM, w, NULL), -EINVAL);
	MP_ERR(tutti_iallreduce(a, b, 8, TUTTI_FLOAT32, TUTTI_BOR, w, &req), -EINVAL);
	MP_ERR(tutti_allreduce_init(a, b, 8, TUTTI_FLOAT32, TUTTI_SUM, w, NULL), -EINVAL);
	TT_EXPECT(req == (void *)job);
	return 0;
}

static int bad_others(struct mp_job *job)
{
	struct tutti_comm *w = job->world, *comm = NULL;
	struct tutti_stats stats = {0};
	struct tutti_error_info info = {0};
	char not_a_comm[4096] = {0};
	struct tutti_win *win;
	float a[8];
	int index, done;

	MP_ERR(tutti_bcast(a, 8, TUTTI_FLOAT32, -1, w), -EINVAL);
	MP_SAID("root -1");
	MP_ERR(tutti_bcast(a, 8, TUTTI_FLOAT32, job->n, w), -EINVAL);
	MP_SAID("root");
	MP_ERR(tutti_bcast(NULL, 8, TUTTI_FLOAT32, 0, w), -EINVAL);
	MP_ERR(tutti_bcast(a, SIZE_MAX, TUTTI_FLOAT16, 0, w), -EINVAL);
	MP_ERR(tutti_barrier(NULL), -EINVAL);
	MP_ERR(tutti_barrier((struct tutti_comm *)not_a_comm), -EINVAL);
	MP_SAID("not a communicator");
	MP_ERR(tutti_ibarrier(w, NULL), -EINVAL);
	MP_ERR(tutti_comm_rank(NULL), -EINVAL);
	MP_ERR(tutti_comm_split(w, -2, 0, &comm), -EINVAL);
	MP_ERR(tutti_comm_split(w, 0, 0, NULL), -EINVAL);
	MP_ERR(tutti_comm_free(w), -EINVAL);
	MP_ERR(tutti_comm_free(NULL), -EINVAL);
	MP_ERR(tutti_comm_error(w, NULL), -EINVAL);
	MP_ERR(tutti_comm_error(w, &info), -EINVAL);
	MP_ERR(tutti_start(NULL), -EINVAL);
	MP_ERR(tutti_wait(NULL), -EINVAL);
	MP_ERR(tutti_test(NULL, &done), -EINVAL);
	MP_ERR(tutti_waitall(-1, NULL), -EINVAL);
	MP_ERR(tutti_waitall(2, NULL), -EINVAL);
	MP_ERR(tutti_waitany(1, NULL, &index), -EINVAL);
	MP_ERR(tutti_win_create(w, NULL, 10, 0, &win), -EINVAL);
	MP_ERR(tutti_win_create(w, a, 10, 0, NULL), -EINVAL);
	MP_ERR(tutti_win_free(NULL), -EINVAL);
	MP_ERR(tutti_stats_get(job->ctx, NULL), -EINVAL);
	MP_ERR(tutti_stats_get(job->ctx, &stats), -EINVAL);
	MP_ERR(tutti_finalize(NULL), -EINVAL);
	MP_ERR(tutti_init(NULL, NULL), -EINVAL);
	MP_ERR(tutti_unique_id_get(NULL), -EINVAL);
	TT_EXPECT(!tutti_world(NULL) && !tutti_comm_context(NULL) && !comm);
	return 0;
}

static int bad_memory(struct mp_job *job)
{
	char *mem = calloc(1, 1 << 20), *pool = NULL;
	struct tutti_region *region = NULL;

	MP_ERR(tutti_free(mem), -EINVAL);
	MP_OK(tutti_free(NULL));
	MP_ERR(tutti_alloc(job->ctx, 10, NULL), -EINVAL);
	MP_ERR(tutti_alloc(NULL, 10, (void **)&pool), -EINVAL);
	MP_ERR(tutti_alloc(job->ctx, (size_t)1 << 60, (void **)&pool), -ENOMEM);
	TT_EXPECT(!pool);
	MP_OK(tutti_alloc(job->ctx, 5000, (void **)&pool));
	MP_ERR(tutti_free(pool + 64), -EINVAL);
	MP_OK(tutti_free(pool));
	MP_ERR(tutti_free(pool), -EINVAL);
	MP_SAID("freed");
	MP_ERR(tutti_register(job->ctx, NULL, 10, &region), -EINVAL);
	MP_ERR(tutti_register(job->ctx, mem, 0, &region), -EINVAL);
	MP_ERR(tutti_register(job->ctx, mem, 10, NULL), -EINVAL);
	MP_ERR(tutti_deregister(NULL), -EINVAL);
	MP_OK(tutti_register(job->ctx, mem, 1 << 19, &region)); /* a part is no error */
	MP_OK(tutti_allreduce(TUTTI_IN_PLACE, mem + 1000, 1 << 19, TUTTI_UINT8, TUTTI_SUM,
			      job->world));
	MP_OK(tutti_deregister(region));
	MP_ERR(tutti_deregister(region), -EINVAL);
	free(mem);
	return 0;
}

static int freed_comm(struct mp_job *job)
{
	struct tutti_comm *comm;
	struct tutti_request *req;

	MP_OK(tutti_comm_dup(job->world, &comm));
	MP_OK(tutti_barrier_init(comm, &req));
	MP_OK(tutti_comm_free(comm));
	MP_ERR(tutti_barrier(comm), -EINVAL);
	MP_OK(tutti_start(req)); /* the request keeps it */
	MP_OK(tutti_wait(&req));
	MP_OK(tutti_request_free(req));
	MP_ERR(tutti_barrier(comm), -EINVAL);
	MP_SAID("freed");
	MP_ERR(tutti_comm_free(comm), -EINVAL);
	return 0;
}

static int bad_arguments(struct mp_job *job)
{
	float one = 1;

	TT_EXPECT(!bad_allreduce(job));
	TT_EXPECT(!bad_others(job));
	TT_EXPECT(!bad_memory(job));
	TT_EXPECT(!freed_comm(job));
	/* None of it has counted as a call: the ranks still agree. */
	MP_OK(tutti_allreduce(TUTTI_IN_PLACE, &one, 1, TUTTI_FLOAT32, TUTTI_SUM, job->world));
	TT_EXPECT(one == (float)job->n);
	return 0;
}

static void arguments(void)
{
	TT_CHECK(!MP_RUN(.n = 2, .fn = bad_arguments));
	TT_CHECK(!MP_RUN(.n = 1, .fn = bad_arguments));
}

static int pending_body(struct mp_job *job)
{
	struct tutti_request *req = NULL, *idle;
	float *v;
	int i;

	MP_OK(tutti_alloc(job->ctx, 400000, (void **)&v));
	for (i = 0; i < 100000; i++)
		v[i] = 1;
	MP_OK(tutti_barrier_init(job->world, &idle));
	if (job->rank == 0) {
		MP_OK(tutti_iallreduce(TUTTI_IN_PLACE, v, 100000, TUTTI_FLOAT32, TUTTI_SUM,
				       job->world, &req));
		MP_ERR(tutti_finalize(job->ctx), -EBUSY);
		MP_SAID("2 requests");
	}
	mp_meet(job);
	if (!req)
		MP_OK(tutti_iallreduce(TUTTI_IN_PLACE, v, 100000, TUTTI_FLOAT32, TUTTI_SUM,
				       job->world, &req));
	MP_OK(tutti_wait(&req));
	TT_EXPECT(v[0] == (float)job->n && v[99999] == (float)job->n);
	MP_ERR(tutti_finalize(job->ctx), -EBUSY);
	MP_OK(tutti_request_free(idle));
	return 0; /* and now it works */
}

static void finalize_pending(void)
{
	TT_CHECK(!MP_RUN(.n = 2, .fn = pending_body));
	TT_CHECK(!MP_RUN(.n = 3, .fn = pending_body, .env = "TUTTI_PROGRESS=thread"));
}

/* ---- ranks without memory ---- */

/* Rank 1 has no memory for a connection: the error names each transport that it refused. */
static int no_memory_body(struct mp_job *job)
{
	struct tutti_error_info info = {.size = sizeof(info)};
	size_t bytes;
	void *rest;
	int v = 0;

	for (bytes = 1 << 20; job->rank && bytes >= 4096; bytes /= 2)
		while (!tutti_alloc(job->ctx, bytes, &rest))
			;
	mp_meet(job);
	if (job->rank)
		MP_ERR(tutti_recv(&v, 1, TUTTI_INT32, 0, 0, job->world, NULL), -ENOMEM);
	else
		MP_ERR(tutti_send(&v, 1, TUTTI_INT32, 1, 0, job->world), -ENOMEM);
	MP_OK(tutti_comm_error(job->world, &info));
	TT_EXPECT(strstr(info.text, "shm: rank 1: ") && strstr(info.text, "ofi: rank 1: "));
	mp_meet(job);
	return 0;
}

/* A job of which a rank limits its memory. */
static void limited(int n, mp_fn *fn)
{
	if (mp_no_limit())
		TT_SKIP("%s", mp_no_limit());
	TT_CHECK(!MP_RUN(.n = n, .fn = fn, .env = "TUTTI_NODE=off TUTTI_TRANSPORT=shm"));
}

/* The kernel refuses rank 1 the memory of its first connection. */
static int no_connection_body(struct mp_job *job)
{
	float v = 1;

	TT_EXPECT(!job->rank || mp_limit_memory(1 << 20));
	mp_meet(job);
	MP_ERR(tutti_bcast(&v, 1, TUTTI_FLOAT32, 0, job->world), -ENOMEM);
	MP_SAID("memory limit of the container"); /* the last words */
	TT_EXPECT(job->rank || mp_said("rank 1"));
	mp_meet(job);
	return mp_leave_failed(job);
}

static void no_connection(void)
{
	limited(2, no_connection_body);
}

struct hog {
	struct hog *next;
};

/* All that malloc has. */
static struct hog *take_memory(void)
{
	struct hog *all = NULL, *one;
	size_t bytes;

	for (bytes = 1 << 16; bytes >= sizeof(*one); bytes /= 2)
		while ((one = malloc(bytes))) {
			one->next = all;
			all = one;
		}
	return all;
}

static void give_back(struct hog *all)
{
	struct hog *next;

	for (; all; all = next) {
		next = all->next;
		free(all);
	}
}

/* Rank 1 has no memory for the plan of a call, nor of a barrier, and leaves the job at once. */
static int no_plan_body(struct mp_job *job)
{
	struct hog *all = NULL;
	float v[4] = {0};
	int err;

	MP_OK(tutti_bcast(v, 4, TUTTI_FLOAT32, 0, job->world)); /* connects the ranks */
	TT_EXPECT(!job->rank || mp_limit_memory(16 << 10));
	if (job->rank)
		all = take_memory();
	mp_meet(job);
	MP_ERR(tutti_allreduce(TUTTI_IN_PLACE, v, 4, TUTTI_FLOAT32, TUTTI_SUM, job->world),
	       -ENOMEM);
	TT_EXPECT(job->rank || mp_said("rank 1 on host"));
	TT_EXPECT(job->rank || mp_said("its allreduce failed: Cannot allocate memory"));
	err = tutti_finalize(job->ctx);
	job->ctx = NULL;
	TT_EXPECT(!job->rank || err == -ENOMEM);
	give_back(all);
	return 0;
}

static void no_plan(void)
{
	limited(2, no_plan_body);
}

static void no_memory(void)
{
	if (mp_no_ofi())
		TT_SKIP("%s", mp_no_ofi());
	TT_CHECK(!MP_RUN(.n = 2, .fn = no_memory_body,
			 .env = "TUTTI_TRANSPORT=shm,ofi TUTTI_IF=lo TUTTI_POOL_LIMIT=16M"));
}

/* ---- a user that changes after tutti_init ---- */

/* The kernel lets no process at the memory of such a rank; arg: bool, no memory is shared. */
static int changed_user_body(struct mp_job *job)
{
	bool apart = *(bool *)job->arg;
	size_t i, n = 1 << 22;
	int *in, *out, want = apart ? 0 : -TUTTI_ETRANSPORT;

	MP_OK(tutti_alloc(job->ctx, n * sizeof(int), (void **)&in));
	MP_OK(tutti_alloc(job->ctx, n * sizeof(int), (void **)&out));
	for (i = 0; i < n; i++)
		in[i] = job->rank + 1;
	MP_OK(tutti_barrier(job->world)); /* connects the ranks */
	TT_EXPECT(!setgid(65534) && !setuid(65534));
	mp_meet(job);
	MP_ERR(tutti_allreduce(in, out, n, TUTTI_INT32, TUTTI_SUM, job->world), want);
	if (apart) {
		TT_EXPECT(out[0] == 3 && out[n - 1] == 3);
		return 0;
	}
	MP_SAID("EACCES");
	MP_SAID("tutti_security(7)");
	TT_EXPECT(!mp_log_has(job, "gone") && !mp_log_has(job, "dead"));
	mp_meet(job);
	return mp_leave_failed(job);
}

static void changed_user(void)
{
	bool apart = false;

	if (geteuid())
		TT_SKIP("only root can change the user of a process");
	TT_CHECK(!MP_RUN(.n = 2, .fn = changed_user_body, .arg = &apart));
	TT_CHECK(!MP_RUN(.n = 2, .fn = changed_user_body, .arg = &apart,
			 .env = "TUTTI_NODE=off TUTTI_TRANSPORT=shm"));
	apart = true;
	if (mp_no_ofi())
		return;
	TT_CHECK(!MP_RUN(.n = 2, .fn = changed_user_body, .arg = &apart,
			 .env = "TUTTI_NODE=off TUTTI_TRANSPORT=ofi TUTTI_IF=lo"));
}

/*
 * Rank 1 has no memory to map what it first sends to rank 2, and no other way to it: the
 * communicator fails, and no rank counts as dead.
 */
static int cannot_map_body(struct mp_job *job)
{
	enum { BYTES = 5 << 20 }; /* each in a region of its own */
	struct tutti_config config = {0};
	struct tutti_request *req;
	char *buf[2];
	int i;

	TT_EXPECT(!mp_forbid_vm());
	MP_OK(mp_join(job, MP_ID, &config));
	for (i = 0; i < 2; i++)
		MP_OK(tutti_alloc(job->ctx, BYTES, (void **)&buf[i]));
	MP_OK(tutti_barrier(job->world));
	for (i = 0; i < 2; i++) {
		if (job->rank == 1) {
			MP_OK(tutti_isend(buf[0], BYTES, TUTTI_UINT8, 2, 0, job->world, &req));
			TT_EXPECT(!i || mp_limit_memory(1 << 20));
		}
		mp_meet(job); /* rank 1 hears of the memory of rank 2 after that */
		if (job->rank == 2)
			MP_OK(tutti_irecv(buf[i], BYTES, TUTTI_UINT8, 1, 0, job->world, NULL,
					  &req));
		if (job->rank)
			MP_ERR(tutti_wait(&req), i ? -ENOMEM : 0);
	}
	if (!job->rank)
		MP_ERR(tutti_barrier(job->world), -ENOMEM);
	MP_SAID("cannot be mapped: Cannot allocate memory");
	mp_meet(job);
	TT_EXPECT(!mp_log_has(job, "gone") && !mp_log_has(job, "dead"));
	return mp_leave_failed(job);
}

static void cannot_map(void)
{
	if (mp_no_limit())
		TT_SKIP("%s", mp_no_limit());
	TT_CHECK(!MP_RUN(.n = 3, .fn = cannot_map_body, .no_init = true,
			 .env = "TUTTI_NODE=off TUTTI_TRANSPORT=shm"));
}

/* ---- calls that make communicators, at a rank without memory or descriptors ---- */

static int make_dup(struct mp_job *job, struct tutti_comm **made)
{
	return tutti_comm_dup(job->world, made);
}

static int make_split(struct mp_job *job, struct tutti_comm **made)
{
	return tutti_comm_split(job->world, 0, -job->rank, made);
}

static int make_idup(struct mp_job *job, struct tutti_comm **made)
{
	struct tutti_request *req;
	int err = tutti_comm_idup(job->world, made, &req);

	return err ? err : tutti_wait(&req);
}

static int make_group(struct mp_job *job, struct tutti_comm **made)
{
	struct tutti_comm_config how = {.size = sizeof(how), .nranks = job->n};

	return tutti_comm_create_group(job->world, &how, made);
}

static int make_shrunk(struct mp_job *job, struct tutti_comm **made)
{
	return tutti_comm_shrink(job->world, made);
}

/* Makes none: the agreement works. */
static int agree(struct mp_job *job, struct tutti_comm **made)
{
	uint64_t ranks = 1u << job->rank;
	int err = tutti_comm_agree(job->world, TUTTI_BOR, &ranks);

	(void)made;
	return err || ranks == 7 ? err : 1;
}

/* Nothing of it is left during the call. */
static int make_without(int resource, int (*make)(struct mp_job *job, struct tutti_comm **made),
			struct mp_job *job, struct tutti_comm **made)
{
	struct hog *all = NULL;
	struct rlimit old, none;
	int err;

	if (getrlimit(resource, &old))
		return 1;
	none = (struct rlimit){3, old.rlim_max};
	if (resource == RLIMIT_AS ? !mp_limit_memory(8 << 10) : setrlimit(resource, &none))
		return 1;
	if (resource == RLIMIT_AS)
		all = take_memory();
	err = make(job, made);
	if (setrlimit(resource, &old))
		err = 1;
	give_back(all);
	return err;
}

/* The call or the new communicator fails everywhere, with the same code, and the world goes on. */
static int unable(struct mp_job *job, int resource,
		  int (*make)(struct mp_job *job, struct tutti_comm **made))
{
	struct tutti_error_info info = {.size = sizeof(info)};
	atomic_int *code = &job->shared->word[0];
	struct tutti_comm *made = NULL;
	int err;

	mp_meet(job);
	err = job->rank == 1 ? make_without(resource, make, job, &made) : make(job, &made);
	mp_meet(job); /* rank 1 has memory again, for messages */
	if (!err && made)
		err = tutti_barrier(made);
	if (job->rank == 1)
		atomic_store(code, err);
	mp_meet(job);
	MP_ERR(err, make == agree ? 0 : atomic_load(code));
	TT_EXPECT(!err || err == (resource == RLIMIT_AS ? -ENOMEM : -EMFILE));
	TT_EXPECT(!err || job->rank == 1 || (!tutti_last_error(&info) && info.rank == 1));
	if (made)
		MP_OK(tutti_comm_free(made));
	return tutti_barrier(job->world);
}

static int unable_body(struct mp_job *job)
{
	static int (*const make[])(struct mp_job * job, struct tutti_comm * *made) = {
		make_dup, make_split, make_idup, make_group, agree, make_shrunk};
	size_t i;

	mp_log_level(job, TUTTI_LOG_NONE);
	MP_OK(tutti_barrier(job->world)); /* connects the ranks */
	for (i = 0; i < sizeof(make) / sizeof(make[0]); i++) {
		MP_OK(unable(job, RLIMIT_AS, make[i]));
		MP_OK(unable(job, RLIMIT_NOFILE, make[i]));
	}
	return 0;
}

static void unable_to_make(void)
{
	limited(3, unable_body);
	if (mp_no_limit())
		return;
	TT_CHECK(!MP_RUN(.n = 3, .fn = unable_body));
}

/* ---- refused calls ---- */

enum refused { SIZE, COLLECTIVE, QUORUM, NO_REQUEST, SPLIT, CREATE, DUP, REFUSED };
static const char *const refused_names[REFUSED] = {"tutti_call", "tutti_call", "allreduce",
						   "allreduce",	 "comm_split", "comm_create",
						   "comm_dup"};

static int call_refused(struct mp_job *job, enum refused what, struct tutti_comm *comm)
{
	float x = 1, sum = 0;
	struct tutti_call call = {.size = sizeof(call),
				  .coll = TUTTI_COLL_ALLREDUCE,
				  .sendbuf = &x,
				  .recvbuf = &sum,
				  .count = 1,
				  .datatype = TUTTI_FLOAT32,
				  .op = TUTTI_SUM};
	struct tutti_comm_config config = {.size = sizeof(config)};
	struct tutti_comm *made;
	bool bad = job->rank == 1;

	if (bad && what == SIZE)
		call.size = 0;
	if (bad && what == COLLECTIVE)
		call.coll = (enum tutti_coll)99;
	if (bad && what == QUORUM)
		call.quorum = 1;
	if (bad && what == NO_REQUEST)
		call.flags = TUTTI_CALL_PERSISTENT;
	if (bad && what == CREATE)
		config.flags = 1u << 31;
	switch (what) {
	case SPLIT:
		return tutti_comm_split(comm, bad ? -7 : 0, 0, &made);
	case CREATE:
		return tutti_comm_create(comm, &config, &made);
	case DUP:
		return tutti_comm_dup(comm, bad ? NULL : &made);
	default:
		return tutti_call(comm, &call, NULL);
	}
}

/* The other ranks learn why rank 1 has made its next call instead. */
static int not_made_body(struct mp_job *job)
{
	struct tutti_comm *comm;
	char hint[64];
	int i, err;

	for (i = 0; i < REFUSED; i++) {
		MP_OK(tutti_comm_dup(job->world, &comm));
		err = call_refused(job, (enum refused)i, comm);
		if (job->rank == 1) {
			TT_EXPECT(err == -EINVAL);
			err = tutti_barrier(comm);
		}
		MP_ERR(err, -TUTTI_EMISMATCH);
		snprintf(hint, sizeof(hint), "rank 1 (its %s failed: Invalid argument) called",
			 refused_names[i]);
		TT_EXPECT(mp_said(hint));
		MP_OK(tutti_barrier(job->world));
		MP_OK(tutti_comm_free(comm));
	}
	return 0;
}

static void not_made(void)
{
	TT_CHECK(!MP_RUN(.n = 3, .fn = not_made_body));
}

/* Rank 1's _init call was refused, and it leaves: the others, who start theirs, soon hear why. */
static int not_inited_body(struct mp_job *job)
{
	float x = 1, sum = 0;
	struct tutti_request *req = NULL;
	struct tutti_error_info info = {.size = sizeof(info)};
	int err;

	MP_ERR(tutti_allreduce_init(&x, job->rank == 1 ? NULL : &sum, 1, TUTTI_FLOAT32, TUTTI_SUM,
				    job->world, &req),
	       job->rank == 1 ? -EINVAL : 0);
	if (job->rank != 1) {
		MP_OK(tutti_start(req));
		MP_ERR(tutti_wait(&req), -TUTTI_EMISMATCH);
		MP_SAID("rank 1 on host");
		MP_SAID("leaves the job: its allreduce failed: Invalid argument");
		MP_OK(tutti_request_free(req));
	}
	err = tutti_finalize(job->ctx);
	job->ctx = NULL;
	TT_EXPECT(err == (job->rank == 1 ? -TUTTI_EMISMATCH : 0) && !tutti_last_error(&info));
	TT_EXPECT(strstr(info.text, "its allreduce failed"));
	return 0;
}

static void not_inited(void)
{
	TT_CHECK(!MP_RUN(.n = 3, .fn = not_inited_body));
}

/* ---- memory that is not mapped ---- */

#define WHOLE ((size_t)4 << 20)
#define MAPPED ((size_t)1 << 20)

/* So many bytes, of which the caller can use MAPPED only if it is the rank that is wrong. */
static char *memory(bool wrong)
{
	char *p = mmap(NULL, WHOLE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		return NULL;
	memset(p, 1, WHOLE);
	if (wrong)
		mprotect(p + MAPPED, WHOLE - MAPPED, PROT_NONE);
	return p;
}

/* A one-sided operation between rank 0 and the wrong rank 1, whose error only its caller sees. */
static int unmapped_put(struct mp_job *job, char *bad, char *good)
{
	struct tutti_win *win;
	bool caller = job->rank == 1;

	MP_OK(tutti_win_create(job->world, good, WHOLE, 0, &win));
	if (caller) {
		MP_ERR(tutti_put(win, 0, bad, WHOLE, 0), -EFAULT);
		MP_SAID("local memory is not mapped: cannot read address 0x");
		MP_ERR(tutti_get(win, 0, bad, WHOLE, 0), -EFAULT);
		MP_SAID("cannot write address 0x");
	}
	MP_OK(tutti_win_free(win));
	MP_OK(tutti_win_create(job->world, bad, WHOLE, 0, &win));
	if (!caller) {
		MP_ERR(tutti_put(win, 1, good, WHOLE, 0), -EFAULT);
		MP_SAID("rank 1's window is not mapped any more: cannot write address 0x");
	}
	return tutti_win_free(win);
}

static int unmapped_body(struct mp_job *job)
{
	char *p = memory(job->rank == 1), *good = memory(false), want[96];
	struct tutti_error_info info = {.size = sizeof(info)};

	TT_EXPECT(p && good);
	TT_EXPECT(!unmapped_put(job, p, good));
	MP_ERR(tutti_bcast(p, WHOLE, TUTTI_UINT8, 1, job->world), -EFAULT);
	MP_OK(tutti_comm_error(job->world, &info));
	TT_EXPECT(info.rank == 1);
	MP_SAID("rank 1 on host");
	MP_SAID("check buffer and count of that rank's call");
	snprintf(want, sizeof(want), "cannot read address %#lx of process %d",
		 (unsigned long)(p + MAPPED), (int)getpid());
	TT_EXPECT(job->rank != 1 || mp_said(want));
	TT_EXPECT(!mp_log_has(job, "gone") && !mp_log_has(job, "dead"));
	mp_meet(job);
	munmap(p, WHOLE);
	munmap(good, WHOLE);
	return mp_leave_failed(job);
}

/* Over a connection, which other communicators share. */
static int unmapped_message_body(struct mp_job *job)
{
	char *p = memory(false);
	struct tutti_region *region;
	struct tutti_comm *dup;

	TT_EXPECT(p);
	MP_OK(tutti_register(job->ctx, p, WHOLE, &region));
	MP_OK(tutti_comm_dup(job->world, &dup));
	MP_OK(tutti_barrier(job->world));
	if (job->rank == 1)
		TT_EXPECT(!mprotect(p + MAPPED, WHOLE - MAPPED, PROT_NONE));
	mp_meet(job);
	if (job->rank == 0)
		MP_ERR(tutti_send(p, WHOLE, TUTTI_UINT8, 1, 0, dup), -EFAULT);
	else
		MP_ERR(tutti_recv(p, WHOLE, TUTTI_UINT8, 0, 0, dup, NULL), -EFAULT);
	MP_SAID("rank 1 on host");
	MP_SAID("cannot write address 0x");
	if (tutti_barrier(job->world))
		MP_SAID("the world shared its connection");
	mp_meet(job);
	return mp_leave_failed(job);
}

static void unmapped(void)
{
	TT_CHECK(!MP_RUN(.n = 3, .fn = unmapped_body));
	TT_CHECK(!MP_RUN(.n = 2, .fn = unmapped_message_body,
			 .env = "TUTTI_NODE=off TUTTI_TRANSPORT=shm"));
}

int main(int argc, char **argv)
{
	static const struct tt_test tests[] = {
		{"no_memory", no_memory},
		{"no_connection", no_connection},
		{"no_plan", no_plan},
		{"unable_to_make", unable_to_make},
		{"changed_user", changed_user},
		{"arguments", arguments},
		{"finalize_pending", finalize_pending},
		{"not_made", not_made},
		{"not_inited", not_inited},
		{"cannot_map", cannot_map},
		{"unmapped", unmapped},
		{NULL, NULL},
	};

	return tt_test_main("errors", tests, argc, argv);
}
