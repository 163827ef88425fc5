/* SPDX-License-Identifier: BSD-3-Clause */
/* Parses the environment and options by the table in env.def. */
#include "lib/base/env.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/distance.h"
#include "lib/base/error.h"
#include "lib/base/number.h"

extern char **environ;

const struct tt_env_desc tt_env_table[] = {
#define TT_ENV(field, name, kind, def, lo, hi, help) {name, TT_ENV_##kind, def, lo, hi, NULL, help},
#define TT_ENV_CHOICE(field, name, def, choices, help)                                             \
	{name, TT_ENV_choice, def, 0, 0, choices, help},
#include "lib/base/env.def"
#undef TT_ENV
#undef TT_ENV_CHOICE
};

#define COUNT (sizeof(tt_env_table) / sizeof(tt_env_table[0]))
const int tt_env_count = COUNT;

static int64_t suffix_factor(enum tt_env_kind kind, const char *s)
{
	if (!*s)
		return 1;
	if (kind == TT_ENV_time)
		return !strcmp(s, "ms") ? 1 : !strcmp(s, "s") ? 1000 : !strcmp(s, "m") ? 60000 : 0;
	return 0;
}

static const char *read_size(const char *text, int64_t *value)
{
	uint64_t size = 0;
	const char *rest = tt_number_size(text, &size);

	*value = (int64_t)size;
	return size <= INT64_MAX ? rest : NULL;
}

static bool is_choice(const char *choices, const char *text)
{
	size_t len = strlen(text);
	const char *p;

	for (p = choices; p; p = strchr(p, '|'), p = p ? p + 1 : NULL)
		if (len && !strncmp(p, text, len) && (p[len] == '|' || !p[len]))
			return true;
	return false;
}

int tt_env_parse(const struct tt_env_desc *desc, const char *text, int64_t *number)
{
	int64_t factor, value;
	const char *rest;

	if (desc->kind == TT_ENV_text)
		return 0;
	if (desc->kind == TT_ENV_choice)
		return is_choice(desc->choices, text) ? 0 : -EINVAL;
	rest = desc->kind == TT_ENV_size ? read_size(text, &value) : tt_number_whole(text, &value);
	factor = rest ? suffix_factor(desc->kind, rest) : 0;
	if (!factor || __builtin_mul_overflow(value, factor, &value) || value < desc->lo ||
	    value > desc->hi)
		return -EINVAL;
	*number = value;
	return 0;
}

static int fail_value(const struct tt_env_desc *d, const char *text, bool option)
{
	const char *where = option ? "config.options: " : "";

	if (d->kind == TT_ENV_choice)
		return tt_fail(-EINVAL, "%s%s=%s: must be one of %s", where, d->name, text,
			       d->choices);
	return tt_fail(-EINVAL, "%s%s=%s: must be a %s from %lld to %lld%s", where, d->name, text,
		       d->kind == TT_ENV_size	? "size in bytes (K, M, G allowed)"
		       : d->kind == TT_ENV_time ? "time in milliseconds (ms, s, m allowed)"
						: "number",
		       (long long)d->lo, (long long)d->hi,
		       d->kind == TT_ENV_flag ? " (off or on)" : "");
}

const char *tt_nearest(const char *word, const char *const *names, int n)
{
	int best = (int)strlen(word) / 3 + 1, i, d;
	const char *name = NULL;

	for (i = 0; i < n; i++) {
		d = tt_distance(word, names[i]);
		if (d < best || (d == best && !name)) {
			best = d;
			name = names[i];
		}
	}
	return name;
}

/* Its place in the table, or -1. */
static int find(const char *name, size_t len)
{
	int i;

	for (i = 0; i < tt_env_count; i++)
		if (strlen(tt_env_table[i].name) == len &&
		    !strncmp(tt_env_table[i].name, name, len))
			return i;
	return -1;
}

static bool known(const char *name, size_t len)
{
	/* Variables of the tests and of the quick start, not of the library. */
	return find(name, len) >= 0 || !strncmp(name, "TUTTI_TEST_", 11) ||
	       !strncmp(name, "TUTTI_CI_", 9);
}

