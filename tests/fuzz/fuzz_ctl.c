/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages of the control tree, to the handlers of a context that has just done some collectives. */
#include <assert.h>
#include <stdlib.h>
#include <tutti/tutti.h>

#include "lib/boot/ctl.h"
#include "lib/comm/comm.h"
#include "tests/fuzz/fuzz.h"

static struct tutti_context *ctx;

static void start(void)
{
	float x[4] = {1, 2, 3, 4};
	int i;

	setenv("TUTTI_TRANSPORT", "shm", 1);
	setenv("TUTTI_TUNE_FILE", "none", 1);
	tutti_set_log(NULL, NULL, TUTTI_LOG_NONE);
	if (tutti_init(NULL, &ctx))
		abort();
	for (i = 0; i < 3; i++) {
		tutti_allreduce(TUTTI_IN_PLACE, x, 4, TUTTI_FLOAT32, TUTTI_SUM, tutti_world(ctx));
		tutti_bcast(x, 4, TUTTI_FLOAT32, 0, tutti_world(ctx));
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fz z = {data, size};
	int steps = 0;

	if (!ctx)
		start();
	while (z.len && steps++ < 16) {
		int type = 1 + (int)(fz_u(&z, 1) % (TT_CTL_TYPES - 1));
		struct fz body = fz_take(&z, fz_u(&z, 2) % (TT_CTL_MSG_MAX + 1));
		unsigned char *copy = malloc(body.len + 1);
		struct tt_boot_handlers *h = &ctx->boot->handlers;

		memcpy(copy, body.len ? body.p : (const uint8_t *)"", body.len);
		if (h->fn[type])
			h->fn[type](h->arg, 0, copy, body.len);
		free(copy);
	}
	if (atomic_load(&tutti_world(ctx)->failed)) { /* as an abort or a mismatch must do */
		tutti_finalize(ctx);
		start();
	}
	return 0;
}
