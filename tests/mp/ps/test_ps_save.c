/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tables to a file and back: a run restored from a file, on any number of servers, ends with the
 * same bits as one that never stopped; other programs read the file; bad files are refused and
 * change nothing.
 */
#include "config.h"

#include "tests/mp/job.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define N 30000
#define WORKERS 2
#define KEYS 700
#define WIDTH 3
#define BEFORE 3
#define AFTER 3

struct tables {
	float adam[N];
	int64_t ints[N / 3];
	double row[KEYS * WIDTH];
};

/* Arguments and results of a job. */
struct what {
	int servers, staleness;
	bool saves, restores;
	char *path;
	struct tables *result;
};

struct open {
	struct tutti_ps *ps;
	struct tutti_ps_table *adam, *ints, *rows;
};

static int open_all(struct mp_job *job, const struct what *what, struct open *o)
{
	struct tutti_ps_config config = {.size = sizeof(config),
					 .staleness = what->staleness,
					 .role = job->rank < what->servers ? TUTTI_PS_SERVER
									   : TUTTI_PS_WORKER};
	struct tutti_ps_options opt = {.size = sizeof(opt),
				       .init = TUTTI_PS_UNIFORM,
				       .init_a = -1,
				       .init_b = 1,
				       .rule = TUTTI_PS_ADAM,
				       .block = 8192};

	MP_OK(tutti_ps_open(job->world, &config, &o->ps));
	MP_OK(tutti_ps_dense(o->ps, "adam", N, TUTTI_FLOAT32, &opt, &o->adam));
	opt = (struct tutti_ps_options){.size = sizeof(opt), .init = TUTTI_PS_ZERO};
	MP_OK(tutti_ps_dense(o->ps, "ints", N / 3, TUTTI_INT64, &opt, &o->ints));
	opt.rule = TUTTI_PS_ADAGRAD;
	MP_OK(tutti_ps_rows(o->ps, "rows", WIDTH, KEYS + 10, TUTTI_FLOAT64, &opt, &o->rows));
	return 0;
}

static uint64_t key_of(int i)
{
	return (uint64_t)i * 0x9e3779b97f4a7c15ull + 5;
}

static int push_all(struct mp_job *job, const struct what *what, struct open *o, struct tables *u,
		    int round)
{
	int me = job->rank - what->servers, i;
	uint64_t key[KEYS];

	for (i = 0; i < N; i++)
		u->adam[i] = (float)((i * 7 + me * 3 + round * 5) % 11) - 5;
	for (i = 0; i < N / 3; i++)
		u->ints[i] = (me + 1) * (round + 1) * (i % 10);
	for (i = 0; i < KEYS; i++) /* some rows are created later than others */
		key[i] = key_of(round < BEFORE ? i / 2 : i);
	for (i = 0; i < KEYS * WIDTH; i++)
		u->row[i] = (double)((i + me + round) % 5) - 2;
	MP_OK(tutti_ps_push(o->adam, u->adam, 0, N, TUTTI_FLOAT32));
	MP_OK(tutti_ps_push(o->ints, u->ints, 0, N / 3, TUTTI_INT64));
	MP_OK(tutti_ps_push_rows(o->rows, key, KEYS, u->row, TUTTI_FLOAT64));
	return 0;
}

static int pull_all(struct mp_job *job, struct open *o, int keys, struct tables *v)
{
	uint64_t key[KEYS];
	int i;

	memset(v, 0, sizeof(*v));
	for (i = 0; i < keys; i++)
		key[i] = key_of(i);
	MP_OK(tutti_ps_pull(o->adam, v->adam, 0, N, TUTTI_FLOAT32));
	MP_OK(tutti_ps_pull(o->ints, v->ints, 0, N / 3, TUTTI_INT64));
	MP_OK(tutti_ps_pull_rows(o->rows, key, (size_t)keys, v->row, TUTTI_FLOAT64));
	return 0;
}

