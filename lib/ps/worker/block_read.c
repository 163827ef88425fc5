/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reads one block of a pull one-sidedly. The server runs nothing for a read.
 *
 * A read knows which slot holds which sequence before it is posted: from the clock's note (the
 * hint), or from the directory. Head and data are read together, in no order. If the head has that
 * sequence and is not retired, the slot was retired, if at all, after the read was posted. It then
 * rests for the grace, so a read that took no longer has seen nothing else. A read that took
 * longer, or whose slot was retired at an unknown time, reads the stamp again: if the stamp still
 * has that sequence, retired or not, nothing was written before head and data had been read.
 * Otherwise, or if that publication is too old, the directory says where to read next. The head
 * also bounds the age: the server had published everything up to the clock that it told before the
 * read was posted, and this slot was the newest of its block. For a retired slot, only its head
 * says what it contains.
 *
 * Data near the beginning of a block, rows in particular, is read in one operation with the head,
 * and copied. Other data goes straight into the caller's buffer. If it begins near the beginning of
 * the block and the transport lets a get land in two places, one operation reads the head, the data
 * and what lies between; else the head is read separately.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/clock.h"
#include "lib/base/copy.h"
#include "lib/ps/worker/pull.h"
#include "lib/reduce/xxh.h"

static void unit_over(struct tt_win_end *end, int status)
{
	struct tt_ps_unit *u = tt_container(end, struct tt_ps_unit, end);

	u->pending--;
	if (!u->pending)
		u->over = tt_now_ns();
	if (status && !u->status)
		u->status = status;
	if (!u->pending && !u->pull->busy && !u->pull->task.cancelled)
		u->pull->task.ops->advance(&u->pull->task);
}

static int rank_of(const struct tt_ps_unit *u)
{
	const struct tutti_ps *ps = u->pull->task.ps;

	return ps->server[tt_ps_host(ps, u->server, u->copy)];
}

/* The first head_len bytes go to the landing, from its head on; the rest goes to local. */
static void get_behind(struct tt_ps_unit *u, size_t head_len, void *local, size_t len, uint64_t at)
{
	struct tutti_ps_table *t = u->pull->task.table;
	struct tt_win_access a = {.rank = rank_of(u),
				  .local = local,
				  .len = len,
				  .offset = tt_ps_base_at(t, u->server, u->copy) + at,
				  .get = true,
				  .head = &u->landing->head,
				  .head_len = head_len};
	int err;

	u->pending++;
	err = tt_win_op_start(t->win, &a, &u->end);
	if (err)
		unit_over(&u->end, err);
}

static void get(struct tt_ps_unit *u, void *local, size_t len, uint64_t at)
{
	get_behind(u, 0, local, len, at);
}

static uint64_t floor_of(const struct tt_ps_unit *u)
{
	return u->pull->task.table->track[u->server].floor[u->block];
}

/*
 * All pushes of this worker to the block are known to be in the publication looked for, and the
 * needed clock is reached.
 */
static bool may_read(const struct tt_ps_unit *u)
{
	const struct tutti_ps_table *t = u->pull->task.table;
	const struct tt_ps_link *link = &t->ps->link[u->server];

	return link->ready && (t->ps->staleness == 0 || !t->track[u->server].pending[u->block]) &&
	       link->min_clock >= u->pull->need;
}

/* Elements of the block, and bytes of its encoded copy: of a block of rows at most. */
static size_t elems_of(const struct tt_ps_unit *u)
{
	const struct tutti_ps_table *t = u->pull->task.table;
	uint64_t left = t->part[u->server].elems - u->block * t->block_elems;

	return left < t->block_elems ? (size_t)left : t->block_elems;
}

static size_t coded_of(const struct tt_ps_unit *u)
{
	return tt_codec_bound(u->pull->task.table->opt.publish, elems_of(u));
}

/* Bytes to read together with the head; 0: too long. */
static size_t span_of(const struct tt_ps_unit *u)
{
	const struct tutti_ps_table *t = u->pull->task.table;
	size_t block = t->block_pitch - sizeof(struct tt_ps_head), end = 0, i;

	if (u->pull->coded)
		return coded_of(u);
	if (t->coded) /* what is behind the head is the copy */
		return 0;
	/*
	 * With checksums, read the whole block if it is small: a checksum covers the whole block.
	 */
	if ((t->rows || t->ps->verify) && block <= TT_PS_SPAN)
		return block;
	for (i = 0; i < u->items; i++)
		if (u->item[i].offset + u->item[i].len > end)
			end = u->item[i].offset + u->item[i].len;
	return end <= TT_PS_SPAN ? end : 0;
}

/*
 * Straight into the caller's buffer; the head with the first item if that is near enough, else
 * separately.
 */
