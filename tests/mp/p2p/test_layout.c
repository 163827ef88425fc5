/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages with layouts against loops over their elements. */
#include "config.h"

#include "tests/mp/job.h"
#include "tests/mp/layouts.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#define SHM "TUTTI_TRANSPORT=shm"
#define OFI "TUTTI_TRANSPORT=ofi TUTTI_IF=lo"
#define FAULT                                                                                      \
	"TUTTI_TRANSPORT=fault:shm "                                                               \
	"TUTTI_FAULT=seed=5,delay=0.1:100,reorder=0.3,again=0.2,max_put=70001"

#define ROOM ((size_t)6 << 20)

static void fill(char *p, size_t n, unsigned seed)
{
	size_t i;

	for (i = 0; i < n; i++)
		p[i] = (char)((seed + i) * 2654435761u >> 13);
}

/* One message, as all ranks draw it. */
struct message {
	int from, to, tag;
	unsigned seed;
	enum tutti_datatype type;
	size_t sent, most; /* bytes of the message, and of the receive */
	bool send_layout, recv_layout, blocking, expected, sync, matched;
	struct mp_layout in, out;
};

static void draw(const struct mp_job *job, unsigned *seed, struct message *m)
{
	static const enum tutti_datatype types[] = {TUTTI_UINT8, TUTTI_INT16, TUTTI_FLOAT64,
						    TUTTI_OPAQUE(12)};
	static const size_t bytes[] = {0, 24, 120, 480, 4096, 4080, 96000, 1200000, 2400000};
	size_t elem, elems;

	m->seed = (unsigned)rand_r(seed);
	m->from = rand_r(seed) % job->n;
	m->to = rand_r(seed) % job->n;
	m->tag = rand_r(seed) % 5;
	m->type = types[rand_r(seed) % 4];
	elem = tutti_datatype_size(m->type);
	elems = bytes[rand_r(seed) % 9] / elem;
	m->sent = elems * elem;
	m->send_layout = rand_r(seed) % 4;
	m->recv_layout = !m->send_layout || rand_r(seed) % 4;
	m->blocking = m->from != m->to && rand_r(seed) % 2;
	m->expected = rand_r(seed) % 2;
	m->sync = m->send_layout && rand_r(seed) % 3 == 0;
	m->matched = m->from != m->to && !m->expected && rand_r(seed) % 2;
	mp_layout_draw(seed, m->type, elems, ROOM, &m->in);
	elems += rand_r(seed) % 3 ? 0 : (size_t)rand_r(seed) % 5000;
	m->most = elems * elem;
	mp_layout_draw(seed, m->type, elems, ROOM, &m->out);
}

static int start_send(struct mp_job *job, const struct message *m, char *room,
		      struct tutti_request **req)
{
	size_t count = m->sent / tutti_datatype_size(m->type);
	char *buf = room + (m->send_layout ? m->in.first : 0);

	*req = NULL;
	fill(room, ROOM, m->seed);
	if (!m->send_layout)
		MP_OK(tutti_isend(buf, count, m->type, m->to, m->tag, job->world, req));
	else if (m->sync && m->blocking)
		MP_OK(tutti_ssend_layout(buf, &m->in.l, m->to, m->tag, job->world));
	else if (m->sync)
		MP_OK(tutti_issend_layout(buf, &m->in.l, m->to, m->tag, job->world, req));
	else if (m->blocking)
		MP_OK(tutti_send_layout(buf, &m->in.l, m->to, m->tag, job->world));
	else
		MP_OK(tutti_isend_layout(buf, &m->in.l, m->to, m->tag, job->world, req));
	return 0;
}

static int start_mrecv(struct mp_job *job, const struct message *m, char *room,
		       struct tutti_status *status, struct tutti_request **req)
{
	char *buf = room + (m->recv_layout ? m->out.first : 0);
	struct tutti_message *msg = NULL;

	MP_OK(tutti_mprobe(m->from, m->tag, job->world, &msg, NULL));
	if (!m->recv_layout)
		MP_OK(tutti_mrecv(buf, m->most / tutti_datatype_size(m->type), m->type, &msg,
				  status));
	else if (m->blocking)
		MP_OK(tutti_mrecv_layout(buf, &m->out.l, &msg, status));
	else
		MP_OK(tutti_imrecv_layout(buf, &m->out.l, &msg, status, req));
	TT_EXPECT(!msg);
	return 0;
}

