/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bare_verbs send|imm BYTES ITERATIONS DEVICE GID PORT [ADDRESS]: measures a round trip on a
 * device without tutti, by SEND as in ib_send_lat, or by RDMA WRITE WITH IMMEDIATE as in a put
 * with a note, which older versions of perftest cannot measure. Without an ADDRESS it is the
 * server. It prints a row like ib_send_lat, with half the median round trip in microseconds in the
 * fifth column. For perf/compare_verbs.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "perf/whole_number.h"

#define WARMUP 100
#define LIMIT 60.0 /* seconds, for everything */
#define DEPTH 64   /* receives posted */
#define INLINE 64  /* bytes that travel in the request */

struct place { /* parameters sent to the peer */
	uint32_t qpn, rkey;
	uint64_t addr;
	union ibv_gid gid;
};

struct bare {
	bool imm, server;
	uint32_t bytes;
	int gid;
	struct ibv_context *dev;
	struct ibv_pd *pd;
	struct ibv_cq *sends, *receives;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	char *mem; /* send buffer, then receive buffer */
	struct place mine, its;
	long sent;
};

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static int fail(const char *what)
{
	fprintf(stderr, "bare_verbs: %s: %s\n", what, strerror(errno));
	return -1;
}

/* Exchange places over TCP. */
static int meet(struct bare *b, int port, const char *address)
{
	struct sockaddr_in sa = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
	const struct timeval limit = {.tv_sec = (time_t)LIMIT};
	int fd = socket(AF_INET, SOCK_STREAM, 0), one = 1, s = fd, tries;
	bool ok;

	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)); /* of accept as well */
	if (fd < 0 || inet_pton(AF_INET, address ? address : "127.0.0.1", &sa.sin_addr) != 1)
		return fail("socket");
	if (!address) {
		setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
		if (bind(fd, (void *)&sa, sizeof(sa)) || listen(fd, 1))
			return fail("listen");
		s = accept(fd, NULL, NULL);
		if (s < 0)
			return fail("accept");
		setsockopt(s, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	}
	for (tries = 0; address && connect(fd, (void *)&sa, sizeof(sa)); tries++) {
		if (tries == 100)
			return fail("connect");
		usleep(20000);
	}
	ok = write(s, &b->mine, sizeof(b->mine)) == sizeof(b->mine) &&
	     recv(s, &b->its, sizeof(b->its), MSG_WAITALL) == sizeof(b->its);
	close(fd);
	if (s != fd)
		close(s);
	return ok ? 0 : fail("exchange");
}

static size_t pages(const struct bare *b)
{
	return ((size_t)b->bytes + 4095) / 4096 * 4096;
}

static int open_named(struct bare *b, const char *name)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	int i;

	for (i = 0; list && list[i]; i++)
		if (!strcmp(ibv_get_device_name(list[i]), name))
			b->dev = ibv_open_device(list[i]);
	if (list)
		ibv_free_device_list(list);
	return b->dev ? 0 : fail(name);
}

static int open_device(struct bare *b, const char *name)
{
	struct ibv_qp_init_attr init = {.qp_type = IBV_QPT_RC,
					.cap = {.max_send_wr = DEPTH,
						.max_recv_wr = DEPTH,
						.max_send_sge = 1,
						.max_recv_sge = 1,
						.max_inline_data = INLINE}};

	if (open_named(b, name))
		return -1;
	b->pd = ibv_alloc_pd(b->dev);
	b->sends = ibv_create_cq(b->dev, 2 * DEPTH, NULL, NULL, 0);
	b->receives = ibv_create_cq(b->dev, 2 * DEPTH, NULL, NULL, 0);
	b->mem = aligned_alloc(4096, 2 * pages(b));
	if (!b->pd || !b->sends || !b->receives || !b->mem)
		return fail("queues");
	memset(b->mem, 1, 2 * pages(b));
	b->mr = ibv_reg_mr(b->pd, b->mem, 2 * pages(b),
			   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	init.send_cq = b->sends;
	init.recv_cq = b->receives;
	b->qp = b->mr ? ibv_create_qp(b->pd, &init) : NULL;
	if (!b->qp || ibv_query_gid(b->dev, 1, b->gid, &b->mine.gid))
		return fail("queue pair");
	b->mine.qpn = b->qp->qp_num;
	b->mine.rkey = b->mr->rkey;
	b->mine.addr = (uintptr_t)b->mem + pages(b);
	return 0;
}

static int ready_to_receive(struct bare *b)
{
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_INIT,
				.port_num = 1,
				.qp_access_flags = IBV_ACCESS_REMOTE_WRITE};
	struct ibv_port_attr port;

	if (ibv_query_port(b->dev, 1, &port) ||
	    ibv_modify_qp(b->qp, &a,
			  IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS))
		return fail("INIT");
	a = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTR,
				 .path_mtu = port.active_mtu,
				 .dest_qp_num = b->its.qpn,
				 .max_dest_rd_atomic = 1,
				 .min_rnr_timer = 12,
				 .ah_attr = {.is_global = 1,
					     .port_num = 1,
					     .grh = {.dgid = b->its.gid,
						     .sgid_index = (uint8_t)b->gid,
						     .hop_limit = 64}}};
	if (ibv_modify_qp(b->qp, &a,
			  IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				  IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER))
		return fail("RTR");
	return 0;
}

