/* SPDX-License-Identifier: BSD-3-Clause */
/* Codecs, for use without a job. */
#include <errno.h>
#include <string.h>

#include "lib/api/api.h"
#include "lib/codec/codec.h"

int tutti_codec_create(const char *name, struct tutti_codec **codec)
{
	if (!name || !codec)
		return tt_fail(-EINVAL, "tutti_codec_create: %s is NULL", name ? "codec" : "name");
	return tt_codec_new(name, codec);
}

/* A name that names one codec everywhere, and that texts can show. */
static int check_name(const char *name)
{
	const char *family = tt_codec_family(name), *c;

	if (!*name || strlen(name) >= TUTTI_CODEC_NAME_MAX)
		return tt_fail(-EINVAL,
			       "tutti_codec_create_user: the name has %zu bytes, not 1 to "
			       "%d",
			       strlen(name), TUTTI_CODEC_NAME_MAX - 1);
	for (c = name; *c; c++)
		if ((unsigned char)*c < ' ' || *c == 0x7f)
			return tt_fail(-EINVAL,
				       "tutti_codec_create_user: byte %d of the name is the "
				       "control character 0x%02x",
				       (int)(c - name), (unsigned)*c);
	if (family)
		return tt_fail(-EINVAL,
			       "tutti_codec_create_user: '%s' is a name of the built-in codec %s; "
			       "choose another one",
			       name, family);
	return 0;
}

static int check_user(const struct tutti_codec_user *user)
{
	const char *missing = !user->name     ? "name"
			      : !user->bound  ? "bound"
			      : !user->encode ? "encode"
			      : !user->decode ? "decode"
					      : NULL;

	if (missing)
		return tt_fail(-EINVAL, "tutti_codec_create_user: user->%s is NULL", missing);
	if (user->flags & ~TUTTI_CODEC_FIXED)
		return tt_fail(-EINVAL,
			       "tutti_codec_create_user: flags are 0x%x; known: "
			       "TUTTI_CODEC_FIXED (0x%x)",
			       user->flags, TUTTI_CODEC_FIXED);
	return check_name(user->name);
}

int tutti_codec_create_user(const struct tutti_codec_user *user, struct tutti_codec **codec)
{
	static const struct tt_sized sized = TT_SIZED("user", tutti_codec_user, arg);
	struct tutti_codec_user own;
	int err;

	if (!user || !codec)
		return tt_fail(-EINVAL, "tutti_codec_create_user: %s is NULL",
			       user ? "codec" : "user");
	user = tt_sized_read(&sized, __func__, user, &own);
	if (!user)
		return -EINVAL;
	err = check_user(user);
	return err ? err : tt_codec_new_user(user, codec);
}

int tutti_codec_free(struct tutti_codec *codec)
{
	int err = tt_codec_check(__func__, codec);

	if (codec && !err)
		tt_codec_give_up(codec);
	return err;
}

const char *tutti_codec_name(const struct tutti_codec *codec)
{
	return codec && !tt_codec_check(__func__, codec) ? tt_codec_name(codec) : "";
}

size_t tutti_codec_bound(const struct tutti_codec *codec, size_t count)
{
	return codec && !tt_codec_check(__func__, codec) ? tt_codec_bound(codec, count) : 0;
}

int tutti_codec_states(const struct tutti_codec *codec)
{
	return codec && !tt_codec_check(__func__, codec) ? tt_codec_states(codec) : 0;
}

/* The arguments that all three have. vector: its name in the call. */
static int check(const char *call, const struct tutti_codec *codec, const char *vector,
		 const void *elements, size_t count, enum tutti_datatype datatype)
{
	int err = tt_codec_check(call, codec);

	if (err)
		return err;
	if (!codec)
		return tt_fail(-EINVAL, "%s: codec is NULL", call);
	if (datatype != TUTTI_FLOAT32)
		return tt_fail(-EINVAL, "%s: codecs are for float32, not %s", call,
			       tt_datatype_name(datatype));
	if (count && !elements)
		return tt_fail(-EINVAL, "%s: %s is NULL", call, vector);
	return 0;
}

int tutti_codec_encode(const struct tutti_codec *codec, const void *in, size_t count,
		       enum tutti_datatype datatype, float *state, uint64_t call, void *out,
		       size_t *len)
{
	float *states[TT_CODEC_STATES] = {state, state ? state + count : NULL};
	int err = check(__func__, codec, "in", in, count, datatype);

	if (err)
		return err;
	if (!len || (count && !out))
		return tt_fail(-EINVAL, "tutti_codec_encode: %s is NULL", len ? "out" : "len");
	return tt_codec_encode(codec, in, state ? states : NULL, 0, count, call, out, len);
}

int tutti_codec_decode(const struct tutti_codec *codec, const void *in, size_t len, void *out,
		       size_t count, enum tutti_datatype datatype)
{
	int err = check(__func__, codec, "out", out, count, datatype);

	if (!err && len && !in)
		err = tt_fail(-EINVAL, "tutti_codec_decode: in is NULL");
	return err ? err : tt_codec_decode(codec, in, len, 0, count, out);
}

int tutti_codec_decode_add(const struct tutti_codec *codec, const void *in, size_t len, void *out,
			   size_t count, enum tutti_datatype datatype)
{
	int err = check(__func__, codec, "out", out, count, datatype);

	if (!err && len && !in)
		err = tt_fail(-EINVAL, "tutti_codec_decode_add: in is NULL");
	return err ? err : tt_codec_decode_add(codec, in, len, 0, count, out);
}
