/* SPDX-License-Identifier: BSD-3-Clause */
/* Encoded copies of blocks of rows, which fill up: values, and lengths that are damaged. */
#include "config.h"

#include "tests/mp/ps/ps_coded.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "lib/ps/essp/essp.h"

/* ---- rows, which are made one after the other; blocks fill up ---- */

struct rows {
	struct tutti_ps_table *t;
	const char *codec;
	uint64_t key[2 * ROWS];
	float x[ROWS][WIDTH], u[ROWS][WIDTH];
	size_t n; /* that exist */
};

/* The rows that these n keys, in this order, are for. */
static int pull_these(struct mp_job *job, const struct rows *r, const size_t *which, size_t n,
		      float (*want)[WIDTH])
{
	static float v[2 * ROWS][WIDTH];
	uint64_t key[2 * ROWS] = {0};
	size_t i;

	memset(v, 0x77, sizeof(v));
	for (i = 0; i < n; i++)
		key[i] = r->key[which[i]];
	MP_OK(tutti_ps_pull_rows(r->t, key, n, v, TUTTI_FLOAT32));
	for (i = 0; i < n; i++)
		if (memcmp(v[i], want[which[i]], sizeof(v[i])))
			return fprintf(stderr, "%s: row %zu of %zu\n", r->codec, which[i], r->n), 1;
	return 0;
}

/* All rows; backwards, each twice; one alone; and their values themselves. */
static int compare_rows(struct mp_job *job, struct rows *r)
{
	static float d[ROWS][WIDTH];
	size_t which[2 * ROWS], blocks = (r->n + PER_BLOCK - 1) / PER_BLOCK, i;
	struct tutti_codec *codec;
	uint64_t got, most;

	memcpy(d, r->x, sizeof(d));
	TT_EXPECT(!through_blocks(r->codec, d[0], r->n * WIDTH, PER_BLOCK * WIDTH));
	for (i = 0; i < r->n; i++)
		which[i] = i;
	TT_EXPECT(!pull_these(job, r, which, r->n, d)); /* from here on blocks are known */
	got = mp_got_bytes(job);
	TT_EXPECT(!pull_these(job, r, which, r->n, d));
	got = mp_got_bytes(job) - got;
	MP_OK(tutti_codec_create(r->codec, &codec));
	most = blocks * (tutti_codec_bound(codec, PER_BLOCK * WIDTH) + 128);
	MP_OK(tutti_codec_free(codec));
	TT_EXPECT(got <= most && most < r->n * WIDTH * sizeof(float) * 2 / 3);
	for (i = 0; i < 2 * r->n; i++)
		which[i] = (2 * r->n - i - 1) / 2;
	TT_EXPECT(!pull_these(job, r, which, 2 * r->n, d));
	TT_EXPECT(!pull_these(job, r, which, 1, d));
	MP_OK(tutti_ps_exact(r->t, 1));
	TT_EXPECT(!pull_these(job, r, which, 2 * r->n, r->x));
	MP_OK(tutti_ps_exact(r->t, 0));
	return 0;
}

/*
 * In each clock more rows get an update, and three more exist because they are pulled. Their block
 * is then published again, with what it had before the clock.
 */
static int rows_clock(struct mp_job *job, struct tutti_ps *ps, struct rows *r, int c, int staleness)
{
	size_t most = 75 + (size_t)c * 7, which[] = {most, most + 1, most + 2, r->n - !!c}, i, e;
	static float d[ROWS][WIDTH];

	for (i = 0; i < most; i++)
		for (e = 0; e < WIDTH; e++)
			r->u[i][e] = value(1, c, (int)(i * WIDTH + e));
	MP_OK(tutti_ps_push_rows(r->t, r->key, most, r->u, TUTTI_FLOAT32));
	r->n = most + (staleness ? 0 : 3);
	memcpy(d, r->x, sizeof(d));
	TT_EXPECT(!through_blocks(r->codec, d[0], r->n * WIDTH, PER_BLOCK * WIDTH));
	if (!staleness)
		TT_EXPECT(!pull_these(job, r, which, c ? 4 : 3, d));
	MP_OK(tutti_ps_clock(ps));
	for (i = 0; i < most; i++)
		for (e = 0; e < WIDTH; e++)
			r->x[i][e] += r->u[i][e];
	return compare_rows(job, r);
}

