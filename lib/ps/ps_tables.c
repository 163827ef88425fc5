/* SPDX-License-Identifier: BSD-3-Clause */
/* The parameter server's tables, made collectively. */
#include "lib/ps/essp/essp.h"

#include <errno.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lib/ps/ps_open.h"
#include "lib/rules/rule_numbers.h"

/* Two blocks: one travels while the server applies the other. */
#define WINDOW ((size_t)512 << 10)

static void defaults(struct tutti_ps_options *o, bool rows)
{
	tt_rule_defaults(o);
	if (!o->block)
		o->block = rows ? TT_PS_ROW_BLOCK : TT_PS_BLOCK;
}

static bool is_float(enum tutti_datatype type)
{
	return type == TUTTI_FLOAT16 || type == TUTTI_BFLOAT16 || type == TUTTI_FLOAT32 ||
	       type == TUTTI_FLOAT64;
}

static bool is_integer(enum tutti_datatype type)
{
	return type < TUTTI_BOOL && type != TUTTI_INT16 && type != TUTTI_UINT16;
}

/* ---- initial values ---- */

/* The largest number that a value can be. */
static double largest(enum tutti_datatype type)
{
	static const double most[] = {[TUTTI_INT8] = INT8_MAX,
				      [TUTTI_UINT8] = UINT8_MAX,
				      [TUTTI_INT32] = INT32_MAX,
				      [TUTTI_UINT32] = UINT32_MAX,
				      [TUTTI_INT64] = 0x1.fffffffffffffp62,
				      [TUTTI_UINT64] = 0x1.fffffffffffffp63,
				      [TUTTI_FLOAT16] = 65504,
				      [TUTTI_BFLOAT16] = 0x1.FEp127,
				      [TUTTI_FLOAT32] = FLT_MAX,
				      [TUTTI_FLOAT64] = DBL_MAX};

	return most[type];
}

static double lowest(enum tutti_datatype type)
{
	switch (type) {
	case TUTTI_UINT8:
	case TUTTI_UINT32:
	case TUTTI_UINT64:
		return 0;
	default:
		return -largest(type);
	}
}

static int check_init(const struct tutti_ps_options *o, enum tutti_datatype type)
{
	double low = lowest(type), high = largest(type);
	bool b = o->init == TUTTI_PS_UNIFORM;

	if (!isfinite(o->init_a) || !isfinite(o->init_b))
		return tt_fail(
			-EINVAL,
			"a table's options: init_a and init_b are %g and %g; they must be finite",
			o->init_a, o->init_b);
	if (o->init != TUTTI_PS_CONSTANT && o->init != TUTTI_PS_UNIFORM &&
	    o->init != TUTTI_PS_NORMAL)
		return 0;
	if (o->init_a < low || o->init_a > high || (b && (o->init_b < low || o->init_b > high)))
		return tt_fail(-EINVAL,
			       "a table's options: %s is %g, and values of %s are %g to %g",
			       o->init_a < low || o->init_a > high ? "init_a" : "init_b",
			       o->init_a < low || o->init_a > high ? o->init_a : o->init_b,
			       tt_datatype_name(type), low, high);
	if (b && !(o->init_a < o->init_b && o->init_b - o->init_a <= DBL_MAX))
		return tt_fail(
			-EINVAL,
			"a table's options: init_a is %g and init_b %g; uniform values are in "
			"[init_a, init_b), which is empty or too wide",
			o->init_a, o->init_b);
	if (o->init == TUTTI_PS_NORMAL && !(o->init_b >= 0 && o->init_b <= high))
		return tt_fail(-EINVAL,
			       "a table's options: init_b is %g; as a standard deviation it must "
			       "be 0 to %g",
			       o->init_b, high);
	return 0;
}