static int train(struct mp_job *job, const struct what *what, struct open *o, struct tables *v)
{
	int round;

	for (round = what->restores ? BEFORE : 0; round < BEFORE + AFTER; round++) {
		if (what->saves && round == BEFORE)
			MP_OK(tutti_ps_save(o->ps, what->path));
		TT_EXPECT(!push_all(job, what, o, v, round));
		MP_OK(tutti_ps_clock(o->ps));
	}
	TT_EXPECT(!pull_all(job, o, KEYS, v));
	return 0;
}

static int train_body(struct mp_job *job)
{
	struct what *what = job->arg;
	struct tables *v = malloc(sizeof(*v));
	struct open o;

	TT_EXPECT(!open_all(job, what, &o));
	if (job->rank >= what->servers) {
		if (what->restores) {
			/* old values are replaced, and rows that are not in the file removed */
			TT_EXPECT(!push_all(job, what, &o, v, BEFORE + AFTER));
			MP_OK(tutti_ps_clock(o.ps));
			MP_OK(tutti_ps_restore(o.ps, what->path));
			MP_ERR(tutti_ps_clock_to(o.ps, BEFORE - 1), -EINVAL); /* it has gone on */
		}
		TT_EXPECT(!train(job, what, &o, v));
		if (job->rank == what->servers)
			memcpy(what->result, v, sizeof(*v));
	}
	MP_OK(tutti_ps_close(o.ps));
	free(v);
	return 0;
}

static void round_trip(const char *env, bool brief)
{
	char path[] = "/tmp/tutti-save-XXXXXX", file[64];
	struct tables *result = mp_shared_mem(2 * sizeof(*result));
	struct what what = {.servers = 2, .saves = true, .path = file, .result = result};
	struct stat st;
	int servers;

	TT_CHECK(mkdtemp(path) != NULL);
	snprintf(file, sizeof(file), "%s/all.safetensors", path);
	TT_CHECK(!MP_RUN(.n = 2 + WORKERS, .env = env, .fn = train_body, .arg = &what));
	what.saves = false;
	what.restores = true;
	what.result = &result[1];
	for (servers = brief ? 3 : 1; servers <= 3; servers++) {
		memset(&result[1], 0, sizeof(*result));
		what.servers = servers;
		TT_CHECK(!MP_RUN(.n = servers + WORKERS, .env = env, .fn = train_body,
				 .arg = &what));
		TT_CHECK(!memcmp(&result[0], &result[1], sizeof(*result)));
	}
	strcat(file, ".tmp");
	TT_CHECK(stat(file, &st) && errno == ENOENT);
	*strrchr(file, '.') = 0;
	TT_CHECK(!unlink(file) && !rmdir(path));
	munmap(result, 2 * sizeof(*result));
}

static void shm(void)
{
	round_trip("TUTTI_TRANSPORT=shm TUTTI_PS_VERIFY=1", false);
}

static void shm_fault(void)
{
	round_trip("TUTTI_TRANSPORT=fault:shm TUTTI_PS_VERIFY=1 "
		   "TUTTI_FAULT=seed=3,delay=0.1:100,reorder=0.3,again=0.2",
		   true);
}

static void ofi(void)
{
	if (mp_no_ofi())
		TT_SKIP("%s", mp_no_ofi());
	round_trip("TUTTI_TRANSPORT=ofi TUTTI_PS_VERIFY=1", true);
}

static void verbs(void)
{
	if (mp_no_verbs())
		TT_SKIP("%s", mp_no_verbs());
	round_trip("TUTTI_TRANSPORT=verbs TUTTI_PS_VERIFY=1", true);
}

/* ---- other readers; bad files ---- */

static int small_open(struct mp_job *job, const char *type, uint64_t count, struct tutti_ps **ps,
		      struct tutti_ps_table **t)
{
	struct tutti_ps_config config = {.size = sizeof(config),
					 .staleness = 1,
					 .role = job->rank < 2 ? TUTTI_PS_SERVER : TUTTI_PS_WORKER};
	struct tutti_ps_options opt = {.size = sizeof(opt),
				       .init = TUTTI_PS_ZERO,
				       .rule = *type == 'm' ? TUTTI_PS_MOMENTUM : TUTTI_PS_SUM};

