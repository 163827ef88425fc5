/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Requests: start, test, wait, cancel.
 *
 * A request is active from its start until a call has reported its end. Calls for several requests
 * ignore NULL and persistent requests that are not active; requests may belong to different
 * communicators and contexts.
 *
 * A receive and a probe have no deadline of their own: each call that waits for one has, counted
 * from the begin of that call. At its end the call cancels the receive, if no message has matched
 * it, and returns -ETIMEDOUT. A receive that a message has matched goes on and its request
 * remains.
 *
 * A call that always ends an object takes the object (tutti_request_free and every other free). A
 * call that may end it takes the address of its pointer and sets the pointer to NULL if it has.
 */
#ifndef TUTTI_REQUEST_H
#define TUTTI_REQUEST_H

#include <tutti/comm.h>

#pragma GCC visibility push(default)
#ifdef __cplusplus
extern "C" {
#endif

struct tutti_request;

/** tutti_start - start a persistent request; -EBUSY while it is running. */
int tutti_start(struct tutti_request *request);
/**
 * tutti_startall - start all in this order, or none if one is running or not persistent; NULL is
 * left out. The result of a request is an error if its communicator has failed.
 */
int tutti_startall(int n, struct tutti_request **requests);

/**
 * tutti_test - advance; *done becomes 1 if the operation is complete, else 0. A complete request
 * that is not persistent is freed and *request set to NULL. NULL and never-started are complete.
 * The return value is the operation's own result once it is done.
 */
int tutti_test(struct tutti_request **request, int *done);
int tutti_wait(struct tutti_request **request);
/**
 * tutti_request_get_status - as tutti_test, but a complete request stays as it is: a later test or
 * wait reports its end.
 */
int tutti_request_get_status(struct tutti_request *request, int *done);

/** tutti_waitall - wait for all; returns the first error among them, after all are complete. */
int tutti_waitall(int n, struct tutti_request **requests);
/** tutti_testall - *done becomes 1 if all are complete, which ends them, else 0. */
int tutti_testall(int n, struct tutti_request **requests, int *done);
/** tutti_waitany - wait for one; *index is its place, or -1 when none is active. */
int tutti_waitany(int n, struct tutti_request **requests, int *index);
/** tutti_testany - *done becomes 0 if some are active and none of them is complete. */
int tutti_testany(int n, struct tutti_request **requests, int *index, int *done);
/**
 * tutti_waitsome - wait until one or more are complete: *count of them, 0 when none is active.
 * indices gets their places, results (may be NULL) the result of each; both have room for n.
 * Returns the first error among the results.
 */
int tutti_waitsome(int n, struct tutti_request **requests, int *count, int *indices, int *results);
int tutti_testsome(int n, struct tutti_request **requests, int *count, int *indices, int *results);

/**
 * tutti_cancel - end a receive that no message has matched: its result is -ECANCELED, which a test
 * or wait reports. Without effect on a receive that has matched, or is not running. Local.
 */
int tutti_cancel(struct tutti_request *request);

/**
 * tutti_request_set_timeout - from now on ms milliseconds instead of its communicator's timeout;
 * 0: as its communicator. Of a receive: for each call that waits for it. Of another operation that
 * is running: counted from now; of later starts: from each start.
 */
int tutti_request_set_timeout(struct tutti_request *request, int ms);

/** tutti_request_free - free a request; one that is running ends by itself first. */
int tutti_request_free(struct tutti_request *request);

#ifdef __cplusplus
}
#endif
#pragma GCC visibility pop
#endif
