/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reduce-scatters of encoded gradients. Each rank encodes the blocks of a bucket one by one and
 * sends each to its owner, which adds them up in the order of ranks, to its own part as it is. By a
 * codec with momentum, which all parts must have, the own part is encoded, too.
 *
 *	rank 0  [ b0  b1  b2 ]   e1 to rank 1, e2 to rank 2;   b0 + what ranks 1 and 2 send
 *
 * A vector is encoded once. What its encoding leaves out is kept for the next step. Blocks travel
 * in places of the longest encoding, behind the length of theirs, so no rank has to ask for it.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "train/sharded_state.h"
#include "train/train_fail.h"

#define HEAD sizeof(uint64_t) /* before an encoding: its bytes */

int tt_sharded_check_codec(const char *call, const struct tutti_sharded_config *c)
{
	const char *name = tutti_codec_name(c->codec);

	if (!c->codec)
		return 0;
	if (!tutti_codec_bound(c->codec, 1))
		return tt_train_fail(-EINVAL,
				     "%s: codec has been freed, is none, or has a bound of 0 bytes",
				     call);
	if (c->datatype != TUTTI_FLOAT32)
		return tt_train_fail(-EINVAL,
				     "%s: codec %s encodes float32; drop it, or use "
				     "parameters of float32",
				     call, name);
	if (c->flags & TUTTI_SHARDED_REDUCED)
		return tt_train_fail(-EINVAL,
				     "%s: codec %s with TUTTI_SHARDED_REDUCED: no gradients are "
				     "sent; pass one of both",
				     call, name);
	if (!strncmp(name, "auto", 4) && (!name[4] || name[4] == ':'))
		return tt_train_fail(-EINVAL, "%s: codec %s is for all-reduces; name one codec",
				     call, name);
	return 0;
}

/* A name of a built-in codec is no name of another one. */
static int find_user_codec(struct tutti_sharded *s)
{
	struct tutti_codec *built_in;
	int err = tutti_codec_create(tutti_codec_name(s->codec), &built_in);

	s->user_codec = err == -EINVAL;
	if (err)
		return s->user_codec ? 0 : err;
	return tutti_codec_free(built_in);
}

/* All-reduces compare flags and alignment, and name them. */
int tt_sharded_compare_codecs(const struct tutti_sharded *s)
{
	float zero = 0;
	struct tutti_call call = {.size = sizeof(call),
				  .coll = TUTTI_COLL_ALLREDUCE,
				  .sendbuf = TUTTI_IN_PLACE,
				  .recvbuf = &zero,
				  .count = 1,
				  .datatype = TUTTI_FLOAT32,
				  .op = TUTTI_SUM,
				  .codec = s->codec};

	return s->user_codec ? tutti_call(s->comm, &call, NULL) : 0;
}

static size_t residual_bytes(const struct tutti_sharded *s, size_t k)
{
	return s->b.bucket[k].count * (size_t)tutti_codec_states(s->codec) * sizeof(float);
}

int tt_sharded_new_residuals(struct tutti_sharded *s)
{
	struct tt_shard *shard;
	size_t k;
	int err = s->codec ? find_user_codec(s) : 0;

	if (err)
		return err;
	for (k = 0; s->codec && k < s->b.nbuckets; k++) {
		shard = &s->shard[k];
		shard->residual = calloc(residual_bytes(s, k) + 1, 1);
		shard->before = malloc(residual_bytes(s, k) + 1);
		if (!shard->residual || !shard->before)
			return -ENOMEM;
	}
	return 0;
}

/* The next step has no earlier one. */
void tt_sharded_clear_residuals(struct tutti_sharded *s)
{
	size_t k;

	for (k = 0; s->codec && k < s->b.nbuckets; k++)
		memset(s->shard[k].residual, 0, residual_bytes(s, k));
}

void tt_sharded_undo_residuals(struct tutti_sharded *s)
{
	struct tt_shard *shard;
	float *spoilt;
	size_t k;

	for (k = 0; s->codec && k < s->b.nbuckets; k++) {
		shard = &s->shard[k];
		spoilt = shard->residual;
		shard->residual = shard->before;
		shard->before = spoilt;
	}
}

/* Momentum changes what is encoded. */
static bool encodes_own(const struct tutti_sharded *s)
{
	return tutti_codec_states(s->codec) > 1;
}

