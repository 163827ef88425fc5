/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * All-to-allv in the memory of a host: blocks of every length around a slot's share, in all forms
 * of the call, and pairs that disagree about a length on either side of that share.
 */
#include "tests/mp/job.h"

#include <errno.h>
#include <string.h>

#define MOST 4	   /* ranks */
#define LONG 20000 /* elements of a block, at most */

static const size_t elems[] = {1, 4, 24};

static enum tutti_datatype type_of(size_t elem)
{
	return elem == 1 ? TUTTI_UINT8 : elem == 4 ? TUTTI_INT32 : TUTTI_OPAQUE(elem);
}

/* Elements that rank a sends to rank b in a round: none, few, about a share, many. */
static size_t count_of(int a, int b, int round, size_t elem, int n)
{
	size_t share = ((size_t)32 << 10) / (size_t)n / elem;
	const size_t some[] = {0, 1, 2, share - 9, share - 1, share, share + 1, 3 * share, 77};
	size_t count = some[(a * 5 + b * 3 + round) % 9];

	return count < LONG ? count : LONG;
}

static unsigned char byte_of(int from, int to, int round, size_t i)
{
	return (unsigned char)(from * 61 + to * 17 + round * 5 + (int)(i % 251));
}

struct side {
	size_t count[MOST], displ[MOST];
	unsigned char *buf;
};

/* Contiguous blocks, or with gaps in between. */
static void lay_out(struct side *s, int n, size_t gap)
{
	size_t end = 0;
	int i;

	for (i = 0; i < n; i++) {
		s->displ[i] = end;
		end += s->count[i] + gap;
	}
}

static void fill(const struct side *s, int me, int n, int round, size_t elem)
{
	size_t k;
	int j;

	for (j = 0; j < n; j++)
		for (k = 0; k < s->count[j] * elem; k++)
			s->buf[s->displ[j] * elem + k] = byte_of(me, j, round, k);
}

static bool is_right(const struct side *s, int me, int n, int round, size_t elem)
{
	size_t k;
	int j;

	for (j = 0; j < n; j++)
		for (k = 0; k < s->count[j] * elem; k++)
			if (s->buf[s->displ[j] * elem + k] != byte_of(j, me, round, k))
				return false;
	return true;
}

/* In place, counts are the same in both directions. */
static int one_round(struct mp_job *job, struct side *out, struct side *in, size_t elem, int round)
{
	enum tutti_datatype t = type_of(elem);
	bool in_place = round % 5 == 4, packed = round % 2;
	struct tutti_request *req;
	int n = job->n, j;

	for (j = 0; j < n; j++) {
		bool lower = in_place && j < job->rank;

		out->count[j] = lower ? count_of(j, job->rank, round, elem, n)
				      : count_of(job->rank, j, round, elem, n);
		in->count[j] = in_place ? out->count[j] : count_of(j, job->rank, round, elem, n);
	}
	lay_out(out, n, packed ? 0 : 3);
	lay_out(in, n, packed ? 0 : 2);
	memset(in->buf, 0, (size_t)MOST * (LONG + 3) * elem);
	fill(in_place ? in : out, job->rank, n, round, elem);
	if (round % 3 == 2) {
		MP_OK(tutti_ialltoallv(in_place ? TUTTI_IN_PLACE : out->buf, out->count,
				       packed ? NULL : out->displ, in->buf, in->count,
				       packed ? NULL : in->displ, t, job->world, &req));
		MP_OK(tutti_wait(&req));
	} else {
		MP_OK(tutti_alltoallv(in_place ? TUTTI_IN_PLACE : out->buf, out->count,
				      packed ? NULL : out->displ, in->buf, in->count,
				      packed ? NULL : in->displ, t, job->world));
	}
	TT_EXPECT(is_right(in, job->rank, n, round, elem));
	return 0;
}

static int rounds_body(struct mp_job *job)
{
	size_t bytes = (size_t)MOST * (LONG + 3) * 24;
	struct side out = {.buf = malloc(bytes)}, in = {.buf = malloc(bytes)};
	size_t e;
	int round;

	TT_EXPECT(out.buf && in.buf);
	for (e = 0; e < sizeof(elems) / sizeof(elems[0]); e++)
		for (round = 0; round < 60; round++)
			TT_EXPECT(!one_round(job, &out, &in, elems[e], round % 30));
	free(out.buf);
	free(in.buf);
	return 0;
}

