/* SPDX-License-Identifier: BSD-3-Clause */
/* Sizes and names of datatypes and operators. */
#include "lib/base/datatype.h"

#include <stdio.h>

size_t tutti_datatype_size(enum tutti_datatype datatype)
{
	static const unsigned char size[TUTTI_NUM_DATATYPES] = {1, 1, 2, 2, 4,	4, 8,  8, 1, 2,
								2, 4, 8, 8, 16, 8, 16, 8, 16};
	size_t bytes = (size_t)datatype & ~(size_t)TUTTI_OPAQUE_FLAG;

	if ((unsigned)datatype < TUTTI_NUM_DATATYPES)
		return size[datatype];
	return datatype > TUTTI_OPAQUE_FLAG && bytes <= TUTTI_OPAQUE_MAX ? bytes : 0;
}

const char *tt_datatype_name(enum tutti_datatype datatype)
{
	static const char *const names[] = {
		"int8",	       "uint8",	      "int16",	       "uint16",	"int32",
		"uint32",      "int64",	      "uint64",	       "bool",		"float16",
		"bfloat16",    "float32",     "float64",       "complex64",	"complex128",
		"int32_index", "int64_index", "float32_index", "float64_index",
	};

	if (tutti_datatype_size(datatype) && datatype > TUTTI_OPAQUE_FLAG)
		return "opaque";
	return (unsigned)datatype < TUTTI_NUM_DATATYPES ? names[datatype] : "invalid";
}

const char *tutti_datatype_name(enum tutti_datatype datatype)
{
	return tt_datatype_name(datatype);
}

void tt_datatype_text(enum tutti_datatype datatype, char *buf, size_t size)
{
	if (datatype > TUTTI_OPAQUE_FLAG && tutti_datatype_size(datatype))
		snprintf(buf, size, "opaque of %zu bytes", tutti_datatype_size(datatype));
	else
		snprintf(buf, size, "%s", tt_datatype_name(datatype));
}

const char *tt_op_name(enum tutti_op op)
{
	static const char *const names[] = {"sum",  "prod", "min", "max",  "avg",    "band",  "bor",
					    "bxor", "land", "lor", "lxor", "minloc", "maxloc"};

	return (unsigned)op < TUTTI_NUM_OPS ? names[op] : "invalid";
}
