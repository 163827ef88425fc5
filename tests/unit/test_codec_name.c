/* SPDX-License-Identifier: BSD-3-Clause */
/* Names of codecs, wrong arguments of their calls, and user-defined codecs. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tutti/tutti.h>

#include "lib/codec/codec.h"
#include "tests/test.h"

static const char *last_text(void)
{
	static struct tutti_error_info info;

	info.size = sizeof(info);
	return tutti_last_error(&info) ? "" : info.text;
}

static bool told(const char *part)
{
	return strstr(last_text(), part) != NULL;
}

/* A name, and what tutti_codec_name makes of it. */
static void good_names(void)
{
	static const char *const names[][2] = {
		{"fp16", "fp16"},
		{"bf16", "bf16"},
		{"fp8", "fp8:e4m3"},
		{"fp8:e4m3", "fp8:e4m3"},
		{"fp8:e5m2", "fp8:e5m2"},
		{"int8", "int8:block=256"},
		{"int8:block=16", "int8:block=16"},
		{"int8:block=4096", "int8:block=4096"},
		{"int8:block=1e3", NULL}, /* 1000 is no multiple of 16 */
		{"int8:block=1.6e1", "int8:block=16"},
		{"qsgd", "qsgd:levels=15,block=256,seed=1"},
		{"qsgd:seed=0,levels=127", "qsgd:levels=127,block=256,seed=0"},
		{"qsgd:seed=999999999999999", "qsgd:levels=15,block=256,seed=999999999999999"},
		{"onebit:block=1024", "onebit:block=1024"},
		{"topk", "topk:1%"},
		{"topk:0.10%", "topk:0.1%"},
		{"topk:1e-7%", "topk:0.0000001%"},
		{"topk:100%", "topk:100%"},
		{"threshold:1e-3", "threshold:0.001"},
		{"threshold:2.5e10", "threshold:25e9"},
		{"threshold:1e-20", "threshold:1e-20"},
		{"randomk:12.5%", "randomk:12.5%,seed=1"},
		{"dgc", "dgc:0.1%,momentum=0.9"},
		{"dgc:momentum=0,5%", "dgc:5%,momentum=0"},
		{"auto", "auto:fp16,int8"},
		{"auto:onebit:block=256,int8:block=64", "auto:onebit,int8:block=64"},
		{"auto:fp8,qsgd:levels=7,fp16", "auto:fp8,qsgd:levels=7,block=256,seed=1,fp16"},
		{"auto:qsgd:levels=7,int8:block=64,onebit:block=64,topk:2%", NULL}, /* in full */
		{"auto:qsgd:levels=15,block=256,bf16", "auto:qsgd,bf16"},
	};
	struct tutti_codec *codec, *again;
	size_t i;

	for (i = 0; i < sizeof(names) / sizeof(*names); i++) {
		codec = NULL;
		if (!names[i][1]) {
			CU_ASSERT_EQUAL(tutti_codec_create(names[i][0], &codec), -EINVAL);
			continue;
		}
		TT_REQUIRE(!tutti_codec_create(names[i][0], &codec));
		CU_ASSERT_STRING_EQUAL(tutti_codec_name(codec), names[i][1]);
		/* The full name makes the same codec. */
		TT_REQUIRE(!tutti_codec_create(tutti_codec_name(codec), &again));
		CU_ASSERT_STRING_EQUAL(tutti_codec_name(again), names[i][1]);
		CU_ASSERT_EQUAL(tt_codec_hash(codec), tt_codec_hash(again));
		TT_CHECK(!tutti_codec_free(codec) && !tutti_codec_free(again));
	}
}

