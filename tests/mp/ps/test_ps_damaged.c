/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Checkpoints in which one bit has changed, anywhere in the header or the data: a restore refuses
 * each, names the file, and for data the rank that found it; the values stay as they were. Tables
 * of every form, with one and with several servers, and with replicas. A file that was saved on one
 * number of servers is checked by another.
 */
#include "tests/mp/job.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define COUNT 3000
#define KEYS 90
#define WIDTH 3
#define FLIPS 60

struct what {
	int servers, copies;
	bool saves;
	char path[64];
};

struct open {
	struct tutti_ps *ps;
	struct tutti_ps_table *adam, *coded, *rows;
};

static int open_all(struct mp_job *job, const struct what *what, struct open *o)
{
	struct tutti_ps_config config = {.size = sizeof(config),
					 .staleness = 1,
					 .copies = what->copies,
					 .role = job->rank < what->servers ? TUTTI_PS_SERVER
									   : TUTTI_PS_WORKER};
	struct tutti_ps_options opt = {
		.size = sizeof(opt), .init = TUTTI_PS_ZERO, .rule = TUTTI_PS_ADAM, .block = 1024};

	MP_OK(tutti_ps_open(job->world, &config, &o->ps));
	MP_OK(tutti_ps_dense(o->ps, "adam", COUNT, TUTTI_FLOAT32, &opt, &o->adam));
	MP_OK(tutti_ps_rows(o->ps, "rows", WIDTH, KEYS, TUTTI_FLOAT64, &opt, &o->rows));
	opt.rule = 0;
	MP_OK(tutti_codec_create("topk:1%", &opt.codec));
	MP_OK(tutti_ps_dense(o->ps, "coded", COUNT, TUTTI_FLOAT32, &opt, &o->coded));
	MP_OK(tutti_codec_free(opt.codec));
	return 0;
}

static int push_all(struct mp_job *job, struct open *o, float add)
{
	double row[KEYS * WIDTH];
	uint64_t key[KEYS];
	float v[COUNT];
	int i;

	for (i = 0; i < COUNT; i++)
		v[i] = (float)(i % 100) + add;
	for (i = 0; i < KEYS; i++)
		key[i] = (uint64_t)i * 1234567;
	for (i = 0; i < KEYS * WIDTH; i++)
		row[i] = (double)(i % 10) + (double)add;
	MP_OK(tutti_ps_push(o->adam, v, 0, COUNT, TUTTI_FLOAT32));
	MP_OK(tutti_ps_push(o->coded, v, 0, COUNT, TUTTI_FLOAT32));
	MP_OK(tutti_ps_push_rows(o->rows, key, KEYS, row, TUTTI_FLOAT64));
	MP_OK(tutti_ps_clock(o->ps));
	return 0;
}

static int pull_sum(struct mp_job *job, struct open *o, double *sum)
{
	double row[KEYS * WIDTH];
	uint64_t key[KEYS];
	float v[COUNT];
	int i;

	*sum = 0;
	for (i = 0; i < KEYS; i++)
		key[i] = (uint64_t)i * 1234567;
	MP_OK(tutti_ps_pull(o->adam, v, 0, COUNT, TUTTI_FLOAT32));
	for (i = 0; i < COUNT; i++)
		*sum += (double)v[i] * (i % 7 + 1);
	MP_OK(tutti_ps_pull(o->coded, v, 0, COUNT, TUTTI_FLOAT32));
	for (i = 0; i < COUNT; i++)
		*sum += (double)v[i] * (i % 5 + 1);
	MP_OK(tutti_ps_pull_rows(o->rows, key, KEYS, row, TUTTI_FLOAT64));
	for (i = 0; i < KEYS * WIDTH; i++)
		*sum += row[i] * (i % 3 + 1);
	return 0;
}

static int flip(int fd, off_t at)
{
	unsigned char byte;

	TT_EXPECT(pread(fd, &byte, 1, at) == 1);
	byte ^= (unsigned char)(1 << at % 7);
	TT_EXPECT(pwrite(fd, &byte, 1, at) == 1);
	return 0;
}

