/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Refusals of the parameter server and their texts: invalid values of each option, missing memory;
 * and the file left by a killed save.
 */
#include "config.h"

#include "tests/mp/job.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define BLOCK_MAX ((size_t)256 << 10)

/* ---- options ---- */

struct bad {
	const char *name; /* which is in the error's text */
	size_t at;	  /* of the field */
	double value;
	int init, type; /* 0: TUTTI_PS_UNSET, float32 */
};

#define REAL(field, value)                                                                         \
	{                                                                                          \
#field, offsetof(struct tutti_ps_options, field), value, 0, TUTTI_FLOAT32          \
	}
#define INIT(field, value, init, type)                                                             \
	{                                                                                          \
#field, offsetof(struct tutti_ps_options, field), value, init, type                \
	}
#define FACTOR(field)                                                                              \
	REAL(field, NAN), REAL(field, INFINITY), REAL(field, -INFINITY), REAL(field, -1),          \
		REAL(field, -1e-30), REAL(field, 1e300)
#define SHARE(field) FACTOR(field), REAL(field, 1), REAL(field, 1.5)

static const struct bad reals[] = {
	FACTOR(rate),
	REAL(rate, 1e-300),
	FACTOR(epsilon),
	REAL(epsilon, 1e-60),
	FACTOR(weight_decay),
	SHARE(momentum),
	SHARE(beta1),
	SHARE(beta2),
	INIT(init_a, NAN, TUTTI_PS_ZERO, TUTTI_FLOAT32),
	INIT(init_b, INFINITY, TUTTI_PS_ZERO, TUTTI_FLOAT32),
	INIT(init_a, -INFINITY, TUTTI_PS_CONSTANT, TUTTI_FLOAT64),
	INIT(init_a, 1e39, TUTTI_PS_CONSTANT, TUTTI_FLOAT32),
	INIT(init_a, 70000, TUTTI_PS_CONSTANT, TUTTI_FLOAT16),
	INIT(init_a, 128, TUTTI_PS_CONSTANT, TUTTI_INT8),
	INIT(init_a, -1, TUTTI_PS_CONSTANT, TUTTI_UINT32),
	INIT(init_a, 1e19, TUTTI_PS_CONSTANT, TUTTI_INT64),
	INIT(init_b, -1, TUTTI_PS_UNIFORM, TUTTI_FLOAT32),
	INIT(init_b, 0, TUTTI_PS_UNIFORM, TUTTI_FLOAT32),
	INIT(init_b, 300, TUTTI_PS_UNIFORM, TUTTI_UINT8),
	INIT(init_b, -1, TUTTI_PS_NORMAL, TUTTI_FLOAT32),
	INIT(init_b, 1e39, TUTTI_PS_NORMAL, TUTTI_FLOAT32),
	INIT(init_b, NAN, TUTTI_PS_NORMAL, TUTTI_FLOAT32),
	REAL(budget, NAN),
	REAL(budget, -1),
	REAL(budget, INFINITY),
};

struct bad_int {
	const char *name;
	size_t at;
	int value;
};

#define INT(field, value)                                                                          \
	{                                                                                          \
#field, offsetof(struct tutti_ps_options, field), value                            \
	}

static const struct bad_int ints[] = {
	{"rule", offsetof(struct tutti_ps_options, rule), -1},
	INT(rule, TUTTI_PS_NUM_RULES),
	INT(combine, -1),
	INT(combine, TUTTI_PS_NUM_COMBINES),
	INT(combine, TUTTI_PS_COMBINE_SUM),
	INT(init, -1),
	INT(init, TUTTI_PS_NUM_INITIALS),
	INT(softsync, -1),
	INT(softsync, 1 << 30),
	INT(staleness_aware, -1),
	INT(staleness_aware, 2),
	INT(essp, -1),
	INT(essp, 2),
	INT(n_fetch, -1),
	INT(n_push, -1),
	INT(threads, -1),
	INT(threads, 65),
	INT(threads, 1 << 30),
};

static int refused(struct mp_job *job, struct tutti_ps *ps, const struct tutti_ps_options *o,
		   enum tutti_datatype type, const char *name, double value)
{
	struct tutti_ps_table *t = NULL;
	int err = tutti_ps_dense(ps, "bad", 10, type, o, &t);

	if (err != -EINVAL || !mp_said(name))
		fprintf(stderr, "rank %d: %s = %g: %d\n", job->rank, name, value, err);
	TT_EXPECT(err == -EINVAL && !t);
	TT_EXPECT(mp_said(name));
	MP_ERR(tutti_ps_rows(ps, "bad", 2, 10, type, o, &t), -EINVAL);
	TT_EXPECT(mp_said(name));
	return 0;
}

