/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * From MPI_Init, which joins a job of tutti of the ranks of MPI_COMM_WORLD, to MPI_Finalize. If a
 * rank cannot join, no rank takes any call.
 */
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "mpi/preload.h"

#define SET_UP_MS 60000 /* for calls that make communicators */
#define LATE 5.0	/* seconds until rank 0 asks whether other ranks are without this library */

#ifdef OPEN_MPI
#define FLAVOR "Open MPI"
#else
#define FLAVOR "MPICH"
#endif

struct tm_real tm_real;
struct tm_job tm_job;
struct tm_code tm_mpi_code;

static int find_code(struct dl_phdr_info *info, size_t size, void *inside)
{
	const uintptr_t address = (uintptr_t)inside;
	int i;

	for (i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *part = &info->dlpi_phdr[i];
		uintptr_t begin = info->dlpi_addr + part->p_vaddr;

		if (part->p_type != PT_LOAD || address - begin >= part->p_memsz)
			continue;
		tm_mpi_code = (struct tm_code){begin, part->p_memsz};
		return 1;
	}
	return 0;
}

/* The next library is that of the MPI, whichever the program has. */
static __attribute__((constructor)) void find_real(void)
{
#define X(id, name, text) tm_real.name = (__typeof__(tm_real.name))dlsym(RTLD_NEXT, "PMPI_" #name);
	TM_COLLS(X)
	X(, Init, )
	X(, Init_thread, )
	X(, Finalize, )
	X(, Comm_free, )
	X(, Comm_disconnect, )
#undef X
	if (tm_real.Barrier)
		dl_iterate_phdr(find_code, (void *)tm_real.Barrier);
}

/* Handles of another MPI mean nothing to this library, so the program cannot go on. */
static void check_mpi(void)
{
	int (*version)(char *, int *);
	char text[MPI_MAX_LIBRARY_VERSION_STRING + 8192] = "";
	int len = 0;

	version = (int (*)(char *, int *))dlsym(RTLD_NEXT, "PMPI_Get_library_version");
	if (version && !version(text, &len) && !strncmp(text, FLAVOR, strlen(FLAVOR)))
		return;
	text[strncmp(text, "Open MPI", 8) ? strcspn(text, " ") : 8] = 0;
	fprintf(stderr,
		"tutti_mpi: LD_PRELOAD has the library for " FLAVOR ", but the program runs %s; "
		"load the library for that MPI\n",
		text[0] ? text : "another MPI");
	exit(1);
}

/* Whether a value is true at all ranks. */
static bool all_of(bool mine)
{
	int can = mine, least = 0;

	return !tm_real.Allreduce(&can, &least, 1, MPI_INT, MPI_MIN, tm_job.own) && least;
}

/* Whether this rank has come to gather(), and there learnt that another rank has failed before. */
static bool gathered, refused;

static int gather(const void *send, void *recv, size_t len, void *arg)
{
	gathered = true;
	refused = !all_of(true);
	return refused ||
	       tm_real.Allgather(send, (int)len, MPI_BYTE, recv, (int)len, MPI_BYTE, tm_job.own);
}

/* More ranks than cores on this host. */
static bool is_crowded(void)
{
	MPI_Comm host;
	int n = 1;

	if (PMPI_Comm_split_type(tm_job.own, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host))
		return true;
	PMPI_Comm_size(host, &n);
	PMPI_Comm_free(&host);
	return n > sysconf(_SC_NPROCESSORS_ONLN);
}

/* Elements are packed as they are, so that packed and plain ones are the same bytes. */
static bool packs_plainly(void)
{
	int in[3] = {1, -2, 3}, out[6] = {0}, position = 0;

	return !PMPI_Pack(in, 3, MPI_INT, out, sizeof(out), &position, tm_job.own) &&
	       position == sizeof(in) && !memcmp(in, out, sizeof(in));
}

/* NULL, or why this rank cannot; of a rank that fails because of another one: "". */
static const char *join(void)
{
	static char why[640];
	struct tutti_error_info info = {.size = sizeof(info)};
	struct tutti_config config = {.size = sizeof(config),
				      .nranks = tm_job.size,
				      .rank = tm_job.rank,
				      .allgather = gather,
				      .timeout_ms = SET_UP_MS};
	int err;

	/* A rank that is late is normal in MPI. */
	if (!getenv("TUTTI_LOG"))
		config.log_level = TUTTI_LOG_ERROR;
	err = tutti_init(&config, &tm_job.ctx);
	if (!gathered) /* the other ranks wait in gather() */
		all_of(false);
	if (!err)
		return NULL;
	snprintf(why, sizeof(why), "tutti_init failed: rank %d: %s", tm_job.rank,
		 tutti_last_error(&info) ? tutti_strerror(err) : info.text);
	return refused ? "" : why;
}

