/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tutti_explain ps: how long summing a vector over n machines takes with k machines that only
 * serve, by each way of placing it, where nothing but bandwidth counts. A way gives each dedicated
 * server d and each of c workers' machines g bytes of the vector's M = kd + cg. Pushes and pulls
 * travel at once, so a machine sends and receives
 *
 *	a dedicated server	n d
 *	a co-located one	(M - g) + (n - 1) g
 *	a worker alone		M
 *
 * and the most of these, divided by the bandwidth, is the time. The best split makes the first two
 * equal:
 *
 *	d = (n + c - 2) M / D, g = (n - k) M / D, D = nc + k (n - 2)    for k < n; for more servers
 *	d = M / k, g = 0
 *
 * which with c = n is D = n^2 + kn - 2k.
 *
 * Jiang et al.: A unified architecture for accelerating distributed DNN training in heterogeneous
 * GPU/CPU clusters. OSDI 2020.
 */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <tutti/error.h>

#include "lib/base/env.h"
#include "lib/base/error.h"
#include "tools/cli.h"
#include "tools/explain/explain.h"
#include "tools/values.h"

#define MACHINES 65536
#define WEIGHT 65535 /* the most that a server can have */

struct asked {
	int n, k, c; /* c < 0: as many as there are workers */
	size_t min_bytes, max_bytes;
	double factor, bandwidth; /* bytes per ns; 0: by the table */
	const char *transport, *table, *csv, *json;
};

enum way { ALLREDUCE, COLOCATED, SERVER, SPLIT, WAYS };

static const char *const names[WAYS] = {"allreduce", "colocated", "server", "split"};

struct row {
	bool there;				      /* this way needs servers that there are */
	double dedicated, colocated;		      /* bytes of the vector that each keeps */
	double by_dedicated, by_colocated, by_worker; /* that each sends, and receives */
	int weight[2]; /* for the server's config: dedicated, co-located */
	double time;   /* ns */
};

static double most(double a, double b)
{
	return a > b ? a : b;
}

/* The best split may leave one kind of server without a part. */
static enum way needed(const struct asked *a, enum way way)
{
	if (way != SPLIT)
		return way;
	if (a->c && (!a->k || a->n == 1)) /* the part of a lone worker does not travel */
		return COLOCATED;
	return !a->c || a->k >= a->n ? SERVER : SPLIT;
}

/* In the ratio of these, as nearly as a server's weights can be. */
static void weigh(struct row *r, int dedicated, int colocated)
{
	int more = dedicated > colocated ? dedicated : colocated, by = (more + WEIGHT - 1) / WEIGHT;

	r->weight[0] = (dedicated + by / 2) / by;
	r->weight[1] = (colocated + by / 2) / by;
}

static void share(const struct asked *a, enum way way, double bytes, struct row *r)
{
	double n = a->n, k = a->k, c = a->c, d = n * c + k * (n - 2);

	way = needed(a, way);
	if (way == SERVER) {
		r->there = a->k > 0;
		r->dedicated = bytes / k;
		r->weight[0] = 1;
	} else if (way == SPLIT) {
		r->there = true;
		r->dedicated = (n + c - 2) * bytes / d;
		r->colocated = (n - k) * bytes / d;
		weigh(r, a->n + a->c - 2, a->n - a->k);
	} else {
		r->there = a->c > 0;
		r->colocated = bytes / c;
		r->weight[1] = 1;
	}
}

static void work_out(const struct asked *a, enum way way, double bytes, struct row *r)
{
	double n = a->n, load;

	*r = (struct row){0};
	if (way == ALLREDUCE) {
		r->there = true;
		r->by_worker = 2 * (n - 1) / n * bytes;
		r->time = r->by_worker / a->bandwidth;
		return;
	}
	share(a, way, bytes, r);
	if (!r->there)
		return;
	if (r->dedicated > 0)
		r->by_dedicated = n * r->dedicated;
	if (r->colocated > 0)
		r->by_colocated = bytes - r->colocated + (n - 1) * r->colocated;
	r->by_worker =
		r->colocated > 0 && a->c == a->n ? 0 : bytes; /* there is none that only works */
	load = most(most(r->by_dedicated, r->by_colocated), r->by_worker);
	r->time = load / a->bandwidth;
}