static void read_items(struct tt_ps_unit *u, uint64_t at)
{
	const struct tt_ps_item *item;
	size_t coded = u->pull->task.table->coded;
	bool beside = true, can = tt_win_gets_head(u->pull->task.table->win, rank_of(u));

	u->pending++; /* keeps the unit waiting until all are posted */
	for (item = u->item; item < u->item + u->items; item++) {
		size_t before = sizeof(struct tt_ps_head) + coded + item->offset;

		if (beside && can && coded + item->offset <= TT_PS_SPAN) {
			get_behind(u, before, item->local, before + item->len, at);
			beside = false;
		} else {
			get(u, item->local, item->len, at + before);
		}
	}
	if (beside)
		get(u, &u->landing->head, sizeof(struct tt_ps_head), at);
	unit_over(&u->end, 0);
}

static void read_data(struct tt_ps_unit *u)
{
	struct tutti_ps_table *t = u->pull->task.table;
	uint64_t at = tt_ps_slot_at(t, u->server, u->block, u->word & 0xff);

	u->state = TT_PS_READ_DATA;
	u->floor = floor_of(u);
	u->told = t->ps->link[u->server].min_clock;
	u->posted = tt_now_ns();
	u->span = span_of(u);
	u->coded = u->landing->data;
	if (u->span)
		get(u, &u->landing->head, sizeof(struct tt_ps_head) + u->span, at);
	else
		read_items(u, at);
}

/* Not inlined: there gcc would warn that ThreadSanitizer does not know fences. */
static __attribute__((noinline)) void read_stamp(struct tt_ps_unit *u)
{
	u->state = TT_PS_READ_CHECK;
	/* Head and data have been read before the stamp. */
	atomic_thread_fence(memory_order_acquire);
	get(u, &u->landing->word, sizeof(uint64_t),
	    tt_ps_slot_at(u->pull->task.table, u->server, u->block, u->word & 0xff) +
		    offsetof(struct tt_ps_head, stamp));
}

static void read_dir(struct tt_ps_unit *u)
{
	u->state = TT_PS_READ_DIR;
	u->pull->seen.retries++;
	get(u, &u->landing->word, sizeof(uint64_t), tt_ps_dir_at(u->block));
}

/* Elements of the copy that was read: of rows, those that there are. */
static size_t copied_of(const struct tt_ps_unit *u)
{
	size_t n = elems_of(u), there = u->landing->head.length / sizeof(float);

	return u->pull->task.table->rows && there < n ? there : n;
}

static bool torn(const struct tt_ps_unit *u)
{
	const struct tt_ps_head *h = &u->landing->head;
	const void *data = u->span ? u->landing->data : u->item->local;
	bool whole = u->span ? u->span >= h->length
			     : u->items == 1 && !u->item->offset && u->item->len == h->length;

	if (u->pull->coded)
		return u->pull->task.ps->verify &&
		       tt_reduce_xxh(u->coded, h->coded < coded_of(u) ? h->coded : coded_of(u),
				     0) != h->coded_checksum;
	return u->pull->task.ps->verify && whole &&
	       tt_reduce_xxh(data, h->length, 0) != h->checksum;
}

/* The copy came over the network. A part of a block is decoded with the whole block. */
static int decode(const struct tt_ps_unit *u)
{
	const struct tutti_codec *codec = u->pull->task.table->opt.publish;
	size_t n = copied_of(u), coded = tt_codec_bound(codec, n), i;
	bool all = u->items == 1 && u->item->len == n * sizeof(float);
	float *to = all ? u->item->local : u->pull->units->decoded;
	int err = u->landing->head.coded == coded ? 0 : -EPROTO;

	for (i = 0; i < u->items; i++)
		if (u->item[i].offset + u->item[i].len > n * sizeof(float))
			err = -EPROTO;
	if (!err)
		err = tt_codec_decode(codec, u->coded, coded, 0, n, to);
	for (i = 0; i < u->items && !err && !all; i++)
		tt_copy_data(u->item[i].local, (const char *)to + u->item[i].offset,
			     u->item[i].len);
	return err;
}

static void copy_out(const struct tt_ps_unit *u)
{
	size_t i;

	for (i = 0; i < u->items; i++) {
		tt_copy_data(u->item[i].local, u->landing->data + u->item[i].offset,
			     u->item[i].len);
		tt_wire_stats(u->pull->task.ps->comm->ctx->wire)->copied_bytes += u->item[i].len;
	}
}

