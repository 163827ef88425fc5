/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A parameter server with stragglers, whose servers and workers are killed, for TT_SECONDS (make
 * soak: an hour; else a server and a worker, in seconds): no acknowledged push is lost or doubled,
 * memory and descriptors stay constant, and tutti_ps_check proves the bound over the traces.
 * Prints counts.
 */
#include "config.h"

#include "tests/mp/job.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define JOBS 12
#define SERVERS 2
#define WORKERS 3
#define WIDE 20000
#define KEYS 400
#define WIDTH 8
#define STALENESS 3

struct soak {
	double seconds;
	int victim; /* rank; -1: none */
};

static uint64_t draw(uint64_t *state)
{
	*state = *state * 6364136223846793005u + 1442695040888963407u;
	return *state >> 33;
}

/* State of a rank; all 0: the rank does not exist. */
struct had {
	long kib;
	int descriptors;
};

static struct had had_by(struct mp_job *job, int rank)
{
	struct had had = {0};
	long size, pages = 0;
	char path[64];
	DIR *dir;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/statm", atomic_load(&job->shared->pid[rank]));
	f = fopen(path, "r");
	if (f && fscanf(f, "%ld %ld", &size, &pages) == 2)
		had.kib = pages * (sysconf(_SC_PAGESIZE) / 1024);
	if (f)
		fclose(f);
	snprintf(path, sizeof(path), "/proc/%d/fd", atomic_load(&job->shared->pid[rank]));
	dir = opendir(path);
	while (dir && readdir(dir))
		had.descriptors++;
	if (dir)
		closedir(dir);
	return had;
}

enum { ROOM = 2048 }; /* KiB */

/* ThreadSanitizer keeps some memory for each byte that threads touch: descriptors only. */
#ifdef __SANITIZE_THREAD__
#define MEASURED false
#else
#define MEASURED true
#endif

/*
 * From when everything has happened to the end. Within a second the control tree may still be
 * mending itself: no word on descriptors.
 */
static int flat(struct mp_job *job, const struct soak *s, const struct had *before)
{
	bool mended = s->seconds > 30;
	long most = 0;
	int r;

	for (r = 0; r < job->n; r++) {
		struct had now = had_by(job, r);

		if (r == s->victim || mp_sanitized())
			continue;
		most = now.kib - before[r].kib > most ? now.kib - before[r].kib : most;
		if ((MEASURED && now.kib > before[r].kib + ROOM + before[r].kib / 50) ||
		    (mended && now.descriptors > before[r].descriptors)) {
			fprintf(stderr,
				"rank %d has grown from %ld to %ld KiB, from %d to %d "
				"descriptors\n",
				r, before[r].kib, now.kib, before[r].descriptors, now.descriptors);
			return 1;
		}
	}
	printf("  %d clocks; grown in the last third by %ld KiB at most; %d to %d descriptors at a "
	       "worker\n",
	       atomic_load(&job->shared->word[0]), most, before[job->rank].descriptors,
	       had_by(job, job->rank).descriptors);
	fflush(stdout);
	return 0;
}

struct work {
	struct tutti_ps_table *counts, *dense, *rows;
	uint64_t state;
	int64_t pushed;
	float *v;
};

/* A pull contains each of the worker's own pushes exactly once. */
static int step(struct mp_job *job, struct tutti_ps *ps, struct work *w)
{
	int64_t one = 1, got;
	uint64_t key[20];
	size_t me = (size_t)(job->rank - SERVERS);
	int i;

	for (i = 0; i < 20; i++)
		key[i] = draw(&w->state) % KEYS;
	MP_OK(tutti_ps_pull(w->dense, w->v, 0, WIDE, TUTTI_FLOAT32));
	MP_OK(tutti_ps_push(w->dense, w->v, draw(&w->state) % (WIDE / 2), WIDE / 2, TUTTI_FLOAT32));
	MP_OK(tutti_ps_pull_rows(w->rows, key, 20, w->v, TUTTI_FLOAT32));
	MP_OK(tutti_ps_push_rows(w->rows, key, 20, w->v, TUTTI_FLOAT32));
	MP_OK(tutti_ps_push(w->counts, &one, me, 1, TUTTI_INT64));
	w->pushed++;
	MP_OK(tutti_ps_pull(w->counts, &got, me, 1, TUTTI_INT64));
	TT_EXPECT(got == w->pushed);
	mp_sleep_ms(draw(&w->state) % 16 ? 4 : 30);
	MP_OK(tutti_ps_clock(ps));
	atomic_fetch_add(&job->shared->word[0], 1);
	return 0;
}

