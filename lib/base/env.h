/* SPDX-License-Identifier: BSD-3-Clause */
/* The environment and a caller's options, parsed once per context from the table in env.def. */
#ifndef TT_ENV_H
#define TT_ENV_H

#include <stdint.h>
#include <stdio.h>

enum tt_env_kind {
	TT_ENV_text,
	TT_ENV_flag,
	TT_ENV_count,
	TT_ENV_size,
	TT_ENV_time,
	TT_ENV_choice
};

/* A parsed variable: text for kind text and choice, number for all others. */
struct tt_env_value {
	const char *text;
	int64_t number;
	int is_set;    /* came from the environment or an option, not from the default */
	int by_option; /* an option named it, also with an empty value */
};

struct tt_env {
#define TT_ENV(field, name, kind, def, lo, hi, help) struct tt_env_value field;
#define TT_ENV_CHOICE(field, name, def, choices, help) struct tt_env_value field;
#include "lib/base/env.def"
#undef TT_ENV
#undef TT_ENV_CHOICE
};

struct tt_env_desc {
	const char *name;
	enum tt_env_kind kind;
	const char *def;
	int64_t lo, hi;
	const char *choices; /* "a|b|c" for kind choice, else NULL */
	const char *help;
};

extern const struct tt_env_desc tt_env_table[];
extern const int tt_env_count;

/*
 * Parse the environment into env. A value out of range or malformed is -EINVAL with a text that
 * names variable, value and range (tt_fail). A TUTTI_ variable that is not in the table is warned
 * about once per process, with the nearest name. Texts are copied; free with tt_env_free.
 */
int tt_env_load(struct tt_env *env);
/*
 * The same where options, "VARIABLE=VALUE" each, NULL at the end, replace the environment's values;
 * an empty value: the default. NULL: no options. An unknown variable, and one that is given twice,
 * are -EINVAL. The environment does not change.
 */
int tt_env_load_options(struct tt_env *env, const char *const *options);
/* From the environment as it is now and the options of old. */
int tt_env_load_again(struct tt_env *env, const struct tt_env *old);
void tt_env_free(struct tt_env *env);
/* Parse one value of a kind: "64K" -> 65536, "2s" -> 2000. 0 or -EINVAL. */
int tt_env_parse(const struct tt_env_desc *desc, const char *text, int64_t *number);
/* The nearest of n names to a misspelt word, NULL if none is near. */
const char *tt_nearest(const char *word, const char *const *names, int n);

#endif
