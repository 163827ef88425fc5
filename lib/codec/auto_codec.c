/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * "auto:CODEC,CODEC...": the codecs that a call may choose from, by the costs of its communicator
 * (lib/engine/codec_choice.c). It encodes nothing itself.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/error.h"
#include "lib/codec/codec_kind.h"

#define USUAL "fp16,int8" /* lose little, also without feedback */

bool tt_codec_is_auto(const char *text)
{
	return !strncmp(text, "auto", 4) && (!text[4] || text[4] == ':');
}

static size_t bound(const struct tutti_codec *c, size_t count)
{
	size_t most = count * sizeof(float), bytes;
	int i;

	for (i = 0; i < c->nchoices; i++) {
		bytes = tt_codec_bound(c->choice[i], count);
		most = bytes > most ? bytes : most;
	}
	return most;
}

static size_t align(const struct tutti_codec *c)
{
	(void)c;
	return 0;
}

static int refuse(const struct tutti_codec *c)
{
	return tt_fail(-EOPNOTSUPP,
		       "codec '%s': it is for all-reduces, which choose from it; encode and decode "
		       "with one of its codecs",
		       c->name);
}

static int encode(const struct tutti_codec *c, const struct tt_codec_job *job, void *out,
		  size_t *len)
{
	(void)job;
	(void)out;
	(void)len;
	return refuse(c);
}

static int decode(const struct tutti_codec *c, const void *in, size_t len, size_t first,
		  size_t count, float *out, bool add)
{
	(void)in;
	(void)len;
	(void)first;
	(void)count;
	(void)out;
	(void)add;
	return refuse(c);
}

/* The family alone, if the options are the defaults; else the full name. */
static int short_name(const struct tutti_codec *codec, char *name, size_t size)
{
	struct tutti_codec *usual;
	int err;

	snprintf(name, size, "%.*s", (int)strcspn(codec->name, ":"), codec->name);
	err = tt_codec_new(name, &usual);
	if (err)
		return err;
	if (strcmp(usual->name, codec->name) != 0)
		snprintf(name, size, "%s", codec->name);
	tt_codec_release(usual);
	return 0;
}

/* Takes the codec over. */
static int add(struct tutti_codec *c, const char *text, struct tutti_codec *codec)
{
	char name[TUTTI_CODEC_NAME_MAX];
	size_t len = strlen(c->name);
	int i, err = short_name(codec, name, sizeof(name));

	if (!err && !strncmp(codec->name, "dgc", 3))
		err = tt_fail(-EINVAL,
			      "codec '%s': dgc takes the place of the optimizer's momentum, so "
			      "nothing can be chosen in its place",
			      text);
	for (i = 0; !err && i < c->nchoices; i++)
		if (!strcmp(c->choice[i]->name, codec->name))
			err = tt_fail(-EINVAL, "codec '%s': %s is given twice", text, codec->name);
	if (!err && c->nchoices == TT_CODEC_CHOICES)
		err = tt_fail(-EINVAL, "codec '%s': more than %d codecs", text, TT_CODEC_CHOICES);
	if (!err && len + 1 + strlen(name) >= sizeof(c->name))
		err = tt_fail(-EINVAL, "codec '%s': its full name has more than %d bytes", text,
			      TUTTI_CODEC_NAME_MAX - 1);
	if (err) {
		tt_codec_release(codec);
		return err;
	}
	snprintf(c->name + len, sizeof(c->name) - len, "%c%s", c->nchoices ? ',' : ':', name);
	c->choice[c->nchoices++] = codec;
	return 0;
}

/* Ends the first codec of a list, whose options may have commas, and returns the rest. */
static char *next_codec(char *list)
{
	char *end = strchr(list, ',');

	for (; end; end = strchr(end + 1, ','))
		if (end[1 + strcspn(end + 1, ",:=")] != '=') {
			*end = 0;
			return end + 1;
		}
	return NULL;
}

int tt_codec_parse_auto(struct tutti_codec *c, const char *text)
{
	char list[TUTTI_CODEC_NAME_MAX], *word, *next;
	struct tutti_codec *codec;
	int err = 0;

	if (strlen(text) >= sizeof(list))
		return tt_fail(-EINVAL, "codec '%.20s...': the name has %zu bytes; at most %zu",
			       text, strlen(text), sizeof(list) - 1);
	c->kind = &tt_codec_auto;
	snprintf(c->name, sizeof(c->name), "%s", tt_codec_auto.name);
	snprintf(list, sizeof(list), "%s", text[4] ? text + 5 : USUAL);
	for (word = list; !err && word; word = next) {
		next = next_codec(word);
		if (!*word)
			return tt_fail(-EINVAL, "codec '%s': the name of a codec is empty", text);
		if (tt_codec_is_auto(word))
			return tt_fail(-EINVAL, "codec '%s': auto cannot be one of its codecs",
				       text);
		err = tt_codec_new(word, &codec);
		if (!err)
			err = add(c, text, codec);
	}
	return err;
}

const struct tt_codec_kind tt_codec_auto = {
	.name = "auto",
	.form = "auto:CODEC,CODEC...",
	.about = "the fastest of these (fp16,int8) for each all-reduce, or none if none pays",
	.states = 1,
	.bound = bound,
	.align = align,
	.encode = encode,
	.decode = decode,
};
