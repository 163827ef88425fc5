/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages between two ranks, and groups of calls.
 *
 * A message has a tag; a receive takes the first message, in the order of its sender's calls,
 * whose sender, tag and communicator match. Counts are in elements; a receive's count is the
 * maximum. A receive names the datatype of the send. Sends of short messages complete at once while
 * few messages wait at the receiver; other sends complete when the receive is posted. Programs must
 * not rely on either. A buffer belongs to the library until the call or request is done.
 */
#ifndef TUTTI_P2P_H
#define TUTTI_P2P_H

#include <tutti/coll.h>

#pragma GCC visibility push(default)
#ifdef __cplusplus
extern "C" {
#endif

#define TUTTI_ANY_SOURCE (-1)
#define TUTTI_ANY_TAG (-1)
#define TUTTI_TAG_MAX 0x7fffffff /* tags are 0 to this */

/* The message of a receive or a probe; after -EMSGSIZE or -TUTTI_EMISMATCH the dropped message. */
struct tutti_status {
	int source; /* rank in the communicator */
	int tag;
	size_t bytes;		      /* length of the message */
	enum tutti_datatype datatype; /* as its sender named it */
	int reserved[3];	      /* for fields of later versions; not written */
};

int tutti_send(const void *buf, size_t count, enum tutti_datatype datatype, int dest, int tag,
	       struct tutti_comm *comm);
int tutti_isend(const void *buf, size_t count, enum tutti_datatype datatype, int dest, int tag,
		struct tutti_comm *comm, struct tutti_request **request);
int tutti_send_init(const void *buf, size_t count, enum tutti_datatype datatype, int dest, int tag,
		    struct tutti_comm *comm, struct tutti_request **request);

/** tutti_ssend - as tutti_send, but complete only when a receive has matched the message. */
int tutti_ssend(const void *buf, size_t count, enum tutti_datatype datatype, int dest, int tag,
		struct tutti_comm *comm);
int tutti_issend(const void *buf, size_t count, enum tutti_datatype datatype, int dest, int tag,
		 struct tutti_comm *comm, struct tutti_request **request);
int tutti_ssend_init(const void *buf, size_t count, enum tutti_datatype datatype, int dest, int tag,
		     struct tutti_comm *comm, struct tutti_request **request);

/**
 * tutti_recv - source may be TUTTI_ANY_SOURCE, tag TUTTI_ANY_TAG. *status (may be NULL) is
 * written before the request is seen to be done. A message that is longer than count elements is
 * -EMSGSIZE, and one of another datatype -TUTTI_EMISMATCH: it is dropped, nothing is written to
 * buf, and everything else goes on.
 */
int tutti_recv(void *buf, size_t count, enum tutti_datatype datatype, int source, int tag,
	       struct tutti_comm *comm, struct tutti_status *status);
int tutti_irecv(void *buf, size_t count, enum tutti_datatype datatype, int source, int tag,
		struct tutti_comm *comm, struct tutti_status *status,
		struct tutti_request **request);
int tutti_recv_init(void *buf, size_t count, enum tutti_datatype datatype, int source, int tag,
		    struct tutti_comm *comm, struct tutti_status *status,
		    struct tutti_request **request);

/** tutti_sendrecv - both at once; the buffers must not overlap. */
int tutti_sendrecv(const void *sendbuf, size_t sendcount, enum tutti_datatype sendtype, int dest,
		   int sendtag, void *recvbuf, size_t recvcount, enum tutti_datatype recvtype,
		   int source, int recvtag, struct tutti_comm *comm, struct tutti_status *status);

/** tutti_probe - wait for a message and store its status without receiving it. */
int tutti_probe(int source, int tag, struct tutti_comm *comm, struct tutti_status *status);
/** tutti_iprobe - *found becomes 1 if there is such a message now, else 0. */
int tutti_iprobe(int source, int tag, struct tutti_comm *comm, int *found,
		 struct tutti_status *status);

struct tutti_message;

/**
 * tutti_mprobe, tutti_improbe - as tutti_probe and tutti_iprobe, but take the message out: no other
 * receive or probe finds it, whichever thread makes it. Only tutti_mrecv receives *message.
 */
int tutti_mprobe(int source, int tag, struct tutti_comm *comm, struct tutti_message **message,
		 struct tutti_status *status);
int tutti_improbe(int source, int tag, struct tutti_comm *comm, int *found,
		  struct tutti_message **message, struct tutti_status *status);
/** tutti_mrecv - receive a message that was taken out; *message becomes NULL. */
int tutti_mrecv(void *buf, size_t count, enum tutti_datatype datatype,
		struct tutti_message **message, struct tutti_status *status);
int tutti_imrecv(void *buf, size_t count, enum tutti_datatype datatype,
		 struct tutti_message **message, struct tutti_status *status,
		 struct tutti_request **request);

/**
 * tutti_group_start, tutti_group_end - the calls of this thread between them are started
 * together by the end of the outermost group: collectives in their order, sends and receives in
 * any. Blocking forms return at once, and tutti_group_end returns when they are complete, with the
 * first error among them.
 */
int tutti_group_start(void);
int tutti_group_end(void);

#ifdef __cplusplus
}
#endif
#pragma GCC visibility pop
#endif
