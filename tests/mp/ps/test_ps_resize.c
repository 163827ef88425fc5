/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Parameter servers whose ranks change: workers and servers join, leave and die. After every clock
 * all tables, and thus the state of their rules, equal those of a single process that does the
 * same.
 */
#include "config.h"

#include "tests/mp/job.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define MOM 30000
#define ADAM 5000
#define KEYS 400
#define WIDTH 3
#define ROUNDS 3 /* of each stage */
#define STAGES 5
#define MS 20000 /* time to wait for new processes */

/*
 * The role of each process in each stage: s, w, b: server, worker, both; .: not there; l: it
 * leaves before this stage; k: it has been killed. A new process gets the last rank.
 */
struct plan {
	int copies, stages;
	const char *role[STAGES];
	int staleness;
	bool whole; /* all comms are worlds: grown, even without new processes */
};

static int role_in(const struct plan *p, int stage, int i)
{
	char c = i < (int)strlen(p->role[stage]) ? p->role[stage][i] : '.';

	return c == 's'	  ? TUTTI_PS_SERVER
	       : c == 'w' ? TUTTI_PS_WORKER
	       : c == 'b' ? TUTTI_PS_BOTH
			  : 0;
}

/* ---- the same by one process ---- */

struct tables {
	float mom[MOM], mom_v[MOM];
	double adam[ADAM], m[ADAM], v[ADAM];
	double row[KEYS * WIDTH], sq[KEYS * WIDTH];
	int64_t set[ADAM];
	int steps;
};

static float mom_of(int w, int round, int i)
{
	return 0.37f *
		       (float)(((unsigned)i * 2654435761u + (unsigned)w * 40503u +
				(unsigned)round * 977u) %
			       1000) /
		       (float)(1 + w) -
	       0.1f;
}

static double real_of(int w, int round, int i)
{
	return (double)((i * 7 + w * 3 + round * 5) % 11) / 4 - 1;
}

/* Some rows are created later than others. */
static int row_of(int w, int round, int i)
{
	return round < 4 ? (i + w) % (KEYS / 2) : (i + w) % KEYS;
}

static uint64_t key_of(int i)
{
	return (uint64_t)i * 0x9e3779b97f4a7c15ull + 5;
}

static void serial(struct tables *o, int w, int round)
{
	double g, m, v;
	int i, r;

	for (i = 0; i < MOM; i++) {
		o->mom_v[i] = 0.9f * o->mom_v[i] + mom_of(w, round, i);
		o->mom[i] -= 0.05f * o->mom_v[i];
	}
	o->steps++;
	for (i = 0; i < ADAM; i++) {
		g = real_of(w, round, i);
		o->m[i] = 0.9 * o->m[i] + (1 - 0.9) * g;
		o->v[i] = 0.999 * o->v[i] + (1 - 0.999) * g * g;
		m = o->m[i] / (1 - pow(0.9, o->steps));
		v = o->v[i] / (1 - pow(0.999, o->steps));
		o->adam[i] -= 0.05 * m / (sqrt(v) + 1e-8);
		o->set[i] += (w + 1) * (round + 1) * (i % 10);
	}
	for (i = 0; i < KEYS / 2; i++)
		for (r = 0; r < WIDTH; r++) {
			int at = row_of(w, round, i) * WIDTH + r;

			g = real_of(w, round, at);
			o->sq[at] += g * g;
			o->row[at] -= 0.05 * g / (sqrt(o->sq[at]) + 1e-10);
		}
}

static void serial_round(const struct plan *p, struct tables *o, int round)
{
	int w;

	for (w = 0; w < (int)strlen(p->role[round / ROUNDS]); w++)
		if (role_in(p, round / ROUNDS, w) & TUTTI_PS_WORKER)
			serial(o, w, round);
}

/* ---- the job ---- */

struct rank {
	const struct plan *p;
	int me; /* of all processes */
	struct tutti_ps *ps;
	struct tutti_ps_table *mom, *adam, *rows, *set;
	struct tutti_comm *comm;
	struct tables *o, *buf;
};

