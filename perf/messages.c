/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Measuring messages as the OSU micro-benchmarks do: send_lat as osu_latency, send as osu_bw,
 * send_bi as osu_bibw and send_pairs as osu_mbw_mr. Ranks that take no part wait in barriers.
 */
#include "perf/perf.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum kind { LATENCY, ONE_WAY, BOTH_WAYS, PAIRS };

#define TAG 5
#define ACK_TAG 6

struct messages {
	struct perf *perf;
	enum kind kind;
	int pairs, peer;	       /* peer -1: this rank takes no part */
	bool sends, receives;	       /* of this rank, in a window */
	struct perf_buffer send, recv; /* all messages of a window use the same */
	size_t size;
	struct tutti_request **req;
	double *times; /* send_lat: one an iteration, microseconds */
};

static const struct perf_column columns[] = {
	{"bytes", "#bytes", "", 14, 0, PERF_INT},
	{"iterations", "#iterations", "", 12, 0, PERF_INT},
	{"pairs", "pairs", "", 6, 0, PERF_INT},
	{"bandwidth_mb_s", "bandwidth", "[MB/sec]", 12, 2, PERF_FIXED},
	{"msg_rate", "MsgRate", "[msg/sec]", 13, 0, PERF_FIXED},
	{"wrong", "#wrong", "", 7, 0, PERF_INT},
};

static int failed(const struct messages *m, const char *call, int err)
{
	return err ? perf_call_failed(m->perf, call, err) : 0;
}

static int send_one(const struct messages *m, size_t size, int tag)
{
	return failed(m, "send",
		      tutti_send(m->send.data, size, TUTTI_UINT8, m->peer, tag, m->perf->world));
}

static int recv_one(const struct messages *m, size_t size, int tag)
{
	return failed(
		m, "recv",
		tutti_recv(m->recv.data, size, TUTTI_UINT8, m->peer, tag, m->perf->world, NULL));
}

/* n round trips. */
static int ping_pong(const struct messages *m, int n, double *times)
{
	bool first = m->perf->rank < m->peer;
	uint64_t start;
	int i, err = 0;

	for (i = 0; i < n && !err; i++) {
		start = perf_now_ns();
		err = first ? send_one(m, m->size, TAG) : recv_one(m, m->size, TAG);
		if (!err)
			err = first ? recv_one(m, m->size, TAG) : send_one(m, m->size, TAG);
		if (times)
			times[i] = (double)(perf_now_ns() - start) / 2e3; /* half of it */
	}
	return err;
}

/* `depth` messages at once, each way that there is, and the receiver's answer to them. */
static int window(const struct messages *m, int depth)
{
	struct tutti_comm *world = m->perf->world;
	int i, n = 0, err = 0;

	for (i = 0; m->receives && i < depth && !err; i++)
		err = failed(m, "irecv",
			     tutti_irecv(m->recv.data, m->size, TUTTI_UINT8, m->peer, TAG, world,
					 NULL, &m->req[n++]));
	for (i = 0; m->sends && i < depth && !err; i++)
		err = failed(m, "isend",
			     tutti_isend(m->send.data, m->size, TUTTI_UINT8, m->peer, TAG, world,
					 &m->req[n++]));
	if (!err)
		err = failed(m, "waitall", tutti_waitall(n, m->req));
	if (err || m->kind == BOTH_WAYS)
		return err;
	return m->sends ? recv_one(m, 0, ACK_TAG) : send_one(m, 0, ACK_TAG);
}

static int move(const struct messages *m, int n, int depth, double *times)
{
	int i, err = 0;

	if (m->peer < 0)
		return 0;
	if (m->kind == LATENCY)
		return ping_pong(m, n, times);
	for (i = 0; i < n && !err; i++)
		err = window(m, depth);
	return err;
}

static int meet(const struct messages *m)
{
	return failed(m, "barrier", tutti_barrier(m->perf->world));
}

/* -c: one more message each way, of data that was not there before. */
static int check(const struct messages *m, uint64_t *wrong_total)
{
	double wrong = 0, bounds = 0;
	int i, err;

	for (i = 0; i < m->perf->opt.check; i++) {
		perf_guard_set((struct perf_buffer *)&m->send, m->size);
		perf_guard_set((struct perf_buffer *)&m->recv, m->size);
		perf_bytes_fill(m->send.data, m->size, m->perf->rank, (unsigned)i);
		memset(m->recv.data, 0, m->size);
		err = move(m, 1, 1, NULL);
		if (!err)
			err = meet(m);
		if (err)
			return err;
		if (m->receives)
			wrong += (double)perf_bytes_wrong(m->recv.data, m->size, m->peer,
							  (unsigned)i);
		bounds += (double)perf_guard_violations(&m->send, m->size);
		bounds += (double)perf_guard_violations(&m->recv, m->size);
	}
	err = perf_agree_found(m->perf, &wrong, bounds);
	*wrong_total = (uint64_t)wrong;
	return err;
}

