/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tensors in buckets: which tensor is where, which are ready, and how they move between the
 * caller's memory and a bucket's. Nothing here communicates but tt_buckets_agree.
 */
#ifndef TT_TRAIN_BUCKETS_H
#define TT_TRAIN_BUCKETS_H

#include <stdbool.h>
#include <tutti/tutti.h>

#define TT_FIRST_BYTES ((size_t)1 << 20) /* defaults of tt_buckets_divide */
#define TT_BUCKET_BYTES ((size_t)25 << 20)

struct tt_bucket {
	size_t first, n; /* its tensors: order[first .. first + n - 1] */
	size_t count;	 /* elements */
	size_t waiting;	 /* tensors that are not ready in this step */
};

struct tt_buckets {
	size_t n;     /* tensors */
	size_t elem;  /* bytes of an element */
	size_t total; /* elements */
	size_t *counts;
	size_t *order;		    /* tensors, bucket by bucket, by index within a bucket */
	size_t *bucket_of, *offset; /* of each tensor: its bucket, its first element there */
	size_t nbuckets;
	struct tt_bucket *bucket;
};

/* 0 or -ENOMEM; undone by tt_buckets_free, also after a failure. */
int tt_buckets_new(struct tt_buckets *b, size_t n, const size_t *counts, size_t elem);
void tt_buckets_free(struct tt_buckets *b);
/*
 * Divides the tensors, taken in this order, or from the last to the first (NULL): a bucket ends
 * with the tensor by which it has its bytes. If the others may have more than first_bytes, the last
 * bucket has the last tensors of at most 1/256 of first_bytes, or the last one alone. The four
 * before it have the tensors before those, at most 1/64, 1/16, 1/4 and all of first_bytes; one that
 * has room for none is left out. Within a bucket tensors lie by index, so those of a flat vector of
 * gradients lie in it as they do in the vector.
 */
void tt_buckets_divide(struct tt_buckets *b, const size_t *order, size_t first_bytes, size_t bytes);
/* No tensor is ready. */
void tt_buckets_reset(struct tt_buckets *b);
/* Where the tensors of a bucket lie one after the other in the caller's memory, or NULL. */
char *tt_bucket_place(const struct tt_buckets *b, size_t k, char *const *tensors);
/* All tensors of a bucket to or from its memory. */
void tt_bucket_pack(const struct tt_buckets *b, size_t k, char *const *tensors, char *to);
void tt_bucket_unpack(const struct tt_buckets *b, size_t k, const char *from, char *const *tensors);

/* A value of the caller's that must be the same on all ranks. */
struct tt_same {
	const char *name;
	uint64_t value;
	enum { TT_NUMBER, TT_DATATYPE, TT_REAL, TT_HASH } kind; /* for the text */
};
#define TT_SAME_NUMBER(name, number)                                                               \
	{                                                                                          \
		name, (uint64_t)(number), TT_NUMBER                                                \
	}
#define TT_SAME_DATATYPE(name, number)                                                             \
	{                                                                                          \
		name, (uint64_t)(number), TT_DATATYPE                                              \
	}
#define TT_SAME_REAL(name, number)                                                                 \
	{                                                                                          \
		name, tt_same_real(number), TT_REAL                                                \
	}
#define TT_SAME_HASH(name, number)                                                                 \
	{                                                                                          \
		name, number, TT_HASH                                                              \
	}
uint64_t tt_same_real(double x); /* its bits */
/*
 * Collective: 0 if all ranks passed the same values, numbers of tensors and counts and had
 * memory; else the same error on all ranks, which names the rank and the value or tensor.
 */
int tt_buckets_agree(struct tutti_comm *comm, const char *call, const struct tt_same *same, int n,
		     const struct tt_buckets *b);
/* 0, or -EINVAL with a text: n, counts and tensors as the caller passed them. */
int tt_buckets_check(const char *call, size_t n, const size_t *counts, void *const *tensors,
		     const char *name, size_t elem);
/* Of the codec's name, to compare ranks by; 0: none. */
uint64_t tt_train_codec_number(const struct tutti_codec *codec);
uint64_t tt_train_now(void); /* nanoseconds */

#endif
