/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by the files of lib/api: argument checks, each with an error text. */
#ifndef TT_API_H
#define TT_API_H

#include <tutti/tutti.h>

#include "lib/engine/launch.h"

/* 0, or -EINVAL: NULL, freed, or no communicator at all. */
int tt_check_comm(const struct tutti_comm *comm);
int tt_check_ctx(const struct tutti_context *ctx);
/* The same for a call that waits for other ranks: not while a group of calls is open. */
int tt_check_waiting(const char *call, const struct tutti_comm *comm);
/* 0, or -EINVAL: the argument `name` is NULL, or not valid: it is not a `what`. */
int tt_check_object(const char *call, const char *name, const void *object, bool valid,
		    const char *what);
/*
 * check_call.c: 0 and the call in the engine's form, or an error, or TT_NEGATIVE: displs.c first,
 * then again.
 */
#define TT_NEGATIVE 1
int tt_check_call(const struct tutti_comm *comm, struct tt_call *call);
/* Makes negative displacements positive. The new arrays are *memory, to be freed after the call. */
int tt_displs_shift(const struct tutti_comm *comm, struct tt_call *call, size_t **memory);
/* The argument with the displacements of sendbuf or recvbuf. */
static inline const char *tt_displs_name(enum tt_coll coll, bool sends)
{
	return coll != TT_COLL_ALLTOALLV ? "displs" : sends ? "sdispls" : "rdispls";
}
/*
 * coll_calls.c: checks a call, then runs it to its end. tt_call_poll leaves what does not end at
 * once to the caller: TUTTI_CALL_POLL.
 */
int tt_call_run(struct tutti_comm *comm, struct tt_call *call);
int tt_call_poll(struct tutti_comm *comm, struct tt_call *call, struct tutti_request **request);
/* Starts a call, or makes a persistent request of it; options: NULL, none. */
int tt_call_launch(struct tutti_comm *comm, struct tt_call *call, bool persistent,
		   const struct tt_call_options *options, struct tutti_request **request);
/* Inline, so that the struct is built in place, and without string instructions. */
static inline int tt_coll_run(struct tutti_comm *comm, struct tt_call call)
{
	return tt_call_run(comm, &call);
}
static inline int tt_coll_launch(struct tutti_comm *comm, struct tt_call call, bool persistent,
				 struct tutti_request **request)
{
	return tt_call_launch(comm, &call, persistent, NULL, request);
}
/* As tt_call_run, with options. */
int tt_call_run_with(struct tutti_comm *comm, struct tt_call *call,
		     const struct tt_call_options *options);
/* All forms of a call that has been checked; request NULL: blocking. */
int tt_call_checked(struct tutti_comm *comm, struct tt_call *call, bool persistent,
		    struct tutti_request **request);
/* Without checks, also on a communicator that has been freed. Not in a group. */
int tt_call_unchecked(struct tutti_comm *comm, const struct tt_call *call);
/*
 * Defines the three forms of a collective: tutti_NAME, tutti_iNAME and tutti_NAME_init. parameters
 * are those before the communicator, in parentheses; the rest are the members of struct tt_call.
 */
#define TT_COLLECTIVE(name, parameters, ...)                                                       \
	int tutti_##name(TT_PARAMETERS parameters, struct tutti_comm *comm)                        \
	{                                                                                          \
		return tt_coll_run(comm, (struct tt_call){__VA_ARGS__});                           \
	}                                                                                          \
	int tutti_i##name(TT_PARAMETERS parameters, struct tutti_comm *comm,                       \
			  struct tutti_request **request)                                          \
	{                                                                                          \
		return tt_coll_launch(comm, (struct tt_call){__VA_ARGS__}, false, request);        \
	}                                                                                          \
	int tutti_##name##_init(TT_PARAMETERS parameters, struct tutti_comm *comm,                 \
				struct tutti_request **request)                                    \
	{                                                                                          \
		return tt_coll_launch(comm, (struct tt_call){__VA_ARGS__}, true, request);         \
	}