static const char *nearest_variable(const char *word)
{
	const char *names[COUNT];
	size_t i;

	for (i = 0; i < COUNT; i++)
		names[i] = tt_env_table[i].name;
	return tt_nearest(word, names, COUNT);
}

static void warn_unknown(void)
{
	static atomic_bool warned;
	const char *near;
	char word[64], **e;
	size_t len;

	if (atomic_exchange(&warned, true))
		return;
	for (e = environ; e && *e; e++) {
		len = strcspn(*e, "=");
		if (strncmp(*e, "TUTTI_", 6) || known(*e, len))
			continue;
		snprintf(word, sizeof(word), "%.*s", (int)len, *e);
		near = nearest_variable(word);
		if (near)
			tt_warn("unknown variable %s; did you mean %s?", word, near);
		else
			tt_warn("unknown variable %s; tutti_info lists the known ones", word);
	}
}

/* option: for each variable the value that replaces the environment's, or NULL. */
static int load(struct tt_env *env, const char *const *option)
{
	struct tt_env_value *v = (struct tt_env_value *)env;
	const char *text;
	int i;

	memset(env, 0, sizeof(*env));
	for (i = 0; i < tt_env_count; i++) {
		v[i].by_option = option[i] != NULL;
		text = option[i] ? option[i] : getenv(tt_env_table[i].name);
		v[i].is_set = text && *text;
		if (!v[i].is_set)
			text = tt_env_table[i].def;
		if (tt_env_parse(&tt_env_table[i], text, &v[i].number)) {
			fail_value(&tt_env_table[i], text, option[i] != NULL);
			tt_env_free(env);
			return -EINVAL;
		}
		v[i].text = strdup(text);
		if (!v[i].text) {
			tt_env_free(env);
			return tt_fail(-ENOMEM, "no memory for the environment");
		}
	}
	warn_unknown();
	return 0;
}

int tt_env_load(struct tt_env *env)
{
	return tt_env_load_options(env, NULL);
}

static int fail_unknown(const char *name, size_t len)
{
	char word[64] = "TUTTI_";
	bool bare = strncmp(name, word, 6) != 0;
	size_t used = bare ? 6 : 0, i;
	const char *near;

	for (i = 0; i < len && used + i + 1 < sizeof(word); i++)
		word[used + i] = (char)(bare ? toupper((unsigned char)name[i]) : name[i]);
	word[used + i] = 0;
	near = nearest_variable(word);
	return tt_fail(
		-EINVAL, "config.options: unknown variable %.*s; %s%s", (int)(len < 64 ? len : 64),
		name, near ? "did you mean " : "tutti_info lists the known ones", near ? near : "");
}

int tt_env_load_options(struct tt_env *env, const char *const *options)
{
	const char *value[COUNT] = {NULL}, *equals;
	int i, k;

	for (k = 0; options && options[k]; k++) {
		equals = strchr(options[k], '=');
		if (!equals || equals == options[k])
			return tt_fail(-EINVAL, "config.options: '%.64s': must be VARIABLE=VALUE",
				       options[k]);
		i = find(options[k], (size_t)(equals - options[k]));
		if (i < 0)
			return fail_unknown(options[k], (size_t)(equals - options[k]));
		if (value[i])
			return tt_fail(-EINVAL, "config.options: %s is given twice",
				       tt_env_table[i].name);
		value[i] = equals + 1;
	}
	return load(env, value);
}

int tt_env_load_again(struct tt_env *env, const struct tt_env *old)
{
	const struct tt_env_value *v = (const struct tt_env_value *)old;
	const char *value[COUNT] = {NULL};
	size_t i;

	for (i = 0; i < COUNT; i++)
		if (v[i].by_option)
			value[i] = v[i].is_set ? v[i].text : "";
	return load(env, value);
}

void tt_env_free(struct tt_env *env)
{
	struct tt_env_value *v = (struct tt_env_value *)env;
	int i;

	for (i = 0; i < tt_env_count; i++)
		free((char *)v[i].text);
	memset(env, 0, sizeof(*env));
}