static int check_numbers(const struct tutti_ps_options *o, enum tutti_datatype type)
{
	int err = tt_rule_check("a table's options", o, type);

	if (!err && o->block > TT_PS_BLOCK)
		err = tt_fail(-EINVAL,
			      "a table's options: block is %zu bytes; there are at most %zu",
			      o->block, TT_PS_BLOCK);
	if (!err && (o->staleness_aware & ~1))
		err = tt_fail(-EINVAL,
			      "a table's options: staleness_aware is %d; it must be 0 or 1",
			      o->staleness_aware);
	if (!err && (o->essp & ~1))
		err = tt_fail(-EINVAL, "a table's options: essp is %d; it must be 0 or 1", o->essp);
	return err ? err : check_init(o, type);
}

static int check_options(const struct tutti_ps *ps, const struct tutti_ps_options *o,
			 enum tutti_datatype type)
{
	if ((unsigned)o->rule >= TUTTI_PS_NUM_RULES ||
	    (unsigned)o->combine >= TUTTI_PS_NUM_COMBINES ||
	    (unsigned)o->init >= TUTTI_PS_NUM_INITIALS)
		return tt_fail(-EINVAL, "a table's options: there is no %s of that number",
			       (unsigned)o->rule >= TUTTI_PS_NUM_RULES	    ? "rule"
			       : (unsigned)o->init >= TUTTI_PS_NUM_INITIALS ? "init"
									    : "combine");
	if (o->rule >= TUTTI_PS_SGD && o->rule <= TUTTI_PS_ADAMW && !is_float(type))
		return tt_fail(-EINVAL, "a table's options: rule %s is for floats, not %s",
			       tt_rule_name(o->rule), tt_datatype_name(type));
	if (o->combine && ps->staleness)
		return tt_fail(-EINVAL,
			       "a table's options: pushes can be combined with staleness 0 "
			       "only, and it is %d",
			       ps->staleness);
	if (o->rule == TUTTI_PS_CALLBACK && !o->update && ps->my_server >= 0)
		return tt_fail(-EINVAL, "a table's options: update is NULL");
	if (o->init == TUTTI_PS_FILL && !o->fill && ps->my_server >= 0)
		return tt_fail(-EINVAL, "a table's options: fill is NULL");
	return 0;
}

/* How pushes are grouped and weighted, and how often they go. */
static int check_modes(const struct tutti_ps *ps, const struct tutti_ps_table *t)
{
	const struct tutti_ps_options *o = &t->opt;

	if (o->softsync < 0 || (o->softsync > ps->nworkers && !t->moved))
		return tt_fail(-EINVAL,
			       "a table's options: softsync is %d, and there are %d workers",
			       o->softsync, ps->nworkers);
	if (o->softsync && ps->staleness >= 0)
		return tt_fail(-EINVAL,
			       "a table's options: softsync is for TUTTI_PS_ASYNC, and the "
			       "staleness is %d",
			       ps->staleness);
	if (o->staleness_aware && ps->staleness == 0)
		return tt_fail(
			-EINVAL,
			"a table's options: staleness_aware is for a staleness other than 0");
	if (o->staleness_aware && o->rule != TUTTI_PS_SUM && o->rule != TUTTI_PS_SGD &&
	    o->rule != TUTTI_PS_MOMENTUM && o->rule != TUTTI_PS_NESTEROV)
		return tt_fail(-EINVAL,
			       "a table's options: staleness_aware divides the rate, which rule %s "
			       "does not allow",
			       tt_rule_name(o->rule));
	if (o->staleness_aware && !is_float(t->datatype))
		return tt_fail(-EINVAL, "a table's options: staleness_aware is for floats, not %s",
			       tt_datatype_name(t->datatype));
	if (o->n_fetch < 0 || o->n_push < 0)
		return tt_fail(-EINVAL,
			       "a table's options: n_fetch and n_push are %d and %d; they can't be "
			       "negative",
			       o->n_fetch, o->n_push);
	if (o->essp && ps->backup)
		return tt_fail(-EINVAL, "a table's options: essp is not for backup workers");
	if (o->threads < 0 || o->threads > TT_PS_THREADS)
		return tt_fail(-EINVAL, "a table's options: threads is %d; it must be 0 to %d",
			       o->threads, TT_PS_THREADS);
	if (o->n_push > 1 && o->rule == TUTTI_PS_ASSIGN)
		return tt_fail(
			-EINVAL,
			"a table's options: n_push adds updates up, and rule assign does not");
	if (!(o->budget >= 0) || !isfinite(o->budget) ||
	    (o->budget > 0 && (o->n_push > 1 || o->rule == TUTTI_PS_ASSIGN)))
		return tt_fail(-EINVAL,
			       "a table's options: budget is %g; it is bytes per second, not for "
			       "rule assign, "
			       "and not with n_push",
			       o->budget);
	return 0;
}

