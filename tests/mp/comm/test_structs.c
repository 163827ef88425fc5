/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Structs that start with their size: each call accepts those of older and newer headers, and
 * refuses sizes that no version has and fields that it does not know. Structs without a size keep
 * theirs. The version as a number.
 */
#include "tests/mp/job.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>

#define LATER 24 /* bytes of fields of a later version */
#define ROOM 1024

/* A call with a struct at s, and the sizes of its first version and of this one. */
struct sized {
	const char *name; /* as texts have it */
	size_t least, known;
	int (*call)(struct mp_job *job, void *s);
	bool out;	       /* filled by the library */
	void (*fill)(void *s); /* fields that the call needs */
};

#define TO(type, field) (offsetof(struct type, field) + sizeof(((struct type *)0)->field))

static struct tutti_win *win;
static struct tutti_ps *ps;
static struct tutti_ps_table *table;
static int tables;

static int call_init(struct mp_job *job, void *s)
{
	struct tutti_context *ctx;
	int err = tutti_init(s, &ctx);

	(void)job;
	return err ? err : tutti_finalize(ctx);
}

static int call_create(struct mp_job *job, void *s)
{
	struct tutti_comm *comm;
	int err = tutti_comm_create(job->world, s, &comm);

	return err ? err : tutti_comm_free(comm);
}

static int call_state(struct mp_job *job, void *s)
{
	return tutti_comm_state(job->world, s);
}

static int call_stats(struct mp_job *job, void *s)
{
	return tutti_stats_get(job->ctx, s);
}

/* Of a call that has failed before; the texts of wrong sizes must be the last error. */
static int call_error(struct mp_job *job, void *s)
{
	float x = 1;

	if (!tutti_allreduce(&x, NULL, 1, TUTTI_FLOAT32, TUTTI_SUM, job->world))
		return 1;
	return tutti_comm_error(job->world, s);
}

static void fill_call(void *s)
{
	static float in = 3, out;
	struct tutti_call *call = s;

	call->coll = TUTTI_COLL_ALLREDUCE;
	call->sendbuf = &in;
	call->recvbuf = &out;
	call->count = 1;
	call->datatype = TUTTI_FLOAT32;
}

static int call_call(struct mp_job *job, void *s)
{
	return tutti_call(job->world, s, NULL);
}

static void fill_power_sgd(void *s)
{
	static const size_t sides[1] = {2};
	struct tutti_power_sgd_config *config = s;

	config->n = 1;
	config->rows = config->cols = sides;
}

static int call_power_sgd(struct mp_job *job, void *s)
{
	struct tutti_power_sgd *state;
	int err = tutti_power_sgd_create(job->world, s, &state);

	return err ? err : tutti_power_sgd_free(state);
}

static void fill_strides(void *s)
{
	struct tutti_strides *strides = s;

	strides->block = strides->count = 1;
}

static int call_strides(struct mp_job *job, void *s)
{
	static const char out[2] = {1, 2};

	(void)job;
	return tutti_put_strided(win, 0, out, 0, s);
}

static int call_open(struct mp_job *job, void *s)
{
	struct tutti_ps *other;
	int err = tutti_ps_open(job->world, s, &other);

	return err ? err : tutti_ps_close(other);
}

static int call_dense(struct mp_job *job, void *s)
{
	struct tutti_ps_table *other;
	char name[16];

	(void)job;
	snprintf(name, sizeof(name), "t%d", tables++);
	return tutti_ps_dense(ps, name, 4, TUTTI_FLOAT32, s, &other);
}

static int call_read(struct mp_job *job, void *s)
{
	(void)job;
	return tutti_ps_last_read(table, s);
}

#define IN(name, type, last, call, ...)                                                            \
	{                                                                                          \
		name, TO(type, last), sizeof(struct type), call, false, __VA_ARGS__                \
	}
#define OUT(name, type, last, call)                                                                \
	{                                                                                          \
		name, TO(type, last), sizeof(struct type), call, true, NULL                        \
	}
