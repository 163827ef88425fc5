/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A job of forked ranks for tests of the library through its public calls: every rank gets an
 * environment, joins (by any of the ways in), runs the test's function, and leaves.
 */
#ifndef TT_MP_JOB_H
#define TT_MP_JOB_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <tutti/tutti.h>

#include "tests/test.h"

#define MP_MAX 64

/* Bounds of a job and of one wait in it: of a hang, not of a slow machine. */
#define MP_BOUND_MS 180000
#define MP_HANG_MS 60000

/* Visible to all ranks and to the process that started them. */
struct mp_shared {
	atomic_int id_ready;
	struct tutti_unique_id id;
	atomic_int arrived;
	atomic_int word[64]; /* the test's own */
	atomic_int pid[MP_MAX];
	char dir[64];
	unsigned char gather[1 << 16];
};

struct mp_job {
	int rank, n;
	struct tutti_context
		*ctx; /* NULL with no_init, or when the function has finalized itself */
	struct tutti_comm *world;
	void *arg;
	struct mp_shared *shared;
	pthread_mutex_t log_lock;
	char log[16384]; /* this rank's, a line each */
};

/* The body of a rank: 0 is success, as in TT_EXPECT. */
typedef int mp_fn(struct mp_job *job);

enum mp_way { MP_ID, MP_GATHER, MP_DIR, MP_ENV };

struct mp_run {
	int n;
	const char *env; /* "NAME=value NAME=value": %r is the rank, %h half of it, %n the number of
			    ranks, %d the directory */
	mp_fn *fn;
	void *arg;
	enum mp_way way; /* MP_ENV: env says how */
	bool no_init;	 /* fn joins itself */
	unsigned killed; /* ranks that must die by a signal */
	unsigned
		may_end; /* ranks that others may end by SIGKILL, as they were stopped in a write */
	int timeout_ms;	 /* 0: MP_BOUND_MS */
};

/* Run the job; returns how many ranks failed. */
int mp_run(const struct mp_run *run);
#define MP_RUN(...) mp_run(&(struct mp_run){__VA_ARGS__})
/* Zeroed memory that ranks forked later share; munmap it. */
void *mp_shared_mem(size_t size);

/* How many calls of a kind there were, if this line of the log tells it for TUTTI_FAULT; else 0. */
unsigned long mp_fault_calls(const char *line, const char *kind);

/* Fill config with rank, size and the way in, then tutti_init. */
int mp_join(struct mp_job *job, enum mp_way way, struct tutti_config *config);
/* With no_init: of the first n ranks, which start the job; of another, which it grows by. */
int mp_join_first(struct mp_job *job, int n);
int mp_join_later(struct mp_job *job);
/*
 * Leave before fn returns, which may fail if the job has: what tutti_finalize says, or 0 if it
 * never joined.
 */
int mp_leave(struct mp_job *job);
/*
 * Leaves a job in which ranks have failed: returns nonzero only if tutti_finalize refused, so that
 * the process would end as a dead rank in the eyes of the others.
 */
int mp_leave_failed(struct mp_job *job);
/* Waits until a death is known, at most MP_HANG_MS; 0, or nonzero if none is. */
int mp_await_death(struct mp_job *job);
/* A barrier that uses nothing of the library; gives up (and ends the process) at MP_HANG_MS. */
void mp_meet(struct mp_job *job);
/* Wait until *word >= value, at most ms; false: it never was. */
bool mp_await(atomic_int *word, int value, int ms);
/* Stops the process and waits until all its threads have stopped, as kill does not. */
int mp_stop(int pid);
double mp_now(void); /* seconds */

/* Leaves this process so many bytes for new mappings; false: it can not, as with sanitizers. */
bool mp_limit_memory(long room);
const char *mp_no_limit(void); /* why it can not; NULL: it can */
void mp_sleep_ms(int ms);
void mp_log_level(struct mp_job *job,
		  enum tutti_log_level level); /* of job->log, warn to begin with */