static int check_codec_table(const struct tutti_ps_table *t, const char *what)
{
	const struct tutti_ps_options *o = &t->opt;

	if (t->datatype != TUTTI_FLOAT32)
		return tt_fail(-EINVAL, "a table's options: %s is for tables of float32, not %s",
			       what, tt_datatype_name(t->datatype));
	if (o->rule == TUTTI_PS_ASSIGN)
		return tt_fail(-EINVAL,
			       "a table's options: %s adds up what it holds back, and rule assign "
			       "does not",
			       what);
	if (o->codec && o->significance > 0 && tt_codec_states(o->codec) > 1)
		return tt_fail(
			-EOPNOTSUPP,
			"a table's options: significance is not possible with %s yet; set one "
			"of the two",
			what);
	return 0;
}

static int check_codec(const struct tutti_ps_table *t)
{
	const struct tutti_ps_options *o = &t->opt;
	char what[TUTTI_CODEC_NAME_MAX + 16] = "significance";
	int choices;

	if (tt_codec_check("a table's options", o->codec))
		return -EINVAL;
	if (o->flush < 0)
		return tt_fail(-EINVAL, "a table's options: flush is %d; it can't be negative",
			       o->flush);
	if (!(o->significance >= 0) || !isfinite(o->significance))
		return tt_fail(-EINVAL,
			       "a table's options: significance is %g; it must be 0 (the default) "
			       "or more, and finite",
			       o->significance);
	if (o->codec && tt_codec_choices(o->codec, &choices))
		return tt_fail(
			-EINVAL,
			"a table's options: codec %s chooses for all-reduces; name one of its "
			"codecs",
			tt_codec_name(o->codec));
	if (o->codec)
		snprintf(what, sizeof(what), "codec %s", tt_codec_name(o->codec));
	if (o->codec || o->significance > 0)
		return check_codec_table(t, what);
	if (o->flush)
		return tt_fail(-EINVAL,
			       "a table's options: flush is %d, without codec and significance",
			       o->flush);
	return 0;
}

/* Copies have no feedback, so they need a codec whose error is bounded for each element. */
static int check_publish(const struct tutti_ps_table *t)
{
	const struct tutti_ps_options *o = &t->opt;
	int err = tt_codec_check("a table's options: publish", o->publish);
	const char *name;

	if (err || !o->publish)
		return err;
	name = tt_codec_name(o->publish);
	if (strcmp(name, "fp16") && strcmp(name, "bf16") && strncmp(name, "fp8:", 4) &&
	    strncmp(name, "int8:", 5))
		return tt_fail(-EINVAL,
			       "a table's options: publish is %s; it must be fp16, bf16, fp8 or "
			       "int8",
			       name);
	if (t->datatype != TUTTI_FLOAT32)
		return tt_fail(-EINVAL,
			       "a table's options: publish is for tables of float32, not %s",
			       tt_datatype_name(t->datatype));
	if (t->rows && o->staleness_aware)
		return tt_fail(-EOPNOTSUPP,
			       "a table's options: publish is not possible for rows with "
			       "staleness_aware yet");
	return 0;
}