static void accept(struct tt_ps_unit *u)
{
	struct tt_ps_pull *pull = u->pull;
	struct tt_ps_task *task = &pull->task;
	const struct tt_ps_head *h = &u->landing->head;
	uint64_t min = h->min_clock > u->told ? h->min_clock : u->told, *seen;
	int rank = task->ps->comm->world[task->ps->server[u->server]];

	if (h->generation != task->ps->generation + (uint64_t)u->copy)
		tt_ps_task_fail(task, -ESTALE, "block %llu of rank %d belongs to another server",
				(unsigned long long)u->block, rank);
	else if (torn(u))
		tt_ps_task_fail(task, -EBADMSG, "block %llu of rank %d does not have its checksum",
				(unsigned long long)u->block, rank);
	else if (pull->coded && decode(u))
		tt_ps_task_fail(task, -EPROTO,
				"the encoded copy of block %llu of rank %d is damaged: %llu bytes, "
				"and %zu are expected",
				(unsigned long long)u->block, rank, (unsigned long long)h->coded,
				tt_codec_bound(task->table->opt.publish, copied_of(u)));
	if (u->span && !pull->coded)
		copy_out(u);
	tt_ps_pull_got(u);
	if (min < pull->seen.min_clock)
		pull->seen.min_clock = min;
	if (u->word >> 8 < pull->seen.version)
		pull->seen.version = u->word >> 8;
	tt_ps_trace(task->ps, "read %u %d %llu %llu %llu %llu %llu %llu\n", task->table->index,
		    u->server, (unsigned long long)u->block, (unsigned long long)task->clock,
		    (unsigned long long)min, (unsigned long long)(u->word >> 8),
		    (unsigned long long)u->floor, (unsigned long long)tt_now_ns());
	if (task->table->cache) /* a batch that arrives later may be older */
		tt_ps_floor(task->table, u->server, u->block, u->word >> 8);
	seen = &task->table->track[u->server].seen[u->block];
	if (u->word >> 8 > *seen >> 8)
		*seen = u->word;
	u->state = TT_PS_READ_IDLE;
	pull->active--;
}

/* Another replica of the server has other slots. */
static bool again_if_moved(struct tt_ps_unit *u)
{
	int copy = u->pull->task.ps->link[u->server].copy;

	if (u->copy == copy)
		return false;
	u->copy = copy;
	u->word = 0;
	u->state = TT_PS_READ_WAIT;
	return true;
}

/* Find the newest known publication: as told, or as read before, which may not have been told. */
static void find_newest(struct tt_ps_unit *u)
{
	struct tutti_ps_table *t = u->pull->task.table;
	uint64_t told = atomic_load(tt_ps_hint(t, u->server, u->block)),
		 seen = t->track[u->server].seen[u->block];

	if (seen > told && !t->cache && seen >> 8 > tt_ps_first((uint64_t)u->copy))
		told = seen;
	if (told >> 8 > u->word >> 8)
		u->word = told;
}

/* Servers do not tell a block's first publication, which a batch may have brought. */
static bool was_sent(const struct tt_ps_unit *u)
{
	const struct tutti_ps_table *t = u->pull->task.table;

	return t->cache && t->track[u->server].seen[u->block];
}

/* Read there, unless that publication is known to be too old. */
static bool try_read(struct tt_ps_unit *u)
{
	struct tutti_ps_table *t = u->pull->task.table;
	enum tt_ps_where where = t->cache ? tt_ps_cached(u) : TT_PS_AWAY;

	if (where == TT_PS_HERE)
		accept(u);
	if (where != TT_PS_AWAY)
		return where == TT_PS_HERE;
	t->ps->read_away |= t->cache != NULL;
	again_if_moved(u);
	find_newest(u);
	if (!may_read(u))
		return false;
	if (!u->word && (!floor_of(u) || was_sent(u))) {
		read_dir(u);
		return true;
	}
	if (u->word >> 8 < floor_of(u))
		return false;
	read_data(u);
	return true;
}

static void got_dir(struct tt_ps_unit *u)
{
	struct tt_ps_task *task = &u->pull->task;

	if (!u->landing->word) {
		tt_ps_task_fail(task, -ENODATA, "table '%s' has no values yet: see tutti_ps_set",
				task->table->name);
		u->state = TT_PS_READ_IDLE;
		u->pull->active--;
		return;
	}
	u->word = u->landing->word;
	u->state = TT_PS_READ_WAIT;
}

/* For a publication that was not the newest: whether it has the needed clock and rows. */
static bool has_all(const struct tt_ps_unit *u)
{
	const struct tt_ps_head *h = &u->landing->head;
	size_t i;

	for (i = 0; i < u->items; i++)
		if (u->item[i].offset + u->item[i].len > h->length)
			return false;
	return h->min_clock >= u->pull->need;
}

