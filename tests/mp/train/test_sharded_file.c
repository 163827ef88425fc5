/* SPDX-License-Identifier: BSD-3-Clause */
/* Files of sharded optimizers: changed bytes of the header. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <tutti/ps.h>
#include <unistd.h>

#include "tests/mp/train/model.h"

static char dir[] = "/tmp/tutti-file-XXXXXX", path[64];

static bool begin_dir(void)
{
	strcpy(dir + strlen(dir) - 6, "XXXXXX");
	if (!mkdtemp(dir))
		return false;
	snprintf(path, sizeof(path), "%s/state", dir);
	return true;
}

static int optimizer_new(struct mp_job *job, struct tutti_codec **codec, struct tutti_sharded **s)
{
	static float x[TOTAL], *tensor[TENSORS];
	static const struct tutti_rule adam = {.size = sizeof(adam), .rule = TUTTI_PS_ADAM};
	struct tutti_sharded_config config = {.size = sizeof(config),
					      .n = TENSORS,
					      .counts = counts,
					      .parameters = (void *const *)tensor,
					      .datatype = TUTTI_FLOAT32,
					      .stage = 1,
					      .rule = &adam};

	tensors_of(x, sizeof(float), 0, (void **)tensor);
	MP_OK(tutti_codec_create("int8", codec));
	config.codec = *codec;
	MP_OK(tutti_sharded_create(job->world, &config, s));
	return 0;
}

/* At rank 0: adds change to the byte at of the first word in the file. */
static int change(struct mp_job *job, const char *word, size_t at, int change_by)
{
	char text[8192] = "", *found;
	FILE *f;

	if (job->rank)
		return 0;
	f = fopen(path, "r+");
	TT_EXPECT(f);
	TT_EXPECT(fread(text, 1, sizeof(text) - 1, f) == sizeof(text) - 1);
	found = memmem(text, sizeof(text), word, strlen(word));
	TT_EXPECT(found);
	TT_EXPECT(!fseek(f, found + at - text, SEEK_SET));
	fputc(found[at] + change_by, f);
	return fclose(f);
}

static int header_body(struct mp_job *job)
{
	static const struct {
		const char *word;
		size_t at;
	} digits[] = {{"\"steps\":\"0\"", 9}, {"\"residuals\":\"1\"", 5}};
	struct tutti_codec *codec;
	struct tutti_sharded *s;
	char changed[32];
	size_t i;
	int err;

	TT_EXPECT(!optimizer_new(job, &codec, &s));
	MP_OK(tutti_sharded_save(s, path));
	for (i = 0; i < sizeof(digits) / sizeof(digits[0]); i++) {
		TT_EXPECT(!change(job, digits[i].word, digits[i].at, 1));
		err = tutti_sharded_restore(s, path);
		if (err != -EINVAL || !mp_said("the file is damaged")) {
			mp_failed(job, digits[i].word, err, __FILE__, __LINE__);
			return 1;
		}
		strcpy(changed, digits[i].word);
		changed[digits[i].at]++;
		TT_EXPECT(!change(job, changed, digits[i].at, -1));
		MP_OK(tutti_sharded_restore(s, path));
	}
	MP_OK(tutti_sharded_free(s));
	return tutti_codec_free(codec);
}

static void header(void)
{
	TT_REQUIRE(begin_dir());
	TT_CHECK(!MP_RUN(.n = 2, .env = "TUTTI_TRANSPORT=shm", .fn = header_body));
	mp_remove_dir(dir);
}

int main(int argc, char **argv)
{
	static const struct tt_test tests[] = {{"header", header}, {NULL, NULL}};

	return tt_test_main("sharded_file", tests, argc, argv);
}
