/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Chrome's trace format: an array of objects, of which calls are asynchronous and rounds complete
 * events.
 */
#include "lib/observe/trace.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/error.h"
#include "lib/base/log.h"
#include "lib/observe/dump.h"
#include "lib/observe/json.h"

#define EVENTS 4096
#define TOOK_MAX 2048 /* ranks whose part in a round is shown: the lowest */
#define LANES 1000    /* numbers of threads of a communicator in the viewer */

struct event {
	uint64_t start, end, number;
	struct tt_flight_rec rec; /* of a call */
	uint32_t comm;
	int lane, round; /* lane -1: a call */
	int status;
	uint8_t call;
	char *took; /* hexadecimal, of a round of a partial all-reduce: rank 0 is the lowest bit;
		       NULL: none */
};

struct tt_trace {
	struct tt_flight *flight;
	FILE *file;
	int n;
	bool any, failed;
	struct event event[EVENTS];
};

int tt_trace_open(struct tt_flight *f, const char *prefix, struct tt_trace **trace)
{
	struct tt_trace *t = calloc(1, sizeof(*t));
	char path[PATH_MAX];
	int fd, err;

	if (!t)
		return tt_fail(-ENOMEM, "no memory for a trace");
	snprintf(path, sizeof(path), "%s.%d.json", prefix, f->head->rank);
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	t->file = fd < 0 ? NULL : fdopen(fd, "w");
	if (!t->file) {
		err = tt_fail(-errno, "TUTTI_TRACE: cannot write %s: %s", path, strerror(errno));
		if (fd >= 0)
			close(fd);
		free(t);
		return err;
	}
	t->flight = f;
	fputs("[\n", t->file);
	fflush(t->file); /* nothing may wait there, or a child that is forked writes it again */
	*trace = t;
	return 0;
}

static void put_args(const struct tt_trace *t, const struct event *e, struct tt_json *j)
{
	const struct tt_flight_rec *r = &e->rec;

	tt_json_open(j, "args", '{');
	if (e->took) {
		tt_json_u64(j, "round", e->number);
		tt_json_str(j, "took_part", e->took);
	} else if (e->lane >= 0) {
		tt_json_u64(j, "operation", e->number);
		tt_json_i64(j, "lane", e->lane);
		tt_json_i64(j, "round", e->round);
	} else {
		if (tt_flight_init_of(r->seq))
			tt_json_u64(j, "init", tt_flight_init_of(r->seq));
		tt_json_u64(j, "sequence", tt_flight_seq_of(r->seq));
		if (r->count != TT_FLIGHT_NO_COUNT)
			tt_json_u64(j, "count", r->count);
		tt_json_str(j, "type", tt_flight_name_of(t->flight, r->type));
		tt_json_str(j, "op", tt_flight_name_of(t->flight, r->op));
		tt_json_str(j, "algorithm", tt_flight_name_of(t->flight, r->alg));
		tt_json_u64(j, "bytes", r->bytes);
		tt_json_u64(j, "rounds", r->rounds);
		tt_json_i64(j, "status", e->status);
	}
	tt_json_close(j, '}');
}

static void put_event(struct tt_trace *t, const struct event *e, const char *phase,
		      const struct tt_dump_clock *clock)
{
	uint64_t start = tt_dump_real(clock, e->start), end = tt_dump_real(clock, e->end);
	struct tt_json j;
	char line[1024];

	tt_json_begin(&j, line, sizeof(line));
	tt_json_str(&j, "name", tt_flight_name_of(t->flight, e->call));
	tt_json_str(&j, "cat", e->lane < 0 ? "call" : "round");
	tt_json_str(&j, "ph", phase);
	tt_json_i64(&j, "pid", t->flight->head->rank);
	tt_json_u64(&j, "tid",
		    (uint64_t)e->comm * LANES + (e->lane < 0 ? 0 : (uint64_t)e->lane % LANES));
	tt_json_us(&j, "ts", *phase == 'e' ? end : start);
	if (*phase == 'X')
		tt_json_us(&j, "dur", end > start ? end - start : 0);
	else
		tt_json_u64(&j, "id", e->number);
	if (*phase != 'e')
		put_args(t, e, &j);
	tt_json_end(&j);
	j.len--; /* the newline */
	if (t->any)
		fputs(",\n", t->file);
	fwrite(line, 1, j.len, t->file);
	t->any = true;
}

static void flush(struct tt_trace *t)
{
	struct tt_dump_clock clock = tt_dump_clock(t->flight);
	int i;

	for (i = 0; i < t->n; i++) {
		struct event *e = &t->event[i];

		put_event(t, e, e->lane < 0 ? "b" : "X", &clock);
		if (e->lane < 0)
			put_event(t, e, "e", &clock);
		free(e->took);
	}
	t->n = 0;
	fflush(t->file);
	if (ferror(t->file) && !t->failed)
		tt_warn("TUTTI_TRACE: the trace can't be written completely: %s", strerror(errno));
	t->failed |= ferror(t->file) != 0;
}

static struct event *next(struct tt_trace *t)
{
	if (t->n == EVENTS)
		flush(t);
	return &t->event[t->n++];
}

static const struct tt_flight_rec *record(const struct tt_trace *t, uint64_t number)
{
	const struct tt_flight_rec *r = &t->flight->rec[number % TT_FLIGHT_RECORDS];

	return number && atomic_load(&r->number) == number ? r : NULL;
}

/* of: the number of the call, its lane and so on. */
static void add(struct tt_trace *t, const struct tt_flight_rec *r, struct event of)
{
	of.end = tt_ticks();
	of.call = r->call;
	of.comm = tt_flight_comm_id(t->flight, r->comm);
	*next(t) = of;
}

void tt_trace_call(struct tt_trace *t, uint64_t number, int status)
{
	const struct tt_flight_rec *r = record(t, number);

	if (r)
		add(t, r,
		    (struct event){.start = r->start,
				   .number = number,
				   .lane = -1,
				   .status = status,
				   .rec = *r});
}

void tt_trace_round(struct tt_trace *t, uint64_t number, int lane, int round, uint64_t start)
{
	const struct tt_flight_rec *r = record(t, number);

	if (r)
		add(t, r,
		    (struct event){.start = start, .number = number, .lane = lane, .round = round});
}

void tt_trace_partial(struct tt_trace *t, uint64_t comm, uint64_t round, const unsigned char *took,
		      int n)
{
	int bytes = n < TOOK_MAX ? (n + 7) / 8 : TOOK_MAX / 8, i;
	char *text = malloc(2 * (size_t)bytes + 1);

	if (!text)
		return;
	for (i = 0; i < bytes; i++)
		sprintf(text + 2 * i, "%02x", took[bytes - 1 - i]);
	*next(t) = (struct event){.start = tt_ticks(),
				  .end = tt_ticks(),
				  .number = round,
				  .call = tt_flight_name(t->flight, "partial_round"),
				  .comm = tt_flight_comm_id(t->flight, comm),
				  .took = text};
}

void tt_trace_close(struct tt_trace *t)
{
	if (!t)
		return;
	flush(t);
	fprintf(t->file,
		"%s{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":%d,\"args\":{\"name\":"
		"\"rank %d on %s\"}}\n]\n",
		t->any ? ",\n" : "", t->flight->head->rank, t->flight->head->rank,
		t->flight->head->host);
	if (fclose(t->file) && !t->failed)
		tt_warn("TUTTI_TRACE: the trace can't be written completely: %s", strerror(errno));
	free(t);
}
