/* SPDX-License-Identifier: BSD-3-Clause */
/* Cleans texts of other processes before they are shown on a terminal. */
#ifndef TUTTI_PLAIN_H
#define TUTTI_PLAIN_H

#include <jansson.h>

/* Replaces bytes that are not printable ASCII by '?' in all strings inside v. */
void plain(json_t *v);

#endif
