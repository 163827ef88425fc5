/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Errors, the log and the version.
 *
 * Every call returns 0 or a negative code: a negated errno value where one
 * fits, a negated TUTTI_E* otherwise. Out-parameters are untouched on failure.
 *
 * A struct that may grow begins with its size, which the caller sets to sizeof the struct. With the
 * size of an older header the missing fields count as 0. Fields that the library does not know must
 * be 0, else the call fails with -EINVAL; in a struct that the library fills they become 0. A
 * struct without a size keeps its size in later versions.
 */
#ifndef TUTTI_ERROR_H
#define TUTTI_ERROR_H

#include <stddef.h>
#include <stdint.h>

#pragma GCC visibility push(default)
#ifdef __cplusplus
extern "C" {
#endif

#define TUTTI_VERSION_MAJOR 0
#define TUTTI_VERSION_MINOR 1
#define TUTTI_VERSION_PATCH 0
#define TUTTI_VERSION_STRING "0.1.0"
/* For comparisons: #if TUTTI_VERSION_NUM >= TUTTI_VERSION(0, 1, 0). minor and patch: 0 to 99. */
#define TUTTI_VERSION(major, minor, patch) ((major)*10000 + (minor)*100 + (patch))
#define TUTTI_VERSION_NUM                                                                          \
	TUTTI_VERSION(TUTTI_VERSION_MAJOR, TUTTI_VERSION_MINOR, TUTTI_VERSION_PATCH)

/* Codes beyond errno; calls return them negated. */
enum tutti_error {
	TUTTI_EPEER = 4097, /* a rank of the job died or became unreachable */
	TUTTI_EMISMATCH,    /* ranks called different collectives, or with different arguments */
	TUTTI_EABORTED,	    /* the communicator or the job was aborted */
	TUTTI_EAUTH,	    /* a peer could not prove that it belongs to the job */
	TUTTI_EVERSION,	    /* ranks run incompatible versions of the library */
	TUTTI_ETRANSPORT,   /* no usable transport, or a transport failed */
	TUTTI_EBOOT,	    /* the ranks could not find each other at start */
	TUTTI_EREVOKED	    /* the communicator was revoked by tutti_comm_revoke */
};

/* A failure, in parts that a program can use. Fields that do not apply are -1, 0 or "". */
struct tutti_error_info {
	size_t size;	   /* set by the caller: sizeof(struct tutti_error_info) */
	int code;	   /* the negative code */
	int rank;	   /* the rank the error is about, in the world communicator */
	char host[64];	   /* the host of that rank */
	char call[32];	   /* the call that failed: "allreduce", "init", ... */
	uint64_t sequence; /* number of the collective, or of a persistent one's start, from 1 */
	char field[32];	   /* the argument that differs: "count", "datatype", ... */
	char text[512];	   /* one sentence: what, where, and what to do */
	char phase[48];	   /* how far the call had come: "round 3 of 6", "not started", ... */
	uint64_t bytes;	   /* bytes of payload received by then */
};

/** tutti_strerror - the text of a code returned by any call; never NULL, thread-safe. */
const char *tutti_strerror(int err);

/**
 * tutti_last_error - details of the last failure in the calling thread.
 * Useful where there is no communicator yet (init) or no failure state (bad arguments).
 * Returns 0, or -ENOENT when no call has failed in this thread.
 */
int tutti_last_error(struct tutti_error_info *info);

/** tutti_version - the version of the library at run time, "MAJOR.MINOR.PATCH". */
const char *tutti_version(void);
/** tutti_version_num - the same as a number, made as by TUTTI_VERSION. */
int tutti_version_num(void);

enum tutti_log_level {
	TUTTI_LOG_DEFAULT = 0, /* the value of TUTTI_LOG, else warn */
	TUTTI_LOG_ERROR,
	TUTTI_LOG_WARN,
	TUTTI_LOG_INFO,
	TUTTI_LOG_DEBUG,
	TUTTI_LOG_TRACE,
	TUTTI_LOG_NONE /* silence */
};

/**
 * A log callback: level, the line without a newline, and the argument given with it.
 * May be called from any thread, the library's own control thread included; must not call tutti.
 */
typedef void tutti_log_fn(enum tutti_log_level level, const char *line, void *arg);

/**
 * tutti_set_log - send the log to fn (NULL: standard error) from now on; process-wide,
 * thread-safe.
 */
void tutti_set_log(tutti_log_fn *fn, void *arg, enum tutti_log_level level);

#ifdef __cplusplus
}
#endif
#pragma GCC visibility pop
#endif
