/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Whole jobs among strangers: junk at every socket that listens, while collectives run and must stay exact;
 * where ranks listen; and what they share is private.
 */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/hash.h"
#include "tests/fault/stranger.h"
#include "tests/mp/job.h"

#define FDS 64

struct noise {
	atomic_bool stop;
	unsigned long thrown;
	int rank, n, ports[16];
};

static void *noise_main(void *arg)
{
	struct noise *noise = arg;
	int fds[FDS], i, k = 0;

	memset(fds, -1, sizeof(fds));
	while (!noise->stop) {
		for (i = 0; i < noise->n; i++, k++) {
			if (fds[k % FDS] >= 0)
				close(fds[k % FDS]);
			fds[k % FDS] = st_junk(noise->ports[i], tt_hash_add((uint64_t)noise->rank, noise->thrown++));
		}
		usleep(2000);
	}
	for (i = 0; i < FDS; i++)
		if (fds[i] >= 0)
			close(fds[i]);
	return NULL;
}

static int exact_rounds(struct mp_job *job, double seconds)
{
	float buf[2000];
	double end = mp_now() + seconds;
	int more = 1, i;

	while (more) {
		for (i = 0; i < 2000; i++)
			buf[i] = (float)(i + job->rank);
		MP_OK(tutti_allreduce(TUTTI_IN_PLACE, buf, 2000, TUTTI_FLOAT32, TUTTI_SUM, job->world));
		for (i = 0; i < 2000; i++)
			TT_EXPECT(buf[i] == (float)(i * job->n + job->n * (job->n - 1) / 2));
		more = mp_now() < end;
		MP_OK(tutti_bcast(&more, 1, TUTTI_INT32, 0, job->world));
	}
	return 0;
}

static int noisy(struct mp_job *job)
{
	struct noise noise = {.rank = job->rank};
	pthread_t thread;
	struct tt_listeners l = tt_find_listeners();
	int err;

	memcpy(noise.ports, l.port, sizeof(noise.ports));
	noise.n = l.n;
	TT_EXPECT(!l.beyond && l.n <= 16);
	pthread_create(&thread, NULL, noise_main, &noise);
	mp_sleep_ms(200); /* strangers are first: ranks connect to each other when they first need to */
	err = exact_rounds(job, 0.7);
	noise.stop = true;
	pthread_join(thread, NULL);
	if (!job->rank)
		printf("  %d sockets listen at rank 0, none beyond loopback; %lu junk connections to them\n", l.n,
		       noise.thrown);
	l = tt_find_listeners();
	TT_EXPECT(!l.beyond);
	TT_EXPECT(!l.n || noise.thrown > 10);
	return err;
}

static void junk_ofi(void)
{
	if (mp_no_ofi())
		TT_SKIP("%s", mp_no_ofi());
	TT_CHECK(!MP_RUN(.n = 3, .fn = noisy, .env = "TUTTI_IF=lo TUTTI_TRANSPORT=ofi"));
}

static void no_listener_on_shm(void)
{
	TT_CHECK(!MP_RUN(.n = 3, .fn = noisy, .env = "TUTTI_IF=lo TUTTI_TRANSPORT=shm"));
}

/* Every memfd of this process has mode 0600, and no file of ours is in /dev/shm. */
static int private_memory(struct mp_job *job)
{
	char path[300], link[128];
	int memfds = 0, before = mp_shm_files();
	struct dirent *e;
	struct stat st;
	void *p;
	ssize_t n;
	DIR *d;

	MP_OK(tutti_alloc(job->ctx, 1 << 20, &p));
	TT_EXPECT(!exact_rounds(job, 0));
	d = opendir("/proc/self/fd");
	while (d && (e = readdir(d)) != NULL) {
		snprintf(path, sizeof(path), "/proc/self/fd/%s", e->d_name);
		n = readlink(path, link, sizeof(link) - 1);
		link[n > 0 ? n : 0] = 0;
		if (strncmp(link, "/memfd:", 7) || stat(path, &st))
			continue;
		memfds++;
		if ((st.st_mode & 07777) != 0600)
			mp_failed(job, link, (int)(st.st_mode & 07777), __FILE__, __LINE__);
		TT_EXPECT((st.st_mode & 07777) == 0600);
	}
	closedir(d);
	TT_EXPECT(memfds >= 2 && mp_shm_files() == before);
	tutti_free(p);
	return 0;
}

static void memory_is_private(void)
{
	TT_CHECK(!MP_RUN(.n = 2, .fn = private_memory, .env = "TUTTI_IF=lo"));
}

int main(int argc, char **argv)
{
	static const struct tt_test tests[] = {{"junk_ofi", junk_ofi},
					       {"no_listener_on_shm", no_listener_on_shm},
					       {"memory_is_private", memory_is_private},
					       {NULL, NULL}};

	return tt_test_main("guarded", tests, argc, argv);
}