static int start_recv(struct mp_job *job, const struct message *m, char *room,
		      struct tutti_status *status, struct tutti_request **req)
{
	size_t count = m->most / tutti_datatype_size(m->type);
	char *buf = room + (m->recv_layout ? m->out.first : 0);

	*req = NULL;
	if (m->matched)
		return start_mrecv(job, m, room, status, req);
	if (!m->recv_layout)
		MP_OK(tutti_irecv(buf, count, m->type, m->from, m->tag, job->world, status, req));
	else if (m->blocking)
		MP_OK(tutti_recv_layout(buf, &m->out.l, m->from, m->tag, job->world, status));
	else
		MP_OK(tutti_irecv_layout(buf, &m->out.l, m->from, m->tag, job->world, status, req));
	return 0;
}

/* The whole room is compared, also what lies between blocks. room[2] and room[3] are scratch. */
static int random_message(struct mp_job *job, const struct message *m, char *const room[4])
{
	struct tutti_request *in = NULL, *out = NULL;
	struct tutti_status status = {0};

	if (job->rank == m->to)
		fill(room[1], ROOM, m->seed + 7);
	if (job->rank == m->to && m->from == m->to)
		TT_EXPECT(!start_recv(job, m, room[1], &status, &out));
	if (job->rank == m->to && m->from != m->to && m->expected && !m->blocking)
		TT_EXPECT(!start_recv(job, m, room[1], &status, &out));
	if (job->rank == m->from)
		TT_EXPECT(!start_send(job, m, room[0], &in));
	if (job->rank == m->to && !out)
		TT_EXPECT(!start_recv(job, m, room[1], &status, &out));
	if (in)
		MP_OK(tutti_wait(&in));
	if (out)
		MP_OK(tutti_wait(&out));
	if (job->rank != m->to)
		return 0;
	TT_EXPECT(status.bytes == m->sent && status.source == m->from && status.tag == m->tag);
	TT_EXPECT(status.datatype == m->type);
	fill(room[3], ROOM, m->seed);
	mp_layout_read(m->send_layout ? &m->in.l : NULL,
		       room[3] + (m->send_layout ? m->in.first : 0), room[2], m->sent);
	fill(room[3], ROOM, m->seed + 7);
	mp_layout_write(m->recv_layout ? &m->out.l : NULL,
			room[3] + (m->recv_layout ? m->out.first : 0), room[2], m->sent);
	TT_EXPECT(!memcmp(room[1], room[3], ROOM));
	return 0;
}

static int random_body(struct mp_job *job)
{
	unsigned seed = (unsigned)job->n * 17;
	struct message *m = malloc(sizeof(*m));
	char *room[4];
	int i;

	MP_OK(tutti_alloc(job->ctx, ROOM, (void **)&room[0]));
	for (i = 1; i < 4; i++)
		room[i] = malloc(ROOM);
	for (i = 0; i < 16; i++) {
		draw(job, &seed, m);
		if (random_message(job, m, room)) {
			fprintf(stderr, "message %d: %zu bytes from %d to %d, layouts %d %d\n", i,
				m->sent, m->from, m->to, m->send_layout, m->recv_layout);
			return 1;
		}
	}
	MP_OK(tutti_barrier(job->world));
	MP_OK(tutti_free(room[0]));
	for (i = 1; i < 4; i++)
		free(room[i]);
	free(m);
	return 0;
}

static void random_(void)
{
	int n;

	for (n = 1; n <= 4; n++) {
		TT_CHECK(!MP_RUN(.n = n, .env = SHM, .fn = random_body));
		TT_CHECK(!MP_RUN(.n = n, .env = FAULT, .fn = random_body));
		if (!mp_no_ofi())
			TT_CHECK(!MP_RUN(.n = n, .env = OFI, .fn = random_body));
	}
	/* between this and 4096 the layout is not packed, and stays with its sender */
	TT_CHECK(!MP_RUN(.n = 2, .env = SHM " TUTTI_EAGER=2048", .fn = random_body));
	TT_CHECK(!MP_RUN(.n = 2, .env = SHM " TUTTI_EAGER=64", .fn = random_body));
}

/* ---- copies ---- */

static uint64_t copied(struct mp_job *job)
{
	struct tutti_stats s = {.size = sizeof(s)};

	return tutti_stats_get(job->ctx, &s) ? 0 : s.copied_bytes;
}

