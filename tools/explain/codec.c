/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tutti_explain codec: how long all-reduces take whose vectors travel encoded, by the cost model
 * that codec "auto" chooses by, and how many more iterations a codec may cost before it loses.
 * Compression pays only if T_comp * I_comp < T_orig * I_orig.
 */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tutti/error.h>

#include "lib/base/env.h"
#include "lib/base/error.h"
#include "lib/node/node.h"
#include "lib/topo/topo.h"
#include "tools/cli.h"
#include "tools/explain/explain.h"
#include "tools/values.h"

#define MOST_CODECS 32

struct asked {
	int n, hosts, cores, processes;
	size_t min_bytes, max_bytes;
	double factor;
	double bandwidth, latency, compute; /* bytes per ns, ns, ns; negative: not given */
	double encode, decode;		    /* --coding: ns per byte; 0: not given */
	bool stated;			    /* --coding table */
	const char *between, *table, *json;
	struct tt_env env;
};

static const char *const usual[] = {"fp16", "bf16",   "fp8:e4m3", "fp8:e5m2",
				    "int8", "onebit", "qsgd"};

/* The plain vector if codec.codec is NULL. */
struct row {
	struct tt_plan_codec codec;
	const char *name;
	double bits, sent;	   /* of an element; bytes, negative: not counted */
	double coding, wire, time; /* ns */
};

struct rows {
	struct row row[1 + MOST_CODECS];
	int n;
};

struct place {
	struct tt_chooser *chooser, *no_links; /* the second: where links cost nothing */
	struct tt_hosts *hosts;
	const struct tt_link_costs *link;
};

/* ---- predictions ---- */

static double predict(const struct tt_chooser *chooser, const struct tt_plan_args *args)
{
	struct tt_candidate taken = {.time = 0};

	tt_chosen(chooser, args, &taken);
	return taken.time;
}

static int work_out(const struct place *p, const struct tt_plan_args *call, struct row *r)
{
	struct tt_plan_codec no_cost = r->codec;
	struct tt_plan_args args = *call;
	struct tt_candidate taken;
	struct tt_plan_cost most;

	args.codec = r->codec.codec ? &r->codec : NULL;
	if (!tt_chosen(p->chooser, &args, &taken))
		return cli_wrong("codec %s: no all-reduce can use it", r->name);
	r->time = r->wire = taken.time;
	r->bits = 32;
	r->coding = 0;
	if (args.codec) {
		r->coding = predict(p->no_links, &args);
		no_cost.encode = no_cost.decode = 1e-9;
		args.codec = &no_cost;
		r->wire = predict(p->chooser, &args);
		args.codec = &r->codec;
		r->bits =
			8 * (double)tt_codec_bound(r->codec.codec, args.count) / (double)args.count;
	}
	explain_cut(&taken, &args);
	r->sent = explain_count(taken.alg, &args, &most) ? (double)most.bytes_sent : -1;
	return 0;
}

/* How many times the iterations of the plain vector it may take. */
static double may_cost(const struct asked *a, const struct row *plain, const struct row *r)
{
	double compute = a->compute > 0 ? a->compute : 0;

	return r->time + compute > 0 ? (plain->time + compute) / (r->time + compute) : 1;
}

/* ---- output ---- */

static void print_head(const struct asked *a, const struct tt_link_costs *link)
{
	printf("# all-reduce of %d rank%s on %d host%s", a->n, a->n == 1 ? "" : "s", a->hosts,
	       a->hosts == 1 ? "" : "s");
	if (a->hosts > 1)
		printf("; between hosts (%s): %.4g GB/s, alpha %.4g us", a->between,
		       1 / link->hop.beta, link->hop.alpha / 1e3);
	printf("\n# encoding: ");
	if (a->stated)
		printf("by the rates that codec auto chooses by\n");
	else if (a->encode > 0)
		printf("%.4g GB/s, decoding %.4g GB/s, as given\n", 1 / a->encode, 1 / a->decode);
	else
		printf("as measured now in %d process%s at once\n", a->processes,
		       a->processes == 1 ? "" : "es");
	if (a->compute > 0)
		printf("# a step also computes for %.4g us\n", a->compute / 1e3);
	printf("# sent: by the busiest rank; coding and wire overlap in total; may cost: it loses "
	       "beyond so many times the iterations\n");
	printf("# *: what auto takes if it may take any\n");
	printf("# %12s %-32s %9s %14s %12s %12s %12s %8s %8s  %s\n", "size (B)", "codec",
	       "bits/elem", "sent (B)", "coding (us)", "wire (us)", "total (us)", "speed-up",
	       "may cost", "verdict");
}