/* Whether it is new enough, and no older than what was read before. */
static bool current(const struct tt_ps_unit *u)
{
	const struct tt_ps_track *track = &u->pull->task.table->track[u->server];

	return u->word >> 8 >= track->seen[u->block] >> 8 && (!u->retired || has_all(u));
}

/* All operations of the unit have ended. */
static void judge(struct tt_ps_unit *u)
{
	bool first = u->state == TT_PS_READ_DATA;
	uint64_t stamp = first ? atomic_load(&u->landing->head.stamp) : u->landing->word;

	if (again_if_moved(u))
		return;
	if (u->state == TT_PS_READ_DIR) {
		got_dir(u);
		return;
	}
	if (first)
		u->retired = stamp & 1;
	if (u->retired)
		u->told = 0;
	if (stamp >> 1 != u->word >> 8 || !current(u))
		read_dir(u);
	else if (first && (u->retired || u->over - u->posted > u->pull->task.ps->grace_ns))
		read_stamp(u);
	else
		accept(u);
}

bool tt_ps_unit_step(struct tt_ps_unit *u)
{
	struct tt_ps_task *task = &u->pull->task;
	struct tt_ps_link *link;

	if (u->pending || task->broken)
		return false;
	if (u->status) {
		link = &task->ps->link[u->server];
		if (!again_if_moved(u) && tt_ps_link_failed(task, link, u->status))
			tt_ps_task_broken(task, link->rank, u->status);
		u->status = 0;
		u->state = TT_PS_READ_WAIT;
		return false;
	}
	if (u->state == TT_PS_READ_WAIT)
		return try_read(u);
	judge(u);
	return true;
}

static int new_units(struct tutti_ps *ps, struct tt_ps_units **out)
{
	struct tt_ps_units *units;
	int err = tutti_alloc(ps->comm->ctx, sizeof(*units), (void **)&units), i;

	if (err)
		return err;
	memset(units, 0, sizeof(*units));
	for (i = 0; i < TT_PS_UNITS; i++) {
		units->unit[i].end.over = unit_over;
		units->unit[i].landing = &units->landing[i];
	}
	*out = units;
	return 0;
}

static size_t wide_size(size_t coded)
{
	return (offsetof(struct tt_ps_landing, data) + coded + TT_PS_LINE - 1) / TT_PS_LINE *
	       TT_PS_LINE;
}

/* Memory for the encoded copies of this table's blocks, or of larger ones. */
static int widen(struct tt_ps_pull *pull, struct tt_ps_units *units)
{
	const struct tutti_ps_table *t = pull->task.table;
	float *decoded = units->decoded;
	int err;

	if (units->elems < t->block_elems) {
		decoded = realloc(decoded, t->block_elems * sizeof(*decoded));
		if (!decoded)
			return -ENOMEM;
		units->decoded = decoded;
		units->elems = t->block_elems;
	}
	if (units->coded >= t->coded)
		return 0;
	tutti_free(units->wide);
	units->wide = NULL;
	units->coded = 0;
	err = tutti_alloc(pull->task.ps->comm->ctx, TT_PS_UNITS * wide_size(t->coded),
			  (void **)&units->wide);
	if (!err)
		units->coded = t->coded;
	return err;
}

static void set_landings(const struct tt_ps_pull *pull, struct tt_ps_units *units)
{
	char *wide = units->wide;
	int i;

	for (i = 0; i < TT_PS_UNITS; i++)
		units->unit[i].landing =
			pull->coded
				? (struct tt_ps_landing *)(void *)(wide +
								   (size_t)i *
									   wide_size(units->coded))
				: &units->landing[i];
}

int tt_ps_units_get(struct tt_ps_pull *pull)
{
	struct tutti_ps *ps = pull->task.ps;
	int err = 0;

	pull->units = ps->units;
	if (pull->units)
		ps->units = pull->units->next;
	else
		err = new_units(ps, &pull->units);
	if (err)
		return tt_ps_no_memory(pull->task.table, sizeof(*pull->units), err);
	if (pull->coded)
		err = widen(pull, pull->units);
	if (err) {
		tt_ps_units_put(pull);
		pull->units = NULL;
		return tt_ps_no_memory(pull->task.table,
				       TT_PS_UNITS * wide_size(pull->task.table->coded), err);
	}
	set_landings(pull, pull->units);
	return 0;
}

void tt_ps_units_put(struct tt_ps_pull *pull)
{
	if (!pull->units)
		return;
	pull->units->next = pull->task.ps->units;
	pull->task.ps->units = pull->units;
}

void tt_ps_units_free(struct tutti_ps *ps)
{
	struct tt_ps_units *units;

	while ((units = ps->units)) {
		ps->units = units->next;
		tutti_free(units->wide);
		free(units->decoded);
		tutti_free(units);
	}
}
