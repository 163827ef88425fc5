/* SPDX-License-Identifier: BSD-3-Clause */
/* The command line: a subcommand, then the options of nccl-tests and a few of our own. */
#include "perf/coll.h"

#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	OPT_STAT = 256,
	OPT_MALLOC,
	OPT_JSON,
	OPT_CSV,
	OPT_SOURCES,
	OPT_LEVEL,
	OPT_STORES,
	OPT_CODEC,
	OPT_FILL,
	OPT_ROTATE,
	OPT_ROWS,
	OPT_COLS,
	OPT_PRODUCTS,
	OPT_RANK,
	OPT_COLL,
	OPT_COLOCATED,
	OPT_WEIGHTS,
	OPT_TABLES,
	OPT_CALL,
	OPT_SOFTSYNC
};

static const char short_options[] = ":b:e:i:f:n:w:c:d:o:r:a:A:q:S:T:hV";
static const struct option long_options[] = {
	{"minbytes", required_argument, NULL, 'b'},
	{"maxbytes", required_argument, NULL, 'e'},
	{"stepbytes", required_argument, NULL, 'i'},
	{"stepfactor", required_argument, NULL, 'f'},
	{"iters", required_argument, NULL, 'n'},
	{"warmup_iters", required_argument, NULL, 'w'},
	{"check", required_argument, NULL, 'c'},
	{"datatype", required_argument, NULL, 'd'},
	{"op", required_argument, NULL, 'o'},
	{"root", required_argument, NULL, 'r'},
	{"average", required_argument, NULL, 'a'},
	{"tx-depth", required_argument, NULL, 'q'},
	{"atomic", required_argument, NULL, 'A'},
	{"transport", required_argument, NULL, 'T'},
	{"servers", required_argument, NULL, 'S'},
	{"colocated", required_argument, NULL, OPT_COLOCATED},
	{"weights", required_argument, NULL, OPT_WEIGHTS},
	{"tables", required_argument, NULL, OPT_TABLES},
	{"call", required_argument, NULL, OPT_CALL},
	{"softsync", no_argument, NULL, OPT_SOFTSYNC},
	{"sources", required_argument, NULL, OPT_SOURCES},
	{"level", required_argument, NULL, OPT_LEVEL},
	{"stores", required_argument, NULL, OPT_STORES},
	{"codec", required_argument, NULL, OPT_CODEC},
	{"fill", required_argument, NULL, OPT_FILL},
	{"rotate", required_argument, NULL, OPT_ROTATE},
	{"rows", required_argument, NULL, OPT_ROWS},
	{"cols", required_argument, NULL, OPT_COLS},
	{"products", required_argument, NULL, OPT_PRODUCTS},
	{"rank", required_argument, NULL, OPT_RANK},
	{"coll", required_argument, NULL, OPT_COLL},
	{"stat", no_argument, NULL, OPT_STAT},
	{"malloc", no_argument, NULL, OPT_MALLOC},
	{"json", required_argument, NULL, OPT_JSON},
	{"csv", required_argument, NULL, OPT_CSV},
	{"help", no_argument, NULL, 'h'},
	{"version", no_argument, NULL, 'V'},
	{NULL, 0, NULL, 0},
};

static const char usage[] = "usage: tutti_run -n RANKS tutti_perf COMMAND [OPTION]...\n"
			    "Measure and check the operations of tutti. Commands:\n";

