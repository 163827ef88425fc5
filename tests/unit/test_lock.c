/* SPDX-License-Identifier: BSD-3-Clause */
/* The lock: one owner at a time, recursive, and waits that are bounded. */
#include <pthread.h>
#include <unistd.h>

#include "lib/base/clock.h"
#include "lib/base/lock.h"
#include "tests/test.h"

#define THREADS 4
#define ROUNDS 20000

static struct tt_lock lock;
static long counter; /* not atomic: the lock has to do */
static atomic_bool held, let_go;

static void *count(void *arg)
{
	int i;

	for (i = 0; i < ROUNDS; i++) {
		tt_lock(&lock);
		tt_lock(&lock);
		counter++;
		tt_unlock(&lock);
		counter++;
		tt_unlock(&lock);
	}
	return NULL;
}

static void test_excludes(void)
{
	pthread_t thread[THREADS];
	int i;

	counter = 0;
	for (i = 0; i < THREADS; i++)
		TT_REQUIRE(!pthread_create(&thread[i], NULL, count, NULL));
	for (i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
	TT_CHECK(counter == 2l * THREADS * ROUNDS);
	TT_CHECK(!atomic_load(&lock.word) && !lock.depth);
}

static void *hold(void *arg)
{
	tt_lock(&lock);
	tt_lock(&lock);
	atomic_store(&held, true);
	while (!atomic_load(&let_go))
		usleep(1000);
	tt_unlock(&lock); /* the outer hold stays */
	usleep(20000);
	tt_unlock(&lock);
	return NULL;
}

/* In vain while another thread has it, however often it gives back an inner hold; then in time. */
static void test_within(void)
{
	pthread_t thread;
	uint64_t start;

	atomic_store(&held, false);
	atomic_store(&let_go, false);
	TT_REQUIRE(!pthread_create(&thread, NULL, hold, NULL));
	while (!atomic_load(&held))
		usleep(1000);
	start = tt_now_ns();
	TT_CHECK(!tt_lock_within(&lock, 30));
	TT_CHECK(tt_now_ns() - start >= 30 * TT_MS);
	TT_CHECK(!tt_lock_within(&lock, 0));
	atomic_store(&let_go, true);
	TT_CHECK(tt_lock_within(&lock, 20000));
	TT_CHECK(tt_lock_within(&lock, 0)); /* ours already */
	tt_unlock(&lock);
	tt_unlock(&lock);
	pthread_join(thread, NULL);
	TT_CHECK(!atomic_load(&lock.word) && !lock.depth);
}

static const struct tt_test tests[] = {
	{"excludes", test_excludes}, {"within", test_within}, {NULL, NULL}};

int main(int argc, char **argv)
{
	return tt_test_main("lock", tests, argc, argv);
}
