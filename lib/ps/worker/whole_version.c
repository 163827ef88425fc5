/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Versions of a dense table as a whole, which one worker writes and all workers read. They are not
 * the published blocks of pulls: a server applies pushes block by block, so its blocks are never
 * all of one version for longer than a moment, while a reader of a version wants all of them.
 *
 * Each server has, in a window of its own beside the table's, `versions` slots for its part:
 *
 *	[stamp of slot 0] ... [stamp of slot K - 1][newest]  a line each; newest: of server 0 alone
 *	[slot 0] ... [slot K - 1]
 *
 * Writing version v, in slot s = v mod K, has five steps, of which each ends, on all servers,
 * before the next begins: read newest, v - 1; stamp of s := 0; data; stamp of s := v; newest := v.
 * Reading has three: newest, v; data of slot v mod K from all servers; all stamps of the slot. If
 * all stamps are v, the data is of version v: newest was v, so all of it was in place before it was
 * read, and a writer of version v + K would first have changed a stamp. Otherwise the reader starts
 * again. It meets that only if K - 1 versions were written while it read one.
 *
 * A writer that dies leaves newest as it was; the next writer uses the same slot again. Servers run
 * nothing, for readers and writers alike.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/clock.h"
#include "lib/engine/vote.h"
#include "lib/ps/ps.h"

struct tt_ps_versions {
	struct tutti_win *win;
	char *mem;	/* of this rank as a server; NULL: none */
	uint64_t *word; /* registered memory for what is read and written: by server, then newest */
};

static size_t lines(uint64_t bytes)
{
	return (size_t)((bytes + TT_PS_LINE - 1) / TT_PS_LINE * TT_PS_LINE);
}

static uint64_t stamp_at(uint64_t slot)
{
	return slot * TT_PS_LINE;
}

static uint64_t newest_at(const struct tutti_ps_table *t)
{
	return stamp_at((uint64_t)t->opt.versions);
}

static uint64_t data_at(const struct tutti_ps_table *t, int server, uint64_t slot)
{
	return newest_at(t) + TT_PS_LINE + slot * lines(t->part[server].elems * t->elem);
}

int tt_ps_versions_check(const struct tutti_ps_table *t)
{
	int n = t->opt.versions;

	if (n < 0 || n == 1 || n > TT_PS_VERSIONS)
		return tt_fail(-EINVAL,
			       "a table's options: versions is %d; it must be 0 (the default), or "
			       "2 to %d",
			       n, TT_PS_VERSIONS);
	if (n && t->rows)
		return tt_fail(-EINVAL, "a table's options: versions is for dense tables");
	return 0;
}

/* Memory of this rank as a server, and for its calls as a worker. */
static int get_memory(struct tutti_ps_table *t, struct tt_ps_versions **out, size_t *size)
{
	struct tutti_ps *ps = t->ps;
	size_t words = ((size_t)ps->nservers + 1) * sizeof(uint64_t);
	struct tt_ps_versions *v;
	int err = 0;

	if (ps->copies > 1)
		return tt_fail(-EOPNOTSUPP,
			       "table '%s': versions is not possible with replicas yet (copies is "
			       "%d)",
			       t->name, ps->copies);
	v = calloc(1, sizeof(*v));
	if (!v)
		return tt_fail(-ENOMEM, "no memory for table '%s'", t->name);
	*out = v;
	if (ps->my_worker >= 0)
		err = tutti_alloc(ps->comm->ctx, words, (void **)&v->word);
	if (err)
		return tt_ps_no_memory(t, words, err);
	if (ps->my_server < 0)
		return 0;
	*size = data_at(t, ps->my_server, (uint64_t)t->opt.versions);
	err = tutti_alloc(ps->comm->ctx, *size, (void **)&v->mem);
	if (err)
		return tt_ps_no_memory(t, *size, err);
	memset(v->mem, 0, data_at(t, ps->my_server, 0));
	return 0;
}

int tt_ps_versions_open(struct tutti_ps_table *t)
{
	size_t size = 0;
	int err;

	if (!t->opt.versions)
		return 0;
	err = tt_agree(t->ps->coll, "making a table", get_memory(t, &t->versions, &size));
	return err ? err
		   : tt_win_make(t->ps->comm, t->ps->coll, t->versions->mem, size, 0,
				 &t->versions->win);
}

void tt_ps_versions_drop(struct tutti_ps_table *t)
{
	if (t->versions && t->versions->win)
		tt_win_drop(t->versions->win);
}

void tt_ps_versions_free(struct tutti_ps_table *t)
{
	if (!t->versions)
		return;
	tutti_free(t->versions->mem);
	tutti_free(t->versions->word);
	free(t->versions);
}

/* Starts a put or a get at a server. */
static int start(const struct tutti_ps_table *t, int server, void *local, size_t len, uint64_t at,
		 bool get)
{
	struct tt_win_access a = {.rank = t->ps->server[server],
				  .local = local,
				  .len = len,
				  .offset = at,
				  .get = get};

	return tt_win_op(t->versions->win, &a);
}

/*
 * All that was started is complete, and is seen in this order. Not inlined: there gcc would warn
 * that ThreadSanitizer does not know fences.
 */
static __attribute__((noinline)) int end_step(const struct tutti_ps_table *t, int err)
{
	int end = tt_win_wait(t->versions->win, -1);

	atomic_thread_fence(memory_order_seq_cst);
	return err ? err : end;
}

