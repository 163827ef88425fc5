/* SPDX-License-Identifier: BSD-3-Clause */
/* Loads libfabric at run time; see ofi_load.h. */
#define OFI_LOAD_TABLE
#include "transports/ofi/ofi_load.h"

#include "lib/base/library.h"

struct ofi_functions ofi_lib;

int ofi_load(void)
{
	static const struct tt_symbol symbols[] = {
#define OFI_FUNCTION(name, version) {#name, version, &ofi_lib.name},
		OFI_FUNCTIONS
#undef OFI_FUNCTION
	};
	static const struct tt_library library = {"libfabric.so.1", "libfabric1", symbols,
						  sizeof(symbols) / sizeof(symbols[0])};

	return tt_library_load(&library);
}
