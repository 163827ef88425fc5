/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Every collective, with every field that must agree different on one rank: every rank gets an
 * error that names both ranks and the field, from this call or, if its part was complete, from the
 * next. Also a late rank for each collective, which is no error. Prints the time of the slowest
 * case. Short vectors: each case is on a communicator of its own. Long ones: in a job of its own,
 * since a connection over which a failed call was writing is closed; over libfabric a field for
 * each collective, with TT_TIMES all of them.
 */
#include "tests/mp/job.h"

#include <errno.h>
#include <stdio.h>

#define N 4
#define UNSURE 2
#define HANG 60.0 /* s; the figure printed is what counts */

enum coll {
	ALLREDUCE,
	BCAST,
	BARRIER,
	REDUCE,
	REDUCE_SCATTER_BLOCK,
	REDUCE_SCATTER,
	ALLGATHER,
	ALLGATHERV,
	GATHER,
	GATHERV,
	SCATTER,
	SCATTERV,
	ALLTOALL,
	ALLTOALLV,
	SCAN,
	EXSCAN,
	COLLS
};

static const char *const name[COLLS] = {
	"allreduce",	  "bcast",     "barrier",    "reduce",	  "reduce_scatter_block",
	"reduce_scatter", "allgather", "allgatherv", "gather",	  "gatherv",
	"scatter",	  "scatterv",  "alltoall",   "alltoallv", "scan",
	"exscan"};

enum field { COLLECTIVE, COUNT, DATATYPE, OP, ROOT, IN_PLACE, FIELDS };
static const char *const field_name[FIELDS] = {"collective", "count", "datatype",
					       "op",	     "root",  "in place"};

struct call {
	enum coll coll;
	size_t count;
	enum tutti_datatype type;
	enum tutti_op op;
	int root;
	bool in_place, other_counts;
};

struct figures {
	double slowest;
	char which[64];
	int cases;
};

static char *in, *out;

static bool reduces(enum coll c)
{
	return c == ALLREDUCE || c == REDUCE || c == REDUCE_SCATTER_BLOCK || c == REDUCE_SCATTER ||
	       c == SCAN || c == EXSCAN;
}

static bool rooted(enum coll c)
{
	return c == BCAST || c == REDUCE || (c >= GATHER && c <= SCATTERV);
}

static bool v_form(enum coll c)
{
	return c == REDUCE_SCATTER || c == ALLGATHERV || c == GATHERV || c == SCATTERV ||
	       c == ALLTOALLV;
}

static bool has(enum coll c, enum field f)
{
	switch (f) {
	case COLLECTIVE:
		return true;
	case COUNT:
	case DATATYPE:
		return c != BARRIER;
	case OP:
		return reduces(c);
	case ROOT:
		return rooted(c);
	default:
		return c != BARRIER && !rooted(c); /* the root alone chooses there */
	}
}

static int make(const struct call *c, struct tutti_comm *comm)
{
	size_t k = c->count, v[N] = {k, k, k, k}, d[N] = {0, k + 1, 2 * (k + 1), 3 * (k + 1)};
	const void *s = c->in_place ? TUTTI_IN_PLACE : in;
	enum tutti_datatype t = c->type;
	int r = c->root, me = tutti_comm_rank(comm);

	if (c->other_counts) /* of the block that this rank and another one share, or all have */
		v[c->coll == ALLTOALLV ? (me + 1) % N : 2]--;
	switch (c->coll) {
	case ALLREDUCE:
		return tutti_allreduce(s, out, k, t, c->op, comm);
	case BCAST:
		return tutti_bcast(out, k, t, r, comm);
	case BARRIER:
		return tutti_barrier(comm);
	case REDUCE:
		return tutti_reduce(s, out, k, t, c->op, r, comm);
	case REDUCE_SCATTER_BLOCK:
		return tutti_reduce_scatter_block(s, out, k, t, c->op, comm);
	case REDUCE_SCATTER:
		return tutti_reduce_scatter(s, out, v, t, c->op, comm);
	case ALLGATHER:
		return tutti_allgather(s, out, k, t, comm);
	case ALLGATHERV:
		return tutti_allgatherv(s, v[me], out, v, d, t, comm);
	case GATHER:
		return tutti_gather(s, out, k, t, r, comm);
	case GATHERV:
		return tutti_gatherv(s, k - c->other_counts, out, v, d, t, r, comm);
	case SCATTER:
		return tutti_scatter(s, out, k, t, r, comm);
	case SCATTERV:
		return tutti_scatterv(s, v, d, out, k - c->other_counts, t, r, comm);
	case ALLTOALL:
		return tutti_alltoall(s, out, k, t, comm);
	case ALLTOALLV:
		return c->in_place ? tutti_alltoallv(s, NULL, NULL, out, v, d, t, comm)
				   : tutti_alltoallv(s, v, d, out,
						     c->other_counts ? (size_t[]){k, k, k, k} : v,
						     d, t, comm);
	case SCAN:
		return tutti_scan(s, out, k, t, c->op, comm);
	default:
		return tutti_exscan(s, out, k, t, c->op, comm);
	}
}

