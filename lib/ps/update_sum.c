/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Accumulated updates, with a bit for each element, or row, that has one: at a server until the
 * clock or a group ends, at a worker until the next push is due.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/copy.h"
#include "lib/ps/worker/accumulate.h"

int tt_ps_sum_new(const struct tutti_ps_table *t, uint64_t units, struct tt_ps_sum *sum)
{
	sum->sums = calloc((size_t)units + 1, t->width * t->elem);
	sum->touched = calloc((size_t)units / 64 + 2, sizeof(uint64_t));
	if (sum->sums && sum->touched)
		return 0;
	tt_ps_sum_free(sum);
	return tt_fail(-ENOMEM, "no memory to accumulate %llu updates of table '%s'",
		       (unsigned long long)units, t->name);
}

void tt_ps_sum_free(struct tt_ps_sum *sum)
{
	free(sum->sums);
	free(sum->touched);
	*sum = (struct tt_ps_sum){0};
}

static bool bit(const uint64_t *bits, uint64_t at)
{
	return bits[at / 64] >> at % 64 & 1;
}

/* The end of the run of equal bits that begins at `at`. */
static uint64_t run_end(const uint64_t *bits, uint64_t at, uint64_t end)
{
	bool value = at < end && bit(bits, at);
	uint64_t whole = value ? UINT64_MAX : 0;

	while (at < end) {
		if (at % 64 == 0 && bits[at / 64] == whole)
			at += 64;
		else if (bit(bits, at) == value)
			at++;
		else
			break;
	}
	return at < end ? at : end;
}

static void mark(uint64_t *bits, uint64_t at, uint64_t end, bool value)
{
	for (; at < end; at++)
		if (at % 64 == 0 && end - at >= 64) {
			bits[at / 64] = value ? UINT64_MAX : 0;
			at += 63;
		} else if (value) {
			bits[at / 64] |= 1ull << at % 64;
		} else {
			bits[at / 64] &= ~(1ull << at % 64);
		}
}

/* The first update of a unit is copied, later ones are added. */
void tt_ps_sum_add(const struct tutti_ps_table *t, struct tt_ps_sum *sum, uint64_t unit,
		   uint64_t units, const char *update)
{
	uint64_t at, end, last = unit + units;
	size_t pitch = t->width * t->elem;

	for (at = unit; at < last; at = end) {
		char *dst = sum->sums + at * pitch;
		const void *both[] = {dst, update + (at - unit) * pitch};
		void *to = dst;

		end = run_end(sum->touched, at, last);
		if (bit(sum->touched, at))
			tt_reduce_multi(&to, 1, both, 2, (end - at) * t->width, t->datatype,
					TUTTI_SUM, 0, 0);
		else
			tt_copy_data(dst, update + (at - unit) * pitch, (end - at) * pitch);
	}
	mark(sum->touched, unit, last, true);
}

bool tt_ps_sum_next(const struct tt_ps_sum *sum, uint64_t *from, uint64_t *to, uint64_t end)
{
	if (*from < end && !bit(sum->touched, *from))
		*from = run_end(sum->touched, *from, end);
	if (*from >= end)
		return false;
	*to = run_end(sum->touched, *from, end);
	return true;
}

void tt_ps_sum_clear(struct tt_ps_sum *sum, uint64_t from, uint64_t to)
{
	mark(sum->touched, from, to, false);
}

/* ---- rows: a unit for each key that was met ---- */

int tt_ps_row_units_new(const struct tutti_ps_table *t, struct tt_ps_row_units *met)
{
	if (t->count >= UINT32_MAX)
		return tt_fail(-EINVAL, "table '%s' is too large to accumulate its rows' updates",
			       t->name);
	met->key = calloc((size_t)t->count + 1, sizeof(*met->key));
	return met->key ? 0 : tt_fail(-ENOMEM, "no memory for the keys of table '%s'", t->name);
}

void tt_ps_row_units_free(struct tt_ps_row_units *met)
{
	tt_map_free(&met->units);
	free(met->key);
	*met = (struct tt_ps_row_units){0};
}

int tt_ps_row_units_find(const struct tutti_ps_table *t, struct tt_ps_row_units *met, uint64_t key,
			 uint32_t *unit)
{
	int err;

	*unit = tt_ps_key_place(&met->units, key);
	if (*unit != TT_PS_NOWHERE)
		return 0;
	if (met->n == t->count)
		return tt_fail(
			-ENOSPC,
			"table '%s' has %llu rows, and this worker has met as many keys; make "
			"the table with more (tutti_ps_rows)",
			t->name, (unsigned long long)t->count);
	err = tt_map_set(&met->units, key, met->n);
	if (err)
		return tt_fail(err, "no memory for the keys of table '%s'", t->name);
	*unit = met->n++;
	met->key[*unit] = key;
	return 0;
}

void tt_ps_row_units_clear(struct tt_ps_row_units *met)
{
	tt_map_clear(&met->units);
	met->n = 0;
}
