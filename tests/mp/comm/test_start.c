/* SPDX-License-Identifier: BSD-3-Clause */
/* Jobs that can't start: one clear error each. */
#include "config.h"

#include "tests/mp/job.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

/* A single process whose tutti_init must fail with a text that has the word. */
struct refusal {
	const char *env, *word;
	int code; /* 0: any */
	struct tutti_config config;
};

static int refused_body(struct mp_job *job)
{
	struct refusal *r = job->arg;
	struct tutti_error_info info = {.size = sizeof(info)};
	struct tutti_context *ctx = NULL;
	int err = tutti_init(r->config.size ? &r->config : NULL, &ctx);

	tutti_last_error(&info);
	if (err < 0 && !ctx && (!r->code || err == r->code) && strstr(info.text, r->word))
		return 0;
	fprintf(stderr, "%s: %d, \"%s\"; expected %d and \"%s\"\n", r->env, err, info.text, r->code,
		r->word);
	return 1;
}

static void refused(const struct refusal *r)
{
	TT_CHECK(!MP_RUN(.n = 1, .way = MP_ENV, .env = r->env, .fn = refused_body, .no_init = true,
			 .arg = (void *)r, .timeout_ms = 10000));
}

#define RULES                                                                                      \
	"allreduce:ring;allreduce:ring;allreduce:ring;allreduce:ring;allreduce:ring;allreduce:"    \
	"ring;"

/* Of more rules than there is room for, the first 255 characters are rules without a mistake. */
static void bad_values(void)
{
	static const struct refusal r[] = {
		{"TUTTI_CHUNK=banana", "TUTTI_CHUNK", -EINVAL, {0}},
		{"TUTTI_CHUNK=1", "TUTTI_CHUNK", -EINVAL, {0}},
		{"TUTTI_SLOTS=65", "TUTTI_SLOTS", -EINVAL, {0}},
		{"TUTTI_TIMEOUT=-5", "TUTTI_TIMEOUT", -EINVAL, {0}},
		{"TUTTI_PROGRESS=always", "TUTTI_PROGRESS", -EINVAL, {0}},
		{"TUTTI_WAIT=spinn", "TUTTI_WAIT", -EINVAL, {0}},
		{"TUTTI_OFI_EP=dgram", "TUTTI_OFI_EP", -EINVAL, {0}},
		{"TUTTI_TRANSPORT=smh TUTTI_RANK=0 TUTTI_NRANKS=1", "shm", -EINVAL, {0}},
		{"TUTTI_ALGO=bcast:rnig", "bcast", -EINVAL, {0}},
		{"TUTTI_ALGO=allreduce:radix;" RULES RULES RULES "allreduce:ring",
		 "255",
		 -EINVAL,
		 {0}},
		{"TUTTI_RANK=5 TUTTI_NRANKS=2", "TUTTI_RANK=5", -EINVAL, {0}},
		{"TUTTI_NRANKS=2", "TUTTI_RANK", -EINVAL, {0}},
		{"TUTTI_RANK=0", "TUTTI_NRANKS", -EINVAL, {0}},
		{"TUTTI_RANK=0 TUTTI_NRANKS=2", "MASTER_ADDR", -EINVAL, {0}},
		{"RANK=0 WORLD_SIZE=2", "MASTER_ADDR", -EINVAL, {0}},
		{"RANK=2 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=9", "RANK=2", -EINVAL, {0}},
		{"RANK=0 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=x",
		 "MASTER_PORT",
		 -EINVAL,
		 {0}},
		{"TUTTI_RANK=0 TUTTI_NRANKS=2 TUTTI_STORE=nowhere", "TUTTI_STORE", -EINVAL, {0}},
		{"",
		 "config.rank",
		 -EINVAL,
		 {.size = sizeof(struct tutti_config), .nranks = 2, .rank = 2}},
		{"",
		 "config.rank",
		 -EINVAL,
		 {.size = sizeof(struct tutti_config), .nranks = 2, .rank = -1}},
		{"", "config.size", -EINVAL, {.size = 3}},
		{"",
		 "timeout_ms",
		 -EINVAL,
		 {.size = sizeof(struct tutti_config), .timeout_ms = -1}},
	};
	size_t i;

	for (i = 0; i < sizeof(r) / sizeof(r[0]); i++)
		refused(&r[i]);
}

static void unreachable(void)
{
	static const struct refusal r[] = {
		{"RANK=1 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=1 TUTTI_INIT_TIMEOUT=1s",
		 "127.0.0.1:1",
		 0,
		 {0}},
		{"RANK=1 WORLD_SIZE=2 MASTER_ADDR=no.such.host.invalid MASTER_PORT=999 "
		 "TUTTI_INIT_TIMEOUT=1s TUTTI_INSECURE=1",
		 "no.such.host.invalid",
		 0,
		 {0}},
		/*
		 * Documentation addresses: nothing answers. And without a secret it is not even
		 * tried.
		 */
		{"RANK=1 WORLD_SIZE=2 MASTER_ADDR=192.0.2.1 MASTER_PORT=999 TUTTI_INIT_TIMEOUT=1s "
		 "TUTTI_INSECURE=1",
		 "192.0.2.1",
		 0,
		 {0}},
		{"RANK=1 WORLD_SIZE=2 MASTER_ADDR=192.0.2.1 MASTER_PORT=999 TUTTI_INIT_TIMEOUT=1s",
		 "TUTTI_INSECURE",
		 0,
		 {0}},
	};
	size_t i;

	for (i = 0; i < sizeof(r) / sizeof(r[0]); i++)
		refused(&r[i]);
}

