/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Pipelines: tables counted against the published formulas, a checker of deadlocks, real runs with
 * exact results, wrong arguments, a death, and random schedules on three axes at once.
 */
#include "config.h"

#include "tests/mp/job.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <tutti/pipeline.h>
#include <unistd.h>

#define STAGES 8
#define PARTS 32 /* stages * chunks at most */
#define MICROS 24

static struct tutti_pipeline *make(enum tutti_pipeline_schedule schedule, int p, int m, int v)
{
	struct tutti_pipeline_config config = {.size = sizeof(config),
					       .schedule = schedule,
					       .stages = p,
					       .micro_batches = m,
					       .chunks = v};
	struct tutti_pipeline *pipe;

	return tutti_pipeline_create(&config, &pipe) ? NULL : pipe;
}

static int live_formula(enum tutti_pipeline_schedule schedule, int p, int m, int v, int stage)
{
	int n;

	if (schedule == TUTTI_PIPELINE_GPIPE)
		return m;
	n = schedule == TUTTI_PIPELINE_1F1B ? p - stage : 2 * (p - stage - 1) + (v - 1) * p + 1;
	return n < v * m ? n : v * m;
}

/* Each step once, and the backward step of a micro-batch after its forward step. */
static bool complete(const struct tutti_pipeline_step *s, int n, int m, int v)
{
	char seen[PARTS][MICROS] = {{0}};
	int i;

	for (i = 0; i < n; i++) {
		if (s[i].micro < 0 || s[i].micro >= m || s[i].chunk < 0 || s[i].chunk >= v ||
		    seen[s[i].chunk][s[i].micro] != s[i].backward)
			return false;
		seen[s[i].chunk][s[i].micro]++;
	}
	return n == 2 * m * v;
}

static void count_one(enum tutti_pipeline_schedule schedule, int p, int m, int v)
{
	struct tutti_pipeline *pipe = make(schedule, p, m, v);
	struct tutti_pipeline_counts c = {.size = sizeof(c)};
	const struct tutti_pipeline_step *steps;
	int stage, n;

	TT_REQUIRE(pipe != NULL);
	for (stage = 0; stage < p; stage++) {
		TT_CHECK(!tutti_pipeline_steps(pipe, stage, &steps, &n));
		TT_CHECK(complete(steps, n, m, v));
		TT_CHECK(!tutti_pipeline_count(pipe, stage, &c));
		TT_CHECK(c.slots == 2 * (v * m + p - 1) && c.busy == 2 * v * m);
		/* the share of the bubble is (p - 1) / (v m + p - 1) */
		TT_CHECK((c.slots - c.busy) * (v * m + p - 1) == c.slots * (p - 1));
		TT_CHECK(c.live == live_formula(schedule, p, m, v, stage));
	}
	tutti_pipeline_free(pipe);
}

static void each_table(void (*fn)(enum tutti_pipeline_schedule, int, int, int))
{
	int p, m, v;

	for (p = 1; p <= STAGES; p++)
		for (m = 1; m <= MICROS; m++) {
			fn(TUTTI_PIPELINE_GPIPE, p, m, 1);
			if (m >= p)
				fn(TUTTI_PIPELINE_1F1B, p, m, 1);
			for (v = 2; v <= 4 && p > 1 && m % p == 0; v++)
				fn(TUTTI_PIPELINE_INTERLEAVED, p, m, v);
		}
}

static void counts(void)
{
	struct tutti_pipeline *pipe = make(TUTTI_PIPELINE_1F1B, 4, 8, 0);
	struct tutti_pipeline_counts c = {.size = sizeof(c)};

	each_table(count_one);
	TT_REQUIRE(pipe && !tutti_pipeline_count(pipe, 0, &c));
	TT_CHECK((int)(1000.0 * (c.slots - c.busy) / c.slots + .5) == 273);
	tutti_pipeline_free(pipe);
}

/* ---- the checker: sends end when their receives start, which is one step ahead ---- */

