/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tutti_call: a collective described by a struct. Fields that the collective does not have, and
 * fields that this version does not know, must be 0; everything else is checked as in the plain
 * call.
 */
#include <errno.h>

#include "lib/api/api.h"

_Static_assert(TUTTI_COLL_BARRIER - 1 == TT_COLL_BARRIER, "same order");
_Static_assert(TUTTI_COLL_ALLGATHERV - 1 == TT_COLL_ALLGATHERV, "same order");
_Static_assert(TUTTI_COLL_ALLTOALLV - 1 == TT_COLL_ALLTOALLV, "same order");
_Static_assert(TUTTI_COLL_EXSCAN - 1 == TT_COLL_EXSCAN, "same order");

/* The fields that a collective may lack. */
static const char *const fields[] = {
	"sendbuf",    "recvbuf",    "count",	"sendcounts", "senddispls",
	"recvcounts", "recvdispls", "datatype", "op",	      "root",
	"quorum",     "cutoff_ms",  "pad",	"codec",      "feedback",
};
#define FLAGS (TUTTI_CALL_PERSISTENT | TUTTI_CALL_POLL)
enum {
	SEND = 1 << 0,
	RECV = 1 << 1,
	COUNT = 1 << 2,
	SCOUNTS = 3 << 3,
	RCOUNTS = 1 << 5,
	RDISPLS = 1 << 6,
	TYPE = 1 << 7,
	OP = 1 << 8,
	ROOT = 1 << 9,
	QUORUM = 10, /* the first of those that no collective has */
	CODEC_AT = 13,
	CODEC = 3 << CODEC_AT, /* with feedback */
	BOTH = SEND | RECV | TYPE,
};

static unsigned fields_of(enum tt_coll coll)
{
	static const unsigned has[TT_NUM_COLLS] = {
		[TT_COLL_ALLREDUCE] = BOTH | COUNT | OP | CODEC,
		[TT_COLL_BCAST] = RECV | TYPE | COUNT | ROOT,
		[TT_COLL_BARRIER] = 0,
		[TT_COLL_REDUCE] = BOTH | COUNT | OP | ROOT,
		[TT_COLL_REDUCE_SCATTER_BLOCK] = BOTH | COUNT | OP,
		[TT_COLL_REDUCE_SCATTER] = BOTH | RCOUNTS | OP,
		[TT_COLL_ALLGATHER] = BOTH | COUNT,
		[TT_COLL_ALLGATHERV] = BOTH | COUNT | RCOUNTS | RDISPLS,
		[TT_COLL_GATHER] = BOTH | COUNT | ROOT,
		[TT_COLL_GATHERV] = BOTH | COUNT | RCOUNTS | RDISPLS | ROOT,
		[TT_COLL_SCATTER] = BOTH | COUNT | ROOT,
		[TT_COLL_SCATTERV] = BOTH | COUNT | SCOUNTS | ROOT,
		[TT_COLL_ALLTOALL] = BOTH | COUNT,
		[TT_COLL_ALLTOALLV] = BOTH | SCOUNTS | RCOUNTS | RDISPLS,
		[TT_COLL_SCAN] = BOTH | COUNT | OP,
		[TT_COLL_EXSCAN] = BOTH | COUNT | OP,
	};

	return has[coll];
}

/* A bit for each entry of fields[] that is not 0, without branches: calls of 8 bytes pay for it. */
static unsigned fields_set(const struct tutti_call *c)
{
	return (unsigned)!!c->sendbuf | (unsigned)!!c->recvbuf << 1 | (unsigned)!!c->count << 2 |
	       (unsigned)!!c->sendcounts << 3 | (unsigned)!!c->senddispls << 4 |
	       (unsigned)!!c->recvcounts << 5 | (unsigned)!!c->recvdispls << 6 |
	       (unsigned)!!c->datatype << 7 | (unsigned)!!c->op << 8 | (unsigned)!!c->root << 9 |
	       (unsigned)!!c->quorum << 10 | (unsigned)!!c->cutoff_ms << 11 |
	       (unsigned)!!c->pad << 12 | (unsigned)!!c->codec << 13 |
	       (unsigned)!!c->feedback << 14;
}

