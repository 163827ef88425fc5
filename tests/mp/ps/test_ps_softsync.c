/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * n-softsync and staleness-aware rates (Zhang and others, 2015) against a serial oracle, bit for
 * bit; rows that are late.
 */
#include "config.h"

#include "tests/mp/job.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* ---- pushes that are grouped, and what each counts for ---- */

#define WORKERS 4
#define N 1000
#define UNITS 20 /* at most: blocks of a dense table, or rows */
#define STEPS 60
#define MOST (2 * UNITS) /* pushed at once */
#define RATE 0.125f

struct soft_plan {
	int first, last;	     /* softsync */
	int servers, copies, killed; /* killed: 1 + the server that is, half way; of rows only */
};

/*
 * A model of the servers in every rank: versions of each unit, and the version that each worker
 * knows.
 */
struct oracle {
	int size; /* of a group */
	bool aware, momentum, rows;
	int units, per;	  /* elements of one */
	float (*past)[N]; /* by version */
	float v[N], sum[N];
	int version[UNITS], grouped[UNITS];
	float known[WORKERS][N];
	int seen[WORKERS][UNITS]; /* version; -1: never pulled */
	double taus[WORKERS];
	int pushes[WORKERS];
};

/* The operations, in the order in which all ranks see them: who, and whether it pulls. */
static int who(int step)
{
	return (step * 7 + step / 5) % WORKERS;
}

static bool pulls(int step)
{
	return step % 5 == 0 || step % 7 == 3 || step % 11 == 4;
}

/*
 * And which units, in which order: of a dense table all; of rows some, some of which a push has
 * twice.
 */
static int which(const struct oracle *o, int step, int *unit)
{
	int n = 0, b;

	for (b = 0; b < o->units; b++)
		if (!o->rows || (step * 3 + b * 5) % 4)
			unit[n++] = b;
	for (b = 0; b < o->units && o->rows && !pulls(step); b++)
		if ((step * 3 + b * 5) % 8 == 7)
			unit[n++] = b;
	return n;
}

static float gradient(const struct oracle *o, int w, int step, int i)
{
	return 0.3f * (o->known[w][i] - (float)(i % 13)) +
	       0.01f * (float)((step * 31 + i * 17) % 23 - 11);
}

static void apply_unit(struct oracle *o, int b)
{
	float *x = o->past[o->version[b] + 1], u;
	int i;

	for (i = b * o->per; i < (b + 1) * o->per; i++) {
		u = o->grouped[b] > 1 ? o->sum[i] / (float)o->grouped[b] : o->sum[i];
		x[i] = o->past[o->version[b]][i];
		if (o->momentum)
			o->v[i] = 0.9f * o->v[i] + u;
		x[i] -= RATE * (o->momentum ? o->v[i] : u);
	}
	o->grouped[b] = 0;
	o->version[b]++;
}

/* alpha / tau for tau >= 1, alpha for 0; the mean of c such updates. */
static void oracle_push(struct oracle *o, int w, int step)
{
	int unit[MOST], n = which(o, step, unit), k, b, i, tau;
	float g;

	for (k = 0; k < n; k++) {
		b = unit[k];
		tau = o->seen[w][b] < 0 ? 0 : o->version[b] - o->seen[w][b];
		o->taus[w] += o->rows && !o->aware ? 0 : tau;
		o->pushes[w]++;
		for (i = b * o->per; i < (b + 1) * o->per; i++) {
			g = gradient(o, w, step, i);
			if (o->aware && tau > 1)
				g /= (float)tau;
			o->sum[i] = o->grouped[b] ? o->sum[i] + g : g;
		}
		if (++o->grouped[b] == o->size)
			apply_unit(o, b);
	}
}

/* Which version of a unit was read: one of the past, whole. -1: none */
static int find(const struct oracle *o, int b, const float *got)
{
	int v = o->version[b];

	while (v >= 0 && memcmp(o->past[v] + b * o->per, got, (size_t)o->per * sizeof(float)))
		v--;
	if (v < 0)
		fprintf(stderr, "unit %d is none of %d versions\n", b, o->version[b]);
	return v;
}

