/* SPDX-License-Identifier: BSD-3-Clause */
/* Ops that encode and decode parts of a vector, with the codec of the call. */
#include <errno.h>

#include "lib/base/hash.h"
#include "lib/engine/engine.h"

/*
 * Random bits depend on it. It differs between calls, and between ranks, or the errors of qsgd
 * would be equal and not average out; but all ranks must choose the same elements by randomk.
 */
static uint64_t call_number(const struct tt_plan_req *req, const struct tutti_codec *codec)
{
	uint64_t call = req->r.seq | (uint64_t)req->fields.init << 40;

	return tt_codec_draws(codec) ? call : tt_hash_add(call, (uint64_t)req->r.comm->rank);
}

static char *at(const struct tt_plan_req *req, struct tt_ref ref)
{
	return req->base[ref.buf] + ref.off;
}

/* An encoding in memory: behind its head, if its length varies. */
struct coded {
	struct tt_coded_head *head; /* or NULL */
	char *at;
	size_t most; /* bytes */
};

static struct coded coded_at(const struct tt_plan_req *req, struct tt_ref ref, size_t count)
{
	const struct tt_plan_codec *codec = req->plan->args.codec;
	struct coded c = {.at = at(req, ref), .most = tt_codec_bound(codec->codec, count)};

	if (codec->varies) {
		c.head = (struct tt_coded_head *)(void *)c.at;
		c.at += sizeof(*c.head);
	}
	return c;
}

static int encode(struct tt_plan_req *req, const struct tt_op *op)
{
	const struct tutti_codec *codec = req->plan->args.codec->codec;
	size_t count = op->len / sizeof(float), first = op->b.off / sizeof(float), len = 0;
	struct coded to = coded_at(req, op->dst, count);
	float *state[TT_CODEC_STATES];
	int i, err;

	for (i = 0; op->b.buf && i < tt_codec_states(codec); i++)
		state[i] = req->feedback->state + (size_t)i * req->feedback->count + first;
	err = tt_codec_encode(codec, (const float *)at(req, op->a), op->b.buf ? state : NULL, first,
			      count, call_number(req, codec), to.at, &len);
	if (!err && (to.head ? len > to.most : len != to.most))
		err = tt_fail(-EPROTO, "codec %s has encoded %zu elements to %zu bytes, not %zu",
			      tt_codec_name(codec), count, len, to.most);
	if (!err && to.head)
		to.head->len = len;
	return err;
}

static void divide(float *v, size_t count, int by)
{
	size_t i;

	for (i = 0; i < count; i++)
		v[i] /= (float)by;
}

static int too_long(const struct tutti_codec *codec, uint64_t len, size_t most)
{
	return tt_fail(-EPROTO,
		       "codec %s: the head tells %llu bytes, more than the %zu of any "
		       "encoding",
		       tt_codec_name(codec), (unsigned long long)len, most);
}

/* A sum of lists of vectors of len bytes. */
static int sum_at(const struct tt_plan_req *req, struct tt_ref ref, size_t len,
		  struct tt_codec_sum *sum)
{
	const struct tt_plan_args *a = &req->plan->args;
	const struct tt_coded_head *head = (const struct tt_coded_head *)(void *)at(req, ref);
	size_t most = tt_coded_sum(a, len) - sizeof(*head);

	*sum = (struct tt_codec_sum){.at = head + 1,
				     .len = (size_t)(head->len & ~TT_CODED_DENSE),
				     .dense = head->len & TT_CODED_DENSE};
	return sum->len > most ? too_long(a->codec->codec, sum->len, most) : 0;
}

static int merge(struct tt_plan_req *req, const struct tt_op *op)
{
	struct tt_coded_head *head = (struct tt_coded_head *)(void *)at(req, op->dst);
	const struct tutti_codec *codec = req->plan->args.codec->codec;
	struct tt_codec_sum a, b, sum;
	int err = sum_at(req, op->a, op->len, &a);

	if (!err)
		err = sum_at(req, op->b, op->len, &b);
	if (!err)
		err = tt_codec_sum_merge(codec, &a, &b, op->len / sizeof(float), head + 1, &sum);
	if (err)
		return err;
	head->len = sum.len | (sum.dense ? TT_CODED_DENSE : 0);
	tt_wire_stats(req->r.comm->ctx->wire)->reduced_bytes += op->len;
	return 0;
}

