/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Pushes of rows that travel encoded: what the servers got plus what workers hold back is what was
 * pushed, also of rows twice in a push; the filter; figures and bytes; servers that are killed;
 * workers that leave; checkpoints; refused tables and too many keys.
 */
#include "config.h"

#include "tests/mp/job.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define SHM "TUTTI_TRANSPORT=shm "
#define KEYS 600
#define WIDTH 11
#define AT_ONCE 400 /* rows of a push */
#define WORKERS 2

static const char *const codecs[] = {"fp16",	   "int8:block=64",	 "onebit", "topk:1%",
				     "randomk:5%", "dgc:10%,momentum=0", "filter"};
#define CODECS ((int)(sizeof(codecs) / sizeof(codecs[0])))
#define EXACT 3 /* from this one on: values themselves, so sums of integers are exact */

static uint32_t mix(uint32_t h)
{
	h ^= h >> 15;
	h *= 2246822519u;
	h ^= h >> 13;
	return h;
}

static uint64_t key_of(uint32_t i)
{
	return (uint64_t)i * 0x9e3779b97f4a7c15ull + 5;
}

static int make_for(struct mp_job *job, struct tutti_ps *ps, const char *codec,
		    struct tutti_ps_options opt, uint64_t rows, struct tutti_ps_table **t)
{
	opt.size = sizeof(opt);
	opt.init = TUTTI_PS_ZERO;
	if (strcmp(codec, "filter"))
		MP_OK(tutti_codec_create(codec, &opt.codec));
	else
		opt.significance = 0.25;
	MP_OK(tutti_ps_rows(ps, codec, WIDTH, rows, TUTTI_FLOAT32, &opt, t));
	MP_OK(tutti_codec_free(opt.codec));
	return 0;
}

static int make(struct mp_job *job, struct tutti_ps *ps, const char *codec,
		struct tutti_ps_options opt, struct tutti_ps_table **t)
{
	return make_for(job, ps, codec, opt, KEYS, t);
}

/* Shared by all ranks: the sums of what each worker pushed. */
struct sums {
	double sum[WORKERS][CODECS][KEYS][WIDTH], size[WORKERS][CODECS][KEYS][WIDTH];
};

struct conserve {
	struct sums *sums;
	int staleness, clocks;
	struct tutti_ps_options opt;
	bool kills; /* a server, in the middle */
};

/* Some rows twice, and in no order. */
static int push_some(struct mp_job *job, struct tutti_ps_table **t, struct sums *s, int w, int c)
{
	static float u[AT_ONCE][WIDTH];
	uint64_t key[AT_ONCE];
	int k, i, e, n;

	for (k = 0; k < CODECS; k++) {
		n = 1 + (int)(mix((uint32_t)(c * 31 + k + w)) % AT_ONCE);
		for (i = 0; i < n; i++) {
			uint32_t row = mix((uint32_t)(c * 1009 + i + w * 77)) % KEYS;

			key[i] = key_of(row);
			for (e = 0; e < WIDTH; e++) {
				uint32_t h = mix((uint32_t)(c * 40503 + i * 97 + e * 7 + w));

				u[i][e] = k < EXACT ? (float)(h % 20001) / 1000 - 10
						    : (float)(h % 2001) - 1000;
				s->sum[w][k][row][e] += (double)u[i][e];
				s->size[w][k][row][e] += fabs((double)u[i][e]);
			}
		}
		MP_OK(tutti_ps_push_rows(t[k], key, (size_t)n, u, TUTTI_FLOAT32));
	}
	return 0;
}

static int pull_all(struct mp_job *job, struct tutti_ps_table *t, float (*v)[WIDTH])
{
	uint64_t key[KEYS];
	uint32_t i;

	for (i = 0; i < KEYS; i++)
		key[i] = key_of(i);
	MP_OK(tutti_ps_pull_rows(t, key, KEYS, v, TUTTI_FLOAT32));
	return 0;
}