/* The fastest; of equals the one that needs least. */
static int best_of(const struct row *r)
{
	int best = ALLREDUCE, w;

	for (w = 0; w < WAYS; w++)
		if (r[w].there && r[w].time < r[best].time * (1 - 1e-12))
			best = w;
	return best;
}

/* ---- output ---- */

static void print_head(const struct asked *a)
{
	printf("# %d workers, %d dedicated servers, %d of the workers' machines may serve, too; "
	       "%.4g GB/s each way\n",
	       a->n, a->k, a->c, a->bandwidth);
	printf("# server, split: push and pull at once, bandwidth alone counts; *: best. Of each "
	       "machine: the part that it "
	       "keeps, and what it sends\n");
	printf("# %12s %-10s %12s %11s %9s  %13s %14s  %13s %14s  %14s  %s\n", "size (B)", "way",
	       "time (us)", "x allreduce", "x server", "dedicated (%)", "sends (B)",
	       "colocated (%)", "sends (B)", "worker (B)", "weights");
}

static void print_row(const struct row *r, const struct row *all, size_t bytes, int way, bool best)
{
	char server[16] = "-", weights[32] = "-";
	double m = (double)bytes;

	if (all[SERVER].there)
		snprintf(server, sizeof(server), "%.3f",
			 r->time > 0 ? all[SERVER].time / r->time : 1);
	if (way != ALLREDUCE)
		snprintf(weights, sizeof(weights), "%d:%d", r->weight[0], r->weight[1]);
	printf("%c %12zu %-10s %12.1f %11.3f %9s  %13.2f %14.0f  %13.2f %14.0f  %14.0f  %s\n",
	       best ? '*' : ' ', bytes, names[way], r->time / 1e3,
	       r->time > 0 ? all[ALLREDUCE].time / r->time : 1, server,
	       m > 0 ? r->dedicated / m * 100 : 0, r->by_dedicated,
	       m > 0 ? r->colocated / m * 100 : 0, r->by_colocated, r->by_worker, weights);
}

static void csv_row(FILE *f, const struct asked *a, const struct row *r, size_t bytes, int way,
		    bool best)
{
	fprintf(f, "%d,%d,%d,%zu,%.9g,%s,%.9g,%d,%.9g,%.9g,%.9g,%.9g,%.9g,%d,%d\n", a->n, a->k,
		a->c, bytes, a->bandwidth, names[way], r->time / 1e3, best, r->dedicated,
		r->by_dedicated, r->colocated, r->by_colocated, r->by_worker, r->weight[0],
		r->weight[1]);
}

static json_t *json_row(const struct row *r, size_t bytes, int way, bool best)
{
	return json_pack("{s:I,s:s,s:f,s:b,s:f,s:f,s:f,s:f,s:f,s:[i,i]}", "bytes",
			 (json_int_t)bytes, "way", names[way], "time_us", r->time / 1e3, "best",
			 best, "dedicated_bytes", r->dedicated, "dedicated_sends", r->by_dedicated,
			 "colocated_bytes", r->colocated, "colocated_sends", r->by_colocated,
			 "worker_sends", r->by_worker, "weights", r->weight[0], r->weight[1]);
}

struct out {
	FILE *csv, *json;
	json_t *rows;
};

static int one_size(const struct asked *a, size_t bytes, struct out *out)
{
	struct row r[WAYS];
	int w, best, err = 0;

	for (w = 0; w < WAYS; w++)
		work_out(a, (enum way)w, (double)bytes, &r[w]);
	best = best_of(r);
	for (w = 0; w < WAYS; w++) {
		if (!r[w].there)
			continue;
		print_row(&r[w], r, bytes, w, w == best);
		if (out->csv)
			csv_row(out->csv, a, &r[w], bytes, w, w == best);
		if (out->json)
			err |= json_array_append_new(out->rows,
						     json_row(&r[w], bytes, w, w == best));
	}
	return err ? cli_fail("no memory for the results") : 0;
}

