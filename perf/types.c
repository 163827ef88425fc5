/* SPDX-License-Identifier: BSD-3-Clause */
/* Names of datatypes and operations, as nccl-tests prints and takes them. */
#include "perf/perf.h"

#include <string.h>

const char *const perf_type_names[] = {
	"int8",	       "uint8",	      "int16",	       "uint16",	"int32",
	"uint32",      "int64",	      "uint64",	       "bool",		"half",
	"bfloat16",    "float",	      "double",	       "complex64",	"complex128",
	"int32_index", "int64_index", "float32_index", "float64_index", NULL};
const char *const perf_op_names[] = {"sum",  "prod", "min", "max",  "avg",    "band",	"bor",
				     "bxor", "land", "lor", "lxor", "minloc", "maxloc", NULL};

const char *const perf_atomic_names[] = {"fetch_add", "compare_swap", NULL};

_Static_assert(sizeof(perf_type_names) / sizeof(char *) == TUTTI_NUM_DATATYPES + 1,
	       "a name for every datatype");
_Static_assert(sizeof(perf_op_names) / sizeof(char *) == TUTTI_NUM_OPS + 1,
	       "a name for every operation");

/* Other names people know the types by. */
static const struct {
	const char *name;
	int datatype;
} aliases[] = {
	{"i8", TUTTI_INT8},	    {"u8", TUTTI_UINT8},	{"i16", TUTTI_INT16},
	{"u16", TUTTI_UINT16},	    {"i32", TUTTI_INT32},	{"u32", TUTTI_UINT32},
	{"i64", TUTTI_INT64},	    {"u64", TUTTI_UINT64},	{"f16", TUTTI_FLOAT16},
	{"fp16", TUTTI_FLOAT16},    {"float16", TUTTI_FLOAT16}, {"bf16", TUTTI_BFLOAT16},
	{"f32", TUTTI_FLOAT32},	    {"float32", TUTTI_FLOAT32}, {"f64", TUTTI_FLOAT64},
	{"float64", TUTTI_FLOAT64},
};

int perf_name_find(const char *name, const char *const *names)
{
	int i;

	for (i = 0; names[i]; i++)
		if (!strcmp(name, names[i]))
			return i;
	return -1;
}

const char *perf_type_name(int datatype)
{
	return perf_type_names[datatype];
}

const char *perf_op_name(int op)
{
	return perf_op_names[op];
}

int perf_type_find(const char *name)
{
	unsigned int i;

	for (i = 0; i < sizeof(aliases) / sizeof(aliases[0]); i++)
		if (!strcmp(name, aliases[i].name))
			return aliases[i].datatype;
	return perf_name_find(name, perf_type_names);
}

bool perf_type_averages(int datatype)
{
	return datatype == TUTTI_FLOAT16 || datatype == TUTTI_BFLOAT16 ||
	       datatype == TUTTI_FLOAT32 || datatype == TUTTI_FLOAT64;
}

bool perf_op_fits(int datatype, int op)
{
	bool logical = op == TUTTI_LAND || op == TUTTI_LOR || op == TUTTI_LXOR;
	bool index = op == TUTTI_MINLOC || op == TUTTI_MAXLOC;

	switch (datatype) {
	case TUTTI_FLOAT16:
	case TUTTI_BFLOAT16:
	case TUTTI_FLOAT32:
	case TUTTI_FLOAT64:
		return op <= TUTTI_AVG;
	case TUTTI_COMPLEX64:
	case TUTTI_COMPLEX128:
		return op == TUTTI_SUM || op == TUTTI_PROD || op == TUTTI_AVG;
	case TUTTI_BOOL:
		return logical;
	case TUTTI_INT32_INDEX:
	case TUTTI_INT64_INDEX:
	case TUTTI_FLOAT32_INDEX:
	case TUTTI_FLOAT64_INDEX:
		return index;
	default:
		return !index;
	}
}