static const struct sized structs[] = {
	IN("config", tutti_config, rank, call_init, NULL),
	IN("config", tutti_comm_config, name, call_create, NULL),
	OUT("state", tutti_comm_state, code, call_state),
	OUT("stats", tutti_stats, copied_bytes, call_stats),
	OUT("info", tutti_error_info, code, call_error),
	IN("call", tutti_call, root, call_call, fill_call),
	IN("strides", tutti_strides, stride, call_strides, fill_strides),
	IN("config", tutti_power_sgd_config, seed, call_power_sgd, fill_power_sgd),
	IN("config", tutti_ps_config, staleness, call_open, NULL),
	IN("options", tutti_ps_options, arg, call_dense, NULL),
	OUT("read", tutti_ps_read, clock, call_read),
};
#define STRUCTS (sizeof(structs) / sizeof(structs[0]))

/* A struct of this size with the byte `set` set; what follows it is not zero. */
static int with(struct mp_job *job, const struct sized *c, size_t size, size_t set, char *s)
{
	size_t end = size < sizeof(size) ? sizeof(size) : size, i;
	int err;

	memset(s, 0, ROOM);
	if (c->fill)
		c->fill(s);
	memcpy(s, &size, sizeof(size));
	if (set)
		s[set] = 1;
	for (i = end; i < ROOM; i++)
		s[i] = 0x5a;
	err = c->call(job, s);
	for (i = end; i < ROOM; i++)
		if (s[i] != 0x5a)
			return 1; /* beyond the caller's struct */
	return !memcmp(s, &size, sizeof(size)) ? err : 1;
}

static int sizes_of(struct mp_job *job, const struct sized *c)
{
	static char room[ROOM] __attribute__((aligned(16)));
	size_t wrong[] = {0, 8, c->least - 1, ROOM * 8, SIZE_MAX}, i;
	char said[64];

	snprintf(said, sizeof(said), "%s.size is ", c->name);
	for (i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		MP_ERR(with(job, c, wrong[i], 0, room), -EINVAL);
		TT_EXPECT(mp_said(said) && mp_said("set it to sizeof"));
	}
	MP_OK(with(job, c, c->least, 0, room));
	MP_OK(with(job, c, c->known, 0, room));
	MP_OK(with(job, c, c->known + LATER, 0, room));
	if (c->out) { /* fields that the library does not know become 0 */
		MP_OK(with(job, c, c->known + LATER, c->known + 3, room));
		TT_EXPECT(!room[c->known + 3]);
		return 0;
	}
	for (i = c->known; i < c->known + LATER; i++) {
		MP_ERR(with(job, c, c->known + LATER, i, room), -EINVAL);
		snprintf(said, sizeof(said), "byte %zu is not 0", i);
		TT_EXPECT(mp_said(said));
	}
	return 0;
}

static int sizes_body(struct mp_job *job)
{
	struct tutti_ps_config config = {.size = sizeof(config)};
	char memory[8];
	size_t i;

	MP_OK(tutti_win_create(job->world, memory, sizeof(memory), 0, &win));
	MP_OK(tutti_ps_open(job->world, &config, &ps));
	MP_OK(tutti_ps_dense(ps, "table", 4, TUTTI_FLOAT32, NULL, &table));
	for (i = 0; i < STRUCTS; i++)
		if (sizes_of(job, &structs[i])) {
			printf("struct %zu, %s\n", i, structs[i].name);
			return 1;
		}
	MP_OK(tutti_ps_close(ps));
	MP_OK(tutti_win_free(win));
	return 0;
}

static void sizes(void)
{
	TT_CHECK(!MP_RUN(.n = 1, .fn = sizes_body));
}

/* An older struct, whose memory ends where it ends. */
static int short_body(struct mp_job *job)
{
	size_t size = TO(tutti_config, rank);
	struct tutti_config whole = {.size = size, .nranks = 1};
	void *config = malloc(size);
	struct tutti_context *ctx;

	TT_EXPECT(config != NULL);
	memcpy(config, &whole, size);
	MP_OK(tutti_init(config, &ctx));
	MP_OK(tutti_finalize(ctx));
	free(config);
	MP_ERR(tutti_comm_state(job->world, NULL), -EINVAL);
	MP_SAID("state is NULL");
	MP_ERR(tutti_stats_get(job->ctx, NULL), -EINVAL);
	MP_ERR(tutti_comm_error(job->world, NULL), -EINVAL);
	MP_ERR(tutti_call(job->world, NULL, NULL), -EINVAL);
	return 0;
}

static void shorter(void)
{
	TT_CHECK(!MP_RUN(.n = 1, .fn = short_body));
}

