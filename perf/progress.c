/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shows the progress of a long run on a terminal, in a line that rewrites itself. It is written
 * between measurements only, and only when the last row is more than a second old.
 */
#include "perf/perf.h"

#include <stdio.h>
#include <unistd.h>

#define QUIET_NS 1000000000u

static struct {
	bool on, shown;
	uint64_t since;
	size_t size, row, rows;
} progress;

void perf_progress_init(struct perf *perf)
{
	progress.on = perf->rank == 0 && isatty(STDERR_FILENO);
	progress.rows = perf->opt.cmd->uses & PERF_USE_SIZE ? perf_size_count(&perf->opt) : 1;
	progress.since = perf_now_ns();
}

void perf_progress_row(struct perf *perf, size_t size)
{
	progress.size = size;
	progress.row++;
}

void perf_progress(struct perf *perf, const char *phase)
{
	if (!progress.on || perf_now_ns() - progress.since < QUIET_NS)
		return;
	fprintf(stderr, "\r\033[K# %s: %zu bytes, size %zu of %zu, %s ", perf->opt.cmd->name,
		progress.size, progress.rows ? (progress.row - 1) % progress.rows + 1 : 1,
		progress.rows, phase);
	fflush(stderr);
	progress.shown = true;
}

void perf_progress_clear(void)
{
	if (progress.shown)
		fprintf(stderr, "\r\033[K");
	progress.shown = false;
	progress.since = perf_now_ns();
}
