/* SPDX-License-Identifier: BSD-3-Clause */
/* The commands of tutti_perf, by group: what they measure, their defaults, their options. */
#include <string.h>

#include "perf/options.h"

/* Options common to collectives on data. */
#define COLLECTIVE .run = perf_run_coll, .bytes = 32 << 20, .iters = 20, .warmup = 5, .min_ranks = 1
/* Their uses, besides operator, root and codec. */
#define DATA                                                                                       \
	(PERF_USE_SIZE | PERF_USE_CHECK | PERF_USE_TYPE | PERF_USE_AVERAGE | PERF_USE_FILL |       \
	 PERF_USE_MALLOC)
#define BYTES (PERF_USE_SIZE | PERF_USE_CHECK | PERF_USE_MALLOC) /* of commands that move bytes */
#define MATRIX (PERF_USE_MATRIX | PERF_USE_CHECK | PERF_USE_MALLOC)

/* clang-format off */
#define COMMAND(word, of, what) .name = word, .group = of, .help = what
/* Common to several commands. */
#define AVERAGES(fn) .run = fn, .bytes = 1 << 20, .iters = 20, .warmup = 5, .min_ranks = 2
#define LATENCY(fn) .run = fn, .bytes = 8, .iters = 1000, .warmup = 100, .min_ranks = 2
#define RATE(fn) .run = fn, .bytes = 64 << 10, .iters = 1000, .warmup = 100, .min_ranks = 2
#define MATRICES(fn) .run = fn, .iters = 10, .warmup = 2, .min_ranks = 1
#define LOOPS(fn) \
	.run = fn, .bytes = 16 << 10, .most = 64 << 20, .factor = 4096, .iters = 20, .warmup = 2, \
	.min_ranks = 1
#define NEIGHBORS \
	.run = perf_run_coll, .bytes = 32 << 20, .iters = 20, .warmup = 5, .min_ranks = 2, \
	.uses = DATA | PERF_USE_GRAPH
#define MESSAGES(fn) \
	.run = fn, .bytes = 64 << 10, .iters = 100, .warmup = 10, .min_ranks = 2, .depth = 64, \
	.uses = BYTES | PERF_USE_DEPTH
/* clang-format on */

const char *const perf_group_names[PERF_GROUPS] = {
	[PERF_COLLECTIVES] = "Collectives",
	[PERF_COUNTS] = "Collectives with a count for each rank",
	[PERF_NEIGHBORS] = "Collectives of neighbours in a graph",
	[PERF_GOSSIP] = "Decentralized averages and partial all-reduces",
	[PERF_WAITING] = "Nonblocking calls, waiting and threads",
	[PERF_POINT] = "Point-to-point messages",
	[PERF_ONE_SIDED] = "One-sided operations",
	[PERF_SERVER] = "Parameter server",
	[PERF_SMALLER] = "Compression of vectors and matrices",
	[PERF_LOCAL] = "Work of one rank, without communication",
};