static int make_tables(struct mp_job *job, struct rank *k)
{
	struct tutti_ps_options opt = {.size = sizeof(opt),
				       .rule = TUTTI_PS_MOMENTUM,
				       .rate = 0.05,
				       .init = TUTTI_PS_CONSTANT,
				       .init_a = 1,
				       .block = 8192};

	MP_OK(tutti_ps_dense(k->ps, "mom", MOM, TUTTI_FLOAT32, &opt, &k->mom));
	opt.rule = TUTTI_PS_ADAM;
	MP_OK(tutti_ps_dense(k->ps, "adam", ADAM, TUTTI_FLOAT64, &opt, &k->adam));
	opt.rule = TUTTI_PS_ADAGRAD;
	opt.block = 1000;
	MP_OK(tutti_ps_rows(k->ps, "rows", WIDTH, KEYS + 10, TUTTI_FLOAT64, &opt, &k->rows));
	opt = (struct tutti_ps_options){.size = sizeof(opt), .essp = 1};
	MP_OK(tutti_ps_dense(k->ps, "set", ADAM, TUTTI_INT64, &opt, &k->set));
	return 0;
}

static struct tutti_ps_config config_in(const struct rank *k, int stage)
{
	struct tutti_ps_config config = {.size = sizeof(config),
					 .staleness = k->p->staleness,
					 .role = role_in(k->p, stage, k->me),
					 .copies = k->p->copies};

	if (!config.role)
		config.role = TUTTI_PS_LEAVE;
	return config;
}

static int push_round(struct mp_job *job, struct rank *k, int round)
{
	struct tables *u = k->buf;
	uint64_t key[KEYS / 2];
	int i, r;

	for (i = 0; i < MOM; i++)
		u->mom[i] = mom_of(k->me, round, i);
	for (i = 0; i < ADAM; i++) {
		u->adam[i] = real_of(k->me, round, i);
		u->set[i] = (k->me + 1) * (round + 1) * (i % 10);
	}
	for (i = 0; i < KEYS / 2; i++) {
		key[i] = key_of(row_of(k->me, round, i));
		for (r = 0; r < WIDTH; r++)
			u->row[i * WIDTH + r] =
				real_of(k->me, round, row_of(k->me, round, i) * WIDTH + r);
	}
	MP_OK(tutti_ps_push(k->mom, u->mom, 0, MOM, TUTTI_FLOAT32));
	MP_OK(tutti_ps_push(k->adam, u->adam, 0, ADAM, TUTTI_FLOAT64));
	MP_OK(tutti_ps_push_rows(k->rows, key, KEYS / 2, u->row, TUTTI_FLOAT64));
	MP_OK(tutti_ps_push(k->set, u->set, 0, ADAM, TUTTI_INT64));
	return 0;
}

static int check_all(struct mp_job *job, struct rank *k)
{
	struct tables *v = k->buf;
	uint64_t key[KEYS];
	int i;

	if (k->p->staleness)
		return 0;
	for (i = 0; i < KEYS; i++)
		key[i] = key_of(i);
	MP_OK(tutti_ps_pull(k->mom, v->mom, 0, MOM, TUTTI_FLOAT32));
	MP_OK(tutti_ps_pull(k->adam, v->adam, 0, ADAM, TUTTI_FLOAT64));
	MP_OK(tutti_ps_pull(k->set, v->set, 0, ADAM, TUTTI_INT64));
	MP_OK(tutti_ps_pull_rows(k->rows, key, KEYS, v->row, TUTTI_FLOAT64));
	TT_EXPECT(!memcmp(v->mom, k->o->mom, sizeof(v->mom)));
	TT_EXPECT(!memcmp(v->set, k->o->set, sizeof(v->set)));
	TT_EXPECT(!memcmp(v->row, k->o->row, sizeof(v->row)));
	for (i = 0; i < ADAM; i++)
		TT_EXPECT(fabs(v->adam[i] - k->o->adam[i]) <= 1e-13 * (1 + fabs(k->o->adam[i])));
	return 0;
}

/*
 * Pushes of what all know, one after the other: only the tables of rows has its rows from then on.
 */
static int level(struct mp_job *job, struct rank *k)
{
	uint64_t most = 0, sum = 0, bytes;
	int i, n = 0;

	for (i = 0; !tutti_ps_server_bytes(k->ps, i, &bytes); i++, n++) {
		most = bytes > most ? bytes : most;
		sum += bytes;
	}
	TT_EXPECT(n && (double)most <= 1.02 * (double)sum / n + 64 * WIDTH * 8);
	return 0;
}