static int decode(struct tt_plan_req *req, const struct tt_op *op)
{
	const struct tutti_codec *codec = req->plan->args.codec->codec;
	size_t count = op->len / sizeof(float), first = op->b.off / sizeof(float);
	struct coded from = coded_at(req, op->a, count);
	size_t len = from.head ? (size_t)from.head->len : from.most;
	float *to = (float *)at(req, op->dst);
	struct tt_codec_sum sum;
	int err;

	if (op->flags & TT_OPF_SUM) {
		err = sum_at(req, op->a, op->len, &sum);
		err = err ? err : tt_codec_sum_decode(codec, &sum, count, to);
	} else if (len > from.most)
		err = too_long(codec, len, from.most);
	else if (op->kind == TT_OP_DECODE)
		err = tt_codec_decode(codec, from.at, len, first, count, to);
	else
		err = tt_codec_decode_add(codec, from.at, len, first, count, to);
	if (!err && op->flags & TT_OPF_DIVIDE)
		divide(to, count, req->r.comm->size);
	if (!err && op->kind == TT_OP_DECODE_ADD)
		tt_wire_stats(req->r.comm->ctx->wire)->reduced_bytes += op->len;
	return err;
}

/* Data that does not decode is damaged, as data with a wrong checksum is. */
static void fail(struct tt_plan_req *req, const struct tt_op *op, int err)
{
	struct tutti_comm *comm = req->r.comm;
	int peer = comm->world[op->kind == TT_OP_ENCODE ? comm->rank : op->peer];
	const char *host = tt_boot_host(comm->ctx->boot, peer);
	char text[160], why[160];

	snprintf(why, sizeof(why), "%s", tt_fail_text(err));
	tt_fields_text(&req->fields, req->r.seq, text, sizeof(text));
	if (op->kind == TT_OP_ENCODE)
		tt_comm_fail(comm, err, peer, req->r.ops->call(&req->r), req->r.seq, "",
			     "%s failed on rank %d on host %s: %s", text, peer, host, why);
	else
		tt_comm_fail(comm, -TUTTI_ETRANSPORT, peer, req->r.ops->call(&req->r), req->r.seq,
			     "", "%s: what rank %d on host %s has sent arrived damaged: %s", text,
			     peer, host, why);
}

bool tt_code_len(struct tt_plan_req *req, const struct tt_op *op, size_t *len)
{
	size_t sent = (op->kind == TT_OP_SEND ? op->a.off : op->dst.off) - op->b.off -
		      sizeof(struct tt_coded_head); /* by the messages before this one */
	uint64_t told =
		((const struct tt_coded_head *)(const void *)at(req, op->b))->len & ~TT_CODED_DENSE;
	uint64_t left = told > sent ? told - sent : 0;

	if (left > op->len && !(op->flags & TT_OPF_MORE)) {
		fail(req, op, too_long(req->plan->args.codec->codec, told, sent + op->len));
		return false;
	}
	*len = left < op->len ? (size_t)left : op->len;
	return true;
}

bool tt_code_branch(struct tt_plan_req *req)
{
	const struct tt_plan *plan = req->plan;
	size_t most = tt_codec_bound(plan->args.codec->codec, plan->args.count);
	uint64_t len, all = 0;
	int r;

	for (r = 0; r < plan->args.nranks; r++) {
		struct tt_ref ref = TT_SCRATCH(plan->heads + (size_t)r * plan->head_stride);

		len = ((const struct tt_coded_head *)(const void *)at(req, ref))->len;
		if (len > most) {
			fail(req, &(struct tt_op){.kind = TT_OP_DECODE, .peer = r},
			     too_long(plan->args.codec->codec, len, most));
			return false;
		}
		all += len;
	}
	req->way = tt_list_branch(&plan->args, all);
	req->lanes[0].rounds = tt_plan_branch_rounds(plan, req->way, 0);
	return true;
}

bool tt_code_op(struct tt_plan_req *req, const struct tt_op *op)
{
	int err = op->kind == TT_OP_ENCODE  ? encode(req, op)
		  : op->kind == TT_OP_MERGE ? merge(req, op)
					    : decode(req, op);

	if (err)
		fail(req, op, err);
	return !err;
}