static int check_table(struct tutti_ps *ps, const char *name, const struct tutti_ps_options *user,
		       struct tutti_ps_table *like)
{
	static const struct tt_sized sized = TT_SIZED("options", tutti_ps_options, arg);
	struct tutti_ps_options *o = &like->opt;
	char table[TT_PS_NAME + 8];
	uint32_t i;
	int err;

	if (!name || !name[0] || strlen(name) >= TT_PS_NAME)
		return tt_fail(-EINVAL, "a table's name must have 1 to %d characters",
			       TT_PS_NAME - 1);
	if (!like->elem)
		return tt_fail(-EINVAL, "table '%s': %d is not a datatype", name,
			       (int)like->datatype);
	if (!is_float(like->datatype) && !is_integer(like->datatype))
		return tt_fail(-EINVAL,
			       "table '%s': tables hold floats and integers of 8, 32 and 64 bits, "
			       "not %s",
			       name, tt_datatype_name(like->datatype));
	if (!like->count || !like->width ||
	    like->count > (uint64_t)INT64_MAX / like->elem / like->width)
		return tt_fail(-EINVAL, "table '%s': its size is %s", name,
			       like->count && like->width ? "more than memory can hold" : "0");
	if (like->rows && (like->width * like->elem + 16 > TT_PS_BLOCK || like->count > INT32_MAX))
		return tt_fail(-EINVAL,
			       "table '%s': rows have at most %zu bytes, and there are at most %d",
			       name, TT_PS_BLOCK - 16, INT32_MAX);
	for (i = 0; i < ps->ntables && !like->moved; i++) {
		like->moved = !strcmp(ps->table[i]->name, name);
		if (like->moved && !ps->table[i]->moved)
			return tt_fail(-EEXIST, "there is a table '%s' already", name);
	}
	if (!like->moved && ps->ntables == TT_PS_TABLES)
		return tt_fail(-ENOSPC, "there are %d tables already", TT_PS_TABLES);
	if (user) {
		snprintf(table, sizeof(table), "table '%s'", name);
		user = tt_sized_read(&sized, table, user, o);
		if (!user)
			return -EINVAL;
		*o = *user;
	}
	strcpy(like->name, name);
	err = check_options(ps, o, like->datatype);
	if (!err)
		err = check_numbers(o, like->datatype);
	if (!err)
		err = check_modes(ps, like);
	if (!err)
		err = check_codec(like);
	if (!err)
		err = check_publish(like);
	return err ? err : tt_ps_versions_check(like);
}

static void count_load(struct tutti_ps *ps, const struct tutti_ps_table *t)
{
	int k;

	for (k = 0; k < ps->nservers; k++)
		ps->load[k] += t->part[k].elems * t->elem;
}

/*
 * Exchange the tokens of the bells that announce batches (to workers) and acknowledgements (to
 * servers).
 */
static int tell_cache(struct tutti_ps *ps, struct tutti_ps_table *t)
{
	uint64_t mine[1 + TT_PS_REPLICAS] = {t->my_cache};
	size_t n = (size_t)ps->comm->size, r;
	uint64_t *all = calloc(n, sizeof(mine));
	int err, c;

	for (c = 0; c < TT_PS_REPLICAS; c++)
		mine[1 + c] = tt_ps_acks(t, c);

	t->cache_token = calloc(n, sizeof(uint32_t));
	t->sub_token = calloc(n * TT_PS_REPLICAS, sizeof(uint32_t));
	err = tt_agree(ps->coll, "making a table",
		       all && t->cache_token && t->sub_token
			       ? 0
			       : tt_fail(-ENOMEM, "no memory for table '%s'", t->name));
	if (!err)
		err = tt_exchange(ps->coll, mine, all, 1 + TT_PS_REPLICAS);
	for (r = 0; !err && r < n; r++) {
		t->cache_token[r] = (uint32_t)all[(1 + TT_PS_REPLICAS) * r];
		for (c = 0; c < TT_PS_REPLICAS; c++)
			t->sub_token[r * TT_PS_REPLICAS + (size_t)c] =
				(uint32_t)all[(1 + TT_PS_REPLICAS) * r + 1 + (size_t)c];
	}
	free(all);
	return err;
}