struct check {
	int p, v, n;
	const struct tutti_pipeline_step *steps[STAGES];
	int at[STAGES];		       /* the step that a stage is in */
	bool posted[PARTS][MICROS][2]; /* the receive of a part's input has started */
	bool sent[PARTS][MICROS][2];   /* that input has been sent */
};

static bool post(struct check *c, int stage, int i)
{
	const struct tutti_pipeline_step *s = &c->steps[stage][i];

	if (i < c->n)
		c->posted[s->chunk * c->p + stage][s->micro][s->backward] = true;
	return true;
}

/* Whether the stage can do its step: the input is there, the output's buffer is free. */
static bool can_step(struct check *c, int stage)
{
	const struct tutti_pipeline_step *s = &c->steps[stage][c->at[stage]];
	int part = s->chunk * c->p + stage, parts = c->p * c->v;
	int to = s->backward ? part - 1 : part + 1;
	bool end = s->backward ? part == parts - 1 : !part;

	post(c, stage, c->at[stage]);
	post(c, stage, c->at[stage] + 1);
	if (!end && !c->sent[part][s->micro][s->backward])
		return false;
	if (to < 0 || to >= parts)
		return true;
	return s->micro < 2 || c->posted[to][s->micro - 2][s->backward];
}

static void do_step(struct check *c, int stage)
{
	const struct tutti_pipeline_step *s = &c->steps[stage][c->at[stage]++];
	int to = s->chunk * c->p + stage + (s->backward ? -1 : 1);

	if (to >= 0 && to < c->p * c->v)
		c->sent[to][s->micro][s->backward] = true;
}

static bool finishes(struct check *c)
{
	bool moved = true, done = true;
	int stage;

	while (moved) {
		moved = false;
		for (stage = 0; stage < c->p; stage++)
			while (c->at[stage] < c->n && can_step(c, stage)) {
				do_step(c, stage);
				moved = true;
			}
	}
	for (stage = 0; stage < c->p; stage++)
		done = done && c->at[stage] == c->n;
	return done;
}

static void check_one(enum tutti_pipeline_schedule schedule, int p, int m, int v)
{
	struct check *c = calloc(1, sizeof(*c));
	struct tutti_pipeline *pipe = make(schedule, p, m, v);
	int stage;

	c->p = p;
	c->v = v;
	for (stage = 0; stage < p; stage++)
		TT_CHECK(!tutti_pipeline_steps(pipe, stage, &c->steps[stage], &c->n));
	TT_CHECK(finishes(c));
	tutti_pipeline_free(pipe);
	free(c);
}

/* The checker finds two stages that wait for each other. */
static void deadlock(void)
{
	struct check *c = calloc(1, sizeof(*c));
	static const struct tutti_pipeline_step first[] = {{0, 0, 0},
							   {0, 0, 1},
							   {1, 0, 0},
							   {1, 0, 1}},
						last[] = {
							{0, 0, 0}, {1, 0, 0}, {0, 0, 1}, {1, 0, 1}};

	each_table(check_one);
	*c = (struct check){.p = 2, .v = 1, .n = 4, .steps = {first, last}};
	TT_CHECK(!finishes(c));
	free(c);
}

/* ---- runs ---- */

struct model {
	struct mp_job *job;
	struct tutti_comm *tensor, *data; /* NULL: not used */
	int p, v, m, stage, T, D;
	size_t count;
	int64_t *sum[MICROS];
	struct tutti_request *req[MICROS];
	int kill_at, steps;
};

/* Part k makes T (x + k) of x, and T (g - k) of g. */
static int64_t expect(const struct model *m, int micro, int part, bool backward)
{
	int64_t x = micro + 1;
	int i, parts = m->p * m->v;

	for (i = 0; i < (backward ? parts : part); i++)
		x = m->T * (x + i);
	for (i = parts - 1; backward && i > part; i--)
		x = m->T * (x - i);
	return x;
}

