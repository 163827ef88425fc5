/* SPDX-License-Identifier: BSD-3-Clause */
/* Names of datatypes and operators. */
#ifndef TT_DATATYPE_H
#define TT_DATATYPE_H

#include <tutti/coll.h>

const char *tt_datatype_name(enum tutti_datatype datatype); /* "float32", "opaque" */
/* The name, and of an opaque one its size. */
void tt_datatype_text(enum tutti_datatype datatype, char *buf, size_t size);
const char *tt_op_name(enum tutti_op op); /* "sum" */

#endif