/* A wrong size does not replace the error that it asks for. */
static int last_body(struct mp_job *job)
{
	struct tutti_error_info info = {.size = 3};
	float x = 1;

	MP_ERR(tutti_allreduce(&x, NULL, 1, TUTTI_FLOAT32, TUTTI_SUM, job->world), -EINVAL);
	MP_ERR(tutti_last_error(&info), -EINVAL);
	MP_ERR(tutti_last_error(NULL), -EINVAL);
	MP_SAID("recvbuf is NULL");
	return 0;
}

static void last_error(void)
{
	TT_CHECK(!MP_RUN(.n = 1, .fn = last_body));
}

#define NO_TABLE "TUTTI_TUNE_FILE= XDG_CONFIG_HOME=/nonexistent"

/* A part that is tried and not needed, such as a tuning table, leaves no error. */
static int no_error_body(struct mp_job *job)
{
	struct tutti_error_info info = {.size = sizeof(info)};
	struct tutti_comm *comm;
	float x = 1;

	MP_ERR(tutti_last_error(&info), -ENOENT);
	MP_ERR(tutti_comm_error(job->world, &info), -ENOENT);
	MP_OK(tutti_allreduce(TUTTI_IN_PLACE, &x, 1, TUTTI_FLOAT32, TUTTI_SUM, job->world));
	MP_OK(tutti_comm_split_host(job->world, 0, &comm));
	MP_OK(tutti_comm_free(comm));
	MP_OK(mp_leave(job));
	MP_ERR(tutti_last_error(&info), -ENOENT);
	return 0;
}

static void no_error(void)
{
	static const char *const env[] = {NO_TABLE, NO_TABLE " TUTTI_TRANSPORT=shm",
					  NO_TABLE " TUTTI_TRANSPORT=ofi TUTTI_IF=lo",
					  NO_TABLE
					  " TUTTI_TRANSPORT=ofi TUTTI_IF=lo TUTTI_OFI_EP=rdm"};
	int i;

	for (i = 0; i < (mp_no_ofi() ? 2 : 4); i++) {
		TT_CHECK(!MP_RUN(.n = 1, .fn = no_error_body, .env = env[i]));
		TT_CHECK(!MP_RUN(.n = 3, .fn = no_error_body, .env = env[i]));
	}
}

/* An error of an earlier call stays: a call that succeeds does not clear it. */
static int kept_body(struct mp_job *job)
{
	struct tutti_config config = {.nranks = 0};

	MP_ERR(tutti_init(NULL, NULL), -EINVAL);
	MP_OK(mp_join(job, MP_ID, &config));
	MP_SAID("ctx is NULL");
	return 0;
}

static void kept_error(void)
{
	TT_CHECK(!MP_RUN(.n = 2, .fn = kept_body, .no_init = true, .env = NO_TABLE));
}

static void fixed(void)
{
	TT_CHECK(sizeof(struct tutti_unique_id) == 192);
	TT_CHECK(sizeof(struct tutti_failed) == 256);
	TT_CHECK(sizeof(struct tutti_status) == 32);
	TT_CHECK(sizeof(struct tutti_int32_index) == 8 && sizeof(struct tutti_int64_index) == 16);
	TT_CHECK(sizeof(struct tutti_float32_index) == 8 &&
		 sizeof(struct tutti_float64_index) == 16);
}

#if TUTTI_VERSION_NUM < TUTTI_VERSION(0, 1, 0) || TUTTI_VERSION_NUM >= TUTTI_VERSION(1, 0, 0)
#error the version is not a number that the preprocessor can compare
#endif

static void version(void)
{
	char text[32];
	int num = tutti_version_num();

	snprintf(text, sizeof(text), "%d.%d.%d", num / 10000, num / 100 % 100, num % 100);
	TT_CHECK(num == TUTTI_VERSION_NUM);
	TT_CHECK(!strcmp(text, tutti_version()) && !strcmp(text, TUTTI_VERSION_STRING));
	TT_CHECK(TUTTI_VERSION(1, 2, 3) == 10203 &&
		 TUTTI_VERSION(0, 9, 99) < TUTTI_VERSION(0, 10, 0));
}

int main(int argc, char **argv)
{
	static const struct tt_test tests[] = {
		{"sizes", sizes},	    {"shorter", shorter},
		{"last_error", last_error}, {"no_error", no_error},
		{"kept_error", kept_error}, {"fixed", fixed},
		{"version", version},	    {NULL, NULL},
	};

	return tt_test_main("structs", tests, argc, argv);
}