static void differ(struct call *c, enum field f, int me)
{
	if (f == COLLECTIVE)
		c->coll = c->coll == BARRIER ? ALLREDUCE : BARRIER;
	else if (f == COUNT && v_form(c->coll))
		c->other_counts = true;
	else if (f == COUNT)
		c->count--;
	else if (f == DATATYPE)
		c->type = TUTTI_INT32;
	else if (f == OP)
		c->op = TUTTI_MAX;
	else if (f == ROOT)
		c->root = me ? me : 1;
	else
		c->in_place = !c->in_place;
}

/* The text names the rank that differs, and another. */
static bool names_both(const char *text, int rank)
{
	char word[32];
	int r, others = 0;

	for (r = 0; r < N; r++) {
		snprintf(word, sizeof(word), "rank %d ", r);
		if (r == rank && !strstr(text, word)) {
			snprintf(word, sizeof(word), "rank %d,", r);
			if (!strstr(text, word))
				return false;
		}
		snprintf(word, sizeof(word), "rank %d", r);
		others += r != rank && strstr(text, word);
	}
	return others > 0;
}

static int one_case(struct mp_job *job, enum coll coll, enum field f, size_t count, int bad,
		    struct figures *fig)
{
	struct tutti_error_info info = {.size = sizeof(info)};
	struct call c = {coll, count, TUTTI_FLOAT32, TUTTI_SUM, 0, coll == REDUCE_SCATTER, false};
	const char *want = f == COUNT && v_form(coll) ? "counts" : field_name[f];
	struct tutti_comm *comm;
	double t0, took;
	bool unsure;
	int err;

	comm = job->world;
	if (fig)
		MP_OK(tutti_comm_dup(job->world, &comm));
	if (job->rank == bad)
		differ(&c, f, job->rank);
	mp_meet(job);
	t0 = mp_now();
	err = make(&c, comm);
	while (!err && mp_now() - t0 < HANG)
		err = tutti_barrier(comm);
	took = mp_now() - t0;
	tutti_comm_error(comm, &info);
	/* lengths that only two ranks know name either of them */
	unsure = strcmp(want, "counts") && info.rank != bad;
	if (err != -TUTTI_EMISMATCH || strcmp(info.field, want) || !names_both(info.text, bad) ||
	    (unsure && !fig)) {
		fprintf(stderr,
			"%s, %zu elements, %s different on rank %d: rank %d got %d, field '%s': "
			"%s\n",
			name[coll], count, want, bad, job->rank, err, info.field, info.text);
		return 1;
	}
	if (!fig) {
		if (job->rank == 0)
			printf("mismatch: %s, %s: %.3f s\n", name[coll], want, took);
		fflush(stdout);
		return 0;
	}
	if (took > fig->slowest) {
		fig->slowest = took;
		snprintf(fig->which, sizeof(fig->which), "%s, %s", name[coll], want);
	}
	fig->cases++;
	mp_meet(job);
	MP_OK(tutti_comm_free(comm));
	return unsure ? UNSURE : 0;
}

/*
 * The verdict is by the calls that are known after half a second, which are not all of them beside
 * heavy load: then again.
 */
static int sure_case(struct mp_job *job, enum coll coll, enum field f, size_t count, int bad,
		     struct figures *fig)
{
	int tries, result = UNSURE;

	for (tries = 0; tries < 5 && result == UNSURE; tries++)
		result = one_case(job, coll, f, count, bad, fig);
	return result;
}

static int matrix_body(struct mp_job *job)
{
	size_t count = *(size_t *)job->arg;
	struct figures fig = {0};
	int coll, f;

	in = calloc(N * (count + 1), 4);
	out = calloc(N * (count + 1), 4);
	TT_EXPECT(in && out);
	for (coll = 0; coll < COLLS; coll++)
		for (f = 0; f < FIELDS; f++)
			if (has((enum coll)coll, (enum field)f))
				TT_EXPECT(!sure_case(job, (enum coll)coll, (enum field)f, count,
						     v_form((enum coll)coll)
							     ? 1 + (coll + f) % (N - 1)
							     : (coll + f) % N,
						     &fig));
	if (job->rank == 0)
		printf("mismatch: %d cases of %zu elements, slowest %.3f s (%s)\n", fig.cases,
		       count, fig.slowest, fig.which);
	fflush(stdout);
	free(in);
	free(out);
	return 0;
}

