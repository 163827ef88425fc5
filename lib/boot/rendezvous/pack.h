/* SPDX-License-Identifier: BSD-3-Clause */
/* Reading and writing the little-endian fields of frames, bounds checked, without alignment. */
#ifndef TT_PACK_H
#define TT_PACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct tt_pack {
	unsigned char *p;
	size_t len, cap;
	bool bad; /* something did not fit; nothing more is written */
};

struct tt_unpack {
	const unsigned char *p;
	size_t len;
	bool bad; /* the frame was too short; everything reads as zero */
};

static inline void tt_put(struct tt_pack *k, const void *data, size_t n)
{
	if (k->bad || n > k->cap - k->len) {
		k->bad = true;
		return;
	}
	if (n)
		memcpy(k->p + k->len, data, n);
	k->len += n;
}

static inline void tt_put_u(struct tt_pack *k, uint64_t v, int bytes)
{
	unsigned char b[8];
	int i;

	for (i = 0; i < bytes; i++)
		b[i] = (unsigned char)(v >> (8 * i));
	tt_put(k, b, (size_t)bytes);
}

/* A string: u16 length, then its bytes without the NUL. */
static inline void tt_put_str(struct tt_pack *k, const char *s)
{
	size_t n = strlen(s);

	tt_put_u(k, n, 2);
	tt_put(k, s, n);
}

static inline const void *tt_get(struct tt_unpack *u, size_t n)
{
	const unsigned char *p = u->p;

	if (u->bad || n > u->len) {
		u->bad = true;
		return NULL;
	}
	u->p += n;
	u->len -= n;
	return p;
}

static inline uint64_t tt_get_u(struct tt_unpack *u, int bytes)
{
	const unsigned char *b = tt_get(u, (size_t)bytes);
	uint64_t v = 0;
	int i;

	for (i = 0; b && i < bytes; i++)
		v |= (uint64_t)b[i] << (8 * i);
	return v;
}

/* Truncates to dst; replaces unprintable characters by '?', as the text may end up in a log. */
static inline void tt_get_str(struct tt_unpack *u, char *dst, size_t size)
{
	size_t n = (size_t)tt_get_u(u, 2), i;
	const char *s = tt_get(u, n);

	dst[0] = 0;
	if (!s)
		return;
	n = n < size ? n : size - 1;
	for (i = 0; i < n; i++)
		dst[i] = (unsigned char)s[i] < 0x20 || s[i] == 0x7f ? '?' : s[i];
	dst[n] = 0;
}

#endif