	MP_OK(tutti_ps_open(job->world, &config, ps));
	MP_OK(tutti_ps_dense(*ps, "w", count, *type == 'i' ? TUTTI_INT32 : TUTTI_FLOAT32, &opt,
			     &t[0]));
	opt.rule = 0;
	MP_OK(tutti_ps_rows(*ps, "r", 2, 50, TUTTI_INT64, &opt, &t[1]));
	return 0;
}

/* A file that can't become as long as it must leaves nothing behind. */
static int no_room(struct mp_job *job, struct tutti_ps *ps)
{
	struct rlimit old, small = {0};
	char path[80];
	struct stat st;

	snprintf(path, sizeof(path), "%s.no", (char *)job->arg);
	signal(SIGXFSZ, SIG_IGN);
	TT_EXPECT(!getrlimit(RLIMIT_FSIZE, &old));
	small.rlim_cur = 2000; /* more than the header */
	small.rlim_max = old.rlim_max;
	TT_EXPECT(!setrlimit(RLIMIT_FSIZE, &small));
	MP_ERR(tutti_ps_save(ps, path), -EFBIG);
	TT_EXPECT(!setrlimit(RLIMIT_FSIZE, &old));
	strcat(path, ".tmp");
	TT_EXPECT(stat(path, &st) && errno == ENOENT);
	return 0;
}

static int small_save(struct mp_job *job)
{
	uint64_t key[3] = {1, 1000, UINT64_MAX};
	struct tutti_ps_table *t[2];
	struct tutti_ps *ps;
	int64_t row[6] = {1, 2, 3, 4, 5, 6};
	float v[4000];
	int i;

	TT_EXPECT(!small_open(job, "f", 4000, &ps, t));
	for (i = 0; i < 4000; i++)
		v[i] = (float)(i % 10);
	if (job->rank >= 2) {
		MP_OK(tutti_ps_push(t[0], v, 0, 4000, TUTTI_FLOAT32));
		MP_OK(tutti_ps_push_rows(t[1], key, 3, row, TUTTI_INT64));
		MP_OK(tutti_ps_clock_to(ps, job->rank == 2 ? 6 : 7));
		MP_ERR(tutti_ps_save(ps, "/nowhere/at/all"), -ENOENT);
		MP_SAID("/nowhere/at/all");
		MP_ERR(tutti_ps_save(ps, NULL), -EINVAL);
		TT_EXPECT(!no_room(job, ps));
		MP_ERR(tutti_ps_save(ps, job->rank == 2 ? "/tmp/a" : "/tmp/b"), -TUTTI_EMISMATCH);
		MP_OK(tutti_ps_save(ps, job->arg));
	} else {
		MP_ERR(tutti_ps_save(ps, job->arg), -EPERM);
	}
	MP_OK(tutti_ps_close(ps));
	return 0;
}

/* A bad file and its expected error. */
struct bad {
	const char *path, *edit, *type;
	uint64_t count;
	int code;
	const char *said;
};

static int bad_body(struct mp_job *job)
{
	struct bad *bad = job->arg;
	struct tutti_ps_table *t[2];
	struct tutti_ps *ps;
	uint64_t key = 8;
	int32_t v[100], i;
	int64_t row[2];

	TT_EXPECT(!small_open(job, bad->type, bad->count, &ps, t));
	if (job->rank >= 2) {
		for (i = 0; i < 100; i++)
			((float *)v)[i] = 1;
		MP_OK(tutti_ps_push(t[0], v, 0, 100,
				    *bad->type == 'i' ? TUTTI_INT32 : TUTTI_FLOAT32));
		MP_OK(tutti_ps_clock_to(ps, bad->code == -EINVAL && !bad->edit ? 8 : 1));
		MP_ERR(tutti_ps_restore(ps, bad->path), bad->code);
		MP_SAID("all.safetensors");
		if (!mp_said(bad->said))
			mp_failed(job, bad->said, 0, __FILE__, __LINE__);
		TT_EXPECT(mp_said(bad->said));
		memset(v, 0, sizeof(v));
		MP_OK(tutti_ps_clock(ps)); /* as it was, and goes on */
		MP_OK(tutti_ps_clock(ps));
		MP_OK(tutti_ps_pull(t[0], v, 0, 100,
				    *bad->type == 'i' ? TUTTI_INT32 : TUTTI_FLOAT32));
		for (i = 0; i < 100; i++)
			TT_EXPECT(*bad->type == 'm' ? ((float *)v)[i] < 0 : v[i] != 0);
		MP_OK(tutti_ps_pull_rows(t[1], &key, 1, row, TUTTI_INT64));
		TT_EXPECT(!row[0] && !row[1]);
	}
	MP_OK(tutti_ps_close(ps));
	return 0;
}