/* The first element of a table that is not the sum; -1: none. */
static int wrong_at(const struct sums *s, int k, float (*v)[WIDTH], double *sum, double *size)
{
	int i, e, w;

	for (i = 0; i < KEYS * WIDTH; i++) {
		e = i % WIDTH;
		for (*sum = *size = w = 0; w < WORKERS; w++) {
			*sum += s->sum[w][k][i / WIDTH][e];
			*size += s->size[w][k][i / WIDTH][e];
		}
		if (fabs((double)v[i / WIDTH][e] - *sum) > (k >= EXACT ? 0 : 1e-6 * *size))
			return i;
	}
	return -1;
}

/*
 * Without a bound a pull may read what a server published before another worker's last push, until
 * the worker is told of the newer publication, or of the server's end.
 */
static int check_sums(struct mp_job *job, struct tutti_ps_table **t, const struct conserve *p)
{
	double sum, size, end = mp_now() + (p->staleness < 0 ? 20 : 0);
	static float v[KEYS][WIDTH];
	int k, i;

	for (k = 0; k < CODECS; k++) {
		do {
			TT_EXPECT(!pull_all(job, t[k], v));
			i = wrong_at(p->sums, k, v, &sum, &size);
		} while (i >= 0 && mp_now() < end);
		if (i < 0)
			continue;
		fprintf(stderr, "%s, row %d, element %d: %.9g, not %.9g of %g\n", codecs[k],
			i / WIDTH, i % WIDTH, (double)v[i / WIDTH][i % WIDTH], sum, size);
		return 1;
	}
	return 0;
}

/* Flush, and see every worker's last push. */
static int settle(struct mp_job *job, struct tutti_ps *ps, struct tutti_ps_table **t,
		  const struct conserve *p)
{
	struct tutti_ps_held held = {.size = sizeof(held)};
	int k, ahead = p->staleness > 0 ? p->staleness : 0;
	static float v[KEYS][WIDTH];

	for (k = 0; k < CODECS; k++) {
		MP_OK(tutti_ps_held(t[k], &held));
		/* with staleness_aware nothing was pulled, so all is significant */
		TT_EXPECT(p->opt.flush || !k || held.elements ||
			  (k == CODECS - 1 && p->opt.staleness_aware));
		TT_EXPECT(held.sent_bytes &&
			  (p->opt.flush || k == CODECS - 1 || held.sent_bytes < held.plain_bytes));
		MP_OK(tutti_ps_flush(t[k]));
		MP_OK(tutti_ps_held(t[k], &held));
		TT_EXPECT(!held.elements && held.sum == 0 && held.most == 0);
	}
	MP_OK(tutti_ps_clock_to(ps, (uint64_t)(p->clocks + 1 + ahead)));
	for (k = 0; k < CODECS && p->staleness < 0; k++) /* waits until its own pushes are public */
		TT_EXPECT(!pull_all(job, t[k], v));
	atomic_fetch_add(&job->shared->word[20], 1);
	TT_EXPECT(mp_await(&job->shared->word[20], WORKERS, 30000));
	return 0;
}

static void *killer(void *arg)
{
	struct mp_job *job = arg;

	mp_await(&job->shared->word[1], 10, 20000);
	kill(atomic_load(&job->shared->pid[WORKERS]), SIGKILL);
	return NULL;
}

