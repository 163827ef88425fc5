/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The communicators of the program. The first call on one sets it up, whatever the arguments are:
 * all ranks make that call, so all take part. They agree, through the MPI, first that all of them
 * can, then that all of them have. If not, all calls on the communicator pass on.
 *
 * An attribute of the communicator has what is known of it. A thread looks in a small cache of its
 * own first. A freed handle can be given to a new communicator, so the end of any communicator
 * empties the caches. Delete callbacks of the program may make calls on a communicator that is
 * being freed, before or after its attribute is deleted: those pass on.
 */
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "mpi/preload.h"

#define NEAR 16	 /* entries of a thread's cache, a power of two */
#define MOST 256 /* communicators with one of tutti at a time: each takes memory */
#define TAGS 64	 /* more than threads that set up communicators of the same ranks at once */

static struct tm_comm none;
static struct tm_comm *all;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic uint64_t epoch = 1;
static atomic_int live;
static atomic_uint tags;
static int keyval = MPI_KEYVAL_INVALID;

static _Thread_local __attribute__((tls_model("initial-exec"))) struct {
	MPI_Comm comm;
	uint64_t epoch; /* 0: empty */
	struct tm_comm *found;
} near[NEAR];

/* The communicators that this thread is freeing: the inner ones by delete callbacks. */
static _Thread_local struct ending {
	MPI_Comm comm;
	struct ending *outer;
} * endings;

static void release(struct tm_comm *c)
{
	if (c->tutti) {
		tutti_comm_free(c->tutti);
		atomic_fetch_sub(&live, 1);
	}
	free(c);
}

static void forget(struct tm_comm *c)
{
	struct tm_comm **p;

	pthread_mutex_lock(&lock);
	for (p = &all; *p && *p != c; p = &(*p)->next)
		;
	if (*p)
		*p = c->next;
	else
		c = NULL; /* tm_comms_stop was earlier */
	atomic_fetch_add(&epoch, 1);
	pthread_mutex_unlock(&lock);
	if (c)
		release(c);
}

static int on_free(MPI_Comm comm, int key, void *value, void *extra)
{
	forget(value);
	return MPI_SUCCESS;
}

/* The ranks of comm in the world of tutti, which is that of MPI. NULL: no memory or *outside. */
static int *world_ranks(MPI_Comm comm, int n, bool *outside)
{
	int *ranks = malloc(2 * (size_t)n * sizeof(*ranks)), i, bad = 1;
	MPI_Group group;

	if (!ranks)
		return NULL;
	for (i = 0; i < n; i++)
		ranks[n + i] = i;
	if (!PMPI_Comm_group(comm, &group)) {
		bad = PMPI_Group_translate_ranks(group, n, ranks + n, tm_job.group, ranks);
		PMPI_Group_free(&group);
	}
	for (i = 0; i < n && !bad && !*outside; i++)
		*outside = ranks[i] == MPI_UNDEFINED;
	if (!bad && !*outside)
		return ranks;
	free(ranks);
	return NULL;
}

/* Whether a value is true at all ranks of comm; *tag becomes that of rank 0. */
static bool agree(MPI_Comm comm, bool can, int *tag)
{
	int mine[2] = {can, tag ? *tag : 0}, least[2] = {0, 0};

	if (tm_real.Allreduce(mine, least, 2, MPI_INT, MPI_MIN, comm))
		return false;
	if (tag)
		*tag = least[1];
	return least[0];
}

/* Ranks for which it failed have logged why. */
static void report_failed(int rank, int size)
{
	if (!rank)
		fprintf(stderr,
			"tutti_mpi: a communicator of %d ranks cannot be set up; the MPI makes "
			"all calls on it\n",
			size);
}

/* Collective over comm. NULL at all ranks if it fails at one. */
static struct tutti_comm *make(MPI_Comm comm, int rank, int size)
{
	struct tutti_comm_config config = {.size = sizeof(config), .nranks = size};
	struct tutti_comm *made = NULL;
	bool outside = false;
	int *ranks = world_ranks(comm, size, &outside), err;

