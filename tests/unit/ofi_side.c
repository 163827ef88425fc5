/* SPDX-License-Identifier: BSD-3-Clause */
/* See ofi_side.h. */
#include "tests/unit/ofi_side.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

const struct config msg_tcp = {"msg:tcp", "tcp", "msg", NULL, NULL};
const struct config rdm_rxm = {"rdm:tcp;ofi_rxm", "tcp", "rdm", NULL, NULL};
const struct config rdm_sockets = {"rdm:sockets", "sockets", "rdm", NULL, NULL};

int side_open(struct side *s, const struct config *c, int rank)
{
	struct tt_mem mem = {.len = 2 * SLOTS * SLOT, .memfd = -1};
	int rc;

	memset(s, 0, sizeof(*s));
	setenv("TUTTI_OFI_PROVIDER", c->provider, 1);
	setenv("TUTTI_OFI_EP", c->ep, 1);
	rc = tt_env_load(&s->env);
	if (rc)
		return rc;
	s->params = (struct tt_tp_params){.env = &s->env,
					  .rank = rank,
					  .local_addr = c->addr ? c->addr : "127.0.0.1",
					  .cookie = {rank, 99}};
	rc = c->fault ? tt_fault_open(&tt_ofi_tp, c->fault, &s->params, &s->tp)
		      : tt_ofi_tp.open(&s->params, &s->tp);
	if (rc) {
		tt_env_free(&s->env);
		return rc;
	}
	s->mem = mem.addr = calloc(1, mem.len);
	return s->tp->ops->reg(s->tp, &mem, TT_ACCESS_READ | TT_ACCESS_WRITE, &s->mr);
}

int side_ep(struct side *s, struct card *card)
{
	s->up = s->down = 0;
	memset(card, 0, sizeof(*card));
	card->rkey = s->mr->rkey;
	card->addr = (uintptr_t)s->mem;
	return s->tp->ops->ep_open(s->tp, &s->ep, card->blob, &card->len);
}

int side_connect(struct side *s, const struct card *peer, int active)
{
	s->rkey = peer->rkey;
	s->remote = peer->addr;
	return s->tp->ops->ep_connect(s->ep, peer->blob, peer->len, active);
}

void side_close(struct side *s)
{
	if (!s->tp)
		return;
	if (s->ep)
		s->tp->ops->ep_close(s->ep);
	if (s->mr)
		s->tp->ops->dereg(s->mr);
	s->tp->ops->close(s->tp);
	free(s->mem);
	tt_env_free(&s->env);
	memset(s, 0, sizeof(*s));
}

static void count(struct side *s, const struct tt_event *e)
{
	if (e->ep && e->ep != s->ep)
		s->stray++;
	switch (e->kind) {
	case TT_EV_DONE:
		s->done++;
		s->failed += e->status != 0;
		s->stray += e->user != s;
		if (e->status)
			s->status = e->status;
		break;
	case TT_EV_NOTE:
		s->notes[s->ntail++ % NOTES] = e->note;
		break;
	case TT_EV_MSG:
		s->stray += !s->up;
		s->msgs++;
		s->msg_len = e->len;
		memcpy(s->msg, e->data, e->len < sizeof(s->msg) ? e->len : sizeof(s->msg));
		break;
	case TT_EV_BRIEF: /* no such operation */
		s->stray++;
		break;
	case TT_EV_UP:
		s->up++;
		break;
	case TT_EV_DOWN:
		s->down++;
		s->status = e->status;
		break;
	}
}

void pump(struct side *s)
{
	struct tt_event ev[5]; /* few, so that some must wait */
	int i, n = s->tp->ops->poll(s->tp, ev, 5);

	for (i = 0; i < n; i++)
		count(s, &ev[i]);
}

int sleep_pump(struct side *s, int ms)
{
	struct pollfd p = {.events = POLLIN};
	int rc = s->tp->ops->arm(s->tp, &p.fd);

	if (!rc && poll(&p, 1, ms) == 0)
		return -ETIMEDOUT;
	if (rc && rc != -EAGAIN)
		return rc;
	pump(s);
	return 0;
}

