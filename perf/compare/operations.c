/* SPDX-License-Identifier: BSD-3-Clause */
/* The operations that the drivers measure: arguments, one unit of each, and the right result. */
#include "perf/compare/drive.h"

#include <string.h>

#define PERIOD 251		 /* of the input */
#define WINDOW_BYTES (256 << 20) /* of messages longer than 4 MiB */
#define ACK 4			 /* bytes, as OSU's */

/* The result of a rank, in terms of the inputs. */
enum kind {
	NOTHING,
	SUM,	  /* of all ranks */
	ROOT_SUM, /* the same, rank 0 only */
	SUM_PART, /* a block of it */
	PREFIX,	  /* the sum up to this rank */
	BEFORE,	  /* the sum of the ranks before; rank 0 has none */
	ROOTS,	  /* rank 0's input, elsewhere */
	BLOCKS,	  /* every rank's input */
	ROOT_BLOCKS,
	SLICES, /* this rank's block of every input */
	PART,	/* this rank's block of rank 0's input */
	OTHERS, /* the other rank's input */
	RECEIVED,
	WRITTEN, /* rank 0's input, in the window of rank 1 */
	ADDED,	 /* sums of integers there */
	COUNTED, /* a word there, from 0 */
};

/* Of the cell: units of this rank, and old values of the last one. */
static uint64_t units, last;

/* ---- a unit of each ---- */

static int collective(const struct drive_run *run)
{
	return run->peer->call(run->op->call, &run->args);
}

static int ping_pong(const struct drive_run *run)
{
	const struct peer *peer = run->peer;
	int first = peer->rank < run->other, err;

	err = first ? peer->send(run->in, run->bytes, run->other)
		    : peer->recv(run->out, run->bytes, run->other);
	if (err)
		return err;
	return first ? peer->recv(run->out, run->bytes, run->other)
		     : peer->send(run->in, run->bytes, run->other);
}

static int window(const struct drive_run *run, int sends, int receives)
{
	size_t step = run->touch ? run->bytes / sizeof(float) : 0;
	const struct peer *peer = run->peer;
	int i, err = 0;

	for (i = 0; receives && i < run->window && !err; i++)
		err = peer->irecv(run->out + (size_t)i * step, run->bytes, run->other);
	for (i = 0; sends && i < run->window && !err; i++)
		err = peer->isend(run->in + (size_t)i * step, run->bytes, run->other);
	return err ? err : peer->wait();
}

static int one_way(const struct drive_run *run)
{
	const struct peer *peer = run->peer;
	int sends = peer->rank < run->other, err = window(run, sends, !sends);
	char ack[ACK] = {0};

	if (err)
		return err;
	return sends ? peer->recv(ack, ACK, run->other) : peer->send(ack, ACK, run->other);
}

static int both_ways(const struct drive_run *run)
{
	return window(run, 1, 1);
}

static int puts_flushed(const struct drive_run *run)
{
	int i, err = 0;

	for (i = 0; i < run->window && !err; i++)
		err = run->peer->put(run->in, run->bytes);
	return err ? err : run->peer->flush();
}

static int gets_flushed(const struct drive_run *run)
{
	int i, err = 0;

	for (i = 0; i < run->window && !err; i++)
		err = run->peer->get(run->out, run->bytes);
	return err ? err : run->peer->flush();
}

static int accumulates_flushed(const struct drive_run *run)
{
	int err = run->peer->accumulate(run->in, run->bytes);

	units++;
	return err ? err : run->peer->flush();
}

static int get_accumulates_flushed(const struct drive_run *run)
{
	int err = run->peer->get_accumulate(run->in, run->out, run->bytes);

	units++;
	return err ? err : run->peer->flush();
}

static int fetch_adds(const struct drive_run *run)
{
	units++;
	return run->peer->fetch_add(1, &last);
}

static int compare_swaps(const struct drive_run *run)
{
	units++;
	return run->peer->compare_swap(units - 1, units, &last);
}

#define ONE_SIDED(n, u, k, ...)                                                                    \
	{                                                                                          \
		.name = n, .unit = u, .kind = k, .one_sided = 1, .way = 1, __VA_ARGS__             \
	}
#define COLL(n, c, k, ...)                                                                         \
	{                                                                                          \
		.name = n, .call = DRIVE_##c, .unit = collective, .kind = k, .collective = 1,      \
		__VA_ARGS__                                                                        \
	}

