/* SPDX-License-Identifier: BSD-3-Clause */
/* The errors where there is no room for new mappings: they name the limit to raise. */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "lib/base/error.h"
#include "lib/base/library.h"
#include "lib/base/spawn.h"
#include "lib/shm/segment.h"
#include "tests/test.h"

/* From here on this process gets no further mapping. False: the limit has no effect. */
static bool limit(bool *limited)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	return false; /* the sanitizers need mappings of their own */
#endif
	struct rlimit l;

	getrlimit(RLIMIT_AS, &l);
	l.rlim_cur = 1 << 20;
	setrlimit(RLIMIT_AS, &l);
	*limited = mmap(NULL, 1 << 20, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED;
	return *limited;
}

static bool says(int code, int err, const char *text)
{
	const char *all = tt_fail_text(err);

	if (err != code || !strstr(all, text) || strstr(all, "install"))
		fprintf(stderr, "%d: %s\n", err, all);
	return err == code && strstr(all, text) && !strstr(all, "install");
}

static void *nothing(void *arg)
{
	return arg;
}

static int thread(int rank, int nranks, void *arg)
{
	pthread_t t;

	if (!limit(arg))
		return 0;
	return !says(-EAGAIN, tt_spawn(&t, nothing, NULL, "a thread"),
		     "cannot start a thread: Resource temporarily unavailable; raise 'ulimit -u' "
		     "or 'ulimit -v'");
}

static int segment(int rank, int nranks, void *arg)
{
	uint64_t ino;
	void *p;

	if (!limit(arg))
		return 0;
	return !says(-ENOMEM, tt_shm_create("tutti-test", 1 << 20, &p, &ino),
		     "tutti-test of 1024 KiB: Cannot allocate memory; raise 'ulimit -v'");
}

static int library(int rank, int nranks, void *arg)
{
	/* every glibc has it, and nothing here loads it */
	const struct tt_library lib = {.soname = "libanl.so.1", .package = "libc6"};

	if (!limit(arg))
		return 0;
	return !says(-ENOMEM, tt_library_load(&lib),
		     "out of memory or address space; raise 'ulimit -v'");
}

static void run(tt_rank_fn *fn)
{
	bool *limited = mmap(NULL, sizeof(*limited), PROT_READ | PROT_WRITE,
			     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	bool was;

	TT_REQUIRE(limited != MAP_FAILED);
	TT_CHECK(!tt_run_ranks(1, fn, limited, 20000, 0));
	was = *limited;
	munmap(limited, sizeof(*limited));
	if (!was)
		TT_SKIP("memory cannot be limited here");
}

static void test_thread(void)
{
	run(thread);
}

static void test_segment(void)
{
	run(segment);
}

static void test_library(void)
{
	run(library);
}

int main(int argc, char **argv)
{
	static const struct tt_test tests[] = {{"thread", test_thread},
					       {"segment", test_segment},
					       {"library", test_library},
					       {NULL, NULL}};

	return tt_test_main("no_memory", tests, argc, argv);
}
