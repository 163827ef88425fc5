/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bare_ofi BYTES ITERATIONS DEPTH ADDRESS: what libfabric's tcp carries without tutti: rank 0 of
 * two (TUTTI_RANK), which listens at ADDRESS, writes into rank 1's memory over the kind of endpoint
 * that transports/ofi uses, DEPTH writes under way; the last one is confirmed by the target. It
 * prints a row like tutti_perf put, with the messages per microsecond in the fifth column.
 */
#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_rma.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "perf/whole_number.h"

#define PORT "18390"
#define LIMIT 60.0 /* seconds, for everything */
#define WARMUP 50

struct window {
	uint64_t addr, key;
};

struct bare {
	struct fi_info *info;
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_eq *eq;
	struct fid_pep *pep;
	struct fid_ep *ep;
	struct fid_cq *cq;
	struct fid_mr *mr, *small_mr;
	char *mem;
	size_t bytes;
	struct window *peer; /* of the other; the message that says it, or the end */
	long under_way;
	bool message;
};

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static double deadline;

/* rc of a call of libfabric's, or EAGAIN for too long */
static int check(const char *what, long rc)
{
	if (rc >= 0)
		return 0;
	fprintf(stderr, "bare_ofi: %s: %s\n", what, fi_strerror((int)-rc));
	return -1;
}

static int open_all(struct bare *b, const char *address, int rank)
{
	struct fi_cq_attr attr = {
		.format = FI_CQ_FORMAT_DATA, .wait_obj = FI_WAIT_FD, .size = 2048};
	struct fi_eq_attr eq_attr = {.wait_obj = FI_WAIT_FD};
	struct fi_info *hints = fi_allocinfo();
	int rc;

	hints->caps = FI_MSG | FI_RMA;
	hints->mode = FI_CONTEXT | FI_CONTEXT2;
	hints->ep_attr->type = FI_EP_MSG;
	hints->domain_attr->mr_mode =
		FI_MR_LOCAL | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_VIRT_ADDR;
	hints->domain_attr->threading = FI_THREAD_DOMAIN;
	hints->fabric_attr->prov_name = strdup("tcp");
	rc = fi_getinfo(FI_VERSION(1, 17), address, PORT, rank ? 0 : FI_SOURCE, hints, &b->info);
	fi_freeinfo(hints);
	if (!rc)
		rc = fi_fabric(b->info->fabric_attr, &b->fabric, NULL);
	if (!rc)
		rc = fi_domain(b->fabric, b->info, &b->domain, NULL);
	if (!rc)
		rc = fi_cq_open(b->domain, &attr, &b->cq, NULL);
	if (!rc)
		rc = fi_eq_open(b->fabric, &eq_attr, &b->eq, NULL);
	if (!rc)
		rc = fi_mr_reg(b->domain, b->mem, b->bytes, FI_WRITE | FI_REMOTE_WRITE, 0, 1, 0,
			       &b->mr, NULL);
	if (!rc)
		rc = fi_mr_reg(b->domain, b->peer, sizeof(*b->peer), FI_SEND | FI_RECV, 0, 2, 0,
			       &b->small_mr, NULL);
	return check("opening", rc);
}

static int next_event(struct bare *b, uint32_t wanted, struct fi_eq_cm_entry *cm)
{
	uint32_t event;
	ssize_t n;

	do {
		n = fi_eq_read(b->eq, &event, cm, sizeof(*cm), 0);
	} while (n == -FI_EAGAIN && now() < deadline);
	if (n < 0)
		return check("connecting", n);
	return event == wanted ? 0 : check("connecting", -FI_ECONNREFUSED);
}

static int make_ep(struct bare *b, struct fi_info *info)
{
	int rc = fi_endpoint(b->domain, info, &b->ep, NULL);

	if (!rc)
		rc = fi_ep_bind(b->ep, &b->eq->fid, 0);
	if (!rc)
		rc = fi_ep_bind(b->ep, &b->cq->fid, FI_TRANSMIT | FI_RECV);
	if (!rc)
		rc = fi_enable(b->ep);
	if (!rc)
		rc = (int)fi_recv(b->ep, b->peer, sizeof(*b->peer), fi_mr_desc(b->small_mr), 0,
				  b->peer);
	return check("making an endpoint", rc);
}

