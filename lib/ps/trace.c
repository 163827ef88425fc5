/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * TUTTI_PS_TRACE: every read, push and clock of a worker, a line each, for tutti_ps_check(1), whose manual page
 * has the format.
 */
#include <errno.h>
#include <stdarg.h>
#include <string.h>

#include "lib/ps/ps.h"

int tt_ps_trace_open(struct tutti_ps *ps, const char *prefix)
{
	char path[512];
	int n;

	if (!prefix[0] || ps->my_worker < 0)
		return 0;
	n = snprintf(path, sizeof(path), "%s.%d", prefix, ps->my_worker);
	if (n < 0 || (size_t)n >= sizeof(path))
		return tt_fail(-EINVAL, "TUTTI_PS_TRACE is longer than %zu characters",
			       sizeof(path) - 12);
	ps->trace = fopen(path, "w");
	if (!ps->trace)
		return tt_fail(-errno, "can't write the trace %s: %s", path, strerror(errno));
	setvbuf(ps->trace, NULL, _IOLBF, 0); /* of a worker that is killed, all up to then is there */
	fprintf(ps->trace, "tutti_ps_trace 1\nworker %d of %d, staleness %d\n", ps->my_worker,
		ps->nworkers, ps->staleness);
	return 0;
}

void tt_ps_trace_close(struct tutti_ps *ps)
{
	if (!ps->trace)
		return;
	if (ferror(ps->trace) | fclose(ps->trace))
		tt_err("the trace of worker %d could not be written", ps->my_worker);
	ps->trace = NULL;
}

void tt_ps_trace(struct tutti_ps *ps, const char *fmt, ...)
{
	va_list ap;

	if (!ps->trace)
		return;
	va_start(ap, fmt);
	vfprintf(ps->trace, fmt, ap);
	va_end(ap);
}
