/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tutti_perf measures the speed of the library and checks its results. The columns are those of
 * nccl-tests and perftest. This file joins the job, prints the participants, runs the chosen
 * measurement and sums up.
 */
#include "perf/perf.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/cli.h"
#include "tools/graphs.h"

#define MOST_LISTED 64

int perf_call_failed(struct perf *perf, const char *call, int err)
{
	struct tutti_error_info info = {.size = sizeof(info)};

	perf_progress_clear();
	if (tutti_last_error(&info) || info.code != err)
		snprintf(info.text, sizeof(info.text), "%s", tutti_strerror(err));
	fprintf(stderr, "tutti_perf: rank %d: %s: %s\n", perf->rank, call, info.text);
	return err;
}

int perf_agree(struct perf *perf, double *value, enum tutti_op op)
{
	int err = tutti_allreduce(TUTTI_IN_PLACE, value, 1, TUTTI_FLOAT64, op, perf->world);

	return err ? perf_call_failed(perf, "allreduce", err) : 0;
}

int perf_agree_found(struct perf *perf, double *wrong, double bounds)
{
	double found[2] = {*wrong, bounds};
	int err = tutti_allreduce(TUTTI_IN_PLACE, found, 2, TUTTI_FLOAT64, TUTTI_SUM, perf->world);

	if (err)
		return perf_call_failed(perf, "allreduce", err);
	*wrong = found[0];
	perf->totals.wrong += (uint64_t)found[0];
	perf->totals.out_of_bounds += (uint64_t)found[1];
	return 0;
}

void perf_print(const struct perf *perf, const char *fmt, ...)
{
	va_list ap;

	if (perf->rank)
		return;
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	fflush(stdout);
}

static int join(struct perf *perf)
{
	struct tutti_error_info info = {.size = sizeof(info)};
	struct tutti_comm *host;
	int err;

	if (perf->opt.transport && setenv("TUTTI_TRANSPORT", perf->opt.transport, 1))
		return -errno;
	err = tutti_init(NULL, &perf->ctx);
	if (err) {
		if (tutti_last_error(&info))
			snprintf(info.text, sizeof(info.text), "%s", tutti_strerror(err));
		fprintf(stderr, "tutti_perf: cannot join the job: %s\n", info.text);
		return err;
	}
	perf->world = tutti_world(perf->ctx);
	perf->rank = tutti_comm_rank(perf->world);
	perf->nranks = tutti_comm_size(perf->world);
	err = tutti_comm_split_host(perf->world, 0, &host);
	if (err)
		return perf_call_failed(perf, "comm_split_host", err);
	perf->local_ranks = tutti_comm_size(host);
	return tutti_comm_free(host);
}

static int check_partial(const struct perf *perf)
{
	const struct perf_options *opt = &perf->opt;
	int n = perf->nranks;

	if (opt->quorum > n && !perf->rank)
		fprintf(stderr, "tutti_perf: --quorum %d is more than the %d ranks of this job\n",
			opt->quorum, n);
	else if (opt->late_us && opt->late_rank >= n && !perf->rank)
		fprintf(stderr, "tutti_perf: --late: %d is not a rank of this job (0 to %d)\n",
			opt->late_rank, n - 1);
	return opt->quorum > n || (opt->late_us && opt->late_rank >= n) ? -EINVAL : 0;
}

/* Checks options that depend on the job's size. */
static int check_ranks(const struct perf *perf)
{
	const struct perf_options *opt = &perf->opt;

	if (perf->nranks < opt->cmd->min_ranks) {
		if (!perf->rank)
			fprintf(stderr,
				"tutti_perf: %s needs %d ranks: tutti_run -n %d tutti_perf %s\n",
				opt->cmd->name, opt->cmd->min_ranks, opt->cmd->min_ranks,
				opt->cmd->name);
		return -EINVAL;
	}
	if (opt->cmd->uses & PERF_USE_ROOT && opt->root >= perf->nranks) {
		if (!perf->rank)
			fprintf(stderr,
				"tutti_perf: --root %d is not a rank of this job (0 to %d)\n",
				opt->root, perf->nranks - 1);
		return -EINVAL;
	}
	return check_partial(perf);
}

