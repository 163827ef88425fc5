/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Names of codecs: FAMILY[:OPTION[,OPTION]...], an option being KEY=VALUE or, the first, a value
 * alone. Numbers are read here and not by strtod, which depends on the locale.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/env.h"
#include "lib/base/error.h"
#include "lib/codec/codec_kind.h"

#define MOST_DIGITS 1000000000000000u /* digits below it are exact in a double */
#define MOST_TENS 22		      /* so is 10 to this */

static const struct tt_codec_kind *const kinds[] = {
#define TT_CODEC(kind) &kind,
#include "lib/codec/codecs.def"
#undef TT_CODEC
};
enum { KINDS = sizeof(kinds) / sizeof(*kinds) };

const char *tt_codec_family(const char *name)
{
	size_t len = strcspn(name, ":");
	int i;

	for (i = 0; i < KINDS; i++)
		if (strlen(kinds[i]->name) == len && !strncmp(name, kinds[i]->name, len))
			return kinds[i]->name;
	return tt_codec_is_auto(name) ? tt_codec_auto.name : NULL;
}

void tt_codec_each(void (*fn)(const char *form, const char *about, void *arg), void *arg)
{
	int i;

	for (i = 0; i < KINDS; i++)
		fn(kinds[i]->form, kinds[i]->about, arg);
	fn(tt_codec_auto.form, tt_codec_auto.about, arg);
}

/* A decimal number: digits * 10^tens, without zeros at the end of the digits. */
struct decimal {
	uint64_t digits;
	int tens;
};

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* Digits at *s, one at least; behind a point each is a tenth. */
static bool read_digits(const char **s, struct decimal *d, bool tenths)
{
	const char *from = *s;

	for (; is_digit(**s); (*s)++) {
		if (d->digits >= MOST_DIGITS / 10)
			return false;
		d->digits = 10 * d->digits + (uint64_t)(**s - '0');
		d->tens -= tenths;
	}
	return *s > from;
}

/* e[+-]digits */
static bool read_exponent(const char **s, struct decimal *d)
{
	int tens = 0, sign = 1;

	(*s)++;
	if (**s == '+' || **s == '-')
		sign = *(*s)++ == '-' ? -1 : 1;
	if (!is_digit(**s))
		return false;
	for (; is_digit(**s) && tens < 1000; (*s)++)
		tens = 10 * tens + **s - '0';
	d->tens += sign * tens;
	return true;
}

/* digits[.digits][e[+-]digits], then tail. false: another text, or one too long to be exact. */
static bool read_decimal(const char *s, const char *tail, struct decimal *d)
{
	*d = (struct decimal){0, 0};
	if (!read_digits(&s, d, false))
		return false;
	if (*s == '.' && (s++, !read_digits(&s, d, true)))
		return false;
	if ((*s == 'e' || *s == 'E') && !read_exponent(&s, d))
		return false;
	while (d->digits && d->digits % 10 == 0) {
		d->digits /= 10;
		d->tens++;
	}
	if (!d->digits)
		d->tens = 0;
	return !strcmp(s, tail) && d->tens >= -MOST_TENS && d->tens <= MOST_TENS;
}

static double decimal_value(const struct decimal *d)
{
	double ten = 1;
	int i;

	for (i = 0; i < d->tens || i < -d->tens; i++)
		ten *= 10;
	return d->tens < 0 ? (double)d->digits / ten : (double)d->digits * ten;
}

/* 0: not a fraction. */
static uint64_t decimal_percent(const struct decimal *d)
{
	uint64_t parts = d->digits;
	int tens = d->tens + 7; /* TT_CODEC_PARTS is 10^9 */

	if (tens < 0)
		return 0;
	for (; tens && parts <= TT_CODEC_PARTS; tens--)
		parts *= 10;
	return parts <= TT_CODEC_PARTS ? parts : 0;
}

/* The same number has the same text. */
static void print_decimal(const struct decimal *d, const char *tail, char *text, size_t size)
{
	uint64_t ten = 1;
	int i;

	if (d->tens > 6 || d->tens < -9) {
		snprintf(text, size, "%" PRIu64 "e%d%s", d->digits, d->tens, tail);
		return;
	}
	for (i = 0; i < d->tens || i < -d->tens; i++)
		ten *= 10;
	if (d->tens >= 0)
		snprintf(text, size, "%" PRIu64 "%s", d->digits * ten, tail);
	else
		snprintf(text, size, "%" PRIu64 ".%0*" PRIu64 "%s", d->digits / ten, -d->tens,
			 d->digits % ten, tail);
}

