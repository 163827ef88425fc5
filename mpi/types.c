/* SPDX-License-Identifier: BSD-3-Clause */
/* Predefined datatypes and operators of MPI, and what they are in tutti. */
#include "mpi/preload.h"

#define SLOTS 512 /* a power of two, much more than there are datatypes */

#define ARITHMETIC (1u << TUTTI_SUM | 1u << TUTTI_PROD)
#define ORDERED (1u << TUTTI_MIN | 1u << TUTTI_MAX)
#define BITWISE (1u << TUTTI_BAND | 1u << TUTTI_BOR | 1u << TUTTI_BXOR)
#define LOGICAL (1u << TUTTI_LAND | 1u << TUTTI_LOR | 1u << TUTTI_LXOR)
#define INTEGER (ARITHMETIC | ORDERED | BITWISE | LOGICAL)
#define LOCATION (1u << TUTTI_MINLOC | 1u << TUTTI_MAXLOC)

static struct tm_type slots[SLOTS];
static struct {
	MPI_Op handle;
	int tutti;
} op_slots[64];

static unsigned hash(uint64_t handle, unsigned bits)
{
	return (unsigned)(handle * 0x9e3779b97f4a7c15 >> (64 - bits));
}

/* Handles are integers or pointers. */
#define HASH(handle, bits) hash((uint64_t)(uintptr_t)(handle), bits)

const struct tm_type *tm_type_of(MPI_Datatype datatype)
{
	unsigned i = HASH(datatype, 9);

	for (; slots[i].bytes; i = (i + 1) % SLOTS)
		if (slots[i].handle == datatype)
			return &slots[i];
	return NULL;
}

int tm_op_of(MPI_Op op)
{
	unsigned i = HASH(op, 6);

	for (; op_slots[i].tutti; i = (i + 1) % 64)
		if (op_slots[i].handle == op)
			return op_slots[i].tutti - 1;
	return -1;
}

/* A datatype with gaps, of another length than tutti's, or that this MPI lacks is left out. */
static void add(MPI_Datatype datatype, int tutti, unsigned ops)
{
	MPI_Aint lb, extent;
	int bytes;
	unsigned i;

	if (datatype == MPI_DATATYPE_NULL || tm_type_of(datatype))
		return;
	if (PMPI_Type_size(datatype, &bytes) || PMPI_Type_get_extent(datatype, &lb, &extent))
		return;
	if (bytes <= 0 || lb || extent != bytes)
		return;
	if (tutti >= 0 && tutti_datatype_size((enum tutti_datatype)tutti) != (size_t)bytes)
		tutti = -1;
	for (i = HASH(datatype, 9); slots[i].bytes; i = (i + 1) % SLOTS)
		;
	slots[i] = (struct tm_type){datatype, bytes, tutti, tutti < 0 ? 0 : ops};
}

static void add_op(MPI_Op op, enum tutti_op tutti)
{
	unsigned i = HASH(op, 6);

	for (; op_slots[i].tutti; i = (i + 1) % 64)
		;
	op_slots[i].handle = op;
	op_slots[i].tutti = (int)tutti + 1;
}

static void add_integers(void)
{
	int of_long = sizeof(long) == 8 ? TUTTI_INT64 : TUTTI_INT32;
	int of_ulong = sizeof(long) == 8 ? TUTTI_UINT64 : TUTTI_UINT32;

	add(MPI_SIGNED_CHAR, TUTTI_INT8, INTEGER);
	add(MPI_UNSIGNED_CHAR, TUTTI_UINT8, INTEGER);
	add(MPI_SHORT, TUTTI_INT16, INTEGER);
	add(MPI_UNSIGNED_SHORT, TUTTI_UINT16, INTEGER);
	add(MPI_INT, TUTTI_INT32, INTEGER);
	add(MPI_UNSIGNED, TUTTI_UINT32, INTEGER);
	add(MPI_LONG, of_long, INTEGER);
	add(MPI_UNSIGNED_LONG, of_ulong, INTEGER);
	add(MPI_LONG_LONG, TUTTI_INT64, INTEGER);
	add(MPI_UNSIGNED_LONG_LONG, TUTTI_UINT64, INTEGER);
	add(MPI_INT8_T, TUTTI_INT8, INTEGER);
	add(MPI_UINT8_T, TUTTI_UINT8, INTEGER);
	add(MPI_INT16_T, TUTTI_INT16, INTEGER);
	add(MPI_UINT16_T, TUTTI_UINT16, INTEGER);
	add(MPI_INT32_T, TUTTI_INT32, INTEGER);
	add(MPI_UINT32_T, TUTTI_UINT32, INTEGER);
	add(MPI_INT64_T, TUTTI_INT64, INTEGER);
	add(MPI_UINT64_T, TUTTI_UINT64, INTEGER);
	add(MPI_AINT, TUTTI_INT64, INTEGER & ~LOGICAL);
	add(MPI_OFFSET, TUTTI_INT64, INTEGER & ~LOGICAL);
	add(MPI_COUNT, TUTTI_INT64, INTEGER & ~LOGICAL);
	add(MPI_C_BOOL, TUTTI_BOOL, LOGICAL);
	add(MPI_BYTE, TUTTI_UINT8, BITWISE);
}

