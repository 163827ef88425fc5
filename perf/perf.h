/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shared by the parts of tutti_perf: the options, the list of sizes, the table of results, and the
 * runners, one for each kind of measurement.
 */
#ifndef PERF_H
#define PERF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <tutti/tutti.h>

#define PERF_ALL (-1) /* -d all, -o all, -r all */

/* Exit statuses. */
enum { PERF_OK = 0, PERF_FAILED = 1, PERF_USAGE = 2 };

struct perf;

/* Uses of a subcommand: options that it does not use are refused. */
enum {
	PERF_USE_SIZE = 1 << 0, /* -b, -e, -i, -f */
	PERF_USE_CHECK = 1 << 1,
	PERF_USE_TYPE = 1 << 2,
	PERF_USE_OP = 1 << 3,
	PERF_USE_ROOT = 1 << 4,
	PERF_USE_AVERAGE = 1 << 5, /* -a, --stat */
	PERF_USE_DEPTH = 1 << 6,
	PERF_USE_ATOMIC = 1 << 7,
	PERF_USE_SERVERS = 1 << 8, /* the options of ps */
	PERF_USE_SOURCES = 1 << 9, /* --sources, --stores */
	PERF_USE_LEVEL = 1 << 10,
	PERF_USE_CODEC = 1 << 11,
	PERF_USE_FILL = 1 << 12, /* --fill, --rotate */
	PERF_USE_COLL = 1 << 13,
	PERF_USE_MALLOC = 1 << 14,
	PERF_USE_MATRIX = 1 << 15, /* --rows, --cols */
	PERF_USE_PRODUCTS = 1 << 16,
	PERF_USE_RANK = 1 << 17,
	PERF_USE_GRAPH = 1 << 18,
	PERF_USE_PARTNER = 1 << 19,
	PERF_USE_PARTIAL = 1 << 20, /* --quorum, --cutoff, --late, --drop */
	PERF_USE_ALPHA = 1 << 21
};

/* Groups of subcommands in --help; those of a group stand together. */
enum perf_group {
	PERF_COLLECTIVES,
	PERF_COUNTS,
	PERF_NEIGHBORS,
	PERF_GOSSIP,
	PERF_WAITING,
	PERF_POINT,
	PERF_ONE_SIDED,
	PERF_SERVER,
	PERF_SMALLER,
	PERF_LOCAL,
	PERF_GROUPS
};
extern const char *const perf_group_names[PERF_GROUPS];

/* A subcommand: its defaults and the function that measures. */
struct perf_command {
	const char *name;
	enum perf_group group;
	const char *help;
	int (*run)(struct perf *perf);
	size_t bytes;	   /* default of -b and -e */
	size_t most;	   /* if not 0: default of -e where there is no -b, */
	double factor;	   /* and of -f */
	int iters, warmup; /* defaults of -n and -w */
	int min_ranks;
	int depth; /* default of -q, 0: 128 */
	unsigned uses;
	unsigned colls; /* default of --coll */
};

/*
 * For kernel: the levels of instructions, by name and -1 for all or -2 for the best; and how to
 * store.
 */
enum { PERF_BEST = -2, PERF_LEVELS = 4 };
enum { PERF_AUTO, PERF_PLAIN, PERF_STREAM };
enum { PERF_ZERO, PERF_RANDOM };

#define PERF_TABLES 64 /* of ps, at most */
#define PERF_ROTATE 64 /* of --rotate, at most */

struct perf_options {
	const struct perf_command *cmd;
	size_t minbytes, maxbytes, stepbytes;
	double stepfactor; /* 0: steps of stepbytes */
	int iters, warmup, check, depth;
	int servers, colocated, tables,
		weights[2]; /* of ps; weights of servers that only serve, and others */
	int call;	    /* of ps: by name, or PERF_ALL */
	bool softsync;
	int datatype, op, root, atomic; /* or PERF_ALL */
	int sources;			/* 0: the usual numbers */
	int level;			/* or PERF_ALL or PERF_BEST */
	int stores;
	int fill;			/* by name; -1: not said */
	unsigned colls;			/* of overlap and forms: bits by enum perf_coll */
	int rotate;			/* pairs of buffers, in turn */
	int graph;			/* of neighbours: by name */
	int partner;			/* of pair: by name */
	double alpha;			/* of elastic; below 0: not said */
	int quorum, cutoff_us;		/* of partial: as its config takes them */
	int late_rank, late_us;		/* of partial: late_us 0: none is late */
	int rows, cols, products, rank; /* of allreduce_factors and power_sgd */
	int average; /* nccl-tests' -a: 0 rank 0, 1 average, 2 minimum, 3 maximum */
	bool stat, plain_buffers, drop;
	const char *transport, *json, *csv, *plot, *codec; /* codec: of codec, NULL: all */
};

