/* SPDX-License-Identifier: BSD-3-Clause */
/* Tensors in buckets. */
#include "train/buckets.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "train/train_fail.h"

/* Of first_bytes, in the last bucket and those before it: 4 KiB to 1 MiB by default. */
static const size_t parts[] = {256, 64, 16, 4, 1};
#define ENDS (sizeof(parts) / sizeof(parts[0]))

uint64_t tt_train_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

int tt_buckets_check(const char *call, size_t n, const size_t *counts, void *const *tensors,
		     const char *name, size_t elem)
{
	size_t i, total = 0;

	if (!n || n > (size_t)1 << 32)
		return tt_train_fail(-EINVAL, "%s: n is %zu tensors; pass at least 1", call, n);
	if (!counts || !tensors)
		return tt_train_fail(-EINVAL, "%s: %s is NULL", call, counts ? name : "counts");
	for (i = 0; i < n; i++) {
		if (counts[i] > (size_t)PTRDIFF_MAX / elem - total)
			return tt_train_fail(-EINVAL,
					     "%s: tensor %zu has %zu elements, which do not fit in "
					     "memory with those before it",
					     call, i, counts[i]);
		total += counts[i];
		if (counts[i] && !tensors[i])
			return tt_train_fail(-EINVAL, "%s: %s of tensor %zu is NULL", call, name,
					     i);
	}
	return 0;
}

int tt_buckets_new(struct tt_buckets *b, size_t n, const size_t *counts, size_t elem)
{
	size_t i;

	*b = (struct tt_buckets){.n = n, .elem = elem};
	b->counts = malloc(n * sizeof(*counts));
	b->order = malloc(n * sizeof(*b->order));
	b->bucket_of = malloc(n * sizeof(*b->bucket_of));
	b->offset = malloc(n * sizeof(*b->offset));
	b->bucket = malloc(n * sizeof(*b->bucket));
	if (!b->counts || !b->order || !b->bucket_of || !b->offset || !b->bucket)
		return -ENOMEM;
	memcpy(b->counts, counts, n * sizeof(*counts));
	for (i = 0; i < n; i++)
		b->total += counts[i];
	return 0;
}

void tt_buckets_free(struct tt_buckets *b)
{
	free(b->counts);
	free(b->order);
	free(b->bucket_of);
	free(b->offset);
	free(b->bucket);
	*b = (struct tt_buckets){0};
}

static int by_value(const void *a, const void *b)
{
	size_t x = *(const size_t *)a, y = *(const size_t *)b;

	return (x > y) - (x < y);
}

/* The tensors of a bucket are known. */
static void place_tensors(struct tt_buckets *b, size_t k)
{
	struct tt_bucket *bucket = &b->bucket[k];
	size_t i, tensor;

	qsort(b->order + bucket->first, bucket->n, sizeof(*b->order), by_value);
	bucket->count = 0;
	for (i = 0; i < bucket->n; i++) {
		tensor = b->order[bucket->first + i];
		b->bucket_of[tensor] = k;
		b->offset[tensor] = bucket->count;
		bucket->count += b->counts[tensor];
	}
}

/*
 * Where those of the first n tensors begin that are the last ones and have at most so many bytes
 * together; n: none has so few. one: the last that has elements is one of them, however long.
 */
static size_t begin_last(const struct tt_buckets *b, size_t n, size_t bytes, bool one)
{
	size_t i = n, have = 0, more;

	for (; i; i--, have += more) {
		more = b->counts[b->order[i - 1]] * b->elem;
		if (have + more > bytes && (have || !one))
			break;
	}
	return have ? i : n;
}

static bool has(const size_t *places, size_t n, size_t place)
{
	while (n && places[n - 1] != place)
		n--;
	return n > 0;
}

void tt_buckets_divide(struct tt_buckets *b, const size_t *order, size_t first_bytes, size_t bytes)
{
	size_t i, have = 0, k = 0, end = b->n, begins[ENDS];

	for (i = 0; i < b->n; i++)
		b->order[i] = order ? order[i] : b->n - 1 - i;
	for (i = 0; i < ENDS; i++) {
		if (first_bytes < bytes)
			end = begin_last(b, end, first_bytes / parts[i], i == 0);
		begins[i] = end;
	}
	b->bucket[0] = (struct tt_bucket){0};
	for (i = 0; i < b->n; i++) {
		b->bucket[k].n++;
		have += b->counts[b->order[i]] * b->elem;
		if (i + 1 == b->n ||
		    (have < (k ? bytes : first_bytes) && !has(begins, ENDS, i + 1)))
			continue;
		b->bucket[++k] = (struct tt_bucket){.first = i + 1};
		have = 0;
	}
	b->nbuckets = k + 1;
	for (k = 0; k < b->nbuckets; k++)
		place_tensors(b, k);
	tt_buckets_reset(b);
}

void tt_buckets_reset(struct tt_buckets *b)
{
	size_t k;

	for (k = 0; k < b->nbuckets; k++)
		b->bucket[k].waiting = b->bucket[k].n;
}

char *tt_bucket_place(const struct tt_buckets *b, size_t k, char *const *tensors)
{
	const struct tt_bucket *bucket = &b->bucket[k];
	char *start = NULL;
	size_t i, tensor;

	for (i = 0; i < bucket->n; i++) {
		tensor = b->order[bucket->first + i];
		if (!b->counts[tensor])
			continue;
		if (!start)
			start = tensors[tensor];
		if (tensors[tensor] != start + b->offset[tensor] * b->elem)
			return NULL;
	}
	return start;
}