static int open_out(const struct asked *a, struct out *out)
{
	if (a->csv) {
		out->csv = fopen(a->csv, "we");
		if (!out->csv)
			return cli_fail("cannot write %s: %s", a->csv, strerror(errno));
		fprintf(out->csv, "workers,servers,colocated,bytes,gb_s,way,time_us,best,dedicated_"
				  "bytes,dedicated_sends,"
				  "colocated_bytes,colocated_sends,worker_sends,dedicated_weight,"
				  "colocated_weight\n");
	}
	if (a->json) {
		out->json = fopen(a->json, "we");
		if (!out->json)
			return cli_fail("cannot write %s: %s", a->json, strerror(errno));
		out->rows = json_array();
	}
	return 0;
}

static int close_one(FILE *f, const char *path)
{
	int bad = f && ferror(f);

	return f && (fclose(f) || bad) ? cli_fail("cannot write %s", path) : 0;
}

static int close_out(const struct asked *a, struct out *out, int err)
{
	json_t *all = NULL;

	if (out->json && !err) {
		all = json_pack("{s:i,s:i,s:i,s:f,s:O}", "workers", a->n, "servers", a->k,
				"colocated", a->c, "gb_s", a->bandwidth, "results", out->rows);
		if (!all || json_dumpf(all, out->json, JSON_INDENT(1)))
			err = cli_fail("cannot write %s", a->json);
		fputc('\n', out->json);
	}
	json_decref(all);
	json_decref(out->rows);
	err |= close_one(out->csv, a->csv);
	return err | close_one(out->json, a->json);
}

static int print_all(const struct asked *a)
{
	struct out out = {0};
	size_t size, next;
	int err = open_out(a, &out);

	if (!err)
		print_head(a);
	for (size = a->min_bytes; !err; size = next) {
		err = one_size(a, size, &out);
		next = (size_t)((double)size * a->factor);
		next = next > size ? next : size + 1;
		if (next > a->max_bytes)
			break;
	}
	return close_out(a, &out, err);
}

/* ---- the command line ---- */

static const char usage[] =
	"usage: tutti_explain ps [options]\n"
	"How long it takes to push a vector of every worker and pull the sum, with servers of "
	"their own machines,\n"
	"on the workers', or both; and to all-reduce it. See tutti_explain(1).\n"
	"\n"
	"  -n, --workers N        machines that work (default 4)\n"
	"  -k, --servers N        machines that only serve (default 1; 0: none)\n"
	"  -c, --colocated N      workers' machines that may serve, too (default: all)\n"
	"  -b, --minbytes SIZE    smallest vector (default 64M; K, M, G)\n"
	"  -e, --maxbytes SIZE    largest (default: the same)\n"
	"  -f, --stepfactor X     from one size to the next (default 2)\n"
	"      --bw GBPS          GB/s of a machine, each way (default: that between hosts in the "
	"table)\n"
	"  -t, --transport NAME   of the table: verbs or ofi (default: its first, or ofi)\n"
	"  -T, --table FILE       tuning table (default: as TUTTI_TUNE_FILE)\n"
	"      --csv FILE, --json FILE  write the results there too\n"
	"  -h, --help             show this\n"
	"  -V, --version          show the version\n";

enum { OPT_BW = 256, OPT_CSV, OPT_JSON };