static int check_unused(const struct tutti_call *c)
{
	enum tt_coll coll = (enum tt_coll)(c->coll - 1);
	unsigned wrong = fields_set(c) & ~fields_of(coll);
	int i;

	if (!wrong)
		return 0;
	i = __builtin_ctz(wrong);
	if (i >= QUORUM && i < CODEC_AT)
		return tt_fail(-EINVAL,
			       "tutti_call: %s is not 0, but this version does not support it",
			       fields[i]);
	return tt_fail(-EINVAL, "tutti_call: %s is not 0, but %s does not have it", fields[i],
		       tt_coll_name(coll));
}

static int check_struct(const struct tutti_call *c, const struct tutti_request *const *request)
{
	if (c->coll < TUTTI_COLL_ALLREDUCE || c->coll > TUTTI_COLL_EXSCAN)
		return tt_fail(-EINVAL, "tutti_call: coll: %d is not a collective", (int)c->coll);
	if (c->flags & ~FLAGS)
		return tt_fail(-EINVAL, "tutti_call: flags: 0x%x is unknown", c->flags & ~FLAGS);
	if (c->flags == FLAGS)
		return tt_fail(-EINVAL, "tutti_call: flags: TUTTI_CALL_POLL does not go with "
					"TUTTI_CALL_PERSISTENT");
	if (c->flags && !request)
		return tt_fail(-EINVAL, "tutti_call: request is NULL, but flags has %s",
			       c->flags & TUTTI_CALL_POLL ? "TUTTI_CALL_POLL"
							  : "TUTTI_CALL_PERSISTENT");
	if (c->timeout_ms < TUTTI_NEVER)
		return tt_fail(-EINVAL,
			       "tutti_call: timeout_ms is %d; it must be 0 or more, or TUTTI_NEVER",
			       c->timeout_ms);
	return check_unused(c);
}

/* A codec that the call would use, or may choose. */
static int check_use(const struct tutti_codec *codec, const struct tutti_call *c)
{
	int err = tt_codec_check_bound(codec, c->count);

	if (err)
		return err;
	if (!c->feedback && tt_codec_draws(codec))
		return tt_fail(-EINVAL,
			       "tutti_call: codec %s needs feedback: without it the sum is biased; "
			       "see tutti_feedback_create(3)",
			       tt_codec_name(codec));
	return 0;
}

static int check_codec(const struct tutti_comm *comm, const struct tutti_call *c)
{
	struct tutti_codec *const *choice;
	int i, n, err = tt_codec_check("tutti_call", c->codec);

	if (err)
		return err;
	if (!c->codec)
		return c->feedback ? tt_fail(-EINVAL, "tutti_call: feedback is not NULL, but codec "
						      "is")
				   : 0;
	if (c->datatype != TUTTI_FLOAT32)
		return tt_fail(-EINVAL, "tutti_call: a codec encodes float32, not %s",
			       tutti_datatype_size(c->datatype) ? tt_datatype_name(c->datatype)
								: "an unknown type");
	if (c->op != TUTTI_SUM && c->op != TUTTI_AVG)
		return tt_fail(-EINVAL, "tutti_call: with a codec, op must be sum or avg");
	choice = tt_codec_choices(c->codec, &n);
	for (i = 0; !err && i < n; i++)
		err = check_use(choice[i], c);
	if (!n)
		err = check_use(c->codec, c);
	return err || !c->feedback ? err : tt_feedback_check(c->feedback, comm, c->codec, c->count);
}

/* The codec that the call uses: NULL: none. */
static struct tutti_codec *chosen(struct tutti_comm *comm, struct tutti_codec *codec, size_t count)
{
	int n;

