/* SPDX-License-Identifier: BSD-3-Clause */
/* Point-to-point calls: check arguments, then call lib/p2p. */
#include "lib/p2p/p2p.h"

#include <errno.h>

#include "lib/api/api.h"

#define PLAIN_SIZE 16 /* bytes: no named datatype has larger elements */

static int check_rank(const char *name, const char *what, int rank, bool any,
		      const struct tutti_comm *comm)
{
	if (any && rank == TUTTI_ANY_SOURCE)
		return 0;
	if (rank >= 0 && rank < comm->size)
		return 0;
	return tt_fail(-EINVAL, "%s: %s %d is not a rank of this communicator (0 to %d%s)", name,
		       what, rank, comm->size - 1, any ? ", or TUTTI_ANY_SOURCE" : "");
}

static int check_tag(const char *name, int tag, bool any)
{
	if (tag >= 0 || (any && tag == TUTTI_ANY_TAG))
		return 0;
	return tt_fail(-EINVAL, "%s: tag %d is out of range (0 to %d%s)", name, tag, TUTTI_TAG_MAX,
		       any ? ", or TUTTI_ANY_TAG" : "");
}

int tt_check_message(const struct tutti_comm *comm, const struct tt_p2p_call *call)
{
	static const char *const names[] = {"send", "recv", "probe"};
	const char *name = call->sync ? "ssend" : names[call->kind];
	bool send = call->kind == TT_P2P_SEND;
	int err = tt_check_comm(comm);

	if (!err && call->kind != TT_P2P_PROBE)
		err = tt_check_data(name, call->buf, call->count, call->datatype);
	if (!err)
		err = check_rank(name, send ? "dest" : "source", call->rank, !send, comm);
	return err ? err : check_tag(name, call->tag, !send);
}

/* Fast path for a valid call; everything else gets the full checks. */
static bool is_plain(const struct tutti_comm *comm, const struct tt_p2p_call *call)
{
	return comm && comm->magic == TT_COMM_MAGIC &&
	       (unsigned)call->rank < (unsigned)comm->size && call->tag >= 0 &&
	       (unsigned)call->datatype < TUTTI_NUM_DATATYPES &&
	       call->count <= TT_SPACE_MAX / PLAIN_SIZE && call->buf && call->buf != TUTTI_IN_PLACE;
}

static inline int check(const struct tutti_comm *comm, const struct tt_p2p_call *call)
{
	return is_plain(comm, call) ? 0 : tt_check_message(comm, call);
}

static int start(struct tutti_comm *comm, const struct tt_p2p_call *call, bool persistent,
		 struct tutti_request **out)
{
	struct tutti_request *req = NULL;
	int err;

	tt_wire_lock(comm->ctx->wire);
	err = tt_comm_check(comm);
	if (!err && !persistent && !tt_group_is_open())
		req = tt_p2p_start_brief(comm, call);
	if (!err && !req) {
		err = tt_p2p_new(comm, call, persistent, &req);
		if (!err && !persistent)
			err = tt_request_launch(req);
	}
	tt_wire_unlock(comm->ctx->wire);
	if (!err)
		*out = req;
	return err;
}

static int launch(struct tutti_comm *comm, const struct tt_p2p_call *call, bool persistent,
		  struct tutti_request **out)
{
	int err = check(comm, call);

	if (err)
		return err;
	if (!out)
		return tt_fail(-EINVAL, "%s: request is NULL",
			       call->kind == TT_P2P_SEND ? "send" : "recv");
	return start(comm, call, persistent, out);
}

static int run_checked(struct tutti_comm *comm, const struct tt_p2p_call *call)
{
	struct tutti_request *req = NULL;
	int err;

	if (!tt_group_is_open() && tt_p2p_at_once(comm, call))
		return 0;
	err = start(comm, call, false, &req);
	return err ? err : tt_request_finish(&req);
}

static int run(struct tutti_comm *comm, const struct tt_p2p_call *call)
{
	int err = check(comm, call);

	return err ? err : run_checked(comm, call);
}

/* Starts both or neither: a receive must not wait for the peer of a failed call. */
static int launch_both(struct tutti_comm *comm, const struct tt_p2p_call *recv,
		       struct tutti_request **in, const struct tt_p2p_call *send,
		       struct tutti_request **out)
{
	int err, late = 0;

