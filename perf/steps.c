/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The instructions of each call of 8 bytes by two ranks of one host, for perf/instructions. A child
 * of each rank single-steps the thread that makes the call. The other rank runs at full speed and
 * is there first, so the count hardly contains waiting; the least of several calls contains none. A
 * system call counts as one instruction.
 *
 * The result is the same on any machine with the same processor features, idle or not.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <time.h>
#include <tutti/tutti.h>
#include <unistd.h>

#define WARM 6	       /* calls that are not counted: both halves of slots, caches of plans */
#define CALLS 8	       /* calls of which the least counts */
#define LEAD_NS 200000 /* the other rank is earlier by this */
#define TAG 7

/* Shared with the tracer. */
struct mark {
	volatile int on;
	volatile long steps;
};

struct bench {
	struct tutti_comm *world;
	struct tutti_win *win;
	struct tutti_graph *ring;
	struct tutti_request *persistent;
	struct mark *mark;
	double in[4], out[4], memory[4];
	int rank;
};

/* ---- the tracer ---- */

/* Steps the thread from its stop until it clears the mark. */
static int step_on(pid_t pid, struct mark *mark)
{
	long n;
	int status;

	for (n = 0; mark->on; n++) {
		mark->steps = n;
		if (ptrace(PTRACE_SINGLESTEP, pid, 0, 0) || waitpid(pid, &status, __WALL) < 0 ||
		    !WIFSTOPPED(status))
			return -1;
	}
	return 0;
}

static void trace(pid_t pid, struct mark *mark)
{
	int status, sig;

	if (ptrace(PTRACE_SEIZE, pid, 0, 0)) {
		mark->steps = -errno;
		mark->on = -1;
		_exit(1);
	}
	mark->on = -1;
	while (waitpid(pid, &status, __WALL) > 0 && WIFSTOPPED(status)) {
		sig = WSTOPSIG(status);
		if (sig == SIGUSR2 && mark->on && step_on(pid, mark))
			break;
		if (ptrace(PTRACE_CONT, pid, 0, sig == SIGUSR2 || sig == SIGTRAP ? 0 : sig))
			break;
	}
	_exit(0);
}

static int start_tracer(struct bench *b)
{
	pid_t child, self = getpid();

	b->mark = mmap(NULL, sizeof(*b->mark), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		       -1, 0);
	if (b->mark == MAP_FAILED)
		return -errno;
	child = fork();
	if (child < 0)
		return -errno;
	if (!child) {
		while (!b->mark->on)
			usleep(100);
		trace(self, b->mark);
	}
	prctl(PR_SET_PTRACER, child, 0, 0, 0);
	b->mark->on = 1;
	while (b->mark->on != -1)
		usleep(100);
	b->mark->on = 0;
	return (int)b->mark->steps;
}

/* ---- the calls ---- */

static const size_t ones[2] = {1, 1}, places[2] = {0, 1};

static int nothing(struct bench *b)
{
	(void)b;
	return 0;
}

static int allreduce(struct bench *b)
{
	return tutti_allreduce(b->in, b->out, 1, TUTTI_FLOAT64, TUTTI_SUM, b->world);
}

static int bcast(struct bench *b)
{
	return tutti_bcast(b->out, 1, TUTTI_FLOAT64, 0, b->world);
}

static int reduce(struct bench *b)
{
	return tutti_reduce(b->in, b->out, 1, TUTTI_FLOAT64, TUTTI_SUM, 0, b->world);
}

static int reduce_scatter_block(struct bench *b)
{
	return tutti_reduce_scatter_block(b->in, b->out, 1, TUTTI_FLOAT64, TUTTI_SUM, b->world);
}

static int reduce_scatter(struct bench *b)
{
	return tutti_reduce_scatter(b->in, b->out, ones, TUTTI_FLOAT64, TUTTI_SUM, b->world);
}

static int allgather(struct bench *b)
{
	return tutti_allgather(b->in, b->out, 1, TUTTI_FLOAT64, b->world);
}

static int allgatherv(struct bench *b)
{
	return tutti_allgatherv(b->in, 1, b->out, ones, places, TUTTI_FLOAT64, b->world);
}

static int gather(struct bench *b)
{
	return tutti_gather(b->in, b->out, 1, TUTTI_FLOAT64, 0, b->world);
}

static int gatherv(struct bench *b)
{
	return tutti_gatherv(b->in, 1, b->out, ones, places, TUTTI_FLOAT64, 0, b->world);
}

static int scatter(struct bench *b)
{
	return tutti_scatter(b->in, b->out, 1, TUTTI_FLOAT64, 0, b->world);
}

static int scatterv(struct bench *b)
{
	return tutti_scatterv(b->in, ones, places, b->out, 1, TUTTI_FLOAT64, 0, b->world);
}

static int alltoall(struct bench *b)
{
	return tutti_alltoall(b->in, b->out, 1, TUTTI_FLOAT64, b->world);
}