static const char help[] =
	"\n"
	"Sizes (bytes; K, M and G are powers of 1024):\n"
	"  -b, --minbytes SIZE      smallest (default 32M; overlap 16M; forms 1M; put,\n"
	"                           get and sends 64K; latencies 8; ps 1M; kernel, rules,\n"
	"                           codec 16K; checksum 64)\n"
	"  -e, --maxbytes SIZE      largest (the same default; kernel, rules, codec\n"
	"                           64M; checksum 16M)\n"
	"  -i, --stepbytes SIZE     fixed step between sizes (default 1M)\n"
	"  -f, --stepfactor FACTOR  multiply instead of adding\n"
	"Work:\n"
	"  -n, --iters N            timed iterations (default 20; barrier, threads, put, get\n"
	"                           and latencies 1000; ps and wakeup 200; sends 100; forms 21;\n"
	"                           overlap 10)\n"
	"  -w, --warmup_iters N     untimed iterations before (default 5; those of 1000: 100;\n"
	"                           ps 20, wakeup 10, overlap, forms, kernel, rules, codec,\n"
	"                           checksum 2)\n"
	"  -c, --check N            rounds of checking every element, 0: none (default 1)\n"
	"  -d, --datatype TYPE      int8 uint8 int16 uint16 int32 uint32 int64 uint64 bool\n"
	"                           half bfloat16 float double complex64 complex128\n"
	"                           int32_index int64_index float32_index float64_index\n"
	"                           or all (default float)\n"
	"  -o, --op OP              sum prod min max avg band bor bxor land lor\n"
	"                           lxor minloc maxloc or all (default sum)\n"
	"  -r, --root RANK          root of bcast, reduce, gather and scatter, or all\n"
	"                           (default 0)\n"
	"  -a, --average HOW        over ranks: 0 rank 0, 1 average, 2 min, 3 max (default 1)\n"
	"  -A, --atomic WHICH       fetch_add, compare_swap or all (default fetch_add)\n"
	"  -q, --tx-depth N         puts, gets or messages under way at once (default 128;\n"
	"                           sends 64)\n"
	"  -S, --servers N          ps: ranks that only serve (default 1)\n"
	"      --colocated N        ps: workers that serve as well (default 0)\n"
	"      --weights S:C        ps: how much a server keeps beside a co-located one (default\n"
	"                           1:1)\n"
	"      --tables N           ps: the bytes are in so many tables (default 1)\n"
	"      --softsync           ps: the mean of all workers' updates is applied, not each\n"
	"      --call WHICH         ps: get, pull, put, push, push_pull or all (default)\n"
	"      --sources N          kernel: so many, 1 to 16, or all: 2, 3, 4 and 8 (default)\n"
	"      --level WHICH        kernel, rules: scalar, base, avx2, avx512, best (default) or "
	"all\n"
	"      --codec NAME         codec, allreduce, ps: as tutti_codec_create takes it\n"
	"                           (default: several; allreduce, ps: none)\n"
	"      --fill WHAT          collectives: what is timed is zero (default) or random "
	"(default\n"
	"                           with --codec; float only)\n"
	"      --stores HOW         kernel: plain, stream, or auto, by the size (default)\n"
	"  -T, --transport LIST     sets TUTTI_TRANSPORT, e.g. shm or ofi\n"
	"      --stat               median, minimum, 99th percentile and bytes of iterations\n"
	"                           begun with a barrier and counted at the slowest rank\n"
	"      --malloc             plain buffers instead of tutti_alloc\n"
	"      --rotate N           collectives: use N pairs of buffers in turn (default 1)\n"
	"      --rows N, --cols N   allreduce_factors, power_sgd: the matrix (default 1024)\n"
	"      --products K         allreduce_factors: outer products of each rank (default 32)\n"
	"      --rank R             power_sgd: rank of the approximation (default 4)\n"
	"      --coll LIST          overlap, forms: names with commas, or all (default allreduce;\n"
	"                           forms all)\n"
	"Output:\n"
	"      --json FILE, --csv FILE  write the results there too\n"
	"  -h, --help               show this\n"
	"  -V, --version            show the version\n";

/* Options common to collectives on data. */
#define COLLECTIVE .run = perf_run_coll, .bytes = 32 << 20, .iters = 20, .warmup = 5, .min_ranks = 1
/* Their uses, besides operator, root and codec. */
#define DATA                                                                                       \
	(PERF_USE_SIZE | PERF_USE_CHECK | PERF_USE_TYPE | PERF_USE_AVERAGE | PERF_USE_FILL |       \
	 PERF_USE_MALLOC)
#define BYTES (PERF_USE_SIZE | PERF_USE_CHECK | PERF_USE_MALLOC) /* of commands that move bytes */
#define MATRIX (PERF_USE_MATRIX | PERF_USE_CHECK | PERF_USE_MALLOC)