/* Workers first. With n_push, n clocks are a multiple of it. */
static int conserve_body(struct mp_job *job)
{
	const struct conserve *p = job->arg;
	bool kills = p->kills, works = job->rank < WORKERS;
	struct tutti_ps_config config = {.size = sizeof(config),
					 .staleness = p->staleness,
					 .copies = kills ? 2 : 1,
					 .role = works ? TUTTI_PS_WORKER : TUTTI_PS_SERVER};
	struct tutti_ps_table *t[CODECS];
	static float v[KEYS][WIDTH];
	pthread_t thread;
	struct tutti_ps *ps;
	int c, k;

	MP_OK(tutti_ps_open(job->world, &config, &ps));
	for (k = 0; k < CODECS; k++)
		TT_EXPECT(!make(job, ps, codecs[k], p->opt, &t[k]));
	mp_meet(job);
	if (kills && !job->rank)
		TT_EXPECT(!pthread_create(&thread, NULL, killer, job));
	for (c = 0; c < p->clocks && works; c++) {
		atomic_store(&job->shared->word[1], c);
		TT_EXPECT(!push_some(job, t, p->sums, job->rank, c));
		MP_OK(tutti_ps_clock(ps));
		/* the filter compares with these, and the age of an update counts from them */
		if (c % 5 == 4 && !p->opt.staleness_aware)
			TT_EXPECT(!pull_all(job, t[CODECS - 1], v));
	}
	if (kills && !job->rank)
		pthread_join(thread, NULL);
	if (works) {
		TT_EXPECT(!settle(job, ps, t, p));
		TT_EXPECT(!check_sums(job, t, p));
	}
	MP_OK(tutti_ps_close(ps));
	return 0;
}

static void conserve(const char *env, int servers, struct conserve p, unsigned killed)
{
	p.sums = mp_shared_mem(sizeof(*p.sums));
	p.kills = killed != 0;
	if (MP_RUN(.n = WORKERS + servers, .env = env, .fn = conserve_body, .arg = &p,
		   .killed = killed, .timeout_ms = 120000)) {
		fprintf(stderr,
			"%d servers, staleness %d, %s, flush %d, n_push %d, essp %d, combine %d, "
			"softsync %d, aware %d, threads %d\n",
			servers, p.staleness, env, p.opt.flush, p.opt.n_push, p.opt.essp,
			p.opt.combine, p.opt.softsync, p.opt.staleness_aware, p.opt.threads);
		TT_CHECK(false);
	}
	munmap(p.sums, sizeof(*p.sums));
}

static void conserve_shm(void)
{
	conserve(SHM, 2, (struct conserve){.clocks = mp_sanitized() ? 100 : 300}, 0);
	conserve(SHM "TUTTI_PS_VERIFY=1", 1,
		 (struct conserve){.staleness = 2, .clocks = 60, .opt = {.flush = 7}}, 0);
	conserve(SHM, 3, (struct conserve){.staleness = TUTTI_PS_ASYNC, .clocks = 60}, 0);
	conserve(SHM, 2, (struct conserve){.staleness = 1, .clocks = 60, .opt = {.n_push = 3}}, 0);
}

/* Options under which the sums stay the same: groups have one update, no update is late. */
static void conserve_modes(void)
{
	static const struct conserve mode[] = {
		{.opt = {.essp = 1}},
		{.opt = {.combine = TUTTI_PS_COMBINE_SUM, .flush = 7}},
		{.staleness = TUTTI_PS_ASYNC, .opt = {.softsync = WORKERS}},
		{.staleness = 1, .opt = {.staleness_aware = 1}},
		{.staleness = 1, .opt = {.threads = 2, .essp = 1}},
		{.staleness = 1, .opt = {.budget = 300000}}};
	struct conserve p;
	size_t i;

	for (i = 0; i < sizeof(mode) / sizeof(mode[0]); i++) {
		p = mode[i];
		p.clocks = 20;
		conserve(SHM, 1, p, 0);
	}
}

static void conserve_ofi(void)
{
	if (mp_no_ofi())
		TT_SKIP("%s", mp_no_ofi());
	conserve("TUTTI_TRANSPORT=ofi TUTTI_IF=lo TUTTI_CHECKSUM=1", 2,
		 (struct conserve){.staleness = 1, .clocks = 30, .opt = {.flush = 10}}, 0);
}

static void conserve_verbs(void)
{
	if (mp_no_verbs())
		TT_SKIP("%s", mp_no_verbs());
	conserve("TUTTI_TRANSPORT=verbs", 2, (struct conserve){.clocks = 30, .opt = {.flush = 10}},
		 0);
}