/* Whether all ranks can: why is NULL. The first rank that cannot, and has a reason, reports it. */
static bool all_can(const char *why)
{
	int mine[2] = {!why, why && *why ? tm_job.rank : tm_job.size}, least[2] = {0, 0};

	if (tm_real.Allreduce(mine, least, 2, MPI_INT, MPI_MIN, tm_job.own))
		return false;
	if (why && *why && least[1] == tm_job.rank)
		fprintf(stderr, "tutti_mpi: %s; the MPI makes all calls\n", why);
	return least[0];
}

/* Collective over all ranks, which have agreed to take calls. */
static bool start(void)
{
	const char *why;
	int err, class;

	tm_types_start();
	tm_job.crowded = is_crowded();
	err = PMPI_Comm_group(tm_job.own, &tm_job.group) || PMPI_Add_error_class(&class) ||
	      PMPI_Add_error_code(class, &tm_job.error) || tm_comms_start() || !packs_plainly();
	if (!all_can(err ? "the MPI lacks an error code, an attribute or a plain MPI_Pack" : NULL))
		return false;
	why = join();
	if (all_can(why))
		return true;
	if (!why)
		tutti_finalize(tm_job.ctx);
	return false;
}

static void report_late(void)
{
	fprintf(stderr,
		"tutti_mpi: rank 0 has waited for %.0f s in MPI_Init: a rank is stopped, or runs "
		"without this library; let the launcher pass LD_PRELOAD to all hosts, see "
		"tutti_mpi(7)\n",
		LATE);
}

/* Ranks without the library never come to it. */
static int copy_world(void)
{
	double began = PMPI_Wtime();
	bool reported = tm_job.rank;
	MPI_Request request;
	int done = 0, err = PMPI_Comm_idup(MPI_COMM_WORLD, &tm_job.own, &request);

	while (!err && !done) {
		err = PMPI_Test(&request, &done, MPI_STATUS_IGNORE);
		if (done || err)
			break;
		if (!reported && PMPI_Wtime() - began > LATE) {
			report_late();
			reported = true;
		}
		usleep(100);
	}
	return err;
}

static void after_init(void)
{
	PMPI_Comm_rank(MPI_COMM_WORLD, &tm_job.rank);
	if (copy_world())
		return;
	PMPI_Comm_set_errhandler(tm_job.own, MPI_ERRORS_RETURN);
	PMPI_Comm_size(tm_job.own, &tm_job.size);
	if (tm_job.rank == 0)
		tm_settings_read(&tm_job.settings);
	if (tm_real.Bcast(&tm_job.settings, sizeof(tm_job.settings), MPI_BYTE, 0, tm_job.own))
		return;
	tm_counting = tm_job.settings.summary;
	tm_job.on = tm_job.size > 1 && tm_job.settings.any && start();
}

static void before_finalize(void)
{
	if (tm_job.own == MPI_COMM_NULL || !tm_job.size)
		return;
	if (tm_counting)
		tm_summary_print();
	if (tm_job.on) {
		tm_real.Barrier(tm_job.own); /* a rank that waits here progresses the MPI */
		tm_job.on = false;
		tm_comms_stop();
		tutti_finalize(tm_job.ctx);
		PMPI_Group_free(&tm_job.group);
	}
	PMPI_Comm_free(&tm_job.own);
}

static int tm_Init(int *argc, char ***argv)
{
	int err;

	check_mpi();
	err = tm_real.Init(argc, argv);
	if (!err)
		after_init();
	return err;
}
TM_ENTRY(Init, (int *argc, char ***argv), (argc, argv))

static int tm_Init_thread(int *argc, char ***argv, int required, int *provided)
{
	int err;

	check_mpi();
	err = tm_real.Init_thread(argc, argv, required, provided);
	if (!err)
		after_init();
	return err;
}
TM_ENTRY(Init_thread, (int *argc, char ***argv, int required, int *provided),
	 (argc, argv, required, provided))

static int tm_Finalize(void)
{
	before_finalize();
	return tm_real.Finalize();
}
TM_ENTRY(Finalize, (void), ())