struct single {
	enum coll coll;
	enum field field;
	size_t count;
};

static int single_body(struct mp_job *job)
{
	const struct single *s = job->arg;
	int err;

	in = calloc(N * (s->count + 1), 4);
	out = calloc(N * (s->count + 1), 4);
	TT_EXPECT(in && out);
	err = one_case(job, s->coll, s->field, s->count, 1 + (int)s->coll % (N - 1), NULL);
	free(in);
	free(out);
	return err;
}

/* All fields, or one of each collective in turn. */
static void singles(const char *env, size_t count, bool all)
{
	struct single s = {.count = count};
	int coll, f, want;

	for (coll = 0; coll < COLLS; coll++) {
		want = coll % FIELDS;
		while (!has((enum coll)coll, (enum field)want))
			want = (want + 1) % FIELDS;
		for (f = 0; f < FIELDS; f++) {
			if (!has((enum coll)coll, (enum field)f) || (f != want && !all))
				continue;
			s.coll = (enum coll)coll;
			s.field = (enum field)f;
			TT_CHECK(!MP_RUN(.n = N, .env = env, .fn = single_body, .arg = &s));
		}
	}
}

static void matrix(const char *env, size_t count)
{
	TT_CHECK(!MP_RUN(.n = N, .env = env, .fn = matrix_body, .arg = &count,
			 .timeout_ms = 600000));
}

static void node_short(void)
{
	matrix("TUTTI_NODE=on", 100);
}

static void node_long(void)
{
	singles("TUTTI_NODE=on", 30000, true);
}

static void shm_short(void)
{
	matrix("TUTTI_TRANSPORT=shm", 100);
}

static void shm_long(void)
{
	singles("TUTTI_TRANSPORT=shm", 30000, true);
}

static void ofi(void)
{
	if (mp_no_ofi())
		TT_SKIP("%s", mp_no_ofi());
	singles("TUTTI_TRANSPORT=ofi", 30000, getenv("TT_TIMES"));
}

/* ---- in place: all ranks or none, in every form ---- */

static bool chooses_together(enum coll c)
{
	return c != BARRIER && !rooted(c);
}

/* The same as make, as a request that is waited for. */
static int make_request(const struct call *c, struct tutti_comm *comm, unsigned flags)
{
	size_t k = c->count, v[N] = {k, k, k, k}, d[N] = {0, k + 1, 2 * (k + 1), 3 * (k + 1)};
	struct tutti_call call = {.size = sizeof(call),
				  .coll = (enum tutti_coll)(c->coll + 1),
				  .flags = flags,
				  .sendbuf = c->in_place ? TUTTI_IN_PLACE : in,
				  .recvbuf = out,
				  .datatype = c->type};
	struct tutti_request *req;
	int err;

	if (reduces(c->coll))
		call.op = c->op;
	if (c->coll != REDUCE_SCATTER && c->coll != ALLTOALLV)
		call.count = k;
	if (v_form(c->coll))
		call.recvcounts = v;
	if (c->coll == ALLGATHERV || c->coll == ALLTOALLV)
		call.recvdispls = d;
	if (c->coll == ALLTOALLV && !c->in_place) {
		call.sendcounts = v;
		call.senddispls = d;
	}
	err = tutti_call(comm, &call, &req);
	if (err)
		return err;
	if (flags)
		err = tutti_start(req); /* fails if the verdict is here already */
	if (!err)
		err = tutti_wait(&req);
	tutti_request_free(req);
	return err;
}

static int differ_in_place(struct mp_job *job, enum coll coll, unsigned flags, bool most)
{
	struct call c = {coll, 100, TUTTI_FLOAT32, TUTTI_SUM, 0, most, false};
	struct tutti_error_info info = {.size = sizeof(info)};
	struct tutti_comm *comm;
	double t0 = mp_now();
	int err;

	MP_OK(tutti_comm_dup(job->world, &comm));
	c.in_place ^= job->rank == (int)coll % N;
	err = make_request(&c, comm, flags);
	while (!err && mp_now() - t0 < HANG)
		err = tutti_barrier(comm);
	MP_ERR(err, -TUTTI_EMISMATCH);
	MP_OK(tutti_comm_error(comm, &info));
	TT_EXPECT(!strcmp(info.field, "in place") && names_both(info.text, (int)coll % N));
	mp_meet(job);
	MP_OK(tutti_comm_free(comm));
	return 0;
}