struct soft {
	const struct soft_plan *p;
	struct tutti_ps_table *t, *sync;
	int number;
};

static uint64_t key_of(int b)
{
	return (uint64_t)b * 7919 + 3;
}

static int soft_pull(struct mp_job *job, const struct soft *s, const struct oracle *o, int step,
		     int *version)
{
	int unit[MOST], n = which(o, step, unit), k;
	uint64_t key[MOST];
	float got[N];

	for (k = 0; k < n; k++)
		key[k] = key_of(unit[k]);
	if (o->rows)
		MP_OK(tutti_ps_pull_rows(s->t, key, (size_t)n, got, TUTTI_FLOAT32));
	else
		MP_OK(tutti_ps_pull(s->t, got, 0, N, TUTTI_FLOAT32));
	for (k = 0; k < n; k++) {
		version[unit[k]] = find(o, unit[k], got + k * o->per);
		TT_EXPECT(version[unit[k]] >= 0);
	}
	return 0;
}

/*
 * A pull of a later push to another table proves that the server has handled this one. With
 * replicas, the return of the push proves it.
 */
static int soft_push(struct mp_job *job, const struct soft *s, const struct oracle *o, int w,
		     int step)
{
	int unit[MOST], n = which(o, step, unit), k, i;
	uint64_t key[MOST];
	float g[MOST * (N / UNITS) > N ? MOST * (N / UNITS) : N];
	int32_t one = 1;

	for (k = 0; k < n; k++) {
		key[k] = key_of(unit[k]);
		for (i = 0; i < o->per; i++)
			g[k * o->per + i] = gradient(o, w, step, unit[k] * o->per + i);
	}
	if (o->rows)
		MP_OK(tutti_ps_push_rows(s->t, key, (size_t)n, g, TUTTI_FLOAT32));
	else
		MP_OK(tutti_ps_push(s->t, g, 0, N, TUTTI_FLOAT32));
	if (s->p->copies < 2)
		MP_OK(tutti_ps_push_pull(s->sync, &one, &one, 0, 1, TUTTI_INT32));
	return 0;
}

/* All ranks know the reads, and repeat the servers' work. */
static void oracle_step(struct oracle *o, int w, int step, const int *version)
{
	int unit[MOST], n = which(o, step, unit), k, b;

	if (!pulls(step)) {
		oracle_push(o, w, step);
		return;
	}
	for (k = 0; k < n; k++) {
		b = unit[k];
		o->seen[w][b] = version[b];
		memcpy(o->known[w] + b * o->per, o->past[version[b]] + b * o->per,
		       (size_t)o->per * sizeof(float));
	}
}

static int soft_steps(struct mp_job *job, struct soft *s, struct oracle *o)
{
	atomic_int *turn = &job->shared->word[s->number];
	int(*version)[UNITS] = (int(*)[UNITS])(void *)job->shared->gather, step, w;
	struct tutti_ps_read last = {.size = sizeof(last)};

	for (step = 0; step < STEPS; step++) {
		w = who(step);
		if (w == job->rank - s->p->servers) {
			if (s->p->killed && step == STEPS / 2)
				kill(atomic_load(&job->shared->pid[s->p->killed - 1]), SIGKILL);
			TT_EXPECT(!(pulls(step) ? soft_pull(job, s, o, step, version[step])
						: soft_push(job, s, o, w, step)));
			atomic_store(turn, step + 1);
		}
		TT_EXPECT(mp_await(turn, step + 1, 20000));
		oracle_step(o, w, step, version[step]);
	}
	w = job->rank - s->p->servers;
	TT_EXPECT(!soft_pull(job, s, o, 0,
			     version[STEPS + w])); /* waits for the answers to its pushes */
	MP_OK(tutti_ps_last_read(s->t, &last));
	TT_EXPECT(o->pushes[w] && last.tau == o->taus[w] / o->pushes[w]);
	/* shared memory is free again, and no worker leaves, which would make groups smaller */
	atomic_fetch_add(&job->shared->word[32 + s->number], 1);
	TT_EXPECT(mp_await(&job->shared->word[32 + s->number], WORKERS, 20000));
	return 0;
}

