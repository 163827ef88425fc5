/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Where the parts of a table lie. A server's memory of it, which workers read:
 *
 *	[directory: a word for each block][slot 0 of all blocks][slot 1 of all blocks]  a slot:
 *	head, encoded copy if the table has them, data
 *
 * so that what is pulled together lies together: among slots that are not read, copies of some MB
 * took a third longer. Then, with essp, a line for each worker. A worker's memory: copies of the
 * servers' directories, one after the other, then, with essp, what they send: see essp_cache.c.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lib/ps/essp/essp.h"
#include "lib/ps/worker/accumulate.h"
#include "lib/topo/topo.h"

static size_t lines(uint64_t bytes)
{
	return (size_t)((bytes + TT_PS_LINE - 1) / TT_PS_LINE * TT_PS_LINE);
}

size_t tt_ps_dir_size(const struct tutti_ps_table *t, int server)
{
	return lines(t->part[server].blocks * sizeof(uint64_t));
}

static size_t blocks_size(const struct tutti_ps_table *t, int server)
{
	return tt_ps_dir_size(t, server) +
	       (size_t)t->part[server].blocks * TT_PS_BLOCK_SLOTS * t->block_pitch;
}

static size_t server_size(const struct tutti_ps_table *t, int server)
{
	return blocks_size(t, server) + (t->opt.essp ? (size_t)t->ps->nworkers * TT_PS_LINE : 0);
}

uint64_t tt_ps_ack_at(const struct tutti_ps_table *t, int server, int worker)
{
	return blocks_size(t, server) + (uint64_t)worker * TT_PS_LINE;
}

uint64_t tt_ps_slot_at(const struct tutti_ps_table *t, int server, uint64_t block, unsigned slot)
{
	return tt_ps_dir_size(t, server) + (slot * t->part[server].blocks + block) * t->block_pitch;
}

uint64_t tt_ps_base_at(const struct tutti_ps_table *t, int server, int copy)
{
	const struct tutti_ps *ps = t->ps;
	int host = tt_ps_host(ps, server, copy), c;
	uint64_t at = 0;

	for (c = 0; c < copy; c++)
		at += server_size(t, (host - c + ps->nservers) % ps->nservers);
	return at;
}

uint64_t tt_ps_hints_at(const struct tutti_ps_table *t, int rank)
{
	int k, n = t->ps->nservers;

	for (k = 0; k < n; k++)
		if (t->ps->server[k] == rank)
			return tt_ps_base_at(t, (k - t->ps->copies + n) % n, t->ps->copies);
	return 0;
}

static int place_dense(struct tutti_ps_table *t)
{
	struct tutti_ps *ps = t->ps;
	uint64_t *begin = malloc(((size_t)ps->nservers + 1) * sizeof(*begin));
	int k;

	if (!begin)
		return tt_fail(-ENOMEM, "no memory for table '%s'", t->name);
	tt_ps_place(ps->load, ps->upto, ps->nservers, t->count, t->elem, begin);
	for (k = 0; k < ps->nservers; k++) {
		t->part[k].begin = begin[k];
		t->part[k].elems = begin[k + 1] - begin[k];
	}
	free(begin);
	return 0;
}

/* A table of few elements has blocks no longer than its parts. */
static int cut(struct tutti_ps_table *t)
{
	uint64_t most = 1, at = 0;
	int k;

	for (k = 0; k < t->ps->nservers; k++)
		if (t->part[k].elems > most)
			most = t->part[k].elems;
	if (t->block_elems > most)
		t->block_elems = most;
	t->coded = t->opt.publish ? lines(tt_codec_bound(t->opt.publish, t->block_elems)) : 0;
	t->block_pitch =
		sizeof(struct tt_ps_head) + t->coded + lines(t->block_elems / t->width * t->pitch);
	for (k = 0; k < t->ps->nservers; k++) {
		t->part[k].blocks = (t->part[k].elems + t->block_elems - 1) / t->block_elems;
		if (t->part[k].blocks > UINT32_MAX) /* lists of blocks have 32-bit entries */
			return tt_fail(-EINVAL,
				       "table '%s' would have %llu blocks on a server, and there "
				       "are at most %u: options.block, %zu bytes, is too small",
				       t->name, (unsigned long long)t->part[k].blocks, UINT32_MAX,
				       t->opt.block);
		t->part[k].hint = at;
		at += tt_ps_dir_size(t, k);
	}
	for (k = 0; t->opt.essp && k < t->ps->nservers; k++) {
		t->part[k].cache = at;
		at += tt_ps_cache_size(t, k);
	}
	t->dirs = at;
	return 0;
}