static const struct drive_op ops[] = {
	COLL("allreduce", ALLREDUCE, SUM, .way = 1),
	COLL("reduce", REDUCE, ROOT_SUM, .way = 1),
	COLL("reduce_scatter", REDUCE_SCATTER, SUM_PART, .in_blocks = 1, .total = 1),
	COLL("reduce_scatter_block", REDUCE_SCATTER_BLOCK, SUM_PART, .in_blocks = 1, .total = 1),
	COLL("scan", SCAN, PREFIX, .way = 1),
	COLL("exscan", EXSCAN, BEFORE, .way = 1),
	COLL("bcast", BCAST, ROOTS, .way = 1),
	COLL("allgather", ALLGATHER, BLOCKS, .out_blocks = 1),
	COLL("allgatherv", ALLGATHERV, BLOCKS, .out_blocks = 1),
	COLL("alltoall", ALLTOALL, SLICES, .in_blocks = 1, .out_blocks = 1),
	COLL("alltoallv", ALLTOALLV, SLICES, .in_blocks = 1, .out_blocks = 1),
	COLL("gather", GATHER, ROOT_BLOCKS, .out_blocks = 1),
	COLL("scatter", SCATTER, PART, .in_blocks = 1),
	COLL("barrier", BARRIER, NOTHING, .way = 1),
	{.name = "latency", .unit = ping_pong, .kind = OTHERS, .way = 2},
	{.name = "bw", .unit = one_way, .kind = RECEIVED, .windows = 1, .way = 1},
	{.name = "bibw", .unit = both_ways, .kind = OTHERS, .windows = 1, .way = 2},
	{.name = "mbw_mr", .unit = one_way, .kind = RECEIVED, .windows = 1, .way = 1},
	ONE_SIDED("put_latency", puts_flushed, WRITTEN, ),
	ONE_SIDED("put_bw", puts_flushed, WRITTEN, .windows = 1),
	ONE_SIDED("get_latency", gets_flushed, OTHERS, ),
	ONE_SIDED("get_bw", gets_flushed, OTHERS, .windows = 1),
	ONE_SIDED("acc_latency", accumulates_flushed, ADDED, .accumulates = 1, .any_ranks = 1),
	ONE_SIDED("get_acc_latency", get_accumulates_flushed, ADDED, .accumulates = 1,
		  .any_ranks = 1),
	ONE_SIDED("fop_latency", fetch_adds, COUNTED, .any_ranks = 1),
	ONE_SIDED("cas_latency", compare_swaps, COUNTED, ),
};

const struct drive_op *drive_op(const char *name, size_t length)
{
	size_t i;

	for (i = 0; i < sizeof(ops) / sizeof(ops[0]); i++)
		if (strlen(ops[i].name) == length && !strncmp(ops[i].name, name, length))
			return &ops[i];
	return NULL;
}

/* ---- arguments ---- */

/* As osu_reduce_scatter: the first ranks have one more where blocks cannot be equal. */
static void set_blocks(struct drive_run *run)
{
	size_t all = run->bytes / sizeof(float), at = 0, n;
	int ranks = run->peer->ranks, r;

	run->args.count = run->op->total ? all / (size_t)ranks : all;
	for (r = 0; r < ranks; r++) {
		n = run->args.count;
		n += run->op->call == DRIVE_REDUCE_SCATTER && (size_t)r < all % (size_t)ranks;
		run->counts[r] = n;
		run->displs[r] = at;
		run->icounts[r] = (int)n;
		run->idispls[r] = (int)at;
		at += n;
	}
	run->args.counts = run->counts;
	run->args.displs = run->displs;
	run->args.icounts = run->icounts;
	run->args.idispls = run->idispls;
	run->args.in = run->in;
	run->args.out = run->out;
}

static int prepare_collective(struct drive_run *run)
{
	set_blocks(run);
	if (run->op->call == DRIVE_REDUCE_SCATTER_BLOCK && !run->args.count)
		return 0;
	if (run->op->call == DRIVE_BCAST && !run->peer->rank)
		run->args.out = run->in;
	return run->peer->calls >> run->op->call & 1;
}

static int window_of(const struct drive_run *run)
{
	if (!run->op->windows)
		return 1;
	return run->bytes * DRIVE_WINDOW <= WINDOW_BYTES ? DRIVE_WINDOW
							 : (int)(WINDOW_BYTES / run->bytes);
}

int drive_counts(const struct drive_run *run)
{
	return run->op->kind == COUNTED;
}

int drive_shared(const struct drive_run *run)
{
	return run->op->any_ranks && run->peer->ranks > 2;
}

int drive_prepare(struct drive_run *run)
{
	int me = run->peer->rank, many = !strcmp(run->op->name, "mbw_mr");

	units = last = 0;
	if (run->op->collective)
		return prepare_collective(run);
	run->pairs = many ? run->peer->ranks / 2 : 1;
	run->other = me < run->pairs ? me + run->pairs : me - run->pairs;
	if (me >= 2 * run->pairs)
		run->other = -1;
	run->window = window_of(run);
	if (!many && run->peer->ranks != 2 && !drive_shared(run))
		return 0;
	return run->op->one_sided ? run->peer->expose != NULL : run->peer->send != NULL;
}