	tt_wire_lock(comm->ctx->wire);
	err = tt_comm_check(comm);
	if (!err)
		err = tt_p2p_new(comm, recv, false, in);
	if (!err) {
		err = tt_p2p_new(comm, send, false, out);
		if (err)
			tt_request_free(*in);
	}
	if (!err) {
		err = tt_request_launch(*in);
		if (err)
			tt_request_free(*out);
		else
			late = tt_request_launch(*out);
	}
	tt_wire_unlock(comm->ctx->wire);
	if (late) /* the communicator has failed, and the receive with it */
		(void)tt_request_finish(in);
	return err ? err : late;
}

static struct tt_p2p_call send_call(const void *buf, size_t count, enum tutti_datatype datatype,
				    int dest, int tag, bool sync)
{
	return (struct tt_p2p_call){.kind = TT_P2P_SEND,
				    .buf = (void *)buf,
				    .count = count,
				    .datatype = datatype,
				    .rank = dest,
				    .tag = tag,
				    .sync = sync};
}

static struct tt_p2p_call recv_call(void *buf, size_t count, enum tutti_datatype datatype,
				    int source, int tag, struct tutti_status *status)
{
	return (struct tt_p2p_call){.kind = TT_P2P_RECV,
				    .buf = buf,
				    .count = count,
				    .datatype = datatype,
				    .rank = source,
				    .tag = tag,
				    .status = status};
}

/* The three forms of a call: tutti_NAME, tutti_iNAME and tutti_NAME_init. */
#define FORMS(name, parameters, message)                                                           \
	int tutti_##name(TT_PARAMETERS parameters)                                                 \
	{                                                                                          \
		struct tt_p2p_call call = message;                                                 \
                                                                                                   \
		return run(comm, &call);                                                           \
	}                                                                                          \
	int tutti_i##name(TT_PARAMETERS parameters, struct tutti_request **request)                \
	{                                                                                          \
		struct tt_p2p_call call = message;                                                 \
                                                                                                   \
		return launch(comm, &call, false, request);                                        \
	}                                                                                          \
	int tutti_##name##_init(TT_PARAMETERS parameters, struct tutti_request **request)          \
	{                                                                                          \
		struct tt_p2p_call call = message;                                                 \
                                                                                                   \
		return launch(comm, &call, true, request);                                         \
	}

FORMS(send,
      (const void *buf, size_t count, enum tutti_datatype datatype, int dest, int tag,
       struct tutti_comm *comm),
      send_call(buf, count, datatype, dest, tag, false))

FORMS(ssend,
      (const void *buf, size_t count, enum tutti_datatype datatype, int dest, int tag,
       struct tutti_comm *comm),
      send_call(buf, count, datatype, dest, tag, true))

FORMS(recv,
      (void *buf, size_t count, enum tutti_datatype datatype, int source, int tag,
       struct tutti_comm *comm, struct tutti_status *status),
      recv_call(buf, count, datatype, source, tag, status))

int tutti_sendrecv(const void *sendbuf, size_t sendcount, enum tutti_datatype sendtype, int dest,
		   int sendtag, void *recvbuf, size_t recvcount, enum tutti_datatype recvtype,
		   int source, int recvtag, struct tutti_comm *comm, struct tutti_status *status)
{
	struct tt_p2p_call recv = recv_call(recvbuf, recvcount, recvtype, source, recvtag, status);
	struct tt_p2p_call send = send_call(sendbuf, sendcount, sendtype, dest, sendtag, false);
	const char *s = sendbuf, *r = recvbuf;
	struct tutti_request *in = NULL, *out = NULL;
	int err = tt_check_message(comm, &send), err2;

	if (!err)
		err = tt_check_message(comm, &recv);
	if (err)
		return err;
	if (s < r + recvcount * tutti_datatype_size(recvtype) &&
	    r < s + sendcount * tutti_datatype_size(sendtype))
		return tt_fail(-EINVAL, "sendrecv: sendbuf and recvbuf overlap");
	if (!tt_group_is_open() && tt_p2p_send_of_both(comm, &send, &recv))
		return run_checked(comm, &recv);
	err = launch_both(comm, &recv, &in, &send, &out);
	if (err)
		return err;
	err = tt_request_finish(&out);
	err2 = tt_request_finish(&in);
	return err ? err : err2;
}

static struct tt_p2p_call probe_call(int source, int tag, struct tutti_message **message,
				     struct tutti_status *status)
{
	return (struct tt_p2p_call){.kind = TT_P2P_PROBE,
				    .datatype = TUTTI_UINT8,
				    .rank = source,
				    .tag = tag,
				    .message = message,
				    .status = status};
}