static void conserve_fault(void)
{
	conserve("TUTTI_TRANSPORT=fault:shm TUTTI_FAULT=seed=3,delay=0.1:300,reorder=0.3,again=0.2",
		 2, (struct conserve){.staleness = 1, .clocks = 30}, 0);
}

static void killed(void)
{
	int s;

	for (s = TUTTI_PS_ASYNC; s <= 1; s++)
		conserve(SHM "TUTTI_PS_VERIFY=1", 2,
			 (struct conserve){.staleness = s, .clocks = 40, .opt = {.flush = 11}},
			 1u << WORKERS);
}

static void killed_verbs(void)
{
	if (mp_no_verbs())
		TT_SKIP("%s", mp_no_verbs());
	conserve("TUTTI_TRANSPORT=verbs", 2,
		 (struct conserve){.staleness = 1, .clocks = 15, .opt = {.flush = 11}},
		 1u << WORKERS);
}

/* ---- figures ---- */

static int held_body(struct mp_job *job)
{
	struct tutti_ps_held held = {.size = sizeof(held)};
	float u[3][WIDTH] = {{8, 3, -2}, {5}, {-1}}, v[3][WIDTH];
	uint64_t key[3] = {7, 9, 7};
	struct tutti_ps_table *t;
	struct tutti_ps *ps;

	MP_OK(mp_ps_open(job, 1, 0, &ps));
	TT_EXPECT(!make(job, ps, "topk:1%", (struct tutti_ps_options){0}, &t));
	if (job->rank) { /* one of 21 elements is sent */
		MP_OK(tutti_ps_push_rows(t, key, 3, u, TUTTI_FLOAT32));
		MP_OK(tutti_ps_held(t, &held));
		TT_EXPECT(held.elements == 4 && held.most == 5 && held.sum == 3 + 2 + 5 + 1);
		TT_EXPECT(held.plain_bytes == sizeof(u) && held.sent_bytes == 8 + 5);
		MP_OK(tutti_ps_clock(ps));
		MP_OK(tutti_ps_pull_rows(t, key, 3, v, TUTTI_FLOAT32));
		TT_EXPECT(v[0][0] == 8 && v[0][1] == 0 && v[1][0] == 0);
		MP_OK(tutti_ps_flush(t));
		MP_OK(tutti_ps_held(t, &held));
		TT_EXPECT(!held.elements && held.sent_bytes == 8 + 5 + 2 * sizeof(u[0]));
		MP_OK(tutti_ps_clock(ps));
		MP_OK(tutti_ps_pull_rows(t, key, 3, v, TUTTI_FLOAT32));
		TT_EXPECT(v[0][0] == 7 && v[0][1] == 3 && v[0][2] == -2 && v[1][0] == 5);
	}
	MP_OK(tutti_ps_close(ps));
	return 0;
}

static void held(void)
{
	TT_CHECK(!MP_RUN(.n = 2, .env = SHM, .fn = held_body));
}

/* ---- workers that leave: another one takes over what they hold back ---- */

static int resized_body(struct mp_job *job)
{
	struct sums *s = job->arg;
	struct tutti_ps_config config = {.size = sizeof(config),
					 .role = job->rank < WORKERS ? TUTTI_PS_WORKER
								     : TUTTI_PS_SERVER};
	struct tutti_ps_table *t[CODECS];
	struct tutti_ps *ps, *fresh;
	int c, k;

	MP_OK(tutti_ps_open(job->world, &config, &ps));
	for (k = 0; k < CODECS; k++)
		TT_EXPECT(!make(job, ps, codecs[k], (struct tutti_ps_options){0}, &t[k]));
	for (c = 0; c < 9 && job->rank < WORKERS; c++) {
		TT_EXPECT(!push_some(job, t, s, job->rank, c));
		MP_OK(tutti_ps_clock(ps));
	}
	if (job->rank == 1)
		config.role = TUTTI_PS_LEAVE;
	MP_OK(tutti_ps_resize(ps, job->world, &config, &fresh));
	if (job->rank == 1)
		return 0;
	for (k = 0; k < CODECS; k++) {
		MP_OK(tutti_ps_find(fresh, codecs[k], &t[k]));
		if (!job->rank)
			MP_OK(tutti_ps_flush(t[k]));
	}
	if (!job->rank) {
		MP_OK(tutti_ps_clock(fresh));
		TT_EXPECT(!check_sums(job, t, &(struct conserve){.sums = s}));
	}
	MP_OK(tutti_ps_close(fresh));
	return 0;
}