static int list_ranks(struct perf *perf)
{
	struct {
		char host[64];
		int64_t pid;
	} who;
	int rank, err;

	if (perf->nranks > MOST_LISTED)
		return 0;
	perf_print(perf, "# Using ranks\n");
	for (rank = 0; rank < perf->nranks; rank++) {
		memset(&who, 0, sizeof(who));
		gethostname(who.host, sizeof(who.host) - 1);
		who.pid = getpid();
		err = tutti_bcast(&who, sizeof(who), TUTTI_UINT8, rank, perf->world);
		if (err)
			return perf_call_failed(perf, "bcast", err);
		perf_print(perf, "#  Rank %2d Pid %6lld on %s\n", rank, (long long)who.pid,
			   who.host);
	}
	return 0;
}

static int preamble(struct perf *perf)
{
	const struct perf_options *opt = &perf->opt;
	char step[64], settings[128];

	if (opt->stepfactor)
		snprintf(step, sizeof(step), "%g(factor)", opt->stepfactor);
	else
		snprintf(step, sizeof(step), "%zu(bytes)", opt->stepbytes);
	perf_print(perf, "# tutti_perf %s %s nRanks %d", tutti_version(), opt->cmd->name,
		   perf->nranks);
	if (opt->cmd->uses & PERF_USE_SIZE)
		perf_print(perf, " minBytes %zu maxBytes %zu step: %s", opt->minbytes,
			   opt->maxbytes, step);
	if (opt->cmd->uses & PERF_USE_GRAPH)
		perf_print(perf, " graph: %s", cli_graph_names[opt->graph]);
	if (opt->cmd->uses & PERF_USE_ALPHA)
		perf_print(perf, " alpha: %g", perf_elastic_alpha(perf));
	if (opt->cmd->uses & PERF_USE_PARTIAL) {
		perf_partial_settings(perf, settings, sizeof(settings));
		perf_print(perf, " %s", settings);
	}
	perf_print(perf, " warmup iters: %d iters: %d validation: %d buffers: %s\n#\n", opt->warmup,
		   opt->iters, opt->check, opt->plain_buffers ? "malloc" : "tutti_alloc");
	return list_ranks(perf);
}

static void footer(const struct perf *perf)
{
	const struct perf_totals *totals = &perf->totals;
	uint64_t errors = totals->wrong + totals->out_of_bounds;

	if (!(perf->opt.cmd->uses & PERF_USE_SIZE) && !errors)
		return;
	perf_print(perf, "# Out of bounds values : %llu %s\n", (unsigned long long)errors,
		   errors ? "FAILED" : "OK");
	if (totals->busbw_count)
		perf_print(perf, "# Avg bus bandwidth    : %g\n#\n",
			   totals->busbw_sum / (double)totals->busbw_count);
}

static int run(struct perf *perf)
{
	int err;

	err = check_ranks(perf);
	if (!err)
		err = perf_files_open(perf);
	if (!err)
		err = preamble(perf);
	if (err)
		return err;
	perf_print(perf, "#\n");
	perf_progress_init(perf);
	err = perf->opt.cmd->run(perf);
	perf_progress_clear();
	if (err)
		return err;
	footer(perf);
	return perf->rank ? 0 : perf_files_write(perf);
}

int main(int argc, char **argv)
{
	static struct perf perf;
	int err, end;

	err = perf_options_parse(&perf.opt, argc, argv);
	if (err == PERF_DONE)
		return cli_flush("tutti_perf") ? PERF_FAILED : PERF_OK;
	if (err)
		return PERF_USAGE;
	err = join(&perf);
	if (err)
		return PERF_FAILED;
	err = run(&perf);
	end = tutti_finalize(perf.ctx);
	if (end && !err)
		err = perf_call_failed(&perf, "finalize", end);
	if (!perf.rank && !err)
		err = perf_plot(&perf);
	perf_table_free(&perf.table);
	if (cli_flush("tutti_perf"))
		err = -EIO;
	return err || perf.totals.wrong || perf.totals.out_of_bounds ? PERF_FAILED : PERF_OK;
}