static int options_body(struct mp_job *job)
{
	struct tutti_ps_options good = {.size = sizeof(good), .init = TUTTI_PS_ZERO}, o;
	static const size_t blocks[] = {BLOCK_MAX + 1, (size_t)1 << 30, SIZE_MAX};
	struct tutti_ps_table *t;
	struct tutti_ps *ps;
	size_t i;

	MP_OK(mp_ps_open(job, 1, TUTTI_PS_ASYNC, &ps));
	for (i = 0; i < sizeof(reals) / sizeof(reals[0]); i++) {
		o = good;
		o.init = reals[i].init ? reals[i].init : good.init;
		memcpy((char *)&o + reals[i].at, &reals[i].value, sizeof(double));
		TT_EXPECT(!refused(job, ps, &o, (enum tutti_datatype)reals[i].type, reals[i].name,
				   reals[i].value));
	}
	for (i = 0; i < sizeof(ints) / sizeof(ints[0]); i++) {
		o = good;
		memcpy((char *)&o + ints[i].at, &ints[i].value, sizeof(int));
		TT_EXPECT(!refused(job, ps, &o, TUTTI_FLOAT32, ints[i].name, ints[i].value));
	}
	for (i = 0; i < sizeof(blocks) / sizeof(blocks[0]); i++) {
		o = good;
		o.block = blocks[i];
		TT_EXPECT(!refused(job, ps, &o, TUTTI_FLOAT32, "block", (double)blocks[i]));
	}
	o = good; /* the limits of the allowed range */
	o.rule = TUTTI_PS_ADAM;
	o.beta1 = 0.999999;
	o.rate = 1e30;
	o.block = BLOCK_MAX;
	MP_OK(tutti_ps_dense(ps, "good", 10, TUTTI_FLOAT32, &o, &t));
	MP_OK(tutti_ps_close(ps));
	return 0;
}

static void options(void)
{
	TT_CHECK(!MP_RUN(.n = 2, .fn = options_body));
}

static int config_body(struct mp_job *job)
{
	static const struct bad_int bad[] = {
		{"role", offsetof(struct tutti_ps_config, role), -1},
		{"role", offsetof(struct tutti_ps_config, role), 5},
		{"workers", offsetof(struct tutti_ps_config, workers), -1},
		{"workers", offsetof(struct tutti_ps_config, workers), 1 << 30},
		{"servers", offsetof(struct tutti_ps_config, servers), -1},
		{"servers", offsetof(struct tutti_ps_config, servers), 1 << 30},
		{"staleness", offsetof(struct tutti_ps_config, staleness), -2},
		{"copies", offsetof(struct tutti_ps_config, copies), -1},
		{"copies", offsetof(struct tutti_ps_config, copies), 5},
		{"copies", offsetof(struct tutti_ps_config, copies), 4}, /* of two servers */
		{"weight", offsetof(struct tutti_ps_config, weight), -1},
		{"weight", offsetof(struct tutti_ps_config, weight), 65536},
	};
	struct tutti_ps *ps = NULL;
	size_t i;

	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct tutti_ps_config c = {.size = sizeof(c)};

		memcpy((char *)&c + bad[i].at, &bad[i].value, sizeof(int));
		MP_ERR(tutti_ps_open(job->world, &c, &ps), -EINVAL);
		TT_EXPECT(mp_said(bad[i].name));
	}
	TT_EXPECT(!ps);
	return 0;
}

static void config(void)
{
	TT_CHECK(!MP_RUN(.n = 2, .fn = config_body));
}

/* ---- memory ---- */

/* All ranks get the table, its need, the limit, and the rank. */
static int memory_body(struct mp_job *job)
{
	struct tutti_ps_options opt = {.size = sizeof(opt), .init = TUTTI_PS_ZERO};
	struct tutti_ps_table *t = NULL;
	struct tutti_ps *ps;

	MP_OK(mp_ps_open(job, 1, 1, &ps));
	MP_ERR(tutti_ps_dense(ps, "large", 32 << 20, TUTTI_FLOAT32, &opt, &t), -ENOMEM);
	MP_SAID("table 'large' needs ");
	MP_SAID("67108864 allowed bytes");
	if (job->rank)
		MP_SAID("rank 0 on host");
	TT_EXPECT(!t);
	MP_OK(tutti_ps_dense(ps, "small", 1 << 10, TUTTI_FLOAT32, &opt, &t));
	MP_OK(tutti_ps_close(ps));
	return 0;
}