static int rows_body(struct mp_job *job)
{
	const struct how *how = job->arg;
	static struct rows r;
	struct tutti_ps *ps;
	int k, c;
	size_t i;

	MP_OK(mp_ps_open(job, 1, how->staleness, &ps));
	for (k = 0; k < CODECS; k++) {
		r.codec = codecs[k];
		r.n = 0;
		TT_EXPECT(!make_rows(job, ps, r.codec, how->essp, &r.t));
		for (i = 0; i < ROWS * WIDTH; i++)
			r.x[i / WIDTH][i % WIDTH] = FIRST;
		for (i = 0; i < ROWS; i++)
			r.key[i] = i * 77 + 5;
		for (c = 0; c < 5 && job->rank; c++)
			TT_EXPECT(!rows_clock(job, ps, &r, c, how->staleness));
	}
	MP_OK(tutti_ps_close(ps));
	return 0;
}

static void rows(void)
{
	struct how how[] = {{0, false}, {1, false}, {TUTTI_PS_ASYNC, false}, {0, true}, {1, true}};
	int i;

	for (i = 0; i < 5; i++)
		TT_CHECK(!MP_RUN(.n = 2, .env = SHM "TUTTI_PS_VERIFY=1", .fn = rows_body,
				 .arg = &how[i]));
	if (!mp_no_ofi())
		TT_CHECK(!MP_RUN(.n = 2, .env = "TUTTI_TRANSPORT=ofi TUTTI_IF=lo", .fn = rows_body,
				 .arg = &how[0]));
}

/* A head that says that a block has fewer rows, or more, than are encoded. */
static int damaged_rows_body(struct mp_job *job)
{
	uint64_t key[3] = {1, 2, 3};
	unsigned slot;
	float v[3][WIDTH] = {{0}};
	struct tt_ps_head *head;
	struct tutti_ps_table *t;
	struct tutti_ps *ps;

	MP_OK(mp_ps_open(job, 1, 0, &ps));
	TT_EXPECT(!make_rows(job, ps, "int8", false, &t));
	if (job->rank) {
		MP_OK(tutti_ps_push_rows(t, key, 3, v, TUTTI_FLOAT32));
		MP_OK(tutti_ps_clock(ps));
		MP_OK(tutti_ps_pull_rows(t, key, 3, v, TUTTI_FLOAT32));
	}
	mp_meet(job);
	if (!job->rank) { /* the slot with the push */
		slot = *(const uint64_t *)(const void *)t->mem & 0xff;
		head = (struct tt_ps_head *)(void *)(t->mem + tt_ps_slot_at(t, 0, 0, slot));
		head->length = *(const uint64_t *)job->arg;
		if (head->length != 4 * WIDTH * sizeof(float)) /* right for as many */
			head->coded = head->length / 4 + (head->length / 4 + 255) / 256 * 4;
	}
	mp_meet(job);
	if (job->rank) {
		MP_ERR(tutti_ps_pull_rows(t, key, 3, v, TUTTI_FLOAT32), -EPROTO);
		MP_SAID("block 0 of rank 0");
	}
	MP_OK(tutti_ps_close(ps));
	return 0;
}

static void damaged_rows(void)
{
	uint64_t length[] = {0, 4 * WIDTH * sizeof(float), 2 * PER_BLOCK * WIDTH * sizeof(float)};
	int i;

	for (i = 0; i < 3; i++)
		TT_CHECK(!MP_RUN(.n = 2, .env = SHM, .fn = damaged_rows_body, .arg = &length[i]));
}

int main(int argc, char **argv)
{
	static const struct tt_test tests[] = {
		{"rows", rows}, {"damaged_rows", damaged_rows}, {NULL, NULL}};

	return tt_test_main("ps_codec_row_copies", tests, argc, argv);
}
