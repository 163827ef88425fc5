/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ESSP: the batches that a server or a relaying worker sends to one worker. A batch is its blocks,
 * each with a note, then the words that name the newest slot of each block, then the line with the
 * clock and the number of parts, so that the order of arrival does not matter. The next batch
 * starts after the worker has acknowledged this one; a block that changes several times meanwhile
 * is sent once. A worker that relays gets short batches, so that it relays one while the next
 * arrives; the last of them has the clock.
 */
#include "lib/ps/essp/essp.h"

#define AT_ONCE 8 /* blocks put before the lock is released */

uint64_t tt_ps_next_bit(const uint64_t *bits, uint64_t from, uint64_t n)
{
	uint64_t word;

	while (from < n) {
		word = atomic_load_explicit(
			       (const _Atomic uint64_t *)(const void *)&bits[from / 64],
			       memory_order_relaxed) >>
		       from % 64;
		if (word)
			return from + (uint64_t)__builtin_ctzll(word) < n
				       ? from + (uint64_t)__builtin_ctzll(word)
				       : n;
		from = (from / 64 + 1) * 64;
	}
	return n;
}

static void acked(struct tt_bell *bell)
{
	struct tt_ps_sub *sub = tt_container(bell, struct tt_ps_sub, acked);

	if (sub->state == TT_PS_SUB_SENT)
		sub->state = TT_PS_SUB_IDLE;
	sub->ops->stir(sub);
}

static void put_over(struct tt_win_end *end, int status)
{
	struct tt_ps_part_put *put = tt_container(end, struct tt_ps_part_put, end);
	struct tt_ps_sub *sub = put->sub;

	put->busy = false;
	atomic_fetch_sub(put->reading, 1);
	sub->ops->over(sub, status);
	sub->ops->stir(sub);
}

static void end_over(struct tt_win_end *end, int status)
{
	struct tt_ps_sub *sub = tt_container(end, struct tt_ps_sub, end);

	sub->ops->over(sub, status);
}

void tt_ps_sub_to(struct tt_ps_sub *sub, int rank, int copy, int feed)
{
	struct tutti_ps_table *t = sub->table;
	int parent = feed - t->ps->copies;

	sub->rank = rank;
	sub->area = tt_ps_area_at(t, rank, sub->server, copy);
	sub->feed = sub->area + tt_ps_feed_at(t, sub->server, parent < 0 ? -1 : parent);
	sub->token = tt_ps_feed_bell(t, sub->server, feed);
	sub->acked.ring = acked;
	sub->end.over = end_over;
}

void tt_ps_sub_put(struct tt_ps_sub *sub, const void *from, size_t len, uint64_t to, bool line,
		   struct tt_win_end *end)
{
	struct tutti_ps_table *t = sub->table;

	sub->ops->starts(sub);
	tt_ps_put(t->win, sub->rank, from, len, to, t->cache_token[sub->rank] + sub->token + line,
		  end);
}

bool tt_ps_sub_quiet(const struct tt_ps_sub *sub)
{
	int i;

	for (i = 0; i < TT_PS_PUTS; i++)
		if (sub->put[i].busy)
			return false;
	return true;
}

/* Of a block: head, and values or encoded copy. A relayed head came over the network. */
static size_t bytes_of(const struct tutti_ps_table *t, const struct tt_ps_head *head)
{
	uint64_t len = t->coded ? head->coded : head->length,
		 most = tt_ps_cache_pitch(t) - sizeof(*head);

	return sizeof(*head) + (size_t)(len < most ? len : most);
}

/* The batch changes the word of this block; blocks come in ascending order. */
static void mark(struct tt_ps_sub *sub, uint64_t block)
{
	if (sub->lo == sub->hi)
		sub->lo = block;
	sub->hi = block + 1;
}

void tt_ps_sub_lost(struct tt_ps_sub *sub, uint64_t block)
{
	tt_ps_sub_words(sub)[block] = TT_PS_LOST;
	mark(sub, block);
}

/* Into the slot that the last put did not write. */
static void send_block(struct tt_ps_sub *sub, struct tt_ps_part_put *p, uint64_t block)
{
	uint64_t *word = &tt_ps_sub_words(sub)[block], sequence;
	unsigned copy = *word ? (*word & 1) ^ 1 : 0;
	const struct tt_ps_head *head = sub->ops->take(sub, block, &sequence, &p->reading);
	size_t len = bytes_of(sub->table, head);

	*word = tt_ps_word(sequence, copy);
	mark(sub, block);
	sub->batch->parts++;
	sub->bytes += len;
	p->busy = true;
	p->sub = sub;
	p->end.over = put_over;
	atomic_fetch_add(p->reading, 1);
	tt_ps_sub_put(sub, head, len,
		      sub->area + tt_ps_cache_block(sub->table, sub->server, block, copy), false,
		      &p->end);
}

/*
 * The words to send are those of this batch and the last: words[] alternates, so they differ from
 * those of two batches ago.
 */
static void send_rest(struct tt_ps_sub *sub, bool all)
{
	uint64_t lo = sub->lo, hi = sub->hi, old_lo = sub->last_lo, old_hi = sub->last_hi;

	sub->last_lo = lo;
	sub->last_hi = hi;
	if (lo == hi) {
		lo = old_lo;
		hi = old_hi;
	} else if (old_lo < old_hi) {
		lo = old_lo < lo ? old_lo : lo;
		hi = old_hi > hi ? old_hi : hi;
	}
	sub->more = !all;
	if (all)
		sub->batch->min_clock = sub->clock;
	sub->state = TT_PS_SUB_SENT;
	if (lo < hi) {
		sub->batch->parts++;
		tt_ps_sub_put(
			sub, tt_ps_sub_words(sub) + lo, (hi - lo) * sizeof(uint64_t),
			sub->feed + tt_ps_feed_words(sub->table, sub->server, sub->batch->number) +
				tt_ps_dir_at(lo),
			false, &sub->end);
	}
	tt_ps_sub_put(sub, sub->batch, sizeof(*sub->batch),
		      sub->feed + tt_ps_feed_line(sub->table, sub->server), true, &sub->end);
}

/* A batch: the rest of what the last one lacked, or something new. */
static bool start(struct tt_ps_sub *sub)
{
	if (!sub->more) {
		if (!sub->ops->begin(sub))
			return false;
		sub->at = 0;
	}
	sub->batch->number++;
	sub->batch->parts = 0;
	sub->bytes = 0;
	sub->lo = sub->hi = 0;
	sub->state = TT_PS_SUB_BLOCKS;
	return true;
}

bool tt_ps_sub_go(struct tt_ps_sub *sub)
{
	uint64_t block;
	int i, n = 0;

	if (sub->state == TT_PS_SUB_SENT || (sub->state == TT_PS_SUB_IDLE && !start(sub)))
		return false;
	for (i = 0; i < TT_PS_PUTS && n < AT_ONCE; i++) {
		if (sub->put[i].busy)
			continue;
		if (sub->most && sub->bytes >= sub->most) {
			send_rest(sub, false);
			return true;
		}
		if (!sub->ops->next(sub, &block)) {
			send_rest(sub, true);
			return true;
		}
		sub->at = block + 1;
		send_block(sub, &sub->put[i], block);
		n++;
	}
	return n > 0;
}
