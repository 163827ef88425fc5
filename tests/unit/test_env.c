/* SPDX-License-Identifier: BSD-3-Clause */
/* The environment table: parsing, ranges, nearest names. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/env.h"
#include "lib/base/error.h"
#include "tests/test.h"

static void test_defaults_parse(void)
{
	struct tt_env env;

	TT_REQUIRE(!tt_env_load(&env));
	TT_CHECK(env.chunk.number == 256 << 10);
	TT_CHECK(env.timeout.number == 300000);
	TT_CHECK(!strcmp(env.ofi_ep.text, "msg"));
	TT_CHECK(!env.chunk.is_set);
	tt_env_free(&env);
}

static void test_values(void)
{
	struct tt_env env;

	setenv("TUTTI_CHUNK", "64K", 1);
	setenv("TUTTI_TIMEOUT", "2500ms", 1);
	setenv("TUTTI_PROGRESS", "thread", 1);
	TT_REQUIRE(!tt_env_load(&env));
	TT_CHECK(env.chunk.number == 65536 && env.chunk.is_set);
	TT_CHECK(env.timeout.number == 2500);
	TT_CHECK(!strcmp(env.progress.text, "thread"));
	tt_env_free(&env);
	unsetenv("TUTTI_CHUNK");
	unsetenv("TUTTI_TIMEOUT");
	unsetenv("TUTTI_PROGRESS");
}

static void bad(const char *name, const char *value)
{
	struct tutti_error_info info = {.size = sizeof(info)};
	struct tt_env env;

	setenv(name, value, 1);
	TT_CHECK(tt_env_load(&env) == -EINVAL);
	TT_CHECK(!tutti_last_error(&info));
	TT_CHECK(strstr(info.text, name) != NULL && strstr(info.text, value) != NULL);
	unsetenv(name);
}

static void test_bad_values(void)
{
	bad("TUTTI_CHUNK", "12Q");
	bad("TUTTI_CHUNK", "1");
	bad("TUTTI_CHUNK", "9999999999999999999");
	bad("TUTTI_LANES", "-3");
	bad("TUTTI_LANES", "4x");
	bad("TUTTI_PROGRESS", "threads");
	bad("TUTTI_POOL_LOCK", "yes");
	bad("TUTTI_TIMEOUT", "5 s");
}

static void test_nearest(void)
{
	const char *names[] = {"TUTTI_CHUNK", "TUTTI_LANES", "TUTTI_TIMEOUT"};

	TT_CHECK(!strcmp(tt_nearest("TUTTI_CHUNKS", names, 3), "TUTTI_CHUNK"));
	TT_CHECK(!strcmp(tt_nearest("TUTTI_TIMEOT", names, 3), "TUTTI_TIMEOUT"));
	TT_CHECK(tt_nearest("COMPLETELY_OTHER", names, 3) == NULL);
}

static char warned[256];

static void catch_log(enum tutti_log_level level, const char *line, void *arg)
{
	if (level == TUTTI_LOG_WARN)
		strncpy(warned, line, sizeof(warned) - 1);
}

static void test_misspelt_is_warned(void)
{
	struct tt_env env;

	setenv("TUTTI_TRANSPROT", "shm", 1);
	tutti_set_log(catch_log, NULL, TUTTI_LOG_WARN);
	TT_REQUIRE(!tt_env_load(&env));
	TT_CHECK(strstr(warned, "TUTTI_TRANSPROT") && strstr(warned, "TUTTI_TRANSPORT"));
	tutti_set_log(NULL, NULL, TUTTI_LOG_DEFAULT);
	unsetenv("TUTTI_TRANSPROT");
	tt_env_free(&env);
}

static const struct tt_test tests[] = {
	/* first: the warning is given once per process */
	{"misspelt_is_warned", test_misspelt_is_warned},
	{"defaults_parse", test_defaults_parse},
	{"values", test_values},
	{"bad_values", test_bad_values},
	{"nearest", test_nearest},
	{NULL, NULL}};

int main(int argc, char **argv)
{
	return tt_test_main("env", tests, argc, argv);
}