static int persistent_body(struct mp_job *job)
{
	size_t bytes = (size_t)MOST * (LONG + 3) * 4;
	struct side out = {.buf = malloc(bytes)}, in = {.buf = malloc(bytes)};
	struct tutti_request *req;
	int round, start, j;

	TT_EXPECT(out.buf && in.buf);
	for (round = 0; round < 9; round++) {
		for (j = 0; j < job->n; j++) {
			out.count[j] = count_of(job->rank, j, round, 40, job->n);
			in.count[j] = count_of(j, job->rank, round, 40, job->n);
		}
		lay_out(&out, job->n, 1);
		lay_out(&in, job->n, 2);
		MP_OK(tutti_alltoallv_init(out.buf, out.count, out.displ, in.buf, in.count,
					   in.displ, TUTTI_INT32, job->world, &req));
		for (start = 0; start < 3; start++) {
			fill(&out, job->rank, job->n, start, 4);
			MP_OK(tutti_start(req));
			MP_OK(tutti_wait(&req));
			TT_EXPECT(is_right(&in, job->rank, job->n, start, 4));
		}
		MP_OK(tutti_request_free(req));
	}
	free(out.buf);
	free(in.buf);
	return 0;
}

/* Where no rank may read another's ordinary memory. */
static int forbidden_body(struct mp_job *job)
{
	struct tutti_config config = {0};

	TT_EXPECT(!mp_forbid_vm());
	MP_OK(mp_join(job, MP_ID, &config));
	TT_EXPECT(!rounds_body(job));
	MP_OK(mp_leave(job));
	return 0;
}

static void rounds(void)
{
	int n;

	for (n = 2; n <= MOST; n++)
		TT_CHECK(!MP_RUN(.n = n, .env = "TUTTI_NODE=on", .fn = rounds_body));
	TT_CHECK(!MP_RUN(.n = 3, .env = "TUTTI_NODE=on TUTTI_WAIT=yield", .fn = rounds_body));
	TT_CHECK(!MP_RUN(.n = 3, .env = "TUTTI_NODE=on", .fn = forbidden_body, .no_init = true));
	TT_CHECK(!MP_RUN(.n = 3, .env = "TUTTI_TRANSPORT=shm TUTTI_NODE=off", .fn = rounds_body));
}

static void persistent(void)
{
	TT_CHECK(!MP_RUN(.n = 3, .env = "TUTTI_NODE=on", .fn = persistent_body));
}

/* ---- lengths that differ ---- */

struct pair {
	size_t sends, expects;
};

static int differ_body(struct mp_job *job)
{
	const struct pair *p = job->arg;
	static unsigned char buf[2][3 * 70000];
	size_t out[3] = {5, 5, 5}, in[3] = {5, 5, 5}, displ[3] = {0, 70000, 140000};
	struct tutti_error_info info = {.size = sizeof(info)};
	struct tutti_comm *comm;
	char text[2][32];
	size_t k;
	int err, i;

	MP_OK(tutti_comm_dup(job->world, &comm));
	for (i = 0; i < 3; i++) /* the short path is warm */
		MP_OK(tutti_alltoallv(buf[0], out, displ, buf[1], in, displ, TUTTI_UINT8, comm));
	mp_meet(job); /* the mismatch could end another rank's third call */
	if (job->rank == 1)
		out[2] = p->sends;
	if (job->rank == 2)
		in[1] = p->expects;
	memset(buf[1], 0xee, sizeof(buf[1]));
	err = tutti_alltoallv(buf[0], out, displ, buf[1], in, displ, TUTTI_UINT8, comm);
	if (!err) /* it had ended here before the two noticed */
		err = tutti_barrier(comm);
	TT_EXPECT(err == -TUTTI_EMISMATCH);
	for (k = 0; job->rank == 2 && k < p->expects; k++)
		TT_EXPECT(buf[1][displ[1] + k] == 0xee);
	TT_EXPECT(!tutti_comm_error(comm, &info));
	snprintf(text[0], sizeof(text[0]), "sends %zu elements", p->sends);
	snprintf(text[1], sizeof(text[1]), "expects %zu elements", p->expects);
	TT_EXPECT(strstr(info.text, text[0]) && strstr(info.text, text[1]) &&
		  strstr(info.text, "rank 1 sends"));
	mp_meet(job);
	MP_OK(tutti_comm_free(comm));
	return 0;
}

static void differ(void)
{
	struct pair p[] = {{0, 1},     {1, 0},	   {5, 6},     {10000, 5},
			   {5, 10000}, {0, 50000}, {50000, 0}, {60000, 50000}};
	size_t i;

	for (i = 0; i < sizeof(p) / sizeof(p[0]); i++)
		if (MP_RUN(.n = 3, .env = "TUTTI_NODE=on TUTTI_LOG=none", .fn = differ_body,
			   .arg = &p[i])) {
			fprintf(stderr, "%zu sent, %zu expected\n", p[i].sends, p[i].expects);
			TT_CHECK(false);
		}
}

int main(int argc, char **argv)
{
	static const struct tt_test tests[] = {
		{"rounds", rounds}, {"persistent", persistent}, {"differ", differ}, {0}};

	return tt_test_main("own_counts", tests, argc, argv);
}