/* clang-format off */
#define MESSAGES(fn) \
	.run = fn, .bytes = 64 << 10, .iters = 100, .warmup = 10, .min_ranks = 2, .depth = 64, \
	.uses = BYTES | PERF_USE_DEPTH
/* clang-format on */

/* Those with a nonblocking form. */
#define WITH_START ((1u << PERF_COLLS) - 1 - (1u << PERF_SENDRECV) - (1u << PERF_HYPERCUBE))

const struct perf_command perf_commands[] = {
	{.name = "allreduce",
	 .help = "all-reduce: out of place and in place",
	 COLLECTIVE,
	 .uses = DATA | PERF_USE_OP | PERF_USE_CODEC},
	{.name = "reduce",
	 .help = "reduction to one rank",
	 COLLECTIVE,
	 .uses = DATA | PERF_USE_OP | PERF_USE_ROOT},
	{.name = "reduce_scatter",
	 .help = "reduction, a block of the result to each rank",
	 COLLECTIVE,
	 .uses = DATA | PERF_USE_OP},
	{.name = "bcast", .help = "broadcast", COLLECTIVE, .uses = DATA | PERF_USE_ROOT},
	{.name = "allgather", .help = "blocks of all ranks to all ranks", COLLECTIVE, .uses = DATA},
	{.name = "gather",
	 .help = "blocks of all ranks to one rank",
	 COLLECTIVE,
	 .uses = DATA | PERF_USE_ROOT},
	{.name = "scatter",
	 .help = "blocks of one rank to all ranks",
	 COLLECTIVE,
	 .uses = DATA | PERF_USE_ROOT},
	{.name = "alltoall",
	 .help = "a block from every rank to every rank",
	 COLLECTIVE,
	 .uses = DATA},
	{.name = "scan",
	 .help = "combination of the ranks up to the own",
	 COLLECTIVE,
	 .uses = DATA | PERF_USE_OP},
	{.name = "exscan",
	 .help = "combination of the ranks before the own",
	 COLLECTIVE,
	 .uses = DATA | PERF_USE_OP},
	{.name = "reduce_scatterv",
	 .help = "reduce_scatter by the call with a count for each rank",
	 COLLECTIVE,
	 .uses = DATA | PERF_USE_OP},
	{.name = "allgatherv", .help = "allgather, likewise", COLLECTIVE, .uses = DATA},
	{.name = "gatherv", .help = "gather, likewise", COLLECTIVE, .uses = DATA | PERF_USE_ROOT},
	{.name = "scatterv", .help = "scatter, likewise", COLLECTIVE, .uses = DATA | PERF_USE_ROOT},
	{.name = "alltoallv", .help = "alltoall, likewise", COLLECTIVE, .uses = DATA},
	{.name = "sendrecv",
	 .help = "messages to the next rank and from the one before",
	 COLLECTIVE,
	 .uses = DATA},
	{.name = "hypercube",
	 .help = "all-gather by pairs of ranks that swap what they have",
	 COLLECTIVE,
	 .uses = DATA},
	{.name = "barrier",
	 .help = "barrier",
	 .run = perf_run_coll,
	 .iters = 1000,
	 .warmup = 100,
	 .min_ranks = 1,
	 .uses = PERF_USE_AVERAGE},
	{.name = "overlap",
	 .help = "how much of nonblocking collectives hides behind computing",
	 .run = perf_run_overlap,
	 .colls = 1 << PERF_ALLREDUCE,
	 .bytes = 16 << 20,
	 .iters = 10,
	 .warmup = 2,
	 .min_ranks = 2,
	 .uses = BYTES | PERF_USE_COLL},
	{.name = "forms",
	 .help = "blocking collectives beside their nonblocking form and a wait",
	 .run = perf_run_forms,
	 .colls = WITH_START,
	 .bytes = 1 << 20,
	 .iters = 21,
	 .warmup = 2,
	 .min_ranks = 1,
	 .uses = BYTES | PERF_USE_COLL},
	{.name = "wakeup",
	 .help = "what it costs to wake ranks that sleep",
	 .run = perf_run_wakeup,
	 .iters = 200,
	 .warmup = 10,
	 .min_ranks = 2,
	 .uses = PERF_USE_MALLOC},
	{.name = "threads",
	 .help = "calls of 1, 2 and 4 threads at once",
	 .run = perf_run_threads,
	 .iters = 1000,
	 .warmup = 100,
	 .min_ranks = 1},
	{.name = "put",
	 .help = "rate of writes from rank 0 to rank 1",
	 .run = perf_run_put,
	 .bytes = 64 << 10,
	 .iters = 1000,
	 .warmup = 100,
	 .min_ranks = 2,
	 .uses = BYTES | PERF_USE_DEPTH},
	{.name = "get",
	 .help = "rate of reads by rank 0 from rank 1",
	 .run = perf_run_get,
	 .bytes = 64 << 10,
	 .iters = 1000,
	 .warmup = 100,
	 .min_ranks = 2,
	 .uses = BYTES | PERF_USE_DEPTH},
	{.name = "put_lat",
	 .help = "ping-pong of writes with notification, half the round trip",
	 .run = perf_run_latency,
	 .bytes = 8,
	 .iters = 1000,
	 .warmup = 100,
	 .min_ranks = 2,
	 .uses = BYTES},
	{.name = "put_flush",
	 .help = "latency of a write by rank 0 to rank 1 and its flush",
	 .run = perf_run_put_flush,
	 .bytes = 8,
	 .iters = 1000,
	 .warmup = 100,
	 .min_ranks = 2,
	 .uses = BYTES},
	{.name = "get_lat",
	 .help = "latency of a read by rank 0 from rank 1",
	 .run = perf_run_get_lat,
	 .bytes = 8,
	 .iters = 1000,
	 .warmup = 100,
	 .min_ranks = 2,
	 .uses = BYTES},
	{.name = "send_lat",
	 .help = "ping-pong of messages, half the round trip",
	 .run = perf_run_send_lat,
	 .bytes = 8,
	 .iters = 1000,
	 .warmup = 100,
	 .min_ranks = 2,
	 .uses = BYTES},
	{.name = "send", .help = "rate of messages from rank 0 to rank 1", MESSAGES(perf_run_send)},
	{.name = "send_bi",
	 .help = "rate of messages between ranks 0 and 1, both ways at once",
	 MESSAGES(perf_run_send_bi)},
	{.name = "send_pairs",
	 .help = "rate of messages from the first half of the ranks to the second",
	 MESSAGES(perf_run_send_pairs)},
	{.name = "amo_lat",
	 .help = "latency of atomics by rank 0 on a word of rank 1",
	 .run = perf_run_atomic,
	 .bytes = 8,
	 .iters = 1000,
	 .warmup = 100,
	 .min_ranks = 2,
	 .uses = PERF_USE_CHECK | PERF_USE_ATOMIC | PERF_USE_MALLOC},
	{.name = "ps",
	 .help = "parameter server: pull, push and push_pull by all workers at once",
	 .run = perf_run_ps,
	 .bytes = 1 << 20,
	 .iters = 200,
	 .warmup = 20,
	 .min_ranks = 2,
	 .uses = BYTES | PERF_USE_SERVERS | PERF_USE_CODEC},
	{.name = "kernel",
	 .help = "reduction kernels of one rank, beside a copy of the same traffic",
	 .run = perf_run_kernel,
	 .bytes = 16 << 10,
	 .most = 64 << 20,
	 .factor = 4096,
	 .iters = 20,
	 .warmup = 2,
	 .min_ranks = 1,
	 .uses = BYTES | PERF_USE_TYPE | PERF_USE_OP | PERF_USE_SOURCES | PERF_USE_LEVEL},
	{.name = "checksum",
	 .help = "what TUTTI_CHECKSUM costs each end of a message, beside a copy",
	 .run = perf_run_checksum,
	 .bytes = 64,
	 .most = 16 << 20,
	 .factor = 16,
	 .iters = 20,
	 .warmup = 2,
	 .min_ranks = 1,
	 .uses = PERF_USE_SIZE | PERF_USE_MALLOC},
	{.name = "codec",
	 .help = "codecs of one rank, beside a copy of the vector",
	 .run = perf_run_codec,
	 .bytes = 16 << 10,
	 .most = 64 << 20,
	 .factor = 4096,
	 .iters = 20,
	 .warmup = 2,
	 .min_ranks = 1,
	 .uses = BYTES | PERF_USE_CODEC},
	{.name = "allreduce_factors",
	 .help = "matrices that travel as outer products, beside the all-reduce",
	 .run = perf_run_factors,
	 .iters = 10,
	 .warmup = 2,
	 .min_ranks = 1,
	 .uses = MATRIX | PERF_USE_PRODUCTS},
	{.name = "power_sgd",
	 .help = "matrices that travel as approximations, beside the all-reduce",
	 .run = perf_run_power_sgd,
	 .iters = 10,
	 .warmup = 2,
	 .min_ranks = 1,
	 .uses = MATRIX | PERF_USE_RANK},
	{.name = "rules",
	 .help = "update rules of a parameter server, beside a copy",
	 .run = perf_run_rules,
	 .bytes = 16 << 10,
	 .most = 64 << 20,
	 .factor = 4096,
	 .iters = 20,
	 .warmup = 2,
	 .min_ranks = 1,
	 .uses = BYTES | PERF_USE_TYPE | PERF_USE_LEVEL},
	{.name = NULL},
};

