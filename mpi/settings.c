/* SPDX-License-Identifier: BSD-3-Clause */
/* Which calls are taken over: a table of sizes for each collective, or TUTTI_MPI_TAKE. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/distance.h"
#include "lib/base/number.h"
#include "mpi/preload.h"

const char *const tm_coll_names[TM_ROWS] = {
#define X(id, name, text) [TM_##id] = text,
	TM_COLLS(X)
#undef X
		[TM_ALLTOALLW] = "alltoallw",
	[TM_NEIGHBORS] = "neighbor_*",
};

#define ALL UINT64_MAX
#define NONE                                                                                       \
	{                                                                                          \
		1, 0                                                                               \
	}

/*
 * Bytes of the vector, of a block for gather, scatter, all-gather and all-to-all, of a block of the
 * result for reduce-scatter. What is left out an MPI did as fast or faster on a machine (make
 * perf-mpi): between a KiB and 8 KiB MPICH copies by pieces through memory of its own, and long
 * vectors Open MPI moves in the same way. Of the v forms whose counts only two ranks know, all
 * calls are taken or none.
 */
static const struct tm_range defaults[TM_NUM_COLLS] = {
	[TM_ALLREDUCE] = {0, ALL},
	[TM_REDUCE_SCATTER] = {0, ALL},
	[TM_REDUCE_SCATTER_BLOCK] = {0, ALL},
	[TM_SCAN] = {0, ALL},
	[TM_BARRIER] = {0, ALL},
	[TM_GATHERV] = NONE,
	[TM_SCATTERV] = NONE,
	[TM_ALLTOALLV] = NONE,
	[TM_REDUCE] = {0, ALL},
#ifdef OPEN_MPI
	[TM_EXSCAN] = {0, ALL},
	[TM_BCAST] = {512, ALL},
	[TM_GATHER] = {0, ALL},
	[TM_SCATTER] = {512, ALL},
	[TM_ALLGATHER] = {0, 131072},
	[TM_ALLGATHERV] = {512, 131072},
	[TM_ALLTOALL] = {0, 131072},
#else
	[TM_EXSCAN] = {0, ALL},
	[TM_BCAST] = {0, ALL},
	[TM_GATHER] = {0, ALL},
	[TM_SCATTER] = {0, ALL},
	[TM_ALLGATHER] = {0, ALL},
	[TM_ALLGATHERV] = {0, ALL},
	[TM_ALLTOALL] = {0, ALL},
#endif
};

#ifndef OPEN_MPI
static const struct tm_range gaps[TM_NUM_COLLS] = {
	[TM_BCAST] = {1024, 8192},     [TM_GATHER] = {1024, 8192},     [TM_SCATTER] = {1024, 8192},
	[TM_ALLGATHER] = {1024, 8192}, [TM_ALLGATHERV] = {1024, 8192}, [TM_ALLTOALL] = {4096, 8192},
};
#endif

/* The rest of an item after NAME: nothing, =MIN- or =MIN-MAX. */
static bool read_range(const char *p, const char *end, struct tm_range *range)
{
	*range = (struct tm_range){0, ALL};
	if (p == end)
		return true;
	p = tt_number_size(p + 1, &range->min);
	if (!p || *p != '-')
		return false;
	p++;
	if (p != end)
		p = tt_number_size(p, &range->max);
	return p == end && range->min <= range->max;
}

static bool report(const char *item, int len, const char *why)
{
	fprintf(stderr,
		"tutti_mpi: TUTTI_MPI_TAKE: '%.*s' %s; see tutti_mpi(7); the MPI makes all calls\n",
		len, item, why);
	return false;
}

static bool report_unknown(const char *name, int len)
{
	char word[TT_WORD_MAX + 1], why[128] = "is unknown";
	int best = len / 3 + 2, i, d;

	snprintf(word, sizeof(word), "%.*s", len, name);
	for (i = 0; len <= TT_WORD_MAX && i < TM_NUM_COLLS; i++) {
		d = tt_distance(word, tm_coll_names[i]);
		if (d >= best)
			continue;
		best = d;
		snprintf(why, sizeof(why), "is unknown (did you mean '%s'?)", tm_coll_names[i]);
	}
	return report(name, len, why);
}

/* NAME and its range; all: every collective. */
static bool read_item(const char *p, const char *end, struct tm_range *take)
{
	int len = (int)strcspn(p, "=,"), i;
	bool all = len == 3 && !memcmp(p, "all", 3), found = false;
	struct tm_range range;

	if (!len || !read_range(p + len, end, &range))
		return report(p, (int)(end - p), "is not NAME, NAME=MIN- or NAME=MIN-MAX");
	if (len == 4 && !memcmp(p, "none", 4))
		return report(p, (int)(end - p), "must stand alone");
	for (i = 0; i < TM_NUM_COLLS; i++)
		if (all || ((int)strlen(tm_coll_names[i]) == len &&
			    !memcmp(p, tm_coll_names[i], (size_t)len))) {
			take[i] = range;
			found = true;
		}
	return found || report_unknown(p, len);
}

/* Whether a call can be taken. */
static bool read_take(const char *text, struct tm_range *take)
{
	const char *end;
	int i;

	for (i = 0; i < TM_NUM_COLLS; i++)
		take[i] = (struct tm_range)NONE;
	if (!strcmp(text, "none"))
		return false;
	for (;; text = end + 1) {
		end = text + strcspn(text, ",");
		if (!read_item(text, end, take))
			return false;
		if (!*end)
			return true;
	}
}

void tm_settings_read(struct tm_settings *settings)
{
	const char *take = getenv("TUTTI_MPI_TAKE"), *summary = getenv("TUTTI_MPI_SUMMARY");

	memset(settings, 0, sizeof(*settings));
	memcpy(settings->take, defaults, sizeof(defaults));
	settings->summary = summary && !strcmp(summary, "1");
	settings->any = true;
	if (take && *take)
		settings->any = read_take(take, settings->take);
#ifndef OPEN_MPI
	else
		memcpy(settings->gap, gaps, sizeof(gaps));
#endif
}
