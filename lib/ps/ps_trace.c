/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * TUTTI_PS_TRACE: every read, push and clock of a worker, a line each, for tutti_ps_check(1),
 * whose manual page has the format.
 */
#include <errno.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/clock.h"
#include "lib/ps/ps.h"

static int name(const struct tutti_ps *ps, const char *prefix, char *path, size_t size)
{
	int n = snprintf(path, size, "%s.%d", prefix, tt_ps_trace_id(ps, ps->my_worker));

	return n < 0 || (size_t)n >= size
		       ? tt_fail(-EINVAL, "TUTTI_PS_TRACE is longer than %zu characters", size - 12)
		       : 0;
}

int tt_ps_trace_open(struct tutti_ps *ps, const char *prefix)
{
	char path[512];
	int err;

	if (!ps->trace_ids)
		ps->trace_ids = ps->nworkers;
	if (!prefix[0] || ps->my_worker < 0)
		return 0;
	err = name(ps, prefix, path, sizeof(path));
	if (err)
		return err;
	ps->trace = fopen(path, "w");
	if (!ps->trace)
		return tt_fail(-errno, "can't write the trace %s: %s", path, strerror(errno));
	setvbuf(ps->trace, NULL, _IOLBF,
		0); /* of a worker that is killed, all up to then is there */
	fprintf(ps->trace, "tutti_ps_trace 1\nworker %d of %d, staleness %d\n",
		tt_ps_trace_id(ps, ps->my_worker), ps->trace_ids, ps->staleness);
	return 0;
}

int tt_ps_trace_join(struct tutti_ps *ps, const char *prefix)
{
	int err = tt_ps_trace_open(ps, prefix);

	tt_ps_trace(ps, "join %llu %llu\n", (unsigned long long)ps->clock,
		    (unsigned long long)tt_now_ns());
	return err;
}

void tt_ps_trace_undo(struct tutti_ps *ps, const char *prefix)
{
	char path[512];

	if (!ps->trace)
		return;
	fclose(ps->trace);
	ps->trace = NULL;
	if (!name(ps, prefix, path, sizeof(path)))
		unlink(path);
}

void tt_ps_trace_on(struct tutti_ps *ps, struct tutti_ps *old)
{
	if (ps->trace)
		return;
	ps->trace = old->trace;
	old->trace = NULL;
	tt_ps_trace(ps, "resize %d %llu\n", ps->trace_ids, (unsigned long long)tt_now_ns());
}

void tt_ps_trace_close(struct tutti_ps *ps)
{
	if (!ps->trace)
		return;
	if (ferror(ps->trace) | fclose(ps->trace))
		tt_err("the trace of worker %d could not be written", ps->my_worker);
	ps->trace = NULL;
}

void tt_ps_trace_write(struct tutti_ps *ps, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vfprintf(ps->trace, fmt, ap);
	va_end(ap);
}