static int compute(struct model *m, const int64_t *in, int add, int64_t expected, int64_t *out)
{
	struct mp_job *job = m->job;
	size_t i;

	if (m->kill_at && ++m->steps == m->kill_at)
		raise(SIGKILL);
	for (i = 0; i < m->count; i++) {
		TT_EXPECT(in[i] == expected);
		out[i] = in[i] + add;
	}
	if (m->tensor)
		MP_OK(tutti_allreduce(TUTTI_IN_PLACE, out, m->count, TUTTI_INT64, TUTTI_SUM,
				      m->tensor));
	return 0;
}

static int forward(void *arg, const struct tutti_pipeline_step *s, const void *in, void *out)
{
	struct model *m = arg;
	int part = s->chunk * m->p + m->stage;
	int64_t *data = m->sum[s->micro];
	size_t i;

	TT_EXPECT(!in == !part && !out == (part == m->p * m->v - 1));
	for (i = 0; i < m->count && !in; i++)
		data[i] = s->micro + 1;
	return compute(m, in ? in : data, part, expect(m, s->micro, part, false), out ? out : data);
}

static int backward(void *arg, const struct tutti_pipeline_step *s, const void *in,
		    const void *out_grad, void *in_grad)
{
	struct model *m = arg;
	struct mp_job *job = m->job;
	int part = s->chunk * m->p + m->stage, err;
	int64_t *data = m->sum[s->micro];

	TT_EXPECT(!in_grad == !part && !out_grad == (part == m->p * m->v - 1));
	TT_EXPECT(!in || *(const int64_t *)in == expect(m, s->micro, part, false));
	err = compute(m, out_grad ? out_grad : data, -part, expect(m, s->micro, part, true),
		      in_grad ? in_grad : data);
	if (!err && !in_grad && m->data)
		MP_OK(tutti_iallreduce(TUTTI_IN_PLACE, data, m->count, TUTTI_INT64, TUTTI_SUM,
				       m->data, &m->req[s->micro]));
	return err;
}

static int run_model(struct model *m, enum tutti_pipeline_schedule schedule,
		     struct tutti_comm *comm, int times)
{
	struct tutti_pipeline_work work = {.size = sizeof(work),
					   .count = m->count,
					   .datatype = TUTTI_INT64,
					   .forward = forward,
					   .backward = backward,
					   .arg = m};
	struct tutti_pipeline *pipe = make(schedule, m->p, m->m, m->v);
	struct mp_job *job = m->job;
	double waited = -1;
	int i, err = 0;

	TT_EXPECT(pipe);
	m->stage = tutti_comm_rank(comm);
	for (i = 0; i < m->m; i++)
		m->sum[i] = calloc(m->count, sizeof(int64_t));
	MP_OK(tutti_pipeline_attach(pipe, comm, &work));
	for (; times && !err; times--) {
		err = tutti_pipeline_run(pipe, &waited);
		if (!err)
			err = tutti_waitall(m->m, m->req);
		for (i = 0; i < m->m && !err && !m->stage; i++)
			TT_EXPECT(m->sum[i][m->count - 1] == m->D * expect(m, i, -1, true));
	}
	TT_EXPECT(err || waited >= 0);
	tutti_pipeline_free(pipe);
	for (i = 0; i < m->m; i++)
		free(m->sum[i]);
	return err;
}

static int run_body(struct mp_job *job)
{
	static const size_t sizes[] = {1, 1000, 40000};
	struct model m = {.job = job, .p = job->n, .v = 1, .T = 1, .D = 1};
	unsigned i;

	for (i = 0; i < 3; i++) {
		m.count = sizes[i];
		m.v = 1;
		m.m = 1 + job->n / 2;
		MP_OK(run_model(&m, TUTTI_PIPELINE_GPIPE, job->world, 2));
		m.m = job->n + 3;
		MP_OK(run_model(&m, TUTTI_PIPELINE_1F1B, job->world, 2));
		m.m = 2 * job->n;
		m.v = 3;
		if (job->n > 1)
			MP_OK(run_model(&m, TUTTI_PIPELINE_INTERLEAVED, job->world, 2));
	}
	return 0;
}