bool perf_is_rank0(void)
{
	static const char *const variables[] = {"TUTTI_RANK", "RANK", "PMIX_RANK", "PMI_RANK"};
	const char *rank;
	unsigned int i;

	for (i = 0; i < sizeof(variables) / sizeof(variables[0]); i++) {
		rank = getenv(variables[i]);
		if (rank)
			return !strcmp(rank, "0");
	}
	return true;
}

/* Every rank reads the same command line; one of them complains. */
static int bad(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
static int bad(const char *fmt, ...)
{
	va_list ap;

	if (!perf_is_rank0())
		return -EINVAL;
	fputs("tutti_perf: ", stderr);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputs("\nTry 'tutti_perf --help'.\n", stderr);
	return -EINVAL;
}

static int unknown(const char *what, const char *word, const char *const *names)
{
	const char *nearest = perf_nearest(word, names);

	if (nearest)
		return bad("unknown %s '%s'; did you mean '%s'?", what, word, nearest);
	return bad("unknown %s '%s'", what, word);
}

static int unknown_option(const char *word)
{
	const char *names[sizeof(long_options) / sizeof(long_options[0])], *nearest;
	char name[64];
	int i;

	snprintf(name, sizeof(name), "%.*s", (int)strcspn(word + 2, "="), word + 2);
	for (i = 0; long_options[i].name; i++)
		names[i] = long_options[i].name;
	names[i] = NULL;
	nearest = perf_nearest(name, names);
	if (nearest)
		return bad("unknown option '--%s'; did you mean '--%s'?", name, nearest);
	return bad("unknown option '--%s'", name);
}

static int find_command(const char *word, const struct perf_command **cmd)
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
	return unknown("command", word, names);
}

