/* SPDX-License-Identifier: BSD-3-Clause */
/* Writing the flight recorder; flight.h. */
#include "lib/diag/flight.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "lib/base/clock.h"
#include "lib/base/error.h"

uint64_t tt_flight_clock(void)
{
	return tt_now_ns();
}

static size_t head_size(void)
{
	return (sizeof(struct tt_flight_head) + 4095) & ~(size_t)4095;
}

size_t tt_flight_size(void)
{
	return head_size() + TT_FLIGHT_RECORDS * sizeof(struct tt_flight_rec);
}

int tt_flight_memfd(void)
{
	int fd = memfd_create("tutti flight", MFD_CLOEXEC), err;

	if (fd < 0)
		return -errno;
	if (!ftruncate(fd, (off_t)tt_flight_size()) && !fchmod(fd, 0600))
		return fd;
	err = -errno;
	close(fd);
	return err;
}

static int map(struct tt_flight *f, int fd, int prot)
{
	struct stat st;
	void *p;

	if (fstat(fd, &st))
		return -errno;
	if (st.st_size != (off_t)tt_flight_size())
		return -EINVAL;
	p = mmap(NULL, tt_flight_size(), prot, MAP_SHARED, fd, 0);
	if (p == MAP_FAILED)
		return -errno;
	*f = (struct tt_flight){.head = p,
				.rec = (struct tt_flight_rec *)((char *)p + head_size()),
				.size = tt_flight_size(),
				.fd = fd};
	return 0;
}

static void fill_head(struct tt_flight_head *h)
{
	struct timespec now;

	memset(h, 0, sizeof(*h)); /* a process that has execed finds its predecessor's */
	clock_gettime(CLOCK_REALTIME, &now);
	h->ticks0 = tt_ticks();
	h->real0 = (uint64_t)now.tv_sec * TT_SEC + (uint64_t)now.tv_nsec;
	h->head_size = (uint32_t)head_size();
	h->rec_size = sizeof(struct tt_flight_rec);
	h->records = TT_FLIGHT_RECORDS;
	h->nnames = 1;
	h->pid = getpid();
	h->magic = TT_FLIGHT_MAGIC;
}

int tt_flight_open(struct tt_flight *f, int fd)
{
	int err;

	*f = (struct tt_flight){.fd = -1};
	if (fd >= 0)
		fcntl(fd, F_SETFD, FD_CLOEXEC);
	else
		fd = tt_flight_memfd();
	if (fd < 0)
		return tt_fail(fd, "no memory for the flight recorder: %s", strerror(-fd));
	err = map(f, fd, PROT_READ | PROT_WRITE);
	if (err) {
		close(fd);
		f->fd = -1;
		return tt_fail(err, "the flight recorder can't be mapped: %s", strerror(-err));
	}
	memset(f->rec, 0, TT_FLIGHT_RECORDS * sizeof(*f->rec));
	fill_head(f->head);
	return 0;
}

int tt_flight_attach(struct tt_flight *f, int fd)
{
	int err;

	*f = (struct tt_flight){.fd = -1};
	err = map(f, fd, PROT_READ);
	f->fd = -1;
	if (!err && (f->head->magic != TT_FLIGHT_MAGIC || f->head->rec_size != sizeof(*f->rec))) {
		tt_flight_close(f);
		return -ENODATA; /* nobody has written there yet, or another version */
	}
	return err;
}

void tt_flight_close(struct tt_flight *f)
{
	if (f->head)
		munmap(f->head, f->size);
	if (f->fd >= 0)
		close(f->fd);
	*f = (struct tt_flight){.fd = -1};
}

uint8_t tt_flight_name(struct tt_flight *f, const char *name)
{
	struct tt_flight_head *h = f->head;
	uint32_t i;

	if (!h || !name || !*name)
		return 0;
	for (i = 1; i < h->nnames; i++)
		if (!strncmp(h->name[i], name, sizeof(h->name[i]) - 1))
			return (uint8_t)i;
	if (i == TT_FLIGHT_NAMES)
		return 0;
	snprintf(h->name[i], sizeof(h->name[i]), "%s", name);
	h->nnames = i + 1;
	return (uint8_t)i;
}

static struct tt_flight_rec *find(struct tt_flight *f, uint64_t number)
{
	struct tt_flight_rec *rec;

	if (!number)
		return NULL;
	rec = &f->rec[number % TT_FLIGHT_RECORDS];
	return atomic_load_explicit(&rec->number, memory_order_relaxed) == number ? rec : NULL;
}

uint64_t tt_flight_begin(struct tt_flight *f, const struct tt_flight_op *op)
{
	struct tt_flight_rec *rec;
	uint64_t number;

	if (!f->head)
		return 0;
	number = atomic_load_explicit(&f->head->last, memory_order_relaxed) + 1;
	rec = &f->rec[number % TT_FLIGHT_RECORDS];
	atomic_store_explicit(&rec->number, 0, memory_order_relaxed);
	atomic_signal_fence(memory_order_seq_cst); /* a dump may come in between, by a signal */
	rec->comm = op->comm;
	rec->seq = op->seq;
	rec->count = op->count;
	rec->bytes = 0;
	rec->start = tt_ticks();
	rec->end = 0;
	rec->rounds = 0;
	rec->of = op->of;
	rec->peer = op->peer;
	rec->tag = op->tag;
	rec->status = 0;
	rec->call = op->call;
	rec->type = op->type;
	rec->op = op->op;
	rec->alg = op->alg;
	rec->in_place = op->in_place;
	rec->state = TT_FLIGHT_RUNNING;
	atomic_store_explicit(&rec->number, number, memory_order_release);
	atomic_store_explicit(&f->head->last, number, memory_order_release);
	return number;
}

void tt_flight_more(struct tt_flight *f, uint64_t number, uint32_t rounds, uint64_t bytes)
{
	struct tt_flight_rec *rec = find(f, number);

	if (!rec)
		return;
	rec->rounds += rounds;
	rec->bytes += bytes;
}

void tt_flight_end(struct tt_flight *f, uint64_t number, int status)
{
	struct tt_flight_rec *rec = find(f, number);

	if (!rec)
		return;
	rec->status = status;
	rec->end = tt_ticks();
	rec->state = status ? TT_FLIGHT_FAILED : TT_FLIGHT_DONE;
}

struct tt_flight_comm *tt_flight_comm(struct tt_flight *f, uint64_t uid, uint32_t id, int rank, int size)
{
	struct tt_flight_comm *c;
	uint32_t n;

	if (!f->head)
		return NULL;
	n = atomic_load(&f->head->ncomms);
	/* The first is the world and keeps its place. */
	c = &f->head->comm[n < TT_FLIGHT_COMMS ? n : 1 + (n - 1) % (TT_FLIGHT_COMMS - 1)];
	memset(c, 0, sizeof(*c));
	c->id = id;
	c->rank = rank;
	c->size = (uint32_t)size;
	c->culprit = -1;
	c->uid = uid;
	atomic_store(&f->head->ncomms, n + 1);
	return c;
}