static void resized(void)
{
	struct sums *s = mp_shared_mem(sizeof(*s));

	TT_CHECK(!MP_RUN(.n = 4, .env = SHM, .fn = resized_body, .arg = s));
	munmap(s, sizeof(*s));
}

/* ---- checkpoints ---- */

#define SAVE_AT 7	    /* clocks */
#define TABLES (CODECS + 1) /* one with momentum, too */
#define MOMENTUM "dgc:10%"

struct saved {
	struct sums sums, scratch;
	float value[TABLES][KEYS][WIDTH];
	double held[WORKERS][TABLES];
	char path[64];
	int dies; /* rank that is killed before the restore; -1: none */
};

static int make_saved(struct mp_job *job, struct tutti_ps *ps, uint64_t rows,
		      struct tutti_ps_table **t)
{
	struct tutti_ps_options opt = {.rule = TUTTI_PS_MOMENTUM, .flush = 9};
	int k;

	for (k = 0; k < CODECS; k++)
		TT_EXPECT(!make_for(job, ps, codecs[k], (struct tutti_ps_options){.flush = 9}, rows,
				    &t[k]));
	return make_for(job, ps, MOMENTUM, opt, rows, &t[CODECS]);
}

static int go_on(struct mp_job *job, struct tutti_ps *ps, struct tutti_ps_table **t, struct sums *s,
		 int from, int to)
{
	static float u[AT_ONCE][WIDTH], v[KEYS][WIDTH];
	uint64_t key[AT_ONCE];
	uint32_t i;
	int c;

	for (c = from; c < to; c++) {
		TT_EXPECT(!push_some(job, t, s, job->rank, c));
		for (i = 0; i < AT_ONCE; i++) {
			key[i] = key_of(mix((uint32_t)c * 7 + i) % KEYS);
			u[i][i % WIDTH] = u[i][i / WIDTH % WIDTH] =
				(float)(mix(i + (uint32_t)(c + job->rank)) % 2001);
		}
		MP_OK(tutti_ps_push_rows(t[CODECS], key, AT_ONCE, u, TUTTI_FLOAT32));
		MP_OK(tutti_ps_clock(ps));
		if (c % 5 == 4) /* the filter compares with these */
			TT_EXPECT(!pull_all(job, t[CODECS - 1], v));
	}
	return 0;
}

/* The second half of each pass begins with the residuals that were saved. */
static int same_held(struct mp_job *job, struct tutti_ps_table **t, struct saved *s, bool pass)
{
	struct tutti_ps_held held = {.size = sizeof(held)};
	int k;

	for (k = 0; k < TABLES; k++) {
		MP_OK(tutti_ps_held(t[k], &held));
		TT_EXPECT(held.elements && held.clock == SAVE_AT && !held.since);
		TT_EXPECT(!pass || held.sum == s->held[job->rank][k]);
		s->held[job->rank][k] = held.sum;
	}
	return 0;
}

/* Exchanges the worker (and 1) of the first row of a table that is held back, in the file. */
static int change_worker(const char *path, const char *table, uint64_t *worker)
{
	char *text = malloc(1 << 16), name[80], *at;
	int fd = open(path, O_RDWR | O_CLOEXEC);
	uint64_t head, old;
	long begin;

	TT_EXPECT(fd >= 0 && pread(fd, &head, 8, 0) == 8 && head < 1 << 16);
	TT_EXPECT(pread(fd, text, head, 8) == (ssize_t)head);
	text[head] = 0;
	snprintf(name, sizeof(name), "\"%s.held_keys\"", table);
	at = strstr(text, name);
	at = at ? strstr(at, "data_offsets") : NULL;
	TT_EXPECT(at && sscanf(at, "data_offsets\":[%ld", &begin) == 1);
	begin += (long)head + 8;
	TT_EXPECT(pread(fd, &old, 8, begin) == 8 && pwrite(fd, worker, 8, begin) == 8);
	*worker = old;
	free(text);
	return close(fd);
}

