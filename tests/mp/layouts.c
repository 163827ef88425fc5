/* SPDX-License-Identifier: BSD-3-Clause */
/* Random layouts, and loops over their elements to compare with. */
#include "config.h"

#include "tests/mp/layouts.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

struct tutti_layout mp_layout_vector(enum tutti_datatype datatype, size_t count, size_t block,
				     ptrdiff_t stride)
{
	return (struct tutti_layout){.size = sizeof(struct tutti_layout),
				     .datatype = datatype,
				     .count = count,
				     .block = block,
				     .stride = stride};
}

/* The block size of count equal blocks of elems elements in all. */
static size_t draw_block(unsigned *seed, size_t elems)
{
	size_t block = 1 + (size_t)rand_r(seed) % (elems < 2000 ? elems : 2000);

	while (elems % block || elems / block > MP_LAYOUT_BLOCKS)
		block++;
	return block;
}

static void draw_vector(unsigned *seed, size_t elems, size_t room, size_t elem, size_t unit,
			struct mp_layout *out)
{
	struct tutti_layout *l = &out->l;
	size_t most, units, far;

	l->block = draw_block(seed, elems);
	l->count = elems / l->block;
	most = l->count > 1 ? (room - l->block * elem) / (l->count - 1) : room;
	units = l->block * elem / unit;
	l->stride = (ptrdiff_t)(units + (size_t)rand_r(seed) % (most / unit - units + 1));
	far = (l->count - 1) * (size_t)l->stride * unit;
	out->first = (size_t)rand_r(seed) % (room - far - l->block * elem + 1);
	if (rand_r(seed) % 3)
		return;
	out->first += far;
	l->stride = -l->stride;
}

static void swap_blocks(struct mp_layout *out, size_t i, size_t k)
{
	size_t block = out->blocks[i];
	ptrdiff_t displ = out->displs[i];

	out->blocks[i] = out->blocks[k];
	out->displs[i] = out->displs[k];
	out->blocks[k] = block;
	out->displs[k] = displ;
}

/* Blocks of any length, also of none, or equal ones, in any order; displs of either sign. */
static void draw_indexed(unsigned *seed, size_t elems, size_t room, size_t elem, size_t unit,
			 struct mp_layout *out)
{
	size_t equal = rand_r(seed) % 3 ? 0 : draw_block(seed, elems), left = elems, n, i;
	size_t slack = room / unit - elems * elem / unit, at = 0, gap, origin;

	for (n = 0; left; n++) {
		size_t len = equal ? equal : (size_t)rand_r(seed) % (elems / 7 + 2);

		len = len < left && n < MP_LAYOUT_BLOCKS - 1 ? len : left;
		gap = rand_r(seed) % 4 ? (size_t)rand_r(seed) % (slack / 16 + 1) : 0;
		slack -= gap;
		at += gap;
		out->blocks[n] = len;
		out->displs[n] = (ptrdiff_t)at;
		at += len * elem / unit;
		left -= len;
	}
	for (i = 0; rand_r(seed) % 2 && i < n; i++)
		swap_blocks(out, i, (size_t)rand_r(seed) % n);
	origin = (size_t)rand_r(seed) % (room / unit + 1);
	for (i = 0; i < n; i++)
		out->displs[i] -= (ptrdiff_t)origin;
	out->first = origin * unit;
	out->l.count = n;
	out->l.displs = out->displs;
	if (equal)
		out->l.block = equal;
	else
		out->l.blocks = out->blocks;
}

void mp_layout_draw(unsigned *seed, enum tutti_datatype datatype, size_t elems, size_t room,
		    struct mp_layout *out)
{
	size_t elem = tutti_datatype_size(datatype), unit = elem;

	out->first = 0;
	out->l = (struct tutti_layout){.size = sizeof(out->l), .datatype = datatype};
	if (rand_r(seed) % 2) {
		out->l.flags = TUTTI_LAYOUT_BYTES;
		unit = 1;
	}
	if (!elems)
		return;
	if (rand_r(seed) % 2)
		draw_vector(seed, elems, room, elem, unit, out);
	else
		draw_indexed(seed, elems, room, elem, unit, out);
}

/* Copies element by element. */
static void walk(const struct tutti_layout *l, char *base, char *stream, size_t bytes, bool read)
{
	size_t elem = tutti_datatype_size(l->datatype), unit, at = 0, i, k;

	unit = l->flags & TUTTI_LAYOUT_BYTES ? 1 : elem;
	for (i = 0; i < l->count; i++) {
		ptrdiff_t begin = l->displs ? l->displs[i] : (ptrdiff_t)i * l->stride;
		char *p = base + begin * (ptrdiff_t)unit;

		for (k = 0; k < (l->blocks ? l->blocks[i] : l->block) && at < bytes; k++) {
			memcpy(read ? stream + at : p, read ? p : stream + at, elem);
			at += elem;
			p += elem;
		}
	}
}

void mp_layout_read(const struct tutti_layout *l, const char *base, char *stream, size_t bytes)
{
	if (l)
		walk(l, (char *)base, stream, bytes, true);
	else
		memcpy(stream, base, bytes);
}

void mp_layout_write(const struct tutti_layout *l, char *base, const char *stream, size_t bytes)
{
	if (l)
		walk(l, base, (char *)stream, bytes, false);
	else
		memcpy(base, stream, bytes);
}
