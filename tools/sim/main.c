/* SPDX-License-Identifier: BSD-3-Clause */
/* tutti_sim: runs the library's plans and pipelines on simulated clusters. */
#include <stdlib.h>
#include <string.h>

#include "tools/cli.h"
#include "tools/sim/pipeline.h"
#include "tools/sim/sim.h"
#include "tools/values.h"

const char cli_prog[] = "tutti_sim";

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
	int err;

	if (argc > 1 && !strcmp(argv[1], "pipeline"))
		return sim_pipeline(argc - 1, argv + 1);
	err = sim_parse(&opt, argc, argv);
	if (err)
		return cli_end_parsing(cli_prog, err);
	err = opt.table ? sim_table(&opt) : opt.steps.delay > 0 ? sim_steps(&opt) : simulate(&opt);
	return cli_end(cli_prog, err);
}