static struct perf_cell *rate_cells(const struct messages *m, double seconds,
				    struct perf_cell *cell)
{
	double n = (double)m->perf->opt.iters * m->perf->opt.depth * m->pairs;

	n *= m->kind == BOTH_WAYS ? 2 : 1;
	(cell++)->number = m->pairs;
	(cell++)->real = n * (double)m->size / seconds / 1e6;
	(cell++)->real = n / seconds;
	return cell;
}

static int one_row(struct messages *m)
{
	const struct perf_options *opt = &m->perf->opt;
	struct perf_cell cells[16] = {{0}}, *wrong_cell;
	uint64_t wrong = 0, start;
	double seconds;
	int err;

	perf_progress(m->perf, "measuring");
	err = meet(m);
	if (!err)
		err = move(m, opt->warmup, opt->depth, NULL);
	if (!err)
		err = meet(m);
	start = perf_now_ns();
	if (!err)
		err = move(m, opt->iters, opt->depth, m->times);
	seconds = (double)(perf_now_ns() - start) / 1e9;
	if (!err)
		err = perf_agree(m->perf, &seconds, TUTTI_MAX);
	if (!err && opt->check)
		err = check(m, &wrong);
	if (err || m->perf->rank)
		return err;
	cells[0].number = (int64_t)m->size;
	cells[1].number = opt->iters;
	wrong_cell = m->kind == LATENCY ? perf_latency_cells(m->perf, m->times, cells + 2)
					: rate_cells(m, seconds, cells + 2);
	wrong_cell->number = (int64_t)wrong;
	wrong_cell->absent = !opt->check;
	return perf_table_row(&m->perf->table, cells);
}

static int all_sizes(struct messages *m)
{
	const struct perf_options *opt = &m->perf->opt;
	int err;

	m->size = opt->minbytes;
	do {
		perf_progress_row(m->perf, m->size);
		err = one_row(m);
		m->size = perf_next_size(opt, m->size, m->size + 1);
	} while (!err && m->size);
	return err;
}

/* Which ranks exchange messages: 0 and 1, or each of the first half with one of the second. */
static void find_peer(struct messages *m)
{
	int me = m->perf->rank, far;

	m->pairs = m->kind == PAIRS ? m->perf->nranks / 2 : 1;
	far = m->pairs;
	m->peer = me < far ? me + far : me < 2 * far ? me - far : -1;
	m->sends = m->peer >= 0 && (me < far || m->kind == BOTH_WAYS);
	m->receives = m->peer >= 0 && (me >= far || m->kind == BOTH_WAYS || m->kind == LATENCY);
}

static int run(struct perf *perf, enum kind kind)
{
	struct messages m = {.perf = perf, .kind = kind};
	struct perf_buffer bufs[2];
	int err;

	find_peer(&m);
	m.times = calloc((size_t)perf->opt.iters, sizeof(*m.times));
	m.req = calloc(2 * (size_t)perf->opt.depth, sizeof(*m.req));
	err = m.times && m.req ? 0 : perf_call_failed(perf, "making room for times", -ENOMEM);
	if (!err)
		err = perf_buffers_get(perf, bufs, 2, perf->opt.maxbytes);
	if (!err) {
		m.send = bufs[0];
		m.recv = bufs[1];
		if (kind == LATENCY)
			perf_latency_table(&perf->table, false);
		else
			perf_table_begin(&perf->table, columns,
					 sizeof(columns) / sizeof(columns[0]));
		if (!perf->rank)
			perf_table_heading(&perf->table);
		err = all_sizes(&m);
		perf_buffers_put(bufs, 2);
	}
	free(m.req);
	free(m.times);
	return err;
}

int perf_run_send_lat(struct perf *perf)
{
	return run(perf, LATENCY);
}

int perf_run_send(struct perf *perf)
{
	return run(perf, ONE_WAY);
}

int perf_run_send_bi(struct perf *perf)
{
	return run(perf, BOTH_WAYS);
}

int perf_run_send_pairs(struct perf *perf)
{
	return run(perf, PAIRS);
}