/* Wrong names: the codec untouched, -EINVAL, and every part of the text. */
static void bad_names(void)
{
	static const struct {
		const char *name, *told[3];
	} bad[] = {
		{"", {"unknown codec ''", "known: fp16, bf16, fp8, int8, qsgd, onebit, topk"}},
		{"fp61", {"unknown codec 'fp61'", "did you mean 'fp16'?"}},
		{"INT8", {"unknown codec 'INT8'"}},
		{"zstandard", {"unknown codec 'zstandard'", "known: fp16"}},
		{"fp16:", {"'fp16:'", "has none with a name"}},
		{"fp16:block=16", {"unknown option 'block'", "fp16 has none with a name"}},
		{"fp8:e4m2", {"unknown 'e4m2'", "did you mean 'e4m3'?"}},
		{"fp8:half", {"'half' is not permitted", "permitted: e4m3, e5m2"}},
		{"fp8:e4m3,e5m2", {"given twice"}},
		{"fp8:format=e4m3", {"unknown option 'format'"}},
		{"int8:256", {"'256' is not KEY=VALUE", "permitted: int8:block=N"}},
		{"int8:blok=256", {"unknown option 'blok'", "did you mean 'block'?"}},
		{"int8:size=256", {"unknown option 'size'", "known: block"}},
		{"int8:=256", {"'=256' has no option before it"}},
		{"int8:block=", {"block '' is not permitted"}},
		{"int8:block=0", {"block '0'", "multiples of 16 from 16 to 4096"}},
		{"int8:block=17", {"block '17'", "multiples of 16 from 16 to 4096"}},
		{"int8:block=4112", {"block '4112'", "multiples of 16 from 16 to 4096"}},
		{"int8:block=-16", {"block '-16'", "multiples of 16"}},
		{"int8:block=16.5", {"block '16.5'", "multiples of 16"}},
		{"int8:block=16x", {"block '16x'", "multiples of 16"}},
		{"int8:block=16.", {"block '16.'", "multiples of 16"}},
		{"int8:block=1e", {"block '1e'", "multiples of 16"}},
		{"int8:block=1e400", {"block '1e400'", "multiples of 16"}},
		{"int8:block=16,block=32", {"block is given twice"}},
		{"int8:block=16,", {"unknown option ''"}},
		{"qsgd:levels=0", {"levels '0'", "whole numbers from 1 to 127"}},
		{"qsgd:levels=128", {"levels '128'", "whole numbers from 1 to 127"}},
		{"qsgd:seed=1000000000000000", {"seed '1000000000000000'"}},
		{"qsgd:15", {"'15' is not KEY=VALUE", "qsgd:levels=S,block=N,seed=S"}},
		{"qsgd:level=15", {"did you mean 'levels'?"}},
		{"onebit:block=8", {"block '8'", "multiples of 16 from 16 to 4096"}},
		{"topk:1", {"'1' is not permitted", "more than 0% to 100%", "as in 1%"}},
		{"topk:0%", {"'0%' is not permitted", "more than 0%"}},
		{"topk:101%", {"'101%' is not permitted"}},
		{"topk:1e-8%", {"'1e-8%' is not permitted", "at most 7 decimals"}},
		{"topk:1e20%", {"'1e20%' is not permitted"}},
		{"topk:k=5", {"unknown option 'k'", "topk has none with a name"}},
		{"threshold:0", {"'0' is not permitted", "1e-20 to 1e+20"}},
		{"threshold:nan", {"'nan' is not permitted"}},
		{"threshold:-1", {"'-1' is not permitted"}},
		{"threshold:1e21", {"'1e21' is not permitted"}},
		{"dgc:0.1%,momentum", {"option 'momentum' has no value", "momentum=0.9"}},
		{"int8:block", {"option 'block' has no value", "block=256"}},
		{"randomk:seed=x", {"seed 'x' is not permitted"}},
		{"dgc:0.1%,momentum=1", {"momentum '1'", "0 to 0.9999"}},
		{"dgc:0.1%,1%", {"the value is given twice"}},
		{"auto:", {"auto:", "the name of a codec is empty"}},
		{"auto:fp16,", {"auto:fp16,", "the name of a codec is empty"}},
		{"auto:fp16,int9", {"unknown codec 'int9'", "did you mean 'int8'?"}},
		{"auto:fp16,fp16", {"fp16 is given twice"}},
		{"auto:int8,int8:block=256", {"int8:block=256 is given twice"}},
		{"auto:auto", {"auto cannot be one of its codecs"}},
		{"auto:dgc", {"momentum"}},
		{"auto:block=16,int8", {"unknown codec 'block=16'"}},
		{"autos", {"unknown codec 'autos'", "did you mean 'auto'?"}},
	};
	struct tutti_codec *codec = (void *)&bad;
	size_t i, k;

	for (i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		CU_ASSERT_EQUAL(tutti_codec_create(bad[i].name, &codec), -EINVAL);
		CU_ASSERT_PTR_EQUAL(codec, &bad);
		for (k = 0; k < 3 && bad[i].told[k]; k++) {
			TT_CHECK(told(bad[i].told[k]));
			if (!told(bad[i].told[k]))
				printf("  %s: %s\n", bad[i].name, last_text());
		}
	}
}

