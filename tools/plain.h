/* SPDX-License-Identifier: BSD-3-Clause */
/* Cleans texts of other processes before they are shown on a terminal. */
#ifndef TUTTI_PLAIN_H
#define TUTTI_PLAIN_H

#include <jansson.h>

/* In all strings inside v, what is not printable ASCII becomes '?'. */
void plain(json_t *v);

#endif