static int find_all(struct mp_job *job, struct rank *k)
{
	MP_OK(tutti_ps_find(k->ps, "mom", &k->mom));
	MP_OK(tutti_ps_find(k->ps, "adam", &k->adam));
	MP_OK(tutti_ps_find(k->ps, "rows", &k->rows));
	MP_OK(tutti_ps_find(k->ps, "set", &k->set));
	return level(job, k);
}

/* Rank of the first processes, which start the job. */
static int begin(struct mp_job *job, struct rank *k, int n)
{
	struct tutti_ps_config ps = config_in(k, 0);
	int i;

	MP_OK(mp_join_first(job, n));
	k->comm = job->world;
	MP_OK(tutti_ps_open(k->comm, &ps, &k->ps));
	TT_EXPECT(!make_tables(job, k));
	for (i = 0; i < n && !(role_in(k->p, 0, i) & TUTTI_PS_WORKER); i++)
		;
	for (n = 0; n < ADAM; n++)
		k->buf->set[n] = n;
	if (i == k->me)
		MP_OK(tutti_ps_set(k->set, k->buf->set, ADAM, TUTTI_INT64));
	return 0;
}

static int there(const struct plan *p, int stage)
{
	const char *c = p->role[stage];
	int n = 0;

	for (; *c; c++)
		n += *c != '.' && *c != 'k';
	return n;
}

/* The processes of the previous stage that were not killed. */
static int living(const struct plan *p, int stage)
{
	const char *c;
	int n = 0;

	for (c = p->role[stage]; c - p->role[stage] < (long)strlen(p->role[stage - 1]) && *c; c++)
		n += *c != '.' && *c != 'k';
	return n;
}

static bool has(const struct plan *p, int stage, char c)
{
	return strchr(p->role[stage], c) != NULL;
}

/* The ranks of this stage: the live ranks of the previous stage and the new ones. */
static int next_comm(struct mp_job *job, struct rank *k, int stage)
{
	bool comes = strlen(k->p->role[stage]) > strlen(k->p->role[stage - 1]);
	struct tutti_context *ctx;
	struct tutti_comm *comm;

	if (!job->ctx) { /* in its turn */
		TT_EXPECT(mp_await(&job->shared->word[stage], 1, 30000));
		MP_OK(mp_join_later(job));
		k->comm = job->world;
		return 0;
	}
	while (has(k->p, stage, 'k') && !tutti_barrier(k->comm))
		;
	if (comes || k->p->whole) {
		MP_OK(tutti_comm_grow(k->comm, there(k->p, stage), MS, &ctx));
		k->comm = tutti_world(ctx);
	} else if (has(k->p, stage, 'k')) {
		MP_OK(tutti_comm_shrink(k->comm, &comm));
		k->comm = comm;
	}
	return 0;
}

/* The old context is not needed any more, and may have failed. */
static void leave_old(struct mp_job *job, struct rank *k, bool failed)
{
	struct tutti_context *ctx = tutti_comm_context(k->comm);

	if (ctx == job->ctx)
		return;
	if (tutti_finalize(job->ctx) && !failed)
		fprintf(stderr, "rank %d: the old job could not be left\n", job->rank);
	job->ctx = ctx;
	job->world = k->comm;
}

static int change(struct mp_job *job, struct rank *k, int stage)
{
	bool was = k->p->role[stage - 1][k->me] != 0 && k->me < (int)strlen(k->p->role[stage - 1]);
	struct tutti_ps_config config = config_in(k, stage);
	struct tutti_ps *fresh = k->ps;

	if (was && k->p->role[stage][k->me] == 'k') {
		mp_await(&job->shared->word[stage], living(k->p, stage), 30000);
		mp_sleep_ms(20);
		kill(getpid(), SIGKILL);
	}
	if (job->ctx)
		atomic_fetch_add(&job->shared->word[stage], 1);
	TT_EXPECT(!next_comm(job, k, stage));
	MP_OK(tutti_ps_resize(k->ps, k->comm, &config, &fresh));
	k->ps = fresh;
	leave_old(job, k, has(k->p, stage, 'k'));
	TT_EXPECT((fresh != NULL) == (config.role != TUTTI_PS_LEAVE));
	if (has(k->p, stage, 'l'))
		MP_OK(tutti_comm_split(k->comm, fresh ? 0 : TUTTI_UNDEFINED, k->me, &k->comm));
	return fresh ? find_all(job, k) : 0;
}