int tutti_probe(int source, int tag, struct tutti_comm *comm, struct tutti_status *status)
{
	struct tt_p2p_call call = probe_call(source, tag, NULL, status);
	int err = tt_group_refuse(__func__);

	return err ? err : run(comm, &call);
}

int tutti_mprobe(int source, int tag, struct tutti_comm *comm, struct tutti_message **message,
		 struct tutti_status *status)
{
	struct tt_p2p_call call = probe_call(source, tag, message, status);
	int err = tt_group_refuse(__func__);

	if (!err && !message)
		err = tt_fail(-EINVAL, "mprobe: message is NULL");
	return err ? err : run(comm, &call);
}

/* Without waiting. The probe takes the message out if call->message is set. */
static int look(struct tutti_comm *comm, const struct tt_p2p_call *call, int *found)
{
	struct tutti_message *msg = NULL;
	struct tt_p2p *p2p;
	int err;

	tt_wire_lock(comm->ctx->wire);
	err = tt_p2p_get(comm, &p2p);
	if (!err && call->rank >= 0 && !tt_p2p_peer(p2p, call->rank))
		err = tt_fail(-ENOMEM, "no memory for messages with rank %d", call->rank);
	if (!err) {
		tt_engine_progress(comm->ctx);
		tt_engine_timers(comm->ctx);
		err = tt_comm_check(comm);
	}
	if (!err)
		msg = tt_p2p_find(p2p, call->rank, call->tag);
	if (msg)
		tt_p2p_tell(call->status, msg->peer->rank, msg->tag, msg->total, msg->head);
	if (msg && call->message) {
		tt_p2p_take(p2p, msg);
		*call->message = msg;
	}
	if (!err && !msg && comm->ndead && tt_comm_dead(comm, call->rank) >= 0)
		err = tt_comm_needs_dead(comm, tt_comm_dead(comm, call->rank), "iprobe");
	tt_wire_leave(comm->ctx->wire);
	tt_wire_unlock(comm->ctx->wire);
	if (!err)
		*found = msg != NULL;
	return err;
}

int tutti_iprobe(int source, int tag, struct tutti_comm *comm, int *found,
		 struct tutti_status *status)
{
	struct tt_p2p_call call = probe_call(source, tag, NULL, status);
	int err = tt_check_message(comm, &call);

	if (!err && !found)
		err = tt_fail(-EINVAL, "iprobe: found is NULL");
	return err ? err : look(comm, &call, found);
}

int tutti_improbe(int source, int tag, struct tutti_comm *comm, int *found,
		  struct tutti_message **message, struct tutti_status *status)
{
	struct tt_p2p_call call = probe_call(source, tag, message, status);
	int err = tt_check_message(comm, &call);

	if (!err && (!found || !message))
		err = tt_fail(-EINVAL, "improbe: %s is NULL", found ? "message" : "found");
	return err ? err : look(comm, &call, found);
}

int tt_take_message(struct tt_p2p_call *call, struct tutti_message **message,
		    struct tutti_comm **comm)
{
	struct tutti_message *msg = message ? *message : NULL;

	if (!msg)
		return tt_fail(-EINVAL, "mrecv: %s",
			       message ? "there is no message" : "message is NULL");
	if (!atomic_load(&msg->taken)) /* its memory lasts as long as its communicator */
		return tt_fail(-EINVAL, "mrecv: the message has been received already");
	call->rank = msg->peer->rank;
	call->tag = msg->tag;
	call->taken = msg;
	*comm = msg->peer->p2p->comm;
	return 0;
}

int tutti_imrecv(void *buf, size_t count, enum tutti_datatype datatype,
		 struct tutti_message **message, struct tutti_status *status,
		 struct tutti_request **request)
{
	struct tt_p2p_call call = recv_call(buf, count, datatype, 0, 0, status);
	struct tutti_comm *comm = NULL;
	int err = tt_take_message(&call, message, &comm);

	if (!err)
		err = launch(comm, &call, false, request);
	if (!err)
		*message = NULL;
	return err;
}

int tutti_mrecv(void *buf, size_t count, enum tutti_datatype datatype,
		struct tutti_message **message, struct tutti_status *status)
{
	struct tutti_request *req = NULL;
	int err = tutti_imrecv(buf, count, datatype, message, status, &req);

	return err ? err : tt_request_finish(&req);
}