int take_note(struct side *s, uint32_t *note)
{
	if (s->nhead == s->ntail)
		return 0;
	*note = s->notes[s->nhead++ % NOTES];
	return 1;
}

int put(struct side *s, int slot, size_t len, uint32_t note, unsigned flags, struct side *other)
{
	struct tt_rma rma = {.local = s->mem + (size_t)(SLOTS + slot) * SLOT,
			     .len = len,
			     .mr = s->mr,
			     .remote = s->remote + (size_t)slot * SLOT,
			     .rkey = len ? &s->rkey : NULL,
			     .note = note,
			     .flags = flags,
			     .user = s};
	uint64_t end = tt_deadline_ms(5000);
	int rc;

	while ((rc = s->ep->ops->put(s->ep, &rma)) == -EAGAIN && !tt_passed(end)) {
		pump(s);
		if (other)
			pump(other);
	}
	if (rc == TT_FINISHED)
		s->done++; /* as if an event had come */
	return rc < 0 ? rc : 0;
}

int exchange_cards(int fd, const struct card *mine, struct card *theirs)
{
	size_t got = 0;
	ssize_t n;

	if (write(fd, mine, sizeof(*mine)) != sizeof(*mine))
		return -EIO;
	while (got < sizeof(*theirs)) {
		n = read(fd, (char *)theirs + got, sizeof(*theirs) - got);
		if (n <= 0)
			return -EIO;
		got += n;
	}
	return 0;
}

int pair_connect(struct side s[2])
{
	struct card card[2];
	int rc;

	rc = side_ep(&s[0], &card[0]);
	if (!rc)
		rc = side_ep(&s[1], &card[1]);
	/* The active side first, so that its request comes before the passive side is ready. */
	if (!rc)
		rc = side_connect(&s[0], &card[1], 1);
	if (!rc && s[0].tp->ops)
		for (int i = 0; i < 20; i++)
			pump(&s[0]), pump(&s[1]);
	if (!rc)
		rc = side_connect(&s[1], &card[0], 0);
	if (rc)
		return rc;
	return WAIT_FOR(s[0].up && s[1].up, 5000, pump(&s[0]); pump(&s[1])) ? 0 : -ETIMEDOUT;
}

int pair_open(struct side s[2], const struct config *c)
{
	int rc;

	memset(s, 0, 2 * sizeof(*s));
	rc = side_open(&s[0], c, 0);
	if (!rc)
		rc = side_open(&s[1], c, 1);
	return rc ? rc : pair_connect(s);
}

void pair_close(struct side s[2])
{
	side_close(&s[0]);
	side_close(&s[1]);
}

int remote_open(struct side *s, const struct config *c, int rank, int fd)
{
	struct card mine, theirs;
	int rc;

	rc = side_open(s, c, rank);
	if (!rc)
		rc = side_ep(s, &mine);
	if (!rc)
		rc = exchange_cards(fd, &mine, &theirs);
	if (!rc)
		rc = side_connect(s, &theirs, rank == 0);
	if (rc)
		return rc;
	return WAIT_FOR(s->up, 5000, pump(s)) ? 0 : -ETIMEDOUT;
}

int side_two(tt_rank_fn *fn, struct side_job *job, int ms, unsigned killed)
{
	int failed;

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, job->fd))
		return -1;
	failed = tt_run_ranks(2, fn, job, ms, killed);
	close(job->fd[0]);
	close(job->fd[1]);
	return failed;
}

int side_start(struct side *s, const struct side_job *job, int rank)
{
	close(job->fd[!rank]);
	return remote_open(s, job->c, rank, job->fd[rank]);
}

int side_meet(const struct side_job *job, int rank, struct side *s)
{
	struct pollfd p = {.fd = job->fd[rank], .events = POLLIN};
	char c = 1;

	if (write(p.fd, &c, 1) != 1)
		return -1;
	if (!WAIT_FOR(poll(&p, 1, 0) == 1, 10000, pump(s)))
		return -1;
	return read(p.fd, &c, 1) == 1 ? 0 : -1;
}
