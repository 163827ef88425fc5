/* SPDX-License-Identifier: BSD-3-Clause */
/* The environment table: parsing, ranges, nearest names. */
#include <errno.h>
#include <stdio.h>
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

/* Sizes as they can be written. */
static void test_sizes(void)
{
	static const char *const texts[] = {"65536", "64K",    "64k",  "64KB",
					    "64kb",  "65536B", "0064K"};
	struct tt_env env;
	size_t i;

	for (i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		setenv("TUTTI_CHUNK", texts[i], 1);
		TT_REQUIRE(!tt_env_load(&env));
		TT_CHECK(env.chunk.number == 65536);
		tt_env_free(&env);
	}
	setenv("TUTTI_CHUNK", "1m", 1);
	setenv("TUTTI_CACHE", "1gB", 1);
	setenv("TUTTI_RANK", "-1", 1);
	TT_REQUIRE(!tt_env_load(&env));
	TT_CHECK(env.chunk.number == 1 << 20 && env.cache.number == 1 << 30);
	TT_CHECK(env.rank.number == -1);
	tt_env_free(&env);
	unsetenv("TUTTI_CHUNK");
	unsetenv("TUTTI_CACHE");
	unsetenv("TUTTI_RANK");
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
	bad("TUTTI_CHUNK", "18014398509482048K");
	bad("TUTTI_CHUNK", "0x10000");
	bad("TUTTI_CHUNK", "+64K");
	bad("TUTTI_CHUNK", " 64K");
	bad("TUTTI_CHUNK", "64KK");
	bad("TUTTI_CHUNK", "64.5K");
	bad("TUTTI_CHUNK", "64s");
	bad("TUTTI_LANES", "-3");
	bad("TUTTI_LANES", "4x");
	bad("TUTTI_LANES", "0x4");
	bad("TUTTI_LANES", "+4");
	bad("TUTTI_LANES", "4K");
	bad("TUTTI_LANES", "-");
	bad("TUTTI_PROGRESS", "threads");
	bad("TUTTI_POOL_LOCK", "yes");
	bad("TUTTI_TIMEOUT", "5 s");
	bad("TUTTI_TIMEOUT", "0x5s");
	bad("TUTTI_TIMEOUT", "153722867280912931m");
	bad("TUTTI_RANK", "-2");
}