/* A side of a matrix, or a number of products: small enough for sizes in bytes to be exact. */
#define MOST_SIDE (1 << 24)

static int take_size(const char *option, const char *text, size_t *size)
{
	if (perf_parse_size(text, size))
		return bad("%s '%s' is not a size like 512, 64K, 32M or 1G", option, text);
	return 0;
}

/* From least to most; at most INT_MAX. */
static int take_range(const char *option, const char *text, int least, int most, int *number)
{
	char *end;
	long value;

	errno = 0;
	value = strtol(text, &end, 10);
	if (errno || end == text || *end || value < least || value > INT_MAX)
		return bad("%s '%s' is not a number from %d up", option, text, least);
	if (value > most)
		return bad("%s '%s' is more than %d", option, text, most);
	*number = (int)value;
	return 0;
}

static int take_int(const char *option, const char *text, int least, int *number)
{
	return take_range(option, text, least, INT_MAX, number);
}

/* One of names, by its place. */
static int take_name(const char *what, const char *text, const char *const *names, int *value)
{
	*value = perf_name_find(text, names);
	return *value < 0 ? unknown(what, text, names) : 0;
}

/* The same, or all of them. */
static int take_names(const char *what, const char *text, const char *const *names, int *value)
{
	*value = PERF_ALL;
	return strcmp(text, "all") ? take_name(what, text, names, value) : 0;
}