static void copy(void *to, const void *from, size_t len)
{
	if (len && to != from)
		memcpy(to, from, len);
}

void tt_bucket_pack(const struct tt_buckets *b, size_t k, char *const *tensors, char *to)
{
	const size_t *t = b->order + b->bucket[k].first, *end = t + b->bucket[k].n;

	for (; t < end; t++)
		copy(to + b->offset[*t] * b->elem, tensors[*t], b->counts[*t] * b->elem);
}

void tt_bucket_unpack(const struct tt_buckets *b, size_t k, const char *from, char *const *tensors)
{
	const size_t *t = b->order + b->bucket[k].first, *end = t + b->bucket[k].n;

	for (; t < end; t++)
		copy(tensors[*t], from + b->offset[*t] * b->elem, b->counts[*t] * b->elem);
}

/* ---- what all ranks must pass alike ---- */

#define SAME_MAX 16

uint64_t tt_same_real(double x)
{
	uint64_t bits;

	memcpy(&bits, &x, sizeof(bits));
	return bits;
}

/* " (float32 and float64)"; of hashes, which tell nothing, "". */
static const char *both_text(const struct tt_same *same, uint64_t a, uint64_t b, char *buf,
			     size_t size)
{
	double x, y;

	memcpy(&x, &a, sizeof(x));
	memcpy(&y, &b, sizeof(y));
	buf[0] = 0;
	if (same->kind == TT_NUMBER)
		snprintf(buf, size, " (%llu and %llu)", (unsigned long long)a,
			 (unsigned long long)b);
	else if (same->kind == TT_DATATYPE)
		snprintf(buf, size, " (%s and %s)", tutti_datatype_name((enum tutti_datatype)a),
			 tutti_datatype_name((enum tutti_datatype)b));
	else if (same->kind == TT_REAL)
		snprintf(buf, size, " (%.17g and %.17g)", x, y);
	return buf;
}

/* The first rank that differs from rank 0 is named; all: own values of all ranks. */
static int compare(const char *call, const struct tt_same *same, int n, const uint64_t *all,
		   int ranks)
{
	size_t width = (size_t)n + 1;
	const uint64_t *v;
	char both[80];
	int r, k;

	for (r = 1; r < ranks; r++) {
		v = all + (size_t)r * width;
		if (v[0] != all[0])
			return tt_train_fail(-TUTTI_EMISMATCH,
					     "%s: rank %d has %llu tensors, rank 0 has %llu; pass "
					     "the same model on all ranks",
					     call, r, (unsigned long long)v[0],
					     (unsigned long long)all[0]);
		for (k = 0; k < n; k++)
			if (v[k + 1] != all[k + 1])
				return tt_train_fail(-TUTTI_EMISMATCH,
						     "%s: ranks 0 and %d disagree on %s%s; pass "
						     "the same config on all ranks",
						     call, r, same[k].name,
						     both_text(&same[k], all[k + 1], v[k + 1], both,
							       sizeof(both)));
	}
	return 0;
}

/* The counts of rank 0, then from each rank its first tensor that differs, and its count. */
static int compare_counts(struct tutti_comm *comm, const char *call, const struct tt_buckets *b,
			  uint64_t *all, uint64_t *first)
{
	int ranks = tutti_comm_size(comm), r, err;
	uint64_t own[2] = {b->n, 0};
	size_t i;

	for (i = 0; i < b->n; i++)
		first[i] = b->counts[i];
	err = tutti_bcast(first, b->n, TUTTI_UINT64, 0, comm);
	if (err)
		return err;
	for (i = 0; i < b->n && first[i] == b->counts[i]; i++)
		;
	own[0] = i;
	own[1] = i < b->n ? b->counts[i] : 0;
	err = tutti_allgather(own, all, 2, TUTTI_UINT64, comm);
	for (r = 1; !err && r < ranks; r++)
		if (all[2 * r] < b->n)
			err = tt_train_fail(-TUTTI_EMISMATCH,
					    "%s: tensor %llu has %llu elements on rank %d and %llu "
					    "on rank 0; pass the same model on all ranks",
					    call, (unsigned long long)all[2 * r],
					    (unsigned long long)all[2 * r + 1], r,
					    (unsigned long long)first[all[2 * r]]);
	return err;
}

int tt_buckets_agree(struct tutti_comm *comm, const char *call, const struct tt_same *same, int n,
		     const struct tt_buckets *b)
{
	uint64_t own[SAME_MAX + 1] = {b->n}, *all, *first;
	int ranks = tutti_comm_size(comm), k, err = 0;

	all = calloc((size_t)ranks, ((size_t)n + 1) * sizeof(*all));
	first = malloc((b->n + 1) * sizeof(*first));
	if (!all || !first)
		err = tt_train_fail(-ENOMEM, "%s: no memory to compare the ranks", call);
	err = tt_train_agree(comm, call, err);
	for (k = 0; k < n; k++)
		own[k + 1] = same[k].value;
	if (!err)
		err = tutti_allgather(own, all, (size_t)n + 1, TUTTI_UINT64, comm);
	if (!err)
		err = compare(call, same, n, all, ranks);
	if (!err)
		err = compare_counts(comm, call, b, all, first);
	free(all);
	free(first);
	return err;
}

uint64_t tt_train_codec_number(const struct tutti_codec *codec)
{
	const char *c = codec ? tutti_codec_name(codec) : "";
	uint64_t hash = *c ? 14695981039346656037u : 0;

	for (; *c; c++)
		hash = (hash ^ (unsigned char)*c) * 1099511628211u;
	return hash;
}
