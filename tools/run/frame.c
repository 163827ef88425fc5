/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The protocol of launcher and agent over the remote shell's standard input and output: frames of
 * {type, 8 bits; length, 32 bits little endian; payload}.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/run/run.h"

#define HEADER 5
#define MAX_FRAME (64u << 20)

static void reserve(struct pack *p, size_t more)
{
	char *data;

	if (p->len + more <= p->cap)
		return;
	p->cap = 2 * (p->len + more);
	data = must_alloc(p->cap); /* not realloc: the old copy may hold the secret */
	if (p->len)
		memcpy(data, p->data, p->len);
	if (p->data)
		explicit_bzero(p->data, p->len);
	free(p->data);
	p->data = data;
}

static void append(struct pack *p, const void *data, size_t len)
{
	reserve(p, len);
	if (len)
		memcpy(p->data + p->len, data, len);
	p->len += len;
}

static void encode(unsigned char b[4], uint32_t v)
{
	int i;

	for (i = 0; i < 4; i++)
		b[i] = (unsigned char)(v >> 8 * i);
}

static uint32_t decode(const char *data)
{
	const unsigned char *b = (const unsigned char *)data;

	return b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
}

void pack_u32(struct pack *p, uint32_t v)
{
	unsigned char b[4];

	encode(b, v);
	append(p, b, 4);
}

void pack_bytes(struct pack *p, const void *data, size_t len)
{
	pack_u32(p, (uint32_t)len);
	append(p, data, len);
}

void pack_str(struct pack *p, const char *s)
{
	pack_bytes(p, s ? s : "", s ? strlen(s) : 0);
}

void pack_strs(struct pack *p, char **v)
{
	uint32_t n = 0, i;

	while (v && v[n])
		n++;
	pack_u32(p, n);
	for (i = 0; i < n; i++)
		pack_str(p, v[i]);
}

uint32_t unpack_u32(struct pack *p)
{
	if (p->bad || p->len - p->at < 4) {
		p->bad = true;
		return 0;
	}
	p->at += 4;
	return decode(p->data + p->at - 4);
}

const char *unpack_bytes(struct pack *p, size_t *len)
{
	*len = unpack_u32(p);
	if (p->bad || p->len - p->at < *len) {
		p->bad = true;
		*len = 0;
		return "";
	}
	p->at += *len;
	return p->data + p->at - *len;
}

char *unpack_str(struct pack *p)
{
	size_t len;
	const char *data = unpack_bytes(p, &len);
	char *s = must_alloc(len + 1);

	memcpy(s, data, len);
	return s;
}

char **unpack_strs(struct pack *p)
{
	uint32_t n = unpack_u32(p), i;
	char **v;

	if (n > p->len) {
		p->bad = true;
		n = 0;
	}
	v = must_alloc((n + 1) * sizeof(*v));
	for (i = 0; i < n; i++)
		v[i] = unpack_str(p);
	return v;
}

void pack_free(struct pack *p)
{
	if (p->data)
		explicit_bzero(p->data, p->cap);
	free(p->data);
	*p = (struct pack){0};
}

void strs_free(char **v)
{
	int i;

	for (i = 0; v && v[i]; i++)
		free(v[i]);
	free(v);
}

bool frame_send(int fd, enum frame_type type, const struct pack *p)
{
	uint32_t len = p ? (uint32_t)p->len : 0;
	unsigned char head[HEADER] = {(unsigned char)type};

	encode(head + 1, len);
	return write_all(fd, head, sizeof(head)) && (!len || write_all(fd, p->data, len));
}

bool frames_read(struct frames *f, int fd)
{
	ssize_t n;

	reserve(&f->in, 65536);
	n = read(fd, f->in.data + f->in.len, 65536);
	if (n > 0)
		f->in.len += (size_t)n;
	return n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR));
}

int frames_next(struct frames *f, struct pack *p)
{
	struct pack *in = &f->in;
	size_t left;
	uint32_t len;

	/* at: where the frame handed out last ends. */
	if (in->at) {
		left = in->len - in->at;
		memmove(in->data, in->data + in->at, left);
		explicit_bzero(in->data + left, in->at);
		in->len = left;
		in->at = 0;
	}
	if (in->len < HEADER)
		return 0;
	len = decode(in->data + 1);
	if (len > MAX_FRAME)
		return -1;
	if (in->len - HEADER < len)
		return 0;
	in->at = HEADER + len;
	*p = (struct pack){.data = in->data + HEADER, .len = len};
	return (unsigned char)in->data[0];
}

void share_pack(struct pack *p, const struct share *s)
{
	pack_u32(p, (uint32_t)s->nranks);
	pack_u32(p, (uint32_t)s->first);
	pack_u32(p, (uint32_t)s->count);
	pack_str(p, s->job_id);
	pack_bytes(p, s->secret, sizeof(s->secret));
	pack_str(p, s->store);
	pack_u32(p, s->bind);
	pack_str(p, s->wdir);
	pack_u32(p, s->wdir_must);
	pack_strs(p, s->env);
	pack_strs(p, s->argv);
	pack_str(p, s->gate);
}

static void unpack_into(struct pack *p, void *dst, size_t size, bool exact)
{
	size_t len;
	const char *data = unpack_bytes(p, &len);

	if (exact ? len != size : len >= size) {
		p->bad = true;
		return;
	}
	memset(dst, 0, size);
	memcpy(dst, data, len);
}

bool share_unpack(struct pack *p, struct share *s)
{
	*s = (struct share){.store_fd = -1, .stdin_fd = -1, .capture = true};
	s->nranks = (int)unpack_u32(p);
	s->first = (int)unpack_u32(p);
	s->count = (int)unpack_u32(p);
	unpack_into(p, s->job_id, sizeof(s->job_id), false);
	unpack_into(p, s->secret, sizeof(s->secret), true);
	unpack_into(p, s->store, sizeof(s->store), false);
	s->bind = unpack_u32(p);
	s->wdir = unpack_str(p);
	s->wdir_must = unpack_u32(p);
	s->env = unpack_strs(p);
	s->argv = unpack_strs(p);
	s->gate = unpack_str(p);
	if (!*s->gate) {
		free(s->gate);
		s->gate = NULL;
	}
	return !p->bad && s->argv[0] && s->bind <= BIND_NONE && s->count > 0 && s->first >= 0 &&
	       s->nranks - s->first >= s->count;
}

void share_free(struct share *s)
{
	free(s->wdir);
	free(s->gate);
	strs_free(s->env);
	strs_free(s->argv);
	explicit_bzero(s->secret, sizeof(s->secret));
}
