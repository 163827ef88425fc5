/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Whole jobs among strangers: invalid data at every listening socket, while collectives run and
 * must stay exact. Also checks the addresses at which ranks listen, and that shared resources are
 * private.
 */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
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
			fds[k % FDS] = st_junk(noise->ports[i],
					       tt_hash_add((uint64_t)noise->rank, noise->thrown++));
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
		MP_OK(tutti_allreduce(TUTTI_IN_PLACE, buf, 2000, TUTTI_FLOAT32, TUTTI_SUM,
				      job->world));
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
	mp_sleep_ms(
		200); /* strangers are first: ranks connect to each other when they first need to */
	err = exact_rounds(job, 0.7);
	noise.stop = true;
	pthread_join(thread, NULL);
	if (!job->rank)
		printf("  %d sockets listen at rank 0, none beyond loopback; %lu junk connections "
		       "to them\n",
		       l.n, noise.thrown);
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

/* ---- strangers take up no descriptors ---- */

#define STRANGERS 300
#define KEPT 150 /* staying connections at a time */

/*
 * The last rank's connections to rank 0's listeners: some close, some send too little, some stay.
 */
static void *throng_main(void *arg)
{
	struct mp_job *job = arg;
	int fds[KEPT], i, fd, nports = atomic_load(&job->shared->word[0]);

	memset(fds, -1, sizeof(fds));
	for (i = 0; i < STRANGERS; i++) {
		fd = st_connect(atomic_load(&job->shared->word[1 + i % nports]));
		if (fd < 0)
			continue;
		if (i % 3)
			(void)!write(fd, "tutti", i % 3 == 1 ? 5 : 0);
		atomic_fetch_add(&job->shared->word[20], 1);
		if (i % 6 < 3) {
			close(fd);
			continue;
		}
		if (fds[i % KEPT] >= 0)
			close(fds[i % KEPT]);
		fds[i % KEPT] = fd;
	}
	atomic_store(&job->shared->word[21], 1);
	mp_await(&job->shared->word[22], 1, 60000);
	for (i = 0; i < KEPT; i++)
		if (fds[i] >= 0)
			close(fds[i]);
	return NULL;
}

static int exact_round(struct mp_job *job, int *more)
{
	float buf[100];
	int i;

	for (i = 0; i < 100; i++)
		buf[i] = (float)(i + job->rank);
	MP_OK(tutti_allreduce(TUTTI_IN_PLACE, buf, 100, TUTTI_FLOAT32, TUTTI_SUM, job->world));
	for (i = 0; i < 100; i++)
		TT_EXPECT(buf[i] == (float)(i * job->n + job->n * (job->n - 1) / 2));
	MP_OK(tutti_bcast(more, 1, TUTTI_INT32, 0, job->world));
	return 0;
}

static int throng(struct mp_job *job)
{
	static const char dropped[] = "from processes that are not peers";
	struct rlimit few = {128, 128};
	struct tutti_config config = {0};
	int i, more = 1, before, now = 0, most = 0;
	struct tt_listeners l;
	pthread_t thread;
	double end;

	TT_EXPECT(job->rank == job->n - 1 || !setrlimit(RLIMIT_NOFILE, &few));
	MP_OK(mp_join(job, MP_ID, &config));
	TT_EXPECT(!exact_round(job, &more));
	before = tt_open_fds();
	if (!job->rank) {
		l = tt_find_listeners();
		for (i = 0; i < l.n && i < 16; i++)
			atomic_store(&job->shared->word[1 + i], l.port[i]);
		atomic_store(&job->shared->word[0], l.n);
	}
	mp_meet(job);
	if (job->rank == job->n - 1)
		TT_EXPECT(!pthread_create(&thread, NULL, throng_main, job));
	for (end = mp_now() + 40; more;) {
		now = tt_open_fds();
		most = now > most ? now : most;
		/* libfabric may accept the first of them after the last has come */
		more = !atomic_load(&job->shared->word[21]) ||
		       ((now > before + 2 || !mp_log_has(job, dropped)) && mp_now() < end);
		TT_EXPECT(!exact_round(job, &more));
	}
	if (!job->rank) {
		printf("  %d strangers: %d descriptors before, %d at most, %d after\n",
		       atomic_load(&job->shared->word[20]), before, most, now);
		fflush(stdout);
		TT_EXPECT(now <= before + 2 && mp_log_has(job, dropped));
	}
	atomic_store(&job->shared->word[22], !job->rank || atomic_load(&job->shared->word[22]));
	if (job->rank == job->n - 1)
		pthread_join(thread, NULL);
	return 0;
}

static void descriptors(void)
{
	if (mp_no_ofi())
		TT_SKIP("%s", mp_no_ofi());
	TT_CHECK(!MP_RUN(.n = 3, .fn = throng, .no_init = true,
			 .env = "TUTTI_IF=lo TUTTI_TRANSPORT=ofi"));
}

/* A peer that computes after it has called, and before libfabric there says who it is, is no
 * stranger, and is not reported as one when the next look finds it connected. */
static int slow_caller_body(struct mp_job *job)
{
	struct tutti_request *req;
	int v = 17;

	if (!job->rank) {
		MP_OK(tutti_isend(&v, 1, TUTTI_INT32, 1, 1, job->world, &req));
		mp_sleep_ms(3500);
		MP_OK(tutti_wait(&req));
	} else {
		mp_sleep_ms(300);
		MP_OK(tutti_recv(&v, 1, TUTTI_INT32, 0, 1, job->world, NULL));
	}
	mp_sleep_ms(job->rank ? 0 : 1300); /* rank 1 looks while it waits */
	MP_OK(tutti_barrier(job->world));
	TT_EXPECT(!mp_log_has(job, "from processes that are not peers"));
	return 0;
}

static void slow_caller(void)
{
	if (mp_no_ofi())
		TT_SKIP("%s", mp_no_ofi());
	TT_CHECK(!MP_RUN(.n = 2, .fn = slow_caller_body, .env = "TUTTI_IF=lo TUTTI_TRANSPORT=ofi"));
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
					       {"descriptors", descriptors},
					       {"slow_caller", slow_caller},
					       {"no_listener_on_shm", no_listener_on_shm},
					       {"memory_is_private", memory_is_private},
					       {NULL, NULL}};

	return tt_test_main("guarded", tests, argc, argv);
}