/* A worker that the save did not have would be some worker's here. */
static int unknown_worker(struct mp_job *job, struct tutti_ps *ps, const struct saved *s)
{
	uint64_t worker = WORKERS + 1;

	TT_EXPECT(job->rank || !change_worker(s->path, codecs[0], &worker));
	mp_meet(job);
	if (job->rank < WORKERS) {
		MP_ERR(tutti_ps_restore(ps, s->path), -EBADMSG);
		TT_EXPECT(mp_said(s->path));
		MP_SAID(".held_keys' names worker 2 for");
	}
	mp_meet(job);
	TT_EXPECT(job->rank ||
		  (!change_worker(s->path, codecs[0], &worker) && worker == WORKERS + 1));
	mp_meet(job);
	return 0;
}

/*
 * Twice as many clocks as those before the save, and the second half again: the same bits. But a
 * filter has forgotten what was pulled.
 */
static int saved_body(struct mp_job *job)
{
	struct tutti_ps_config config = {.size = sizeof(config),
					 .role = job->rank < WORKERS ? TUTTI_PS_WORKER
								     : TUTTI_PS_SERVER};
	struct tutti_ps_table *t[TABLES];
	struct saved *s = job->arg;
	static float v[KEYS][WIDTH];
	struct tutti_ps *ps;
	int pass, k;

	for (pass = 0; pass < 2; pass++) {
		MP_OK(tutti_ps_open(job->world, &config, &ps));
		TT_EXPECT(!make_saved(job, ps, KEYS, t));
		TT_EXPECT(!pass || !unknown_worker(job, ps, s));
		if (job->rank < WORKERS) {
			TT_EXPECT(pass || !go_on(job, ps, t, &s->sums, 0, SAVE_AT));
			MP_OK(pass ? tutti_ps_restore(ps, s->path) : tutti_ps_save(ps, s->path));
			TT_EXPECT(!same_held(job, t, s, pass));
			TT_EXPECT(!go_on(job, ps, t, &s->scratch, SAVE_AT, 2 * SAVE_AT));
		}
		for (k = 0; k < TABLES && !job->rank; k++) {
			TT_EXPECT(!pull_all(job, t[k], v));
			if (pass && k != CODECS - 1 && memcmp(v, s->value[k], sizeof(v)))
				fprintf(stderr, "%s: other values after a restore\n",
					k < CODECS ? codecs[k] : MOMENTUM);
			TT_EXPECT(!pass || k == CODECS - 1 || !memcmp(v, s->value[k], sizeof(v)));
			memcpy(s->value[k], v, sizeof(v));
		}
		MP_OK(tutti_ps_close(ps));
	}
	return 0;
}

/* Another number of workers, of servers and of rows: nothing of what was pushed is lost. */
static int other_number_body(struct mp_job *job)
{
	bool works = job->rank < job->n - 1;
	struct tutti_ps_config config = {.size = sizeof(config),
					 .role = works ? TUTTI_PS_WORKER : TUTTI_PS_SERVER};
	struct tutti_ps_table *t[TABLES], *plain;
	struct saved *s = job->arg;
	struct tutti_ps *ps;
	int k;

	MP_OK(tutti_ps_open(job->world, &config, &ps));
	TT_EXPECT(!make_saved(job, ps, 2 * KEYS, t));
	mp_meet(job);
	if (job->rank == s->dies)
		kill(getpid(), SIGKILL);
	if (works)
		MP_OK(tutti_ps_restore(ps, s->path));
	for (k = 0; k < CODECS && works; k++)
		MP_OK(tutti_ps_flush(t[k]));
	if (works)
		MP_OK(tutti_ps_clock(ps));
	if (job->rank == (s->dies ? 0 : 1) && works)
		TT_EXPECT(!check_sums(job, t, &(struct conserve){.sums = &s->sums}));
	MP_OK(tutti_ps_close(ps));
	if (s->dies >= 0)
		return 0;
	/* a table without a codec does not fit, and nothing changes */
	MP_OK(tutti_ps_open(job->world, &config, &ps));
	MP_OK(tutti_ps_rows(ps, codecs[0], WIDTH, KEYS, TUTTI_FLOAT32, NULL, &plain));
	if (works) {
		MP_ERR(tutti_ps_restore(ps, s->path), -EINVAL);
		MP_ERR(tutti_ps_restore(ps, "/nowhere/at/all"), -ENOENT);
	}
	MP_OK(tutti_ps_close(ps));
	return 0;
}

