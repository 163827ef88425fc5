/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Codecs: lossy encodings of float32 vectors, for compressed collectives and for use alone.
 *
 * A codec is made from a string and never changes: any number of threads and communicators use one
 * at the same time. tutti_codec(7) has the table of codecs, their formulas and papers.
 *
 * Encodings are in the byte order of the host.
 */
#ifndef TUTTI_CODEC_H
#define TUTTI_CODEC_H

#include <tutti/coll.h>

#pragma GCC visibility push(default)
#ifdef __cplusplus
extern "C" {
#endif

struct tutti_codec;

#define TUTTI_CODEC_NAME_MAX 64 /* bytes of a name, with the NUL */

/**
 * tutti_codec_create - make the codec that name describes: "fp16", "bf16", "fp8:e4m3", "fp8:e5m2",
 * "int8:block=256", "qsgd:levels=15,block=256,seed=1", "onebit:block=256", "topk:1%",
 * "threshold:1e-3", "randomk:1%,seed=1", "dgc:0.1%,momentum=0.9"; or "auto:fp16,int8", from which
 * all-reduces choose. Needs no context. Options may be left out. A wrong name is -EINVAL;
 * tutti_last_error tells what is wrong, the permitted range or the nearest name.
 */
int tutti_codec_create(const char *name, struct tutti_codec **codec);

#define TUTTI_CODEC_FIXED 1u /* flags: every encoding of count elements has bound(count) bytes */

/*
 * A codec of the caller's. The callbacks may run in any thread that advances operations, several at
 * once, and must not call tutti. They return 0 or a negative code, which fails the call. decode
 * must check what it reads: an encoding may come from another process. Equal input must give equal
 * bytes on all ranks.
 */
struct tutti_codec_user {
	size_t size; /* sizeof(struct tutti_codec_user) */
	/*
	 * Copied; less than TUTTI_CODEC_NAME_MAX bytes, no control characters, not of a built-in
	 * family. The same on all ranks, as are flags and align.
	 */
	const char *name;
	unsigned flags; /* TUTTI_CODEC_FIXED or 0 */
	/* Elements that are encoded together: a vector is only divided at multiples. 0: 1. */
	size_t align;
	/*
	 * The most bytes of an encoding of count elements: 1 to 64 * count + 4096, not less for
	 * more elements.
	 */
	size_t (*bound)(size_t count, void *arg);
	/*
	 * Encode in[0 .. count - 1], elements first and up of the vector, to out, which has room
	 * for bound(count) bytes; set *len. call numbers the encodings of one vector.
	 */
	int (*encode)(const float *in, size_t count, uint64_t first, uint64_t call, void *out,
		      size_t *len, void *arg);
	/* Decode the len bytes at in to out[0 .. count - 1]. */
	int (*decode)(const void *in, size_t len, uint64_t first, float *out, size_t count,
		      void *arg);
	void *arg; /* passed on */
};

/** tutti_codec_create_user - make a codec of the caller's callbacks; the struct is copied. */
int tutti_codec_create_user(const struct tutti_codec_user *user, struct tutti_codec **codec);

/** tutti_codec_free - free a codec; requests with the codec keep it. NULL is no error. */
int tutti_codec_free(struct tutti_codec *codec);

/** tutti_codec_name - the name with all options, as tutti_codec_create takes it; "" for NULL. */
const char *tutti_codec_name(const struct tutti_codec *codec);

/**
 * tutti_codec_chosen - set *name to what an all-reduce of count float32 on comm with this codec
 * uses: for "auto" the name of one of its codecs or "plain", which is none of them; for others the
 * name of the codec. Local, and the same on all ranks. *name is valid as long as codec.
 */
int tutti_codec_chosen(struct tutti_comm *comm, struct tutti_codec *codec, size_t count,
		       const char **name);

/** tutti_codec_bound - the most bytes that an encoding of count elements has. */
size_t tutti_codec_bound(const struct tutti_codec *codec, size_t count);

/** tutti_codec_states - how many vectors of float32 the state for feedback has: 1 or 2. */
int tutti_codec_states(const struct tutti_codec *codec);

/**
 * tutti_codec_encode - encode count elements at in to out, which has room for tutti_codec_bound
 * bytes, and set *len to the bytes of the encoding.
 *
 * state: NULL, or tutti_codec_states vectors of count float32, one after the other, all 0 at first:
 * the first is the residual, what earlier encodings left out, which is added to the input and
 * replaced. call numbers the encodings of one vector: random bits depend on the seed, call and the
 * index of the element only. datatype: TUTTI_FLOAT32.
 */
int tutti_codec_encode(const struct tutti_codec *codec, const void *in, size_t count,
		       enum tutti_datatype datatype, float *state, uint64_t call, void *out,
		       size_t *len);

/**
 * tutti_codec_decode - decode the len bytes at in, an encoding of count elements, to out.
 * -EPROTO, with out undefined: the bytes are no such encoding. They may come from anywhere.
 */
int tutti_codec_decode(const struct tutti_codec *codec, const void *in, size_t len, void *out,
		       size_t count, enum tutti_datatype datatype);

/** tutti_codec_decode_add - as tutti_codec_decode, added to the elements at out. */
int tutti_codec_decode_add(const struct tutti_codec *codec, const void *in, size_t len, void *out,
			   size_t count, enum tutti_datatype datatype);

#ifdef __cplusplus
}
#endif
#pragma GCC visibility pop
#endif
