/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Computes the memory that drivers allocate in a process for a reliable-connected queue pair, as
 * rdma-core's providers do: send queues, receive queues, request bookkeeping, and completion queue
 * entries, at most twice the needed number. Memory of the kernel and the device is not counted.
 */
#include "config.h"
#include "transports/verbs/verbs.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static size_t round_up(size_t n, size_t unit)
{
	return (n + unit - 1) / unit * unit;
}

static size_t power_of_two(size_t n)
{
	size_t p = 1;

	while (p < n)
		p *= 2;
	return p;
}

static size_t max(size_t a, size_t b)
{
	return a > b ? a : b;
}

/*
 * Every request has room for the longest kind, a memory window's binding; the queue is a power of
 * two of bytes.
 */
static size_t mlx5(const struct vb_qp_size *s)
{
	enum { OVERHEAD = 192, BLOCK = 64, NOTES = 16, RECV = 16 + 8 };
	size_t wqe = OVERHEAD + 16 * (size_t)s->sge, sq, rq;

	if (s->inline_bytes)
		wqe = max(wqe, OVERHEAD + round_up(4 + s->inline_bytes, 16));
	sq = power_of_two(s->send * round_up(wqe, BLOCK));
	rq = s->recv ? power_of_two(s->recv) * RECV : 0;
	return sq + sq / BLOCK * NOTES + rq;
}

/* Quanta of 32 bytes, 258 of which are reserved; a request with immediate data needs a place more.
 */
static size_t irdma(const struct vb_qp_size *s)
{
	enum { QUANTUM = 32, RESERVED = 258, NOTES = 16, RECV = 8 };
	size_t each = 8, quanta, recv;

	if (s->sge + 1 < 4 && s->inline_bytes <= 39)
		each = 2;
	else if (s->sge + 1 < 8 && s->inline_bytes <= 101)
		each = 4;
	quanta = power_of_two(s->send * each + RESERVED);
	recv = power_of_two(s->recv + 1);
	return round_up(quanta * QUANTUM, 4096) + quanta * NOTES + round_up(recv * QUANTUM, 4096) +
	       recv * RECV;
}

/*
 * 128 requests are reserved; each is of 128 bytes, has a packet number to be searched for, and a
 * note.
 */
static size_t bnxt_re(const struct vb_qp_size *s)
{
	enum { WQE = 128, RESERVED = 128, NUMBER = 16, NOTE = 32 };
	size_t n = power_of_two(s->send + 1 + RESERVED);
	size_t recv = s->recv ? power_of_two(s->recv + 1) : 0;

	return round_up(n * (WQE + NUMBER), 4096) + n * NOTE + recv * (WQE + NOTE);
}

/* The kernel's soft-RoCE, and a guess at the rest. */
static size_t other(const struct vb_qp_size *s)
{
	size_t wqe = 128 + max(16 * (size_t)s->sge, s->inline_bytes);

	return round_up(power_of_two(s->send + 1) * wqe, 4096) +
	       (s->recv ? power_of_two(s->recv + 1) * 64 : 0);
}

size_t vb_driver_bytes(enum vb_driver driver, const struct vb_qp_size *s)
{
	static size_t (*const count[])(const struct vb_qp_size *s) = {
		[VB_MLX5] = mlx5, [VB_IRDMA] = irdma, [VB_BNXT_RE] = bnxt_re, [VB_OTHER] = other};

	return count[driver](s) + 2 * (size_t)(s->send + s->recv) * 64;
}

enum vb_driver vb_driver_named(const char *name)
{
	if (!strncmp(name, "mlx5", 4))
		return VB_MLX5;
	if (!strcmp(name, "irdma") || !strcmp(name, "ice") || !strcmp(name, "i40e"))
		return VB_IRDMA;
	if (!strncmp(name, "bnxt", 4))
		return VB_BNXT_RE;
	return VB_OTHER;
}

size_t vb_driver_bytes_here(const struct vb_qp_size *size)
{
	DIR *dir = opendir("/sys/class/infiniband");
	const struct dirent *e;
	char path[320], to[256], *name;
	size_t most = 0;
	ssize_t n;

	while (dir && (e = readdir(dir))) {
		if (e->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "/sys/class/infiniband/%.200s/device/driver",
			 e->d_name);
		n = readlink(path, to, sizeof(to) - 1);
		to[n > 0 ? n : 0] = '\0';
		name = strrchr(to, '/');
		most = max(most, vb_driver_bytes(vb_driver_named(name ? name + 1 : to), size));
	}
	if (dir)
		closedir(dir);
	return most ? most : vb_driver_bytes(VB_MLX5, size);
}