static void print_row(const struct asked *a, const struct row *r, const struct row *plain,
		      size_t bytes, bool best)
{
	double most = may_cost(a, plain, r);
	char sent[32] = "-", verdict[64] = "-";

	if (r->sent >= 0)
		snprintf(sent, sizeof(sent), "%.0f", r->sent);
	if (r->codec.codec && most > 1)
		snprintf(verdict, sizeof(verdict), "pays below %.2f x the iterations", most);
	else if (r->codec.codec)
		snprintf(verdict, sizeof(verdict), "loses");
	printf("%c %12zu %-32s %9.3f %14s %12.1f %12.1f %12.1f %8.2f %8.2f  %s\n", best ? '*' : ' ',
	       bytes, r->name, r->bits, sent, r->coding / 1e3, r->wire / 1e3, r->time / 1e3,
	       r->time > 0 ? plain->time / r->time : 1, most, verdict);
}

static json_t *json_row(const struct asked *a, const struct row *r, const struct row *plain,
			size_t bytes, bool best)
{
	double most = may_cost(a, plain, r);

	return json_pack("{s:I,s:s,s:f,s:f,s:f,s:f,s:f,s:f,s:f,s:b,s:b}", "bytes",
			 (json_int_t)bytes, "codec", r->name, "bits_per_element", r->bits,
			 "sent_bytes", r->sent, "coding_us", r->coding / 1e3, "wire_us",
			 r->wire / 1e3, "time_us", r->time / 1e3, "speedup",
			 r->time > 0 ? plain->time / r->time : 1.0, "may_cost_iterations", most,
			 "pays", r->codec.codec && most > 1, "auto", best);
}

static json_t *json_rates(const struct rows *rows)
{
	json_t *list = json_array();
	const struct row *r;

	for (r = rows->row + 1; r < rows->row + rows->n; r++)
		json_array_append_new(list, json_pack("{s:s,s:f,s:f}", "codec", r->name,
						      "encode_ns_per_byte", r->codec.encode,
						      "decode_ns_per_byte", r->codec.decode));
	return list;
}

static int save(const struct asked *a, const struct place *p, const struct rows *rows,
		json_t *results)
{
	json_t *all = json_pack("{s:i,s:i,s:f,s:f,s:f,s:o,s:O}", "ranks", a->n, "hosts", a->hosts,
				"gb_s", 1 / p->link->hop.beta, "alpha_us", p->link->hop.alpha / 1e3,
				"compute_us", a->compute > 0 ? a->compute / 1e3 : 0.0, "rates",
				json_rates(rows), "results", results);
	int err = all ? json_dump_file(all, a->json, JSON_INDENT(1)) : -1;

	json_decref(all);
	return err ? cli_fail("cannot write %s: %s", a->json, strerror(errno)) : 0;
}

/* ---- sizes ---- */

static int one_size(const struct asked *a, const struct place *p, struct rows *rows, size_t bytes,
		    json_t *results)
{
	struct tt_plan_args args = {.coll = TT_COLL_ALLREDUCE,
				    .nranks = a->n,
				    .node = a->hosts == 1 && a->n > 1 && a->n <= TT_NODE_RANKS &&
					    strcmp(a->env.node.text, "off") != 0,
				    .hosts = p->hosts,
				    .elem = sizeof(float),
				    .count = bytes / sizeof(float)};
	struct tt_plan_codec codecs[MOST_CODECS];
	double time[1 + MOST_CODECS];
	int i, best, err = 0;

	args.count += !args.count;
	for (i = 0; !err && i < rows->n; i++) {
		err = work_out(p, &args, &rows->row[i]);
		if (i)
			codecs[i - 1] = rows->row[i].codec;
	}
	if (err)
		return err;
	best = tt_choose_codec(p->chooser, &args, codecs, rows->n - 1, time) + 1;
	for (i = 0; i < rows->n; i++) {
		print_row(a, &rows->row[i], rows->row, args.count * sizeof(float), i == best);
		json_array_append_new(results, json_row(a, &rows->row[i], rows->row,
							args.count * sizeof(float), i == best));
	}
	return 0;
}