bool mp_log_has(struct mp_job *job, const char *text);
bool mp_log_await(struct mp_job *job, const char *text); /* MP_HANG_MS at most */
uint64_t mp_got_bytes(struct mp_job *job);		 /* read from others so far */
/* Why no test can use transport ofi, NULL: it is there. */
const char *mp_no_ofi(void);
/*
 * AddressSanitizer keeps freed memory for a while, so memory use is not meaningful, and slows
 * everything several times, so the longest tests leave out some equivalent cases.
 */
bool mp_sanitized(void);
/* In the quick run, where the longest tests leave such cases to the whole one. */
bool mp_brief(void);
/* The guest is slow: over verbs, sweeps over numbers of ranks leave most to make soak. */
bool mp_few_sizes(const char *env);
/* The same of transport verbs. */
const char *mp_no_verbs(void);
/* From now on this process may not touch another's ordinary memory, as in many a container. */
int mp_forbid_vm(void);
int mp_forbid_vm_write(void); /* it may read it */
/* Remove a directory of files. */
void mp_remove_dir(const char *path);
/* How many files a job of this user could have left in /dev/shm. */
int mp_shm_files(void);

/* err ended a call that needed a killed rank: it says so, and all n requests end. */
int mp_died(struct mp_job *job, int err, int n, struct tutti_request **req);

void mp_failed(struct mp_job *job, const char *what, int err, const char *file, int line);
/* In a rank: the call must succeed, or fail with this code. */
#define MP_OK(call) MP_ERR(call, 0)
#define MP_ERR(call, code)                                                                         \
	do {                                                                                       \
		int mp_err = (call);                                                               \
                                                                                                   \
		if (mp_err != (code)) {                                                            \
			mp_failed(job, #call, mp_err, __FILE__, __LINE__);                         \
			return 1;                                                                  \
		}                                                                                  \
	} while (0)
/* The last failed call's text contains word. */
bool mp_said(const char *word);
#define MP_SAID(word)                                                                              \
	do {                                                                                       \
		if (!mp_said(word)) {                                                              \
			mp_failed(job, "the text contains \"" word "\"", 0, __FILE__, __LINE__);   \
			return 1;                                                                  \
		}                                                                                  \
	} while (0)

/* The first ranks, this many, serve, the rest work; negative: all do both. */
int mp_ps_open(struct mp_job *job, int servers, int staleness, struct tutti_ps **ps);

/* Memory of the three kinds a caller can have. */
enum mp_kind { MP_POOL, MP_REGISTERED, MP_PLAIN, MP_KINDS };
struct mp_buf {
	enum mp_kind kind;
	char *p;
	void *raw;
	struct tutti_region *region;
};
int mp_buf_new(struct mp_job *job, enum mp_kind kind, size_t size, struct mp_buf *buf);
int mp_buf_free(struct mp_buf *buf);

/* oracle.c: the input of a rank, and the result of a ring, bit for bit. */
void mp_fill(enum tutti_datatype type, unsigned seed, int rank, size_t count, void *buf);
void mp_allreduce_expect(enum tutti_datatype type, enum tutti_op op, unsigned seed, int n,
			 size_t count, void *out);
bool mp_op_valid(enum tutti_datatype type, enum tutti_op op);
/* op, or another that the type has */
enum tutti_op mp_op_of(enum tutti_datatype type, enum tutti_op op);
/*
 * The same of values of which any order of the operands gives the same bits; and what ranks first
 * to last of them combine to, divided by n for an average. Elements from .. from + count.
 */
void mp_fill_exact(enum tutti_datatype type, unsigned seed, int rank, size_t from, size_t count,
		   void *buf);
void mp_reduce_expect(enum tutti_datatype type, enum tutti_op op, unsigned seed, int first,
		      int last, int n, size_t from, size_t count, void *out);
/* One step of it: a = a . b. */
void mp_combine(enum tutti_datatype type, enum tutti_op op, void *a, const void *b, size_t count);

#endif