static void memory(void)
{
	TT_CHECK(!MP_RUN(.n = 3, .fn = memory_body, .env = "TUTTI_POOL_LIMIT=64M"));
}

/* Sets what the server may still get; 0: anything. */
static int limit_server(const struct mp_job *job, rlim_t more)
{
	pid_t pid = atomic_load(&job->shared->pid[0]);
	unsigned long long pages = 0;
	struct rlimit l;
	char path[64];
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/statm", (int)pid);
	f = fopen(path, "re");
	if (!f || fscanf(f, "%llu", &pages) != 1)
		return -1;
	fclose(f);
	if (prlimit(pid, RLIMIT_AS, NULL, &l))
		return -1;
	l.rlim_cur = l.rlim_max;
	if (more)
		l.rlim_cur = (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE) + more;
	return prlimit(pid, RLIMIT_AS, &l, NULL);
}

/* The server of a table with rows runs out of memory: its worker hears of which table, and how
 * much. */
static __attribute__((unused)) int rows_memory_body(struct mp_job *job)
{
	enum { ROWS = 1 << 22, NEW = 1 << 22, SOME = 4000 };
	struct tutti_ps_options opt = {.size = sizeof(opt), .init = TUTTI_PS_ZERO};
	static uint64_t key[SOME];
	static float value[SOME];
	struct tutti_ps_table *t;
	struct tutti_ps *ps;
	int err = 0, i, k;

	MP_OK(mp_ps_open(job, 1, 1, &ps));
	MP_OK(tutti_ps_rows(ps, "many", 1, ROWS, TUTTI_FLOAT32, &opt, &t));
	if (job->rank) {
		MP_OK(tutti_ps_pull_rows(t, key, 1, value, TUTTI_FLOAT32)); /* connects */
		TT_EXPECT(!limit_server(job, 1 << 20));
		for (k = 0; k < NEW && !err; k += SOME) {
			for (i = 0; i < SOME; i++)
				key[i] = (uint64_t)(k + i);
			err = tutti_ps_pull_rows(t, key, SOME, value, TUTTI_FLOAT32);
		}
		MP_ERR(err, -ENOMEM);
		MP_SAID("rank 0 refused new rows of table 'many'");
		MP_SAID("its 4194304 rows of 4 bytes need 16777216 bytes, ");
		MP_SAID(" are left); ");
		TT_EXPECT(!limit_server(job, 0));
	}
	MP_OK(tutti_ps_close(ps));
	return 0;
}

/*
 * Under BSP the pushes of rank 2 wait for rank 1's clock. Where the server has no memory to keep
 * them, the worker gets an error; it waited for rank 1 until its time-out before.
 */
static __attribute__((unused)) int kept_memory_body(struct mp_job *job)
{
	enum { ELEMS = 1 << 18, TIMES = 200 };
	struct tutti_ps_options opt = {.size = sizeof(opt), .init = TUTTI_PS_ZERO};
	static float ones[ELEMS], got[ELEMS];
	struct tutti_ps_table *t;
	struct tutti_ps *ps;
	int err = 0, pushes, i;

	MP_OK(mp_ps_open(job, 1, 0, &ps));
	MP_OK(tutti_ps_dense(ps, "kept", ELEMS, TUTTI_FLOAT32, &opt, &t));
	for (i = 0; i < ELEMS; i++)
		ones[i] = 1;
	if (job->rank) {
		MP_OK(tutti_ps_push(t, ones, 0, ELEMS, TUTTI_FLOAT32)); /* connects */
		MP_OK(tutti_ps_clock(ps));
		MP_OK(tutti_ps_pull(t, got, 0, ELEMS, TUTTI_FLOAT32));
		TT_EXPECT(got[0] == 2 && got[ELEMS - 1] == 2);
	}
	if (job->rank == 2) {
		TT_EXPECT(!limit_server(job, 4 << 20));
		for (pushes = 0; pushes < TIMES && !err; pushes++)
			err = tutti_ps_push(t, ones, 0, ELEMS, TUTTI_FLOAT32);
		TT_EXPECT(!limit_server(job, 0));
		MP_ERR(err, -ENOMEM);
		MP_SAID("rank 0 refused what was pushed to table 'kept'");
		MP_SAID("the push needs 262144 bytes, ");
		MP_SAID(" are left)");
		job->shared->word[0] = pushes;
		err = tutti_ps_clock(ps); /* reports other refused pushes */
		TT_EXPECT(!err || err == -ENOMEM);
	} else if (job->rank) {
		TT_EXPECT(mp_await(&job->shared->word[0], 1, 30000));
		MP_OK(tutti_ps_clock(ps));
	}
	if (job->rank) {
		err = tutti_ps_pull(t, got, 0, ELEMS, TUTTI_FLOAT32);
		if (err == -ENOMEM && job->rank == 2)
			err = tutti_ps_pull(t, got, 0, ELEMS, TUTTI_FLOAT32);
		MP_OK(err);
		for (i = 0; i < ELEMS; i++)
			TT_EXPECT(got[i] >= 2 && got[i] <= (float)job->shared->word[0] + 1 &&
				  got[i] == got[i & ~0xffff]);
		TT_EXPECT(got[0] + got[1 << 16] + got[2 << 16] + got[3 << 16] <
			  4 * (float)(job->shared->word[0] + 1));
	}
	MP_OK(tutti_ps_close(ps));
	return 0;
}

