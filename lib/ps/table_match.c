/* SPDX-License-Identifier: BSD-3-Clause */
/* Whether all ranks make the same table; if not, which rank differs, and in what. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/hash.h"
#include "lib/engine/vote.h"
#include "lib/ps/ps.h"

#define WORDS 30
#define TEXT 8 /* words of a text */

enum kind { NUMBER, REAL, NAME, FORM, DATATYPE, CODEC, PUBLISH };

/* A word that must be equal on all ranks. */
struct word {
	const char *name;
	enum kind kind;
	uint64_t value;
};

static uint64_t bits_of(double x)
{
	uint64_t bits;

	memcpy(&bits, &x, sizeof(bits));
	return bits;
}

static uint64_t hash_name(const char *name)
{
	uint64_t h = 0;

	for (; *name; name++)
		h = tt_hash_add(h, (uint64_t)(unsigned char)*name);
	return h;
}

static uint64_t hash_codec(const struct tutti_codec *codec)
{
	return codec ? tt_codec_hash(codec) : 0;
}

static void describe(const struct tutti_ps_table *t, struct word word[WORDS])
{
	const struct tutti_ps_options *o = &t->opt;
	const struct word all[WORDS] = {{"name", NAME, hash_name(t->name)},
					{"kind", FORM, t->rows},
					{"datatype", DATATYPE, (uint64_t)t->datatype},
					{"count", NUMBER, t->count},
					{"width", NUMBER, t->width},
					{"rule", NUMBER, (uint64_t)o->rule},
					{"combine", NUMBER, (uint64_t)o->combine},
					{"init", NUMBER, (uint64_t)o->init},
					{"rate", REAL, bits_of(o->rate)},
					{"momentum", REAL, bits_of(o->momentum)},
					{"beta1", REAL, bits_of(o->beta1)},
					{"beta2", REAL, bits_of(o->beta2)},
					{"epsilon", REAL, bits_of(o->epsilon)},
					{"weight_decay", REAL, bits_of(o->weight_decay)},
					{"init_a", REAL, bits_of(o->init_a)},
					{"init_b", REAL, bits_of(o->init_b)},
					{"seed", NUMBER, o->seed},
					{"block", NUMBER, o->block},
					{"softsync", NUMBER, (uint64_t)o->softsync},
					{"staleness_aware", NUMBER, (uint64_t)o->staleness_aware},
					{"essp", NUMBER, (uint64_t)o->essp},
					{"n_fetch", NUMBER, (uint64_t)o->n_fetch},
					{"n_push", NUMBER, (uint64_t)o->n_push},
					{"threads", NUMBER, (uint64_t)o->threads},
					{"budget", REAL, bits_of(o->budget)},
					{"codec", CODEC, hash_codec(o->codec)},
					{"significance", REAL, bits_of(o->significance)},
					{"flush", NUMBER, (uint64_t)o->flush},
					{"versions", NUMBER, (uint64_t)o->versions},
					{"publish", PUBLISH, hash_codec(o->publish)}};

	memcpy(word, all, sizeof(all));
}

static uint64_t fingerprint(const struct tutti_ps_table *t)
{
	struct word word[WORDS];
	uint64_t h = 0;
	int i;

	describe(t, word);
	for (i = 0; i < WORDS; i++)
		h = tt_hash_add(h, word[i].value);
	return h;
}

bool tt_ps_same_table(const struct tutti_ps_table *a, const struct tutti_ps_table *b)
{
	return fingerprint(a) == fingerprint(b);
}

static const char *name_codec(const struct tutti_codec *codec)
{
	return codec ? tt_codec_label(codec) : "none";
}

static void say_value(const struct tutti_ps_table *t, const struct word *word, char *buf,
		      size_t size)
{
	const char *text = word->kind == NAME	    ? t->name
			   : word->kind == FORM	    ? (t->rows ? "rows" : "dense")
			   : word->kind == DATATYPE ? tutti_datatype_name(t->datatype)
			   : word->kind == CODEC    ? name_codec(t->opt.codec)
						    : name_codec(t->opt.publish);
	double real;

	memcpy(&real, &word->value, sizeof(real));
	if (word->kind == REAL)
		snprintf(buf, size, "%.17g", real);
	else if (word->kind == NUMBER)
		snprintf(buf, size, "%lld", (long long)word->value);
	else
		snprintf(buf, size, "%s", text);
}

/*
 * Rank r's word is not that of rank 0. All ranks have found the same and come here; text: room for
 * what each of them has.
 */
static int blame(struct tutti_comm *comm, const struct tutti_ps_table *like,
		 const struct word *word, int r, char (*text)[TEXT * 8])
{
	char mine[TEXT * 8] = "";
	int err;

	say_value(like, word, mine, sizeof(mine));
	err = tt_exchange(comm, mine, text, TEXT);
	if (err)
		return err;
	return tt_comm_blame_rank(comm, -TUTTI_EMISMATCH, r,
				  "table '%s': rank %d on host %s passes another %s than rank "
				  "%d (%.63s, not %.63s); pass the same on all ranks",
				  like->name, comm->world[r],
				  tt_boot_host(comm->ctx->boot, comm->world[r]), word->name,
				  comm->world[0], text[r], text[0]);
}

/* The fingerprints differ: the first difference from rank 0. */
static int find_difference(struct tutti_comm *comm, const struct tutti_ps_table *like,
			   const struct word *word, const uint64_t *all, char (*text)[TEXT * 8])
{
	int r, i;

	for (r = 1; r < comm->size; r++)
		for (i = 0; i < WORDS; i++)
			if (all[r * WORDS + i] != all[i])
				return blame(comm, like, &word[i], r, text);
	return tt_fail(-TUTTI_EMISMATCH, "table '%s': ranks pass different arguments", like->name);
}

int tt_ps_agree_table(struct tutti_ps *ps, const struct tutti_ps_table *like)
{
	uint64_t both[2] = {fingerprint(like), ~fingerprint(like)}, mine[WORDS], *all;
	char(*text)[TEXT * 8] = NULL;
	struct word word[WORDS];
	int i, err = tutti_allreduce(TUTTI_IN_PLACE, both, 2, TUTTI_UINT64, TUTTI_MAX, ps->coll);

	tt_tell_unable(ps->coll, "making a table", err);
	if (err || both[0] == ~both[1])
		return err;
	describe(like, word);
	for (i = 0; i < WORDS; i++)
		mine[i] = word[i].value;
	all = calloc((size_t)ps->coll->size, sizeof(mine) + sizeof(*text));
	text = all ? (void *)(all + (size_t)ps->coll->size * WORDS) : NULL;
	err = tt_agree(ps->coll, "making a table",
		       all ? 0 : tt_fail(-ENOMEM, "no memory to compare table '%s'", like->name));
	if (!err)
		err = tt_exchange(ps->coll, mine, all, WORDS);
	if (!err)
		err = find_difference(ps->coll, like, word, all, text);
	free(all);
	return err;
}