static int connect_both(struct bare *b, int rank)
{
	struct fi_eq_cm_entry cm;
	int rc;

	if (rank) {
		if (make_ep(b, b->info))
			return -1;
		rc = fi_connect(b->ep, b->info->dest_addr, NULL, 0);
		return rc ? check("connecting", rc) : next_event(b, FI_CONNECTED, &cm);
	}
	rc = fi_passive_ep(b->fabric, b->info, &b->pep, NULL);
	if (!rc)
		rc = fi_pep_bind(b->pep, &b->eq->fid, 0);
	if (!rc)
		rc = fi_listen(b->pep);
	if (rc)
		return check("listening", rc);
	if (next_event(b, FI_CONNREQ, &cm) || make_ep(b, cm.info))
		return -1;
	rc = fi_accept(b->ep, NULL, 0);
	fi_freeinfo(cm.info);
	return rc ? check("accepting", rc) : next_event(b, FI_CONNECTED, &cm);
}

static int progress(struct bare *b)
{
	struct fi_cq_data_entry e[16];
	ssize_t i, n = fi_cq_read(b->cq, e, 16);

	if (n == -FI_EAGAIN)
		return now() < deadline ? 0 : check("waiting", -FI_ETIMEDOUT);
	if (n < 0)
		return check("completing", n);
	for (i = 0; i < n; i++) {
		if (e[i].op_context == b->peer)
			b->message = true;
		else
			b->under_way--;
	}
	return 0;
}

/* n writes, at most depth under way; the last is confirmed and waited for, with all before it. */
static int writes(struct bare *b, long n, long depth)
{
	struct iovec iov = {b->mem, b->bytes};
	struct fi_rma_iov to = {b->peer->addr, b->bytes, b->peer->key};
	void *desc = fi_mr_desc(b->mr);
	struct fi_msg_rma m = {&iov, &desc, 1, 0, &to, 1, b->mem, 0};
	long i = 0;
	ssize_t rc;

	while (i < n || b->under_way) {
		if (i < n && b->under_way < depth) {
			rc = i < n - 1
				     ? fi_write(b->ep, b->mem, b->bytes, desc, 0, to.addr, to.key,
						b->mem)
				     : fi_writemsg(b->ep, &m, FI_COMPLETION | FI_DELIVERY_COMPLETE);
			if (rc && rc != -FI_EAGAIN)
				return check("writing", rc);
			b->under_way += !rc;
			i += !rc;
			if (!rc && b->under_way < depth)
				continue;
		}
		if (progress(b))
			return -1;
	}
	return 0;
}

static int tell(struct bare *b)
{
	struct window own = {b->info->domain_attr->mr_mode & FI_MR_VIRT_ADDR ? (uintptr_t)b->mem
									     : 0,
			     fi_mr_key(b->mr)};

	return check("sending", fi_inject(b->ep, &own, sizeof(own), 0));
}

static int hear(struct bare *b)
{
	while (!b->message)
		if (progress(b))
			return -1;
	return 0;
}

/* Rank 1 only progresses until rank 0 says that it is done. */
static int run(struct bare *b, int rank, long n, long depth)
{
	double start;

	if (rank)
		return tell(b) || hear(b) ? -1 : 0;
	if (hear(b) || writes(b, WARMUP, depth))
		return -1;
	start = now();
	if (writes(b, n, depth))
		return -1;
	start = now() - start;
	printf("%zu %ld - - %.6f\n", b->bytes, n, (double)n / start / 1e6);
	return tell(b);
}

int main(int argc, char **argv)
{
	const char *own = getenv("TUTTI_RANK");
	static struct window peer;
	struct bare b = {.peer = &peer};
	int rank = whole_number(own), iterations = -1, depth = -1;
	long long bytes = -1;

	if (argc == 5) {
		bytes = whole_up_to(argv[1], LONG_MAX);
		iterations = whole_number(argv[2]);
		depth = whole_number(argv[3]);
	}
	if (bytes < 1 || iterations < 1 || depth < 1 || rank < 0 || rank > 1)
		return fprintf(stderr,
			       "usage: TUTTI_RANK=0|1 bare_ofi BYTES ITERATIONS DEPTH ADDRESS\n"),
		       2;
	b.bytes = (size_t)bytes;
	b.mem = calloc(1, b.bytes);
	deadline = now() + LIMIT;
	if (rank) /* rank 0 needs a moment to listen */
		nanosleep(&(struct timespec){.tv_nsec = 300000000}, NULL);
	if (!b.mem || open_all(&b, argv[4], rank) || connect_both(&b, rank))
		return 1;
	if (run(&b, rank, iterations, depth))
		return 1;
	nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL); /* the last message leaves */
	fi_shutdown(b.ep, 0);
	return 0;
}
