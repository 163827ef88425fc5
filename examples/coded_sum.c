/* SPDX-License-Identifier: BSD-3-Clause */
/* Sums over ranks of vectors that may travel encoded; see coded_sum.h. */
#include "examples/coded_sum.h"

int coded_sum_open(struct coded_sum *s, struct tutti_context *ctx, struct tutti_comm *comm,
		   const struct coding *coding, size_t count)
{
	int err;

	*s = (struct coded_sum){.comm = comm, .count = count};
	err = tutti_alloc(ctx, count * sizeof(float), (void **)&s->data);
	if (!err && coding->codec)
		err = tutti_codec_create(coding->codec, &s->codec);
	if (!err && coding->codec && !coding->no_feedback)
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
	*s = (struct coded_sum){0};
}

double coded_sum_bytes(struct tutti_context *ctx)
{
	struct tutti_stats stats = {.size = sizeof(stats)};

	return tutti_stats_get(ctx, &stats) ? 0 : (double)(stats.put_bytes + stats.got_bytes);
}
