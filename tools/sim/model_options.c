/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads the options that describe the cluster. */
#include "tools/sim/model_options.h"

#include <math.h>
#include <string.h>

#include "tools/values.h"

/* LEAF[,FAR[,HOST]] */
static int parse_alpha(struct tt_model *m, char *text)
{
	double v[3];
	int n;

	if (cli_numbers("--alpha", text, ",", 0, 1e9, v, 3, &n))
		return -1;
	m->link[TT_LEVEL_LEAF].alpha = v[0] * 1e3;
	m->link[TT_LEVEL_FAR].alpha = (n > 1 ? v[1] : 1.5 * v[0]) * 1e3;
	if (n > 2)
		m->link[TT_LEVEL_HOST].alpha = v[2] * 1e3;
	return 0;
}

static int parse_bw(struct tt_model *m, char *text)
{
	double v[3];
	int n;

	if (cli_numbers("--bw", text, ",", 1e-6, 1e6, v, 3, &n))
		return -1;
	m->link[TT_LEVEL_LEAF].beta = 1 / v[0];
	m->link[TT_LEVEL_FAR].beta = 1 / (n > 1 ? v[1] : v[0]);
	if (n > 2)
		m->link[TT_LEVEL_HOST].beta = 1 / v[2];
	return 0;
}

static int parse_straggler(struct tt_model *m, char *text)
{
	double v[3] = {0, 0, 1};
	int n;

	if (cli_numbers("--straggler", text, ":", 0, 1e9, v, 3, &n))
		return -1;
	if (n < 2 || v[2] < 1)
		return cli_fail("--straggler: RANK:DELAY_US[:FACTOR], the factor at least 1");
	if (v[0] != floor(v[0]))
		return cli_fail("--straggler: a rank is a whole number, not %g", v[0]);
	m->straggler = (int)v[0];
	m->straggler_delay = v[1] * 1e3;
	m->straggler_factor = v[2];
	return 0;
}

/* One speed, or those of encoding and decoding. */
static int parse_coding(struct tt_model *m, char *text)
{
	double v[2] = {0, 0};
	int n;

	if (cli_numbers("--coding", text, ",", 1e-6, 1e6, v, 2, &n))
		return -1;
	m->encode = 1 / v[0];
	m->decode = 1 / (n > 1 ? v[1] : v[0]);
	return 0;
}

int sim_model_option(struct tt_model *m, int c, char *arg)
{
	double v = 0;
	int err;

	switch (c) {
	case OPT_ALPHA:
		return parse_alpha(m, arg);
	case OPT_BW:
		return parse_bw(m, arg);
	case OPT_GAMMA:
		err = cli_number("--gamma", arg, 1e-6, 1e6, &v);
		m->gamma = 1 / v;
		return err;
	case OPT_CODING:
		return parse_coding(m, arg);
	case OPT_OVERHEAD:
		err = cli_number("--overhead", arg, 0, 1e9, &v);
		m->overhead = v * 1e3;
		return err;
	case OPT_EAGER:
		m->eager = SIZE_MAX;
		return strcmp(arg, "inf") ? cli_bytes("--eager", arg, 0, MAX_BYTES, &m->eager) : 0;
	case OPT_BUFFER:
		return cli_bytes("--buffer", arg, 0, MAX_BYTES, &m->buffer);
	case OPT_RANKS_PER_HOST:
		return cli_integer("--ranks-per-host", arg, 1, MAX_RANKS, &m->ranks_per_host);
	case OPT_HOSTS_PER_LEAF:
		return cli_integer("--hosts-per-leaf", arg, 1, MAX_RANKS, &m->hosts_per_leaf);
	case OPT_RAILS:
		return cli_integer("--rails", arg, 1, 64, &m->rails);
	case OPT_CORES:
		return cli_integer("--cores", arg, 1, 4096, &m->cores);
	case OPT_OVERSUB:
		return cli_number("--oversub", arg, 1, 1000, &m->oversub);
	case OPT_STRAGGLER:
		return parse_straggler(m, arg);
	case OPT_JITTER:
		err = cli_number("--jitter", arg, 0, 1e9, &v);
		m->jitter = v * 1e3;
		return err;
	default: /* OPT_SEED */
		err = cli_number("--seed", arg, 0, 9e15, &v);
		m->seed = (uint64_t)v;
		return err || v == floor(v) ? err
					    : cli_fail("--seed: a whole number, not '%s'", arg);
	}
}
