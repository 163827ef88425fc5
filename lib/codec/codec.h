/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Codecs, as the collectives use them: parts of vectors, feedback, received encodings.
 *
 * Encoding with feedback: p = in + residual, out = C(p), residual = p - D(out), each one float32
 * operation. A block with a p that is not finite decodes to NaN as a whole and leaves its residual
 * unchanged. A block is an element (casts, threshold), the elements that share a scale (int8, qsgd,
 * onebit), the elements of which one is sent (randomk), or all that one call encodes (topk, dgc).
 *
 * Equal arguments give equal bytes on all CPUs and at all instruction levels of lib/reduce.
 * Functions that return int return 0 or a negative code with a text (tt_fail). No two arguments may
 * overlap. in, out and encodings need no alignment beyond that of float for vectors.
 */
#ifndef TT_CODEC_H
#define TT_CODEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <tutti/codec.h>

#define TT_CODEC_STATES 2 /* at most */

/* A codec of a name, or of callbacks that have been checked: held once. */
int tt_codec_new(const char *name, struct tutti_codec **codec);
int tt_codec_new_user(const struct tutti_codec_user *user, struct tutti_codec **codec);

/* The built-in family that the name is of: what is before a colon; NULL: none. */
const char *tt_codec_family(const char *name);

/* The name with all options: equal names are equal codecs (user-defined ones: by agreement). */
const char *tt_codec_name(const struct tutti_codec *c);
/* The same, of user-defined ones with their flags and align, to tell them from others. */
const char *tt_codec_label(const struct tutti_codec *c);
/* For fingerprints: of the name, and of a user-defined one's flags and align. */
uint64_t tt_codec_hash(const struct tutti_codec *c);

/* Requests hold their codec; the last release frees it. Any thread. */
struct tutti_codec *tt_codec_hold(struct tutti_codec *c);
void tt_codec_release(struct tutti_codec *c);
/* The program's hold: a codec that it has given up is none for its calls. NULL passes. */
int tt_codec_check(const char *call, const struct tutti_codec *c);
void tt_codec_give_up(struct tutti_codec *c);

/* The most bytes of an encoding of count elements; 0 for 0 elements; grows with count. */
size_t tt_codec_bound(const struct tutti_codec *c, size_t count);
/*
 * For a vector of count elements. -EINVAL if the codec encodes it as one and these are too many, or
 * if it is user-defined and has no usable bound of them; else 0.
 */
int tt_codec_check_bound(const struct tutti_codec *c, size_t count);
/*
 * Every encoding of count elements has exactly tt_codec_bound(c, count) bytes: casts, fp8, int8,
 * qsgd, onebit, randomk, and user-defined codecs that say so.
 */
bool tt_codec_fixed(const struct tutti_codec *c);
/*
 * Elements that are encoded together: parts of a vector begin at multiples, so that the decoded
 * values do not depend on the parts. 0: the result depends on what one call encodes (topk, dgc), so
 * one call encodes the whole vector.
 */
size_t tt_codec_align(const struct tutti_codec *c);
/* Vectors of state that feedback needs: 1 (the residual), 2 (dgc: residual, momentum). */
int tt_codec_states(const struct tutti_codec *c);
/* Encodings are lists of (index, value): topk, threshold, dgc. */
bool tt_codec_sparse(const struct tutti_codec *c);
/*
 * The number of the call draws the elements that are sent, and the others count as 0: randomk.
 * Ranks whose encodings are added pass the same call, and sums need feedback.
 */
bool tt_codec_draws(const struct tutti_codec *c);

/*
 * Encode elements first .. first + count - 1 of a vector, given at in, to out, which has room for
 * tt_codec_bound(c, count) bytes; *len: the bytes written.
 *
 * state: NULL, no feedback; or tt_codec_states(c) pointers to the state of these elements, count
 * floats each, 0 at the begin: state[0] is the residual, state[1] the momentum u of dgc. On an
 * error the state is unchanged.
 *
 * first: a multiple of tt_codec_align; 0 if that is 0. call numbers the encodings of a vector.
 * Random bits depend on (seed, call, element) only. Ranks whose encodings are added pass the same
 * call if tt_codec_draws. Otherwise they pass different calls, or the errors of qsgd are equal and
 * do not average out.
 *
 * randomk multiplies by the block's length if state is NULL (unbiased), and not with feedback; qsgd
 * divides by 1 + its variance with feedback.
 */
int tt_codec_encode(const struct tutti_codec *c, const float *in, float *const *state, size_t first,
		    size_t count, uint64_t call, void *out, size_t *len);

/*
 * The residual where sum was sent as it is: 0, unless an element of sum is not finite, whose
 * residual stays. Returns whether something is left.
 */
bool tt_codec_clear(float *residual, const float *sum, size_t count);

/*
 * Decode the len bytes at in, received from anywhere, to count elements. len, counts and indices
 * are checked before use. -EPROTO: not an encoding of elements first .. first + count - 1; out is
 * then undefined.
 */
int tt_codec_decode(const struct tutti_codec *c, const void *in, size_t len, size_t first,
		    size_t count, float *out);
/*
 * out += D(in), element by element, in float32; every NaN in the result is the one quiet NaN.
 * Sparse codecs touch only what the encoding lists. -EPROTO: out may hold a part of the sum.
 */
int tt_codec_decode_add(const struct tutti_codec *c, const void *in, size_t len, size_t first,
			size_t count, float *out);

/* For sparse codecs. The most bytes of a list of that many entries among count elements. */
size_t tt_codec_list_bound(size_t entries, size_t count);
/*
 * out = the list of a + b: each index that one of them has, values added in this order. out has
 * room for tt_codec_list_bound(entries of a + entries of b, count) bytes and overlaps neither.
 */
int tt_codec_merge(const struct tutti_codec *c, const void *a, size_t alen, const void *b,
		   size_t blen, size_t count, void *out, size_t *len);

/*
 * ns per byte of a vector to encode it with feedback, and to decode it: about, and the same in all
 * processes. User-defined codecs: 0, unknown.
 */
struct tt_codec_cost {
	double encode, decode;
};
struct tt_codec_cost tt_codec_cost(const struct tutti_codec *c);

#define TT_CODEC_CHOICES 8 /* codecs of an "auto", at most */
/*
 * Of "auto": the codecs that it may choose, and how many; of others NULL and 0. "auto" itself
 * encodes nothing.
 */
struct tutti_codec *const *tt_codec_choices(const struct tutti_codec *c, int *n);

/*
 * A sum of lists: a list, until the vector itself, count floats, is shorter. The bytes of the
 * longest encoding, or 4 * count if that is more, hold any such sum.
 */
struct tt_codec_sum {
	const void *at;
	size_t len;
	bool dense;
};
/* out = the sum. -EPROTO: it is none of count elements. */
int tt_codec_sum_decode(const struct tutti_codec *c, const struct tt_codec_sum *sum, size_t count,
			float *out);
/*
 * a + b at out, which overlaps neither. Equal bytes of a and b give equal bytes of the sum, but the
 * order counts.
 */
int tt_codec_sum_merge(const struct tutti_codec *c, const struct tt_codec_sum *a,
		       const struct tt_codec_sum *b, size_t count, void *out,
		       struct tt_codec_sum *sum);

/* Report the codecs that exist, in order: the form of the name and one line about it. */
void tt_codec_each(void (*fn)(const char *form, const char *about, void *arg), void *arg);

#endif