/* Of a step, bucket, owner and rank: equal errors of qsgd on the ranks would not average out. */
static uint64_t call_number(const struct tutti_sharded *s, size_t k, size_t owner)
{
	uint64_t P = (uint64_t)s->ranks;

	return ((s->steps * s->b.nbuckets + k) * P + owner) * P + (uint64_t)s->rank;
}

/* Of the longest block, which is the first. */
static size_t place_bytes(const struct tutti_sharded *s, size_t k)
{
	size_t bound = tutti_codec_bound(s->codec, s->shard[k].lens[0]);

	return HEAD + (bound + HEAD - 1) / HEAD * HEAD;
}

/* Memory for what is sent, then for what comes. */
static size_t coded_bytes(const struct tutti_sharded *s, size_t k)
{
	return 2 * (size_t)s->ranks * place_bytes(s, k);
}

void tt_sharded_drop_coded(struct tutti_sharded *s, size_t k)
{
	tt_sharded_drop(s, coded_bytes(s, k), &s->shard[k].coded);
}

/* A residual of the own part is of a restored state with other blocks; it is added once. */
static void copy_own(const struct tutti_sharded *s, size_t k, const float *from)
{
	const struct tt_shard *shard = &s->shard[k];
	float *own = (float *)(void *)s->gradient + shard->at;
	float *residual = shard->residual + shard->lo; /* of a codec with one state */
	size_t i, n = shard->hi - shard->lo;

	memcpy(own, from + shard->lo, n * sizeof(*own));
	for (i = 0; i < n; i++)
		if (residual[i]) {
			own[i] += residual[i];
			residual[i] = 0;
		}
}

static int encode_block(const struct tutti_sharded *s, size_t k, size_t rank, const float *from)
{
	const struct tt_shard *shard = &s->shard[k];
	size_t states = (size_t)tutti_codec_states(s->codec), begin = shard->begins[rank], len = 0;
	char *to = shard->coded + rank * place_bytes(s, k);
	int err = 0;

	if (shard->lens[rank])
		err = tutti_codec_encode(s->codec, from + begin, shard->lens[rank], TUTTI_FLOAT32,
					 shard->residual + begin * states, call_number(s, k, rank),
					 to + HEAD, &len);
	*(uint64_t *)(void *)to = len;
	return err;
}

int tt_sharded_scatter_coded(struct tutti_sharded *s, size_t k, const void *from)
{
	struct tt_shard *shard = &s->shard[k];
	size_t r, bytes = place_bytes(s, k);
	int err = tt_sharded_take(s, coded_bytes(s, k), &shard->coded);

	memcpy(shard->before, shard->residual, residual_bytes(s, k));
	for (r = 0; !err && r < (size_t)s->ranks; r++)
		if (r != (size_t)s->rank || encodes_own(s))
			err = encode_block(s, k, r, from);
	if (err)
		return tt_sharded_give_up(s, err);
	if (encodes_own(s))
		memset(s->gradient + shard->at * s->b.elem, 0, (shard->hi - shard->lo) * s->b.elem);
	else
		copy_own(s, k, from);
	return tutti_ialltoall(shard->coded, shard->coded + (size_t)s->ranks * bytes, bytes,
			       TUTTI_UINT8, s->comm, &shard->scatter);
}

int tt_sharded_add_coded(struct tutti_sharded *s, size_t k)
{
	const struct tt_shard *shard = &s->shard[k];
	size_t bytes = place_bytes(s, k), n = shard->hi - shard->lo, i, r;
	float *own = (float *)(void *)s->gradient + shard->at;
	const char *from = shard->coded + (size_t)s->ranks * bytes;
	uint64_t len;
	int err = 0;

	for (r = 0; n && !err && r < (size_t)s->ranks; r++, from += bytes) {
		if (r == (size_t)s->rank && !encodes_own(s))
			continue;
		len = *(const uint64_t *)(const void *)from;
		err = len > bytes - HEAD ? -EPROTO
					 : tutti_codec_decode_add(s->codec, from + HEAD, len, own,
								  n, TUTTI_FLOAT32);
	}
	if (err == -ENOMEM)
		return tt_sharded_give_up(s, err);
	if (err) {
		err = tt_train_fail(-TUTTI_ETRANSPORT,
				    "sharded optimizer: a gradient from rank %zu of its "
				    "communicator does not decode by %s",
				    r - 1, tutti_codec_name(s->codec));
		return tt_sharded_give_up(s, err);
	}
	for (i = 0; !(s->flags & TUTTI_SHARDED_SUM) && i < n; i++)
		own[i] /= (float)s->ranks;
	tt_sharded_drop_coded(s, k);
	return 0;
}
