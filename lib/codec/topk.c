/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * topk: the k elements of the greatest magnitudes, exactly, of equal ones those of the lowest
 * indices; k is the fraction of the elements, rounded up. (Aji and Heafield: Sparse Communication
 * for Distributed Gradient Descent, EMNLP 2017; Stich, Cordonnier, Jaggi: Sparsified SGD with
 * Memory, NeurIPS 2018, for feedback.)
 *
 * Selection: an element is a key, its magnitude inverted in the upper half and its index in the
 * lower one, so that the k lowest keys are the selection. A sample of the elements gives a
 * threshold that a few more than k should reach. One pass collects the keys that reach it. If they
 * are fewer than k, a second pass takes all. Where collected keys fill the memory, those beyond the
 * k lowest are dropped, and the threshold rises. A quickselect finds the k-th lowest in the end.
 * Costs about one read of the vector.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "lib/base/error.h"
#include "lib/base/hash.h"
#include "lib/codec/codec_kernels.h"
#include "lib/codec/sparse_list.h"

#define SAMPLE 4096

static size_t entries(const struct tutti_codec *c, size_t count)
{
	unsigned __int128 parts = (unsigned __int128)count * c->opt.fraction;

	return (size_t)((parts + TT_CODEC_PARTS - 1) / TT_CODEC_PARTS);
}

struct selection {
	const float *p;
	size_t n, k;
	uint64_t *keys, *scratch;
	size_t got, room;
	uint32_t least; /* magnitudes below are not selected */
};

static void swap(uint64_t *a, uint64_t *b)
{
	uint64_t t = *a;

	*a = *b;
	*b = t;
}

/* The k-th lowest of n, k from 1; reorders them. The pivot's place is random: no order is slow. */
static uint64_t find_lowest(uint64_t *a, size_t n, size_t k)
{
	size_t lo = 0, hi = n - 1, i, j;
	uint64_t seed = n, pivot;

	while (lo < hi) {
		pivot = a[lo + tt_random(&seed) % (hi - lo + 1)];
		i = lo;
		j = hi;
		while (i <= j) {
			while (a[i] < pivot)
				i++;
			while (a[j] > pivot)
				j--;
			if (i > j)
				break;
			swap(&a[i++], &a[j]);
			if (!j)
				break;
			j--;
		}
		if (k - 1 <= j)
			hi = j;
		else if (k - 1 >= i)
			lo = i;
		else
			return a[k - 1];
	}
	return a[k - 1];
}

static uint32_t magnitude_of(uint64_t key)
{
	return TT_CODEC_KEY - (uint32_t)(key >> 32);
}

/* Keeps the k lowest keys, in order of index. Elements that follow must be greater. */
static void drop_rest(struct selection *s)
{
	uint64_t last;
	size_t i, n = 0;

	if (s->got <= s->k)
		return;
	memcpy(s->scratch, s->keys, s->got * sizeof(*s->keys));
	last = find_lowest(s->scratch, s->got, s->k);
	for (i = 0; i < s->got; i++)
		if (s->keys[i] <= last)
			s->keys[n++] = s->keys[i];
	s->got = n;
	s->least = magnitude_of(last) + 1;
}

/* A magnitude that probably a few more than k elements reach. */
static uint32_t guess(const struct selection *s)
{
	double share = (double)s->k / (double)s->n * SAMPLE;
	size_t rank = (size_t)(share + 4 * sqrt(share) + 4), i;

	if (s->n <= 4 * SAMPLE || rank > SAMPLE)
		return 0;
	for (i = 0; i < SAMPLE; i++) {
		/* One from each of SAMPLE equal parts, at a place that no pattern follows. */
		size_t part = s->n / SAMPLE, at = i * part + tt_mix64(i + 1) % part;

		s->scratch[i] = TT_CODEC_KEY - (tt_f32_bits(s->p[at]) & 0x7fffffff);
	}
	return TT_CODEC_KEY - (uint32_t)find_lowest(s->scratch, SAMPLE, rank);
}

static void collect(struct selection *s)
{
	size_t at = 0, got;

	s->got = 0;
	while (at < s->n) {
		at = tt_codec_kernels()->gather(s->p, at, s->n, s->least, s->keys + s->got,
						s->room - s->got, &got);
		s->got += got;
		drop_rest(s);
	}
}

/* Sends the selection. Sent elements leave nothing in v and u. */
static size_t emit(const struct selection *s, float *v, float *u, void *out)
{
	struct tt_list_writer w = tt_list_begin(out);
	size_t i, index;

	for (i = 0; i < s->k; i++) {
		index = (uint32_t)s->keys[i];
		tt_list_put(&w, index, s->p[index]);
		if (v)
			v[index] = 0;
		if (u)
			u[index] = 0;
	}
	return tt_list_end(&w);
}

int tt_topk_run(const struct tutti_codec *c, const struct tt_codec_job *job, float *u,
		float momentum, void *out, size_t *len)
{
	const struct tt_codec_kernels *kernels = tt_codec_kernels();
	float *v = tt_codec_residual(job);
	struct selection s = {.p = v ? v : job->in, .n = job->count};

	if (!kernels->finite(job->in, v, u, momentum, s.n)) {
		*len = tt_list_all_nan(out);
		return 0;
	}
	s.k = entries(c, s.n);
	s.room = 2 * s.k + SAMPLE;
	s.keys = malloc(2 * s.room * sizeof(*s.keys));
	if (!s.keys)
		return tt_fail(-ENOMEM, "codec '%s': no memory for %zu candidates", c->name,
			       2 * s.room);
	s.scratch = s.keys + s.room;
	if (v)
		kernels->advance(job->in, v, u, momentum, s.n);
	s.least = guess(&s);
	collect(&s);
	if (s.got < s.k) {
		s.least = 0;
		collect(&s);
	}
	*len = emit(&s, v, u, out);
	free(s.keys);
	return 0;
}

size_t tt_topk_bound(const struct tutti_codec *c, size_t count)
{
	return tt_codec_list_bound(entries(c, count), count);
}

size_t tt_topk_align(const struct tutti_codec *c)
{
	(void)c;
	return 0;
}

static int encode(const struct tutti_codec *c, const struct tt_codec_job *job, void *out,
		  size_t *len)
{
	return tt_topk_run(c, job, NULL, 0, out, len);
}

const struct tt_codec_kind tt_codec_topk = {
	.name = "topk",
	.form = "topk:P%",
	.about = "the elements of the greatest magnitudes, as (index, value)",
	.sparse = true,
	.states = 1,
	.most = UINT32_MAX, /* a key has 32 bits for the index */
	.option = {TT_CODEC_FRACTION_OPTION("1%")},
	.bound = tt_topk_bound,
	.align = tt_topk_align,
	.encode = encode,
	.decode = tt_list_decode,
};
