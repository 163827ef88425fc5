/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads and writes tuning tables. The file is untrusted: every value is checked. */
#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/error.h"
#include "lib/plan/tune.h"

#define FORMAT 1
#define MAX_TABLES 1024
#define NS_MAX 1e15
#define MAX_LANES 32 /* as TUTTI_LANES */
#define MIN_CACHE 4096
#define MAX_CACHE (1ll << 40) /* as TUTTI_CACHE */

static const char *const where[2] = {"inside", "between"};

/* Position in the file, for error texts. */
struct place {
	const char *path;
	int table;
};

static int wrong(const struct place *at, const char *what)
{
	return tt_fail(-EINVAL,
		       "%s: not a valid tuning table: %s in table %d; make one with tutti_tune",
		       at->path, what, at->table);
}

/* A number from lo to NS_MAX. */
static int get_number(const struct place *at, const json_t *object, const char *key, double lo,
		      double *value)
{
	const json_t *v = json_object_get(object, key);
	char text[96];

	if (json_is_number(v) && isfinite(json_number_value(v)) && json_number_value(v) >= lo &&
	    json_number_value(v) <= NS_MAX) {
		*value = json_number_value(v);
		return 0;
	}
	snprintf(text, sizeof(text), "%s is missing or out of range", key);
	return wrong(at, text);
}

static int get_int(const struct place *at, const json_t *object, const char *key, int lo, int hi,
		   int *value)
{
	double v;
	int err = get_number(at, object, key, lo, &v);
	char text[96];

	if (err)
		return err;
	if (v > hi || v != floor(v)) {
		snprintf(text, sizeof(text), "%s is not a whole number up to %d", key, hi);
		return wrong(at, text);
	}
	*value = (int)v;
	return 0;
}

static int get_text(const struct place *at, const json_t *object, const char *key, char *text,
		    size_t size)
{
	const char *v = json_string_value(json_object_get(object, key));
	char why[96];

	if (v && strlen(v) < size && *v) {
		snprintf(text, size, "%s", v);
		return 0;
	}
	snprintf(why, sizeof(why), "%s is missing or too long", key);
	return wrong(at, why);
}

static int read_link(const struct place *at, const json_t *object, struct tt_link_costs *link)
{
	int err = get_text(at, object, "transport", link->name, sizeof(link->name));

	if (!err)
		err = get_number(at, object, "alpha_ns", 0, &link->hop.alpha);
	if (!err)
		err = get_number(at, object, "beta_ns_per_byte", 1e-9, &link->hop.beta);
	return err ? err : get_number(at, object, "overhead_ns", 0, &link->overhead);
}

static int read_links(const struct place *at, const json_t *table, int which, struct tt_tune *tune)
{
	const json_t *list = json_object_get(table, where[which]);
	size_t i;
	int err = 0;

	if (!json_is_array(list) || json_array_size(list) > TT_TUNE_LINKS)
		return wrong(at, "the list of transports is missing or too long");
	for (i = 0; !err && i < json_array_size(list); i++)
		err = read_link(at, json_array_get(list, i), &tune->links[which][i]);
	tune->nlinks[which] = (int)json_array_size(list);
	return err;
}

static int read_point(const struct place *at, const json_t *object, struct tt_point *point)
{
	char coll[32];
	double bytes = 0;
	int err;

	err = get_text(at, object, "collective", coll, sizeof(coll));
	if (!err)
		err = get_text(at, object, "algorithm", point->algo, sizeof(point->algo));
	if (!err)
		err = get_number(at, object, "bytes", 0, &bytes);
	if (!err)
		err = get_number(at, object, "ns", 1, &point->time);
	point->lanes = 0;
	if (!err && json_object_get(object, "lanes"))
		err = get_int(at, object, "lanes", 1, MAX_LANES, &point->lanes);
	if (err)
		return err;
	if (tt_coll_find(coll, &point->coll, NULL))
		return wrong(at, "unknown collective");
	point->bytes = (size_t)bytes;
	return 0;
}

static int read_points(const struct place *at, const json_t *table, struct tt_tune **tune)
{
	const json_t *list = json_object_get(table, "measured");
	struct tt_point point = {.ratio = 1};
	size_t i;
	int err;

	if (!json_is_array(list) || json_array_size(list) > TT_TUNE_POINTS)
		return wrong(at, "the list of measured times is missing or too long");
	for (i = 0; i < json_array_size(list); i++) {
		err = read_point(at, json_array_get(list, i), &point);
		if (err)
			return err;
		*tune = tt_tune_add(*tune, &point);
		if (!*tune)
			return tt_fail(-ENOMEM, "no memory for a tuning table");
	}
	return 0;
}

/* Tables of a job on several hosts have none, nor have older ones. */
static int read_cache(const struct place *at, const json_t *table, size_t *cache)
{
	const json_t *v = json_object_get(table, "cache_bytes");
	double bytes = json_number_value(v);
	char *text, why[128];

	if (!v)
		return 0;
	if (bytes >= MIN_CACHE && bytes <= MAX_CACHE) {
		*cache = (size_t)bytes;
		return 0;
	}
	text = json_dumps(v, JSON_ENCODE_ANY);
	snprintf(why, sizeof(why), "cache_bytes is %.24s; it must be from %d to %lld, or missing,",
		 text ? text : "?", MIN_CACHE, MAX_CACHE);
	free(text);
	return wrong(at, why);
}

