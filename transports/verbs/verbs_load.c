/* SPDX-License-Identifier: BSD-3-Clause */
/* Loads libibverbs and librdmacm at run time; see verbs_load.h. */
#define VB_LOAD_TABLES
#include "transports/verbs/verbs_load.h"

#include "lib/base/library.h"

struct vb_ibv_functions vb_ibv;
struct vb_rdma_functions vb_rdma;

int vb_load_ibverbs(void)
{
	static const struct tt_symbol symbols[] = {
#define VB_FUNCTION(name, version) {#name, version, &vb_ibv.name},
		VB_IBV_FUNCTIONS
#undef VB_FUNCTION
	};
	static const struct tt_library library = {"libibverbs.so.1", "libibverbs1", symbols,
						  sizeof(symbols) / sizeof(symbols[0])};

	return tt_library_load(&library);
}

int vb_load_rdmacm(void)
{
	static const struct tt_symbol symbols[] = {
#define VB_FUNCTION(name, version) {#name, version, &vb_rdma.name},
		VB_RDMA_FUNCTIONS
#undef VB_FUNCTION
	};
	static const struct tt_library library = {"librdmacm.so.1", "librdmacm1", symbols,
						  sizeof(symbols) / sizeof(symbols[0])};

	return tt_library_load(&library);
}