static void count_codec(const char *form, const char *about, void *arg)
{
	struct tutti_codec *codec;
	char name[64];
	size_t n = strcspn(form, ":");

	snprintf(name, sizeof(name), "%.*s", (int)n, form);
	TT_REQUIRE(!tutti_codec_create(name, &codec));
	tutti_codec_free(codec);
	TT_CHECK(*about != 0);
	(*(int *)arg)++;
}

static void describe_codec(const char *section, const char *name, const char *key,
			   const char *value, void *arg)
{
	if (!strcmp(section, "codec")) {
		CU_ASSERT_STRING_EQUAL(key, "about");
		TT_CHECK(*name && *value);
		(*(int *)arg)++;
	}
}

/* The list has every codec, and tutti_describe tells the same. */
static void list(void)
{
	int n = 0, told = 0;

	tt_codec_each(count_codec, &n);
	TT_CHECK(n >= 10);
	TT_REQUIRE(!tutti_describe(describe_codec, &told));
	CU_ASSERT_EQUAL(n, told);
}

static void wrong_arguments(void)
{
	float x[4] = {0}, y[4] = {0};
	unsigned char out[16];
	struct tutti_codec *codec;
	size_t len = 77;

	CU_ASSERT_EQUAL(tutti_codec_create(NULL, &codec), -EINVAL);
	CU_ASSERT_EQUAL(tutti_codec_create("fp16", NULL), -EINVAL);
	TT_REQUIRE(!tutti_codec_create("fp16", &codec));
	CU_ASSERT_EQUAL(tutti_codec_encode(NULL, x, 4, TUTTI_FLOAT32, NULL, 0, out, &len), -EINVAL);
	CU_ASSERT_EQUAL(tutti_codec_encode(codec, NULL, 4, TUTTI_FLOAT32, NULL, 0, out, &len),
			-EINVAL);
	CU_ASSERT_EQUAL(tutti_codec_encode(codec, x, 4, TUTTI_FLOAT32, NULL, 0, NULL, &len),
			-EINVAL);
	CU_ASSERT_EQUAL(tutti_codec_encode(codec, x, 4, TUTTI_FLOAT32, NULL, 0, out, NULL),
			-EINVAL);
	CU_ASSERT_EQUAL(tutti_codec_encode(codec, x, 4, TUTTI_FLOAT64, NULL, 0, out, &len),
			-EINVAL);
	TT_CHECK(told("codecs are for float32, not float64"));
	CU_ASSERT_EQUAL(tutti_codec_encode(codec, x, SIZE_MAX, TUTTI_FLOAT32, NULL, 0, out, &len),
			-EINVAL);
	TT_CHECK(told("too many"));
	CU_ASSERT_EQUAL(len, 77);
	CU_ASSERT_EQUAL(tutti_codec_decode(NULL, out, 8, y, 4, TUTTI_FLOAT32), -EINVAL);
	CU_ASSERT_EQUAL(tutti_codec_decode(codec, NULL, 8, y, 4, TUTTI_FLOAT32), -EINVAL);
	CU_ASSERT_EQUAL(tutti_codec_decode(codec, out, 8, NULL, 4, TUTTI_FLOAT32), -EINVAL);
	CU_ASSERT_EQUAL(tutti_codec_decode(codec, out, 8, y, 4, TUTTI_INT32), -EINVAL);
	CU_ASSERT_EQUAL(tutti_codec_decode_add(codec, out, 8, y, 4, TUTTI_INT32), -EINVAL);
	CU_ASSERT_EQUAL(tutti_codec_decode(codec, out, 8, y, SIZE_MAX, TUTTI_FLOAT32), -EINVAL);
	CU_ASSERT_EQUAL(tutti_codec_bound(codec, SIZE_MAX), SIZE_MAX);
	CU_ASSERT_EQUAL(tutti_codec_bound(NULL, 1), 0);
	CU_ASSERT_EQUAL(tutti_codec_states(NULL), 0);
	CU_ASSERT_STRING_EQUAL(tutti_codec_name(NULL), "");
	/* No elements: no bytes, and no buffers. */
	TT_CHECK(!tutti_codec_encode(codec, NULL, 0, TUTTI_FLOAT32, NULL, 0, NULL, &len));
	CU_ASSERT_EQUAL(len, 0);
	TT_CHECK(!tutti_codec_decode(codec, NULL, 0, NULL, 0, TUTTI_FLOAT32));
	TT_CHECK(!tutti_codec_free(codec) && !tutti_codec_free(NULL));
}

