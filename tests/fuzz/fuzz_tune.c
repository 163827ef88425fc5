/* SPDX-License-Identifier: BSD-3-Clause */
/* A tuning file: accepted files must be written out unchanged. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <tutti/tutti.h>
#include <unistd.h>

#include "lib/plan/tune.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static int fd = -1;
	struct tt_tunes tunes;
	char path[40];

	tutti_set_log(NULL, NULL, TUTTI_LOG_NONE);
	if (fd < 0)
		fd = memfd_create("tune.json", MFD_CLOEXEC);
	if (ftruncate(fd, 0) || pwrite(fd, data, size, 0) < 0)
		return 0;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (tt_tunes_load(path, &tunes))
		return 0;
	if (tunes.n) {
		const struct tt_tune *t = tunes.tune[0];

		assert(strlen(t->hosts) < sizeof(t->hosts) && t->npoints <= TT_TUNE_POINTS);
		assert(tt_tunes_find(&tunes, t->hosts, t->nranks));
		tt_tune_link(t, true, "ofi");
	}
	tt_tunes_free(&tunes);
	return 0;
}