#define TT_PARAMETERS(...) __VA_ARGS__
/*
 * The end of a call that made req under the wire lock, or failed with err: starts req if it should,
 * leaves the lock, and gives req to the caller.
 */
int tt_launch_new(struct tutti_context *ctx, int err, bool start, struct tutti_request *req,
		  struct tutti_request **out);
/* A buffer of count elements; name is the call, for the text. */
int tt_check_data(const char *name, const void *buf, size_t count, enum tutti_datatype datatype);

struct tt_p2p_call;
/* p2p_calls.c: the communicator, buffer, rank and tag of a message. */
int tt_check_message(const struct tutti_comm *comm, const struct tt_p2p_call *call);
/* Makes *call the receive of a message that a probe has taken out; *comm is the message's. */
int tt_take_message(struct tt_p2p_call *call, struct tutti_message **message,
		    struct tutti_comm **comm);

/* No buffer has more bytes: 64 PiB is more than the memory and the address space of any host. */
#define TT_SPACE_MAX ((size_t)PTRDIFF_MAX >> (sizeof(size_t) > 4 ? 7 : 0))

/*
 * Most bytes from buf on. Where x86-64 has addresses of 57 bits, Linux gives those above 47 only to
 * programs that ask for them.
 */
static inline size_t tt_space_from(const void *buf)
{
#if defined(__x86_64__) && defined(__LP64__)
	uintptr_t end = (uintptr_t)1 << 47;

	if ((uintptr_t)buf < end)
		return end - (uintptr_t)buf;
#endif
	(void)buf;
	return TT_SPACE_MAX;
}

struct tt_byte_blocks;
/* Whether bytes low to high of buf may all be in the address space. */
static inline bool tt_check_place(const void *buf, ptrdiff_t low, ptrdiff_t high)
{
	uintptr_t at;

	return low >= -(ptrdiff_t)TT_SPACE_MAX && high <= (ptrdiff_t)tt_space_from(buf) &&
	       !__builtin_add_overflow((uintptr_t)buf, low, &at) &&
	       !__builtin_add_overflow((uintptr_t)buf, high, &at);
}
/*
 * check_layout.c: 0 and the layout in the form of lib/base/byte_blocks.h; `what` is its name in the
 * call, written: its blocks must not overlap.
 */
int tt_check_layout(const char *call, const char *what, const struct tutti_layout *layout,
		    bool written, struct tt_byte_blocks *blocks);

struct tutti_graph;
int tt_check_graph(const char *call, const struct tutti_graph *graph); /* graph_calls.c */

struct tutti_win;
struct tt_win_end;
int tt_check_win(const char *call, const struct tutti_win *win);
/* The same, and len bytes from offset on are in rank's window; local may be NULL if len is 0. */
int tt_check_access(const char *call, struct tutti_win *win, int rank, const void *local,
		    size_t len, uint64_t offset);
/* The name of a call without "tutti_", which names its request. */
static inline const char *tt_short_name(const char *call)
{
	return call + sizeof("tutti_") - 1;
}
/* A request that may not be NULL. */
int tt_check_request(const char *call, struct tutti_request **request);
/* Starts an access that has been checked (lib/rma/rma.h), as a request of the call. */
int tt_win_request(const char *call, struct tutti_win *win, int rank,
		   int (*start)(struct tutti_win *, const void *, struct tt_win_end *),
		   const void *what, struct tutti_request **request);
struct tt_win_strides;
/* strided_calls.c: whether all blocks of s->there are inside the window. */
bool tt_check_there(const struct tutti_win *win, const struct tt_win_strides *s);
int tt_check_writable(const char *call, const struct tutti_win *win, int rank);
/* id may be TUTTI_NOTIFY_RANK, whose token is 0. */
int tt_check_notify(const char *call, const struct tutti_win *win, int rank, int id,
		    uint32_t *token);

#endif