/* Under the lock. */
static void set_window(const struct tutti_ps_table *t)
{
	int64_t window = t->ps->comm->ctx->env.priority_window.number;

	if (t->opt.priority)
		t->ps->window = window ? (size_t)window : WINDOW;
}

int tt_ps_make_table(struct tutti_ps *ps, const struct tutti_ps_table *like,
		     struct tutti_ps_table **out)
{
	struct tutti_ps_table *t = NULL;
	int err = tt_agree(ps->coll, "making a table", tt_ps_table_new(ps, like, &t));

	if (!err)
		err = tt_win_make(ps->comm, ps->coll, t->mem, t->size, 0, &t->win);
	if (!err && t->opt.essp)
		err = tell_cache(ps, t);
	if (!err)
		err = tt_ps_versions_open(t);
	if (err) {
		if (t && t->win)
			tt_win_drop(t->win);
		if (t)
			tt_ps_table_free(t);
		return err;
	}
	tt_wire_lock(ps->comm->ctx->wire);
	count_load(ps, t);
	ps->table[ps->ntables] = t;
	atomic_fetch_add(&ps->ntables, 1);
	set_window(t);
	tt_wire_unlock(ps->comm->ctx->wire);
	/* servers know the table before workers use it */
	err = tt_tell_unable(ps->coll, "making a table", tutti_barrier(ps->coll));
	if (!err)
		*out = t;
	return err;
}

struct tutti_ps_table *tt_ps_find(const struct tutti_ps *ps, const char *name)
{
	uint32_t i;

	for (i = 0; i < ps->ntables; i++)
		if (!strcmp(ps->table[i]->name, name))
			return ps->table[i];
	return NULL;
}

/*
 * Make again a table that a resize has moved: only what a new rank lacked (its functions) is added.
 */
static int take_over(struct tutti_ps *ps, const struct tutti_ps_table *like,
		     struct tutti_ps_table **out)
{
	struct tutti_ps_table *t = tt_ps_find(ps, like->name);

	if (t->rows != like->rows || t->count != like->count || t->width != like->width ||
	    t->datatype != like->datatype)
		return tt_fail(
			-EINVAL,
			"table '%s' was made before tutti_ps_resize: %llu %s%s of %s, width %zu",
			t->name, (unsigned long long)t->count, t->rows ? "rows" : "elements",
			t->rows ? "" : ", dense,", tt_datatype_name(t->datatype), t->width);
	if (!tt_ps_same_table(t, like))
		return tt_fail(-EINVAL,
			       "table '%s' was made before tutti_ps_resize, with other options",
			       t->name);
	tt_wire_lock(ps->comm->ctx->wire);
	t->opt.update = like->opt.update;
	t->opt.fill = like->opt.fill;
	t->opt.arg = like->opt.arg;
	t->opt.priority = like->opt.priority;
	set_window(t);
	t->moved = false;
	tt_wire_unlock(ps->comm->ctx->wire);
	*out = t;
	return tt_tell_unable(ps->coll, "making a table", tutti_barrier(ps->coll));
}

int tt_ps_table(struct tutti_ps *ps, const char *name, struct tutti_ps_table *like,
		const struct tutti_ps_options *options, struct tutti_ps_table **out)
{
	int err;

	like->elem = tutti_datatype_size(like->datatype);
	err = check_table(ps, name, options, like);
	if (!err && !out)
		err = tt_fail(-EINVAL, "table '%s': table is NULL", name);
	defaults(&like->opt, like->rows);
	err = tt_agree(ps->coll, "making a table", err);
	if (!err)
		err = tt_ps_agree_table(ps, like);
	if (err)
		return err;
	return like->moved ? take_over(ps, like, out) : tt_ps_make_table(ps, like, out);
}
