/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A worker's messages to a parameter server, as they lie in its box: any kind, numbers and
 * payload, to dense tables and rows under BSP (with sums) and without a bound. The server's thread
 * is stopped; this one takes its place.
 */
#include <assert.h>
#include <stdlib.h>
#include <tutti/tutti.h>

#include "lib/ps/server/server.h"
#include "tests/fuzz/fuzz.h"

#define PAYLOAD 4096

static struct tutti_context *ctx;
static struct tutti_ps *ps[2];
static char *payload;

static void open_one(int i, int staleness)
{
	struct tutti_ps_config config = {.size = sizeof(config), .staleness = staleness};
	struct tutti_ps_options zero = {.size = sizeof(zero), .init = TUTTI_PS_ZERO, .block = 1024};
	struct tutti_ps_options sums = zero, adam = zero;
	struct tutti_ps_table *t;

	sums.combine = staleness ? TUTTI_PS_EACH : TUTTI_PS_COMBINE_SUM;
	adam.rule = TUTTI_PS_ADAM;
	if (tutti_ps_open(tutti_world(ctx), &config, &ps[i]) ||
	    tutti_ps_dense(ps[i], "unset", 1000, TUTTI_INT8, NULL, &t) ||
	    tutti_ps_dense(ps[i], "dense", 3000, TUTTI_FLOAT32, &sums, &t) ||
	    tutti_ps_rows(ps[i], "rows", 5, 40, TUTTI_FLOAT64, &adam, &t) ||
	    tutti_ps_rows(ps[i], "sums", 3, 40, TUTTI_FLOAT32, &sums, &t))
		abort();
	tt_ps_server_stop(ps[i]);
}

static void start(void)
{
	setenv("TUTTI_TRANSPORT", "shm", 1);
	setenv("TUTTI_TUNE_FILE", "none", 1);
	tutti_set_log(NULL, NULL, TUTTI_LOG_NONE);
	payload = malloc(PAYLOAD);
	if (!payload || tutti_init(NULL, &ctx))
		abort();
	open_one(0, 0);
	open_one(1, TUTTI_PS_ASYNC);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fz z = {data, size};
	struct tt_ps_server *srv;
	int steps = 0;

	if (!ctx)
		start();
	srv = ps[fz_u(&z, 1) % 2]->srv[0];
	while (z.len && steps++ < 16) {
		struct tt_ps_credit credit = {.number = 0};
		struct tt_ps_msg m = {.kind = (uint32_t)fz_u(&z, 1) % 8,
				      .table = (uint32_t)fz_u(&z, 1) % 6};
		struct fz body;

		m.number = fz_u(&z, 1);
		m.clock = fz_u(&z, 1);
		m.first = fz_u(&z, 1) & 1 ? fz_u(&z, 8) : fz_u(&z, 2);
		m.count = (uint32_t)(fz_u(&z, 1) & 1 ? fz_u(&z, 4) : fz_u(&z, 1));
		body = fz_take(&z, fz_u(&z, 2) % (PAYLOAD + 1));
		m.len = (uint32_t)(fz_u(&z, 1) == 255 ? fz_u(&z, 4) % PAYLOAD : body.len);
		memset(payload, 0, PAYLOAD);
		memcpy(payload, body.len ? body.p : (const uint8_t *)"", body.len);
		if (m.kind == TT_PS_BYE)
			continue; /* the last thing a worker says */
		if (m.kind == TT_PS_CLOCK)
			m.first %=
				srv->client[0].clock + 2; /* else all is over after one message */
		tt_ps_turn(srv, &srv->client[0], &m);
		tt_ps_handle(srv, &srv->client[0], &m, payload, &credit);
		assert(credit.len <= TT_PS_REPLY);
	}
	tt_ps_publish_pass(srv);
	return 0;
}