/* More elements than one list takes: no bound, no encoding, and nothing is decoded to y. */
static void lists_too_long(void)
{
	static const char *const names[] = {"topk:1%", "dgc:1%"};
	const size_t most = UINT32_MAX;
	unsigned char none[8] = {0}; /* a list without entries */
	struct tutti_codec *codec;
	float y = 7;
	size_t i, len = 77;

	for (i = 0; i < sizeof(names) / sizeof(*names); i++) {
		TT_REQUIRE(!tutti_codec_create(names[i], &codec));
		TT_CHECK(tutti_codec_bound(codec, most) < SIZE_MAX);
		CU_ASSERT_EQUAL(tutti_codec_bound(codec, most + 1), SIZE_MAX);
		CU_ASSERT_EQUAL(tutti_codec_decode(codec, none, 8, &y, most + 1, TUTTI_FLOAT32),
				-EINVAL);
		TT_CHECK(told("4294967296 elements are too many; at most 4294967295"));
		CU_ASSERT_EQUAL(tutti_codec_decode_add(codec, none, 8, &y, most + 1, TUTTI_FLOAT32),
				-EINVAL);
		CU_ASSERT_EQUAL(
			tutti_codec_encode(codec, &y, most + 1, TUTTI_FLOAT32, NULL, 0, none, &len),
			-EINVAL);
		TT_CHECK(y == 7 && len == 77);
		TT_CHECK(!tutti_codec_free(codec));
	}
}

/* A codec of the caller's: a count of steps of 1/4, in 16 bits; what: what goes wrong. */
struct steps {
	int encoded, decoded, error;
	size_t more;	     /* bytes beyond the bound */
	const size_t *bound; /* or NULL */
};

static size_t steps_bound(size_t count, void *arg)
{
	const struct steps *steps = arg;

	return steps->bound ? *steps->bound : 2 * count;
}

static int steps_encode(const float *in, size_t count, uint64_t first, uint64_t call, void *out,
			size_t *len, void *arg)
{
	struct steps *steps = arg;
	int16_t *to = out;
	size_t i;

	for (i = 0; i < count; i++)
		to[i] = (int16_t)(in[i] * 4);
	*len = 2 * count + steps->more;
	steps->encoded++;
	return steps->error;
}

static int steps_decode(const void *in, size_t len, uint64_t first, float *out, size_t count,
			void *arg)
{
	struct steps *steps = arg;
	const int16_t *from = in;
	size_t i;

	for (i = 0; i < count; i++)
		out[i] = (float)from[i] / 4;
	steps->decoded++;
	return steps->error;
}

#define STEPS 3

