/* SPDX-License-Identifier: BSD-3-Clause */
/* Parses the values of the options. */
#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/number.h"
#include "perf/options.h"
#include "tools/graphs.h"
#include "tools/plot.h"

/* A side of a matrix, or a number of products: small enough for sizes in bytes to be exact. */
#define MOST_SIDE (1 << 24)
#define MOST_FACTOR 1e9

static int take_size(const char *option, const char *text, size_t least, size_t *size)
{
	if (perf_parse_size(text, size) || *size < least)
		return perf_bad("%s '%s' is not a size from %zu to %zuG like 512, 64K, 32M or 1G",
				option, text, least, PERF_MOST_SIZE >> 30);
	return 0;
}

static int take_range(const char *option, const char *text, int least, int most, int *number)
{
	int64_t value = 0;
	const char *end = tt_number_whole(text, &value);

	if (!end || *end || value < least || value > most)
		return perf_bad("%s '%s' is not a whole number from %d to %d", option, text, least,
				most);
	*number = (int)value;
	return 0;
}

static int take_int(const char *option, const char *text, int least, int *number)
{
	return take_range(option, text, least, INT_MAX, number);
}

/* As "500us", "5ms" or "1s", in microseconds, at most 1000 s. False: none. */
static bool is_time(const char *text, int *usec)
{
	double value = 0;
	const char *unit = tt_number_time(text, &value);

	unit = unit ? unit : "";
	value *= !strcmp(unit, "us") ? 1 : !strcmp(unit, "ms") ? 1e3 : !strcmp(unit, "s") ? 1e6 : 0;
	*usec = value >= 1 && value <= 1e9 ? (int)value : 0;
	return *usec;
}

static int take_cutoff(const char *text, int *usec)
{
	if (!is_time(text, usec))
		return perf_bad("--cutoff '%s' is not a time from 1us to 1000s like 500us or 5ms",
				text);
	return 0;
}

static int take_late(const char *text, int *rank, int *usec)
{
	uint64_t value = 0;
	const char *end = tt_number_digits(text, &value);

	*rank = (int)value;
	if (!end || value > INT_MAX || *end != ':' || !is_time(end + 1, usec))
		return perf_bad("--late '%s' is not RANK:TIME like 3:100ms, a rank from 0 to %d "
				"and a time from 1us to 1000s",
				text, INT_MAX);
	return 0;
}

/* One of names, by its place. */
static int take_name(const char *what, const char *text, const char *const *names, int *value)
{
	*value = perf_name_find(text, names);
	return *value < 0 ? perf_unknown(what, text, names) : 0;
}

/* The same, or all of them. */
static int take_names(const char *what, const char *text, const char *const *names, int *value)
{
	*value = PERF_ALL;
	return strcmp(text, "all") ? take_name(what, text, names, value) : 0;
}

/* A number, or by name. */
static int take_quorum(const char *text, int *quorum)
{
	int name;

	if (!isalpha((unsigned char)*text))
		return take_int("--quorum", text, 1, quorum);
	if (take_name("quorum", text, perf_quorum_names, &name))
		return -EINVAL;
	*quorum = name ? TUTTI_PARTIAL_MAJORITY : 0;
	return 0;
}

static int take_alpha(const char *text, double *alpha)
{
	const char *end = tt_number_real(text, alpha);

	if (!end || *end || !(*alpha >= 0 && *alpha <= 1))
		return perf_bad("--alpha '%s' is not a number from 0 to 1", text);
	return 0;
}

static int take_factor(const char *text, double *factor)
{
	const char *end = tt_number_real(text, factor);

	if (!end || *end || !(*factor > 1 && *factor <= MOST_FACTOR))
		return perf_bad("--stepfactor '%s' is not a number above 1, up to %.10g", text,
				MOST_FACTOR);
	return 0;
}

static int take_type(const char *text, int *datatype)
{
	*datatype = strcmp(text, "all") ? perf_type_find(text) : PERF_ALL;
	if (*datatype < 0 && strcmp(text, "all"))
		return perf_unknown("datatype", text, perf_type_names);
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
	uint64_t value[2] = {0, 0};
	const char *end = tt_number_digits(text, &value[0]);

	if (end && *end == ':')
		end = tt_number_digits(end + 1, &value[1]);
	if (!end || *end || !value[0] || !value[1] || value[0] > 65535 || value[1] > 65535)
		return perf_bad("--weights '%s' is not two numbers from 1 to 65535, like 3:1",
				text);
	weights[0] = (int)value[0];
	weights[1] = (int)value[1];
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
	return perf_bad("--codec: %s", info.text);
}

static int take_colls(const char *text, unsigned *colls)
{
	char name[32];
	size_t len;
	int coll;

	*colls = strcmp(text, "all") ? 0 : PERF_WITH_START;
	for (; !*colls || *text == ','; text += len) {
		text += *text == ',';
		len = strcspn(text, ",");
		snprintf(name, sizeof(name), "%.*s", (int)len, text);
		coll = perf_name_find(name, perf_coll_names());
		if (coll < 0)
			return perf_unknown("collective", name, perf_coll_names());
		if (!perf_coll_has_start(coll))
			return perf_bad("%s has no nonblocking form", name);
		*colls |= 1u << coll;
	}
	return 0;
}

static int take_plot(const char *text, const char **plot)
{
	*plot = text;
	if (!plot_can(text))
		return perf_bad("--plot: the name ends in " PLOT_FORMATS ", not '%s'", text);
	return strchr(text, '\n') ? perf_bad("--plot: the file name must be one line") : 0;
}

/* Of neighbour collectives, and averages and partial all-reduces. */
static int take_decentralized(struct perf_options *opt, int option)
{
	switch (option) {
	case OPT_GRAPH:
		return take_name("graph", optarg, cli_graph_names, &opt->graph);
	case OPT_PARTNER:
		return take_name("partner", optarg, perf_partner_names, &opt->partner);
	case OPT_ALPHA:
		return take_alpha(optarg, &opt->alpha);
	case OPT_QUORUM:
		return take_quorum(optarg, &opt->quorum);
	case OPT_CUTOFF:
		return take_cutoff(optarg, &opt->cutoff_us);
	case OPT_LATE:
		return take_late(optarg, &opt->late_rank, &opt->late_us);
	default: /* OPT_DROP */
		opt->drop = true;
		return 0;
	}
}

int perf_option_take(struct perf_options *opt, int option)
{
	switch (option) {
	case 'b':
		return take_size("--minbytes", optarg, 0, &opt->minbytes);
	case 'e':
		return take_size("--maxbytes", optarg, 0, &opt->maxbytes);
	case 'i':
		return take_size("--stepbytes", optarg, 1, &opt->stepbytes);
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
	case OPT_GRAPH:
	case OPT_PARTNER:
	case OPT_ALPHA:
	case OPT_QUORUM:
	case OPT_CUTOFF:
	case OPT_LATE:
	case OPT_DROP:
		return take_decentralized(opt, option);
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
	case OPT_PLOT:
		return take_plot(optarg, &opt->plot);
	default: /* OPT_CSV */
		opt->csv = optarg;
		return 0;
	}
}