/* Elements that are only moved, and those of Fortran. */
static void add_others(void)
{
	add(MPI_CHAR, -1, 0);
	add(MPI_WCHAR, -1, 0);
	add(MPI_PACKED, -1, 0);
	add(MPI_LONG_DOUBLE, -1, 0);
	add(MPI_CHARACTER, -1, 0);
	add(MPI_LOGICAL, -1, 0);
	add(MPI_INTEGER, TUTTI_INT32, INTEGER & ~LOGICAL);
	add(MPI_INTEGER1, TUTTI_INT8, INTEGER & ~LOGICAL);
	add(MPI_INTEGER2, TUTTI_INT16, INTEGER & ~LOGICAL);
	add(MPI_INTEGER4, TUTTI_INT32, INTEGER & ~LOGICAL);
	add(MPI_INTEGER8, TUTTI_INT64, INTEGER & ~LOGICAL);
	add(MPI_REAL, TUTTI_FLOAT32, ARITHMETIC | ORDERED);
	add(MPI_REAL4, TUTTI_FLOAT32, ARITHMETIC | ORDERED);
	add(MPI_REAL8, TUTTI_FLOAT64, ARITHMETIC | ORDERED);
	add(MPI_DOUBLE_PRECISION, TUTTI_FLOAT64, ARITHMETIC | ORDERED);
	add(MPI_COMPLEX, TUTTI_COMPLEX64, ARITHMETIC);
	add(MPI_DOUBLE_COMPLEX, TUTTI_COMPLEX128, ARITHMETIC);
	add(MPI_COMPLEX8, TUTTI_COMPLEX64, ARITHMETIC);
	add(MPI_COMPLEX16, TUTTI_COMPLEX128, ARITHMETIC);
	add(MPI_2INTEGER, TUTTI_INT32_INDEX, LOCATION);
}

void tm_types_start(void)
{
	add_integers();
	add(MPI_FLOAT, TUTTI_FLOAT32, ARITHMETIC | ORDERED);
	add(MPI_DOUBLE, TUTTI_FLOAT64, ARITHMETIC | ORDERED);
	add(MPI_C_FLOAT_COMPLEX, TUTTI_COMPLEX64, ARITHMETIC);
	add(MPI_C_DOUBLE_COMPLEX, TUTTI_COMPLEX128, ARITHMETIC);
	add(MPI_2INT, TUTTI_INT32_INDEX, LOCATION);
	add(MPI_FLOAT_INT, TUTTI_FLOAT32_INDEX, LOCATION);
	add_others();
	add_op(MPI_SUM, TUTTI_SUM);
	add_op(MPI_PROD, TUTTI_PROD);
	add_op(MPI_MIN, TUTTI_MIN);
	add_op(MPI_MAX, TUTTI_MAX);
	add_op(MPI_BAND, TUTTI_BAND);
	add_op(MPI_BOR, TUTTI_BOR);
	add_op(MPI_BXOR, TUTTI_BXOR);
	add_op(MPI_LAND, TUTTI_LAND);
	add_op(MPI_LOR, TUTTI_LOR);
	add_op(MPI_LXOR, TUTTI_LXOR);
	add_op(MPI_MINLOC, TUTTI_MINLOC);
	add_op(MPI_MAXLOC, TUTTI_MAXLOC);
}
