/* SPDX-License-Identifier: BSD-3-Clause */
/* A family of codecs: one file with its functions, one line in codecs.def. */
#ifndef TT_CODEC_KIND_H
#define TT_CODEC_KIND_H

#include <stdatomic.h>

#include "lib/codec/codec.h"

#define TT_CODEC_BLOCK_MAX 4096	  /* elements that share a scale, at most */
#define TT_CODEC_PARTS 1000000000 /* a fraction is in parts of this */

/* The options of all families. */
struct tt_codec_options {
	uint64_t variant; /* of a word: its place among the words */
	uint64_t block, levels, seed;
	uint64_t fraction; /* of TT_CODEC_PARTS */
	double threshold, momentum;
};

#define TT_CODEC_MAGIC 0x63646563u

struct tutti_codec {
	atomic_uint magic; /* 0: the program has freed it */
	atomic_int holders;
	const struct tt_codec_kind *kind;
	char name[TUTTI_CODEC_NAME_MAX], label[TUTTI_CODEC_NAME_MAX];
	uint64_t hash;
	struct tt_codec_options opt;
	struct tutti_codec *choice[TT_CODEC_CHOICES]; /* of "auto" */
	int nchoices;
	struct tutti_codec_user user; /* user-defined ones only; its name is the one above */
};

/* The elements that one call encodes. */
struct tt_codec_job {
	const float *in;
	float *const *state; /* or NULL */
	size_t first, count;
	uint64_t call;
};

/* An option: "key=value", or only a value if key is "". */
enum tt_codec_value {
	TT_CODEC_WORD,	  /* one of words */
	TT_CODEC_WHOLE,	  /* lo, lo + step ... hi */
	TT_CODEC_PERCENT, /* "1%": more than 0, to 100 */
	TT_CODEC_REAL	  /* lo to hi */
};
struct tt_codec_option {
	const char *key;
	enum tt_codec_value value;
	const char *usual;	  /* the default */
	size_t at;		  /* in struct tt_codec_options */
	const char *const *words; /* NULL at the end */
	double lo, hi, step;
};
#define TT_CODEC_FRACTION_OPTION(default)                                                          \
	{                                                                                          \
		.key = "", .value = TT_CODEC_PERCENT, .usual = (default),                          \
		.at = offsetof(struct tt_codec_options, fraction)                                  \
	}
#define TT_CODEC_SEED_OPTION                                                                       \
	{                                                                                          \
		.key = "seed", .value = TT_CODEC_WHOLE, .usual = "1",                              \
		.at = offsetof(struct tt_codec_options, seed), .hi = 999999999999999, .step = 1    \
	}
#define TT_CODEC_OPTIONS 3 /* of a family, at most */
#define TT_CODEC_BLOCK_OPTION                                                                      \
	{                                                                                          \
		.key = "block", .value = TT_CODEC_WHOLE, .usual = "256",                           \
		.at = offsetof(struct tt_codec_options, block), .lo = 16,                          \
		.hi = TT_CODEC_BLOCK_MAX, .step = 16                                               \
	}

struct tt_codec_kind {
	const char *name;
	const char *form;  /* of names, for tutti_info */
	const char *about; /* one line */
	bool fixed, sparse, draws;
	int states;
	size_t most; /* elements of one encoding; 0: as many as for all codecs */
	struct tt_codec_option option[TT_CODEC_OPTIONS]; /* key NULL at the end */
	size_t (*bound)(const struct tutti_codec *c, size_t count);
	size_t (*align)(const struct tutti_codec *c);
	/* count is not 0. The rest as tt_codec_encode and so on. */
	int (*encode)(const struct tutti_codec *c, const struct tt_codec_job *job, void *out,
		      size_t *len);
	int (*decode)(const struct tutti_codec *c, const void *in, size_t len, size_t first,
		      size_t count, float *out, bool add);
};

#define TT_CODEC(kind) extern const struct tt_codec_kind kind;
#include "lib/codec/codecs.def"
#undef TT_CODEC
/* Not in the list: */
extern const struct tt_codec_kind tt_codec_user; /* it has no form of a name */
extern const struct tt_codec_kind tt_codec_auto; /* it names other codecs */

/* codec_name.c: sets kind, opt and name from text. 0, or -EINVAL with a text. */
int tt_codec_parse(struct tutti_codec *c, const char *text);
/*
 * auto_codec.c: whether text is "auto" or begins with "auto:", and the same as tt_codec_parse for
 * such a text. The codecs of the list are held.
 */
bool tt_codec_is_auto(const char *text);
int tt_codec_parse_auto(struct tutti_codec *c, const char *text);

/* user_codec.c: -EINVAL, with a text, if the bound of count elements is none. count is not 0. */
int tt_codec_check_user(const struct tutti_codec *c, size_t count);

/* codec.c: bytes that are not an encoding of count elements; -EPROTO. */
int tt_codec_refuse(const struct tutti_codec *c, size_t len, size_t count, const char *why);
/* The same for a family of fixed length; 0 if the length is right. */
int tt_codec_check_length(const struct tutti_codec *c, size_t len, size_t count);
/* 1 for codecs that encode element by element, opt.block for those with blocks. */
size_t tt_codec_align_one(const struct tutti_codec *c);
size_t tt_codec_align_block(const struct tutti_codec *c);
/* Where out has no state: NULL. */
static inline float *tt_codec_residual(const struct tt_codec_job *job)
{
	return job->state ? job->state[0] : NULL;
}

#endif
