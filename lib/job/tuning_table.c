/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The tuning table. Rank 0 reads it before it joins, and its card says whether there is one. If it
 * cannot read the table of TUTTI_TUNE_FILE, no rank starts. The
 * part about the job's hosts is broadcast over the world, which is then equipped anew: all ranks
 * have the same table, or all fail.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/job/job.h"

int tt_tune_read(struct tutti_context *ctx, struct tt_tunes *tunes)
{
	const char *file = ctx->env.tune_file.text;
	char path[4096], why[sizeof(((struct tutti_error_info *)0)->text)];
	int err;

	*tunes = (struct tt_tunes){0};
	if (ctx->boot_params.rank)
		return TT_TUNE_NONE;
	err = tt_tune_path(file, path, sizeof(path));
	if (!err && !path[0])
		return TT_TUNE_NONE;
	if (!err)
		err = tt_tunes_load(path, tunes);
	if (!err)
		return TT_TUNE_READ;
	if (*file) {
		snprintf(why, sizeof(why), "%s", tt_fail_text(err));
		return tt_fail(err, "TUTTI_TUNE_FILE: %s", why);
	}
	if (err != -ENOENT)
		tt_warn("%s; the defaults are used", tt_fail_text(err));
	return TT_TUNE_NONE;
}

int tt_tune_job_hosts(struct tutti_context *ctx, char *hosts, size_t size)
{
	int n = ctx->boot_params.nranks, i, k, nhosts = 0, err;
	uint64_t *keys = malloc((size_t)n * sizeof(*keys));
	const char **names = malloc((size_t)n * sizeof(*names));

	for (i = 0; keys && names && i < n; i++) {
		keys[nhosts] = tt_wire_host_key(ctx->wire, i);
		for (k = 0; keys[k] != keys[nhosts]; k++)
			;
		if (k == nhosts)
			names[nhosts++] = tt_boot_host(ctx->boot, i);
	}
	err = keys && names ? tt_tune_hosts(names, nhosts, hosts, size)
			    : tt_fail(-ENOMEM, "no memory for the names of %d hosts", n);
	free(keys);
	free(names);
	return err;
}

/* Rank 0: the table of these hosts. NULL: none; warns if TUTTI_TUNE_FILE asked for one. */
static const struct tt_tune *find(struct tutti_context *ctx, const struct tt_tunes *tunes)
{
	const char *file = ctx->env.tune_file.text;
	const struct tt_tune *tune = NULL;
	char hosts[TT_TUNE_HOSTS];

	if (!tt_tune_job_hosts(ctx, hosts, sizeof(hosts)))
		tune = tt_tunes_find(tunes, hosts, ctx->boot_params.nranks);
	if (tune)
		tt_info("tuning table of hosts %s, %d ranks, with %d times", tune->hosts,
			tune->nranks, tune->npoints);
	else if (*file)
		tt_warn("TUTTI_TUNE_FILE: %s has no table of hosts %s, only of %s; the defaults "
			"are "
			"used",
			file, hosts, tunes->n ? tunes->tune[0]->hosts : "none");
	return tune;
}

/* From rank 0 to all: the length, then the table. */
static int broadcast(struct tutti_context *ctx, const struct tt_tune *mine, struct tt_tune **out)
{
	uint64_t len = mine ? tt_tune_bytes(mine) : 0;
	struct tt_tune *tune;
	int err;

	*out = NULL;
	err = tutti_bcast(&len, sizeof(len), TUTTI_UINT8, 0, ctx->world);
	if (err || !len)
		return err;
	tune = malloc(len);
	if (!tune)
		return tt_fail(-ENOMEM, "no memory for the tuning table");
	if (mine)
		memcpy(tune, mine, len);
	err = tutti_bcast(tune, len, TUTTI_UINT8, 0, ctx->world);
	if (!err && (len < sizeof(*tune) || tt_tune_bytes(tune) != len))
		err = tt_fail(-EPROTO, "rank 0's tuning table of %zu bytes is damaged",
			      (size_t)len);
	if (err)
		free(tune);
	else
		*out = tune;
	return err;
}

int tt_tune_share(struct tutti_context *ctx, const struct tt_agreed *agreed,
		  const struct tt_tunes *tunes)
{
	int err;

	if (agreed->tune == TT_TUNE_NONE)
		return 0;
	err = broadcast(ctx, ctx->boot_params.rank ? NULL : find(ctx, tunes), &ctx->tune);
	if (err || !ctx->tune)
		return err;
	tt_engine_measured_cache(ctx, ctx->tune->cache);
	return tt_comm_choose(ctx->world, agreed);
}
