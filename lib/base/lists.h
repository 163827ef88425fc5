/* SPDX-License-Identifier: BSD-3-Clause */
/* Variables whose values are lists of words, checked also where nothing uses them. */
#ifndef TT_LISTS_H
#define TT_LISTS_H

#include <stdbool.h>
#include <stddef.h>

struct tt_env;

/* TUTTI_VERBS_MASK, parsed. */
struct tt_verbs_mask {
	bool imm, atomic, placed, srq, resize; /* disabled */
	int inline_most;		       /* INT_MAX: not given */
	int subnet;			       /* -1: not given */
};

/*
 * 0, or -EINVAL with a text that names the variable: a comma too many, a word that is given twice,
 * or more than most entries.
 */
int tt_list_check(const char *variable, const char *list, int most);
int tt_verbs_mask_parse(const char *list, struct tt_verbs_mask *mask);
/*
 * The first entry of TUTTI_VERBS_DEVICE as name and port, 0: all ports. Returns its length, 0: it
 * is malformed.
 */
size_t tt_verbs_port_parse(const char *list, char name[32], long *port);
/* TUTTI_VERBS_DEVICE and TUTTI_VERBS_MASK. */
int tt_lists_check(const struct tt_env *env);

#endif
