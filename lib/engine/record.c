/* SPDX-License-Identifier: BSD-3-Clause */
/* Fills the flight recorder from requests, and decides when to write it to a file. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/proc.h"
#include "lib/observe/dump.h"
#include "lib/engine/node/short_path.h"

/*
 * The launcher reads the memory of TUTTI_FLIGHT_FD. It belongs to one context at a time: the
 * first, and after its end another live one, such as the context that tutti_comm_grow made.
 */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of the three below, and of inherited */
static bool inherited_taken;
static struct tt_list recorders = {&recorders, &recorders}; /* of those that have joined */

struct tt_recorder {
	struct tt_list link;
	struct tt_flight flight;
	bool inherited;
	uint8_t type[TUTTI_NUM_DATATYPES + 1], op[TUTTI_NUM_OPS + TT_OP_PREMUL_SUM + 1];
	/* Names of calls are constants: found by their address. */
	struct {
		const char *text;
		uint8_t name;
	} known[64];
};

static uint8_t name_of(struct tt_recorder *r, const char *text)
{
	size_t i = ((uintptr_t)text >> 2) % (sizeof(r->known) / sizeof(r->known[0]));

	if (r->known[i].text != text) {
		r->known[i].name = tt_flight_name(&r->flight, text);
		r->known[i].text = text;
	}
	return r->known[i].name;
}

/*
 * The descriptor from tutti_run, if it is still the same file; duplicated, as another context may
 * follow.
 */
static int inherited_fd(const struct tutti_context *ctx)
{
	int fd = ctx->env.flight_fd.is_set ? (int)ctx->env.flight_fd.number : -1, copy;

	if (fd < 0 || inherited_taken)
		return -1;
	copy = tt_proc_open_fd(getpid(), fd, "/memfd:tutti flight", 0);
	if (copy >= 0)
		fcntl(fd, F_SETFD, FD_CLOEXEC); /* not inherited by child programs */
	return copy < 0 ? -1 : copy;
}

static int open_flight(struct tutti_context *ctx, struct tt_recorder *r)
{
	int fd, err;

	pthread_mutex_lock(&lock);
	fd = inherited_fd(ctx);
	err = tt_flight_open(&r->flight, fd);
	r->inherited = !err && fd >= 0;
	inherited_taken |= r->inherited;
	pthread_mutex_unlock(&lock);
	return err;
}

static void close_flight(struct tt_recorder *r)
{
	struct tt_recorder *heir;

	pthread_mutex_lock(&lock);
	if (r->inherited && !tt_list_empty(&recorders)) {
		heir = tt_container(recorders.next, struct tt_recorder, link);
		heir->inherited =
			!tt_flight_move(&heir->flight, fcntl(r->flight.fd, F_DUPFD_CLOEXEC, 0));
		inherited_taken = heir->inherited;
	} else if (r->inherited) {
		inherited_taken = false;
	}
	tt_flight_close(&r->flight);
	pthread_mutex_unlock(&lock);
}

static void fill_names(struct tt_recorder *r)
{
	static const char *const own[] = {"user", "user_ordered", "premul_sum"};
	int i;

	for (i = 0; i < TUTTI_NUM_DATATYPES; i++)
		r->type[i] = tt_flight_name(&r->flight, tt_datatype_name((enum tutti_datatype)i));
	r->type[TUTTI_NUM_DATATYPES] = tt_flight_name(&r->flight, "opaque");
	for (i = 0; i < TUTTI_NUM_OPS; i++)
		r->op[i] = tt_flight_name(&r->flight, tt_op_name((enum tutti_op)i));
	for (i = 0; i < 3; i++)
		r->op[TUTTI_NUM_OPS + i] = tt_flight_name(&r->flight, own[i]);
}

int tt_record_open(struct tutti_context *ctx)
{
	struct tt_recorder *r = calloc(1, sizeof(*r));
	struct tt_flight_head *h;
	int err;

	if (!r)
		return tt_fail(-ENOMEM, "no memory for the flight recorder");
	tt_list_init(&r->link);
	err = open_flight(ctx, r);
	if (err) {
		free(r);
		return err;
	}
	h = r->flight.head;
	h->rank = ctx->boot_params.rank;
	h->nranks = ctx->boot_params.nranks;
	gethostname(h->host, sizeof(h->host) - 1);
	fill_names(r);
	ctx->recorder = r;
	ctx->flight = &r->flight;
	if (*ctx->env.dump.text)
		tt_dump_arm(&r->flight, ctx->env.dump.text, (int)ctx->env.dump_signal.number);
	if (*ctx->env.trace.text)
		err = tt_trace_open(&r->flight, ctx->env.trace.text, &ctx->trace);
	if (err)
		tt_record_close(ctx);
	return err;
}

void tt_record_joined(struct tutti_context *ctx)
{
	tt_boot_job(ctx->boot, ctx->flight->head->job);
	pthread_mutex_lock(&lock);
	tt_list_add(&recorders, &ctx->recorder->link);
	pthread_mutex_unlock(&lock);
}

