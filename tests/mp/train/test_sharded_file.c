/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Files of sharded optimizers: a changed digit of the header, something else where rank 0 writes,
 * two saves to one path, ranks in the middle of a step.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <tutti/ps.h>
#include <unistd.h>

#include "tests/mp/train/model.h"
#include "train/state_file.h"

static char dir[] = "/tmp/tutti-file-XXXXXX", path[64], part[72];

static bool begin_dir(void)
{
	strcpy(dir + strlen(dir) - 6, "XXXXXX");
	if (!mkdtemp(dir))
		return false;
	snprintf(path, sizeof(path), "%s/state", dir);
	snprintf(part, sizeof(part), "%s.part", path);
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
					      .rule = &adam,
					      .bucket_bytes = 3000};

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
		const char *said;
	} digits[] = {{"\"steps\":\"0\"", 9, "the file is damaged"},
		      {"\"residuals\":\"1\"", 5, "no number residuals"}};
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
		if (err != -EINVAL || !mp_said(digits[i].said)) {
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

static bool is_regular(const char *file)
{
	struct stat st;

	return !lstat(file, &st) && S_ISREG(st.st_mode);
}

/* A link where rank 0 writes leads nowhere, a folder is an error. */
static int beside_body(struct mp_job *job)
{
	struct tutti_codec *codec;
	struct tutti_sharded *s;
	struct stat st;
	char other[64];

	snprintf(other, sizeof(other), "%s/other", dir);
	if (!job->rank) {
		TT_EXPECT(!close(open(other, O_WRONLY | O_CREAT, 0600)));
		TT_EXPECT(!symlink("other", part));
	}
	TT_EXPECT(!optimizer_new(job, &codec, &s));
	MP_OK(tutti_sharded_save(s, path));
	TT_EXPECT(is_regular(path));
	TT_EXPECT(!stat(other, &st) && !st.st_size);
	TT_EXPECT(job->rank || !mkdir(part, 0700));
	MP_ERR(tutti_sharded_save(s, path), -EEXIST);
	MP_SAID("state.part: cannot be created");
	MP_OK(tutti_sharded_restore(s, path));
	MP_OK(tutti_sharded_free(s));
	return tutti_codec_free(codec);
}

static void beside(void)
{
	TT_REQUIRE(begin_dir());
	TT_CHECK(!MP_RUN(.n = 2, .env = "TUTTI_TRANSPORT=shm", .fn = beside_body));
	mp_remove_dir(dir);
}

/* The save that began first fails, and leaves the other's file as it is. */
static void two_saves(void)
{
	static const size_t three = 3;
	const struct tt_state_file model = {.path = path,
					    .fd = -1,
					    .n = 1,
					    .elem = sizeof(float),
					    .counts = &three,
					    .states = 1,
					    .rule = TUTTI_PS_MOMENTUM,
					    .datatype = TUTTI_FLOAT32};
	const float one[] = {1, 1, 1}, two[] = {2, 2, 2};
	struct tt_state_file a = model, b = model, c = model;
	float got[3];

	TT_REQUIRE(begin_dir());
	TT_CHECK(!tt_state_file_create(&a));
	TT_CHECK(!tt_state_file_create(&b));
	TT_CHECK(!tt_state_file_write(&a, 0, 0, 0, one));
	TT_CHECK(!tt_state_file_write(&b, 0, 0, 0, two));
	TT_CHECK(tt_state_file_close(&a, true) == -EBUSY);
	TT_CHECK(mp_said("another save to it is under way"));
	TT_CHECK(access(path, F_OK));
	TT_CHECK(!tt_state_file_close(&b, true));
	TT_CHECK(access(part, F_OK));
	TT_CHECK(!tt_state_file_open(&c));
	TT_CHECK(!tt_state_file_read(&c, 0, 0, 0, got));
	TT_CHECK(!memcmp(got, two, sizeof(got)));
	tt_state_file_close(&c, false);
	mp_remove_dir(dir);
}

/* ---- ranks in the middle of a step ---- */

/* The call fails, and the text names the rank with so many tensors. */
static int busy(struct mp_job *job, int err, const char *call, int rank, size_t tensors)
{
	char said[100];

	snprintf(said, sizeof(said), "tutti_sharded_%s: rank %d: %zu tensors of a step are ready",
		 call, rank, tensors);
	TT_EXPECT(err == -EBUSY && mp_said(said));
	return 0;
}

/* Two ranks have started their first buckets. All refuse to save and restore; the step goes on. */
static int middle_body(struct mp_job *job)
{
	static const float g[TOTAL];
	int lowest = *(const int *)job->arg, named = job->rank == 2 ? 2 : lowest;
	bool in_step = job->rank == lowest || job->rank == 2;
	size_t left = in_step ? TENSORS - 8 : TENSORS, i;
	struct tutti_codec *codec;
	struct tutti_sharded *s;

	TT_EXPECT(!optimizer_new(job, &codec, &s));
	for (i = TENSORS; i > left; i--)
		MP_OK(tutti_sharded_ready(s, i - 1, g));
	TT_EXPECT(!busy(job, tutti_sharded_save(s, path), "save", named, 8));
	TT_EXPECT(access(path, F_OK));
	TT_EXPECT(!busy(job, tutti_sharded_restore(s, path), "restore", named, 8));
	for (; i > 0; i--)
		MP_OK(tutti_sharded_ready(s, i - 1, g));
	MP_OK(tutti_sharded_step(s, NULL));
	for (i = TENSORS; job->rank == 2 && i > 0; i--)
		MP_OK(tutti_sharded_ready(s, i - 1, g));
	TT_EXPECT(!busy(job, tutti_sharded_restore(s, path), "restore", 2, TENSORS));
	for (i = TENSORS; job->rank != 2 && i > 0; i--)
		MP_OK(tutti_sharded_ready(s, i - 1, g));
	MP_OK(tutti_sharded_step(s, NULL));
	MP_OK(tutti_sharded_wait(s, TUTTI_SHARDED_ALL));
	MP_OK(tutti_sharded_save(s, path));
	MP_OK(tutti_sharded_restore(s, path));
	MP_OK(tutti_sharded_free(s));
	return tutti_codec_free(codec);
}

static void middle(void)
{
	static int lowest[] = {0, 1};
	size_t i;

	TT_REQUIRE(begin_dir());
	for (i = 0; i < 2; i++) {
		TT_CHECK(!MP_RUN(.n = 4, .env = SHM, .fn = middle_body, .arg = &lowest[i]));
		unlink(path);
		if (!mp_no_ofi())
			TT_CHECK(!MP_RUN(.n = 4, .env = OFI "TUTTI_HOST_ID=h%h", .fn = middle_body,
					 .arg = &lowest[i]));
		unlink(path);
	}
	mp_remove_dir(dir);
}

int main(int argc, char **argv)
{
	static const struct tt_test tests[] = {{"header", header},
					       {"beside", beside},
					       {"two_saves", two_saves},
					       {"middle", middle},
					       {NULL, NULL}};

	return tt_test_main("sharded_file", tests, argc, argv);
}