/* 48 MB of every second double, with a pool of half of that: no copy of the whole fits. */
static int long_body(struct mp_job *job)
{
	enum { N = 6000000, LITTLE = 200000 };
	struct tutti_layout odd = mp_layout_vector(TUTTI_FLOAT64, N, 1, 2), even = odd, all = odd;
	double *v = malloc(2ul * N * sizeof(*v));
	uint64_t before;
	int i;

	all.stride = 1;
	for (i = 0; i < 2 * N; i++)
		v[i] = job->rank ? -1 : i;
	MP_OK(tutti_barrier(job->world));
	before = copied(job);
	if (job->rank == 0)
		MP_OK(tutti_send_layout(v + 1, &odd, 1, 3, job->world));
	else
		MP_OK(tutti_recv_layout(v, &even, 0, 3, job->world, NULL));
	before = copied(job) - before;
	TT_EXPECT(before >= N * sizeof(*v) && before < N * sizeof(*v) + LITTLE);
	for (i = 0; job->rank == 1 && i < N; i++)
		TT_EXPECT(v[2 * i] == 2 * i + 1 && v[2 * i + 1] == -1);
	MP_OK(tutti_barrier(job->world));
	free(v);
	/* a layout without gaps is a plain buffer */
	MP_OK(tutti_alloc(job->ctx, LITTLE * sizeof(*v), (void **)&v));
	for (i = 0; i < LITTLE; i++)
		v[i] = job->rank ? -1 : i;
	all.count = LITTLE / 8;
	all.block = all.stride = 8;
	before = copied(job);
	if (job->rank == 0)
		MP_OK(tutti_send_layout(v, &all, 1, 3, job->world));
	else
		MP_OK(tutti_recv_layout(v, &all, 0, 3, job->world, NULL));
	TT_EXPECT(copied(job) - before < LITTLE);
	for (i = 0; i < LITTLE; i++)
		TT_EXPECT(v[i] == i);
	MP_OK(tutti_barrier(job->world));
	MP_OK(tutti_free(v));
	return 0;
}

static void copies(void)
{
	TT_CHECK(!MP_RUN(.n = 2, .env = SHM " TUTTI_POOL_LIMIT=24M", .fn = long_body));
	if (!mp_no_ofi())
		TT_CHECK(!MP_RUN(.n = 2, .env = OFI " TUTTI_POOL_LIMIT=24M", .fn = long_body));
}

/* ---- errors ---- */

static int bad_fields(struct mp_job *job, double *v)
{
	static const size_t blocks[] = {2, 2}, huge[] = {SIZE_MAX / 4, 1};
	static const ptrdiff_t displs[] = {0, 1}, apart[] = {0, 4}, far[] = {PTRDIFF_MIN / 8, 4};
	struct tutti_layout l = mp_layout_vector(TUTTI_FLOAT64, 3, 2, 4), bad;
	ptrdiff_t below[2] = {0, 0};
	struct tutti_comm *w = job->world;
	struct tutti_request *req;

	MP_ERR(tutti_send_layout(v, NULL, 0, 0, w), -EINVAL);
	MP_SAID("layout is NULL");
	bad = l, bad.size = 8;
	MP_ERR(tutti_send_layout(v, &bad, 0, 0, w), -EINVAL);
	MP_SAID("size is 8");
	bad = l, bad.datatype = TUTTI_NUM_DATATYPES;
	MP_ERR(tutti_send_layout(v, &bad, 0, 0, w), -EINVAL);
	MP_SAID("not a datatype");
	bad = l, bad.flags = 6;
	MP_ERR(tutti_send_layout(v, &bad, 0, 0, w), -EINVAL);
	MP_SAID("0x6 is unknown");
	bad = l, bad.displs = apart;
	MP_ERR(tutti_send_layout(v, &bad, 0, 0, w), -EINVAL);
	MP_SAID("displs and a stride");
	bad = l, bad.blocks = blocks;
	MP_ERR(tutti_send_layout(v, &bad, 0, 0, w), -EINVAL);
	MP_SAID("blocks and a block");
	bad = l, bad.blocks = blocks, bad.block = 0;
	MP_ERR(tutti_send_layout(v, &bad, 0, 0, w), -EINVAL);
	MP_SAID("no displs");
	bad = l, bad.count = SIZE_MAX / 2;
	MP_ERR(tutti_send_layout(v, &bad, 0, 0, w), -EINVAL);
	MP_SAID("address space");
	bad = l, bad.stride = PTRDIFF_MAX / 8;
	MP_ERR(tutti_send_layout(v, &bad, 0, 0, w), -EINVAL);
	bad = l, bad.stride = PTRDIFF_MAX / 4;
	MP_ERR(tutti_send_layout(v, &bad, 0, 0, w), -EINVAL);
	bad = l, bad.stride = 0, bad.block = 0, bad.count = 2, bad.blocks = huge,
	bad.displs = apart;
	MP_ERR(tutti_send_layout(v, &bad, 0, 0, w), -EINVAL);
	MP_SAID("address space");
	bad.blocks = blocks, bad.displs = far;
	MP_ERR(tutti_send_layout(v, &bad, 0, 0, w), -EINVAL);
	below[1] = -(ptrdiff_t)((uintptr_t)v / 8) - 2;
	bad.displs = below;
	MP_ERR(tutti_send_layout(v, &bad, 0, 0, w), -EINVAL);
	MP_SAID("of buf do not fit into an address space");
	bad.displs = displs;
	MP_ERR(tutti_recv_layout(v, &bad, 0, 0, w, NULL), -EINVAL);
	MP_SAID("block 1 of layout (16 bytes at 8) overlaps");
	bad = l, bad.stride = -1;
	MP_ERR(tutti_irecv_layout(v, &bad, 0, 0, w, NULL, &req), -EINVAL);
	MP_SAID("overlap");
	return 0;
}