static int all_sizes(const struct asked *a, const struct place *p, struct rows *rows)
{
	json_t *results = json_array();
	size_t size, next;
	int err = 0;

	print_head(a, p->link);
	for (size = a->min_bytes; !err; size = next) {
		err = one_size(a, p, rows, size, results);
		next = (size_t)((double)size * a->factor);
		next = next > size ? next : size + sizeof(float);
		if (next > a->max_bytes)
			break;
	}
	if (!err && a->json)
		err = save(a, p, rows, results);
	json_decref(results);
	return err;
}

/* ---- rates ---- */

/* Measured, by the command line, or the library's own. */
static int find_rate(const struct asked *a, struct tt_plan_codec *plan)
{
	struct explain_rate rate = {a->encode, a->decode};
	int err = 0;

	if (a->stated)
		return 0;
	if (a->encode <= 0)
		err = explain_measure(plan->codec, a->processes, &rate);
	plan->encode = rate.encode;
	plan->decode = rate.decode;
	return err;
}

static int add_codec(const struct asked *a, const char *name, struct rows *rows)
{
	struct row *r = &rows->row[rows->n];
	struct tutti_codec *codec;
	int err = tt_codec_new(name, &codec), choices;

	if (err)
		return cli_wrong("%s", tt_fail_text(err));
	r->name = tt_codec_name(codec);
	r->codec = TT_PLAN_CODEC(codec);
	rows->n++;
	if (tt_codec_choices(codec, &choices) || !strncmp(r->name, "threshold", 9))
		return cli_wrong("codec %s: %s", r->name,
				 choices ? "name the codecs of its list"
					 : "the length of its encodings depends on the data");
	return find_rate(a, &r->codec);
}

/* Before anything is measured for it. */
static int check_json(const char *path)
{
	FILE *f = path ? fopen(path, "ae") : NULL;

	if (f || !path)
		return f ? fclose(f) : 0;
	return cli_fail("--json: cannot write '%s': %s", path, strerror(errno));
}

static int add_codecs(const struct asked *a, char **names, int n, struct rows *rows)
{
	int i, err = 0;

	rows->row[0] = (struct row){.name = "plain"};
	rows->n = 1;
	if (n > MOST_CODECS)
		return cli_wrong("more than %d codecs", MOST_CODECS);
	for (i = 0; !err && i < n; i++)
		err = add_codec(a, names[i], rows);
	for (i = 0; !err && !n && i < (int)(sizeof(usual) / sizeof(*usual)); i++)
		err = add_codec(a, usual[i], rows);
	return err;
}

/* ---- the place ---- */

/* The table, or none, with the links of the command line, or without any cost of links. */
static struct tt_tune *costs_of(const struct asked *a, const struct tt_tune *tune, bool free_links)
{
	const struct tt_link_costs *net = tt_tune_link(tune, true, a->between);
	struct tt_tune *t = calloc(1, sizeof(*t));

	if (!t)
		return NULL;
	t->gamma = tune ? tune->gamma : 0;
	t->copy = tune ? tune->copy : 0;
	t->nlinks[0] = t->nlinks[1] = 1;
	t->links[0][0] = *tt_tune_link(tune, false, "shm");
	t->links[1][0] = *net;
	snprintf(t->links[1][0].name, sizeof(t->links[1][0].name), "%s", a->between);
	if (a->bandwidth > 0)
		t->links[1][0].hop.beta = 1 / a->bandwidth;
	if (a->latency >= 0)
		t->links[1][0].hop.alpha = a->latency;
	if (free_links) {
		t->links[0][0].hop = t->links[1][0].hop = (struct tt_hop){0, 0};
		t->links[0][0].overhead = t->links[1][0].overhead = 0;
		t->gamma = 1e-9;
	}
	return t;
}

static int make_chooser(const struct asked *a, const struct tt_tune *tune,
			struct tt_chooser **chooser)
{
	int each = (a->n + a->hosts - 1) / a->hosts;
	struct tt_chooser_params params = {.rules = a->env.algo.text,
					   .chunk = (size_t)a->env.chunk.number,
					   .lanes = (int)a->env.lanes.number,
					   .nranks = a->n,
					   .layout = {.hosts = a->hosts,
						      .ranks_per_host = each,
						      .cores = a->cores,
						      .numa = 1,
						      .ranks_per_numa = each},
					   .inside = "shm",
					   .between = a->between,
					   .tune = tune};

