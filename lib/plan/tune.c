/* SPDX-License-Identifier: BSD-3-Clause */
/* Tuning tables: keeping, finding and using them. tune_file.c reads and writes them. */
#include "lib/plan/tune.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/error.h"

size_t tt_tune_bytes(const struct tt_tune *tune)
{
	return sizeof(*tune) + (size_t)tune->npoints * sizeof(tune->points[0]);
}

void tt_tunes_free(struct tt_tunes *tunes)
{
	int i;

	for (i = 0; i < tunes->n; i++)
		free(tunes->tune[i]);
	free(tunes->tune);
	*tunes = (struct tt_tunes){0};
}

int tt_tunes_put(struct tt_tunes *tunes, struct tt_tune *tune)
{
	struct tt_tune **more;
	int i;

	for (i = 0; i < tunes->n; i++)
		if (!strcmp(tunes->tune[i]->hosts, tune->hosts) &&
		    tunes->tune[i]->nranks == tune->nranks) {
			free(tunes->tune[i]);
			tunes->tune[i] = tune;
			return 0;
		}
	more = realloc(tunes->tune, ((size_t)tunes->n + 1) * sizeof(struct tt_tune *));
	if (!more)
		return tt_fail(-ENOMEM, "no memory for %d tuning tables", tunes->n + 1);
	tunes->tune = more;
	tunes->tune[tunes->n++] = tune;
	return 0;
}

const struct tt_tune *tt_tunes_find(const struct tt_tunes *tunes, const char *hosts, int nranks)
{
	const struct tt_tune *found = NULL, *t;
	int i;

	for (i = 0; i < tunes->n; i++) {
		t = tunes->tune[i];
		if (strcmp(t->hosts, hosts) != 0)
			continue;
		if (t->nranks == nranks)
			return t;
		found = found ? found : t;
	}
	return found;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

int tt_tune_hosts(const char **names, int n, char *hosts, size_t size)
{
	size_t used = 0;
	int i, len;

	qsort(names, (size_t)n, sizeof(*names), by_name);
	hosts[0] = 0;
	for (i = 0; i < n; i++) {
		len = snprintf(hosts + used, size - used, "%s%s", i ? "," : "", names[i]);
		if (len < 0 || (size_t)len >= size - used)
			return tt_fail(-EINVAL,
				       "the names of %d hosts are too long for a tuning table", n);
		used += (size_t)len;
	}
	return 0;
}

struct tt_tune *tt_tune_add(struct tt_tune *tune, const struct tt_point *point)
{
	struct tt_tune *more = NULL;

	if (tune->npoints < TT_TUNE_POINTS)
		more = realloc(tune, tt_tune_bytes(tune) + sizeof(*point));
	if (!more) {
		free(tune);
		return NULL;
	}
	more->points[more->npoints++] = *point;
	return more;
}

const struct tt_link_costs *tt_tune_link(const struct tt_tune *tune, bool between,
					 const char *transport)
{
	const char *wrapped =
		strrchr(transport, ':'); /* a wrapped transport costs as much as the inner one */
	const struct tt_link_costs *costs;
	int i;

	transport = wrapped ? wrapped + 1 : transport;
	for (i = 0; tune && i < tune->nlinks[between]; i++)
		if (!strcmp(tune->links[between][i].name, transport))
			return &tune->links[between][i];
	costs = tt_link_default(transport);
	return costs ? costs : tt_link_default("ofi");
}

void tt_model_by_table(const struct tt_chooser_params *p, struct tt_model *model)
{
	const struct tt_tune *t = p->tune;

	tt_model_of(model, &p->layout, tt_tune_link(t, false, p->inside),
		    tt_tune_link(t, true, p->between));
	if (t && t->gamma > 0)
		model->gamma = t->gamma;
	if (t && t->copy > 0)
		model->copy = t->copy;
}

int tt_chooser_by_table(const struct tt_chooser_params *p, struct tt_chooser **chooser)
{
	const struct tt_tune *t = p->tune;
	struct tt_model model, levels;
	int err;

	tt_model_by_table(p, &model);
	levels = model;
	if (p->layout.hosts == 1 && p->layout.numa > 1)
		tt_model_numa(&model, &p->layout, &levels);
	err = tt_chooser_new(p->rules, p->chunk, p->lanes, &model, chooser);
	if (!err)
		tt_chooser_levels(*chooser, &levels);
	if (err || !t || p->nranks != t->nranks || p->layout.hosts != t->nhosts)
		return err;
	err = tt_chooser_measured(*chooser, t->points, t->npoints, p->nranks);
	if (err)
		tt_chooser_free(*chooser);
	return err;
}

int tt_tune_path(const char *value, char *path, size_t size)
{
	const char *config = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
	int len = 0;

	path[0] = 0;
	if (!strcmp(value, "none"))
		return 0;
	if (*value)
		len = snprintf(path, size, "%s", value);
	else if (config && *config)
		len = snprintf(path, size, "%s/tutti/tune.json", config);
	else if (home && *home)
		len = snprintf(path, size, "%s/.config/tutti/tune.json", home);
	if (len < 0 || (size_t)len >= size)
		return tt_fail(-ENAMETOOLONG, "the name of the tuning table is too long");
	return 0;
}