static void rows_memory(void)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	TT_SKIP("a sanitizer needs more address space than the server is left");
#else
	TT_CHECK(!MP_RUN(.n = 2, .fn = rows_memory_body));
#endif
}

static void kept_memory(void)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	TT_SKIP("a sanitizer needs more address space than the server is left");
#else
	TT_CHECK(!MP_RUN(.n = 3, .fn = kept_memory_body, .env = "TUTTI_TIMEOUT=8s"));
#endif
}

/* ---- files ---- */

static bool is_there(const char *path, const char *suffix)
{
	char name[160];
	struct stat st;

	snprintf(name, sizeof(name), "%s%s", path, suffix);
	return !stat(name, &st);
}

/* As a killed save leaves it; locked: as one that is under way has it. Returns the descriptor. */
static int leave(const char *path, bool locked)
{
	char name[160];
	int fd;

	snprintf(name, sizeof(name), "%s.tmp", path);
	fd = open(name, O_RDWR | O_CREAT, 0600);
	if (fd < 0 || write(fd, "junk", 4) != 4 || (locked && flock(fd, LOCK_EX)))
		return -1;
	return fd;
}

static int save_body(struct mp_job *job)
{
	struct tutti_ps_options opt = {.size = sizeof(opt), .init = TUTTI_PS_ZERO};
	const char *path = job->arg;
	struct tutti_ps_table *t;
	struct tutti_ps *ps;
	int fd = -1;

	MP_OK(mp_ps_open(job, 1, 1, &ps));
	MP_OK(tutti_ps_dense(ps, "d", 1000, TUTTI_FLOAT32, &opt, &t));
	if (!job->rank) {
		MP_OK(tutti_ps_close(ps));
		return 0;
	}
	fd = leave(path, false);
	TT_EXPECT(fd >= 0 && !close(fd));
	MP_OK(tutti_ps_save(ps, path));
	TT_EXPECT(is_there(path, "") && !is_there(path, ".tmp"));
	fd = leave(path, false);
	TT_EXPECT(fd >= 0 && !close(fd));
	MP_OK(tutti_ps_restore(ps, path));
	TT_EXPECT(is_there(path, "") && !is_there(path, ".tmp"));
	fd = leave(path, true); /* of another job, which is at it */
	MP_ERR(tutti_ps_save(ps, path), -EBUSY);
	MP_SAID("another save");
	MP_OK(tutti_ps_restore(ps, path));
	TT_EXPECT(is_there(path, "") && is_there(path, ".tmp"));
	TT_EXPECT(!close(fd));
	MP_OK(tutti_ps_save(ps, path));
	TT_EXPECT(!is_there(path, ".tmp"));
	MP_OK(tutti_ps_close(ps));
	return 0;
}

static void saves(void)
{
	char dir[] = "/tmp/tutti-refuse-XXXXXX", path[80];

	TT_REQUIRE(mkdtemp(dir) != NULL);
	snprintf(path, sizeof(path), "%s/all", dir);
	TT_CHECK(!MP_RUN(.n = 2, .fn = save_body, .arg = path));
	TT_CHECK(!unlink(path) && !rmdir(dir));
}

int main(int argc, char **argv)
{
	static const struct tt_test tests[] = {{"options", options},
					       {"config", config},
					       {"memory", memory},
					       {"rows_memory", rows_memory},
					       {"kept_memory", kept_memory},
					       {"saves", saves},
					       {NULL, NULL}};

	return tt_test_main("ps_refuse", tests, argc, argv);
}
