/* SPDX-License-Identifier: BSD-3-Clause */
/* Making and freeing codecs; calls of a codec's family. */
#include "lib/codec/codec.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/error.h"
#include "lib/base/hash.h"
#include "lib/codec/codec_kernels.h"
#include "lib/codec/codec_kind.h"

/* Bounds of more elements would not fit a size_t. */
#define MOST_ELEMENTS (SIZE_MAX / 128)
#define NAME_SHOWN 24 /* bytes of a name in a label */

static uint64_t hash_name(const char *name)
{
	uint64_t h = 0;

	for (; *name; name++)
		h = tt_hash_add(h, (unsigned char)*name);
	return h;
}

static int make(const struct tutti_codec *like, struct tutti_codec **codec)
{
	struct tutti_codec *c = malloc(sizeof(*c));

	if (!c)
		return tt_fail(-ENOMEM, "codec '%s': no memory for it", like->name);
	memcpy(c, like, sizeof(*c));
	atomic_init(&c->magic, TT_CODEC_MAGIC);
	atomic_init(&c->holders, 1);
	c->hash = hash_name(c->name);
	*codec = c;
	return 0;
}

static void release_choices(struct tutti_codec *c)
{
	while (c->nchoices)
		tt_codec_release(c->choice[--c->nchoices]);
}

int tt_codec_new(const char *name, struct tutti_codec **codec)
{
	struct tutti_codec like = {.kind = NULL};
	int err = tt_codec_is_auto(name) ? tt_codec_parse_auto(&like, name)
					 : tt_codec_parse(&like, name);

	if (!err)
		err = make(&like, codec);
	if (err)
		release_choices(&like);
	return err;
}

int tt_codec_new_user(const struct tutti_codec_user *user, struct tutti_codec **codec)
{
	struct tutti_codec like = {.kind = &tt_codec_user, .user = *user};
	char name[NAME_SHOWN + 1];
	int err;

	memcpy(like.name, user->name, strlen(user->name) + 1);
	like.user.name = NULL;
	like.user.align = user->align ? user->align : 1;
	err = make(&like, codec);
	if (err)
		return err;
	/* other plans than those of a codec of this name with other properties */
	(*codec)->hash = tt_hash_add(tt_hash_add((*codec)->hash, user->flags), like.user.align);
	if (strlen(like.name) > NAME_SHOWN) /* names that begin alike look different */
		snprintf(name, sizeof(name), "%.*s~%08x", NAME_SHOWN - 9, like.name,
			 (unsigned)hash_name(like.name));
	else
		snprintf(name, sizeof(name), "%.*s", NAME_SHOWN, like.name);
	snprintf((*codec)->label, sizeof(like.label), "%s (%s, align %zu)", name,
		 user->flags & TUTTI_CODEC_FIXED ? "fixed" : "varies", like.user.align);
	return 0;
}

const char *tt_codec_label(const struct tutti_codec *c)
{
	return *c->label ? c->label : c->name;
}

const char *tt_codec_name(const struct tutti_codec *c)
{
	return c->name;
}

uint64_t tt_codec_hash(const struct tutti_codec *c)
{
	return c->hash;
}

struct tutti_codec *tt_codec_hold(struct tutti_codec *c)
{
	atomic_fetch_add_explicit(&c->holders, 1, memory_order_relaxed);
	return c;
}

int tt_codec_check(const char *call, const struct tutti_codec *c)
{
	return c && atomic_load(&c->magic) != TT_CODEC_MAGIC
		       ? tt_fail(-EINVAL, "%s: codec is no codec, or has been freed", call)
		       : 0;
}

void tt_codec_give_up(struct tutti_codec *c)
{
	atomic_store(&c->magic, 0);
	tt_codec_release(c);
}

void tt_codec_release(struct tutti_codec *c)
{
	if (atomic_fetch_sub_explicit(&c->holders, 1, memory_order_acq_rel) > 1)
		return;
	release_choices(c);
	free(c);
}

