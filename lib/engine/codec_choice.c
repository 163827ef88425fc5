/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The codec "auto": the choice between the codecs that the caller allows, and none, by the cost
 * model of the communicator. Model, tuning table and costs of codecs are the same on all ranks, and
 * so is the choice. It is kept, so that a repeated call costs a look-up.
 */
#include <stdlib.h>

#include "lib/engine/engine.h"

#define PICKS 64

struct tt_codec_picks {
	struct {
		uint64_t codec; /* its hash; 0: unused */
		size_t count;
		int pick; /* -1: none of its choices */
	} at[PICKS];
	unsigned next;
};

void tt_codec_forget(struct tutti_comm *comm)
{
	free(comm->picks);
	comm->picks = NULL;
}

static void tell(const struct tutti_comm *comm, const struct tutti_codec *codec, size_t count,
		 int pick, const double *time)
{
	int n;
	struct tutti_codec *const *choice = tt_codec_choices(codec, &n);

	tt_info("codec %s: all-reduces of %zu float32 on %d ranks travel %s%s: %.1f us expected, "
		"%.1f us without a codec",
		tt_codec_name(codec), count, comm->size, pick < 0 ? "without a codec" : "by ",
		pick < 0 ? "" : tt_codec_name(choice[pick]), time[pick + 1] / 1e3, time[0] / 1e3);
}

static int compare(const struct tutti_comm *comm, const struct tutti_codec *codec, size_t count)
{
	struct tt_plan_args args = {.coll = TT_COLL_ALLREDUCE,
				    .rank = comm->rank,
				    .nranks = comm->size,
				    .count = count,
				    .elem = sizeof(float)};
	struct tt_plan_codec codecs[TT_CODEC_CHOICES];
	double time[TT_CODEC_CHOICES + 1];
	int i, n, pick;
	struct tutti_codec *const *choice = tt_codec_choices(codec, &n);

	for (i = 0; i < n; i++)
		codecs[i] = TT_PLAN_CODEC(choice[i]);
	tt_comm_place(comm, &args);
	pick = tt_choose_codec(comm->chooser, &args, codecs, n, time);
	tell(comm, codec, count, pick, time);
	return pick;
}

struct tutti_codec *tt_codec_choose(struct tutti_comm *comm, const struct tutti_codec *codec,
				    size_t count)
{
	struct tt_codec_picks *p = comm->picks;
	uint64_t hash = tt_codec_hash(codec);
	int i, n, pick;
	struct tutti_codec *const *choice = tt_codec_choices(codec, &n);

	for (i = 0; p && i < PICKS; i++)
		if (p->at[i].codec == hash && p->at[i].count == count)
			return p->at[i].pick < 0 ? NULL : choice[p->at[i].pick];
	pick = compare(comm, codec, count);
	if (!p)
		p = comm->picks = calloc(1, sizeof(*p));
	if (p) { /* else it is worked out again */
		i = (int)(p->next++ % PICKS);
		p->at[i].codec = hash;
		p->at[i].count = count;
		p->at[i].pick = pick;
	}
	return pick < 0 ? NULL : choice[pick];
}
