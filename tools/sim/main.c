/* SPDX-License-Identifier: BSD-3-Clause */
/* tutti_sim: the plans of the library on clusters that are not there. */
#include <stdarg.h>
#include <stdlib.h>

#include "tools/sim/sim.h"

int sim_fail(const char *fmt, ...)
{
	va_list ap;

	fflush(stdout);
	fprintf(stderr, PROG ": ");
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
	return -1;
}

static int simulate(const struct options *opt)
{
	struct points points = {0};
	int err = sim_run(opt, &points);

	if (!err)
		sim_print_crossovers(&points);
	if (!err && opt->csv)
		err = sim_write_csv(&points, opt->csv);
	if (!err && opt->json)
		err = sim_write_json(opt, &points, opt->json);
	if (!err && opt->plot)
		err = sim_plot(opt, &points);
	free(points.p);
	return err;
}

int main(int argc, char **argv)
{
	struct options opt;
	int err = sim_parse(&opt, argc, argv);

	if (err)
		return err < 0;
	err = opt.table ? sim_table(&opt) : simulate(&opt);
	if (fflush(stdout) || ferror(stdout))
		err = sim_fail("cannot write to standard output");
	return err != 0;
}