/* A name that is read: all of it, for texts, and the options as they are to be printed. */
struct reading {
	const char *text;
	struct tutti_codec *c;
	char value[TT_CODEC_OPTIONS][32];
};

/* The option's values that are permitted, in words. */
static void print_range(const struct tt_codec_option *o, char *text, size_t size)
{
	size_t len = 0;
	int i;

	if (o->value == TT_CODEC_WORD) {
		for (i = 0; o->words[i] && len < size; i++)
			len += (size_t)snprintf(text + len, size - len, "%s%s", i ? ", " : "",
						o->words[i]);
		return;
	}
	if (o->value == TT_CODEC_PERCENT)
		snprintf(text, size, "more than 0%% to 100%%, at most 7 decimals, as in %s",
			 o->usual);
	else if (o->value == TT_CODEC_REAL)
		snprintf(text, size, "%g to %g, at most 15 digits, as in %s", o->lo, o->hi,
			 o->usual);
	else if (o->step > 1)
		snprintf(text, size, "multiples of %.0f from %.0f to %.0f", o->step, o->lo, o->hi);
	else
		snprintf(text, size, "whole numbers from %.0f to %.0f", o->lo, o->hi);
}

static int bad_value(const struct reading *r, const struct tt_codec_option *o, const char *value)
{
	char range[128];

	print_range(o, range, sizeof(range));
	return tt_fail(-EINVAL, "codec '%s': %s%s'%s' is not permitted; permitted: %s", r->text,
		       o->key, *o->key ? " " : "", value, range);
}

static int read_word(struct reading *r, const struct tt_codec_option *o, const char *value,
		     uint64_t *to)
{
	const char *near;
	int i, n = 0;

	for (; o->words[n]; n++)
		;
	for (i = 0; i < n; i++)
		if (!strcmp(o->words[i], value)) {
			*to = (uint64_t)i;
			return 0;
		}
	near = tt_nearest(value, o->words, n);
	return near ? tt_fail(-EINVAL, "codec '%s': unknown '%s'; did you mean '%s'?", r->text,
			      value, near)
		    : bad_value(r, o, value);
}

/* The value of an option, also into the text that names it. */
static int read_value(struct reading *r, const struct tt_codec_option *o, const char *value)
{
	char *text = r->value[o - r->c->kind->option];
	const size_t size = sizeof(r->value[0]);
	void *to = (char *)&r->c->opt + o->at;
	struct decimal d;
	double real;

	if (o->value == TT_CODEC_WORD) {
		snprintf(text, size, "%s", value);
		return read_word(r, o, value, to);
	}
	if (!read_decimal(value, o->value == TT_CODEC_PERCENT ? "%" : "", &d))
		return bad_value(r, o, value);
	real = decimal_value(&d);
	print_decimal(&d, o->value == TT_CODEC_PERCENT ? "%" : "", text, size);
	if (o->value == TT_CODEC_PERCENT) {
		*(uint64_t *)to = decimal_percent(&d);
		return *(uint64_t *)to ? 0 : bad_value(r, o, value);
	}
	if (real < o->lo || real > o->hi ||
	    (o->value == TT_CODEC_WHOLE && (d.tens < 0 || (uint64_t)real % (uint64_t)o->step)))
		return bad_value(r, o, value);
	if (o->value == TT_CODEC_REAL)
		*(double *)to = real;
	else
		*(uint64_t *)to = (uint64_t)real;
	return 0;
}

static int unknown_option(const struct reading *r, const char *key)
{
	const struct tt_codec_option *o = r->c->kind->option;
	const char *names[TT_CODEC_OPTIONS], *near;
	char known[96] = "";
	int i, n = 0;

	for (i = 0; i < TT_CODEC_OPTIONS && o[i].key; i++)
		if (*o[i].key) {
			strcat(strcat(known, n ? ", " : ""), o[i].key);
			names[n++] = o[i].key;
		}
	near = tt_nearest(key, names, n);
	if (near)
		return tt_fail(-EINVAL, "codec '%s': unknown option '%s'; did you mean '%s'?",
			       r->text, key, near);
	if (!n)
		return tt_fail(-EINVAL, "codec '%s': unknown option '%s'; %s has none with a name",
			       r->text, key, r->c->kind->name);
	return tt_fail(-EINVAL, "codec '%s': unknown option '%s'; known: %s", r->text, key, known);
}

