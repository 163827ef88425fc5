/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Long messages of ordinary memory between ranks of one host: the receiver reads them where their
 * sender keeps them, or they go through the pool. Which it does is seen by the bytes that the
 * sender puts.
 */
#include "config.h"

#include "tests/mp/job.h"
#include "transports/shm/shm.h"

#include <stdio.h>
#include <stdlib.h>

#define SHM "TUTTI_TRANSPORT=shm"

/* FIRST, TRIAL: as in lib/p2p/p2p_pull.c */
enum { KIB64 = 65536, GUARD = 64, FIRST = 16, TRIAL = 16 };

static void fill(unsigned char *p, size_t n, unsigned seed)
{
	size_t i;

	for (i = 0; i < n; i++)
		p[i] = (unsigned char)(seed * 29 + i * 13 + (i >> 9) + (i >> 18));
}

static bool is_filled(const unsigned char *p, size_t n, unsigned seed)
{
	size_t i;

	for (i = 0; i < n; i++)
		if (p[i] != (unsigned char)(seed * 29 + i * 13 + (i >> 9) + (i >> 18)))
			return false;
	return true;
}

static int warm_up(struct mp_job *job)
{
	int i, v = 0;

	for (i = 0; i < 4; i++) {
		if (job->rank == 0)
			MP_OK(tutti_send(&v, 1, TUTTI_INT32, 1, 77, job->world));
		MP_OK(tutti_recv(&v, 1, TUTTI_INT32, !job->rank, 77, job->world, NULL));
		if (job->rank == 1)
			MP_OK(tutti_send(&v, 1, TUTTI_INT32, 0, 77, job->world));
	}
	return 0;
}

static uint64_t put_bytes(struct mp_job *job)
{
	struct tutti_stats s = {.size = sizeof(s)};

	return tutti_stats_get(job->ctx, &s) ? 0 : s.put_bytes;
}

/* n messages from rank 0, one after the other; *put: the bytes that it put for them. */
static int send_some(struct mp_job *job, unsigned char *buf, int first, int n, uint64_t *put)
{
	uint64_t before = put_bytes(job);
	int i;

	for (i = first; i < first + n; i++) {
		if (job->rank == 0) {
			fill(buf, KIB64, (unsigned)i);
			MP_OK(tutti_ssend(buf, KIB64, TUTTI_UINT8, 1, 1, job->world));
		} else {
			MP_OK(tutti_recv(buf, KIB64, TUTTI_UINT8, 0, 1, job->world, NULL));
			TT_EXPECT(is_filled(buf, KIB64, (unsigned)i));
		}
	}
	*put = put_bytes(job) - before;
	return 0;
}

/* ---- each way is tried; a receiver that may not read does without ---- */

static int ways_body(struct mp_job *job)
{
	unsigned char *buf = malloc(KIB64);
	uint64_t put;

	TT_EXPECT(buf && !warm_up(job));
	TT_EXPECT(!send_some(job, buf, 0, FIRST, &put));
	TT_EXPECT(job->rank == 1 || put == (uint64_t)FIRST * KIB64);
	TT_EXPECT(!send_some(job, buf, FIRST, TRIAL, &put));
	TT_EXPECT(job->rank == 1 || put == 0);
	free(buf);
	return 0;
}

static void ways(void)
{
	if (!shm_vm_allowed())
		TT_SKIP("processes may not read each other's memory here");
	TT_CHECK(!MP_RUN(.n = 2, .env = SHM, .fn = ways_body));
}

static int forbidden_body(struct mp_job *job)
{
	unsigned char *buf = malloc(KIB64);
	uint64_t put;

	TT_EXPECT(buf && !warm_up(job));
	if (job->rank == 1)
		TT_EXPECT(!mp_forbid_vm());
	TT_EXPECT(!send_some(job, buf, 0, FIRST + TRIAL, &put));
	TT_EXPECT(job->rank == 1 || put == (uint64_t)(FIRST + TRIAL) * KIB64);
	free(buf);
	return 0;
}

static void forbidden(void)
{
	TT_CHECK(!MP_RUN(.n = 2, .env = SHM, .fn = forbidden_body));
}

/*
 * ---- a sender that takes one message back, as its communicator is revoked, lets nobody read: the
 * others, announced before, go through the pool ----
 */

static int unkept_body(struct mp_job *job)
{
	enum { N = FIRST + TRIAL };
	unsigned char *buf = malloc((size_t)N * KIB64);
	struct tutti_request *req[N], *lost;
	struct tutti_comm *revoked;
	uint64_t before;
	int i;

	TT_EXPECT(buf && !warm_up(job));
	MP_OK(tutti_comm_dup(job->world, &revoked));
	before = put_bytes(job);
	for (i = 0; i < N && job->rank == 0; i++) {
		fill(buf + (size_t)i * KIB64, KIB64, (unsigned)i);
		MP_OK(tutti_isend(buf + (size_t)i * KIB64, KIB64, TUTTI_UINT8, 1, 1, job->world,
				  &req[i]));
	}
	if (job->rank == 0) { /* the first one makes the connection of this communicator known */
		MP_OK(tutti_send(buf, 1, TUTTI_UINT8, 1, 1, revoked));
		MP_OK(tutti_recv(buf + KIB64, 0, TUTTI_UINT8, 1, 1, revoked, NULL));
		MP_OK(tutti_isend(buf, KIB64, TUTTI_UINT8, 1, 1, revoked, &lost));
		MP_OK(tutti_comm_revoke(revoked));
		MP_ERR(tutti_wait(&lost), -TUTTI_EREVOKED);
	} else {
		MP_OK(tutti_recv(buf, 1, TUTTI_UINT8, 0, 1, revoked, NULL));
		MP_OK(tutti_send(buf, 0, TUTTI_UINT8, 0, 1, revoked));
	}
	MP_OK(tutti_barrier(job->world));
	for (i = 0; i < N && job->rank == 1; i++) {
		MP_OK(tutti_recv(buf, KIB64, TUTTI_UINT8, 0, 1, job->world, NULL));
		TT_EXPECT(is_filled(buf, KIB64, (unsigned)i));
	}
	if (job->rank == 0) {
		MP_OK(tutti_waitall(N, req));
		TT_EXPECT(put_bytes(job) - before >= (uint64_t)N * KIB64);
	}
	MP_OK(tutti_barrier(job->world));
	MP_OK(tutti_comm_free(revoked));
	free(buf);
	return 0;
}