/* With a staleness: sums, when all that was pushed is in them. */
static int check_sums(struct mp_job *job, struct rank *k)
{
	MP_OK(tutti_ps_pull(k->set, k->buf->set, 0, ADAM, TUTTI_INT64));
	TT_EXPECT(!memcmp(k->buf->set, k->o->set, sizeof(k->o->set)));
	return 0;
}

static int stage_of(struct mp_job *job, struct rank *k, int stage)
{
	int round;

	if (stage && role_in(k->p, stage, k->me) & TUTTI_PS_WORKER)
		TT_EXPECT(!check_all(job, k) && !check_sums(job, k)); /* moved bytes */
	if (stage && k->p->staleness && k->ps)
		MP_OK(tutti_barrier(k->comm)); /* no worker has pushed before */
	for (round = stage * ROUNDS; round < (stage + 1) * ROUNDS; round++) {
		serial_round(k->p, k->o, round);
		if (!(role_in(k->p, stage, k->me) & TUTTI_PS_WORKER))
			continue;
		if (k->p->staleness) /* a read, for the trace */
			MP_OK(tutti_ps_pull(k->mom, k->buf->mom, 0, MOM, TUTTI_FLOAT32));
		TT_EXPECT(!push_round(job, k, round));
		MP_OK(tutti_ps_clock(k->ps));
		TT_EXPECT(!check_all(job, k));
	}
	return 0;
}

static int body(struct mp_job *job)
{
	struct rank k = {.p = job->arg, .me = job->rank};
	int stage = 0, i;

	k.o = calloc(2, sizeof(*k.o));
	k.buf = k.o + 1;
	for (i = 0; i < MOM; i++)
		k.o->mom[i] = 1;
	for (i = 0; i < ADAM; i++) {
		k.o->adam[i] = 1;
		k.o->set[i] = i;
	}
	for (i = 0; i < KEYS * WIDTH; i++)
		k.o->row[i] = 1;
	if (k.me < (int)strlen(k.p->role[0]))
		TT_EXPECT(!begin(job, &k, (int)strlen(k.p->role[0])));
	for (stage = 0; stage < k.p->stages; stage++) {
		bool here = k.me < (int)strlen(k.p->role[stage]) && (k.ps || stage);

		if (stage && here)
			TT_EXPECT(!change(job, &k, stage));
		if (stage && here && !k.ps)
			break;
		TT_EXPECT(!stage_of(job, &k, stage));
	}
	if (k.ps)
		MP_OK(tutti_ps_close(k.ps));
	for (i = 1; i < k.p->stages; i++)
		if (job->ctx && has(k.p, i, 'k') && !k.p->whole)
			(void)mp_leave(job);
	atomic_fetch_add(&job->shared->word[STAGES], 1);
	while (!k.ps && !mp_await(&job->shared->word[STAGES], there(k.p, k.p->stages - 1), 100))
		;
	free(k.o);
	return 0;
}

static void run(const struct plan *p, const char *env)
{
	int n = 0, killed = 0, i, stage;

	for (stage = 0; stage < p->stages; stage++)
		for (i = 0; p->role[stage][i]; i++) {
			n = i + 1 > n ? i + 1 : n;
			if (p->role[stage][i] == 'k')
				killed |= 1 << i;
		}
	TT_CHECK(!MP_RUN(.n = n, .env = env, .fn = body, .arg = (void *)p, .no_init = true,
			 .killed = (unsigned)killed));
}

#define SHM "TUTTI_BOOT_DIR=%d TUTTI_TRANSPORT=shm TUTTI_PS_VERIFY=1"