/* The most elements, up to n, whose encoding is no longer than a message. */
static size_t encodable(const struct tutti_ps_table *t, size_t n)
{
	while (t->coder && n > 1 && tt_codec_bound(t->coder, n) > TT_PS_BLOCK)
		n -= n / 8 + 1;
	return n;
}

/* Encoded or as they are, the rows of a message fit into it. */
static int limit_rows(struct tutti_ps_table *t)
{
	size_t n = tt_ps_rows_fit(t);

	while (n && tt_ps_rows_head(t, n) + tt_codec_bound(t->coder, n * t->width) > TT_PS_BLOCK)
		n -= n / 8 + 1;
	t->coded_rows = n;
	return n ? 0
		 : tt_fail(-EINVAL,
			   "table '%s': the encoding of a row of %zu elements can have %zu bytes, "
			   "and "
			   "a message has %zu; make rows shorter",
			   t->name, t->width, tt_codec_bound(t->coder, t->width), TT_PS_BLOCK);
}

static int lay_out(struct tutti_ps_table *t)
{
	struct tutti_ps *ps = t->ps;
	int k, err = 0;

	t->part = calloc((size_t)ps->nservers, sizeof(*t->part));
	if (!t->part)
		return tt_fail(-ENOMEM, "no memory for table '%s'", t->name);
	t->pitch = t->width * t->elem;
	if (tt_ps_row_versions(t))
		t->pitch = (t->pitch + 7) / 8 * 8 + sizeof(uint64_t);
	t->block_elems = t->opt.block / t->pitch * t->width;
	if (t->rows) {
		t->block_elems = t->block_elems ? t->block_elems : t->width;
		for (k = 0; k < ps->nservers; k++)
			t->part[k].elems =
				tt_ps_key_room(ps->upto, ps->nservers, k, t->count) * t->width;
		err = t->coder ? limit_rows(t) : 0;
	} else if (!t->block_elems) {
		err = tt_fail(-EINVAL,
			      "table '%s': options.block is %zu bytes, and an element has %zu",
			      t->name, t->opt.block, t->elem);
	} else {
		t->block_elems = encodable(t, t->block_elems);
		if (t->coder)
			err = tt_codec_check_bound(t->coder, t->block_elems);
		if (!err)
			err = place_dense(t);
	}
	if (!err)
		err = cut(t);
	if (err)
		return err;
	t->size = t->hints = tt_ps_hints_at(t, ps->comm->rank);
	if (ps->my_worker >= 0)
		t->size += t->dirs * (size_t)ps->copies;
	return 0;
}

/* Units with a version at a server: blocks of a dense table, or rows. */
static uint64_t versions_of(const struct tutti_ps_table *t, int server)
{
	return t->rows ? t->part[server].elems / t->width : t->part[server].blocks;
}

void tt_ps_forget_versions(struct tutti_ps_table *t)
{
	int k;

	for (k = 0; k < t->ps->nservers; k++)
		if (t->track[k].version)
			memset(t->track[k].version, 0, versions_of(t, k) * sizeof(uint32_t));
}

static uint64_t track_size(const struct tutti_ps_table *t)
{
	uint64_t bytes = 0;
	int k;

	for (k = 0; k < t->ps->nservers; k++)
		bytes += t->part[k].blocks * (2 * sizeof(uint64_t) + sizeof(uint32_t)) +
			 versions_of(t, k) * sizeof(uint32_t);
	return bytes;
}

static int track(struct tutti_ps_table *t)
{
	bool versions = !t->rows || tt_ps_row_versions(t);
	int k, err;

	t->track = calloc((size_t)t->ps->nservers, sizeof(*t->track));
	for (k = 0; t->track && k < t->ps->nservers; k++) {
		t->track[k].floor = calloc(t->part[k].blocks + 1, sizeof(uint64_t));
		t->track[k].seen = calloc(t->part[k].blocks + 1, sizeof(uint64_t));
		t->track[k].pending = calloc(t->part[k].blocks + 1, sizeof(uint32_t));
		t->track[k].version =
			versions ? calloc(versions_of(t, k) + 1, sizeof(uint32_t)) : NULL;
		if (!t->track[k].floor || !t->track[k].seen || !t->track[k].pending ||
		    (versions && !t->track[k].version))
			break;
	}
	if (!t->track || k < t->ps->nservers)
		return tt_ps_no_memory(t, track_size(t), 0);
	err = t->opt.n_push > 1 ? tt_ps_sum_new(t, t->count, &t->accrued) : 0;
	if (!err && t->rows && t->opt.n_push > 1)
		err = tt_ps_row_units_new(t, &t->accrued_rows);
	if (!err && t->coder)
		err = tt_ps_feedback_new(t);
	return !err && t->opt.budget > 0 ? tt_ps_budget_new(t) : err;
}