/* The other arguments are those of tutti_send. Senders' blocks may overlap. */
static int bad_body(struct mp_job *job)
{
	struct tutti_layout l = mp_layout_vector(TUTTI_FLOAT64, 3, 2, 4),
			    same = mp_layout_vector(TUTTI_FLOAT64, 3, 2, 1);
	struct tutti_request *req = NULL;
	double v[12] = {1, 2, 3, 4}, got[6] = {0};

	TT_EXPECT(!bad_fields(job, v));
	MP_ERR(tutti_send_layout(NULL, &l, 0, 0, job->world), -EINVAL);
	MP_ERR(tutti_send_layout(v, &l, job->n, 0, job->world), -EINVAL);
	MP_ERR(tutti_send_layout(v, &l, 0, -1, job->world), -EINVAL);
	MP_ERR(tutti_send_layout(v, &l, 0, 0, NULL), -EINVAL);
	MP_ERR(tutti_isend_layout(v, &l, 0, 0, job->world, NULL), -EINVAL);
	MP_ERR(tutti_irecv_layout(v, &l, 0, 0, job->world, NULL, NULL), -EINVAL);
	MP_OK(tutti_isend_layout(v, &same, job->rank, 1, job->world, &req));
	MP_OK(tutti_recv(got, 6, TUTTI_FLOAT64, job->rank, 1, job->world, NULL));
	MP_OK(tutti_wait(&req));
	TT_EXPECT(got[0] == 1 && got[1] == 2 && got[2] == 2 && got[3] == 3 && got[5] == 4);
	return 0;
}

/* Messages that are too long or of another type are dropped; what follows them is received. */
static int dropped(struct mp_job *job, size_t count)
{
	struct tutti_layout l = mp_layout_vector(TUTTI_INT32, count, 1, 2), less = l, other = l;
	int32_t *v = calloc(2 * count, sizeof(*v));
	struct tutti_status status = {0};
	size_t i;

	less.count--;
	other.datatype = TUTTI_FLOAT32;
	for (i = 0; i < 2 * count; i++)
		v[i] = job->rank ? -1 : (int32_t)i;
	if (job->rank == 0) {
		for (i = 0; i < 3; i++)
			MP_OK(tutti_send_layout(v, &l, 1, 4, job->world));
	} else {
		MP_ERR(tutti_recv_layout(v, &less, 0, 4, job->world, &status), -EMSGSIZE);
		TT_EXPECT(status.bytes == count * 4);
		MP_ERR(tutti_recv_layout(v, &other, 0, 4, job->world, &status), -TUTTI_EMISMATCH);
		MP_SAID("rank 0 sent int32");
		for (i = 0; i < 2 * count; i++)
			TT_EXPECT(v[i] == -1);
		MP_OK(tutti_probe(0, 4, job->world, &status));
		TT_EXPECT(status.bytes == count * 4);
		MP_OK(tutti_recv_layout(v, &l, 0, 4, job->world, &status));
		for (i = 0; i < count; i++)
			TT_EXPECT(v[2 * i] == (int32_t)(2 * i) && v[2 * i + 1] == -1);
	}
	free(v);
	return 0;
}

