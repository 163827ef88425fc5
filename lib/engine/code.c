/* SPDX-License-Identifier: BSD-3-Clause */
/* Ops that encode and decode parts of a vector, with the codec of the call. */
#include <errno.h>
#include <string.h>

#include "lib/base/hash.h"
#include "lib/engine/engine.h"

/*
 * Random bits depend on it. It differs between calls, and between ranks, or the errors of qsgd
 * would be equal and not average out; but all ranks must choose the same elements by randomk.
 */
static uint64_t call_number(const struct tt_plan_req *req, const struct tutti_codec *codec)
{
	uint64_t call = req->r.seq | (uint64_t)req->fields.init << 40;

	return strncmp(tt_codec_name(codec), "randomk", 7)
		       ? tt_hash_add(call, (uint64_t)req->r.comm->rank)
		       : call;
}

static char *at(const struct tt_plan_req *req, struct tt_ref ref)
{
	return req->base[ref.buf] + ref.off;
}

static int encode(struct tt_plan_req *req, const struct tt_op *op)
{
	const struct tutti_codec *codec = req->plan->args.codec->codec;
	size_t count = op->len / sizeof(float), first = op->b.off / sizeof(float), len = 0;
	float *state[TT_CODEC_STATES];
	int i, err;

	for (i = 0; op->b.buf && i < tt_codec_states(codec); i++)
		state[i] = req->feedback->state + (size_t)i * req->feedback->count + first;
	err = tt_codec_encode(codec, (const float *)at(req, op->a), op->b.buf ? state : NULL, first,
			      count, call_number(req, codec), at(req, op->dst), &len);
	if (!err && len != tt_codec_bound(codec, count))
		err = tt_fail(-EPROTO, "codec %s has encoded %zu elements to %zu bytes, not %zu",
			      tt_codec_name(codec), count, len, tt_codec_bound(codec, count));
	return err;
}

static void divide(float *v, size_t count, int by)
{
	size_t i;

	for (i = 0; i < count; i++)
		v[i] /= (float)by;
}

static int decode(struct tt_plan_req *req, const struct tt_op *op)
{
	const struct tutti_codec *codec = req->plan->args.codec->codec;
	size_t count = op->len / sizeof(float), first = op->b.off / sizeof(float);
	size_t len = tt_codec_bound(codec, count);
	float *to = (float *)at(req, op->dst);
	int err;

	if (op->kind == TT_OP_DECODE)
		err = tt_codec_decode(codec, at(req, op->a), len, first, count, to);
	else
		err = tt_codec_decode_add(codec, at(req, op->a), len, first, count, to);
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

bool tt_code_op(struct tt_plan_req *req, const struct tt_op *op)
{
	int err = op->kind == TT_OP_ENCODE ? encode(req, op) : decode(req, op);

	if (err)
		fail(req, op, err);
	return !err;
}
