/* SPDX-License-Identifier: BSD-3-Clause */
/* Records calls in the flight recorder; see flight.h. */
#include "lib/observe/flight.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "lib/base/clock.h"
#include "lib/base/error.h"

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
	int fd = memfd_create("tutti flight", MFD_CLOEXEC | MFD_ALLOW_SEALING), err;

	if (fd < 0)
		return -errno;
	/* Sealed: a reader's mapping must not lose its pages, whatever the writer does. */
	if (!ftruncate(fd, (off_t)tt_flight_size()) && !fchmod(fd, 0600) &&
	    !fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL))
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

void tt_flight_close(struct tt_flight *f)
{
	if (f->head)
		munmap(f->head, f->size);
	if (f->fd >= 0)
		close(f->fd);
	*f = (struct tt_flight){.fd = -1};
}

int tt_flight_attach(struct tt_flight *f, int fd)
{
	int err;

	*f = (struct tt_flight){.fd = -1};
	err = map(f, fd, PROT_READ);
	f->fd = -1;
	if (!err && (f->head->magic != TT_FLIGHT_MAGIC || f->head->rec_size != sizeof(*f->rec))) {
		tt_flight_close(f);
		return -ENODATA; /* not written yet, or by another version */
	}
	return err;
}

/* A process that has execed has the same number as its predecessor; one that was forked has not. */
static bool of_another(int fd)
{
	struct tt_flight f;
	pid_t pid;

	if (tt_flight_attach(&f, fd))
		return false;
	pid = (pid_t)f.head->pid;
	tt_flight_close(&f);
	return pid > 0 && pid != getpid() && (!kill(pid, 0) || errno == EPERM);
}

int tt_flight_open(struct tt_flight *f, int fd)
{
	int err;

	*f = (struct tt_flight){.fd = -1};
	if (fd >= 0 && of_another(fd)) {
		close(fd);
		fd = -1;
	}
	if (fd < 0)
		fd = tt_flight_memfd();
	if (fd < 0)
		return tt_fail(fd, "no memory for the flight recorder: %s", strerror(-fd));
	err = map(f, fd, PROT_READ | PROT_WRITE);
	if (err) {
		close(fd);
		f->fd = -1;
		return tt_fail(err, "cannot map the flight recorder: %s", strerror(-err));
	}
	memset(f->rec, 0, TT_FLIGHT_RECORDS * sizeof(*f->rec));
	fill_head(f->head);
	return 0;
}