static void unkept(void)
{
	TT_CHECK(!MP_RUN(.n = 2, .env = SHM, .fn = unkept_body));
}

/* ---- other forms of receives: of a probed message, and persistent ---- */

static int receive(struct mp_job *job, unsigned char *buf, struct tutti_request *again, int i)
{
	struct tutti_message *message;

	if (i % 3 == 0)
		return tutti_recv(buf, KIB64, TUTTI_UINT8, TUTTI_ANY_SOURCE, 1, job->world, NULL);
	if (i % 3 == 1) {
		MP_OK(tutti_mprobe(0, 1, job->world, &message, NULL));
		return tutti_mrecv(buf, KIB64, TUTTI_UINT8, &message, NULL);
	}
	MP_OK(tutti_start(again));
	return tutti_wait(&again);
}

static int forms_body(struct mp_job *job)
{
	unsigned char *buf = malloc(KIB64);
	struct tutti_request *again;
	int i;

	TT_EXPECT(buf && !warm_up(job));
	if (job->rank == 0)
		MP_OK(tutti_send_init(buf, KIB64, TUTTI_UINT8, 1, 1, job->world, &again));
	else
		MP_OK(tutti_recv_init(buf, KIB64, TUTTI_UINT8, 0, 1, job->world, NULL, &again));
	for (i = 0; i < 3 * (FIRST + TRIAL); i++) {
		fill(buf, KIB64, (unsigned)(job->rank ? 7 : i));
		if (job->rank == 0)
			MP_OK(tutti_start(again));
		MP_OK(job->rank == 0 ? tutti_wait(&again) : receive(job, buf, again, i));
		TT_EXPECT(is_filled(buf, KIB64, (unsigned)i));
	}
	MP_OK(tutti_request_free(again));
	free(buf);
	return 0;
}

static void forms(void)
{
	TT_CHECK(!MP_RUN(.n = 2, .env = SHM, .fn = forms_body));
}

/* ---- windows of all lengths, both ways at once: every byte, and none beside it ---- */

enum { WINDOW = 8 };

static int window(struct mp_job *job, unsigned char *in[WINDOW], unsigned char *out, size_t n,
		  unsigned seed)
{
	struct tutti_request *req[2 * WINDOW];
	int i, peer = !job->rank;

	for (i = 0; i < WINDOW; i++) {
		memset(in[i], 0xa5, n + 2 * (size_t)GUARD);
		MP_OK(tutti_irecv(in[i] + GUARD, n, TUTTI_UINT8, peer, i, job->world, NULL,
				  &req[i]));
	}
	fill(out, n, seed + (unsigned)job->rank);
	for (i = 0; i < WINDOW; i++)
		MP_OK(tutti_isend(out, n, TUTTI_UINT8, peer, i, job->world, &req[WINDOW + i]));
	MP_OK(tutti_waitall(2 * WINDOW, req));
	for (i = 0; i < WINDOW; i++) {
		TT_EXPECT(is_filled(in[i] + GUARD, n, seed + (unsigned)peer));
		TT_EXPECT(in[i][GUARD - 1] == 0xa5 && in[i][GUARD + n] == 0xa5);
	}
	return 0;
}

static int windows_body(struct mp_job *job)
{
	static const size_t lengths[] = {4097,	  8191,	   8193,	  KIB64,  KIB64 + 1,
					 1000003, 1 << 20, (1 << 20) + 1, 3000001};
	enum { MOST = 3000001 };
	unsigned char *in[WINDOW], *out = malloc(MOST);
	unsigned k, seed = 0;
	size_t i;

	TT_EXPECT(out && !warm_up(job));
	for (i = 0; i < WINDOW; i++) {
		in[i] = malloc(MOST + 2 * (size_t)GUARD);
		TT_EXPECT(in[i]);
	}
	for (i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++)
		for (k = 0; k < (FIRST + TRIAL) / WINDOW + 2; k++, seed += 2)
			TT_EXPECT(!window(job, in, out, lengths[i], seed));
	for (i = 0; i < WINDOW; i++)
		free(in[i]);
	free(out);
	return 0;
}

static void windows(void)
{
	TT_CHECK(!MP_RUN(.n = 2, .env = SHM, .fn = windows_body));
}

int main(int argc, char **argv)
{
	static const struct tt_test tests[] = {{"ways", ways},	     {"forbidden", forbidden},
					       {"unkept", unkept},   {"forms", forms},
					       {"windows", windows}, {NULL, NULL}};

	return tt_test_main("pull", tests, argc, argv);
}
