/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A rank of the jobs in tests/diag: some all-reduces of 1000 floats, and then a fault at one rank.
 *
 *	rank WHAT RANK
 *
 * WHAT: ok; kill, stop (itself); shrink, tolerate (as kill; the others go on without it, and then
 * rank 0 exits with status 3); leave, fail (it exits with status 0 or 3 without finalizing);
 * count, root, type (this rank calls something else); late (it sleeps for 600 ms before a call);
 * never (it sleeps for long); unstarted (the same, of a persistent all-reduce); order (two
 * communicators, the other way round); recv (it sleeps, rank 0 receives from it, and the others
 * call an all-reduce); ring (each rank receives from the next one); any (it receives from any
 * rank, the others from it); any_ring (so does it, while the others form a ring); busy (all go on);
 * sleepy (as busy, but it sleeps); stay (as busy, and it stays after an error). The last ones are
 * ended by the test, or after LONG_S.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <tutti/tutti.h>
#include <unistd.h>

#define COUNT 1000
#define CALLS 20
#define LONG_S 120 /* longer than any look at the job takes */

static struct tutti_comm *world, *second;
static float *v;

static double now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

static int reduce(struct tutti_comm *comm, size_t count)
{
	return tutti_allreduce(TUTTI_IN_PLACE, v, count, TUTTI_FLOAT32, TUTTI_SUM, comm);
}

static int wrong(const char *what)
{
	if (!strcmp(what, "kill") || !strcmp(what, "count") || !strcmp(what, "type") ||
	    !strcmp(what, "root") || !strcmp(what, "call") || !strcmp(what, "shrink") ||
	    !strcmp(what, "tolerate"))
		usleep(300000); /* until the others wait */
	if (!strcmp(what, "kill") || !strcmp(what, "shrink") || !strcmp(what, "tolerate"))
		kill(getpid(), SIGKILL);
	if (!strcmp(what, "leave"))
		_exit(0);
	if (!strcmp(what, "fail"))
		_exit(3);
	if (!strcmp(what, "stop"))
		kill(getpid(), SIGSTOP);
	if (!strcmp(what, "late"))
		usleep(600000);
	if (!strcmp(what, "never") || !strcmp(what, "unstarted"))
		sleep(60);
	if (!strcmp(what, "count"))
		return reduce(world, COUNT - 1);
	if (!strcmp(what, "type"))
		return tutti_allreduce(TUTTI_IN_PLACE, v, COUNT, TUTTI_INT32, TUTTI_SUM, world);
	if (!strcmp(what, "root"))
		return tutti_bcast(v, COUNT, TUTTI_FLOAT32, 1, world);
	if (!strcmp(what, "call"))
		return tutti_bcast(v, COUNT, TUTTI_FLOAT32, 0, world);
	if (!strcmp(what, "order"))
		return reduce(second, COUNT);
	return reduce(world, COUNT);
}

static int start(struct tutti_request *req)
{
	int err = tutti_start(req);

	return err ? err : tutti_wait(&req);
}

/* Nothing is sent: this lasts until the job is ended. */
static int receive(const char *what, int rank, int bad)
{
	float x;

	if (!strncmp(what, "any", 3) && rank == bad)
		bad = TUTTI_ANY_SOURCE;
	else if (!strcmp(what, "any_ring"))
		bad = rank == tutti_comm_size(world) - 1 ? 1 : rank + 1; /* bad is 0 */
	else if (!strcmp(what, "any"))
		;
	else if (!strcmp(what, "ring"))
		bad = (rank + 1) % tutti_comm_size(world);
	else if (rank == bad)
		return sleep(LONG_S) ? 0 : -1;
	else if (rank)
		return reduce(world, COUNT);
	return tutti_recv(&x, 1, TUTTI_FLOAT32, bad, 5, world, NULL);
}

static int go_without(const char *what, int rank)
{
	struct tutti_comm *left;
	int err;

	do
		err = reduce(world, COUNT);
	while (!err);
	if (!strcmp(what, "shrink"))
		err = tutti_comm_shrink(world, &left);
	else if (!rank)
		err = tutti_send(v, COUNT, TUTTI_FLOAT32, 2, 5, world);
	else
		err = tutti_recv(v, COUNT, TUTTI_FLOAT32, 0, 5, world, NULL);
	if (!err && !rank)
		_exit(3);
	return err ? err : tutti_recv(v, COUNT, TUTTI_FLOAT32, 0, 6, world, NULL);
}

static int go_on(const char *what, int mine)
{
	double end = now() + LONG_S;
	int err = 0;

	while (!err && now() < end) {
		if (mine && !strcmp(what, "sleepy"))
			sleep(LONG_S);
		err = reduce(world, COUNT);
	}
	return err;
}

int main(int argc, char **argv)
{
	const char *what = argc > 2 ? argv[1] : "ok";
	struct tutti_context *ctx;
	struct tutti_request *req;
	int rank, err, i, mine;

	err = tutti_init(NULL, &ctx);
	if (err)
		return 3;
	world = tutti_world(ctx);
	rank = tutti_comm_rank(world);
	mine = argc > 2 && rank == atoi(argv[2]);
	err = tutti_alloc(ctx, COUNT * sizeof(*v), (void **)&v);
	if (!err)
		err = tutti_comm_dup(world, &second);
	if (!err)
		err = tutti_comm_set_name(second, "spare");
	if (!err)
		err = tutti_allreduce_init(TUTTI_IN_PLACE, v, COUNT, TUTTI_FLOAT32, TUTTI_SUM,
					   world, &req);
	for (i = 0; !err && i < CALLS; i++)
		err = reduce(world, COUNT);
	if (!err && (!strcmp(what, "busy") || !strcmp(what, "sleepy") || !strcmp(what, "stay")))
		err = go_on(what, mine);
	else if (!err &&
		 (!strcmp(what, "recv") || !strcmp(what, "ring") || !strncmp(what, "any", 3)))
		err = receive(what, rank, atoi(argv[2]));
	else if (!err && mine)
		err = wrong(what);
	else if (!err && (!strcmp(what, "shrink") || !strcmp(what, "tolerate")))
		err = go_without(what, rank);
	else if (!err && !strcmp(what, "unstarted"))
		err = start(req);
	else if (!err && !strcmp(what, "root"))
		err = tutti_bcast(v, COUNT, TUTTI_FLOAT32, 0, world);
	else if (!err)
		err = reduce(world, COUNT);
	if (err) {
		tutti_comm_perror(world, "the job");
		if (!strcmp(what, "stay"))
			sleep(LONG_S);
		return 4;
	}
	tutti_request_free(req);
	tutti_free(v);
	return tutti_comm_free(second) || tutti_finalize(ctx) ? 4 : 0;
}
