/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tuning tables, as tutti_tune writes them: for a set of hosts, the cost of messages over each
 * transport, and the time of each algorithm. A file has one table per set of hosts and number of
 * ranks. The format is JSON; tutti_tune(1) describes it.
 */
#ifndef TT_TUNE_H
#define TT_TUNE_H

#include "lib/plan/choose.h"

#define TT_TUNE_HOSTS 4096 /* most characters of a set of hosts */
#define TT_TUNE_LINKS 8
#define TT_TUNE_POINTS 8192

/* In one piece, so that it can be sent as it is. */
struct tt_tune {
	char hosts[TT_TUNE_HOSTS]; /* their names, sorted, with commas; one that occurs twice is
				      twice */
	int nhosts, nranks;
	double gamma, copy; /* ns per byte; 0: not measured */
	size_t cache;	    /* bytes of the last-level cache, as all-reduces find it; 0: likewise */
	int nlinks[2];	    /* inside a host, between hosts */
	struct tt_link_costs links[2][TT_TUNE_LINKS];
	int npoints;
	struct tt_point points[];
};
size_t tt_tune_bytes(const struct tt_tune *tune);

struct tt_tunes {
	struct tt_tune **tune;
	int n;
};

/*
 * 0, then tunes must be freed; -ENOENT: no such file; -EINVAL: the text has the error and its
 * place.
 */
int tt_tunes_load(const char *path, struct tt_tunes *tunes);
void tt_tunes_free(struct tt_tunes *tunes);
/* Takes tune over, in the place of one of the same hosts and ranks. */
int tt_tunes_put(struct tt_tunes *tunes, struct tt_tune *tune);
/* Writes all, or nothing: a new file takes the place of the old one. */
int tt_tunes_save(const char *path, const struct tt_tunes *tunes);
/* The table of these hosts, preferably for this number of ranks; NULL: none. */
const struct tt_tune *tt_tunes_find(const struct tt_tunes *tunes, const char *hosts, int nranks);
/* "a,b" of n names, which are sorted; -EINVAL: too long. */
int tt_tune_hosts(const char **names, int n, char *hosts, size_t size);

/* Adds a point to a table under construction; NULL: no memory, or too many. */
struct tt_tune *tt_tune_add(struct tt_tune *tune, const struct tt_point *point);
/* Message costs of a transport, inside a host or between hosts; measured or default. */
const struct tt_link_costs *tt_tune_link(const struct tt_tune *tune, bool between,
					 const char *transport);
/* A chooser by the table, which may be NULL, for a communicator of nranks so placed. */
struct tt_chooser_params {
	const char *rules;
	size_t chunk;
	int lanes, nranks;
	struct tt_layout layout;
	const char *inside, *between; /* transports */
	const struct tt_tune *tune;
};
/* The model by which it chooses, but for NUMA nodes. */
void tt_model_by_table(const struct tt_chooser_params *p, struct tt_model *model);
int tt_chooser_by_table(const struct tt_chooser_params *p, struct tt_chooser **chooser);
/*
 * The path that TUTTI_TUNE_FILE means: its value, the user's own file if it is "", none if "none".
 */
int tt_tune_path(const char *value, char *path, size_t size);

#endif
