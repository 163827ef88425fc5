/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shared by the fuzzers. Each has one entry, called by libFuzzer if configured with --enable-fuzz,
 * else by driver.c.
 */
#ifndef TT_FUZZ_H
#define TT_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The rest of the input; beyond its end everything reads as zero. */
struct fz {
	const uint8_t *p;
	size_t len;
};

static inline uint64_t fz_u(struct fz *z, size_t bytes)
{
	uint64_t v = 0;
	size_t n = bytes < z->len ? bytes : z->len;

	memcpy(&v, z->p, n);
	z->p += n;
	z->len -= n;
	return v;
}

/* The next at most n bytes. */
static inline struct fz fz_take(struct fz *z, size_t n)
{
	struct fz t = {z->p, n < z->len ? n : z->len};

	z->p += t.len;
	z->len -= t.len;
	return t;
}

/* Fills dst, with zeros where the input ends. */
static inline void fz_fill(struct fz *z, void *dst, size_t n)
{
	struct fz t = fz_take(z, n);

	memset(dst, 0, n);
	if (t.len)
		memcpy(dst, t.p, t.len);
}

#endif