static const struct plan worker_joins = {.stages = 3, .role = {"sw", "sww", "swwb"}};
static const struct plan server_joins = {.stages = 3, .role = {"sw", "sws", "swsb"}};
static const struct plan leaves = {.stages = 4, .role = {"sswwb", "slwws", "s.wls", "s.w.l"}};
static const struct plan replaced = {
	.copies = 2, .stages = 3, .whole = true, .role = {"sssw", "skswb", "s.sksw"}};
static const struct plan fewer = {.copies = 2, .stages = 3, .role = {"sswsw", "kswsw", ".swswb"}};
static const struct plan worker_dies = {.stages = 3, .role = {"swww", "swkw", "sw.ww"}};

static void workers_join(void)
{
	run(&worker_joins, SHM);
}

static void servers_join(void)
{
	run(&server_joins, SHM);
}

static void they_leave(void)
{
	run(&leaves, SHM);
}

static void server_replaced(void)
{
	run(&replaced, SHM);
}

static void fewer_servers(void)
{
	run(&fewer, SHM);
}

static void worker_killed(void)
{
	run(&worker_dies, SHM);
}

static void ofi(void)
{
	if (mp_no_ofi())
		TT_SKIP("%s", mp_no_ofi());
	run(&leaves, "TUTTI_BOOT_DIR=%d TUTTI_TRANSPORT=ofi TUTTI_PS_VERIFY=1");
	run(&replaced, "TUTTI_BOOT_DIR=%d TUTTI_TRANSPORT=ofi TUTTI_PS_VERIFY=1");
}

/* ---- the bound, over a trace that spans the changes ---- */

static const struct plan stale = {.staleness = 1,
				  .stages = 5,
				  .copies = 2,
				  .role = {"ssww", "sswws", "sswlsw", "ssk.sw", "ss..sww"}};

static int checked(const char *dir, const char *edit)
{
	const char *build = getenv("TT_BUILD");
	char command[500];

	snprintf(command, sizeof(command), "%s && %s/tutti_ps_check %s/t.* >%s/out 2>&1", edit,
		 build ? build : ".", dir, dir);
	return WEXITSTATUS(system(command));
}

static void traced(void)
{
	char dir[] = "/tmp/tutti-resize-XXXXXX", env[200], edit[200];

	TT_CHECK(mkdtemp(dir) != NULL);
	snprintf(env, sizeof(env), "TUTTI_BOOT_DIR=%%d TUTTI_TRANSPORT=shm TUTTI_PS_TRACE=%s/t",
		 dir);
	run(&stale, env);
	TT_CHECK(checked(dir, "true") == 0);
	/* a new worker claims less than its first clock; a clock never announced */
	snprintf(edit, sizeof(edit),
		 "cp -r %s %s.x && sed -i -E 's/^(read [0-9]+ [0-9]+ [0-9]+ [0-9]+) [0-9]+/\\1 0/' "
		 "%s/t.2",
		 dir, dir, dir);
	TT_CHECK(checked(dir, edit) == 1);
	snprintf(edit, sizeof(edit),
		 "cp %s.x/t.* %s && sed -i -E 's/^(read [0-9]+ [0-9]+ [0-9]+ 8) [0-9]+/\\1 30/' "
		 "%s/t.2",
		 dir, dir, dir);
	TT_CHECK(checked(dir, edit) == 1);
	/* the trace of a worker that left is missing */
	snprintf(edit, sizeof(edit), "cp %s.x/t.* %s && rm %s/t.1", dir, dir, dir);
	TT_CHECK(checked(dir, edit) == 1);
	mp_remove_dir(dir);
	strcpy(env, dir);
	strcat(env, ".x");
	mp_remove_dir(env);
}

/*
 * ---- options that keep something back, or count: servers 0 and 1, then 0, 1 and 3 of weights 1,
 * 3 and 2. With copies 0 dies before that, and 1 afterwards, so that each time a copy has to know
 * what there was ----
 */

#define OPTS 1200

struct kept_tables {
	struct tutti_ps_table *soft, *late, *rows, *slow;
};