static size_t most_elements(const struct tutti_codec *c)
{
	return c->kind->most ? c->kind->most : MOST_ELEMENTS;
}

size_t tt_codec_bound(const struct tutti_codec *c, size_t count)
{
	if (count > most_elements(c))
		return SIZE_MAX;
	return count ? c->kind->bound(c, count) : 0;
}

static int too_many(const struct tutti_codec *c, size_t count)
{
	return tt_fail(-EINVAL, "codec '%s': %zu elements are too many; at most %zu", c->name,
		       count, most_elements(c));
}

int tt_codec_check_bound(const struct tutti_codec *c, size_t count)
{
	if (!tt_codec_align(c) && count > most_elements(c)) /* one encoding has all */
		return too_many(c, count);
	if (c->kind != &tt_codec_user || !count || count > MOST_ELEMENTS)
		return 0;
	return tt_codec_check_user(c, count);
}

bool tt_codec_fixed(const struct tutti_codec *c)
{
	return c->kind->fixed || (c->user.flags & TUTTI_CODEC_FIXED);
}

size_t tt_codec_align(const struct tutti_codec *c)
{
	return c->kind->align(c);
}

int tt_codec_states(const struct tutti_codec *c)
{
	return c->kind->states;
}

struct tutti_codec *const *tt_codec_choices(const struct tutti_codec *c, int *n)
{
	*n = c->nchoices;
	return c->nchoices ? c->choice : NULL;
}

bool tt_codec_sparse(const struct tutti_codec *c)
{
	return c->kind->sparse;
}

bool tt_codec_draws(const struct tutti_codec *c)
{
	return c->kind->draws;
}

int tt_codec_encode(const struct tutti_codec *c, const float *in, float *const *state, size_t first,
		    size_t count, uint64_t call, void *out, size_t *len)
{
	const struct tt_codec_job job = {
		.in = in, .state = state, .first = first, .count = count, .call = call};

	if (count > most_elements(c))
		return too_many(c, count);
	if (count)
		return c->kind->encode(c, &job, out, len);
	*len = 0;
	return 0;
}

static int decode(const struct tutti_codec *c, const void *in, size_t len, size_t first,
		  size_t count, float *out, bool add)
{
	if (count > most_elements(c))
		return too_many(c, count);
	if (count)
		return c->kind->decode(c, in, len, first, count, out, add);
	return len ? tt_codec_refuse(c, len, 0, "must be empty") : 0;
}

int tt_codec_decode(const struct tutti_codec *c, const void *in, size_t len, size_t first,
		    size_t count, float *out)
{
	return decode(c, in, len, first, count, out, false);
}

int tt_codec_decode_add(const struct tutti_codec *c, const void *in, size_t len, size_t first,
			size_t count, float *out)
{
	return decode(c, in, len, first, count, out, true);
}

int tt_codec_refuse(const struct tutti_codec *c, size_t len, size_t count, const char *why)
{
	return tt_fail(-EPROTO, "codec '%s': %zu bytes are no encoding of %zu elements: %s",
		       c->name, len, count, why);
}

int tt_codec_check_length(const struct tutti_codec *c, size_t len, size_t count)
{
	size_t right = c->kind->bound(c, count);

	if (len == right)
		return 0;
	return tt_fail(-EPROTO,
		       "codec '%s': %zu bytes are no encoding of %zu elements, which has %zu",
		       c->name, len, count, right);
}

size_t tt_codec_align_one(const struct tutti_codec *c)
{
	(void)c;
	return 1;
}

size_t tt_codec_align_block(const struct tutti_codec *c)
{
	return c->opt.block;
}

bool tt_codec_clear(float *residual, const float *sum, size_t count)
{
	bool left = false;
	size_t i;

	if (tt_codec_kernels()->finite(sum, NULL, NULL, 0, count)) {
		memset(residual, 0, count * sizeof(*residual));
		return false;
	}
	for (i = 0; i < count; i++) {
		if (isfinite(sum[i]))
			residual[i] = 0;
		left |= residual[i] != 0;
	}
	return left;
}