void tt_record_close(struct tutti_context *ctx)
{
	struct tt_recorder *r = ctx->recorder;
	bool unread;

	if (!r)
		return;
	pthread_mutex_lock(&lock);
	tt_list_del(&r->link); /* it inherits nothing any more */
	pthread_mutex_unlock(&lock);
	unread = tt_dump_disarm(&r->flight);
	tt_trace_close(ctx->trace);
	ctx->trace = NULL;
	ctx->flight = NULL;
	ctx->recorder = NULL;
	/* Nothing to report to the launcher about a job that this process has left. */
	atomic_store(&r->flight.head->dumped, atomic_load(&r->flight.head->last) + 1);
	if (!unread)
		return; /* leaked on purpose: a signal handler must not read freed memory */
	close_flight(r);
	free(r);
}

/* All opaque datatypes have one name. */
static uint8_t type_name(const struct tt_recorder *r, uint32_t datatype)
{
	return r->type[datatype < TUTTI_NUM_DATATYPES ? datatype : TUTTI_NUM_DATATYPES];
}

/* Describes a collective by its fields. */
static struct tt_flight_op op_of(struct tt_recorder *r, const struct tutti_comm *comm,
				 const struct tt_fields *f)
{
	bool rooted = tt_coll_rooted((enum tt_coll)f->coll);
	struct tt_flight_op op = {
		.comm = comm->uid, .count = f->count, .peer = rooted ? f->root : -1, .tag = -1};

	op.call = name_of(r, tt_fields_call(f));
	if (f->coll == TT_COLL_BARRIER || tt_fields_inner(f)) {
		op.count = TT_FLIGHT_NO_COUNT;
		return op;
	}
	op.type = type_name(r, f->datatype);
	if (tt_coll_reduces((enum tt_coll)f->coll))
		op.op = r->op[f->op];
	return op;
}

void tt_record_plan(struct tt_plan_req *req)
{
	struct tutti_comm *comm = req->r.comm;
	struct tt_recorder *r = comm->ctx->recorder;
	struct tt_flight_op op = op_of(r, comm, &req->fields);
	uint32_t init = req->fields.init;

	if (req->counts)
		op.count = TT_FLIGHT_NO_COUNT;
	op.of = req->rounds;
	op.alg = name_of(r, req->plan->algo);
	op.in_place = req->plan->args.in_place;
	if (comm->flight && comm->flight->uid == comm->uid && !init)
		comm->flight->seq = req->r.seq;
	req->r.flight = tt_flight_begin(&r->flight, &op, tt_flight_start(init, req->r.seq));
}

void tt_record_fields(struct tutti_request *req, const struct tt_fields *fields)
{
	struct tutti_comm *comm = req->comm;
	struct tt_recorder *r = comm->ctx->recorder;
	struct tt_flight_op op = op_of(r, comm, fields);

	op.count = TT_FLIGHT_NO_COUNT;
	op.type = 0;
	if (comm->flight && comm->flight->uid == comm->uid)
		comm->flight->seq = req->seq;
	req->flight = tt_flight_begin(&r->flight, &op, req->seq);
}

struct tt_flight_op tt_record_short(struct tutti_comm *comm, const struct tt_short_shape *shape)
{
	struct tt_recorder *r = comm->ctx->recorder;
	const struct tt_fields *f = &shape->fields;
	struct tt_flight_op op = op_of(r, comm, f);

	op.of = (uint32_t)tt_plan_rounds(shape->plan, 0);
	op.alg = name_of(r, shape->plan->algo);
	op.in_place = shape->in_place;
	return op;
}

void tt_record_other(struct tutti_request *req)
{
	struct tt_recorder *r = req->comm->ctx->recorder;
	struct tt_flight_op op = {
		.comm = req->comm->uid, .count = TT_FLIGHT_NO_COUNT, .peer = -1, .tag = -1};
	enum tutti_datatype type = TUTTI_NUM_DATATYPES;

	op.call = name_of(r, req->ops->call(req));
	if (req->ops->record)
		req->ops->record(req, &op, &type);
	if (type != TUTTI_NUM_DATATYPES)
		op.type = type_name(r, type);
	req->flight = tt_flight_begin(&r->flight, &op, 0);
}

uint64_t tt_record_call(struct tutti_context *ctx, const char *call, enum tutti_datatype type,
			struct tt_flight_op *op)
{
	op->call = name_of(ctx->recorder, call);
	op->type = type_name(ctx->recorder, type);
	return tt_flight_begin(ctx->flight, op, 0);
}

void tt_record_brief(struct tutti_context *ctx, const char *call, enum tutti_datatype type,
		     struct tt_flight_op *op, uint64_t start)
{
	op->call = name_of(ctx->recorder, call);
	op->type = type_name(ctx->recorder, type);
	tt_flight_whole(ctx->flight, op, start);
}

void tt_record_due(struct tutti_context *ctx)
{
	const char *prefix = ctx->env.dump.text;
	int err;

	tt_ctx_news(ctx);
	if (!atomic_exchange(&ctx->dump_due, false) || !*prefix)
		return;
	err = tt_dump_file(prefix, ctx->flight, "error", true);
	if (err == -EBUSY)
		atomic_store(&ctx->dump_due,
			     true); /* a record written on a signal may lack the failure */
	else if (err)
		tt_warn("the flight recorder can't be written to %s.%d: %s", prefix,
			ctx->boot_params.rank, strerror(-err));
}