static int soft_one(struct mp_job *job, struct tutti_ps *ps, struct soft *s, struct oracle *o,
		    int softsync)
{
	struct tutti_ps_options opt = {.size = sizeof(opt),
				       .init = TUTTI_PS_CONSTANT,
				       .init_a = 2,
				       .rate = RATE,
				       .block = 2000,
				       .rule = o->momentum ? TUTTI_PS_MOMENTUM : TUTTI_PS_SGD,
				       .softsync = softsync,
				       .staleness_aware = o->aware};
	struct tutti_ps_options zero = {.size = sizeof(zero), .init = TUTTI_PS_ZERO};
	char name[20];
	int i, err = 0;

	o->size = softsync ? WORKERS / softsync : 1;
	o->units = o->rows ? UNITS : 2;
	o->per = N / o->units;
	o->past = calloc(2 * STEPS + 1, sizeof(*o->past));
	for (i = 0; i < N; i++)
		o->past[0][i] = 2;
	memset(o->seen, 0xff, sizeof(o->seen));
	snprintf(name, sizeof(name), "t%d", s->number);
	if (o->rows)
		MP_OK(tutti_ps_rows(ps, name, (size_t)o->per, 2 * UNITS, TUTTI_FLOAT32, &opt,
				    &s->t));
	else
		MP_OK(tutti_ps_dense(ps, name, N, TUTTI_FLOAT32, &opt, &s->t));
	name[0] = 's';
	MP_OK(tutti_ps_dense(ps, name, 1, TUTTI_INT32, &zero, &s->sync));
	if (job->rank >= s->p->servers)
		err = soft_steps(job, s, o);
	if (err)
		fprintf(stderr, "softsync %d, aware %d, momentum %d, rows %d\n", softsync, o->aware,
			o->momentum, o->rows);
	free(o->past);
	return err;
}

/* Dense tables with and without staleness-aware rates, rows with. */
static int soft_body(struct mp_job *job)
{
	const struct soft_plan *p = job->arg;
	struct tutti_ps_config config = {.size = sizeof(config),
					 .staleness = TUTTI_PS_ASYNC,
					 .copies = p->copies,
					 .role = job->rank < p->servers ? TUTTI_PS_SERVER
									: TUTTI_PS_WORKER};
	struct oracle *o = malloc(sizeof(*o));
	struct soft s = {.p = p};
	struct tutti_ps *ps;
	int n, kind;

	MP_OK(tutti_ps_open(job->world, &config, &ps));
	for (n = p->first; n <= p->last; n++)
		for (kind = p->copies > 1 ? 2 : 0; kind < 3; kind++, s.number++) {
			memset(o, 0, sizeof(*o));
			o->aware = kind > 0;
			o->rows = kind == 2;
			o->momentum = n == 2;
			TT_EXPECT(!soft_one(job, ps, &s, o, n));
		}
	MP_OK(tutti_ps_close(ps));
	free(o);
	return 0;
}

static int soft_run(const char *env, struct soft_plan p)
{
	p.servers = p.servers ? p.servers : 1;
	return MP_RUN(.n = p.servers + WORKERS, .env = env, .fn = soft_body, .arg = &p,
		      .killed = p.killed ? 1u << (p.killed - 1) : 0);
}

/*
 * No worker waits for one that has left: an incomplete group is applied when it has enough updates
 * for the remaining workers.
 */