static int ready_to_send(struct bare *b)
{
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_RTS,
				.timeout = 14,
				.retry_cnt = 7,
				.rnr_retry = 7,
				.max_rd_atomic = 1};

	if (ibv_modify_qp(b->qp, &a,
			  IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				  IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC))
		return fail("RTS");
	return 0;
}

static int post_receive(struct bare *b)
{
	struct ibv_sge sge = {.addr = b->mine.addr, .length = b->bytes, .lkey = b->mr->lkey};
	struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = b->imm ? 0 : 1}, *bad;

	return ibv_post_recv(b->qp, &wr, &bad) ? fail("receive") : 0;
}

static int send_one(struct bare *b)
{
	struct ibv_sge sge = {.addr = (uintptr_t)b->mem, .length = b->bytes, .lkey = b->mr->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge,
				 .num_sge = 1,
				 .opcode = b->imm ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_SEND,
				 .wr.rdma = {.remote_addr = b->its.addr, .rkey = b->its.rkey}},
			   *bad;
	struct ibv_wc wc;

	if (b->bytes <= INLINE)
		wr.send_flags |= IBV_SEND_INLINE;
	if (++b->sent % (DEPTH / 2) == 0)
		wr.send_flags |= IBV_SEND_SIGNALED;
	if (ibv_post_send(b->qp, &wr, &bad))
		return fail("send");
	while (ibv_poll_cq(b->sends, 1, &wc) > 0)
		if (wc.status)
			return fail(ibv_wc_status_str(wc.status));
	return 0;
}

static int receive_one(struct bare *b, double deadline)
{
	struct ibv_wc wc;
	long spins = 0;
	int n;

	while (!(n = ibv_poll_cq(b->receives, 1, &wc)))
		if (++spins % 65536 == 0 && now() > deadline)
			return fail("nothing came");
	if (n < 0 || wc.status)
		return fail(n < 0 ? "poll" : ibv_wc_status_str(wc.status));
	return post_receive(b);
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

static int there_and_back(struct bare *b, long n)
{
	double *t = calloc((size_t)n, sizeof(*t)), deadline = now() + LIMIT, t0;
	long i;
	int err = t ? 0 : fail("memory");

	for (i = -WARMUP; !err && i < n; i++) {
		t0 = now();
		if (b->server)
			err = receive_one(b, deadline) || send_one(b) ? -1 : 0;
		else
			err = send_one(b) || receive_one(b, deadline) ? -1 : 0;
		if (i >= 0)
			t[i] = (now() - t0) / 2 * 1e6;
	}
	if (!err && !b->server) {
		qsort(t, (size_t)n, sizeof(*t), by_value);
		printf("%u %ld %.2f %.2f %.2f\n", b->bytes, n, t[0], t[n - 1], t[n / 2]);
	}
	free(t);
	if (!err && b->server)
		usleep(200000); /* the last answer is on its way */
	return err;
}

int main(int argc, char **argv)
{
	struct bare b = {0};
	long long bytes = -1;
	int i, port = -1;

	if (argc == 7 || argc == 8) {
		bytes = whole_up_to(argv[2], UINT32_MAX);
		b.gid = whole_number(argv[5]);
		port = (int)whole_up_to(argv[6], UINT16_MAX);
	}
	if (bytes < 0 || b.gid < 0 || port < 1 || whole_number(argv[3]) < 1) {
		fprintf(stderr, "usage: bare_verbs send|imm BYTES ITERATIONS DEVICE GID PORT "
				"[ADDRESS]\n");
		return 2;
	}
	b.imm = !strcmp(argv[1], "imm");
	b.server = argc == 7;
	b.bytes = (uint32_t)bytes;
	if (open_device(&b, argv[4]))
		return 1;
	if (meet(&b, port, argv[7]) || ready_to_receive(&b) || ready_to_send(&b))
		return 1;
	for (i = 0; i < DEPTH / 2; i++)
		if (post_receive(&b))
			return 1;
	if (!b.server)
		usleep(300000); /* the server may still be connecting */
	return there_and_back(&b, whole_number(argv[3])) != 0;
}