/* perf/options.c: 0; PERF_DONE: help or version was printed; -EINVAL: rank 0 printed why. */
enum { PERF_DONE = 1 };
int perf_options_parse(struct perf_options *opt, int argc, char **argv);
bool perf_is_rank0(void); /* by the launcher's variables: before tutti_init */

/* perf/commands.c: the last one has no name; find: 0, or -EINVAL, said. */
extern const struct perf_command perf_commands[];
int perf_command_find(const char *word, const struct perf_command **cmd);

/* perf/nearest.c: the name most like word, or NULL; the list of names ends with NULL. */
const char *perf_nearest(const char *word, const char *const *names);

/* perf/sizes.c */
#define PERF_MOST_SIZE (SIZE_MAX / 4)
int perf_parse_size(const char *text, size_t *size); /* "64K"; 0 or -EINVAL */
/*
 * The size after `size`, or 0 when that was the last; at least `least`, the first that is not
 * rounded to what was measured: a factor near 1 would measure it again.
 */
size_t perf_next_size(const struct perf_options *opt, size_t size, size_t least);
/* If no size is rounded. */
size_t perf_size_count(const struct perf_options *opt);

/* perf/stats.c */
uint64_t perf_now_ns(void);
struct perf_summary {
	double min, max, median, mean, stdev, p99, p999;
};
/* Sorts the n values, n > 0. */
void perf_summarize(double *values, size_t n, struct perf_summary *sum);
/*
 * Percent of a communication that hid behind a computation: alone is the time of the communication
 * alone, together that of both, of which computation is the second. 0 when it cost as much as
 * alone, or more, and 100 when it cost nothing.
 */
double perf_overlap(double alone, double computation, double together);

/* perf/types.c: names, and which operation fits which type. */
const char *perf_type_name(int datatype);
const char *perf_op_name(int op);
int perf_type_find(const char *name); /* -1: none, PERF_ALL is not among the names */
bool perf_op_fits(int datatype, int op);
bool perf_type_averages(int datatype); /* along graphs */
extern const char *const perf_type_names[];
extern const char *const perf_op_names[];
enum { PERF_FETCH_ADD, PERF_COMPARE_SWAP, PERF_ATOMICS };
extern const char *const perf_atomic_names[];
extern const char *const perf_partner_names[]; /* perf/pair.c */
extern const char *const perf_quorum_names[];  /* perf/partial.c; others are numbers */
int perf_name_find(const char *name, const char *const *names);

/*
 * perf/oracle.c: data whose exact result is known without communicating. The values of a rank are a
 * block of PERF_PERIOD elements repeated; the period is prime, so that it never falls in step with
 * the chunks of an algorithm.
 */
#define PERF_PERIOD 65521
struct perf_oracle {
	int nranks, datatype, op;
	uint64_t seed;
	unsigned char *input, *expected; /* one period each */
	size_t period;			 /* elements, at most PERF_PERIOD */
};
int perf_oracle_init(struct perf_oracle *oracle);
void perf_oracle_free(struct perf_oracle *oracle);
/* For this seed and up to count elements: input of a rank; expected result of ranks 0 to last. */
void perf_oracle_given(struct perf_oracle *oracle, size_t count, int rank);
void perf_oracle_reduce(struct perf_oracle *oracle, size_t count, int last);
/* Fill dst by repeating a block; count how many elements of buf differ from it. */
void perf_repeat(void *dst, const void *block, size_t period, size_t count, size_t size);
size_t perf_count_wrong(const void *buf, const void *block, size_t period, size_t count,
			size_t size);

/* perf/buffer.c: a buffer between two guard zones. */
#define PERF_GUARD 4096 /* a page, so that data stay page-aligned */
struct perf_buffer {
	unsigned char *base, *data;
	size_t size;
	bool plain;
};
/* n buffers of size bytes on every rank, or none on any and one message. Collective. */
int perf_buffers_get(struct perf *perf, struct perf_buffer *bufs, int n, size_t size);
void perf_buffers_put(struct perf_buffer *bufs, int n);
/* As gradients: normal numbers of both signs and several magnitudes; others for each rank. */
void perf_fill_random(float *v, size_t count, int rank);
extern const char *const perf_fill_names[];
/* Write the guards around the first len bytes; count the guard bytes that changed since. */
void perf_guard_set(struct perf_buffer *buf, size_t len);
size_t perf_guard_violations(const struct perf_buffer *buf, size_t len);

/* perf/table.c: rows of cells under named columns, shown as text and kept for the files. */
enum perf_kind { PERF_INT, PERF_TEXT, PERF_USEC, PERF_FIXED };
struct perf_column {
	const char *key;	 /* in CSV and JSON */
	const char *name, *unit; /* in the two heading lines */
	int width, precision;
	enum perf_kind kind;
};
struct perf_cell {
	bool absent; /* shown as N/A, null in JSON, empty in CSV */
	int64_t number;
	double real;
	const char *text; /* constant strings only */
};
struct perf_table {
	const struct perf_column *columns;
	int ncolumns;
	struct perf_cell *cells; /* nrows * ncolumns */
	size_t nrows, room;
};
void perf_table_begin(struct perf_table *table, const struct perf_column *columns, int ncolumns);
void perf_table_heading(const struct perf_table *table);
/* Keep the row and print it. 0 or -ENOMEM. */
int perf_table_row(struct perf_table *table, const struct perf_cell *cells);
void perf_table_free(struct perf_table *table);