/* Calls that agree, by the constant or by the address; and calls without data, which must not. */
static int agree_in_place(struct mp_job *job, enum coll coll)
{
	struct call c = {coll, 100, TUTTI_FLOAT32, TUTTI_SUM, 0, false, false};
	char *apart = in;

	MP_OK(make_request(&c, job->world, 0));
	MP_OK(make_request(&c, job->world, TUTTI_CALL_PERSISTENT));
	c.in_place = true;
	MP_OK(make(&c, job->world));
	MP_OK(make_request(&c, job->world, 0));
	if (coll != ALLGATHER && coll != ALLGATHERV && coll != ALLTOALLV) {
		in = out;
		c.in_place = job->rank % 2;
		MP_OK(make(&c, job->world));
		in = apart;
	}
	c.count = 0;
	c.in_place = job->rank % 2;
	if (coll != ALLTOALLV) /* counts of its own: no rank knows that there is no data */
		MP_OK(make(&c, job->world));
	return 0;
}

/* Calls that are fused: the third one differs. */
static int fused_body(struct mp_job *job)
{
	struct tutti_error_info info = {.size = sizeof(info)};
	int v[6] = {0}, w[6] = {1, 2, 3, 4, 5, 6}, i, err;

	for (i = 0; i < 6; i++)
		MP_OK(tutti_allreduce(&w[i], &v[i], 1, TUTTI_INT32, TUTTI_SUM, job->world));
	MP_OK(tutti_group_start());
	for (i = 0; i < 6; i++) /* odd ones in place, and at rank 1 also the third */
		MP_OK(tutti_allreduce(i % 2 || (i == 2 && job->rank == 1) ? TUTTI_IN_PLACE : &w[i],
				      &v[i], 1, TUTTI_INT32, TUTTI_SUM, job->world));
	err = tutti_group_end();
	while (!err)
		err = tutti_barrier(job->world);
	MP_ERR(err, -TUTTI_EMISMATCH);
	MP_OK(tutti_comm_error(job->world, &info));
	TT_EXPECT(!strcmp(info.field, "in place") && info.rank == 1);
	return 0;
}

static int place_body(struct mp_job *job)
{
	int coll;

	in = calloc(N * 101, 4);
	out = calloc(N * 101, 4);
	TT_EXPECT(in && out);
	for (coll = 0; coll < COLLS; coll++) {
		if (!chooses_together((enum coll)coll))
			continue;
		TT_EXPECT(!agree_in_place(job, (enum coll)coll));
		TT_EXPECT(!differ_in_place(job, (enum coll)coll, 0, coll % 2));
		TT_EXPECT(
			!differ_in_place(job, (enum coll)coll, TUTTI_CALL_PERSISTENT, !(coll % 2)));
	}
	free(in);
	free(out);
	return 0;
}

static void in_place_on(const char *env)
{
	TT_CHECK(!MP_RUN(.n = N, .env = env, .fn = place_body));
	TT_CHECK(!MP_RUN(.n = N, .env = env, .fn = fused_body));
}

static void in_place(void)
{
	in_place_on("TUTTI_NODE=on TUTTI_LATE_AFTER=50ms");
	in_place_on("TUTTI_TRANSPORT=shm TUTTI_LATE_AFTER=50ms");
	if (!mp_no_ofi())
		in_place_on("TUTTI_TRANSPORT=ofi TUTTI_IF=lo TUTTI_LATE_AFTER=50ms");
}

/* ---- two against two; the last call ---- */

/* The lower rank's side is taken for right, and one of each side named. */
static int split_body(struct mp_job *job)
{
	struct tutti_error_info info = {.size = sizeof(info)};
	struct call c = {
		ALLREDUCE, 100 - (size_t)(job->rank % 2), TUTTI_FLOAT32, TUTTI_SUM, 0, false,
		false};
	int err;

	in = calloc(100, 4);
	out = calloc(100, 4);
	err = make(&c, job->world);
	while (!err)
		err = tutti_barrier(job->world);
	MP_ERR(err, -TUTTI_EMISMATCH);
	MP_OK(tutti_comm_error(job->world, &info));
	TT_EXPECT(info.rank == 1 && strstr(info.text, "rank 0 called"));
	free(in);
	free(out);
	return 0;
}