static int take_factor(const char *text, double *factor)
{
	char *end;

	*factor = strtod(text, &end);
	if (end == text || *end || !(*factor > 1 && *factor < 1e9))
		return bad("--stepfactor '%s' is not a number above 1", text);
	return 0;
}

static int take_type(const char *text, int *datatype)
{
	*datatype = strcmp(text, "all") ? perf_type_find(text) : PERF_ALL;
	if (*datatype < 0 && strcmp(text, "all"))
		return unknown("datatype", text, perf_type_names);
	return 0;
}

static int take_sources(const char *text, int *sources)
{
	*sources = 0;
	return strcmp(text, "all") ? take_range("--sources", text, 1, 16, sources) : 0;
}

static int take_level(const char *text, int *level)
{
	*level = PERF_BEST;
	return strcmp(text, "best") ? take_names("level", text, perf_level_names, level) : 0;
}

static int take_root(const char *text, int *root)
{
	*root = PERF_ALL;
	return strcmp(text, "all") ? take_int("--root", text, 0, root) : 0;
}

static int take_weights(const char *text, int *weights)
{
	char rest;

	if (sscanf(text, "%d:%d%c", &weights[0], &weights[1], &rest) != 2 || weights[0] < 1 ||
	    weights[1] < 1 || weights[0] > 65535 || weights[1] > 65535)
		return bad("--weights '%s' is not two numbers from 1 to 65535, like 3:1", text);
	return 0;
}

static int take_codec(const char *text, const char **name)
{
	struct tutti_error_info info = {.size = sizeof(info)};
	struct tutti_codec *codec;

	*name = text;
	if (!tutti_codec_create(text, &codec))
		return tutti_codec_free(codec);
	tutti_last_error(&info);
	return bad("--codec: %s", info.text);
}

static int take_colls(const char *text, unsigned *colls)
{
	char name[32];
	size_t len;
	int coll;

	*colls = strcmp(text, "all") ? 0 : WITH_START;
	for (; !*colls || *text == ','; text += len) {
		text += *text == ',';
		len = strcspn(text, ",");
		snprintf(name, sizeof(name), "%.*s", (int)len, text);
		coll = perf_name_find(name, perf_coll_names());
		if (coll < 0)
			return unknown("collective", name, perf_coll_names());
		if (!perf_coll_has_start(coll))
			return bad("%s has no nonblocking form", name);
		*colls |= 1u << coll;
	}
	return 0;
}

static int take(struct perf_options *opt, int option)
{
	switch (option) {
	case 'b':
		return take_size("--minbytes", optarg, &opt->minbytes);
	case 'e':
		return take_size("--maxbytes", optarg, &opt->maxbytes);
	case 'i':
		return take_size("--stepbytes", optarg, &opt->stepbytes);
	case 'f':
		return take_factor(optarg, &opt->stepfactor);
	case 'n':
		return take_int("--iters", optarg, 1, &opt->iters);
	case 'w':
		return take_int("--warmup_iters", optarg, 0, &opt->warmup);
	case 'c':
		return take_int("--check", optarg, 0, &opt->check);
	case 'd':
		return take_type(optarg, &opt->datatype);
	case 'o':
		return take_names("operation", optarg, perf_op_names, &opt->op);
	case 'r':
		return take_root(optarg, &opt->root);
	case 'a':
		return take_range("--average", optarg, 0, 3, &opt->average);
	case 'A':
		return take_names("atomic", optarg, perf_atomic_names, &opt->atomic);
	case 'q':
		return take_int("--tx-depth", optarg, 1, &opt->depth);
	case 'S':
		return take_int("--servers", optarg, 0, &opt->servers);
	case OPT_COLOCATED:
		return take_int("--colocated", optarg, 0, &opt->colocated);
	case OPT_WEIGHTS:
		return take_weights(optarg, opt->weights);
	case OPT_TABLES:
		return take_range("--tables", optarg, 1, PERF_TABLES, &opt->tables);
	case OPT_SOFTSYNC:
		opt->softsync = true;
		return 0;
	case OPT_CALL:
		return take_names("call", optarg, perf_ps_calls, &opt->call);
	case 'T':
		opt->transport = optarg;
		return 0;
	case OPT_SOURCES:
		return take_sources(optarg, &opt->sources);
	case OPT_LEVEL:
		return take_level(optarg, &opt->level);
	case OPT_STORES:
		return take_name("way of storing", optarg, perf_store_names, &opt->stores);
	case OPT_CODEC:
		return take_codec(optarg, &opt->codec);
	case OPT_FILL:
		return take_name("filling", optarg, perf_fill_names, &opt->fill);
	case OPT_ROTATE:
		return take_range("--rotate", optarg, 1, PERF_ROTATE, &opt->rotate);
	case OPT_ROWS:
		return take_range("--rows", optarg, 1, MOST_SIDE, &opt->rows);
	case OPT_COLS:
		return take_range("--cols", optarg, 1, MOST_SIDE, &opt->cols);
	case OPT_PRODUCTS:
		return take_range("--products", optarg, 1, MOST_SIDE, &opt->products);
	case OPT_RANK:
		return take_range("--rank", optarg, 1, MOST_SIDE, &opt->rank);
	case OPT_COLL:
		return take_colls(optarg, &opt->colls);
	case OPT_STAT:
		opt->stat = true;
		return 0;
	case OPT_MALLOC:
		opt->plain_buffers = true;
		return 0;
	case OPT_JSON:
		opt->json = optarg;
		return 0;
	default: /* OPT_CSV */
		opt->csv = optarg;
		return 0;
	}
}