static void test_nearest(void)
{
	const char *names[] = {"TUTTI_CHUNK", "TUTTI_LANES", "TUTTI_TIMEOUT"};

	TT_CHECK(!strcmp(tt_nearest("TUTTI_CHUNKS", names, 3), "TUTTI_CHUNK"));
	TT_CHECK(!strcmp(tt_nearest("TUTTI_TIMEOT", names, 3), "TUTTI_TIMEOUT"));
	TT_CHECK(!strcmp(tt_nearest("tutti_chunk", names, 3), "TUTTI_CHUNK"));
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

/* ---- options ---- */

/* A valid value of a variable other than its default, and one that is not valid (but for texts). */
static void samples(const struct tt_env_desc *d, char *good, char *bad, size_t size)
{
	int64_t def = 0;

	tt_env_parse(d, d->def, &def);
	snprintf(bad, size, "%lld", (long long)d->hi + 1);
	if (d->kind == TT_ENV_text)
		snprintf(good, size, "%s", "word");
	else if (d->kind == TT_ENV_choice)
		snprintf(good, size, "%.*s", (int)strcspn(strrchr(d->choices, '|') + 1, "|"),
			 strrchr(d->choices, '|') + 1);
	else
		snprintf(good, size, "%lld", (long long)(d->lo == def ? d->hi : d->lo));
}

static bool said(const char *a, const char *b)
{
	struct tutti_error_info info = {.size = sizeof(info)};

	return !tutti_last_error(&info) && strstr(info.text, a) && strstr(info.text, b);
}

/* Variable i by an option, where the environment has its default. */
static void check_option(int i)
{
	const struct tt_env_desc *d = &tt_env_table[i];
	char good[64], bad[64], option[128];
	const char *options[] = {option, NULL};
	const struct tt_env_value *v;
	struct tt_env env, again;
	int64_t number = 0;

	samples(d, good, bad, sizeof(good));
	setenv(d->name, d->def, 1);
	snprintf(option, sizeof(option), "%s=%s", d->name, good);
	TT_REQUIRE(!tt_env_load_options(&env, options));
	v = (struct tt_env_value *)&env + i;
	TT_CHECK(!strcmp(v->text, good) && v->is_set && v->by_option);
	tt_env_parse(d, good, &number);
	TT_CHECK(v->number == number);
	TT_CHECK(!strcmp(getenv(d->name), d->def)); /* the environment is as it was */
	TT_REQUIRE(!tt_env_load_again(&again, &env));
	v = (struct tt_env_value *)&again + i;
	TT_CHECK(!strcmp(v->text, good) && v->is_set && v->by_option);
	tt_env_free(&again);
	tt_env_free(&env);
	snprintf(option, sizeof(option), "%s=%s", d->name, bad);
	if (d->kind != TT_ENV_text) {
		TT_CHECK(tt_env_load_options(&env, options) == -EINVAL);
		TT_CHECK(said("config.options", option));
	}
	/* an empty option is the default, whatever the environment has */
	setenv(d->name, good, 1);
	snprintf(option, sizeof(option), "%s=", d->name);
	TT_REQUIRE(!tt_env_load_options(&env, options));
	v = (struct tt_env_value *)&env + i;
	TT_CHECK(!strcmp(v->text, d->def) && !v->is_set);
	tt_env_free(&env);
	unsetenv(d->name);
}

static void test_options(void)
{
	int i;

	for (i = 0; i < tt_env_count; i++)
		check_option(i);
}

static void refused(const char *a, const char *b, const char *word, const char *other)
{
	const char *options[] = {a, b, NULL};
	struct tt_env env;

	TT_CHECK(tt_env_load_options(&env, options) == -EINVAL);
	TT_CHECK(said(word, other));
}

static void test_bad_options(void)
{
	static const char *const none[] = {NULL};
	struct tt_env env;

	refused("TUTTI_CHUNCK=64K", NULL, "unknown variable TUTTI_CHUNCK",
		"did you mean TUTTI_CHUNK");
	refused("TUTTI_LANES=2", "timeout=10", "unknown variable timeout",
		"did you mean TUTTI_TIMEOUT");
	refused("=10", NULL, "'=10'", "VARIABLE=VALUE");
	refused("TUTTI_TEST_IT=1", NULL, "unknown variable TUTTI_TEST_IT", "");
	refused("NCCL_SOMETHING=1", NULL, "unknown variable NCCL_SOMETHING", "");
	refused("TUTTI_TIMEOUT", NULL, "'TUTTI_TIMEOUT'", "VARIABLE=VALUE");
	refused("", NULL, "''", "VARIABLE=VALUE");
	refused("TUTTI_LANES=2", "TUTTI_LANES=2", "TUTTI_LANES", "twice");
	refused("TUTTI_LANES=2", "TUTTI_CHUNK=1", "TUTTI_CHUNK=1", "from 4096");
	refused("TUTTI_TIMEOUT=5 s", NULL, "TUTTI_TIMEOUT=5 s", "time in milliseconds");
	TT_REQUIRE(!tt_env_load_options(&env, none));
	TT_CHECK(!env.lanes.by_option && env.lanes.number == 4);
	tt_env_free(&env);
}

static const struct tt_test tests[] = {
	/* first: the warning is given once per process */
	{"misspelt_is_warned", test_misspelt_is_warned},
	{"defaults_parse", test_defaults_parse},
	{"values", test_values},
	{"sizes", test_sizes},
	{"bad_values", test_bad_values},
	{"nearest", test_nearest},
	{"options", test_options},
	{"bad_options", test_bad_options},
	{NULL, NULL}};

int main(int argc, char **argv)
{
	return tt_test_main("env", tests, argc, argv);
}
