/* SPDX-License-Identifier: BSD-3-Clause */
/* Buffers with guard zones: a byte written outside the data is found. */
#include "perf/perf.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GUARD_BYTE 0xc7

/* MemAvailable of this host in bytes, or SIZE_MAX when the system does not say. */
static size_t memory_available(void)
{
	unsigned long long kib;
	char line[128];
	size_t bytes = SIZE_MAX;
	FILE *f = fopen("/proc/meminfo", "re");

	if (!f)
		return SIZE_MAX;
	while (fgets(line, sizeof(line), f))
		if (sscanf(line, "MemAvailable: %llu kB", &kib) == 1)
			bytes = (size_t)kib << 10;
	fclose(f);
	return bytes;
}

static int get_one(struct perf *perf, struct perf_buffer *buf, size_t size)
{
	size_t total = size + 2 * PERF_GUARD;
	void *base;
	int err;

	if (perf->opt.plain_buffers)
		err = -posix_memalign(&base, PERF_GUARD, total);
	else
		err = tutti_alloc(perf->ctx, total, &base);
	if (err)
		return err;
	buf->base = base;
	buf->data = buf->base + PERF_GUARD;
	buf->size = size;
	buf->plain = perf->opt.plain_buffers;
	return 0;
}

static int get_all(struct perf *perf, struct perf_buffer *bufs, int n, size_t size)
{
	int i, err;

	/*
	 * The kernel overcommits: it assigns memory at the first access. Without this check, too
	 * large a request would make the kernel kill a process.
	 */
	if ((double)size * n * perf->local_ranks > 0.95 * (double)memory_available())
		return -ENOMEM;
	for (i = 0; i < n; i++) {
		err = get_one(perf, &bufs[i], size);
		if (err)
			return err;
	}
	return 0;
}

int perf_buffers_get(struct perf *perf, struct perf_buffer *bufs, int n, size_t size)
{
	double failed, first;
	int err;

	memset(bufs, 0, (size_t)n * sizeof(*bufs));
	err = get_all(perf, bufs, n, size);
	failed = err ? 1 : 0;
	first = err ? perf->rank : perf->nranks;
	if (perf_agree(perf, &failed, TUTTI_SUM) || perf_agree(perf, &first, TUTTI_MIN)) {
		perf_buffers_put(bufs, n);
		return -EIO;
	}
	if (!failed)
		return 0;
	if (perf->rank == (int)first)
		fprintf(stderr,
			"tutti_perf: rank %d (%.0f of %d ranks in all) has no memory for %d "
			"buffers of %zu "
			"bytes, for %d ranks on this host: %s; choose a smaller -e\n",
			perf->rank, failed, perf->nranks, n, size, perf->local_ranks,
			tutti_strerror(err));
	perf_buffers_put(bufs, n);
	return -ENOMEM;
}

void perf_buffers_put(struct perf_buffer *bufs, int n)
{
	int i;

	for (i = 0; i < n; i++) {
		if (bufs[i].plain)
			free(bufs[i].base);
		else
			tutti_free(bufs[i].base);
		bufs[i].base = NULL;
	}
}

void perf_guard_set(struct perf_buffer *buf, size_t len)
{
	memset(buf->base, GUARD_BYTE, PERF_GUARD);
	memset(buf->data + len, GUARD_BYTE, PERF_GUARD);
}

static size_t changed(const unsigned char *guard)
{
	size_t i, n = 0;

	for (i = 0; i < PERF_GUARD; i++)
		n += guard[i] != GUARD_BYTE;
	return n;
}

size_t perf_guard_violations(const struct perf_buffer *buf, size_t len)
{
	return changed(buf->base) + changed(buf->data + len);
}

const char *const perf_fill_names[] = {"zero", "random", NULL};

void perf_fill_random(float *v, size_t count, int rank)
{
	uint32_t x = 1 + (uint32_t)rank;
	size_t i;
	int k;

	for (i = 0; i < count; i++) {
		float sum = 0;

		for (k = 0; k < 4; k++) {
			x = x * 1664525 + 1013904223;
			sum += (float)(x >> 8) - 0x1p23f;
		}
		v[i] = sum * 0x1p-30f;
	}
}