static int read_table(const struct place *at, const json_t *table, struct tt_tune **out)
{
	struct tt_tune *t = calloc(1, sizeof(*t));
	const char *c;
	int err;

	if (!t)
		return tt_fail(-ENOMEM, "no memory for a tuning table");
	err = get_text(at, table, "hosts", t->hosts, sizeof(t->hosts));
	if (!err)
		err = get_int(at, table, "ranks", 1, 1 << 24, &t->nranks);
	if (!err)
		err = get_number(at, table, "gamma_ns_per_byte", 0, &t->gamma);
	if (!err)
		err = get_number(at, table, "copy_ns_per_byte", 0, &t->copy);
	if (!err)
		err = read_cache(at, table, &t->cache);
	if (!err)
		err = read_links(at, table, 0, t);
	if (!err)
		err = read_links(at, table, 1, t);
	for (t->nhosts = 1, c = t->hosts; *c; c++)
		t->nhosts += *c == ',';
	if (!err)
		err = read_points(at, table, &t);
	if (err)
		free(t);
	else
		*out = t;
	return err;
}

static int read_tables(const char *path, const json_t *root, struct tt_tunes *tunes)
{
	const json_t *list = json_object_get(root, "tables");
	struct place at = {.path = path};
	struct tt_tune *tune = NULL;
	size_t i;
	int err = 0;

	if (json_integer_value(json_object_get(root, "tutti_tune")) != FORMAT)
		return tt_fail(
			-EINVAL,
			"%s: not a tuning table of this version: need \"tutti_tune\": %d; make "
			"one with tutti_tune",
			path, FORMAT);
	if (!json_is_array(list) || json_array_size(list) > MAX_TABLES)
		return tt_fail(-EINVAL,
			       "%s: not a valid tuning table: needs a list of at most %d tables",
			       path, MAX_TABLES);
	for (i = 0; !err && i < json_array_size(list); i++) {
		at.table = (int)i + 1;
		err = read_table(&at, json_array_get(list, i), &tune);
		if (err)
			break;
		err = tt_tunes_put(tunes, tune);
		if (err)
			free(tune);
	}
	if (err)
		tt_tunes_free(tunes);
	return err;
}

int tt_tunes_load(const char *path, struct tt_tunes *tunes)
{
	FILE *f = fopen(path, "re");
	json_error_t why;
	json_t *root;
	int err;

	*tunes = (struct tt_tunes){0};
	if (!f)
		return tt_fail(-errno, "cannot read the tuning table %s: %s", path,
			       strerror(errno));
	root = json_loadf(f, 0, &why);
	fclose(f);
	if (!root)
		return tt_fail(
			-EINVAL,
			"%s: not a valid tuning table: %s at line %d; make one with tutti_tune",
			path, why.text, why.line);
	err = read_tables(path, root, tunes);
	json_decref(root);
	return err;
}

/* ---- writing ---- */

static json_t *links_json(const struct tt_tune *t, int which)
{
	const struct tt_link_costs *l = t->links[which];
	json_t *list = json_array();
	int i;

	for (i = 0; i < t->nlinks[which]; i++)
		json_array_append_new(list,
				      json_pack("{s:s, s:f, s:f, s:f}", "transport", l[i].name,
						"alpha_ns", l[i].hop.alpha, "beta_ns_per_byte",
						l[i].hop.beta, "overhead_ns", l[i].overhead));
	return list;
}

static json_t *table_json(const struct tt_tune *t)
{
	const struct tt_point *p;
	json_t *list = json_array(), *point, *table;

	for (p = t->points; p < t->points + t->npoints; p++) {
		point = json_pack("{s:s, s:s, s:I, s:f}", "collective", tt_coll_name(p->coll),
				  "algorithm", p->algo, "bytes", (json_int_t)p->bytes, "ns",
				  p->time);
		if (p->lanes)
			json_object_set_new(point, "lanes", json_integer(p->lanes));
		json_array_append_new(list, point);
	}
	table = json_pack("{s:s, s:i, s:f, s:f, s:o, s:o, s:o}", "hosts", t->hosts, "ranks",
			  t->nranks, "gamma_ns_per_byte", t->gamma, "copy_ns_per_byte", t->copy,
			  where[0], links_json(t, 0), where[1], links_json(t, 1), "measured", list);
	if (table && t->cache)
		json_object_set_new(table, "cache_bytes", json_integer((json_int_t)t->cache));
	return table;
}

int tt_tunes_save(const char *path, const struct tt_tunes *tunes)
{
	json_t *list = json_array(), *root;
	char temp[4096];
	int i, err = 0;
	FILE *f;

	for (i = 0; i < tunes->n; i++)
		json_array_append_new(list, table_json(tunes->tune[i]));
	root = json_pack("{s:i, s:o}", "tutti_tune", FORMAT, "tables", list);
	if (!root)
		return tt_fail(-ENOMEM, "no memory to write %s", path);
	i = snprintf(temp, sizeof(temp), "%s.%d", path, (int)getpid());
	f = i > 0 && (size_t)i < sizeof(temp) ? fopen(temp, "we") : NULL;
	if (!f)
		err = -errno;
	else if (json_dumpf(root, f, JSON_INDENT(1)) || ferror(f))
		err = -EIO;
	if (f && fclose(f) && !err)
		err = -errno;
	if (!err && rename(temp, path))
		err = -errno;
	json_decref(root);
	if (!err)
		return 0;
	if (f)
		unlink(temp);
	return tt_fail(err, "cannot write the tuning table %s: %s", path, strerror(-err));
}