static int work(struct mp_job *job, const struct soak *s, struct tutti_ps *ps, struct work *w)
{
	double begin = mp_now(), now;
	struct had had[SERVERS + WORKERS] = {0};
	bool killed = false, looked = false;
	int r;

	while ((now = mp_now() - begin) < s->seconds) {
		TT_EXPECT(!step(job, ps, w));
		if (job->rank != SERVERS)
			continue;
		if (!killed && s->victim >= 0 && now > s->seconds / 3) {
			kill(atomic_load(&job->shared->pid[s->victim]), SIGKILL);
			killed = true;
		}
		if (!looked && now > s->seconds * 2 / 3) {
			for (r = 0; r < job->n; r++)
				had[r] = had_by(job, r);
			looked = true;
		}
	}
	return looked ? flat(job, s, had) : 0;
}

static int soak_body(struct mp_job *job)
{
	struct tutti_ps_config config = {.size = sizeof(config),
					 .staleness = STALENESS,
					 .copies = 2,
					 .role = job->rank < SERVERS ? TUTTI_PS_SERVER
								     : TUTTI_PS_WORKER};
	struct tutti_ps_options opt = {.size = sizeof(opt), .init = TUTTI_PS_ZERO};
	struct work w = {.state = (uint64_t)job->rank, .v = calloc(WIDE, sizeof(float))};
	struct tutti_ps *ps;

	MP_OK(tutti_ps_open(job->world, &config, &ps));
	MP_OK(tutti_ps_dense(ps, "counts", WORKERS, TUTTI_INT64, &opt, &w.counts));
	opt.rule = TUTTI_PS_ADAM;
	opt.block = 16384;
	MP_OK(tutti_ps_dense(ps, "dense", WIDE, TUTTI_FLOAT32, &opt, &w.dense));
	opt.block = 0;
	MP_OK(tutti_ps_rows(ps, "rows", WIDTH, KEYS, TUTTI_FLOAT32, &opt, &w.rows));
	mp_meet(job);
	if (job->rank >= SERVERS)
		TT_EXPECT(!work(job, job->arg, ps, &w));
	MP_OK(tutti_ps_close(ps));
	free(w.v);
	return 0;
}

static bool proven(const char *dir)
{
	const char *build = getenv("TT_BUILD");
	char command[300];
	int status;

	snprintf(command, sizeof(command), "%s/tutti_ps_check %s/t.* && rm %s/t.*",
		 build ? build : ".", dir, dir);
	fflush(stdout);
	status = system(command);
	return WIFEXITED(status) && !WEXITSTATUS(status);
}

/* Kills in turn: a server, the other server, a worker, no rank. */
static void soak(void)
{
	static const int victims[] = {0, 4, 1, -1};
	const char *seconds = getenv("TT_SECONDS");
	char dir[] = "/tmp/tutti-soak-XXXXXX", env[200];
	struct soak s = {.seconds = seconds ? atof(seconds) / JOBS : 1};
	int jobs = seconds ? JOBS : 2, i;

	TT_CHECK(mkdtemp(dir) != NULL);
	for (i = 0; i < jobs; i++) {
		s.victim = victims[i % 4];
		snprintf(env, sizeof(env),
			 "TUTTI_TRANSPORT=%s TUTTI_PS_VERIFY=1 TUTTI_PS_TRACE=%s/t",
			 i / 4 % 2 && !mp_no_ofi() ? "ofi" : "shm", dir);
		TT_CHECK(!MP_RUN(.n = SERVERS + WORKERS, .env = env, .fn = soak_body, .arg = &s,
				 .killed = s.victim < 0 ? 0 : 1u << s.victim,
				 .timeout_ms = (int)(s.seconds * 1000) + 60000));
		TT_CHECK(proven(dir));
	}
	mp_remove_dir(dir);
}

int main(int argc, char **argv)
{
	static const struct tt_test tests[] = {{"soak", soak}, {NULL, NULL}};

	return tt_test_main("ps_soak", tests, argc, argv);
}
