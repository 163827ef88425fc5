/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The jobs of the environment that this process is in, as one rank each. Two libraries of a program
 * may both call tutti_init: the second call would be taken for another process of the same rank,
 * and would end the job, or wait for ranks that do not come.
 */
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/hash.h"
#include "lib/boot/rendezvous/launcher.h"
#include "lib/job/job.h"

#define JOBS 16 /* with more, the others are not looked at */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
	uint64_t key; /* 0: free */
	pid_t pid;    /* a child of fork is another process */
	bool left;
} jobs[JOBS];

static uint64_t add(uint64_t h, const char *text)
{
	for (; text && *text; text++)
		h = tt_hash_add(h, (unsigned char)*text);
	return tt_hash_add(h, 256);
}

/* A hash of the rank and of the settings that locate rank 0. */
static uint64_t key_of(const struct tt_env *env, const struct tt_boot_params *who)
{
	uint64_t h = tt_hash_add(tt_hash_add(0, (uint64_t)who->rank), (uint64_t)who->nranks);

	h = add(add(add(h, env->store.text), env->boot_dir.text), env->job_id.text);
	return add(add(h, tt_launcher_text("MASTER_ADDR")), tt_launcher_text("MASTER_PORT")) | 1;
}

static int refuse(const struct tt_boot_params *who, bool left)
{
	if (left)
		return tt_fail(
			-EBUSY,
			"this process was rank %d of %d of this job (%s), has left it or failed "
			"to join it, and cannot join it again; keep the context, or set nranks, "
			"rank and id of the config to start another job",
			who->rank, who->nranks, who->origin);
	return tt_fail(-EBUSY,
		       "this process is in this job already, as rank %d of %d (%s); share "
		       "its context, or set nranks, rank and id of the config to start another job",
		       who->rank, who->nranks, who->origin);
}

int tt_env_job_enter(struct tutti_context *ctx, const struct tutti_config *config)
{
	struct tt_boot_params who = {.listen_fd = -1};
	const struct tt_env *env = &ctx->env;
	int i, place = -1, err = 0;
	uint64_t key;

	if (config->nranks ? config->id || config->allgather : env->join.number)
		return 0;
	if (tt_boot_who(config, env, &who) || (who.nranks == 1 && !env->store.is_set))
		return 0; /* alone, or tt_boot_discover reports what is wrong */
	key = key_of(env, &who);
	pthread_mutex_lock(&lock);
	for (i = 0; i < JOBS && !err; i++) {
		if (!jobs[i].key || jobs[i].pid != getpid())
			place = i;
		else if (jobs[i].key == key)
			err = refuse(&who, jobs[i].left);
	}
	if (!err && place >= 0) {
		jobs[place].key = key;
		jobs[place].pid = getpid();
		jobs[place].left = false;
		ctx->env_job = place + 1;
	}
	pthread_mutex_unlock(&lock);
	return err;
}

void tt_env_job_leave(struct tutti_context *ctx, bool tried)
{
	int place = ctx->env_job - 1;

	if (place < 0)
		return;
	pthread_mutex_lock(&lock);
	/* rank 0's socket and the secret are used up */
	jobs[place].left = tried && !strcmp(ctx->boot_params.origin, "tutti_run");
	if (!jobs[place].left)
		jobs[place].key = 0;
	pthread_mutex_unlock(&lock);
	ctx->env_job = 0;
}
