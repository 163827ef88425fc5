/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The conformance suite on one configuration: CONFORM, set by the build for each of the programs
 * conform_*, names it. With CONFORM_FAULT every test runs under transports/fault, once a seed;
 * TUTTI_TEST_SEED=N picks a single one.
 */
#include "tests/conform/conform.h"

#include <CUnit/TestRun.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/conform/loop.h"

#ifndef CONFORM_FAULT
#define CONFORM_FAULT 0
#endif
#define SEEDS 3

static const struct config configs[] = {
	{.name = "loop", .transport = "loop", .one_process = true, .strict = true},
	{.name = "self", .transport = "self", .one_process = true, .strict = true},
	{.name = "shm", .transport = "shm", .strict = true},
	{.name = "verbs", .transport = "verbs", .strict = true},
	{.name = "verbs_qps", .transport = "verbs", .strict = true, .verbs_qps = 3},
	{.name = "ofi_verbs", .transport = "ofi", .ofi_ep = "msg", .ofi_provider = "verbs"},
	{.name = "ofi_tcp", .transport = "ofi", .ofi_ep = "msg", .ofi_provider = "tcp"},
	{.name = "ofi_rxm", .transport = "ofi", .ofi_ep = "rdm", .ofi_provider = "tcp;ofi_rxm"},
	{.name = "ofi_sockets", .transport = "ofi", .ofi_ep = "rdm", .ofi_provider = "sockets"}};

const struct config *config;
bool faulty = CONFORM_FAULT;
unsigned seed = 1, timeouts;

static const struct tt_test conformance[] = {
	{"wakes_sleeper", test_wakes_sleeper}, /* must be first */
	{"query", test_query},
	{"open_close", test_open_close},
	{"connect_orders", test_connect_orders},
	{"no_ops_before_up", test_no_ops_before_up},
	{"missing_slots", test_missing_slots},
	{"put_sizes", test_put_sizes},
	{"note_values", test_note_values},
	{"zero_length", test_zero_length},
	{"many_puts", test_many_puts},
	{"flood_puts", test_flood_puts},
	{"get", test_get},
	{"get_head", test_get_head},
	{"amo", test_amo},
	{"map", test_map},
	{"msg_sizes", test_msg_sizes},
	{"msg_flood", test_msg_flood},
	{"triangle", test_triangle},
	{"reg_cycles", test_reg_cycles},
	{"user_memory", test_user_memory},
	{"bounds", test_bounds},
	{"stale_key", test_stale_key},
	{"read_only", test_read_only},
	{"read_only_map", test_read_only_map},
	{"wrong_keys", test_wrong_keys},
	{"arm", test_arm},
	{"arm_behind", test_arm_behind},
	{"close_any_state", test_close_any_state},
	{"close_drops_ops", test_close_drops_ops},
	{"close_is_a_fence", test_close_is_a_fence},
	{"peer_close", test_peer_close},
	{NULL, NULL}};
#define NTESTS (sizeof(conformance) / sizeof(conformance[0]))

static unsigned checks, failures;

/* Called by CUnit for every test; runs the test with every seed. */
static void run_current(void)
{
	const char *name = CU_get_current_test()->pName;
	const char *only = getenv("TUTTI_TEST_SEED");
	unsigned first = 1, last = faulty ? SEEDS : 1, i;

	if (only)
		first = last = (unsigned)strtoul(only, NULL, 10);
	for (i = 0; strcmp(conformance[i].name, name); i++)
		;
	for (seed = first; seed <= last; seed++) {
		unsigned failed = CU_get_number_of_failure_records();

		timeouts = 0;
		conformance[i].fn();
		if (faulty && CU_get_number_of_failure_records() > failed)
			printf("  failed with TUTTI_TEST_SEED=%u\n", seed);
	}
	checks += CU_get_number_of_asserts();
	failures += CU_get_number_of_failures();
}

static void print_caps(unsigned caps)
{
	static const char *const names[] = {"local-any", "auto-progress", "amo", "map", "reg-any"};
	unsigned i;

	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		printf("%s%s", i ? " " : "", caps >> i & 1 ? names[i] : "-");
}

static void print_contract(void)
{
	struct net net;

	if (!net_open(&net, 1))
		return;
	printf("# contract: %s%s | %s | caps: ", faulty ? "fault:" : "", config->name,
	       net.node[0].tp->detail);
	print_caps(net.node[0].tp->caps);
	printf(" | max put %zu | checks passed %u, failed %u\n", net.node[0].tp->max_put,
	       checks - failures, failures);
	net_close(&net);
}

/* CUnit's registry is gone when the table is printed, so it is printed by a last test. */
static void test_contract(void)
{
	print_contract();
}

int main(int argc, char **argv)
{
	struct tt_test tests[NTESTS + 1];
	char suite[64];
	unsigned i;

	for (i = 0; i < sizeof(configs) / sizeof(configs[0]); i++)
		if (!strcmp(configs[i].name, CONFORM))
			config = &configs[i];
	if (!config)
		return fprintf(stderr, "unknown configuration %s\n", CONFORM), 1;
	for (i = 0; i < NTESTS - 1; i++)
		tests[i] = (struct tt_test){conformance[i].name, run_current};
	tests[i++] = (struct tt_test){"contract", test_contract};
	tests[i] = (struct tt_test){NULL, NULL};
	snprintf(suite, sizeof(suite), "conform.%s%s", faulty ? "fault." : "", config->name);
	return tt_test_main(suite, tests, argc, argv);
}