static void runs(void)
{
	int n;

	for (n = 1; n <= 4; n++)
		TT_CHECK(!MP_RUN(.n = n, .fn = run_body));
	TT_CHECK(!MP_RUN(.n = 3, .fn = run_body, .env = "TUTTI_HOST_ID=h%h"));
	if (!mp_no_ofi())
		TT_CHECK(!MP_RUN(.n = 2, .fn = run_body, .env = "TUTTI_TRANSPORT=ofi"));
	if (!mp_no_verbs())
		TT_CHECK(!MP_RUN(.n = 2, .fn = run_body, .env = "TUTTI_TRANSPORT=verbs"));
}

/* ---- three axes at once ---- */

static const int shapes[][3] = {{2, 2, 2}, {1, 4, 2}, {1, 2, 4}, {2, 4, 1}, {4, 2, 1}, {1, 8, 1}};
#define SHAPES (sizeof(shapes) / sizeof(shapes[0]))

static unsigned draw(uint64_t *state, unsigned n)
{
	*state = *state * 6364136223846793005ull + 1442695040888963407ull;
	return (unsigned)(*state >> 33) % n;
}

static int axes_once(struct mp_job *job, struct tutti_grid *grid, const int *dims, uint64_t *seed)
{
	struct model m = {.job = job, .p = dims[1], .v = 1, .T = dims[2], .D = dims[0]};
	enum tutti_pipeline_schedule schedule = draw(seed, 3);
	struct tutti_comm *pipe;

	m.m = m.p * (1 + (int)draw(seed, MICROS / STAGES));
	if (schedule == TUTTI_PIPELINE_INTERLEAVED)
		m.v = 2 + (int)draw(seed, 2);
	if (schedule == TUTTI_PIPELINE_1F1B)
		m.m += (int)draw(seed, 2);
	if (m.m > MICROS)
		m.m = m.p;
	m.count = 1 + draw(seed, draw(seed, 4) ? 300 : 5000);
	MP_OK(tutti_grid_comm(grid, TUTTI_AXIS(0), &m.data));
	MP_OK(tutti_grid_comm(grid, TUTTI_AXIS(1), &pipe));
	MP_OK(tutti_grid_comm(grid, TUTTI_AXIS(2), &m.tensor));
	return run_model(&m, schedule, pipe, 1);
}

static int axes_body(struct mp_job *job)
{
	int i, j, times = tt_times("TT_PIPELINE_AXES", 200);
	uint64_t seed = 24;
	struct tutti_grid *grid;
	const int *dims;

	for (i = 0; i < times; i += 20) {
		dims = shapes[draw(&seed, SHAPES)];
		MP_OK(tutti_grid_create(job->world, 3, dims, NULL, &grid));
		for (j = i; j < i + 20 && j < times; j++)
			MP_OK(axes_once(job, grid, dims, &seed));
		MP_OK(tutti_grid_free(grid));
	}
	return 0;
}

static void axes(void)
{
	TT_CHECK(!MP_RUN(.n = 8, .fn = axes_body, .timeout_ms = 3600000));
}

/* ---- failures ---- */

static int death_body(struct mp_job *job)
{
	struct model m = {.job = job, .p = job->n, .v = 1, .T = 1, .D = 1, .count = 100, .m = 9};

	m.kill_at = job->rank == 1 ? 7 : 0;
	MP_ERR(run_model(&m, TUTTI_PIPELINE_1F1B, job->world, 3), -TUTTI_EPEER);
	return mp_leave_failed(job);
}

static void death(void)
{
	TT_CHECK(!MP_RUN(.n = 3, .fn = death_body, .killed = 1u << 1));
}

static int fail_step(void *arg, const struct tutti_pipeline_step *s, const void *in, void *out)
{
	return -ERANGE;
}

