/* SPDX-License-Identifier: BSD-3-Clause */
/* Reports the state of this rank to tutti_ras, as one line of JSON. */
#include "lib/observe/report/rank_report.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/clock.h"
#include "lib/observe/dump.h"
#include "lib/observe/json.h"

#define LINKS 64 /* shown */
#define COMMS 16

static void put_counters(struct tt_json *j, const struct tutti_stats *s)
{
	tt_json_u64(j, "put_bytes", s->put_bytes);
	tt_json_u64(j, "got_bytes", s->got_bytes);
	tt_json_u64(j, "pulled_bytes", s->pulled_bytes);
	tt_json_u64(j, "reduced_bytes", s->reduced_bytes);
	tt_json_u64(j, "copied_bytes", s->copied_bytes);
	tt_json_u64(j, "sleeps", s->sleeps);
	tt_json_u64(j, "late_sleeps", s->late_sleeps);
}

/* The oldest request of a list: what, for how long, how far. */
static void put_request(struct tt_json *j, struct tutti_comm *comm, int list, const char *key,
			const struct tt_dump_clock *clock)
{
	struct tutti_context *ctx = comm->ctx;
	const struct tt_flight_rec *rec;
	struct tutti_request *req;
	char text[160], waits[200] = "";
	uint64_t now = tt_dump_real(clock, tt_ticks()), start;
	int rank;

	if (tt_list_empty(&comm->active[list]))
		return;
	req = tt_container(comm->active[list].next, struct tutti_request, link);
	rec = &ctx->flight->rec[req->flight % TT_FLIGHT_RECORDS];
	rank = req->ops->waits(req, waits, sizeof(waits));
	tt_json_open(j, key, '{');
	tt_json_str(j, "call", req->ops->text(req, text, sizeof(text)));
	if (list == TT_ACTIVE_COLL || list == TT_ACTIVE_NEIGHBORS)
		tt_json_u64(j, "sequence", req->seq);
	if (rank >= 0)
		tt_json_i64(j, "waits_for", rank);
	if (atomic_load(&rec->number) == req->flight) {
		start = tt_dump_real(clock, rec->start);
		tt_json_time(j, "since", now > start ? now - start : 0);
		tt_json_u64(j, "rounds", rec->rounds);
		tt_json_u64(j, "of", rec->of);
		tt_json_u64(j, "bytes", rec->bytes);
	}
	if (!strncmp(waits, "; ", 2))
		tt_json_str(j, "waits", waits + 2);
	tt_json_close(j, '}');
}

static void put_comm(struct tt_json *j, struct tutti_comm *comm, const struct tt_dump_clock *clock)
{
	char uid[17];
	int i;

	tt_json_open(j, NULL, '{');
	tt_json_u64(j, "communicator", comm->id);
	snprintf(uid, sizeof(uid), "%016llx", (unsigned long long)comm->uid);
	tt_json_str(j, "uid", uid);
	if (comm->name[0])
		tt_json_str(j, "name", comm->name);
	tt_json_i64(j, "rank", comm->rank);
	tt_json_i64(j, "size", comm->size);
	tt_json_u64(j, "calls", comm->seq);
	if (atomic_load(&comm->failed)) {
		tt_json_i64(j, "error", comm->failure.code);
		tt_json_str(j, "error_text", comm->failure.text);
	}
	put_request(j, comm, TT_ACTIVE_COLL, "collective", clock);
	put_request(j, comm, TT_ACTIVE_PERSISTENT, "persistent", clock);
	put_request(j, comm, TT_ACTIVE_NEIGHBORS, "neighbors", clock);
	put_request(j, comm, TT_ACTIVE_OTHER, "other", clock);
	put_request(j, comm, TT_ACTIVE_RECV, "receive", clock);
	if (tt_comm_waits_late(comm)) {
		tt_json_open(j, "late", '[');
		for (i = 0; i < comm->nlate; i++)
			tt_json_i64(j, NULL, comm->late[i]);
		tt_json_close(j, ']');
	}
	tt_json_close(j, '}');
}

static void put_links(struct tt_json *j, struct tt_wire *wire)
{
	struct tt_wire_link link[LINKS];
	int n = tt_wire_links(wire, 0, link, LINKS), i;

	tt_json_open(j, "links", '[');
	for (i = 0; i < n && !j->full; i++) {
		tt_json_open(j, NULL, '{');
		tt_json_i64(j, "peer", link[i].peer);
		tt_json_str(j, "transport", link[i].transport);
		tt_json_str(j, "state", link[i].state);
		tt_json_u64(j, "unacked_bytes", link[i].silence.bytes);
		tt_json_u64(j, "unacked_operations", link[i].silence.ops);
		tt_json_time(j, "unacked_for", link[i].silence.ns);
		tt_json_close(j, '}');
	}
	tt_json_close(j, ']');
}

static size_t describe(struct tutti_context *ctx, char *buf, size_t size)
{
	struct tt_dump_clock clock = tt_dump_clock(ctx->flight);
	const struct tt_flight_head *head = ctx->flight->head;
	struct tutti_stats stats = tt_wire_stats_now(ctx->wire);
	struct tt_list *l, *tmp;
	struct tt_json j;
	int n = 0;

	tt_json_begin(&j, buf, size);
	tt_json_i64(&j, "rank", ctx->boot_params.rank);
	tt_json_str(&j, "host", head->host);
	tt_json_i64(&j, "pid", getpid());
	tt_json_time(&j, "time", tt_dump_real(&clock, tt_ticks()));
	tt_json_u64(&j, "operations", atomic_load(&head->last));
	put_counters(&j, &stats);
	tt_json_open(&j, "communicators", '[');
	tt_list_each(l, tmp, &ctx->comms) if (n++ < COMMS && j.len < size / 2)
		put_comm(&j, tt_container(l, struct tutti_comm, link), &clock);
	tt_json_close(&j, ']');
	put_links(&j, ctx->wire);
	tt_json_end(&j);
	return j.len;
}

void tt_look_msg(void *arg, int from, const void *ask, size_t len)
{
	struct tutti_context *ctx = arg;
	char text[TT_TOLD_MAX];
	size_t n;

	if (len != 8) /* client and number, which the answer repeats */
		return;
	tt_ctx_lock(ctx);
	if (ctx->boot) {
		n = describe(ctx, text, sizeof(text));
		tt_boot_tell(ctx->boot, from, ask, text, n);
	}
	tt_ctx_unlock(ctx);
}
