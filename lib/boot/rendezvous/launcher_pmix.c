/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * PMIx: Open MPI's mpirun, PRRTE, and srun --mpi=pmix. libpmix is loaded when it is needed. Its
 * binary interface is standardized (PMIx ABI), so the few types used are declared here, and the
 * build needs no package.
 */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/library.h"
#include "lib/boot/rendezvous/launcher_kvs.h"

#define PMIX_SUCCESS 0
#define PMIX_GLOBAL 3
#define PMIX_BOOL 1
#define PMIX_STRING 3
#define PMIX_UINT32 14
#define PMIX_RANK_WILDCARD (UINT32_MAX - 1)

struct pmix_proc {
	char nspace[256];
	uint32_t rank;
};

struct pmix_value {
	uint16_t type;
	union {
		bool flag;
		char *string;
		uint32_t uint32;
		char room[24];
	} data;
};

struct pmix_info {
	char key[512];
	uint32_t flags;
	struct pmix_value value;
};

_Static_assert(sizeof(struct pmix_proc) == 260 && sizeof(struct pmix_value) == 32 &&
		       sizeof(struct pmix_info) == 552,
	       "the sizes of the PMIx ABI");

static struct {
	int (*init)(struct pmix_proc *, struct pmix_info *, size_t);
	int (*finalize)(const struct pmix_info *, size_t);
	int (*put)(uint8_t scope, const char *key, struct pmix_value *);
	int (*commit)(void);
	int (*fence)(const struct pmix_proc *, size_t, const struct pmix_info *, size_t);
	int (*get)(const struct pmix_proc *, const char *key, const struct pmix_info *, size_t,
		   struct pmix_value **);
	const char *(*error_string)(int);
} pmix;

static struct pmix_proc self;

static int load(void)
{
	static const struct tt_symbol symbols[] = {
		{"PMIx_Init", NULL, &pmix.init},
		{"PMIx_Finalize", NULL, &pmix.finalize},
		{"PMIx_Put", NULL, &pmix.put},
		{"PMIx_Commit", NULL, &pmix.commit},
		{"PMIx_Fence", NULL, &pmix.fence},
		{"PMIx_Get", NULL, &pmix.get},
		{"PMIx_Error_string", NULL, &pmix.error_string},
	};
	static const struct tt_library library = {"libpmix.so.2", "libpmix2", symbols,
						  sizeof(symbols) / sizeof(symbols[0])};

	return tt_library_load(&library);
}

static int done(const char *what, int status)
{
	return status == PMIX_SUCCESS ? 0
				      : tt_fail(-TUTTI_EBOOT, "the launcher's PMIx: %s: %s", what,
						pmix.error_string(status));
}

/* Moves the content of *v out of the library's memory. */
static int take(struct pmix_value *v, uint16_t type, const char *key, void *to, size_t size)
{
	int err = 0;

	if (v->type != type || (type == PMIX_STRING && strlen(v->data.string) >= size))
		err = tt_fail(-TUTTI_EBOOT, "the launcher's PMIx: %s has type %d or is too long",
			      key, v->type);
	else if (type == PMIX_STRING)
		memcpy(to, v->data.string, strlen(v->data.string) + 1);
	else
		memcpy(to, &v->data.uint32, size);
	if (v->type == PMIX_STRING)
		free(v->data.string);
	free(v);
	return err;
}

static int look_up(uint32_t from, const char *key, uint16_t type, void *to, size_t size)
{
	struct pmix_proc proc = self;
	struct pmix_value *value = NULL;
	char name[512] = "";
	int err;

	proc.rank = from;
	snprintf(name, sizeof(name), "%s", key); /* the library reads up to 512 bytes */
	err = done(key, pmix.get(&proc, name, NULL, 0, &value));
	return err ? err : take(value, type, key, to, size);
}

static int pmix_close(void)
{
	return done("PMIx_Finalize", pmix.finalize(NULL, 0));
}

/* An outer launcher may have left its variables: its job has another size. */
static int pmix_open(int rank, int nranks)
{
	uint32_t size = 0;
	int err = load();

	if (!err)
		err = done("PMIx_Init", pmix.init(&self, NULL, 0));
	if (err)
		return err;
	err = look_up(PMIX_RANK_WILDCARD, "pmix.job.size", PMIX_UINT32, &size, sizeof(size));
	if (!err && (self.rank != (uint32_t)rank || size != (uint32_t)nranks))
		err = tt_fail(-TUTTI_EBOOT,
			      "this is rank %d of %d by the launcher's variables, but rank %u of "
			      "%u by its PMIx; set TUTTI_BOOT_DIR to a directory that all ranks "
			      "share",
			      rank, nranks, self.rank, size);
	if (err)
		(void)pmix.finalize(NULL, 0);
	return err;
}

static int pmix_put(const char *key, const char *value)
{
	struct pmix_value v = {.type = PMIX_STRING};
	char name[512] = "", *copy = strdup(value);
	int err;

	if (!copy)
		return tt_fail(-ENOMEM, "no memory for a value of PMIx");
	snprintf(name, sizeof(name), "%s", key);
	v.data.string = copy;
	err = done("PMIx_Put", pmix.put(PMIX_GLOBAL, name, &v));
	free(copy);
	return err;
}

static int pmix_fence(void)
{
	struct pmix_proc all = self;
	struct pmix_info collect = {.key = "pmix.collect", .value = {.type = PMIX_BOOL}};
	int err = done("PMIx_Commit", pmix.commit());

	all.rank = PMIX_RANK_WILDCARD;
	collect.value.data.flag = true;
	return err ? err : done("PMIx_Fence", pmix.fence(&all, 1, &collect, 1));
}

static int pmix_get(int from, const char *key, char value[TT_KVS_VALUE])
{
	return look_up((uint32_t)from, key, PMIX_STRING, value, TT_KVS_VALUE);
}

const struct tt_kvs tt_kvs_pmix = {pmix_open, pmix_put, pmix_fence, pmix_get, pmix_close};
