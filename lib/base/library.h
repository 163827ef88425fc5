/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared libraries that are loaded when a transport is opened, not at program start. */
#ifndef TT_LIBRARY_H
#define TT_LIBRARY_H

#include <stddef.h>

/* A function to look up: its name, its symbol version (NULL: none), where its address goes. */
struct tt_symbol {
	const char *name, *version;
	void *at;
};

struct tt_library {
	const char *soname;
	const char *package; /* that brings it on Debian, for the error message */
	const struct tt_symbol *symbols;
	size_t count;
};

/*
 * Load a library and fill in its functions. The library stays loaded until the process ends, so a
 * second call costs next to nothing. Returns 0, or -TUTTI_ETRANSPORT with the library, the reason
 * and the package; -EMFILE or -ENOMEM and the limit, if a limit keeps it from being loaded.
 * Thread-safe.
 */
int tt_library_load(const struct tt_library *library);

#endif