	return tt_chooser_by_table(&params, chooser) ? cli_wrong("%s", tt_fail_text(-EINVAL)) : 0;
}

static int run(struct asked *a, const struct tt_tune *tune, char **names, int n)
{
	bool given = a->bandwidth > 0 || a->latency >= 0;
	struct tt_tune *here = costs_of(a, tune, false), *none = costs_of(a, tune, true);
	int each = (a->n + a->hosts - 1) / a->hosts, err;
	struct place p = {0};
	static struct rows rows;

	err = here && none ? check_json(a->json) : cli_fail("no memory for the costs");
	if (!err)
		err = make_chooser(a, given || !tune ? here : tune, &p.chooser);
	if (!err)
		err = make_chooser(a, none, &p.no_links);
	if (!err && (each > TT_NODE_RANKS || !strcmp(a->env.node.text, "off") ||
		     tt_hosts_blocks(a->n, each, &p.hosts)))
		p.hosts = NULL;
	if (!err) {
		p.link = &here->links[1][0];
		err = add_codecs(a, names, n, &rows);
	}
	if (!err)
		err = all_sizes(a, &p, &rows);
	while (--rows.n > 0)
		tt_codec_release(rows.row[rows.n].codec.codec);
	tt_chooser_free(p.chooser);
	tt_chooser_free(p.no_links);
	free(p.hosts);
	free(here);
	free(none);
	return err;
}

/* ---- the command line ---- */

static const char usage[] =
	"usage: tutti_explain codec [options] [CODEC...]\n"
	"How long an all-reduce of float32 takes whose vector travels encoded, and how many more\n"
	"iterations each CODEC may cost before it loses. See tutti_explain(1).\n"
	"\n"
	"  -n, --ranks N          number of ranks (default 4)\n"
	"  -H, --hosts N          on so many hosts (default: as many as ranks)\n"
	"  -b, --minbytes SIZE    smallest vector (default 16M; K, M, G)\n"
	"  -e, --maxbytes SIZE    largest (default: the same)\n"
	"  -f, --stepfactor X     from one size to the next (default 2)\n"
	"      --bw GBPS          GB/s between hosts (default: that of the table)\n"
	"      --latency US       microseconds between hosts (default: that of the table)\n"
	"      --compute US       what a step takes besides (default 0)\n"
	"      --coding RATES     GB/s of the vector, ENCODE[,DECODE]; or \"table\": those by\n"
	"                         which codec auto chooses (default: measured now)\n"
	"      --processes N      so many measure at once (default: the ranks of a host, at most\n"
	"                         its processors)\n"
	"  -c, --cores N          processors of a host (default: those of this one)\n"
	"  -t, --transport NAME   between hosts: verbs or ofi (default: the table's, or ofi)\n"
	"  -T, --table FILE       tuning table (default: as TUTTI_TUNE_FILE)\n"
	"      --json FILE        write the results there too\n"
	"  -h, --help             show this\n"
	"  -V, --version          show the version\n";

enum { OPT_BW = 256, OPT_LATENCY, OPT_COMPUTE, OPT_CODING, OPT_PROCESSES, OPT_JSON };

static const struct option long_options[] = {{"ranks", required_argument, NULL, 'n'},
					     {"hosts", required_argument, NULL, 'H'},
					     {"minbytes", required_argument, NULL, 'b'},
					     {"maxbytes", required_argument, NULL, 'e'},
					     {"stepfactor", required_argument, NULL, 'f'},
					     {"bw", required_argument, NULL, OPT_BW},
					     {"latency", required_argument, NULL, OPT_LATENCY},
					     {"compute", required_argument, NULL, OPT_COMPUTE},
					     {"coding", required_argument, NULL, OPT_CODING},
					     {"processes", required_argument, NULL, OPT_PROCESSES},
					     {"cores", required_argument, NULL, 'c'},
					     {"transport", required_argument, NULL, 't'},
					     {"table", required_argument, NULL, 'T'},
					     {"json", required_argument, NULL, OPT_JSON},
					     {"help", no_argument, NULL, 'h'},
					     {"version", no_argument, NULL, 'V'},
					     {0}};