static int make_kept(struct mp_job *job, struct tutti_ps *ps, struct kept_tables *k)
{
	struct tutti_ps_options opt = {
		.size = sizeof(opt), .rule = TUTTI_PS_SGD, .rate = 1, .init = TUTTI_PS_ZERO};

	opt.softsync = 1;
	MP_OK(tutti_ps_dense(ps, "soft", OPTS, TUTTI_FLOAT32, &opt, &k->soft));
	opt.softsync = 0;
	opt.staleness_aware = 1;
	MP_OK(tutti_ps_dense(ps, "late", OPTS, TUTTI_FLOAT32, &opt, &k->late));
	MP_OK(tutti_ps_rows(ps, "late rows", WIDTH, 10, TUTTI_FLOAT32, &opt, &k->rows));
	opt.staleness_aware = 0;
	opt.budget = 1;
	MP_OK(tutti_ps_dense(ps, "slow", OPTS, TUTTI_FLOAT32, &opt, &k->slow));
	return 0;
}

static int expect(struct mp_job *job, struct tutti_ps_table *t, bool rows, float value)
{
	const uint64_t key = 7;
	float got[OPTS];
	int i;

	if (rows)
		MP_OK(tutti_ps_pull_rows(t, &key, 1, got, TUTTI_FLOAT32));
	else
		MP_OK(tutti_ps_pull(t, got, 0, OPTS, TUTTI_FLOAT32));
	for (i = 0; i < (rows ? WIDTH : OPTS); i++)
		if (got[i] != value)
			return fprintf(stderr, "element %d is %g, not %g\n", i, (double)got[i],
				       (double)value),
			       1;
	return 0;
}

/*
 * After a pull, three pushes of 6: updates computed 0, 1 and 2 versions ago count 6, 6 and 3. Then
 * checks the sum.
 */
static int push_late(struct mp_job *job, struct kept_tables *k, const float *six, float so_far)
{
	const uint64_t key = 7;
	int i;

	TT_EXPECT(!expect(job, k->late, false, so_far) && !expect(job, k->rows, true, so_far));
	for (i = 0; i < 3; i++) {
		MP_OK(tutti_ps_push(k->late, six, 0, OPTS, TUTTI_FLOAT32));
		MP_OK(tutti_ps_push_rows(k->rows, &key, 1, six, TUTTI_FLOAT32));
	}
	return 0;
}

/* Of two workers, so that half of a group is there. */
static int work_before(struct mp_job *job, struct kept_tables *k, const float *six)
{
	TT_EXPECT(!push_late(job, k, six, 0));
	MP_OK(tutti_ps_push(k->soft, six, 0, OPTS, TUTTI_FLOAT32));
	MP_OK(tutti_ps_push(k->slow, six, 0, OPTS, TUTTI_FLOAT32));
	return expect(job, k->soft, false, 0);
}

/*
 * Of one: the half was applied, and each is a group; nothing is known to have been pulled; the
 * budget's rest is there.
 */
static int work_after(struct mp_job *job, struct kept_tables *k, const float *six)
{
	const uint64_t key = 7;

	TT_EXPECT(!expect(job, k->soft, false, -6) && !expect(job, k->slow, false, -6));
	MP_OK(tutti_ps_push(k->soft, six, 0, OPTS, TUTTI_FLOAT32));
	TT_EXPECT(!expect(job, k->soft, false, -12));
	MP_OK(tutti_ps_push(k->late, six, 0, OPTS, TUTTI_FLOAT32));
	MP_OK(tutti_ps_push_rows(k->rows, &key, 1, six, TUTTI_FLOAT32));
	TT_EXPECT(!push_late(job, k, six, -21));
	return expect(job, k->late, false, -36) || expect(job, k->rows, true, -36);
}

/* But for room that rows have to spare. */
static int check_weights(struct mp_job *job, struct tutti_ps *ps, const int *weight, int n)
{
	uint64_t load[3];
	double sum = 0, weights = 0, part;
	int i;

	for (i = 0; i < n; i++) {
		MP_OK(tutti_ps_server_bytes(ps, i, &load[i]));
		sum += (double)load[i];
		weights += weight[i];
	}
	for (i = 0; i < n; i++) {
		part = sum * weight[i] / weights;
		TT_EXPECT(fabs((double)load[i] - part) < 0.25 * part);
	}
	return 0;
}

static void die(struct mp_job *job)
{
	mp_await(&job->shared->word[job->rank], 1, 30000);
	kill(getpid(), SIGKILL);
}