/* Modifies word. */
static int read_option(struct reading *r, char *word)
{
	const struct tt_codec_option *o = r->c->kind->option;
	char *equal = strchr(word, '=');
	const char *key = equal ? word : "", *value = equal ? equal + 1 : word;
	int i;

	if (equal)
		*equal = 0;
	if (equal && !*key)
		return tt_fail(-EINVAL, "codec '%s': '=%s' has no option before it", r->text,
			       value);
	for (i = 0; !equal && i < TT_CODEC_OPTIONS && o[i].key; i++)
		if (*o[i].key && !strcmp(o[i].key, word))
			return tt_fail(-EINVAL,
				       "codec '%s': option '%s' has no value; write %s=%s, for "
				       "example",
				       r->text, word, word, o[i].usual);
	for (i = 0; i < TT_CODEC_OPTIONS && o[i].key; i++)
		if (!strcmp(o[i].key, key)) {
			if (*r->value[i])
				return tt_fail(-EINVAL, "codec '%s': %s%sis given twice", r->text,
					       *key ? key : "the value", *key ? " " : " ");
			return read_value(r, &o[i], value);
		}
	if (equal || !*word)
		return unknown_option(r, key);
	return tt_fail(-EINVAL, "codec '%s': '%s' is not KEY=VALUE; permitted: %s", r->text, word,
		       r->c->kind->form);
}

static int find_kind(struct reading *r, const char *name)
{
	const char *names[KINDS + 1], *near;
	char known[160] = "";
	int i;

	for (i = 0; i < KINDS; i++) {
		names[i] = kinds[i]->name;
		strcat(strcat(known, i ? ", " : ""), names[i]);
		if (!strcmp(name, names[i])) {
			r->c->kind = kinds[i];
			return 0;
		}
	}
	names[KINDS] = tt_codec_auto.name;
	strcat(strcat(known, ", "), tt_codec_auto.name);
	near = tt_nearest(name, names, KINDS + 1);
	if (near)
		return tt_fail(-EINVAL, "codec '%s': unknown codec '%s'; did you mean '%s'?",
			       r->text, name, near);
	return tt_fail(-EINVAL, "codec '%s': unknown codec '%s'; known: %s", r->text, name, known);
}

/* Defaults of options that were not given, and the whole name. */
static int complete(struct reading *r)
{
	const struct tt_codec_option *o = r->c->kind->option;
	size_t len = strlen(r->c->kind->name);
	int i, err;

	memcpy(r->c->name, r->c->kind->name, len + 1);
	for (i = 0; i < TT_CODEC_OPTIONS && o[i].key; i++) {
		err = *r->value[i] ? 0 : read_value(r, &o[i], o[i].usual);
		if (err)
			return err;
		len += (size_t)snprintf(r->c->name + len, sizeof(r->c->name) - len, "%c%s%s%s",
					i ? ',' : ':', o[i].key, *o[i].key ? "=" : "", r->value[i]);
		if (len >= sizeof(r->c->name))
			return tt_fail(-EINVAL, "codec '%s': its full name has more than %d bytes",
				       r->text, TUTTI_CODEC_NAME_MAX - 1);
	}
	return 0;
}

int tt_codec_parse(struct tutti_codec *c, const char *text)
{
	struct reading r = {.text = text, .c = c};
	char copy[TUTTI_CODEC_NAME_MAX], *word, *next;
	int err;

	if (strlen(text) >= sizeof(copy))
		return tt_fail(-EINVAL, "codec '%.20s...': the name has %zu bytes; at most %zu",
			       text, strlen(text), sizeof(copy) - 1);
	memcpy(copy, text, strlen(text) + 1);
	word = strchr(copy, ':');
	if (word)
		*word++ = 0;
	err = find_kind(&r, copy);
	for (; !err && word; word = next) {
		next = strchr(word, ',');
		if (next)
			*next++ = 0;
		err = read_option(&r, word);
	}
	return err ? err : complete(&r);
}