static int parse_coding(struct asked *a, char *text)
{
	double v[2] = {0, 0};
	int n;

	a->stated = !strcmp(text, "table");
	if (a->stated)
		return 0;
	if (tt_nearest(text, (const char *const[]){"table"}, 1))
		return cli_fail("--coding: 'table' or rates such as 10,20, not '%s'", text);
	if (cli_numbers("--coding", text, ",", 1e-6, 1e6, v, 2, &n))
		return -1;
	a->encode = 1 / v[0];
	a->decode = 1 / (n > 1 ? v[1] : v[0]);
	return 0;
}

static int parse_time(const char *what, const char *text, double *ns)
{
	int err = cli_number(what, text, 0, 1e12, ns);

	*ns *= 1e3;
	return err;
}

/* Options of the machine and of the measurement. */
static int parse_costs(struct asked *a, int c, char *arg)
{
	switch (c) {
	case OPT_BW:
		return cli_number("--bw", arg, 1e-6, 1e6, &a->bandwidth);
	case OPT_LATENCY:
		return parse_time("--latency", arg, &a->latency);
	case OPT_COMPUTE:
		return parse_time("--compute", arg, &a->compute);
	case OPT_CODING:
		return parse_coding(a, arg);
	case OPT_PROCESSES:
		return cli_integer("--processes", arg, 1, 1024, &a->processes);
	case 't':
		a->between = arg;
		return tt_link_default(arg) && strcmp(arg, "shm")
			       ? 0
			       : cli_fail("-t: verbs or ofi, not '%s'", arg);
	default:
		a->json = arg;
		return 0;
	}
}

static int parse_one(void *into, int c, char *arg)
{
	struct asked *a = into;

	switch (c) {
	case 'n':
		return cli_integer("-n", arg, 1, 1 << 20, &a->n);
	case 'H':
		return cli_integer("-H", arg, 1, 1 << 20, &a->hosts);
	case 'b':
		return cli_bytes("-b", arg, 1, (size_t)1 << 46, &a->min_bytes);
	case 'e':
		return cli_bytes("-e", arg, 1, (size_t)1 << 46, &a->max_bytes);
	case 'f':
		return cli_number("-f", arg, 1.001, 1e6, &a->factor);
	case 'c':
		return cli_integer("-c", arg, 1, 1 << 16, &a->cores);
	case 'T':
		a->table = arg;
		return 0;
	default:
		return parse_costs(a, c, arg);
	}
}

/* 0, 1: done, or negative. */
static int parse(struct asked *a, int argc, char **argv)
{
	static const struct cli cli = {cli_prog,     usage,	":n:H:b:e:f:c:t:T:hV",
				       long_options, parse_one, "codec"};
	int err, each;

	*a = (struct asked){.n = 4,
			    .min_bytes = 16 << 20,
			    .factor = 2,
			    .bandwidth = -1,
			    .latency = -1,
			    .compute = -1,
			    .cores = tt_topo_cpus()};
	err = cli_options(&cli, argc, argv, a);
	if (err)
		return err;
	a->hosts = a->hosts ? a->hosts : a->n;
	if (a->n % a->hosts)
		return cli_fail("-H: %d ranks are not equally many on each of %d hosts", a->n,
				a->hosts);
	each = (a->n + a->hosts - 1) / a->hosts;
	if (!a->processes)
		a->processes = each < a->cores ? each : a->cores;
	a->max_bytes = a->max_bytes ? a->max_bytes : a->min_bytes;
	if (a->max_bytes < a->min_bytes)
		return cli_fail("-e %zu is less than -b %zu", a->max_bytes, a->min_bytes);
	return tt_env_load(&a->env) ? cli_fail("%s", tt_fail_text(-EINVAL)) : 0;
}

int explain_codec(int argc, char **argv)
{
	const struct tt_tune *tune = NULL;
	struct tt_tunes tunes;
	struct asked a;
	char path[4096];
	int err = parse(&a, argc, argv);

	if (err)
		return cli_end_parsing(cli_prog, err);
	err = explain_load(a.table ? a.table : a.env.tune_file.text, &tunes, path, sizeof(path));
	if (!err) {
		tune = explain_fitting(&tunes, a.n, a.hosts);
		if (!a.between)
			a.between = tune && tune->nlinks[1] ? tune->links[1][0].name : "ofi";
		err = run(&a, tune, argv + optind, argc - optind);
		tt_tunes_free(&tunes);
	}
	tt_env_free(&a.env);
	return cli_end(cli_prog, err);
}