static int shell(const char *path, const char *edit)
{
	char command[700];

	snprintf(command, sizeof(command), "f=%s; %s", path, edit);
	return WEXITSTATUS(system(command));
}

/* Of three workers' file; two come: they begin at the lowest of its clocks. */
static int fewer_body(struct mp_job *job)
{
	uint64_t key[3] = {1, 1000, UINT64_MAX};
	struct tutti_ps_table *t[2];
	struct tutti_ps *ps;
	int64_t row[6];
	float v[4000];
	int i;

	TT_EXPECT(!small_open(job, "f", 4000, &ps, t));
	if (job->rank >= 2) {
		MP_OK(tutti_ps_restore(ps, job->arg));
		MP_ERR(tutti_ps_clock_to(ps, 5), -EINVAL);
		MP_OK(tutti_ps_clock_to(ps, 6));
		MP_OK(tutti_ps_pull(t[0], v, 0, 4000, TUTTI_FLOAT32));
		for (i = 0; i < 4000; i++)
			TT_EXPECT(v[i] == (float)(3 * (i % 10)));
		MP_OK(tutti_ps_pull_rows(t[1], key, 3, row, TUTTI_INT64));
		for (i = 0; i < 6; i++)
			TT_EXPECT(row[i] == 3 * (i + 1));
	}
	MP_OK(tutti_ps_close(ps));
	return 0;
}