	if (!tt_codec_choices(codec, &n))
		return codec;
	if (count > (size_t)PTRDIFF_MAX / sizeof(float)) /* the call is refused later */
		return NULL;
	tt_wire_lock(comm->ctx->wire);
	codec = tt_codec_choose(comm, codec, count);
	tt_wire_unlock(comm->ctx->wire);
	return codec;
}

int tutti_codec_chosen(struct tutti_comm *comm, struct tutti_codec *codec, size_t count,
		       const char **name)
{
	int err = tt_check_comm(comm);

	if (err)
		return err;
	if (!codec || !name)
		return tt_fail(-EINVAL, "tutti_codec_chosen: %s is NULL", codec ? "name" : "codec");
	err = tt_codec_check(__func__, codec);
	if (err)
		return err;
	if (count > (size_t)PTRDIFF_MAX / sizeof(float))
		return tt_fail(-EINVAL, "tutti_codec_chosen: a count of %zu does not fit in memory",
			       count);
	codec = chosen(comm, codec, count);
	*name = codec ? tt_codec_name(codec) : "plain";
	return 0;
}

/*
 * Other ranks learn why this one does not take part. c: NULL, its size is wrong. start: there is a
 * request.
 */
static int refuse(struct tutti_comm *comm, const struct tutti_call *c, bool start, int err)
{
	enum tt_forms forms = !c || !(c->flags & TUTTI_CALL_PERSISTENT) ? TT_FORM_CALL
			      : start					? TT_FORM_INIT
									: TT_FORM_ANY;
	bool known = c && c->coll >= TUTTI_COLL_ALLREDUCE && c->coll <= TUTTI_COLL_EXSCAN;

	if (comm && comm->magic == TT_COMM_MAGIC)
		tt_comm_refused(comm, known ? (uint32_t)c->coll - 1 : TT_REFUSED, forms, err);
	return err;
}

int tutti_call(struct tutti_comm *comm, const struct tutti_call *c, struct tutti_request **request)
{
	static const struct tt_sized sized = TT_SIZED("call", tutti_call, root);
	struct tutti_call own;
	struct tt_call_options options;
	bool persistent, with;
	struct tt_plan_codec planned;
	struct tutti_codec *codec;
	struct tt_call call;
	int err;

	c = tt_sized_read(&sized, __func__, c, &own);
	if (!c)
		return refuse(comm, NULL, request, -EINVAL);
	err = check_struct(c, (const struct tutti_request *const *)request);
	if (err)
		return refuse(comm, c, request, err);
	call = (struct tt_call){.coll = (enum tt_coll)(c->coll - 1),
				.sendbuf = c->sendbuf,
				.recvbuf = c->recvbuf,
				.count = c->count,
				.datatype =
					c->coll == TUTTI_COLL_BARRIER ? TUTTI_UINT8 : c->datatype,
				.op = c->op,
				.root = c->root,
				.scounts = c->sendcounts,
				.sdispls = c->senddispls,
				.rcounts = c->recvcounts,
				.rdispls = c->recvdispls};
	persistent = c->flags & TUTTI_CALL_PERSISTENT;
	if (c->codec || c->feedback) {
		err = tt_check_comm(comm);
		if (!err)
			err = check_codec(comm, c);
		if (err)
			return refuse(comm, c, request, err);
		call.named = c->codec;
		codec = chosen(comm, c->codec, c->count);
		if (codec) {
			planned = TT_PLAN_CODEC(codec);
			call.codec = &planned;
		}
		call.feedback = c->feedback;
	}
	call.blocking = c->flags & TUTTI_CALL_POLL && !tt_group_is_open();
	options = (struct tt_call_options){.timeout_ms = c->timeout_ms, .priority = c->priority};
	with = c->timeout_ms || c->priority || c->codec;
	if (!request)
		return with ? tt_call_run_with(comm, &call, &options) : tt_call_run(comm, &call);
	if (c->flags & TUTTI_CALL_POLL && !with)
		return tt_call_poll(comm, &call, request);
	return tt_call_launch(comm, &call, persistent, with ? &options : NULL, request);
}