	/* All members see that alike; those outside may be without this library. */
	if (outside)
		return NULL;
	config.tag = rank ? INT_MAX : (int)(atomic_fetch_add(&tags, 1) % TAGS);
	if (agree(comm, ranks && atomic_load(&live) < MOST, &config.tag)) {
		config.ranks = ranks;
		err = tutti_comm_create_group(tutti_world(tm_job.ctx), &config, &made);
		if (!err)
			tutti_comm_set_timeout(made, TUTTI_NEVER); /* MPI has no deadlines */
		if (!agree(comm, !err, NULL)) {
			if (made)
				tutti_comm_free(made);
			made = NULL;
			report_failed(rank, size);
		}
	}
	free(ranks);
	if (made)
		atomic_fetch_add(&live, 1);
	return made;
}

/* The first call on comm. */
static struct tm_comm *set_up(MPI_Comm comm)
{
	struct tm_comm *c;
	int inter = 1, size = 0, rank = 0;

	if (PMPI_Comm_test_inter(comm, &inter) || PMPI_Comm_size(comm, &size) ||
	    PMPI_Comm_rank(comm, &rank))
		return &none;
	c = calloc(1, sizeof(*c));
	if (!c || PMPI_Comm_set_attr(comm, keyval, c)) {
		fprintf(stderr, "tutti_mpi: no memory for a communicator\n");
		PMPI_Abort(comm, 1);
		return &none;
	}
	c->comm = comm;
	c->rank = rank;
	if (!inter && size > 1)
		c->tutti = make(comm, rank, size);
	c->size = size;
	pthread_mutex_lock(&lock);
	c->next = all;
	all = c;
	pthread_mutex_unlock(&lock);
	return c;
}

static struct tm_comm *find(MPI_Comm comm)
{
	const struct ending *e;
	void *value = NULL;
	int found = 0;

	for (e = endings; e; e = e->outer)
		if (e->comm == comm)
			return &none;
	if (PMPI_Comm_get_attr(comm, keyval, &value, &found))
		return &none; /* no communicator: the MPI reports it */
	return found ? value : set_up(comm);
}

struct tm_comm *tm_comm_of(MPI_Comm comm)
{
	unsigned i = (unsigned)((uint64_t)(uintptr_t)comm * 0x9e3779b97f4a7c15 >> 60);
	uint64_t at = atomic_load_explicit(&epoch, memory_order_acquire);
	struct tm_comm *c;

	if (near[i].comm == comm && near[i].epoch == at)
		return near[i].found;
	if (!tm_job.on || comm == MPI_COMM_NULL)
		return &none;
	c = find(comm);
	if (c != &none) {
		near[i].comm = comm;
		near[i].epoch = at;
		near[i].found = c;
	}
	return c;
}

int tm_comms_start(void)
{
	return PMPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, on_free, &keyval, NULL);
}

void tm_comms_stop(void)
{
	struct tm_comm *c;

	pthread_mutex_lock(&lock);
	atomic_fetch_add(&epoch, 1);
	while ((c = all)) {
		all = c->next;
		release(c);
	}
	pthread_mutex_unlock(&lock);
}

/* Frees a communicator: from here on its calls pass on at all ranks, which all come here. */
static int end(MPI_Comm *comm, int (*real)(MPI_Comm *))
{
	struct ending ending = {comm ? *comm : MPI_COMM_NULL, endings};
	int err;

	endings = &ending;
	atomic_fetch_add(&epoch, 1);
	err = real(comm);
	endings = ending.outer;
	return err;
}

static int tm_Comm_free(MPI_Comm *comm)
{
	return end(comm, tm_real.Comm_free);
}
TM_ENTRY(Comm_free, (MPI_Comm * comm), (comm))

static int tm_Comm_disconnect(MPI_Comm *comm)
{
	return end(comm, tm_real.Comm_disconnect);
}
TM_ENTRY(Comm_disconnect, (MPI_Comm * comm), (comm))
