/* SPDX-License-Identifier: BSD-3-Clause */
/* Declarations shared by the files of tutti_info. */
#ifndef TUTTI_INFO_TOOL_H
#define TUTTI_INFO_TOOL_H

#include <stdbool.h>

/* The facts of tutti_describe, in its order. */
struct fact {
	char *section, *name, *key, *value;
};

struct facts {
	struct fact *fact;
	int n;
	bool failed; /* no memory */
};

/* summary.c: the devices in use and the reasons, about 25 lines. */
void print_summary(const struct facts *facts);

#endif
