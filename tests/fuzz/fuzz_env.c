/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Texts from the environment and the like: values of every kind, TUTTI_FAULT, TUTTI_ALGO,
 * addresses, unique ids.
 */
#include <stdlib.h>
#include <tutti/tutti.h>

#include "lib/base/env.h"
#include "lib/base/faults.h"
#include "lib/boot/rendezvous/address.h"
#include "lib/boot/rendezvous/discover.h"
#include "lib/plan/choose.h"
#include "tests/fuzz/fuzz.h"

static void address(const char *text)
{
	char host[64];
	struct tt_addr addr;
	int port;

	if (!tt_addr_split(text, host, sizeof(host), &port))
		tt_addr_numeric(host, port, &addr);
	tt_addr_numeric(text, 1, &addr);
}

static void unique_id(const char *text, size_t len)
{
	struct tt_boot_params p = {.rank = 1, .nranks = 2, .listen_fd = -1};
	struct tutti_unique_id id = {{0}};

	memcpy(&id, text, len < sizeof(id) ? len : sizeof(id));
	tt_unique_id_use(&id, &p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fz z = {data, size};
	unsigned which = (unsigned)fz_u(&z, 1);
	char *text = malloc(z.len + 1);
	struct tt_rule *rules = NULL;
	struct tt_faults faults;
	int64_t number;
	int i, n;

	tutti_set_log(NULL, NULL, TUTTI_LOG_NONE);
	memcpy(text, z.len ? z.p : (const uint8_t *)"", z.len);
	text[z.len] = 0;
	switch (which % 5) {
	case 0:
		for (i = 0; i < tt_env_count; i++)
			tt_env_parse(&tt_env_table[i], text, &number);
		break;
	case 1:
		tt_faults_parse(text, &faults);
		break;
	case 2:
		if (!tt_rules_parse(text, &rules, &n))
			free(rules);
		break;
	case 3:
		address(text);
		break;
	default:
		unique_id(text, z.len);
		break;
	}
	free(text);
	return 0;
}
