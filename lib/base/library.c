/* SPDX-License-Identifier: BSD-3-Clause */
/* Loads shared libraries at run time; see library.h. */
#include "lib/base/library.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>

#include "lib/base/error.h"

static int look_up(void *handle, const struct tt_library *library)
{
	const struct tt_symbol *s;
	void *address;

	for (s = library->symbols; s < library->symbols + library->count; s++) {
		address = s->version ? dlvsym(handle, s->name, s->version) : dlsym(handle, s->name);
		if (!address)
			return tt_fail(-TUTTI_ETRANSPORT,
				       "%s: no function %s%s%s; install a later package %s",
				       library->soname, s->name, s->version ? " of version " : "",
				       s->version ? s->version : "", library->package);
		memcpy(s->at, &address, sizeof(address));
	}
	return 0;
}

/* A mapping that fails for another reason than memory names it: a file system without execution. */
static bool for_memory(const char *why)
{
	if (strstr(why, "static TLS")) /* not a limit */
		return false;
	return strstr(why, tutti_strerror(-ENOMEM)) || strstr(why, "cannot allocate") ||
	       (strstr(why, "failed to map") && !strstr(why, tutti_strerror(-EPERM)) &&
		!strstr(why, tutti_strerror(-EACCES)));
}

/* why: dlerror()'s text, which begins with the library's name and ends with errno's. */
static int cannot_load(const struct tt_library *library, const char *why)
{
	if (strstr(why, tutti_strerror(-EMFILE)))
		return tt_fail(-EMFILE, "cannot load a library: %s", why);
	if (for_memory(why))
		return tt_fail(-ENOMEM,
			       "cannot load a library: %s: out of memory or address "
			       "space; " TT_RAISE_MEMORY,
			       why);
	return tt_fail(-TUTTI_ETRANSPORT, "cannot load a library: %s; install package %s", why,
		       library->package);
}

int tt_library_load(const struct tt_library *library)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	void *handle;
	int err;

	pthread_mutex_lock(&lock);
	handle = dlopen(library->soname, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
	if (handle) {
		err = look_up(handle, library);
		dlclose(handle);
	} else {
		err = cannot_load(library, dlerror());
	}
	pthread_mutex_unlock(&lock);
	return err;
}