static const struct option long_options[] = {
	{"workers", required_argument, NULL, 'n'},   {"servers", required_argument, NULL, 'k'},
	{"colocated", required_argument, NULL, 'c'}, {"minbytes", required_argument, NULL, 'b'},
	{"maxbytes", required_argument, NULL, 'e'},  {"stepfactor", required_argument, NULL, 'f'},
	{"bw", required_argument, NULL, OPT_BW},     {"transport", required_argument, NULL, 't'},
	{"table", required_argument, NULL, 'T'},     {"csv", required_argument, NULL, OPT_CSV},
	{"json", required_argument, NULL, OPT_JSON}, {"help", no_argument, NULL, 'h'},
	{"version", no_argument, NULL, 'V'},	     {0}};

static int parse_one(void *into, int c, char *arg)
{
	struct asked *a = into;

	switch (c) {
	case 'n':
		return cli_integer("-n", arg, 1, MACHINES, &a->n);
	case 'k':
		return cli_integer("-k", arg, 0, MACHINES, &a->k);
	case 'c':
		return cli_integer("-c", arg, 0, MACHINES, &a->c);
	case 'b':
		return cli_bytes("-b", arg, 1, (size_t)1 << 46, &a->min_bytes);
	case 'e':
		return cli_bytes("-e", arg, 1, (size_t)1 << 46, &a->max_bytes);
	case 'f':
		return cli_number("-f", arg, 1.001, 1e6, &a->factor);
	case OPT_BW:
		return cli_number("--bw", arg, 1e-6, 1e6, &a->bandwidth);
	case 't':
		a->transport = arg;
		return tt_link_default(arg) && strcmp(arg, "shm")
			       ? 0
			       : cli_fail("-t: verbs or ofi, not '%s'", arg);
	case 'T':
		a->table = arg;
		return 0;
	case OPT_CSV:
		a->csv = arg;
		return 0;
	default:
		a->json = arg;
		return 0;
	}
}

/* 0, 1: done, or negative. */
static int parse(struct asked *a, int argc, char **argv)
{
	static const struct cli cli = {cli_prog,     usage,	":n:k:c:b:e:f:t:T:hV",
				       long_options, parse_one, "ps"};
	int err;

	*a = (struct asked){.n = 4, .k = 1, .c = -1, .min_bytes = 64 << 20, .factor = 2};
	err = cli_options(&cli, argc, argv, a);
	if (err)
		return err;
	if (optind < argc)
		return cli_fail("unexpected argument '%s'", argv[optind]);
	if (a->c > a->n)
		return cli_fail("-c: %d of %d workers' machines cannot serve", a->c, a->n);
	a->c = a->c < 0 ? a->n : a->c;
	a->max_bytes = a->max_bytes ? a->max_bytes : a->min_bytes;
	if (a->max_bytes < a->min_bytes)
		return cli_fail("-e %zu is less than -b %zu", a->max_bytes, a->min_bytes);
	return 0;
}

/* The cost of a byte between hosts, from the first table that has it. */
static int find_bandwidth(struct asked *a)
{
	const struct tt_tune *tune = NULL;
	const char *transport = a->transport;
	struct tt_tunes tunes;
	struct tt_env env;
	char path[4096];
	int i, err;

	if (tt_env_load(&env))
		return cli_wrong("%s", tt_fail_text(-EINVAL));
	err = explain_load(a->table ? a->table : env.tune_file.text, &tunes, path, sizeof(path));
	tt_env_free(&env);
	if (err)
		return err;
	for (i = 0; i < tunes.n && !tune; i++)
		if (tunes.tune[i]->nlinks[1])
			tune = tunes.tune[i];
	if (!transport)
		transport = tune ? tune->links[1][0].name : "ofi";
	a->bandwidth = 1 / tt_tune_link(tune, true, transport)->hop.beta;
	tt_tunes_free(&tunes);
	return 0;
}

int explain_ps(int argc, char **argv)
{
	struct asked a;
	int err = parse(&a, argc, argv);

	if (err)
		return cli_end_parsing(cli_prog, err);
	if (a.bandwidth <= 0)
		err = find_bandwidth(&a);
	if (!err)
		err = print_all(&a);
	return cli_end(cli_prog, err);
}
