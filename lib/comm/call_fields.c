/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The fields of a call: the first one in which two calls differ, and a call as a text. Errors about
 * mismatches and late ranks, dumps and warnings use them.
 */
#include <stdio.h>

#include "lib/base/datatype.h"
#include "lib/comm/comm.h"
#include "lib/comm/stuck.h"
#include "lib/plan/plan.h"

bool tt_fields_inner(const struct tt_fields *f)
{
	return f->root && !tt_coll_rooted((enum tt_coll)f->coll);
}

const char *tt_inner_name(uint32_t inner)
{
	static const char *const names[] = {
		[TT_INNER_NONE] = "tutti_call",	   [TT_INNER_DUP] = "comm_dup",
		[TT_INNER_SPLIT] = "comm_split",   [TT_INNER_SPLIT_HOST] = "comm_split_host",
		[TT_INNER_CREATE] = "comm_create", [TT_INNER_CREATE_GROUP] = "comm_create_group"};

	return inner <= TT_INNER_CREATE_GROUP ? names[inner] : "?";
}

const char *tt_fields_call(const struct tt_fields *f)
{
	if (!tt_fields_inner(f))
		return tt_coll_name((enum tt_coll)f->coll);
	return tt_inner_name((uint32_t)f->root);
}

const char *tt_fields_differing(const struct tt_fields *a, const struct tt_fields *b)
{
	if (a->coll != b->coll || (a->root != b->root && !tt_coll_rooted((enum tt_coll)a->coll)))
		return "collective";
	if (a->counts != b->counts)
		return tt_coll_neighbors((enum tt_coll)a->coll) ? "graph"
		       : a->coll == TT_COLL_ALLREDUCE		? "shape"
								: "counts";
	if (a->count != b->count)
		return "count";
	if (a->datatype != b->datatype)
		return "datatype";
	if (a->op != b->op)
		return "op";
	if (a->in_place != b->in_place)
		return "in place";
	if (a->codec != b->codec)
		return "codec";
	return a->root != b->root ? "root" : NULL;
}

const char *tt_fields_number_text(const struct tt_fields *f, uint64_t seq, char *buf, size_t size)
{
	char init[32] = "";

	if (f->init)
		snprintf(init, sizeof(init), "init #%u, start ", f->init);
	snprintf(buf, size, "%s#%llu", init, (unsigned long long)seq);
	return buf;
}

const char *tt_fields_text(const struct tt_fields *f, uint64_t seq, char *buf, size_t size)
{
	static const char *const user[] = {"user", "user, ordered", "premul_sum"};
	enum tt_coll coll = (enum tt_coll)f->coll;
	const char *place = f->in_place ? ", in place" : "";
	char count[40] = "", op[32] = "", root[32] = "", type[32], number[48], codec[TT_CODEC_NAME];
	char graph[40] = "";
	uint32_t own = f->op - TUTTI_NUM_OPS;

	if (f->coll == TT_FORGOTTEN) {
		snprintf(buf, size, "something that it no longer remembers");
		return buf;
	}
	if (tt_coll_reduces(coll))
		snprintf(op, sizeof(op), ", %s",
			 f->op < TUTTI_NUM_OPS			? tt_op_name((enum tutti_op)f->op)
			 : own < sizeof(user) / sizeof(user[0]) ? user[own]
								: "?");
	tt_datatype_text((enum tutti_datatype)f->datatype, type, sizeof(type));
	if (!tt_coll_own_counts(coll))
		snprintf(count, sizeof(count), "count %llu%s, ", (unsigned long long)f->count,
			 f->counts && !tt_coll_neighbors(coll) && coll != TT_COLL_ALLREDUCE
				 ? " in all"
				 : "");
	if (f->counts && coll == TT_COLL_ALLREDUCE)
		snprintf(graph, sizeof(graph), ", matrix of %u x %u", (unsigned)(f->counts >> 32),
			 (unsigned)f->counts);
	if (tt_coll_rooted(coll))
		snprintf(root, sizeof(root), ", root %d", f->root);
	if (tt_coll_neighbors(coll)) /* of a step: a number of its edges and weights */
		snprintf(graph, sizeof(graph), ", graph %08x",
			 (unsigned)(f->counts ^ f->counts >> 32));
	tt_fields_number_text(f, seq, number, sizeof(number));
	if (coll == TT_COLL_BARRIER || coll == TT_COLL_ALLTOALLW || tt_fields_inner(f))
		snprintf(buf, size, "%s %s", tt_fields_call(f), number);
	else
		snprintf(buf, size, "%s %s (%s%s%s%s%s%s%s%s)", tt_coll_name(coll), number, count,
			 type, op, root, graph, place, f->codec ? ", codec " : "",
			 tt_codec_name_text(f->codec, codec));
	return buf;
}