/* perf/files.c: --csv and --json, written by rank 0. */
struct perf_totals {
	uint64_t wrong, out_of_bounds;
	double busbw_sum;
	size_t busbw_count;
};
int perf_files_open(struct perf *perf);	 /* rank 0 tells all: collective */
int perf_files_write(struct perf *perf); /* rank 0 */

/* perf/plot.c: --plot, drawn by rank 0; 0 or a negative code, reported. */
int perf_plot(const struct perf *perf);

/* perf/progress.c: one line that rewrites itself, on a terminal, once a run takes longer. */
void perf_progress_init(struct perf *perf);
void perf_progress(struct perf *perf, const char *phase);
void perf_progress_row(struct perf *perf, size_t size);
void perf_progress_clear(void);

/* perf/p2p.c: bytes that differ by rank and round; and the table of latencies */
void perf_bytes_fill(unsigned char *dst, size_t len, int rank, unsigned int round);
size_t perf_bytes_wrong(const unsigned char *buf, size_t len, int rank, unsigned int round);
void perf_latency_table(struct perf_table *table, bool atomic);
#define PERF_LATENCY_COLUMNS 10
void perf_latency_columns(struct perf_column columns[PERF_LATENCY_COLUMNS]);
/* Sorts the times. Returns the cell after these. */
struct perf_cell *perf_latency_cells(const struct perf *perf, double *times,
				     struct perf_cell *cell);

/* perf/coll.c, perf/p2p.c and so on: the runners; return 0 or a negative code already reported. */
int perf_run_coll(struct perf *perf); /* the one that the command is called like */
int perf_run_put(struct perf *perf);
int perf_run_get(struct perf *perf);
int perf_run_latency(struct perf *perf);
int perf_run_put_flush(struct perf *perf);
int perf_run_get_lat(struct perf *perf);
int perf_run_send_lat(struct perf *perf); /* these four: perf/messages.c */
int perf_run_send(struct perf *perf);
int perf_run_send_bi(struct perf *perf);
int perf_run_send_pairs(struct perf *perf);
int perf_run_atomic(struct perf *perf);
int perf_run_acc_lat(struct perf *perf); /* both: perf/accumulate.c */
int perf_run_get_acc_lat(struct perf *perf);
int perf_run_ps(struct perf *perf);
extern const char *const perf_ps_calls[];
int perf_run_kernel(struct perf *perf);	  /* perf/kernel.c */
int perf_run_rules(struct perf *perf);	  /* perf/rules.c */
int perf_run_checksum(struct perf *perf); /* perf/checksum.c */
int perf_run_codec(struct perf *perf);	  /* perf/codec.c */
int perf_run_factors(struct perf *perf);  /* perf/lowrank.c */
int perf_run_power_sgd(struct perf *perf);
int perf_run_overlap(struct perf *perf); /* perf/overlap.c */
int perf_run_forms(struct perf *perf);	 /* perf/forms.c */
int perf_run_gossip(struct perf *perf);	 /* perf/gossip.c */
int perf_run_pair(struct perf *perf);	 /* perf/pair.c */
int perf_run_partial(struct perf *perf); /* perf/partial.c */
int perf_partial_quorum(const struct perf *perf);
/* As words, for people. */
void perf_partial_settings(const struct perf *perf, char *text, size_t size);
int perf_run_elastic(struct perf *perf); /* perf/elastic.c */
double perf_elastic_alpha(const struct perf *perf);
int perf_run_wakeup(struct perf *perf);	 /* perf/wakeup.c */
int perf_run_threads(struct perf *perf); /* perf/threads.c */
extern const char *const perf_level_names[], *const perf_store_names[];

/* A run: everything above together. */
struct perf {
	struct perf_options opt;
	struct tutti_context *ctx;
	struct tutti_comm *world;
	int rank, nranks, local_ranks;
	struct perf_table table;
	struct perf_totals totals;
	void *csv, *json; /* FILE, at rank 0 */
};

/* perf/tutti_perf.c: report a failed call of the library; returns err. */
int perf_call_failed(struct perf *perf, const char *call, int err);
/* A small all-reduce of one number over plain memory. */
int perf_agree(struct perf *perf, double *value, enum tutti_op op);
/*
 * -c: what all ranks together have found, wrong elements and bytes changed where nothing may be
 * written; for the totals.
 */
int perf_agree_found(struct perf *perf, double *wrong, double bounds);
void perf_print(const struct perf *perf, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

#endif