static int alltoallv(struct bench *b)
{
	return tutti_alltoallv(b->in, ones, places, b->out, ones, places, TUTTI_FLOAT64, b->world);
}

static int scan(struct bench *b)
{
	return tutti_scan(b->in, b->out, 1, TUTTI_FLOAT64, TUTTI_SUM, b->world);
}

static int exscan(struct bench *b)
{
	return tutti_exscan(b->in, b->out, 1, TUTTI_FLOAT64, TUTTI_SUM, b->world);
}

static int barrier(struct bench *b)
{
	return tutti_barrier(b->world);
}

/* One way of a ping-pong: rank 0 sends, rank 1 receives. */
static int message(struct bench *b)
{
	if (!b->rank)
		return tutti_send(b->in, 1, TUTTI_FLOAT64, 1, TAG, b->world);
	return tutti_recv(b->out, 1, TUTTI_FLOAT64, 0, TAG, b->world, NULL);
}

/* Both ranks: to the other rank's window. */
static int put(struct bench *b)
{
	int err = tutti_put(b->win, !b->rank, b->in, 8, 8 * (uint64_t)b->rank);

	return err ? err : tutti_win_flush(b->win, !b->rank);
}

/* A call that has begun, until it has ended. */
static int finish(int err, struct tutti_request *request)
{
	return err ? err : tutti_wait(&request);
}

static int iallreduce(struct bench *b)
{
	struct tutti_request *r;
	int err = tutti_iallreduce(b->in, b->out, 1, TUTTI_FLOAT64, TUTTI_SUM, b->world, &r);

	return finish(err, r);
}

static int ibarrier(struct bench *b)
{
	struct tutti_request *r;
	int err = tutti_ibarrier(b->world, &r);

	return finish(err, r);
}

static int ibcast(struct bench *b)
{
	struct tutti_request *r;
	int err = tutti_ibcast(b->out, 1, TUTTI_FLOAT64, 0, b->world, &r);

	return finish(err, r);
}

static int iallgather(struct bench *b)
{
	struct tutti_request *r;
	int err = tutti_iallgather(b->in, b->out, 1, TUTTI_FLOAT64, b->world, &r);

	return finish(err, r);
}

static int ialltoall(struct bench *b)
{
	struct tutti_request *r;
	int err = tutti_ialltoall(b->in, b->out, 1, TUTTI_FLOAT64, b->world, &r);

	return finish(err, r);
}

static int persistent(struct bench *b)
{
	struct tutti_request *r = b->persistent;
	int err = tutti_start(r);

	return finish(err, r);
}

static int neighbor_allgather(struct bench *b)
{
	return tutti_neighbor_allgather(b->in, b->out, 1, TUTTI_FLOAT64, b->ring, 0, b->world);
}

static int neighbor_alltoall(struct bench *b)
{
	return tutti_neighbor_alltoall(b->in, b->out, 1, TUTTI_FLOAT64, b->ring, 0, b->world);
}

static int neighbor_allreduce(struct bench *b)
{
	return tutti_neighbor_allreduce(b->in, b->out, 1, TUTTI_FLOAT64, b->ring, 0, b->world);
}

static int sendrecv(struct bench *b)
{
	return tutti_sendrecv(b->in, 1, TUTTI_FLOAT64, !b->rank, TAG, b->out, 1, TUTTI_FLOAT64,
			      !b->rank, TAG, b->world, NULL);
}

/* As sendrecv, with requests. */
static int isend(struct bench *b)
{
	struct tutti_request *r[2];
	int err = tutti_irecv(b->out, 1, TUTTI_FLOAT64, !b->rank, TAG, b->world, NULL, &r[0]);

	if (!err)
		err = tutti_isend(b->in, 1, TUTTI_FLOAT64, !b->rank, TAG, b->world, &r[1]);
	return err ? err : tutti_waitall(2, r);
}

static const struct call {
	const char *name;
	int (*fn)(struct bench *b);
	double most; /* times an all-reduce; 0: no bar */
} calls[] = {
	{"allreduce", allreduce, 1},
	{"barrier", barrier, 1.3},
	{"bcast", bcast, 1.3},
	{"reduce", reduce, 1.3},
	{"allgather", allgather, 1.3},
	{"allgatherv", allgatherv, 2},
	{"reduce_scatter_block", reduce_scatter_block, 1.3},
	{"reduce_scatter", reduce_scatter, 2},
	{"alltoall", alltoall, 1.3},
	{"alltoallv", alltoallv, 2},
	{"gather", gather, 1.3},
	{"gatherv", gatherv, 2},
	{"scatter", scatter, 1.3},
	{"scatterv", scatterv, 2},
	{"scan", scan, 1.3},
	{"exscan", exscan, 1.3},
	{"send, recv", message, 0},
	{"sendrecv", sendrecv, 0},
	{"irecv, isend, waitall", isend, 0},
	{"put and flush", put, 0},
	{"neighbor_allgather", neighbor_allgather, 0},
	{"neighbor_alltoall", neighbor_alltoall, 0},
	{"neighbor_allreduce", neighbor_allreduce, 0},
	{"iallreduce, wait", iallreduce, 0},
	{"ibarrier, wait", ibarrier, 0},
	{"ibcast, wait", ibcast, 0},
	{"iallgather, wait", iallgather, 0},
	{"ialltoall, wait", ialltoall, 0},
	{"start, wait", persistent, 0},
};
#define NUM_CALLS ((int)(sizeof(calls) / sizeof(calls[0])))