static void files(void)
{
	static struct bad bad[] = {
		{.edit = "truncate -s 5 $f", .code = -EBADMSG, .said = "truncated"},
		{.edit = "truncate -s 100 $f", .code = -EBADMSG, .said = "truncated"},
		{.edit = "truncate -s -1 $f", .code = -EBADMSG, .said = "'w' ends at byte"},
		{.edit = "printf '\\377\\377\\377\\377\\377\\377' | dd of=$f conv=notrunc "
			 "status=none",
		 .code = -EBADMSG,
		 .said = "header of"},
		{.edit = "printf x | dd of=$f bs=1 seek=8 conv=notrunc status=none",
		 .code = -EBADMSG,
		 .said = "JSON"},
		{.edit = "sed -i 's/\"tutti_ps\":\"2\"/\"tutti_ps\":\"1\"/' $f",
		 .code = -TUTTI_EVERSION,
		 .said = "'tutti_ps' of __metadata__ is '1'; this library reads version 2, which "
			 "has checksums"},
		{.edit = "sed -i 's/\"clocks\":\"6,7,7\"/\"clocks\":\"6,-,7\"/' $f",
		 .code = -EBADMSG,
		 .said = "clocks"},
		{.edit = "sed -i 's/\"clocks\":\"6,7,7\"/\"clocks\":\"60,7,\"/' $f",
		 .code = -EBADMSG,
		 .said = "'clocks' of __metadata__ is not a list of numbers: ''"},
		{.edit = "sed -i 's/\"min_clock\":\"6\",/\"min_clock\":\"\" ,/' $f",
		 .code = -EBADMSG,
		 .said = "'min_clock' of __metadata__ has 0 numbers, not 1 to 1"},
		{.edit = "sed -i 's/\\[48,72\\]/[ 0,24]/' $f",
		 .code = -EBADMSG,
		 .said = "data_offsets of 'r' begin at byte 0, not 24, the end of r.keys"},
		{.edit = "sed -i 's/\\[72,16072\\]/[80,16080]/' $f; truncate -s +8 $f",
		 .code = -EBADMSG,
		 .said = "data_offsets of 'w' begin at byte 80, not 72, the end of r.keys"},
		{.edit = "truncate -s +8 $f",
		 .code = -EBADMSG,
		 .said = "its data has 16080 bytes, and data_offsets, up to those of 'w', end at "
			 "byte 16072"},
		{.edit = "sed -i 's/\"r.keys\"/\"r.kyes\"/' $f",
		 .code = -EINVAL,
		 .said = "'r.keys'"},
		{.edit = "sed -i 's/\"r.keys\":{\"dtype\":\"U64\"/\"r.keys\":{\"dtype\":\"I64\"/' "
			 "$f",
		 .code = -EINVAL,
		 .said = "dtype of 'r.keys' is I64"},
		{.edit = "sed -i 's/,16024\\]/,16020]/' $f; sed -i 's/,16072\\]/,16068]/' $f",
		 .code = -EBADMSG,
		 .said = "data_offsets of 'w'"},
		{.edit = "true",
		 .type = "i",
		 .code = -EINVAL,
		 .said = "dtype of 'w' is F32, not I32"},
		{.edit = "true", .count = 4001, .code = -EINVAL, .said = "shape of 'w' is 4000"},
		{.edit = "true", .type = "m", .code = -EINVAL, .said = "'w.state1'"},
		{.code = -EINVAL, .said = "the clock of worker 0 is 8"},
		{.edit = "rm $f", .code = -ENOENT, .said = "can't open"}};
	char path[] = "/tmp/tutti-save-XXXXXX", file[64], command[400];
	size_t i;

	TT_CHECK(mkdtemp(path) != NULL);
	snprintf(file, sizeof(file), "%s/all.safetensors", path);
	TT_CHECK(!MP_RUN(.n = 5, .env = "TUTTI_TRANSPORT=shm", .fn = small_save, .arg = file));
	if (!shell(file, "command -v python3 >/dev/null")) {
		snprintf(command, sizeof(command),
			 "python3 ${TT_SRC:-${srcdir:-../..}}/tests/mp/ps/safetensors.py $f "
			 ">$f.out && "
			 "grep -q '^w F32 4000 54000.0$' $f.out && grep -q '^r I64 3x2 63$' $f.out "
			 "&& "
			 "grep -q '^r.keys U64 3 18446744073709552616$' $f.out && "
			 "grep -q '^clocks 6,7,7 min 6 version 2$' $f.out && rm $f.out");
		TT_CHECK(!shell(file, command));
	}
	TT_CHECK(!MP_RUN(.n = 4, .env = "TUTTI_TRANSPORT=shm", .fn = fewer_body, .arg = file));
	TT_CHECK(!shell(file, "cp $f $f.good"));
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		bad[i].path = file;
		bad[i].type = bad[i].type ? bad[i].type : "f";
		bad[i].count = bad[i].count ? bad[i].count : 4000;
		TT_CHECK(!shell(file, "cp $f.good $f"));
		if (bad[i].edit)
			TT_CHECK(!shell(file, bad[i].edit));
		if (MP_RUN(.n = 5, .env = "TUTTI_TRANSPORT=shm", .fn = bad_body, .arg = &bad[i])) {
			fprintf(stderr, "file %zu: %s\n", i, bad[i].said);
			TT_CHECK(false);
		}
	}
	TT_CHECK(!shell(path, "rm -r $f"));
}

/* ---- between clocks only ---- */

static int busy_body(struct mp_job *job)
{
	struct what what = {.servers = 1, .path = job->shared->dir};
	struct tables *v = malloc(sizeof(*v));
	struct tutti_request *req = NULL;
	char path[80];
	struct open o;

	snprintf(path, sizeof(path), "%s/x", job->shared->dir);
	TT_EXPECT(!open_all(job, &what, &o));
	if (job->rank) {
		if (job->rank == 2)
			TT_EXPECT(!push_all(job, &what, &o, v, 0));
		MP_ERR(tutti_ps_save(o.ps, path), -EBUSY);
		MP_SAID("right after tutti_ps_clock");
		MP_OK(tutti_ps_clock(o.ps));
		if (job->rank == 2)
			MP_OK(tutti_ps_iclock(o.ps, &req));
		MP_ERR(tutti_ps_save(o.ps, path), -EBUSY);
		MP_SAID("requests of worker 1");
		if (job->rank != 2)
			MP_OK(tutti_ps_clock(o.ps));
		else
			MP_OK(tutti_wait(&req));
		MP_OK(tutti_ps_save(o.ps, path));
	}
	MP_OK(tutti_ps_close(o.ps));
	free(v);
	return 0;
}

