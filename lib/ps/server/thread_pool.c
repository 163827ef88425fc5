/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The thread pool of a server, which applies updates in parallel (options.threads). In Hogwild (Niu
 * and others, 2011) threads race for elements, and an update is lost now and then. Here every
 * thread has its own elements, or rows, and goes through a push in order: no locks, no lost
 * updates, and the same bits as with one thread. Only going to sleep between two pushes takes a
 * lock.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>

#include "lib/base/clock.h"
#include "lib/base/spawn.h"
#include "lib/ps/server/table_store.h"

#define SPINS 2000

struct helper {
	pthread_t thread;
	struct tt_ps_pool *pool;
	int index; /* from 1: the caller is 0 */
};

struct tt_ps_pool {
	int n; /* of all */
	struct helper *helper;
	int helpers; /* that run */
	pthread_mutex_t lock;
	pthread_cond_t begin;
	atomic_uint turn; /* changes under the lock */
	bool end;
	atomic_int left; /* helpers that are not through with this turn */
	tt_ps_part_fn *part;
	void *arg;
};

/* The next turn; it comes soon if pushes come in a row. */
static void await(struct tt_ps_pool *pool, unsigned seen)
{
	int i;

	for (i = 0; i < SPINS && atomic_load(&pool->turn) == seen; i++)
		tt_cpu_relax();
	pthread_mutex_lock(&pool->lock);
	while (atomic_load(&pool->turn) == seen)
		pthread_cond_wait(&pool->begin, &pool->lock);
	pthread_mutex_unlock(&pool->lock);
}

static void *work(void *arg)
{
	struct helper *helper = arg;
	struct tt_ps_pool *pool = helper->pool;
	unsigned turn;

	for (turn = 0;; turn++) {
		await(pool, turn);
		if (pool->end)
			return NULL;
		pool->part(pool->arg, helper->index, pool->n);
		atomic_fetch_sub(&pool->left, 1);
	}
}

static void start_turn(struct tt_ps_pool *pool)
{
	atomic_store(&pool->left, pool->helpers);
	pthread_mutex_lock(&pool->lock);
	atomic_fetch_add(&pool->turn, 1);
	pthread_cond_broadcast(&pool->begin);
	pthread_mutex_unlock(&pool->lock);
}

void tt_ps_pool_run(struct tt_ps_pool *pool, tt_ps_part_fn *part, void *arg)
{
	int i;

	pool->part = part;
	pool->arg = arg;
	start_turn(pool);
	part(arg, 0, pool->n);
	for (i = 0; atomic_load(&pool->left); i++) /* as long as a part takes */
		if (i < SPINS)
			tt_cpu_relax();
		else
			sched_yield();
}

void tt_ps_pool_free(struct tt_ps_pool *pool)
{
	int i;

	if (!pool)
		return;
	pool->end = true;
	start_turn(pool);
	for (i = 0; i < pool->helpers; i++)
		pthread_join(pool->helper[i].thread, NULL);
	pthread_cond_destroy(&pool->begin);
	pthread_mutex_destroy(&pool->lock);
	free(pool->helper);
	free(pool);
}

int tt_ps_pool_new(int n, struct tt_ps_pool **out)
{
	struct tt_ps_pool *pool = calloc(1, sizeof(*pool));
	int err = 0;

	if (!pool)
		return -ENOMEM;
	pool->n = n;
	pool->helper = calloc((size_t)n, sizeof(*pool->helper));
	pthread_mutex_init(&pool->lock, NULL);
	pthread_cond_init(&pool->begin, NULL);
	for (; pool->helper && pool->helpers < n - 1 && !err; pool->helpers += !err) {
		struct helper *helper = &pool->helper[pool->helpers];

		*helper = (struct helper){.pool = pool, .index = pool->helpers + 1};
		err = tt_spawn(&helper->thread, work, helper, "a thread that applies updates");
	}
	if (err || !pool->helper) {
		tt_ps_pool_free(pool);
		return err ? err : -ENOMEM;
	}
	*out = pool;
	return 0;
}