static void user_defined(void)
{
	struct steps steps = {0};
	struct tutti_codec_user user = {.size = sizeof(user),
					.name = "steps",
					.flags = TUTTI_CODEC_FIXED,
					.bound = steps_bound,
					.encode = steps_encode,
					.decode = steps_decode,
					.arg = &steps};
	float x[STEPS] = {1.3f, -0.1f, 2}, residual[STEPS] = {0}, y[STEPS];
	int16_t out[STEPS];
	struct tutti_codec *codec;
	size_t len;
	int i, t;

	TT_REQUIRE(!tutti_codec_create_user(&user, &codec));
	CU_ASSERT_STRING_EQUAL(tutti_codec_name(codec), "steps");
	TT_CHECK(tt_codec_fixed(codec) && tt_codec_align(codec) == 1);
	CU_ASSERT_EQUAL(tutti_codec_states(codec), 1);
	/* With feedback nothing is lost: 10 times -0.1 is 4 steps down. */
	memset(y, 0, sizeof(y));
	for (t = 0; t < 10; t++) {
		TT_REQUIRE(!tutti_codec_encode(codec, x, STEPS, TUTTI_FLOAT32, residual, 0, out,
					       &len));
		CU_ASSERT_EQUAL(len, sizeof(out));
		TT_REQUIRE(!tutti_codec_decode_add(codec, out, len, y, STEPS, TUTTI_FLOAT32));
	}
	for (i = 0; i < STEPS; i++)
		CU_ASSERT_DOUBLE_EQUAL(y[i] + residual[i], 10 * x[i], 1e-5);
	TT_CHECK(y[1] < -0.7f && residual[1] > -0.25f);
	CU_ASSERT_EQUAL(steps.encoded, 10);
	CU_ASSERT_EQUAL(steps.decoded, 20);
	/* A fixed length is held. */
	CU_ASSERT_EQUAL(tutti_codec_decode(codec, out, 4, y, STEPS, TUTTI_FLOAT32), -EPROTO);
	CU_ASSERT_EQUAL(steps.decoded, 20);
	steps.more = 1;
	CU_ASSERT_EQUAL(tutti_codec_encode(codec, x, STEPS, TUTTI_FLOAT32, NULL, 0, out, &len),
			-EINVAL);
	TT_CHECK(told("'steps': its encode wrote 7 bytes"));
	TT_CHECK(told("it must write exactly its bound, 6"));
	steps.error = -ENOSPC;
	residual[0] = 5;
	CU_ASSERT_EQUAL(tutti_codec_encode(codec, x, STEPS, TUTTI_FLOAT32, residual, 0, out, &len),
			-ENOSPC);
	CU_ASSERT_EQUAL(residual[0], 5);
	CU_ASSERT_EQUAL(tutti_codec_decode(codec, out, 6, y, STEPS, TUTTI_FLOAT32), -ENOSPC);
	TT_CHECK(told("its decode returned"));
	tutti_codec_free(codec);
}

/* Bounds that no encoding of three elements has: refused before encode writes anything. */
static void user_bound(void)
{
	static const size_t bounds[] = {SIZE_MAX, (size_t)1 << 40, 0, 4096 + 3 * 64 + 1};
	struct steps steps = {0};
	struct tutti_codec_user user = {.size = sizeof(user),
					.name = "steps",
					.flags = TUTTI_CODEC_FIXED,
					.bound = steps_bound,
					.encode = steps_encode,
					.decode = steps_decode,
					.arg = &steps};
	float x[STEPS] = {1, 2, 3}, residual[STEPS] = {0};
	const size_t most = 4096 + 3 * 64;
	struct tutti_codec *codec;
	char text[96];
	int16_t out[STEPS];
	size_t len, i;

	TT_REQUIRE(!tutti_codec_create_user(&user, &codec));
	for (i = 0; i < sizeof(bounds) / sizeof(*bounds); i++) {
		steps.bound = &bounds[i];
		TT_CHECK(tutti_codec_bound(codec, STEPS) <= most);
		CU_ASSERT_EQUAL(
			tutti_codec_encode(codec, x, STEPS, TUTTI_FLOAT32, NULL, 0, out, &len),
			-EINVAL);
		CU_ASSERT_EQUAL(
			tutti_codec_encode(codec, x, STEPS, TUTTI_FLOAT32, residual, 0, out, &len),
			-EINVAL);
		snprintf(text, sizeof(text), "of 3 elements is %zu bytes; it must be from 1 to %zu",
			 bounds[i], most);
		TT_CHECK(told(text));
	}
	CU_ASSERT_EQUAL(steps.encoded, 0);
	steps.bound = NULL;
	TT_CHECK(!tutti_codec_encode(codec, x, STEPS, TUTTI_FLOAT32, NULL, 0, out, &len));
	tutti_codec_free(codec);
}

