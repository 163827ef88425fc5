/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Publication: a snapshot of a block is written into a slot that no reader can be using, then the
 * directory names that slot, then the previous slot is retired. A slot rests for the grace period
 * after its retirement before it is written again. So a read that began while the slot was current
 * and took no longer than the grace has seen only that snapshot. Longer reads check the stamp
 * again: see block_read.c.
 */
#include <errno.h>
#include <string.h>

#include "lib/base/clock.h"
#include "lib/base/copy.h"
#include "lib/ps/server/table_store.h"
#include "lib/reduce/xxh.h"

static struct tt_ps_head *slot_of(const struct tt_ps_store *s, uint64_t block, unsigned slot)
{
	return (struct tt_ps_head *)(void *)(s->mem + tt_ps_slot_at(s->t, s->server, block, slot));
}

/* Elements of a block that exist: of rows those present, of a dense table all. */
static uint64_t elems_of(const struct tt_ps_store *s, uint64_t block)
{
	uint64_t from = block * s->t->block_elems;
	uint64_t end = s->t->rows ? (uint64_t)s->nrows * s->t->width : s->part->elems;

	return end - from < s->t->block_elems ? end - from : s->t->block_elems;
}

/* The values published before, with initial values for rows that are new since. */
static void write_new(const struct tt_ps_store *s, uint64_t block, char *to, const char *old)
{
	const struct tutti_ps_table *t = s->t;
	uint64_t rows = elems_of(s, block) / t->width, i;
	size_t pitch = t->width * t->elem;
	uint64_t first = block * t->block_elems / t->width;

	if (old)
		tt_copy_data(to, old, s->shown[block] * pitch);
	for (i = old ? s->shown[block] : 0; i < rows; i++)
		tt_ps_fill(t, to + i * pitch, s->key[first + i], t->width);
}

/* Of tables with row versions. */
static void write_rows(const struct tt_ps_store *s, uint64_t block, char *to)
{
	const struct tutti_ps_table *t = s->t;
	uint64_t row = block * (t->block_elems / t->width),
		 end = row + elems_of(s, block) / t->width, version;
	size_t len = t->width * t->elem;

	for (; row < end; row++, to += t->pitch) {
		version = s->steps[row];
		tt_copy_data(to, s->values + row * len, len);
		memcpy(to + t->pitch - sizeof(version), &version, sizeof(version));
	}
}

/* Beside the values, without feedback: what pulls read are values, not updates. */
static void write_coded(const struct tutti_ps_table *t, struct tt_ps_head *head, const void *values,
			uint64_t n)
{
	size_t len = 0;

	if (tt_codec_encode(t->opt.publish, values, NULL, 0, n, 0, head + 1, &len))
		len = 0; /* pulls of the block will fail */
	head->coded = len;
	head->coded_checksum = t->ps->verify ? tt_reduce_xxh(head + 1, len, 0) : 0;
}

static void write_slot(struct tt_ps_store *s, uint64_t block, struct tt_ps_head *head,
		       const struct tt_ps_head *old, bool only_new)
{
	const struct tutti_ps_table *t = s->t;
	uint64_t row = block * (t->block_elems / t->width), rows = elems_of(s, block) / t->width;
	size_t len = rows * t->pitch;
	char *data = (char *)(head + 1) + t->coded;

	if (only_new && t->rows)
		write_new(s, block, data, old ? (const char *)(old + 1) + t->coded : NULL);
	else if (tt_ps_row_versions(t))
		write_rows(s, block, data);
	else
		tt_copy_data(data, s->values + block * t->block_elems * t->elem, len);
	if (t->rows && !only_new)
		tt_ps_rows_begin(s, row, row + rows);
	if (t->rows)
		s->shown[block] = (uint32_t)rows;
	if (t->coded)
		write_coded(t, head, data, elems_of(s, block));
	head->length = len;
	head->checksum = t->ps->verify ? tt_reduce_xxh(data, len, 0) : 0;
	head->generation = t->ps->generation + s->copy;
	head->version = t->rows ? 0 : s->steps[block];
}

int tt_ps_publish(struct tt_ps_store *s, uint64_t block, uint64_t sequence, uint64_t min_clock,
		  bool only_new, uint64_t *when)
{
	uint64_t word = atomic_load(tt_ps_dir(s, block)), now = tt_now_ns();
	unsigned cur = word & 0xff, slot = word ? (cur + 1) % TT_PS_BLOCK_SLOTS : 0;
	uint64_t *retired = &s->retired[block * TT_PS_BLOCK_SLOTS];
	/* an eighth more: the clocks of two hosts are compared */
	uint64_t rest = s->t->ps->grace_ns + s->t->ps->grace_ns / 8;
	struct tt_ps_head *head = slot_of(s, block, slot),
			  *old = word ? slot_of(s, block, cur) : NULL;

	if (when && retired[slot] && now < retired[slot] + rest) {
		*when = retired[slot] + rest;
		return -EAGAIN;
	}
	if (when && s->sending && atomic_load(&s->sending[block * TT_PS_BLOCK_SLOTS + slot])) {
		*when = now + rest;
		return -EAGAIN;
	}
	atomic_store(&head->stamp,
		     0); /* a reader that finds the old stamp has read nothing of what follows */
	atomic_thread_fence(memory_order_seq_cst);
	write_slot(s, block, head, old, only_new);
	head->min_clock = min_clock;
	atomic_store(&head->stamp, sequence << 1);
	atomic_store(tt_ps_dir(s, block), tt_ps_word(sequence, slot));
	if (old) {
		atomic_store(&old->stamp, word >> 8 << 1 | 1);
		retired[cur] = when ? tt_now_ns() : 0;
	}
	return 0;
}