static int wrong_config(struct mp_job *job)
{
	struct tutti_pipeline *pipe = NULL;

#define WRONG(says, ...)                                                                           \
	do {                                                                                       \
		MP_ERR(tutti_pipeline_create(                                                      \
			       &(struct tutti_pipeline_config){                                    \
				       .size = sizeof(struct tutti_pipeline_config), __VA_ARGS__}, \
			       &pipe),                                                             \
		       -EINVAL);                                                                   \
		MP_SAID(says);                                                                     \
		TT_EXPECT(!pipe);                                                                  \
	} while (0)
	WRONG("3 micro-batches are fewer than the 4 stages", .schedule = TUTTI_PIPELINE_1F1B,
	      .stages = 4, .micro_batches = 3);
	WRONG("3 micro-batches are fewer than the 4 stages", .schedule = TUTTI_PIPELINE_INTERLEAVED,
	      .stages = 4, .micro_batches = 3);
	WRONG("6 micro-batches are no multiple of the 4 stages",
	      .schedule = TUTTI_PIPELINE_INTERLEAVED, .stages = 4, .micro_batches = 6);
	WRONG("interleaved over 1 stages", .schedule = TUTTI_PIPELINE_INTERLEAVED, .stages = 1,
	      .micro_batches = 2);
	WRONG("2 chunks", .stages = 2, .micro_batches = 2, .chunks = 2);
	WRONG("0 stages", .micro_batches = 2);
	WRONG("schedule is 3", .schedule = 3, .stages = 1, .micro_batches = 1);
	WRONG("more steps than a table holds", .stages = 65536, .micro_batches = 65536);
	MP_ERR(tutti_pipeline_create(NULL, &pipe), -EINVAL);
	return 0;
}

static int wrong_body(struct mp_job *job)
{
	struct tutti_pipeline *pipe = make(TUTTI_PIPELINE_GPIPE, job->n, 2, 1);
	struct tutti_pipeline_work work = {.size = sizeof(work),
					   .count = 1,
					   .datatype = TUTTI_INT64,
					   .forward = fail_step,
					   .backward = backward};
	struct tutti_pipeline_counts c = {0};
	struct {
		struct tutti_pipeline_counts now;
		int64_t more;
	} later = {.now.size = sizeof(later), .more = 7};
	const struct tutti_pipeline_step *steps;
	int n;

	TT_EXPECT(!wrong_config(job));
	MP_ERR(tutti_pipeline_steps(pipe, job->n, &steps, &n), -EINVAL);
	MP_ERR(tutti_pipeline_steps(pipe, -1, &steps, &n), -EINVAL);
	MP_ERR(tutti_pipeline_steps(pipe, 0, NULL, &n), -EINVAL);
	MP_ERR(tutti_pipeline_count(pipe, 0, &c), -EINVAL);
	MP_ERR(tutti_pipeline_count(pipe, 0, NULL), -EINVAL);
	MP_OK(tutti_pipeline_count(pipe, 0, &later.now)); /* of a later version */
	TT_EXPECT(later.now.size == sizeof(later) && later.now.busy == 4 && !later.more);
	MP_ERR(tutti_pipeline_run(pipe, NULL), -EINVAL);
	MP_SAID("attached to no communicator");
	MP_ERR(tutti_pipeline_run(NULL, NULL), -EINVAL);
	MP_ERR(tutti_pipeline_attach(pipe, tutti_self(job->ctx), &work), -EINVAL);
	MP_SAID("1 ranks for 2 stages");
	work.pad = 1;
	MP_ERR(tutti_pipeline_attach(pipe, job->world, &work), -EINVAL);
	MP_SAID("work.pad is 1");
	work.pad = 0;
	work.size = 0;
	MP_ERR(tutti_pipeline_attach(pipe, job->world, &work), -EINVAL);
	MP_SAID("work.size is 0");
	work.size = sizeof(work);
	work.count = 0;
	MP_ERR(tutti_pipeline_attach(pipe, job->world, &work), -EINVAL);
	work.count = 1;
	work.backward = NULL;
	MP_ERR(tutti_pipeline_attach(pipe, job->world, &work), -EINVAL);
	MP_SAID("backward is NULL");
	work.backward = backward;
	work.count = (size_t)1 << 50; /* more than memory */
	MP_ERR(tutti_pipeline_attach(pipe, job->world, &work), -ENOMEM);
	work.count = 1 + (size_t)job->rank;
	MP_ERR(tutti_pipeline_attach(pipe, job->world, &work), -TUTTI_EMISMATCH);
	MP_SAID("ranks 0 and 1 disagree on count");
	work.count = (size_t)!job->rank;
	MP_ERR(tutti_pipeline_attach(pipe, job->world, &work), -EINVAL);
	TT_EXPECT(mp_said(job->rank ? "count is 0" : "tutti_pipeline_attach: rank 1: count is 0"));
	work.count = 1;
	MP_OK(tutti_pipeline_attach(pipe, job->world, &work));
	MP_ERR(tutti_pipeline_attach(pipe, job->world, &work), -EBUSY);
	MP_ERR(tutti_finalize(job->ctx), -EBUSY);
	MP_SAID("tutti_finalize: an attached pipeline still exists; call tutti_pipeline_free");
	/* the code of the caller's function is returned; the other stage does not wait for it */
	MP_ERR(tutti_pipeline_run(pipe, NULL), job->rank ? -TUTTI_EREVOKED : -ERANGE);
	if (!job->rank)
		MP_SAID("the forward function of stage 0 returned -34 for micro-batch 0");
	MP_ERR(tutti_pipeline_run(pipe, NULL), -EINVAL);
	MP_SAID("a run has failed");
	MP_OK(tutti_pipeline_free(pipe));
	MP_OK(tutti_pipeline_free(NULL));
	return 0;
}