/* One against one, and the last rank has not called yet: the text says so. */
static int few_body(struct mp_job *job)
{
	atomic_int *known = &job->shared->word[0];
	float v[100] = {0};

	mp_meet(job);
	if (job->rank == job->n - 1)
		TT_EXPECT(mp_await(known, job->n - 1, MP_HANG_MS));
	MP_ERR(tutti_allreduce(TUTTI_IN_PLACE, v, 100 - (size_t)(job->rank == 1), TUTTI_FLOAT32,
			       TUTTI_SUM, job->world),
	       -TUTTI_EMISMATCH);
	MP_SAID("only 2 of 3 ranks have answered");
	atomic_fetch_add(known, 1);
	return mp_leave_failed(job);
}

static void few(void)
{
	TT_CHECK(!MP_RUN(.n = 3, .fn = few_body));
	TT_CHECK(!MP_RUN(.n = 3, .env = "TUTTI_NODE=off TUTTI_TRANSPORT=shm", .fn = few_body));
}

/*
 * Some ranks have completed their part of a broadcast whose root differs and call nothing more:
 * finalize reports the mismatch.
 */
static int last_body(struct mp_job *job)
{
	float v[100] = {0};
	int err, root = job->rank == *(int *)job->arg ? (job->rank + 1) % N : 0;

	mp_meet(job);
	err = tutti_bcast(v, 100, TUTTI_FLOAT32, root, job->world);
	if (err)
		MP_ERR(err, -TUTTI_EMISMATCH);
	while (*(int *)job->arg % 2 && !err && !mp_log_has(job, "disagree"))
		mp_sleep_ms(1); /* until it is known here */
	if (err)
		(void)mp_leave(job);
	else
		MP_ERR(mp_leave(job), -TUTTI_EMISMATCH);
	return 0;
}

static void last(const char *env)
{
	int bad;

	for (bad = 1; bad < 3; bad++)
		TT_CHECK(!MP_RUN(.n = N, .env = env, .fn = last_body, .arg = &bad));
}

static void last_call(void)
{
	TT_CHECK(!MP_RUN(.n = N, .fn = split_body));
	last(mp_no_ofi() ? "TUTTI_TRANSPORT=shm" : "TUTTI_TRANSPORT=ofi");
}

/* ---- late is no error ---- */

#define LATE "which has not called it yet"

/* A rank comes late to a barrier. */
static int late_barrier(struct mp_job *job, int late, int ms)
{
	mp_meet(job);
	if (job->rank == late)
		mp_sleep_ms(ms);
	MP_OK(tutti_barrier(job->world));
	return 0;
}

/* Beside heavy load a rank can come before the others have learnt that it is late. */
static int later(struct mp_job *job)
{
	int32_t told, all = 0;
	int late, ms;

	for (ms = 600; ms < 20000; ms *= 2) {
		told = mp_log_has(job, LATE);
		MP_OK(tutti_allreduce(&told, &all, 1, TUTTI_INT32, TUTTI_MIN, job->world));
		for (late = 0; late < 2 && !all; late++)
			TT_EXPECT(!late_barrier(job, late, ms));
	}
	return 0;
}

static int late_body(struct mp_job *job)
{
	size_t count = 100;
	int coll, late;

	in = calloc(N * (count + 1), 4);
	out = calloc(N * (count + 1), 4);
	TT_EXPECT(in && out);
	for (coll = *(int *)job->arg; coll < COLLS; coll += 2) {
		struct call c = {(enum coll)coll, count, TUTTI_FLOAT32, TUTTI_SUM, 0, false, false};

		late = coll % N;
		mp_meet(job);
		if (job->rank == late)
			mp_sleep_ms(300); /* TUTTI_LATE_AFTER is 20 ms here */
		MP_OK(make(&c, job->world));
		MP_OK(tutti_barrier(job->world));
	}
	/*
	 * The oldest call is reported: the barrier, if this collective needs nothing from the late
	 * rank.
	 */
	TT_EXPECT(!later(job));
	TT_EXPECT(mp_log_has(job, LATE));
	free(in);
	free(out);
	return 0;
}

static void late(void)
{
	int first = 0;

	TT_CHECK(!MP_RUN(.n = N, .env = "TUTTI_LATE_AFTER=20ms", .fn = late_body, .arg = &first));
	first = 1;
	TT_CHECK(!MP_RUN(.n = N, .env = "TUTTI_LATE_AFTER=20ms TUTTI_TRANSPORT=shm",
			 .fn = late_body, .arg = &first));
}

int main(int argc, char **argv)
{
	static const struct tt_test tests[] = {
		{"node_short", node_short},
		{"node_long", node_long},
		{"shm_short", shm_short},
		{"shm_long", shm_long},
		{"ofi", ofi},
		{"in_place", in_place},
		{"few", few},
		{"last_call", last_call},
		{"late", late},
		{NULL, NULL},
	};

	return tt_test_main("mismatch", tests, argc, argv);
}