/* Persistent requests: what the buffer has at each start is sent. */
static int again(struct mp_job *job, size_t count)
{
	struct tutti_layout out = mp_layout_vector(TUTTI_INT32, count, 1, 2),
			    in = mp_layout_vector(TUTTI_INT32, count, 1, 3);
	int32_t *v = calloc(5 * count, sizeof(*v)), *to = v + 2 * count;
	struct tutti_request *req[2];
	int peer = !job->rank, step;
	size_t i;

	MP_OK(tutti_send_layout_init(v, &out, peer, 2, job->world, &req[0]));
	MP_OK(tutti_recv_layout_init(to, &in, peer, 2, job->world, NULL, &req[1]));
	for (step = 0; step < 4; step++) {
		for (i = 0; i < count; i++)
			v[2 * i] = job->rank * 100 + step + (int32_t)i;
		MP_OK(tutti_startall(2, req));
		MP_OK(tutti_waitall(2, req));
		for (i = 0; i < count; i++)
			TT_EXPECT(to[3 * i] == peer * 100 + step + (int32_t)i && !to[3 * i + 1]);
	}
	MP_OK(tutti_request_free(req[0]));
	MP_OK(tutti_request_free(req[1]));
	free(v);
	return 0;
}

/* Cancelled receives, and a group of calls. */
static int cancel_body(struct mp_job *job)
{
	enum { N = 40000 };
	struct tutti_layout l = mp_layout_vector(TUTTI_INT32, N, 1, 2);
	int32_t *v = calloc(4 * N, sizeof(*v));
	struct tutti_request *req = NULL;
	int peer = !job->rank, i;

	TT_EXPECT(!dropped(job, 10) && !dropped(job, 50000));
	TT_EXPECT(!again(job, 10) && !again(job, 50000));
	MP_OK(tutti_irecv_layout(v, &l, peer, 8, job->world, NULL, &req));
	MP_OK(tutti_cancel(req));
	MP_ERR(tutti_wait(&req), -ECANCELED);
	MP_OK(tutti_barrier(job->world));
	for (i = 0; i < 2 * N; i++)
		v[i] = job->rank * 1000000 + i;
	MP_OK(tutti_group_start());
	MP_OK(tutti_send_layout(v, &l, peer, 8, job->world));
	MP_OK(tutti_recv_layout(v + 2 * N, &l, peer, 8, job->world, NULL));
	MP_OK(tutti_group_end());
	for (i = 0; i < N; i++)
		TT_EXPECT(v[2 * N + 2 * i] == peer * 1000000 + 2 * i && !v[2 * N + 2 * i + 1]);
	MP_OK(tutti_barrier(job->world));
	free(v);
	return 0;
}

/*
 * A synchronous send, short and long, ends when its message is received and not before; each start
 * of a persistent one likewise. A matched receive that does not fit drops the message.
 */