double drive_messages(const struct drive_run *run)
{
	if (run->op->collective)
		return 1;
	return (double)run->op->way * run->pairs * run->window;
}

static size_t extent(const struct drive_run *run, int blocks)
{
	size_t all = run->bytes / sizeof(float);

	if (run->touch && !run->op->one_sided)
		all *= (size_t)window_of(run);
	return blocks && !run->op->total ? all * (size_t)run->peer->ranks : all;
}

size_t drive_in(const struct drive_run *run)
{
	return extent(run, run->op->in_blocks);
}

size_t drive_out(const struct drive_run *run)
{
	return extent(run, run->op->out_blocks);
}

/* ---- results ---- */

/* All sums of up to 64 of them are exact. */
float drive_input(int rank, size_t i)
{
	return (float)((size_t)(rank + 1) * (i % PERIOD + 1));
}

static float sum(int ranks, size_t i)
{
	return (float)((size_t)(ranks * (ranks + 1) / 2) * (i % PERIOD + 1));
}

/* Where this rank's part begins in an input of blocks. */
static size_t own_part(const struct drive_run *run)
{
	return run->displs[run->peer->rank];
}

static float right(const struct drive_run *run, size_t i)
{
	int me = run->peer->rank, ranks = run->peer->ranks;
	size_t n = run->args.count;

	switch ((enum kind)run->op->kind) {
	case SUM:
	case ROOT_SUM:
		return sum(ranks, i);
	case SUM_PART:
		return sum(ranks, own_part(run) + i);
	case PREFIX:
		return sum(me + 1, i);
	case BEFORE:
		return sum(me, i);
	case BLOCKS:
	case ROOT_BLOCKS:
		return drive_input((int)(i / n), i % n);
	case SLICES:
		return drive_input((int)(i / n), own_part(run) + i % n);
	case PART:
		return drive_input(0, own_part(run) + i);
	case OTHERS:
	case RECEIVED:
		return drive_input(run->other, i);
	default:
		return drive_input(0, i);
	}
}

/* Elements of this rank's result. */
static size_t results(const struct drive_run *run)
{
	int me = run->peer->rank;

	switch ((enum kind)run->op->kind) {
	case NOTHING:
		return 0;
	case ROOT_SUM:
	case ROOT_BLOCKS:
		return me ? 0 : drive_out(run);
	case BEFORE:
	case ROOTS:
		return me ? drive_out(run) : 0;
	case SUM_PART:
		return run->counts[me];
	case RECEIVED:
		return run->other >= 0 && run->other < me ? drive_out(run) : 0;
	case OTHERS:
		return run->op->one_sided && me ? 0 : drive_out(run);
	case WRITTEN:
		return me == 1 ? drive_out(run) : 0;
	default:
		return drive_out(run);
	}
}

static uint32_t bits(float value)
{
	uint32_t n;

	memcpy(&n, &value, sizeof(n));
	return n;
}

/* units of each rank. In the window of rank 1: its own input, and each unit's. */
static double sums_wrong(const struct drive_run *run, const double *done)
{
	const uint32_t *there = run->exposed, *old = (const uint32_t *)run->out;
	int gets = run->op->unit == get_accumulates_flushed, me = run->peer->rank, r;
	size_t n = run->bytes / sizeof(float), i;
	double wrong = 0;
	uint32_t sum;

	for (i = 0; i < n; i++) {
		sum = bits(drive_input(1, i));
		for (r = 0; r < run->peer->ranks; r++)
			sum += (uint32_t)done[r] * bits(drive_input(r, i));
		wrong += me == 1 && there[i] != sum;
		if (gets && !me && !drive_shared(run))
			wrong += old[i] != sum - bits(drive_input(0, i));
	}
	return wrong;
}

static double count_wrong(const struct drive_run *run, const double *done)
{
	double all = 0;
	int r;

	for (r = 0; r < run->peer->ranks; r++)
		all += done[r];
	if (run->peer->rank == 1)
		return *(const uint64_t *)run->exposed != (uint64_t)all;
	return run->peer->rank == 0 && !drive_shared(run) && last != (uint64_t)all - 1;
}

double drive_wrong(const struct drive_run *run)
{
	const float *got = run->op->kind == WRITTEN ? run->exposed : run->out;
	double wrong = 0, done[DRIVE_RANKS] = {0};
	size_t n, i;

	if (run->op->kind == ADDED || run->op->kind == COUNTED) {
		done[run->peer->rank] = (double)units;
		if (run->peer->max(done, (size_t)run->peer->ranks))
			return 1;
		return run->op->kind == ADDED ? sums_wrong(run, done) : count_wrong(run, done);
	}
	n = results(run);
	for (i = 0; i < n; i++)
		wrong += got[i] != right(run, i);
	return wrong;
}