static int leave_body(struct mp_job *job)
{
	struct tutti_ps_options opt = {.size = sizeof(opt), .init = TUTTI_PS_ZERO, .softsync = 1};
	float one[8] = {1, 2, 3, 4}, got[8] = {0};
	struct tutti_ps_table *t, *rows;
	uint64_t key[2] = {17, 4};
	struct tutti_ps *ps;
	int tries;

	MP_OK(mp_ps_open(job, 1, TUTTI_PS_ASYNC, &ps));
	MP_OK(tutti_ps_dense(ps, "t", 4, TUTTI_FLOAT32, &opt, &t));
	MP_OK(tutti_ps_rows(ps, "r", 2, 10, TUTTI_FLOAT32, &opt, &rows));
	if (job->rank == 1 || job->rank == 2) {
		one[0] = (float)job->rank;
		MP_OK(tutti_ps_push(t, one, 0, 4, TUTTI_FLOAT32));
		MP_OK(tutti_ps_push_rows(rows, key, 2, one, TUTTI_FLOAT32));
		MP_OK(tutti_ps_pull(t, got, 0, 4, TUTTI_FLOAT32));
		TT_EXPECT(got[0] == 0);
	}
	mp_meet(job);
	for (tries = 0; (job->rank == 1 || job->rank == 2) && !got[0] && tries < 2000; tries++) {
		MP_OK(tutti_ps_pull(t, got, 0, 4, TUTTI_FLOAT32));
		mp_sleep_ms(1);
	}
	if (job->rank == 1 || job->rank == 2) {
		TT_EXPECT(got[0] == 1.5f && got[1] == 2 && got[3] == 4);
		for (tries = 0, got[0] = 0; !got[0] && tries < 2000; tries++)
			MP_OK(tutti_ps_pull_rows(rows, key, 2, got, TUTTI_FLOAT32));
		TT_EXPECT(got[0] == 1.5f && got[1] == 2 && got[2] == 3 && got[3] == 4);
		mp_sleep_ms(job->rank == 2 ? 0 : 20);
	}
	MP_OK(tutti_ps_close(ps));
	return 0;
}

static void softsync(void)
{
	TT_CHECK(!soft_run("TUTTI_TRANSPORT=shm", (struct soft_plan){.last = WORKERS}));
	TT_CHECK(!MP_RUN(.n = 1 + WORKERS, .env = "TUTTI_TRANSPORT=shm", .fn = leave_body));
	TT_CHECK(!soft_run(
		"TUTTI_TRANSPORT=fault:shm TUTTI_FAULT=seed=5,delay=0.1:100,reorder=0.3,again=0.2",
		(struct soft_plan){.last = WORKERS}));
}

static void softsync_ofi(void)
{
	if (mp_no_ofi())
		TT_SKIP("%s", mp_no_ofi());
	TT_CHECK(!soft_run("TUTTI_TRANSPORT=ofi TUTTI_PS_VERIFY=1", (struct soft_plan){.last = 0}));
}

/* All copies of a row have had the same updates, each as late as at the one that served. */
static void softsync_copies(void)
{
	int n, killed;

	for (n = 0; n <= 2; n += 2)
		for (killed = 1; killed <= 2; killed++)
			TT_CHECK(!soft_run("TUTTI_TRANSPORT=shm TUTTI_PS_VERIFY=1",
					   (struct soft_plan){.first = n,
							      .last = n,
							      .servers = 2,
							      .copies = 2,
							      .killed = killed}));
}

/* ---- stale rows, with one thread and with five; and state that a restore resets ---- */

#define KEYS 3000
#define WIDTH 4

/* Every row is in a push twice. An update computed tau updates ago counts for 1/tau. */
static void late_pushes(float *x, int pushes, bool known)
{
	int i, k;

	for (k = 0; k < 2 * pushes; k++)
		for (i = 0; i < KEYS / 2 * WIDTH; i++)
			x[i] -= known && k > 1 ? (float)(i % 97) / (float)k : (float)(i % 97);
}

static int late_check(struct mp_job *job, struct tutti_ps_table **t, const uint64_t *key,
		      const float *want)
{
	float *got = malloc(KEYS / 2 * WIDTH * sizeof(*got));
	int k;

	for (k = 0; k < 2; k++) {
		MP_OK(tutti_ps_pull_rows(t[k], key, KEYS / 2, got, TUTTI_FLOAT32));
		TT_EXPECT(!memcmp(got, want, KEYS / 2 * WIDTH * sizeof(*got)));
	}
	free(got);
	return 0;
}

static int late_push(struct mp_job *job, struct tutti_ps_table **t, const uint64_t *key,
		     const float *u, int pushes)
{
	for (; pushes; pushes--) {
		MP_OK(tutti_ps_push_rows(t[0], key, KEYS, u, TUTTI_FLOAT32));
		MP_OK(tutti_ps_push_rows(t[1], key, KEYS, u, TUTTI_FLOAT32));
	}
	return 0;
}