static int matched(struct mp_job *job, size_t count)
{
	struct tutti_layout l = mp_layout_vector(TUTTI_INT32, count, 1, 2), less = l;
	int32_t *v = calloc(2 * count, sizeof(*v));
	struct tutti_request *req[2] = {NULL};
	struct tutti_message *msg = NULL;
	struct tutti_status status;
	int i, k, done = 0;

	less.count--;
	for (i = 0; i < 2 * (int)count; i++)
		v[i] = job->rank ? -1 : i;
	if (!job->rank) {
		MP_OK(tutti_issend_layout(v, &l, 1, 6, job->world, &req[0]));
		MP_OK(tutti_ssend_layout_init(v, &l, 1, 7, job->world, &req[1]));
		MP_OK(tutti_start(req[1]));
		for (i = 0; i < 2; i++)
			for (k = 0; k < 1000 && !done; k++)
				MP_OK(tutti_request_get_status(req[i], &done));
		TT_EXPECT(!done);
	}
	MP_OK(tutti_barrier(job->world));
	if (!job->rank) {
		MP_OK(tutti_waitall(2, req));
		MP_OK(tutti_start(req[1]));
		MP_OK(tutti_wait(&req[1]));
		MP_OK(tutti_request_free(req[1]));
	}
	for (i = 0; job->rank && i < 2; i++) {
		MP_OK(tutti_mprobe(0, 6 + i, job->world, &msg, &status));
		TT_EXPECT(status.bytes == count * sizeof(*v));
		MP_OK(tutti_mrecv_layout(v, &l, &msg, &status));
		for (k = 0; k < (int)count; k++)
			TT_EXPECT(v[2 * k] == 2 * k && v[2 * k + 1] == -1);
	}
	if (job->rank) {
		MP_OK(tutti_mprobe(0, TUTTI_ANY_TAG, job->world, &msg, NULL));
		MP_ERR(tutti_mrecv_layout(v, &less, &msg, &status), -EMSGSIZE);
		TT_EXPECT(!msg && status.bytes == count * sizeof(*v));
		MP_ERR(tutti_mrecv_layout(v, &l, &msg, &status), -EINVAL);
		MP_SAID("there is no message");
		MP_ERR(tutti_imrecv_layout(v, &l, NULL, &status, &req[0]), -EINVAL);
		MP_SAID("message is NULL");
	}
	free(v);
	return 0;
}

static int matched_body(struct mp_job *job)
{
	TT_EXPECT(!matched(job, 10) && !matched(job, 50000));
	MP_OK(tutti_barrier(job->world));
	return 0;
}

/* Rank 1 dies in the middle of long messages: each request ends with the error. */
static int dead_body(struct mp_job *job)
{
	enum { N = 400000 };
	struct tutti_layout l = mp_layout_vector(TUTTI_FLOAT64, N, 1, 2);
	double *v = calloc(4 * N, sizeof(*v)), begin;
	struct tutti_request *req[2] = {NULL};
	int err;

	mp_meet(job);
	begin = mp_now();
	do {
		err = tutti_isend_layout(v, &l, !job->rank, 0, job->world, &req[0]);
		if (!err)
			err = tutti_irecv_layout(v + 2 * N, &l, !job->rank, 0, job->world, NULL,
						 &req[1]);
		if (job->rank == 1 && mp_now() - begin > 0.03)
			kill(getpid(), SIGKILL);
		if (!err)
			err = tutti_waitall(2, req);
	} while (!err);
	TT_EXPECT(!mp_died(job, err, 2, req));
	mp_leave(job);
	free(v);
	return 0;
}

static void errors(void)
{
	TT_CHECK(!MP_RUN(.n = 1, .fn = bad_body));
	TT_CHECK(!MP_RUN(.n = 2, .env = SHM, .fn = bad_body));
	TT_CHECK(!MP_RUN(.n = 2, .env = SHM, .fn = cancel_body));
	TT_CHECK(!MP_RUN(.n = 2, .env = FAULT, .fn = cancel_body));
	TT_CHECK(!MP_RUN(.n = 2, .env = SHM, .fn = dead_body, .killed = 2));
	if (mp_no_ofi())
		return;
	TT_CHECK(!MP_RUN(.n = 2, .env = OFI, .fn = cancel_body));
	TT_CHECK(!MP_RUN(.n = 2, .env = OFI, .fn = dead_body, .killed = 2));
}

static void matched_(void)
{
	TT_CHECK(!MP_RUN(.n = 2, .env = SHM, .fn = matched_body));
	TT_CHECK(!MP_RUN(.n = 2, .env = FAULT, .fn = matched_body));
	if (!mp_no_ofi())
		TT_CHECK(!MP_RUN(.n = 2, .env = OFI, .fn = matched_body));
}

static void verbs(void)
{
	if (mp_no_verbs())
		TT_SKIP("%s", mp_no_verbs());
	TT_CHECK(!MP_RUN(.n = 3, .env = "TUTTI_TRANSPORT=verbs TUTTI_TIMEOUT=30s",
			 .fn = random_body));
	TT_CHECK(!MP_RUN(.n = 2, .env = "TUTTI_TRANSPORT=verbs TUTTI_TIMEOUT=30s",
			 .fn = matched_body));
}

int main(int argc, char **argv)
{
	static const struct tt_test tests[] = {
		{"random", random_},   {"copies", copies}, {"errors", errors},
		{"matched", matched_}, {"verbs", verbs},   {NULL, NULL},
	};

	return tt_test_main("layout", tests, argc, argv);
}