/* One bit in every few bytes, the first and the last of header and data included. */
static int flip_all(struct mp_job *job, struct open *o, char *path)
{
	int fd = open(path, O_RDWR | O_CLOEXEC), i, err;
	unsigned char head[8];
	off_t data, at;
	struct stat st;

	TT_EXPECT(fd >= 0 && !fstat(fd, &st) && pread(fd, head, 8, 0) == 8);
	data = 8 + head[0] + 256 * head[1];
	for (i = 0; i <= 2 * FLIPS; i++) {
		at = i < FLIPS ? i * data / FLIPS
			       : data + (i - FLIPS) * (st.st_size - 1 - data) / FLIPS;
		TT_EXPECT(!flip(fd, at));
		err = tutti_ps_restore(o->ps, path);
		if (!err)
			fprintf(stderr, "a bit of byte %lld of %lld has changed\n", (long long)at,
				(long long)st.st_size);
		TT_EXPECT(err < 0 && mp_said(path));
		if (at >= data)
			TT_EXPECT(err == -EBADMSG && mp_said("damaged") && mp_said("rank "));
		TT_EXPECT(!flip(fd, at));
	}
	close(fd);
	return 0;
}

static int swap_text(int fd, const char *old, const char *new)
{
	char text[4096] = "", *at;

	TT_EXPECT(pread(fd, text, sizeof(text) - 1, 8) > 0);
	at = strstr(text, old);
	TT_EXPECT(at && pwrite(fd, new, strlen(new), 8 + at - text) == (ssize_t)strlen(new));
	return 0;
}

/* A list of clocks that is not as long as the file has workers' states. */
static int wrong_clocks(struct mp_job *job, struct open *o, char *path)
{
	int fd = open(path, O_RDWR | O_CLOEXEC);

	TT_EXPECT(fd >= 0 && !swap_text(fd, "\"clocks\":\"1\"", "\"clocks\": \"\""));
	MP_ERR(tutti_ps_restore(o->ps, path), -EBADMSG);
	TT_EXPECT(mp_said(path));
	MP_SAID("'coded.held' has the states of 1 workers, and 'clocks' of __metadata__ the clocks "
		"of 0");
	TT_EXPECT(!swap_text(fd, "\"clocks\": \"\"", "\"clocks\":\"1\""));
	close(fd);
	return 0;
}

static int wrong_files(struct mp_job *job, struct open *o, struct what *what)
{
	char path[80];

	MP_ERR(tutti_ps_restore(o->ps, "/dev/null"), -EINVAL);
	MP_SAID("/dev/null is no regular file");
	snprintf(path, sizeof(path), "%s.pipe", what->path);
	TT_EXPECT(!mkfifo(path, 0600));
	MP_ERR(tutti_ps_restore(o->ps, path), -EINVAL);
	MP_SAID("is no regular file");
	unlink(path);
	return 0;
}

static int damaged_body(struct mp_job *job)
{
	struct what *what = job->arg;
	double before = 0, after = 0;
	struct open o;

	TT_EXPECT(!open_all(job, what, &o));
	if (job->rank == what->servers) {
		TT_EXPECT(!push_all(job, &o, 1));
		if (what->saves)
			MP_OK(tutti_ps_save(o.ps, what->path));
		TT_EXPECT(!pull_sum(job, &o, &before));
		TT_EXPECT(!flip_all(job, &o, what->path));
		TT_EXPECT(!wrong_clocks(job, &o, what->path));
		TT_EXPECT(!wrong_files(job, &o, what));
		TT_EXPECT(!pull_sum(job, &o, &after) && before == after);
		MP_OK(tutti_ps_restore(o.ps, what->path));
		TT_EXPECT(!pull_sum(job, &o, &after));
		/* another number of servers encodes other blocks */
		TT_EXPECT(!what->saves || before == after);
	}
	MP_OK(tutti_ps_close(o.ps));
	return 0;
}

static void run(int saved_on, int servers, int copies)
{
	struct what what = {.servers = saved_on, .copies = copies, .saves = true};
	char dir[] = "/tmp/tutti-damaged-XXXXXX";

	TT_CHECK(mkdtemp(dir) != NULL);
	snprintf(what.path, sizeof(what.path), "%s/all", dir);
	TT_CHECK(!MP_RUN(.n = saved_on + 1, .env = "TUTTI_TRANSPORT=shm", .fn = damaged_body,
			 .arg = &what));
	what.saves = false;
	what.servers = servers;
	if (servers != saved_on)
		TT_CHECK(!MP_RUN(.n = servers + 1, .env = "TUTTI_TRANSPORT=shm", .fn = damaged_body,
				 .arg = &what));
	TT_CHECK(!unlink(what.path) && !rmdir(dir));
}

static void alone(void)
{
	run(1, 3, 0);
}

static void sharded(void)
{
	run(3, 2, 0);
}

static void replicas(void)
{
	run(3, 3, 2);
}

int main(int argc, char **argv)
{
	static const struct tt_test tests[] = {
		{"alone", alone}, {"sharded", sharded}, {"replicas", replicas}, {NULL, NULL}};

	return tt_test_main("ps_damaged", tests, argc, argv);
}