static int show_help(void)
{
	const struct perf_command *cmd;

	if (!perf_is_rank0())
		return PERF_DONE;
	fputs(usage, stdout);
	for (cmd = perf_commands; cmd->name; cmd++)
		printf("  %-17s %s\n", cmd->name, cmd->help);
	fputs(help, stdout);
	return PERF_DONE;
}

static int show_version(void)
{
	if (perf_is_rank0())
		printf("tutti_perf %s\n", tutti_version());
	return PERF_DONE;
}

/* A command must use this for the option to mean something. */
static unsigned use_of(int option)
{
	switch (option) {
	case 'b':
	case 'e':
	case 'i':
	case 'f':
		return PERF_USE_SIZE;
	case 'c':
		return PERF_USE_CHECK;
	case 'd':
		return PERF_USE_TYPE;
	case 'o':
		return PERF_USE_OP;
	case 'r':
		return PERF_USE_ROOT;
	case 'a':
	case OPT_STAT:
		return PERF_USE_AVERAGE;
	case 'A':
		return PERF_USE_ATOMIC;
	case 'q':
		return PERF_USE_DEPTH;
	case 'S':
	case OPT_COLOCATED:
	case OPT_WEIGHTS:
	case OPT_TABLES:
	case OPT_SOFTSYNC:
	case OPT_CALL:
		return PERF_USE_SERVERS;
	case OPT_SOURCES:
	case OPT_STORES:
		return PERF_USE_SOURCES;
	case OPT_LEVEL:
		return PERF_USE_LEVEL;
	case OPT_CODEC:
		return PERF_USE_CODEC;
	case OPT_FILL:
	case OPT_ROTATE:
		return PERF_USE_FILL;
	case OPT_COLL:
		return PERF_USE_COLL;
	case OPT_ROWS:
	case OPT_COLS:
		return PERF_USE_MATRIX;
	case OPT_PRODUCTS:
		return PERF_USE_PRODUCTS;
	case OPT_RANK:
		return PERF_USE_RANK;
	case OPT_MALLOC:
		return PERF_USE_MALLOC;
	default:
		return 0;
	}
}

/* Reads the options again: the command can be behind them. */
static int check_uses(const struct perf_command *cmd, int argc, char **argv)
{
	const struct option *o;
	int option;

	optind = 1;
	while ((option = getopt_long(argc, argv, short_options, long_options, NULL)) != -1) {
		if (!(use_of(option) & ~cmd->uses))
			continue;
		for (o = long_options; o->val != option; o++)
			;
		return bad("%s does not use --%s", cmd->name, o->name);
	}
	return 0;
}