/* The last error, of an operation on a window, with the call and the table. */
static int name_call(const struct tutti_ps_table *t, const char *call, int err)
{
	struct tutti_error_info info = {.size = sizeof(info)}, named;

	if (!err || tutti_last_error(&info) || info.code != err)
		return err;
	named = info;
	snprintf(named.call, sizeof(named.call), "%s", call);
	snprintf(named.text, sizeof(named.text), "%s of table '%s': %.350s", call, t->name,
		 info.text);
	return tt_fail_info(&named);
}

static int newest(const struct tutti_ps_table *t, uint64_t *version)
{
	uint64_t *word = t->versions->word + t->ps->nservers;
	int err = end_step(t, start(t, 0, word, sizeof(*word), newest_at(t), true));

	if (!err)
		*version = *word;
	return err;
}

static int set_newest(const struct tutti_ps_table *t, uint64_t version)
{
	uint64_t *word = t->versions->word + t->ps->nservers;

	*word = version;
	return end_step(t, start(t, 0, word, sizeof(*word), newest_at(t), false));
}

/* The values of all servers, or what is in a slot. */
static int move_values(const struct tutti_ps_table *t, char *values, uint64_t slot, bool get)
{
	const struct tt_ps_part *p = t->part;
	int k, err = 0;

	for (k = 0; k < t->ps->nservers && !err; k++)
		if (p[k].elems)
			err = start(t, k, values + p[k].begin * t->elem, p[k].elems * t->elem,
				    data_at(t, k, slot), get);
	return end_step(t, err);
}

/* The stamps of a slot, at all servers that have values. */
static int move_stamps(const struct tutti_ps_table *t, uint64_t slot, bool get)
{
	int k, err = 0;

	for (k = 0; k < t->ps->nservers && !err; k++)
		if (t->part[k].elems)
			err = start(t, k, &t->versions->word[k], sizeof(uint64_t), stamp_at(slot),
				    get);
	return end_step(t, err);
}

static int set_stamps(const struct tutti_ps_table *t, uint64_t slot, uint64_t stamp)
{
	int k;

	for (k = 0; k < t->ps->nservers; k++)
		t->versions->word[k] = stamp;
	return move_stamps(t, slot, false);
}

static int push_version(struct tutti_ps_table *t, const void *values, uint64_t *version)
{
	/* a put reads its buffer only */
	char *from = (char *)(uintptr_t)values;
	uint64_t v = 0, slot;
	int err = tt_ps_check_calls(t->ps);

	if (!err)
		err = newest(t, &v);
	if (err)
		return err;
	slot = ++v % (uint64_t)t->opt.versions;
	err = set_stamps(t, slot, 0);
	if (!err)
		err = move_values(t, from, slot, false);
	if (!err)
		err = set_stamps(t, slot, v);
	if (!err)
		err = set_newest(t, v);
	if (!err && version)
		*version = v;
	return err;
}

int tt_ps_push_version(struct tutti_ps_table *t, const void *values, uint64_t *version)
{
	return name_call(t, "ps_push_version", push_version(t, values, version));
}

static bool stamps_are(const struct tutti_ps_table *t, uint64_t version)
{
	int k;

	for (k = 0; k < t->ps->nservers; k++)
		if (t->part[k].elems && t->versions->word[k] != version)
			return false;
	return true;
}

/* Reads the newest version once. -EAGAIN: it was overwritten meanwhile. */
static int read_newest(struct tutti_ps_table *t, void *values, uint64_t *version)
{
	uint64_t v = 0, slot;
	int err = newest(t, &v);

	if (!err && !v)
		err = tt_fail(-ENODATA, "no version yet; call tutti_ps_push_version first");
	if (err || v == *version)
		return err;
	slot = v % (uint64_t)t->opt.versions;
	*version = 0; /* values are of none from now on */
	err = move_values(t, values, slot, true);
	if (!err)
		err = move_stamps(t, slot, true);
	if (!err && !stamps_are(t, v))
		return -EAGAIN;
	if (!err)
		*version = v;
	return err;
}

/* Pulls that the progress thread ends, and tutti_ps_last_read, use the counter too. */
static void count_retry(struct tutti_ps_table *t)
{
	tt_wire_lock(t->ps->comm->ctx->wire);
	t->last.retries++;
	tt_wire_unlock(t->ps->comm->ctx->wire);
}

static int pull_version(struct tutti_ps_table *t, void *values, uint64_t *version)
{
	struct tutti_context *ctx = t->ps->comm->ctx;
	int64_t limit = ctx->env.timeout.number;
	uint64_t due = tt_deadline_ms(limit);
	int err = tt_ps_check_calls(t->ps);

	while (!err && (err = read_newest(t, values, version)) == -EAGAIN) {
		count_retry(t);
		err = tt_engine_due(ctx, due)
			      ? tt_fail(-ETIMEDOUT,
					"each version was overwritten while it was read, "
					"for %lld ms (TUTTI_TIMEOUT); raise "
					"options.versions, %d",
					(long long)limit, t->opt.versions)
			      : 0;
	}
	return err;
}

int tt_ps_pull_version(struct tutti_ps_table *t, void *values, uint64_t *version)
{
	return name_call(t, "ps_pull_version", pull_version(t, values, version));
}
