/* SPDX-License-Identifier: BSD-3-Clause */
/* Sums over ranks of vectors that may travel encoded; see coded_sum.h. */
#define _POSIX_C_SOURCE 200809L
#include "examples/coded_sum.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

int coded_sum_open(struct coded_sum *s, struct tutti_context *ctx, struct tutti_comm *comm,
		   const struct coding *coding, size_t count)
{
	int err, encodes = coding->codec && strcmp(coding->codec, "none") != 0;

	*s = (struct coded_sum){.comm = comm, .count = count};
	err = tutti_alloc(ctx, count * sizeof(float), (void **)&s->data);
	if (!err && encodes)
		err = tutti_codec_create(coding->codec, &s->codec);
	if (!err && encodes && !coding->no_feedback)
		err = tutti_feedback_create(comm, s->codec, count, &s->feedback);
	return err;
}

int coded_sum_start(struct coded_sum *s, struct tutti_request **request)
{
	struct tutti_call call = {.size = sizeof(call),
				  .coll = TUTTI_COLL_ALLREDUCE,
				  .sendbuf = TUTTI_IN_PLACE,
				  .recvbuf = s->data,
				  .count = s->count,
				  .datatype = TUTTI_FLOAT32,
				  .op = TUTTI_SUM,
				  .codec = s->codec,
				  .feedback = s->feedback};

	return tutti_call(s->comm, &call, request);
}

void coded_sum_close(struct coded_sum *s)
{
	tutti_feedback_free(s->feedback);
	tutti_codec_free(s->codec);
	tutti_free(s->data);
	free(s->kept);
	*s = (struct coded_sum){0};
}

static size_t states(const struct coded_sum *s)
{
	return s->count * (size_t)tutti_codec_states(s->codec);
}

int coded_sum_keep(struct coded_sum *s)
{
	if (!s->feedback)
		return 0;
	if (!s->kept)
		s->kept = malloc(states(s) * sizeof(float));
	return s->kept ? tutti_feedback_save(s->feedback, s->kept, states(s)) : -ENOMEM;
}

int coded_sum_move(struct coded_sum *s, struct tutti_context *ctx, struct tutti_comm *comm,
		   const struct coding *coding)
{
	float *kept = s->kept;
	size_t count = s->count;
	int err;

	s->kept = NULL;
	coded_sum_close(s);
	err = coded_sum_open(s, ctx, comm, coding, count);
	s->kept = kept;
	if (!err && kept)
		err = tutti_feedback_restore(s->feedback, kept, states(s));
	return err;
}

struct coded_sent coded_sum_sent(struct tutti_context *ctx)
{
	struct tutti_stats stats = {.size = sizeof(stats)};
	struct timespec now;

	tutti_stats_get(ctx, &stats);
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (struct coded_sent){(double)(stats.put_bytes + stats.got_bytes),
				   (double)now.tv_sec + (double)now.tv_nsec / 1e9};
}

void coded_sum_tell(struct tutti_context *ctx, int rank, struct coded_sent since)
{
	struct coded_sent now = coded_sum_sent(ctx);

	printf("rank %d sent %.0f bytes in %.3f s\n", rank, now.bytes - since.bytes,
	       now.seconds - since.seconds);
}