static void wrong(void)
{
	TT_CHECK(!MP_RUN(.n = 2, .fn = wrong_body));
}

/*
 * Stage 1 fails and frees while its receive of micro-batch 1 is under way. Stage 0 sends it only
 * when the memory is in use for something else.
 */
static bool met;

static int freed_forward(void *arg, const struct tutti_pipeline_step *s, const void *in, void *out)
{
	struct mp_job *job = arg;

	if (job->rank || s->micro == 2)
		return -ERANGE;
	met |= s->micro == 1;
	return s->micro ? tutti_barrier(job->world) : 0;
}

static int freed_body(struct mp_job *job)
{
	struct tutti_pipeline *pipe = make(TUTTI_PIPELINE_GPIPE, 2, 3, 1);
	struct tutti_pipeline_work work = {.size = sizeof(work),
					   .count = 100,
					   .datatype = TUTTI_INT64,
					   .forward = freed_forward,
					   .backward = backward,
					   .arg = job};
	size_t bytes = 4 * 832, i; /* the buffers of a line */
	unsigned char *again[4];
	int k;

	MP_OK(tutti_pipeline_attach(pipe, job->world, &work));
	k = tutti_pipeline_run(pipe, NULL);
	TT_EXPECT(k == -ERANGE || (!job->rank && k == -TUTTI_EREVOKED));
	MP_OK(tutti_pipeline_free(pipe));
	for (k = 0; k < 4; k++) {
		MP_OK(tutti_alloc(job->ctx, bytes, (void **)&again[k]));
		memset(again[k], 0xa5, bytes);
	}
	if (!met) /* stage 0 meets there before it sends, or has been told */
		MP_OK(tutti_barrier(job->world));
	MP_OK(tutti_barrier(job->world));
	for (k = 0; k < 4; k++) {
		for (i = 0; i < bytes; i++)
			TT_EXPECT(again[k][i] == 0xa5);
		tutti_free(again[k]);
	}
	return 0;
}

static void freed(void)
{
	TT_CHECK(!MP_RUN(.n = 2, .fn = freed_body));
}

int main(int argc, char **argv)
{
	static const struct tt_test tests[] = {
		{"counts", counts}, {"deadlock", deadlock}, {"runs", runs},   {"axes", axes},
		{"death", death},   {"wrong", wrong},	    {"freed", freed}, {NULL, NULL},
	};

	return tt_test_main("pipeline", tests, argc, argv);
}