static int misspelt_body(struct mp_job *job)
{
	TT_EXPECT(mp_log_has(job, "TUTTI_CHUNCK"));
	TT_EXPECT(mp_log_has(job, "did you mean TUTTI_CHUNK"));
	return 0;
}

static void misspelt(void)
{
	TT_CHECK(!MP_RUN(.n = 2, .env = "TUTTI_CHUNCK=64K", .fn = misspelt_body));
}

/* The rank given in arg does not come. */
static int missing_body(struct mp_job *job)
{
	struct tutti_config config = {0};
	int absent = *(int *)job->arg, err;

	if (job->rank == absent)
		return !mp_await(&job->shared->word[0], job->n - 1, 20000);
	err = mp_join(job, MP_DIR, &config);
	atomic_fetch_add(&job->shared->word[0], 1);
	TT_EXPECT(err < 0 && !job->ctx);
	if (absent)
		TT_EXPECT(mp_said("rank 2") || mp_said("ranks 2") || mp_said(": 2"));
	return 0;
}

static void missing(void)
{
	int absent = 2;

	TT_CHECK(!MP_RUN(.n = 3, .way = MP_DIR, .env = "TUTTI_INIT_TIMEOUT=2s TUTTI_BOOT_DIR=%d",
			 .fn = missing_body, .arg = &absent, .no_init = true));
	absent = 0;
	TT_CHECK(!MP_RUN(.n = 3, .way = MP_DIR, .env = "TUTTI_INIT_TIMEOUT=1s TUTTI_BOOT_DIR=%d",
			 .fn = missing_body, .arg = &absent, .no_init = true));
}

/* Two processes say that they are rank 1. */
static int duplicate_body(struct mp_job *job)
{
	int real = job->rank, err;
	struct tutti_config config = {
		.size = sizeof(config), .nranks = 3, .rank = real == 2 ? 1 : real};

	if (real == 2)
		mp_await(&job->shared->word[0], 1, 10000);
	atomic_store(&job->shared->word[0], 1);
	err = tutti_init(&config, &job->ctx);
	TT_EXPECT(err < 0);
	if (real == 2 || !real)
		MP_SAID("rank 1");
	return 0;
}

static void duplicate(void)
{
	TT_CHECK(!MP_RUN(.n = 3, .way = MP_DIR, .env = "TUTTI_INIT_TIMEOUT=10s TUTTI_BOOT_DIR=%d",
			 .fn = duplicate_body, .no_init = true));
}

static int version_body(struct mp_job *job)
{
	struct tutti_config config = {0};

	if (job->rank == 1)
		setenv("TUTTI_TEST_BOOT_VERSION", "9.9.9", 1);
	MP_ERR(mp_join(job, MP_ID, &config), -TUTTI_EVERSION);
	MP_SAID("9.9.9");
	return 0;
}

static void version(void)
{
	TT_CHECK(!MP_RUN(.n = 2, .fn = version_body, .no_init = true));
}

/* Strangers talk to the port of the store before, while and after the ranks join. */
static void *talk_junk(void *arg)
{
	struct mp_shared *shared = arg;
	struct sockaddr_in to = {.sin_family = AF_INET};
	char host[96], junk[3000], *colon;
	int fd, i;

	memcpy(host, shared->id.bytes + 8, 88);
	host[88] = 0;
	colon = strrchr(host, ':');
	if (!colon)
		return "the id holds no address";
	*colon = 0;
	to.sin_port = htons((uint16_t)atoi(colon + 1));
	inet_pton(AF_INET, host, &to.sin_addr);
	for (i = 0; i < 20; i++) {
		fd = socket(AF_INET, SOCK_STREAM, 0);
		if (!connect(fd, (struct sockaddr *)&to, sizeof(to)) && i % 3) {
			memset(junk, i % 3 == 1 ? 'G' : i * 37, sizeof(junk));
			(void)!send(fd, junk, sizeof(junk) / (size_t)(1 + i % 5), MSG_NOSIGNAL);
		}
		if (i % 4)
			close(fd); /* some stay open and say nothing more; the end of the process
				      closes them */
		usleep(1000);
	}
	return NULL;
}

static int junk_body(struct mp_job *job)
{
	struct tutti_config config = {0};
	void *said = NULL;
	pthread_t thread;
	float one = 1;

	if (job->rank == 0) {
		MP_OK(tutti_unique_id_get(&job->shared->id));
		TT_EXPECT(!pthread_create(&thread, NULL, talk_junk, job->shared));
		usleep(10000);
		atomic_store(&job->shared->id_ready, 1);
		config = (struct tutti_config){
			.size = sizeof(config), .nranks = job->n, .id = &job->shared->id};
		MP_OK(tutti_init(&config, &job->ctx));
		job->world = tutti_world(job->ctx);
		pthread_join(thread, &said);
		if (said)
			TT_EXPECT(!(char *)said);
	} else {
		MP_OK(mp_join(job, MP_ID, &config));
	}
	MP_OK(tutti_allreduce(TUTTI_IN_PLACE, &one, 1, TUTTI_FLOAT32, TUTTI_SUM, job->world));
	TT_EXPECT(one == (float)job->n);
	return 0;
}

static void junk(void)
{
	TT_CHECK(!MP_RUN(.n = 3, .fn = junk_body, .no_init = true));
}

int main(int argc, char **argv)
{
	static const struct tt_test tests[] = {
		{"bad_values", bad_values},
		{"unreachable", unreachable},
		{"misspelt", misspelt},
		{"missing", missing},
		{"duplicate", duplicate},
		{"version", version},
		{"junk", junk},
		{NULL, NULL},
	};

	return tt_test_main("start", tests, argc, argv);
}