const struct perf_command perf_commands[] = {
	{COMMAND("allreduce", PERF_COLLECTIVES, "all-reduce: out of place and in place"),
	 COLLECTIVE, .uses = DATA | PERF_USE_OP | PERF_USE_CODEC},
	{COMMAND("reduce", PERF_COLLECTIVES, "reduction to one rank"), COLLECTIVE,
	 .uses = DATA | PERF_USE_OP | PERF_USE_ROOT},
	{COMMAND("reduce_scatter", PERF_COLLECTIVES,
		 "reduction, a block of the result to each rank"),
	 COLLECTIVE, .uses = DATA | PERF_USE_OP},
	{COMMAND("bcast", PERF_COLLECTIVES, "broadcast"), COLLECTIVE, .uses = DATA | PERF_USE_ROOT},
	{COMMAND("allgather", PERF_COLLECTIVES, "blocks of all ranks to all ranks"), COLLECTIVE,
	 .uses = DATA},
	{COMMAND("gather", PERF_COLLECTIVES, "blocks of all ranks to one rank"), COLLECTIVE,
	 .uses = DATA | PERF_USE_ROOT},
	{COMMAND("scatter", PERF_COLLECTIVES, "blocks of one rank to all ranks"), COLLECTIVE,
	 .uses = DATA | PERF_USE_ROOT},
	{COMMAND("alltoall", PERF_COLLECTIVES, "a block from every rank to every rank"), COLLECTIVE,
	 .uses = DATA},
	{COMMAND("scan", PERF_COLLECTIVES, "combination of the ranks up to the own"), COLLECTIVE,
	 .uses = DATA | PERF_USE_OP},
	{COMMAND("exscan", PERF_COLLECTIVES, "combination of the ranks before the own"), COLLECTIVE,
	 .uses = DATA | PERF_USE_OP},
	{COMMAND("barrier", PERF_COLLECTIVES, "barrier"), .run = perf_run_coll, .iters = 1000,
	 .warmup = 100, .min_ranks = 1, .uses = PERF_USE_AVERAGE},
	{COMMAND("reduce_scatterv", PERF_COUNTS,
		 "reduce_scatter by the call with a count for each rank"),
	 COLLECTIVE, .uses = DATA | PERF_USE_OP},
	{COMMAND("allgatherv", PERF_COUNTS, "allgather, likewise"), COLLECTIVE, .uses = DATA},
	{COMMAND("gatherv", PERF_COUNTS, "gather, likewise"), COLLECTIVE,
	 .uses = DATA | PERF_USE_ROOT},
	{COMMAND("scatterv", PERF_COUNTS, "scatter, likewise"), COLLECTIVE,
	 .uses = DATA | PERF_USE_ROOT},
	{COMMAND("alltoallv", PERF_COUNTS, "alltoall, likewise"), COLLECTIVE, .uses = DATA},
	{COMMAND("neighbor_allreduce", PERF_NEIGHBORS, "weighted average with the neighbours"),
	 NEIGHBORS},
	{COMMAND("neighbor_allgather", PERF_NEIGHBORS, "a block to all neighbours"), NEIGHBORS},
	{COMMAND("neighbor_alltoall", PERF_NEIGHBORS, "a block to each neighbour"), NEIGHBORS},
	{COMMAND("gossip", PERF_GOSSIP,
		 "vectors into the mailboxes of neighbours, and their average"),
	 AVERAGES(perf_run_gossip), .uses = BYTES | PERF_USE_TYPE | PERF_USE_GRAPH},
	{COMMAND("pair", PERF_GOSSIP, "atomic averages of two ranks"), AVERAGES(perf_run_pair),
	 .uses = PERF_USE_SIZE | PERF_USE_CHECK | PERF_USE_TYPE | PERF_USE_PARTNER},
	{COMMAND("partial", PERF_GOSSIP,
		 "partial all-reduce: by quorum, by cutoff, with a late rank"),
	 .run = perf_run_partial, .bytes = 64 << 10, .iters = 100, .warmup = 10, .min_ranks = 2,
	 .uses = BYTES | PERF_USE_TYPE | PERF_USE_PARTIAL},
	{COMMAND("elastic", PERF_GOSSIP, "elastic averages of all ranks, beside the all-reduce"),
	 AVERAGES(perf_run_elastic), .uses = BYTES | PERF_USE_TYPE | PERF_USE_ALPHA},
	{COMMAND("overlap", PERF_WAITING,
		 "how much of nonblocking collectives hides behind computing"),
	 .run = perf_run_overlap, .colls = 1 << PERF_ALLREDUCE, .bytes = 16 << 20, .iters = 10,
	 .warmup = 2, .min_ranks = 2, .uses = BYTES | PERF_USE_COLL},
	{COMMAND("forms", PERF_WAITING,
		 "blocking collectives beside their nonblocking form and a wait"),
	 .run = perf_run_forms, .colls = PERF_WITH_START, .bytes = 1 << 20, .iters = 21,
	 .warmup = 2, .min_ranks = 1, .uses = BYTES | PERF_USE_COLL},
	{COMMAND("wakeup", PERF_WAITING, "what it costs to wake ranks that sleep"),
	 .run = perf_run_wakeup, .iters = 200, .warmup = 10, .min_ranks = 2,
	 .uses = PERF_USE_MALLOC},
	{COMMAND("threads", PERF_WAITING, "calls of 1, 2 and 4 threads at once"),
	 .run = perf_run_threads, .iters = 1000, .warmup = 100, .min_ranks = 1},
	{COMMAND("send_lat", PERF_POINT, "ping-pong of messages, half the round trip"),
	 LATENCY(perf_run_send_lat), .uses = BYTES},
	{COMMAND("send", PERF_POINT, "rate of messages from rank 0 to rank 1"),
	 MESSAGES(perf_run_send)},
	{COMMAND("send_bi", PERF_POINT,
		 "rate of messages between ranks 0 and 1, both ways at once"),
	 MESSAGES(perf_run_send_bi)},
	{COMMAND("send_pairs", PERF_POINT,
		 "rate of messages from the first half of the ranks to the second"),
	 MESSAGES(perf_run_send_pairs)},
	{COMMAND("sendrecv", PERF_POINT, "messages to the next rank and from the one before"),
	 COLLECTIVE, .uses = DATA},
	{COMMAND("hypercube", PERF_POINT, "all-gather by pairs of ranks that swap what they have"),
	 COLLECTIVE, .uses = DATA},
	{COMMAND("put_lat", PERF_ONE_SIDED,
		 "ping-pong of writes with notification, half the round trip"),
	 LATENCY(perf_run_latency), .uses = BYTES},
	{COMMAND("put_flush", PERF_ONE_SIDED,
		 "latency of a write by rank 0 to rank 1 and its flush"),
	 LATENCY(perf_run_put_flush), .uses = BYTES},
	{COMMAND("put", PERF_ONE_SIDED, "rate of writes from rank 0 to rank 1"), RATE(perf_run_put),
	 .uses = BYTES | PERF_USE_DEPTH},
	{COMMAND("get_lat", PERF_ONE_SIDED, "latency of a read by rank 0 from rank 1"),
	 LATENCY(perf_run_get_lat), .uses = BYTES},
	{COMMAND("get", PERF_ONE_SIDED, "rate of reads by rank 0 from rank 1"), RATE(perf_run_get),
	 .uses = BYTES | PERF_USE_DEPTH},
	{COMMAND("amo_lat", PERF_ONE_SIDED, "latency of atomics by rank 0 on a word of rank 1"),
	 LATENCY(perf_run_atomic), .uses = PERF_USE_CHECK | PERF_USE_ATOMIC | PERF_USE_MALLOC},
	{COMMAND("acc_lat", PERF_ONE_SIDED,
		 "latency of an accumulate by rank 0 into rank 1 and its flush"),
	 LATENCY(perf_run_acc_lat), .uses = BYTES | PERF_USE_TYPE | PERF_USE_OP},
	{COMMAND("get_acc_lat", PERF_ONE_SIDED, "the same of one that also gets the old elements"),
	 LATENCY(perf_run_get_acc_lat), .uses = BYTES | PERF_USE_TYPE | PERF_USE_OP},
	{COMMAND("ps", PERF_SERVER,
		 "parameter server: pull, push and push_pull by all workers at once"),
	 .run = perf_run_ps, .bytes = 1 << 20, .iters = 200, .warmup = 20, .min_ranks = 2,
	 .uses = BYTES | PERF_USE_SERVERS | PERF_USE_CODEC},
	{COMMAND("rules", PERF_SERVER, "update rules of a parameter server, beside a copy"),
	 LOOPS(perf_run_rules), .uses = BYTES | PERF_USE_TYPE | PERF_USE_LEVEL},
	{COMMAND("codec", PERF_SMALLER, "codecs of one rank, beside a copy of the vector"),
	 LOOPS(perf_run_codec), .uses = BYTES | PERF_USE_CODEC},
	{COMMAND("allreduce_factors", PERF_SMALLER,
		 "matrices that travel as outer products, beside the all-reduce"),
	 MATRICES(perf_run_factors), .uses = MATRIX | PERF_USE_PRODUCTS},
	{COMMAND("power_sgd", PERF_SMALLER,
		 "matrices that travel as approximations, beside the all-reduce"),
	 MATRICES(perf_run_power_sgd), .uses = MATRIX | PERF_USE_RANK},
	{COMMAND("kernel", PERF_LOCAL,
		 "reduction kernels of one rank, beside a copy of the same traffic"),
	 LOOPS(perf_run_kernel),
	 .uses = BYTES | PERF_USE_TYPE | PERF_USE_OP | PERF_USE_SOURCES | PERF_USE_LEVEL},
	{COMMAND("checksum", PERF_LOCAL,
		 "what TUTTI_CHECKSUM costs each end of a message, beside a copy"),
	 .run = perf_run_checksum, .bytes = 64, .most = 16 << 20, .factor = 16, .iters = 20,
	 .warmup = 2, .min_ranks = 1, .uses = PERF_USE_SIZE | PERF_USE_MALLOC},
	{.name = NULL},
};

int perf_command_find(const char *word, const struct perf_command **cmd)
{
	const char *names[64];
	int i;

	for (i = 0; perf_commands[i].name; i++) {
		if (!strcmp(word, perf_commands[i].name)) {
			*cmd = &perf_commands[i];
			return 0;
		}
		names[i] = perf_commands[i].name;
	}
	names[i] = NULL;
	return perf_unknown("command", word, names);
}
