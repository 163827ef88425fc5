/* SPDX-License-Identifier: BSD-3-Clause */
/* The command lines of train_digits and train_elastic. */
#ifndef TRAIN_OPTIONS_H
#define TRAIN_OPTIONS_H

#include <stdint.h>

#include "examples/coded_sum.h"

struct train_options {
	int epochs, batch, hidden;
	double rate, momentum;
	uint64_t seed;
	const char *data, *csv;
	struct coding coding; /* of gradients */
	int quiet;
	int advise; /* train_digits': without the codec first, for comparison */
	/* train_elastic's */
	const char *kill; /* RANK:STEP,... */
	int wait_ms;	  /* for new ranks */
};

struct train_program {
	const char *name, *help;
	int common; /* the first of the options that it knows; those before are train_elastic's */
	int fixed;  /* its ranks do not change: it knows --advise and --power-sgd */
};

extern const struct train_program train_digits_program, train_elastic_program;

/*
 * Read the options into *opt, over the defaults. 0: run; 1: --help or --version, printed; -1:
 * wrong, and said so. Of several ranks one prints.
 */
int train_options(struct train_options *opt, const struct train_program *program, int argc,
		  char **argv);
/* 0; -1: some of what was printed could not be written, and that was said. */
int train_flush(const struct train_program *program);

#endif
