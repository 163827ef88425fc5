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
#include <string.h>

#include "lib/base/clock.h"
#include "lib/base/spawn.h"
#include "lib/ps/server/table_store.h"

#define SPINS 2000

struct hand {
	pthread_t thread;
	struct tt_ps_crew *crew;
	int index; /* from 1: the caller is 0 */
};

struct tt_ps_crew {
	int n; /* of all */
	struct hand *hand;
	int hands; /* that run */
	pthread_mutex_t lock;
	pthread_cond_t begin;
	atomic_uint turn; /* changes under the lock */
	bool end;
	atomic_int left; /* hands that are not through with this turn */
	tt_ps_part_fn *part;
	void *arg;
};

/* The next turn; it comes soon if pushes come in a row. */
static void await(struct tt_ps_crew *crew, unsigned seen)
{
	int i;

	for (i = 0; i < SPINS && atomic_load(&crew->turn) == seen; i++)
		tt_cpu_relax();
	pthread_mutex_lock(&crew->lock);
	while (atomic_load(&crew->turn) == seen)
		pthread_cond_wait(&crew->begin, &crew->lock);
	pthread_mutex_unlock(&crew->lock);
}

static void *work(void *arg)
{
	struct hand *hand = arg;
	struct tt_ps_crew *crew = hand->crew;
	unsigned turn;

	for (turn = 0;; turn++) {
		await(crew, turn);
		if (crew->end)
			return NULL;
		crew->part(crew->arg, hand->index, crew->n);
		atomic_fetch_sub(&crew->left, 1);
	}
}

static void start_turn(struct tt_ps_crew *crew)
{
	atomic_store(&crew->left, crew->hands);
	pthread_mutex_lock(&crew->lock);
	atomic_fetch_add(&crew->turn, 1);
	pthread_cond_broadcast(&crew->begin);
	pthread_mutex_unlock(&crew->lock);
}

void tt_ps_crew_run(struct tt_ps_crew *crew, tt_ps_part_fn *part, void *arg)
{
	int i;

	crew->part = part;
	crew->arg = arg;
	start_turn(crew);
	part(arg, 0, crew->n);
	for (i = 0; atomic_load(&crew->left); i++) /* as long as a part takes */
		if (i < SPINS)
			tt_cpu_relax();
		else
			sched_yield();
}

void tt_ps_crew_free(struct tt_ps_crew *crew)
{
	int i;

	if (!crew)
		return;
	crew->end = true;
	start_turn(crew);
	for (i = 0; i < crew->hands; i++)
		pthread_join(crew->hand[i].thread, NULL);
	pthread_cond_destroy(&crew->begin);
	pthread_mutex_destroy(&crew->lock);
	free(crew->hand);
	free(crew);
}

int tt_ps_crew_new(int n, struct tt_ps_crew **out)
{
	struct tt_ps_crew *crew = calloc(1, sizeof(*crew));
	int err = 0;

	if (!crew)
		return -ENOMEM;
	crew->n = n;
	crew->hand = calloc((size_t)n, sizeof(*crew->hand));
	pthread_mutex_init(&crew->lock, NULL);
	pthread_cond_init(&crew->begin, NULL);
	for (; crew->hand && crew->hands < n - 1 && !err; crew->hands += !err) {
		struct hand *hand = &crew->hand[crew->hands];

		*hand = (struct hand){.crew = crew, .index = crew->hands + 1};
		err = tt_spawn(&hand->thread, work, hand, "a thread that applies updates");
	}
	if (err || !crew->hand) {
		tt_ps_crew_free(crew);
		return err ? err : -ENOMEM;
	}
	*out = crew;
	return 0;
}
