/* SPDX-License-Identifier: BSD-3-Clause */
/* Prints the results as a table, CSV and JSON. */
#include <errno.h>
#include <jansson.h>
#include <string.h>

#include "tools/sim/sim.h"
#include "tools/values.h"

void sim_print_head(const struct options *opt)
{
	const struct tt_model *m = &opt->model;

	printf("# %s, simulated: alpha %g us, %g GB/s a port, reducing %g GB/s, overhead %g us\n",
	       tt_coll_name(opt->coll), m->link[TT_LEVEL_LEAF].alpha / 1e3,
	       1 / m->link[TT_LEVEL_LEAF].beta, 1 / m->gamma, m->overhead / 1e3);
	printf("# %9s %13s %-20s %14s %10s %10s %13s %-10s\n", "ranks", "size (B)", "algorithm",
	       "time (us)", "algbw", "busbw", "messages", "method");
}

void sim_print_row(const struct point *p)
{
	printf("  %9d %13zu %-20s %14.2f %10.3f %10.3f %13llu %-10s\n", p->nranks, p->bytes,
	       p->alg->name, p->result.last / 1e3, p->algbw, p->busbw,
	       (unsigned long long)p->result.messages,
	       p->result.recurrence ? "recurrence" : "events");
	fflush(stdout);
}

/* The fastest of the points that share ranks and size with one; of equals the first. */
static const struct point *fastest(const struct points *points, const struct point *one)
{
	const struct point *p, *best = NULL;

	for (p = points->p; p < points->p + points->n; p++)
		if (p->nranks == one->nranks && p->bytes == one->bytes &&
		    (!best || p->result.last < best->result.last))
			best = p;
	return best;
}

void sim_print_crossovers(const struct points *points)
{
	const struct point *p, *best, *last = NULL;
	int changes = 0;

	for (p = points->p; p < points->p + points->n; p++) {
		best = fastest(points, p);
		if (best == last)
			continue;
		if (!last || best->alg != last->alg || best->nranks < last->nranks) {
			changes += last != NULL;
			if (changes || points->n > 1)
				printf("# fastest from %d ranks, %zu bytes: %s\n", best->nranks,
				       best->bytes, best->alg->name);
		}
		last = best;
	}
}

FILE *sim_create(const char *path)
{
	FILE *f = fopen(path, "we");

	if (!f)
		cli_fail("cannot write %s: %s", path, strerror(errno));
	return f;
}

int sim_finish(FILE *f, const char *path)
{
	int bad = ferror(f);

	if (fclose(f) || bad)
		return cli_fail("cannot write %s", path);
	return 0;
}

int sim_write_csv(const struct points *points, const char *path)
{
	FILE *f = sim_create(path);
	const struct point *p;

	if (!f)
		return -1;
	fprintf(f,
		"ranks,bytes,algorithm,time_us,first_us,algbw,busbw,messages,sent_bytes,method\n");
	for (p = points->p; p < points->p + points->n; p++)
		fprintf(f, "%d,%zu,%s,%.9g,%.9g,%.9g,%.9g,%llu,%llu,%s\n", p->nranks, p->bytes,
			p->alg->name, p->result.last / 1e3, p->result.first / 1e3, p->algbw,
			p->busbw, (unsigned long long)p->result.messages,
			(unsigned long long)p->result.bytes,
			p->result.recurrence ? "recurrence" : "events");
	return sim_finish(f, path);
}

json_t *sim_json_model(const struct tt_model *m)
{
	return json_pack("{s:[f,f,f],s:[f,f,f],s:f,s:f,s:i,s:i,s:i,s:f,s:i,s:f,s:f,s:f,s:I}",
			 "alpha_us", m->link[TT_LEVEL_LEAF].alpha / 1e3,
			 m->link[TT_LEVEL_FAR].alpha / 1e3, m->link[TT_LEVEL_HOST].alpha / 1e3,
			 "bw_gbps", 1 / m->link[TT_LEVEL_LEAF].beta, 1 / m->link[TT_LEVEL_FAR].beta,
			 1 / m->link[TT_LEVEL_HOST].beta, "gamma_gbps", 1 / m->gamma, "overhead_us",
			 m->overhead / 1e3, "ranks_per_host", m->ranks_per_host, "hosts_per_leaf",
			 m->hosts_per_leaf, "rails", m->rails, "oversub", m->oversub, "straggler",
			 m->straggler, "straggler_delay_us", m->straggler_delay / 1e3,
			 "straggler_factor", m->straggler_factor, "jitter_us", m->jitter / 1e3,
			 "seed", (json_int_t)m->seed);
}

int sim_write_json_to(const char *path, json_t *all)
{
	FILE *f = sim_create(path);
	int err;

	if (!f || !all) {
		json_decref(all);
		return f ? (fclose(f), cli_fail("no memory for %s", path)) : -1;
	}
	err = json_dumpf(all, f, JSON_INDENT(1));
	fputc('\n', f);
	json_decref(all);
	return sim_finish(f, path) || err ? -1 : 0;
}

int sim_write_json(const struct options *opt, const struct points *points, const char *path)
{
	json_t *rows = json_array(), *all;
	const struct point *p;

	for (p = points->p; p < points->p + points->n; p++)
		json_array_append_new(
			rows, json_pack("{s:i,s:I,s:s,s:f,s:f,s:f,s:f,s:I,s:I,s:s}", "ranks",
					p->nranks, "bytes", (json_int_t)p->bytes, "algorithm",
					p->alg->name, "time_us", p->result.last / 1e3, "first_us",
					p->result.first / 1e3, "algbw", p->algbw, "busbw", p->busbw,
					"messages", (json_int_t)p->result.messages, "sent_bytes",
					(json_int_t)p->result.bytes, "method",
					p->result.recurrence ? "recurrence" : "events"));
	all = json_pack("{s:s,s:o,s:o}", "collective", tt_coll_name(opt->coll), "model",
			sim_json_model(&opt->model), "results", rows);
	return sim_write_json_to(path, all);
}