static void saved(void)
{
	struct saved *s = mp_shared_mem(sizeof(*s));
	int workers;

	snprintf(s->path, sizeof(s->path), "/tmp/tutti-codec-rows-%d", (int)getpid());
	TT_CHECK(!MP_RUN(.n = WORKERS + 2, .env = SHM, .fn = saved_body, .arg = s));
	s->dies = -1;
	for (workers = 1; workers <= 5; workers += 2)
		TT_CHECK(!MP_RUN(.n = workers + 1, .env = SHM, .fn = other_number_body, .arg = s));
	for (s->dies = 0; s->dies < 2; s->dies++)
		TT_CHECK(!MP_RUN(.n = 3, .env = SHM, .fn = other_number_body, .arg = s,
				 .killed = 1u << s->dies));
	unlink(s->path);
	munmap(s, sizeof(*s));
}

/* ---- refused ---- */

static int refused_body(struct mp_job *job)
{
	struct tutti_ps_options opt = {.size = sizeof(opt), .init = TUTTI_PS_ZERO};
	float u[(KEYS + 1) * WIDTH] = {0};
	struct tutti_ps_table *t = NULL;
	uint64_t key[KEYS + 1];
	struct tutti_ps *ps;
	uint32_t i;

	MP_OK(mp_ps_open(job, 1, 0, &ps));
	MP_OK(tutti_codec_create("topk:100%", &opt.codec));
	MP_ERR(tutti_ps_rows(ps, "wide", 60000, KEYS, TUTTI_FLOAT32, &opt, &t), -EINVAL);
	MP_SAID("the encoding of a row of 60000 elements");
	TT_EXPECT(!t);
	opt.publish = opt.codec;
	MP_ERR(tutti_ps_rows(ps, "t", WIDTH, KEYS, TUTTI_FLOAT32, &opt, &t), -EINVAL);
	MP_OK(tutti_codec_free(opt.codec));
	TT_EXPECT(!make(job, ps, "topk:1%", (struct tutti_ps_options){0}, &t));
	for (i = 0; i <= KEYS; i++)
		key[i] = key_of(i);
	if (job->rank) {
		MP_ERR(tutti_ps_save(ps, "/nowhere/t"), -ENOENT);
		MP_ERR(tutti_ps_push_rows(t, key, KEYS + 1, u, TUTTI_FLOAT32), -ENOSPC);
	}
	MP_OK(tutti_ps_close(ps));
	return 0;
}

static void refused(void)
{
	TT_CHECK(!MP_RUN(.n = 2, .env = SHM, .fn = refused_body));
}

int main(int argc, char **argv)
{
	static const struct tt_test tests[] = {{"conserve_shm", conserve_shm},
					       {"conserve_modes", conserve_modes},
					       {"conserve_ofi", conserve_ofi},
					       {"conserve_verbs", conserve_verbs},
					       {"conserve_fault", conserve_fault},
					       {"killed", killed},
					       {"killed_verbs", killed_verbs},
					       {"held", held},
					       {"resized", resized},
					       {"saved", saved},
					       {"refused", refused},
					       {NULL, NULL}};

	return tt_test_main("ps_codec_rows", tests, argc, argv);
}