static void busy(void)
{
	TT_CHECK(!MP_RUN(.n = 3, .env = "TUTTI_TRANSPORT=shm", .fn = busy_body));
}

/* ---- right after a clock, though some of the clock's messages are dealt with late ---- */

#define ROUNDS 300

static int prompt_body(struct mp_job *job)
{
	struct tutti_ps_config config = {.size = sizeof(config),
					 .role = job->rank ? TUTTI_PS_WORKER : TUTTI_PS_SERVER};
	struct tutti_ps_options opt = {.size = sizeof(opt), .init = TUTTI_PS_ZERO};
	static const int32_t u[4] = {1, 2, 3, 4};
	struct tutti_ps_table *t;
	struct tutti_ps *ps;
	char path[80];
	int i;

	snprintf(path, sizeof(path), "%s/x", job->shared->dir);
	MP_OK(tutti_ps_open(job->world, &config, &ps));
	MP_OK(tutti_ps_dense(ps, "t", 4, TUTTI_INT32, &opt, &t));
	for (i = 0; i < ROUNDS && job->rank; i++) {
		if (i % (job->n - 1) == job->rank - 1)
			usleep(200); /* the updates of the later workers wait at the server */
		MP_OK(tutti_ps_push(t, u, 0, 4, TUTTI_INT32));
		MP_OK(tutti_ps_clock(ps));
		MP_OK(tutti_ps_save(ps, path));
		MP_OK(tutti_ps_restore(ps, path));
	}
	MP_OK(tutti_ps_close(ps));
	return 0;
}

static void prompt(void)
{
	TT_CHECK(!MP_RUN(.n = 5, .env = "TUTTI_TRANSPORT=shm", .fn = prompt_body));
}

/* A table of one block, of which the other servers have nothing, with values from tutti_ps_set. */
static int small_body(struct mp_job *job)
{
	struct tutti_ps_config config = {.size = sizeof(config),
					 .role = job->rank < 3 ? TUTTI_PS_SERVER : TUTTI_PS_WORKER};
	int32_t v[4] = {5, 6, 7, 8}, other[4] = {0};
	struct tutti_ps_table *t;
	struct tutti_ps *ps;
	char path[80];
	int i;

	snprintf(path, sizeof(path), "%s/x", job->shared->dir);
	MP_OK(tutti_ps_open(job->world, &config, &ps));
	MP_OK(tutti_ps_dense(ps, "t", 4, TUTTI_INT32, NULL, &t));
	if (job->rank == 3) {
		MP_OK(tutti_ps_set(t, v, 4, TUTTI_INT32));
		MP_OK(tutti_ps_clock(ps));
		MP_OK(tutti_ps_save(ps, path));
		MP_OK(tutti_ps_restore(ps, path));
		MP_OK(tutti_ps_pull(t, other, 0, 4, TUTTI_INT32));
		for (i = 0; i < 4; i++)
			TT_EXPECT(other[i] == v[i]);
	}
	MP_OK(tutti_ps_close(ps));
	return 0;
}

static void small(void)
{
	TT_CHECK(!MP_RUN(.n = 4, .env = "TUTTI_TRANSPORT=shm", .fn = small_body));
}

int main(int argc, char **argv)
{
	static const struct tt_test tests[] = {
		{"shm", shm},	    {"shm_fault", shm_fault}, {"ofi", ofi},
		{"verbs", verbs},   {"files", files},	      {"busy", busy},
		{"prompt", prompt}, {"small", small},	      {NULL, NULL}};

	return tt_test_main("ps_save", tests, argc, argv);
}