/* A name that means something else, or that texts cannot show. */
static void user_names(void)
{
	static const struct {
		const char *name, *text;
	} bad[] = {{"int8", "a name of the built-in codec int8"},
		   {"fp16", "a name of the built-in codec fp16"},
		   {"int8:mine", "a name of the built-in codec int8"},
		   {"auto", "a name of the built-in codec auto"},
		   {"auto:mine", "a name of the built-in codec auto"},
		   {"a\nb", "byte 1 of the name is the control character 0x0a"},
		   {"\x7f", "byte 0 of the name is the control character 0x7f"}},
	  good[] = {{"int8s", NULL},
		    {"my:int8", NULL},
		    {"autos", NULL},
		    {"gr\xc3\xb6\xc3\x9f", NULL}};
	struct tutti_codec_user user = {.size = sizeof(user),
					.bound = steps_bound,
					.encode = steps_encode,
					.decode = steps_decode};
	struct tutti_codec *codec, *other;
	size_t i;

	for (i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		user.name = bad[i].name;
		CU_ASSERT_EQUAL(tutti_codec_create_user(&user, &codec), -EINVAL);
		TT_CHECK(told(bad[i].text));
	}
	for (i = 0; i < sizeof(good) / sizeof(*good); i++) {
		user.name = good[i].name;
		TT_REQUIRE(!tutti_codec_create_user(&user, &codec));
		tutti_codec_free(codec);
	}
	/* texts about calls that differ tell long names apart that begin alike */
	user.name = "a name of many characters of which one differs: 1";
	TT_REQUIRE(!tutti_codec_create_user(&user, &codec));
	user.name = "a name of many characters of which one differs: 2";
	TT_REQUIRE(!tutti_codec_create_user(&user, &other));
	TT_CHECK(strcmp(tt_codec_label(codec), tt_codec_label(other)));
	TT_CHECK(!strncmp(tt_codec_label(codec), "a name of many ~", 16));
	tutti_codec_free(codec);
	tutti_codec_free(other);
}

/* The struct of tutti_codec_create_user. */
static void user_arguments(void)
{
	const struct tutti_codec_user right = {.size = sizeof(right),
					       .name = "steps",
					       .bound = steps_bound,
					       .encode = steps_encode,
					       .decode = steps_decode};
	struct tutti_codec_user user = right;
	struct tutti_codec *codec;
	char name[TUTTI_CODEC_NAME_MAX + 1];

	CU_ASSERT_EQUAL(tutti_codec_create_user(NULL, &codec), -EINVAL);
	CU_ASSERT_EQUAL(tutti_codec_create_user(&user, NULL), -EINVAL);
	user.size = 1;
	CU_ASSERT_EQUAL(tutti_codec_create_user(&user, &codec), -EINVAL);
	user = right;
	user.encode = NULL;
	CU_ASSERT_EQUAL(tutti_codec_create_user(&user, &codec), -EINVAL);
	TT_CHECK(told("user->encode is NULL"));
	user = right;
	user.flags = 8;
	CU_ASSERT_EQUAL(tutti_codec_create_user(&user, &codec), -EINVAL);
	TT_CHECK(told("flags are 0x8"));
	user = right;
	memset(name, 'x', sizeof(name));
	name[TUTTI_CODEC_NAME_MAX] = 0;
	user.name = name;
	CU_ASSERT_EQUAL(tutti_codec_create_user(&user, &codec), -EINVAL);
	TT_CHECK(told("64 bytes"));
	name[TUTTI_CODEC_NAME_MAX - 1] = 0;
	TT_REQUIRE(!tutti_codec_create_user(&user, &codec));
	TT_CHECK(!tt_codec_fixed(codec));
	/* A request holds it. */
	tt_codec_hold(codec);
	tutti_codec_free(codec);
	CU_ASSERT_EQUAL(strlen(tt_codec_name(codec)), TUTTI_CODEC_NAME_MAX - 1);
	tt_codec_release(codec);
}

int main(int argc, char **argv)
{
	static const struct tt_test tests[] = {{"good_names", good_names},
					       {"bad_names", bad_names},
					       {"list", list},
					       {"wrong_arguments", wrong_arguments},
					       {"lists_too_long", lists_too_long},
					       {"user_defined", user_defined},
					       {"user_bound", user_bound},
					       {"user_names", user_names},
					       {"user_arguments", user_arguments},
					       {NULL, NULL}};

	return tt_test_main("codec_name", tests, argc, argv);
}
