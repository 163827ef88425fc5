/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libfabric, loaded on first use. Calls are written as usual: most are inline functions of its
 * headers that use the objects' own tables; the exported functions go through this table.
 */
#ifndef OFI_LOAD_H
#define OFI_LOAD_H

#include "config.h"

#include <rdma/fabric.h>
#include <rdma/fi_errno.h>

/* OFI_FUNCTION(name, symbol version); OFI_INFO_ABI is what the headers' struct fi_info belongs to.
 */
#define OFI_FUNCTIONS                                                                              \
	OFI_FUNCTION(fi_getinfo, OFI_INFO_ABI)                                                     \
	OFI_FUNCTION(fi_freeinfo, OFI_INFO_ABI)                                                    \
	OFI_FUNCTION(fi_dupinfo, OFI_INFO_ABI)                                                     \
	OFI_FUNCTION(fi_fabric, "FABRIC_1.1")                                                      \
	OFI_FUNCTION(fi_strerror, "FABRIC_1.0")                                                    \
	OFI_FUNCTION(fi_version, "FABRIC_1.0")

struct ofi_functions {
#define OFI_FUNCTION(name, version) __typeof__(name) *name;
	OFI_FUNCTIONS
#undef OFI_FUNCTION
};

extern struct ofi_functions ofi_lib;

/* Load libfabric: 0, or -TUTTI_ETRANSPORT. No other function of it may be called before. */
int ofi_load(void);

#ifndef OFI_LOAD_TABLE /* ofi_load.c needs the bare names */
#define fi_getinfo ofi_lib.fi_getinfo
#define fi_freeinfo ofi_lib.fi_freeinfo
#define fi_dupinfo ofi_lib.fi_dupinfo
#define fi_allocinfo() fi_dupinfo(NULL)
#define fi_fabric ofi_lib.fi_fabric
#define fi_strerror ofi_lib.fi_strerror
#define fi_version ofi_lib.fi_version
#endif

#endif