static int late_work(struct mp_job *job, struct tutti_ps *ps, struct tutti_ps_table **t)
{
	float *u = malloc(KEYS * WIDTH * sizeof(*u)), *x = calloc(KEYS * WIDTH, sizeof(*x));
	struct tutti_ps_read last = {.size = sizeof(last)};
	uint64_t *key = malloc(KEYS * sizeof(*key));
	char path[60];
	int i;

	for (i = 0; i < KEYS; i++)
		key[i] = (uint64_t)(i % (KEYS / 2) * 31);
	for (i = 0; i < KEYS * WIDTH; i++)
		u[i] = (float)(i % (KEYS / 2 * WIDTH) % 97);
	TT_EXPECT(!late_check(job, t, key, x) && !late_push(job, t, key, u, 3));
	late_pushes(x, 3, true);
	TT_EXPECT(!late_check(job, t, key, x));
	for (i = 0; i < 2; i++) {
		MP_OK(tutti_ps_last_read(t[i], &last));
		TT_EXPECT(last.tau == 2.5); /* 0 to 5 */
	}
	snprintf(path, sizeof(path), "/tmp/tutti-late-%d", (int)getpid());
	MP_OK(tutti_ps_save(ps, path));
	TT_EXPECT(!late_push(job, t, key, u, 2));
	MP_OK(tutti_ps_restore(ps, path));
	unlink(path);
	TT_EXPECT(!late_push(job, t, key, u, 1)); /* nothing is known to have been pulled */
	late_pushes(x, 1, false);
	TT_EXPECT(!late_check(job, t, key, x) && !late_push(job, t, key, u, 2));
	late_pushes(x, 2, true);
	TT_EXPECT(!late_check(job, t, key, x));
	free(u);
	free(x);
	free(key);
	return 0;
}

static int late_body(struct mp_job *job)
{
	struct tutti_ps_options opt = {.size = sizeof(opt),
				       .init = TUTTI_PS_ZERO,
				       .rule = TUTTI_PS_SGD,
				       .rate = 1,
				       .staleness_aware = 1,
				       .block = job->arg ? 65536 : 0};
	struct tutti_ps_table *t[2];
	struct tutti_ps *ps;

	MP_OK(mp_ps_open(job, 1, TUTTI_PS_ASYNC, &ps));
	MP_OK(tutti_ps_rows(ps, "one", WIDTH, KEYS, TUTTI_FLOAT32, &opt, &t[0]));
	opt.threads = 5;
	opt.essp = 1;
	MP_OK(tutti_ps_rows(ps, "five", WIDTH, KEYS, TUTTI_FLOAT32, &opt, &t[1]));
	if (job->rank)
		TT_EXPECT(!late_work(job, ps, t));
	MP_OK(tutti_ps_close(ps));
	return 0;
}

/* Also in blocks so long that rows are read out of them one by one. */
static void late_rows(void)
{
	int large = 1;

	TT_CHECK(!MP_RUN(.n = 2, .env = "TUTTI_TRANSPORT=shm TUTTI_PS_VERIFY=1", .fn = late_body));
	TT_CHECK(!MP_RUN(.n = 2, .env = "TUTTI_TRANSPORT=shm TUTTI_PS_VERIFY=1", .fn = late_body,
			 .arg = &large));
}

static void verbs(void)
{
	const char *env = "TUTTI_TRANSPORT=verbs TUTTI_PS_VERIFY=1";

	if (mp_no_verbs())
		TT_SKIP("%s", mp_no_verbs());
	TT_CHECK(!soft_run(env, (struct soft_plan){.first = 2, .last = 2}));
	TT_CHECK(!MP_RUN(.n = 1 + WORKERS, .env = env, .fn = leave_body));
}

int main(int argc, char **argv)
{
	static const struct tt_test tests[] = {{"softsync", softsync},
					       {"softsync_ofi", softsync_ofi},
					       {"softsync_copies", softsync_copies},
					       {"late_rows", late_rows},
					       {"verbs", verbs},
					       {NULL, NULL}};

	return tt_test_main("ps_softsync", tests, argc, argv);
}