int tt_ps_no_memory(const struct tutti_ps_table *t, uint64_t need, int err)
{
	char why[400];

	if (err && tt_fail_text(err) != tutti_strerror(err))
		snprintf(why, sizeof(why), "%s", tt_fail_text(err));
	else
		snprintf(why, sizeof(why), "%llu bytes are available to this process",
			 (unsigned long long)tt_topo_memory_available());
	return tt_fail(err ? err : -ENOMEM, "table '%s' needs %llu bytes on this rank: %s", t->name,
		       (unsigned long long)need, why);
}

static int get_memory(struct tutti_ps_table *t)
{
	struct tutti_ps *ps = t->ps;
	int err, c, k;

	err = t->size ? tutti_alloc(ps->comm->ctx, t->size, (void **)&t->mem) : 0;
	if (err)
		return tt_ps_no_memory(t, t->size, err);
	for (c = 0; c < ps->copies && ps->my_server >= 0 && t->mem;
	     c++) { /* a server may have nothing of a small table */
		k = (ps->my_server - c + ps->nservers) % ps->nservers;
		memset(t->mem + tt_ps_base_at(t, k, c), 0, tt_ps_dir_size(t, k));
	}
	for (c = 0; ps->my_worker >= 0 && c < ps->copies; c++)
		for (k = 0; k < ps->nservers; k++)
			memset(t->mem + t->hints + (size_t)c * t->dirs + t->part[k].hint, 0,
			       tt_ps_dir_size(t, k));
	if (ps->my_worker >= 0)
		err = track(t);
	if (!err && ps->my_worker >= 0 && t->opt.essp)
		err = tt_ps_cache_new(t);
	for (c = 0; c < ps->copies && ps->my_server >= 0 && !err; c++)
		err = tt_ps_store_new(t, c);
	return err;
}

/* Significant elements travel as a list: they are not 0. */
static int get_coder(struct tutti_ps_table *t)
{
	if (t->opt.codec)
		t->coder = tt_codec_hold(t->opt.codec);
	else if (t->opt.significance > 0)
		return tt_codec_new("threshold:1e-20", &t->coder);
	return 0;
}

int tt_ps_table_new(struct tutti_ps *ps, const struct tutti_ps_table *like,
		    struct tutti_ps_table **out)
{
	struct tutti_ps_table *t = malloc(sizeof(*t));
	int err;

	if (!t)
		return tt_fail(-ENOMEM, "no memory for a table");
	*t = *like;
	t->magic = TT_PS_TABLE_MAGIC;
	t->ps = ps;
	t->index = ps->ntables;
	t->coder = NULL;
	t->versions = NULL;
	t->coded_rows = 0;
	if (t->opt.publish)
		tt_codec_hold(t->opt.publish);
	err = get_coder(t);
	if (!err)
		err = lay_out(t);
	if (!err)
		err = get_memory(t);
	if (err) {
		tt_ps_table_free(t);
		return err;
	}
	*out = t;
	return 0;
}

void tt_ps_table_free(struct tutti_ps_table *t)
{
	int k;

	for (k = 0; t->track && k < t->ps->nservers; k++) {
		free(t->track[k].floor);
		free(t->track[k].seen);
		free(t->track[k].pending);
		free(t->track[k].version);
	}
	free(t->track);
	tt_ps_sum_free(&t->accrued);
	tt_ps_row_units_free(&t->accrued_rows);
	tt_map_free(&t->fetched);
	tt_ps_budget_free(t);
	tt_ps_feedback_free(t);
	tt_ps_cache_free(t);
	tt_ps_versions_free(t);
	free(t->cache_token);
	free(t->sub_token);
	tt_map_free(&t->places);
	for (k = 0; k < TT_PS_REPLICAS; k++)
		tt_ps_store_free(t->store[k]);
	tutti_free(t->mem);
	free(t->part);
	if (t->coder)
		tt_codec_release(t->coder);
	if (t->opt.publish)
		tt_codec_release(t->opt.publish);
	t->magic = 0;
	free(t);
}