/* --codec, whose results are not exact, and --fill. */
static int complete_fill(struct perf_options *opt)
{
	if (!(opt->cmd->uses & PERF_USE_FILL))
		return 0;
	if (opt->fill < 0)
		opt->fill = opt->codec ? PERF_RANDOM : PERF_ZERO;
	if (opt->codec)
		opt->check = 0;
	if (opt->codec && opt->op != TUTTI_SUM && opt->op != TUTTI_AVG)
		return bad("--codec is for --op sum and avg");
	if ((opt->codec || opt->fill == PERF_RANDOM) && opt->datatype != TUTTI_FLOAT32)
		return bad("%s is for -d float", opt->codec ? "--codec" : "--fill random");
	return 0;
}

/* Defaults that depend on the subcommand, and what only makes sense for some of them. */
static int complete(struct perf_options *opt)
{
	const struct perf_command *cmd = opt->cmd;
	const size_t unset = SIZE_MAX;

	if (cmd->most && opt->minbytes == unset && opt->maxbytes == unset) {
		opt->maxbytes = cmd->most;
		if (!opt->stepfactor)
			opt->stepfactor = cmd->factor;
	}
	if (opt->minbytes == unset)
		opt->minbytes = opt->maxbytes != unset && opt->maxbytes < cmd->bytes ? opt->maxbytes
										     : cmd->bytes;
	if (opt->maxbytes == unset)
		opt->maxbytes = opt->minbytes > cmd->bytes ? opt->minbytes : cmd->bytes;
	if (opt->maxbytes < opt->minbytes)
		return bad("--maxbytes %zu is less than --minbytes %zu", opt->maxbytes,
			   opt->minbytes);
	if (!opt->stepbytes)
		return bad("--stepbytes must be more than 0");
	if (opt->iters < 0)
		opt->iters = cmd->iters;
	if (opt->warmup < 0)
		opt->warmup = cmd->warmup;
	if (!opt->colls)
		opt->colls = cmd->colls;
	if (opt->depth < 0)
		opt->depth = cmd->depth ? cmd->depth : 128;
	if (opt->op == TUTTI_AVG && strstr(cmd->name, "scan"))
		return bad("operation avg has no meaning for %s", cmd->name);
	if (opt->op != PERF_ALL && opt->datatype != PERF_ALL && cmd->uses & PERF_USE_OP &&
	    !perf_op_fits(opt->datatype, opt->op))
		return bad("operation %s is for integers, not for %s", perf_op_name(opt->op),
			   perf_type_name(opt->datatype));
	return complete_fill(opt);
}

int perf_options_parse(struct perf_options *opt, int argc, char **argv)
{
	int option, err;

	*opt = (struct perf_options){.minbytes = SIZE_MAX,
				     .maxbytes = SIZE_MAX,
				     .stepbytes = 1 << 20,
				     .iters = -1,
				     .warmup = -1,
				     .check = 1,
				     .depth = -1,
				     .average = 1,
				     .servers = 1,
				     .tables = 1,
				     .rotate = 1,
				     .rows = 1024,
				     .cols = 1024,
				     .products = 32,
				     .rank = 4,
				     .fill = -1,
				     .weights = {1, 1},
				     .call = PERF_ALL,
				     .level = PERF_BEST,
				     .datatype = TUTTI_FLOAT32,
				     .op = TUTTI_SUM};
	opterr = 0;
	while ((option = getopt_long(argc, argv, short_options, long_options, NULL)) != -1) {
		if (option == 'h')
			return show_help();
		if (option == 'V')
			return show_version();
		if (option == ':')
			return bad("option '%s' needs a value", argv[optind - 1]);
		if (option == '?' && !strncmp(argv[optind - 1], "--", 2))
			return unknown_option(argv[optind - 1]);
		if (option == '?')
			return bad("unknown option '-%c'", optopt);
		err = take(opt, option);
		if (err)
			return err;
	}
	if (optind == argc)
		return bad("which command? allreduce, bcast, alltoall, put, put_lat or another");
	err = find_command(argv[optind], &opt->cmd);
	if (err)
		return err;
	if (optind + 1 < argc)
		return bad("one command at a time, please: '%s' is too much", argv[optind + 1]);
	err = check_uses(opt->cmd, argc, argv);
	return err ? err : complete(opt);
}
