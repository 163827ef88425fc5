/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "tests/fault/survive.h"

#include <signal.h>
#include <time.h>
#include <unistd.h>

int check_sum(struct mp_job *job, struct tutti_comm *comm, unsigned members)
{
	static const size_t counts[] = {1, 700, WORDS};
	int32_t *v, want = 0;
	size_t c, i;
	int r;

	for (r = 0; r < 32; r++)
		want += members >> r & 1 ? r + 1 : 0;
	TT_EXPECT(tutti_comm_size(comm) == __builtin_popcount(members));
	MP_OK(tutti_alloc(job->ctx, WORDS * 4, (void **)&v));
	for (c = 0; c < 3; c++) {
		for (i = 0; i < counts[c]; i++)
			v[i] = job->rank + 1;
		MP_OK(tutti_allreduce(TUTTI_IN_PLACE, v, counts[c], TUTTI_INT32, TUTTI_SUM, comm));
		for (i = 0; i < counts[c]; i++)
			TT_EXPECT(v[i] == want);
	}
	MP_OK(tutti_free(v));
	return 0;
}

int until_death(struct mp_job *job, struct tutti_comm *comm, int victim)
{
	struct tutti_error_info info = {.size = sizeof(info)};
	float v[WORDS] = {0};
	int err, i;

	for (i = 0; i < 1000000; i++) {
		err = tutti_allreduce(TUTTI_IN_PLACE, v, i % 3 ? WORDS : 4, TUTTI_FLOAT32,
				      TUTTI_SUM, comm);
		if (err)
			break;
	}
	MP_ERR(err, -TUTTI_EPEER);
	MP_OK(tutti_last_error(&info));
	TT_EXPECT(info.rank == victim && info.host[0] && info.phase[0] &&
		  !strcmp(info.call, "allreduce"));
	TT_EXPECT(info.sequence >= 1);
	MP_OK(tutti_comm_error(comm, &info));
	TT_EXPECT(info.rank == victim && info.phase[0] && !strcmp(info.call, "allreduce"));
	return 0;
}

int check_list(struct mp_job *job, struct tutti_comm *comm, int victim)
{
	struct tutti_failed list[MP_MAX];
	int n = -1;

	MP_OK(tutti_comm_failed(comm, list, MP_MAX, &n));
	TT_EXPECT(n == 1 && list[0].world_rank == victim && list[0].host[0] && list[0].reason[0]);
	MP_OK(tutti_barrier(comm) ? 0 : 1); /* the old one stays failed */
	return 0;
}

void *die_soon(void *arg)
{
	struct timespec t = {.tv_nsec = (long)(rand() % 2000000)};

	(void)arg;
	nanosleep(&t, NULL);
	kill(getpid(), SIGKILL);
	return NULL;
}