/* Server 1 dies, and the one that is left goes on counting. */
static int work_last(struct mp_job *job, struct kept_tables *k, const float *six)
{
	atomic_store(&job->shared->word[1], 1);
	TT_EXPECT(mp_log_await(job, "server 0 (rank 1) has failed"));
	TT_EXPECT(!expect(job, k->soft, false, -12) && !expect(job, k->slow, false, -6));
	TT_EXPECT(!push_late(job, k, six, -36));
	return expect(job, k->late, false, -51) || expect(job, k->rows, true, -51);
}

static int move(struct mp_job *job, bool copies, struct tutti_ps **ps, struct kept_tables *k)
{
	struct tutti_ps_config config = {
		.size = sizeof(config), .copies = copies ? 2 : 0, .staleness = TUTTI_PS_ASYNC};
	static const int weight[] = {1, 3, 0, 2}, all[] = {1, 3, 2}, living[] = {3, 2};
	struct tutti_comm *comm = job->world;

	if (copies) {
		while (!tutti_barrier(job->world))
			;
		MP_OK(tutti_comm_shrink(job->world, &comm));
	}
	config.role = job->rank == 2 ? TUTTI_PS_WORKER : TUTTI_PS_SERVER;
	config.weight = weight[job->rank];
	MP_OK(tutti_ps_resize(*ps, comm, &config, ps));
	MP_OK(tutti_ps_find(*ps, "soft", &k->soft));
	MP_OK(tutti_ps_find(*ps, "late", &k->late));
	MP_OK(tutti_ps_find(*ps, "late rows", &k->rows));
	MP_OK(tutti_ps_find(*ps, "slow", &k->slow));
	return check_weights(job, *ps, copies ? living : all, copies ? 2 : 3);
}

static int options_body(struct mp_job *job)
{
	const bool copies = job->arg != NULL;
	struct tutti_ps_config config = {.size = sizeof(config),
					 .copies = copies ? 2 : 0,
					 .staleness = TUTTI_PS_ASYNC,
					 .role = job->rank < 2 ? TUTTI_PS_SERVER : TUTTI_PS_WORKER};
	struct kept_tables k;
	struct tutti_ps *ps;
	float six[OPTS];
	int i;

	for (i = 0; i < OPTS; i++)
		six[i] = 6;
	MP_OK(tutti_ps_open(job->world, &config, &ps));
	TT_EXPECT(!make_kept(job, ps, &k));
	if (job->rank == 2) {
		TT_EXPECT(!work_before(job, &k, six));
		atomic_store(&job->shared->word[0], 1);
	}
	if (copies && job->rank == 0)
		die(job);
	TT_EXPECT(!move(job, copies, &ps, &k));
	if (job->rank == 2)
		TT_EXPECT(!work_after(job, &k, six));
	if (copies && job->rank == 1)
		die(job);
	if (copies && job->rank == 2)
		TT_EXPECT(!work_last(job, &k, six));
	MP_OK(tutti_ps_close(ps));
	if (copies)
		(void)mp_leave(job);
	return 0;
}

/* Once as it is, once with copies. */
static void options_on(const char *env)
{
	static const bool copies = true;

	TT_CHECK(!MP_RUN(.n = 4, .env = env, .fn = options_body));
	TT_CHECK(!MP_RUN(.n = 4, .env = env, .fn = options_body, .arg = (void *)&copies,
			 .killed = 1 << 0 | 1 << 1));
}

static void options(void)
{
	options_on("TUTTI_TRANSPORT=shm TUTTI_PS_VERIFY=1");
}

static void options_ofi(void)
{
	if (mp_no_ofi())
		TT_SKIP("%s", mp_no_ofi());
	options_on("TUTTI_TRANSPORT=ofi TUTTI_PS_VERIFY=1");
}

int main(int argc, char **argv)
{
	static const struct tt_test tests[] = {
		{"workers_join", workers_join},
		{"servers_join", servers_join},
		{"they_leave", they_leave},
		{"server_replaced", server_replaced},
		{"fewer_servers", fewer_servers},
		{"worker_killed", worker_killed},
		{"ofi", ofi},
		{"traced", traced},
		{"options", options},
		{"options_ofi", options_ofi},
		{NULL, NULL},
	};

	return tt_test_main("ps_resize", tests, argc, argv);
}
