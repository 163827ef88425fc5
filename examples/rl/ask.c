/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Requests of many clients, which rank 0 answers in batches, over a window with notifications.
 *
 *	client 1 [request] --put, id 0--> [place of client 1]
 *	client 2 [request] --put, id 1--> [place of client 2]	 server: rank 0
 *	   ...   [answer]  <--put, notification--
 *
 * A client has one request under way. Its answer says that the put of the request is over, and the
 * next request that the put of the answer is, so no flush is needed. Clients may die at any time
 * if the communicator is tolerant.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "examples/rl/rl.h"

struct ask {
	struct tutti_comm *comm;
	struct tutti_win *win;
	char *mem;  /* of the window: requests by client, or a client's answer */
	char *from; /* what is put: answers by client, or a client's request */
	size_t request, answer;
	int clients;
	int *id;
	bool *gone; /* by rank: clients that are dead or have left */
};

int ask_create(struct tutti_comm *comm, size_t request, size_t answer, struct ask **out)
{
	bool server = !tutti_comm_rank(comm);
	int clients = tutti_comm_size(comm) - 1, err, i;
	size_t n = server ? (size_t)clients : 1;
	void *mem = NULL, *from = NULL;
	struct ask *a;

	if (clients < 1 || clients > TUTTI_NOTIFY_IDS)
		return -EINVAL;
	a = calloc(1, sizeof(*a));
	if (!a)
		return -ENOMEM;
	*a = (struct ask){.comm = comm, .request = request, .answer = answer, .clients = clients};
	err = tutti_win_allocate(comm, n * (server ? request : answer), 0, &mem, &a->win);
	a->mem = mem;
	if (!err)
		err = tutti_alloc(tutti_comm_context(comm), n * (server ? answer : request), &from);
	a->from = from;
	a->id = calloc((size_t)clients, sizeof(*a->id));
	a->gone = calloc((size_t)clients + 1, sizeof(*a->gone));
	*out = a;
	for (i = 0; a->id && i < clients; i++)
		a->id[i] = i;
	return err || (a->id && a->gone) ? err : -ENOMEM;
}

int ask_free(struct ask *a)
{
	int err = a && a->win ? tutti_win_free(a->win) : 0;

	if (!a)
		return 0;
	tutti_free(a->from);
	free(a->id);
	free(a->gone);
	free(a);
	return only_death(err) ? 0 : err;
}

void *ask_request(struct ask *a)
{
	return a->from;
}

int ask_send(struct ask *a, const void **answer)
{
	int me = tutti_comm_rank(a->comm) - 1;
	int err =
		tutti_put_notify_id(a->win, 0, a->from, a->request, (uint64_t)me * a->request, me);

	*answer = a->mem;
	return err ? err : tutti_wait_notify(a->win, 0, 1);
}

int ask_gather(struct ask *a, int *from, int *n)
{
	int at, err;

	*n = 0;
	do {
		at = -1;
		err = tutti_wait_notify_any(a->win, a->clients, a->id, &at);
	} while (only_death(err) && !(err = leave_dead(a->comm, a->gone)) && at < 0);
	while (!err && at >= 0) {
		from[(*n)++] = a->id[at] + 1;
		if (*n == a->clients)
			break;
		err = tutti_test_notify_any(a->win, a->clients, a->id, &at);
		if (only_death(err)) {
			err = leave_dead(a->comm, a->gone);
			at = -1;
		}
	}
	return err;
}

const void *ask_of(const struct ask *a, int rank)
{
	return a->mem + (size_t)(rank - 1) * a->request;
}

void *ask_answer(struct ask *a, int rank)
{
	return a->from + (size_t)(rank - 1) * a->answer;
}

int ask_reply(struct ask *a, int rank, bool last)
{
	int err = tutti_put_notify(a->win, rank, ask_answer(a, rank), a->answer, 0);

	a->gone[rank] |= last;
	return only_death(err) ? 0 : err;
}

int ask_clients(const struct ask *a)
{
	int n = 0, i;

	for (i = 1; i <= a->clients; i++)
		n += !a->gone[i];
	return n;
}
