/* SPDX-License-Identifier: BSD-3-Clause */
/* The command line of train_digits. */
#ifndef TRAIN_OPTIONS_H
#define TRAIN_OPTIONS_H

#include <stdint.h>

struct train_options {
	int epochs, batch, hidden;
	double rate, momentum;
	uint64_t seed;
	const char *data, *csv;
	int quiet;
};

enum train_parsed { TRAIN_RUN, TRAIN_HELP, TRAIN_VERSION, TRAIN_WRONG };

/*
 * Read the options into *opt, over the defaults. TRAIN_WRONG: message (at most size bytes) says
 * what is wrong.
 */
enum train_parsed train_options_parse(struct train_options *opt, int argc, char **argv,
				      char *message, int size);
extern const char train_help[];

#endif
