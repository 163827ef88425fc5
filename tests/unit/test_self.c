/* SPDX-License-Identifier: BSD-3-Clause */
/* Transport self with two endpoints; the conformance suite connects one to itself. */
#include <errno.h>
#include <poll.h>
#include <string.h>

#include "lib/wire/transport.h"
#include "tests/test.h"

extern const struct tt_tp_ops tt_self_tp;

static const struct tt_tp_params params = {.cookie = {1, 2}};

struct two {
	struct tt_tp *tp;
	struct tt_ep *ep[2];
	char blob[2][TT_TP_BLOB_MAX];
	size_t len[2];
};

static bool two_new(struct two *t)
{
	struct tt_event ev[4];
	int i;

	if (tt_self_tp.open(&params, &t->tp))
		return false;
	for (i = 0; i < 2; i++)
		if (tt_self_tp.ep_open(t->tp, &t->ep[i], t->blob[i], &t->len[i]))
			return false;
	if (tt_self_tp.ep_connect(t->ep[0], t->blob[1], t->len[1], true) ||
	    tt_self_tp.poll(t->tp, ev, 4) != 0 ||
	    tt_self_tp.ep_connect(t->ep[1], t->blob[0], t->len[0], false))
		return false;
	/* one at a time */
	return tt_self_tp.poll(t->tp, ev, 1) == 1 && ev[0].kind == TT_EV_UP &&
	       tt_self_tp.poll(t->tp, ev, 4) == 1 && ev[0].kind == TT_EV_UP &&
	       tt_self_tp.poll(t->tp, ev, 4) == 0;
}

static void test_close(void)
{
	struct tt_event ev[4];
	struct two t;

	TT_REQUIRE(two_new(&t));
	TT_CHECK(t.ep[0]->ops->msg(t.ep[0], "to one", 7) == TT_FINISHED);
	TT_CHECK(t.ep[1]->ops->msg(t.ep[1], "to nought", 10) == TT_FINISHED);
	tt_self_tp.ep_close(t.ep[1]);
	TT_CHECK(t.ep[0]->ops->msg(t.ep[0], "x", 2) == -EPIPE);
	/* messages to the closed end are lost, its own messages come before DOWN */
	TT_CHECK(tt_self_tp.poll(t.tp, ev, 4) == 2);
	TT_CHECK(ev[0].kind == TT_EV_MSG && ev[0].ep == t.ep[0] &&
		 !strcmp(ev[0].data, "to nought"));
	TT_CHECK(ev[1].kind == TT_EV_DOWN && ev[1].ep == t.ep[0] && ev[1].status < 0);
	TT_CHECK(tt_self_tp.poll(t.tp, ev, 4) == 0);
	TT_CHECK(t.ep[0]->ops->msg(t.ep[0], "x", 2) == -EPIPE);
	tt_self_tp.ep_close(t.ep[0]);
	tt_self_tp.close(t.tp);
}

static void test_full_queue(void)
{
	struct tt_event ev[8];
	struct two t;
	int sent = 0, got = 0, n, i;

	TT_REQUIRE(two_new(&t));
	while (t.ep[0]->ops->msg(t.ep[0], &sent, sizeof(sent)) == TT_FINISHED && sent < 10000)
		sent++;
	TT_CHECK(sent > 100 && sent < 10000);
	/* data of a poll stays valid until the next, even if the queue is filled again meanwhile */
	while ((n = tt_self_tp.poll(t.tp, ev, 8)) > 0) {
		if (got < 1000 && t.ep[0]->ops->msg(t.ep[0], &sent, sizeof(sent)) == TT_FINISHED)
			sent++;
		for (i = 0; i < n; i++, got++)
			TT_CHECK(ev[i].kind == TT_EV_MSG && !memcmp(ev[i].data, &got, sizeof(got)));
	}
	TT_CHECK(got == sent && got > 1000);
	tt_self_tp.ep_close(t.ep[0]);
	tt_self_tp.ep_close(t.ep[1]);
	tt_self_tp.close(t.tp);
}

static bool readable(int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};

	return poll(&p, 1, 0) == 1;
}

/* Another thread of the process may start something while this one sleeps. */
static void test_wake(void)
{
	struct tt_event ev[4];
	struct two t;
	int fd;

	TT_REQUIRE(two_new(&t));
	TT_REQUIRE(tt_self_tp.arm(t.tp, &fd) == 0);
	TT_CHECK(!readable(fd));
	TT_CHECK(t.ep[0]->ops->msg(t.ep[0], "x", 2) == TT_FINISHED);
	TT_CHECK(readable(fd));
	TT_CHECK(tt_self_tp.arm(t.tp, &fd) == -EAGAIN);
	TT_CHECK(tt_self_tp.poll(t.tp, ev, 4) == 1 && !readable(fd));
	TT_REQUIRE(tt_self_tp.arm(t.tp, &fd) == 0 && !readable(fd));
	tt_self_tp.ep_close(t.ep[0]);
	TT_CHECK(readable(fd));
	TT_CHECK(tt_self_tp.poll(t.tp, ev, 4) == 1 && ev[0].kind == TT_EV_DOWN && !readable(fd));
	tt_self_tp.ep_close(t.ep[1]);
	tt_self_tp.close(t.tp);
}

static void test_strangers(void)
{
	struct two t;

	TT_REQUIRE(two_new(&t));
	TT_CHECK(tt_self_tp.ep_connect(t.ep[0], t.blob[1], t.len[1], true) == -EISCONN);
	tt_self_tp.ep_close(t.ep[0]);
	TT_REQUIRE(!tt_self_tp.ep_open(t.tp, &t.ep[0], t.blob[0], &t.len[0]));
	TT_CHECK(tt_self_tp.ep_connect(t.ep[0], t.blob[1], t.len[1] - 1, true) == -EINVAL);
	t.blob[1][8] ^= 1; /* the cookie: another process */
	TT_CHECK(tt_self_tp.ep_connect(t.ep[0], t.blob[1], t.len[1], true) == -ECONNREFUSED);
	t.blob[1][0] ^= 1;
	TT_CHECK(tt_self_tp.ep_connect(t.ep[0], t.blob[1], t.len[1], true) == -EINVAL);
	tt_self_tp.ep_close(t.ep[0]);
	tt_self_tp.ep_close(t.ep[1]);
	tt_self_tp.close(t.tp);
}

static const struct tt_test tests[] = {{"close", test_close},
				       {"full_queue", test_full_queue},
				       {"wake", test_wake},
				       {"strangers", test_strangers},
				       {NULL, NULL}};

int main(int argc, char **argv)
{
	return tt_test_main("self", tests, argc, argv);
}