/* ---- counting ---- */

static int count_once(struct bench *b, int (*fn)(struct bench *b), long *steps)
{
	const struct timespec lead = {.tv_nsec = LEAD_NS};
	int err;

	nanosleep(&lead, NULL);
	b->mark->on = 1;
	raise(SIGUSR2);
	err = fn(b);
	b->mark->on = 0; /* when the next instruction runs, the tracer has seen this */
	if (!*steps || b->mark->steps < *steps)
		*steps = b->mark->steps;
	return err;
}

/* The least instructions of a call at rank `at`, known there. */
static int count(struct bench *b, int (*fn)(struct bench *b), int at, long *steps)
{
	int i, err = 0;

	*steps = 0;
	for (i = 0; i < WARM && !err; i++)
		err = fn(b);
	for (i = 0; i < CALLS && !err; i++) {
		err = tutti_barrier(b->world);
		if (!err && b->rank == at)
			err = count_once(b, fn, steps);
		else if (!err)
			err = fn(b);
	}
	return err;
}

static void print(const struct call *call, const double *steps, double unit, int csv)
{
	double most = steps[0] > steps[1] ? steps[0] : steps[1];

	if (csv)
		printf("%s,%.0f,%.0f,%.2f,%.1f\n", call->name, steps[0], steps[1], most / unit,
		       call->most);
	else
		printf("%-22s %8.0f %8.0f %8.2f%s\n", call->name, steps[0], steps[1], most / unit,
		       call->most && most > call->most * unit ? "  more than the bar" : "");
}

/* A window, a graph and a request for the calls. */
static int make(struct bench *b)
{
	int err = tutti_win_create(b->world, b->memory, sizeof(b->memory), 0, &b->win);

	if (!err)
		err = tutti_graph_ring(2, &b->ring);
	if (!err)
		err = tutti_allreduce_init(b->in, b->out, 1, TUTTI_FLOAT64, TUTTI_SUM, b->world,
					   &b->persistent);
	return err;
}

static int release(struct bench *b)
{
	int err = tutti_request_free(b->persistent);

	tutti_graph_free(b->ring);
	return err ? err : tutti_win_free(b->win);
}

static int run(struct bench *b, int csv)
{
	double steps[2], all[2], empty[2], unit = 0;
	long n;
	int i, at, err = 0;

	err = make(b);
	for (i = -1; i < NUM_CALLS && !err; i++) {
		steps[0] = steps[1] = 0;
		for (at = 0; at < 2 && !err; at++) {
			err = count(b, i < 0 ? nothing : calls[i].fn, at, &n);
			if (b->rank == at)
				steps[at] = (double)n;
		}
		if (!err)
			err = tutti_allreduce(steps, all, 2, TUTTI_FLOAT64, TUTTI_SUM, b->world);
		if (i < 0)
			memcpy(empty, all, sizeof(empty));
		all[0] -= empty[0];
		all[1] -= empty[1];
		if (!i)
			unit = all[0] > all[1] ? all[0] : all[1];
		if (i >= 0 && !err && !b->rank)
			print(&calls[i], all, unit, csv);
	}
	return err ? err : release(b);
}

int main(int argc, char **argv)
{
	int csv = argc > 1 && !strcmp(argv[1], "--csv"), err;
	struct bench b = {.in = {1, 2}};
	struct tutti_context *ctx;

	err = start_tracer(&b);
	if (err) {
		fprintf(stderr, "steps: single steps are refused here: %s\n", strerror(-err));
		return 77;
	}
	err = tutti_init(NULL, &ctx);
	if (err) {
		fprintf(stderr, "steps: %s\n", tutti_strerror(err));
		return 1;
	}
	b.world = tutti_world(ctx);
	b.rank = tutti_comm_rank(b.world);
	if (tutti_comm_size(b.world) != 2) {
		fprintf(stderr, "steps: needs 2 ranks\n");
		return 2;
	}
	if (!b.rank)
		printf(csv ? "call,rank 0,rank 1,of allreduce,bar\n" : "%-22s %8s %8s %8s\n",
		       "call", "rank 0", "rank 1", "ratio");
	err = run(&b, csv);
	if (err)
		fprintf(stderr, "steps: %s\n", tutti_strerror(err));
	tutti_finalize(ctx);
	return err ? 1 : 0;
}
