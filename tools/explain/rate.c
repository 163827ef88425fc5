/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How fast this machine encodes and decodes: a vector that does not fit the second-level cache, in
 * the short pieces and with the feedback that an all-reduce has, in several processes at once, as
 * ranks of one host are.
 */
#include <errno.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tools/explain/explain.h"
#include "tools/values.h"

#define COUNT ((size_t)2 << 20) /* elements: 8 MiB */
#define PIECE ((size_t)64 << 10)
#define ENOUGH 0.04 /* seconds of either */

/* Of all processes. */
struct shared {
	atomic_int come;
	int n;
	struct explain_rate rate[];
};

struct work {
	const struct tutti_codec *codec;
	float *in, *left, *out;
	char *coded;
	size_t piece, bound, *len; /* of each piece */
};

static double now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static int once(struct work *w, bool encode)
{
	size_t at, n, *len = w->len;
	char *coded = w->coded;
	float *state[TT_CODEC_STATES];
	int err = 0;

	for (at = 0; !err && at < COUNT; at += n, coded += w->bound, len++) {
		n = COUNT - at < w->piece ? COUNT - at : w->piece;
		state[0] = w->left + at;
		state[1] = w->left + COUNT + at;
		if (encode)
			err = tt_codec_encode(w->codec, w->in + at, state, at, n, 1, coded, len);
		else
			err = tt_codec_decode(w->codec, coded, *len, at, n, w->out + at);
	}
	return err;
}

/* ns per byte of the vector. */
static int timed(struct work *w, bool encode, double *ns)
{
	double begin = now(), end;
	int err, n = 0;

	do {
		err = once(w, encode);
		n++;
		end = now();
	} while (!err && end - begin < ENOUGH);
	*ns = 1e9 * (end - begin) / n / (double)(COUNT * sizeof(float));
	return err;
}

static void meet(struct shared *s, int times)
{
	atomic_fetch_add(&s->come, 1);
	while (atomic_load(&s->come) < times * s->n)
		sched_yield();
}

/* In a process of its own, which ends with it. */
static int measure(struct shared *s, int me, const struct tutti_codec *codec)
{
	size_t align = tt_codec_align(codec), i;
	struct work w = {.codec = codec, .piece = align ? PIECE - PIECE % align : COUNT};
	uint32_t x = 1 + (uint32_t)me;
	int err;

	w.bound = tt_codec_bound(codec, w.piece);
	w.in = malloc(COUNT * sizeof(float));
	w.left = calloc(TT_CODEC_STATES * COUNT, sizeof(float));
	w.out = calloc(COUNT, sizeof(float));
	w.coded = malloc((COUNT / w.piece + 1) * w.bound);
	w.len = calloc(COUNT / w.piece + 1, sizeof(*w.len));
	if (!w.in || !w.left || !w.out || !w.coded || !w.len)
		return 1;
	for (i = 0; i < COUNT; i++) {
		x = x * 1664525 + 1013904223;
		w.in[i] = ((float)(x >> 8) - 0x1p23f) * 0x1p-30f;
	}
	err = once(&w, true) || once(&w, false);
	meet(s, 1);
	err = err || timed(&w, true, &s->rate[me].encode);
	meet(s, 2);
	return err || timed(&w, false, &s->rate[me].decode);
}

static int run(struct shared *s, const struct tutti_codec *codec)
{
	int i, status, started, bad = 0;
	pid_t pid;

	for (started = 0; started < s->n; started++) {
		pid = fork();
		if (!pid)
			_exit(measure(s, started, codec));
		if (pid < 0) { /* the others would wait for it */
			atomic_fetch_add(&s->come, 3 * s->n);
			bad = 1;
			break;
		}
	}
	for (i = 0; i < started; i++) {
		if (wait(&status) < 0 || status)
			bad = 1;
		if (bad)
			atomic_fetch_add(&s->come, 3 * s->n);
	}
	return bad;
}

int explain_measure(const struct tutti_codec *codec, int processes, struct explain_rate *rate)
{
	size_t bytes = sizeof(struct shared) + (size_t)processes * sizeof(struct explain_rate);
	struct shared *s =
		mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int i, bad;

	if (s == MAP_FAILED)
		return cli_fail("no memory to measure codecs");
	s->n = processes;
	bad = run(s, codec);
	*rate = (struct explain_rate){0, 0};
	for (i = 0; i < processes; i++) {
		rate->encode += s->rate[i].encode / processes;
		rate->decode += s->rate[i].decode / processes;
	}
	munmap(s, bytes);
	return bad ? cli_fail("codec %s: cannot measure it in %d processes", tt_codec_name(codec),
			      processes)
		   : 0;
}