int tt_flight_move(struct tt_flight *f, int fd)
{
	struct tt_flight to;
	int err = map(&to, fd, PROT_READ | PROT_WRITE);

	if (err) {
		if (fd >= 0)
			close(fd);
		return err;
	}
	memcpy(to.head, f->head, f->size);
	/* Replace the old pages in one step: readers and writers always find a mapping. */
	if (mremap(to.head, to.size, to.size, MREMAP_MAYMOVE | MREMAP_FIXED, f->head) ==
	    MAP_FAILED) {
		err = -errno;
		tt_flight_close(&to);
		return err;
	}
	close(f->fd);
	f->fd = fd;
	return 0;
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

uint64_t tt_flight_begin(struct tt_flight *f, const struct tt_flight_op *op, uint64_t seq)
{
	struct tt_flight_rec *rec;
	uint64_t number;

	if (!f->head)
		return 0;
	number = atomic_load_explicit(&f->head->last, memory_order_relaxed) + 1;
	rec = &f->rec[number % TT_FLIGHT_RECORDS];
	atomic_store_explicit(&rec->number, 0, memory_order_relaxed);
	atomic_thread_fence(
		memory_order_release); /* for concurrent readers, signal handlers included */
	rec->comm = op->comm;
	rec->seq = seq;
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

void tt_flight_whole(struct tt_flight *f, const struct tt_flight_op *op, uint64_t start)
{
	uint64_t number = tt_flight_begin(f, op, 0);
	struct tt_flight_rec *rec = find(f, number);

	if (!rec)
		return;
	rec->end = rec->start;
	rec->start = start ? start : rec->end;
	rec->state = TT_FLIGHT_DONE;
}

void tt_flight_more(struct tt_flight *f, uint64_t number, uint32_t rounds, uint64_t bytes)
{
	struct tt_flight_rec *rec = find(f, number);

	if (!rec)
		return;
	rec->rounds += rounds;
	rec->bytes += bytes;
}

void tt_flight_end(struct tt_flight *f, uint64_t number, int status, uint64_t end)
{
	struct tt_flight_rec *rec = find(f, number);

	if (!rec)
		return;
	rec->status = status;
	rec->end = end > rec->start ? end : rec->start;
	rec->state = status ? TT_FLIGHT_FAILED : TT_FLIGHT_DONE;
}

void tt_flight_done(struct tt_flight *f, uint64_t number, uint64_t bytes)
{
	struct tt_flight_rec *rec = find(f, number);

	if (!rec)
		return;
	rec->rounds = rec->of;
	rec->bytes = bytes;
	rec->end = tt_ticks();
	rec->state = TT_FLIGHT_DONE;
}

bool tt_flight_read(const struct tt_flight *f, uint64_t number, struct tt_flight_rec *rec)
{
	const struct tt_flight_rec *from = &f->rec[number % TT_FLIGHT_RECORDS];

	if (!number || atomic_load_explicit(&from->number, memory_order_acquire) != number)
		return false;
	memcpy(rec, from, sizeof(*rec));
	atomic_thread_fence(memory_order_acquire);
	return atomic_load_explicit(&from->number, memory_order_relaxed) == number;
}

const char *tt_flight_name_of(const struct tt_flight *f, uint8_t i)
{
	return i < f->head->nnames && i < TT_FLIGHT_NAMES ? f->head->name[i] : "";
}

uint32_t tt_flight_comm_id(const struct tt_flight *f, uint64_t uid)
{
	int i;

	for (i = 0; i < TT_FLIGHT_COMMS; i++)
		if (f->head->comm[i].uid == uid)
			return f->head->comm[i].id;
	return 0;
}

struct tt_flight_comm *tt_flight_comm(struct tt_flight *f, uint64_t uid, uint32_t id, int rank,
				      int size, const int *world)
{
	struct tt_flight_comm *c;
	uint32_t n;
	int i;

	if (!f->head)
		return NULL;
	n = atomic_load(&f->head->ncomms);
	/* The first is the world and keeps its place. */
	c = &f->head->comm[n < TT_FLIGHT_COMMS ? n : 1 + (n - 1) % (TT_FLIGHT_COMMS - 1)];
	atomic_store_explicit(&c->uid, 0, memory_order_relaxed);
	atomic_thread_fence(memory_order_release); /* as in tt_flight_begin */
	memset((char *)c + sizeof(c->uid), 0, sizeof(*c) - sizeof(c->uid));
	c->id = id;
	c->rank = rank;
	c->size = (uint32_t)size;
	c->culprit = -1;
	c->made = tt_ticks();
	for (i = 0; i < size && i < TT_FLIGHT_MEMBERS; i++)
		c->member[i] = world[i];
	atomic_store_explicit(&c->uid, uid, memory_order_release);
	atomic_store(&f->head->ncomms, n + 1);
	return c;
}

void tt_flight_name_comm(struct tt_flight_comm *c, uint64_t uid, const char *name)
{
	if (!c || atomic_load(&c->uid) != uid)
		return;
	atomic_store_explicit(&c->uid, 0, memory_order_relaxed);
	atomic_thread_fence(memory_order_release); /* as in tt_flight_begin */
	snprintf(c->name, sizeof(c->name), "%s", name);
	atomic_store_explicit(&c->uid, uid, memory_order_release);
}

bool tt_flight_read_comm(const struct tt_flight *f, int i, struct tt_flight_comm *comm)
{
	const struct tt_flight_comm *from = &f->head->comm[i];
	uint64_t uid = atomic_load_explicit(&from->uid, memory_order_acquire);

	if (!uid)
		return false;
	memcpy(comm, from, sizeof(*comm));
	/* Another process may have written anything. */
	comm->call[sizeof(comm->call) - 1] = comm->field[sizeof(comm->field) - 1] = 0;
	comm->text[sizeof(comm->text) - 1] = comm->name[sizeof(comm->name) - 1] = 0;
	atomic_thread_fence(memory_order_acquire);
	return atomic_load_explicit(&from->uid, memory_order_relaxed) == uid;
}
