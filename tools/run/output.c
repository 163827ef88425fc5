/* SPDX-License-Identifier: BSD-3-Clause */
/* Passes on the output of the ranks in whole lines, with the rank in front. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/run/run.h"

#define MAX_LINE 65536 /* longer ones are passed on in pieces */

struct line {
	char *data;
	size_t len, cap;
};

struct tagger {
	int nranks;
	struct line (*line)[2]; /* by rank and stream */
};

bool write_all(int fd, const void *data, size_t len)
{
	struct pollfd p = {.fd = fd, .events = POLLOUT};
	const char *at = data;
	ssize_t n;

	while (len) {
		n = write(fd, at, len);
		if (n < 0 && errno == EAGAIN)
			poll(&p, 1, -1); /* another process made the terminal nonblocking */
		else if (n < 0 && errno != EINTR)
			return false;
		if (n > 0) {
			at += n;
			len -= (size_t)n;
		}
	}
	return true;
}

struct tagger *tagger_new(int nranks)
{
	struct tagger *t = must_alloc(sizeof(*t));

	t->nranks = nranks;
	t->line = must_alloc((size_t)nranks * sizeof(*t->line));
	return t;
}

/* One write a line, so that lines of several ranks never mix. */
static bool emit(int rank, int stream, const char *line, size_t len)
{
	char *out = must_alloc(len + 32);
	int n = sprintf(out, "[%d]: ", rank);
	bool ok;

	memcpy(out + n, line, len);
	if (!len || line[len - 1] != '\n')
		out[n + (int)len++] = '\n';
	ok = write_all(stream ? STDERR_FILENO : STDOUT_FILENO, out, (size_t)n + len);
	free(out);
	return ok;
}

static void keep(struct line *l, const char *data, size_t len)
{
	if (l->len + len > l->cap) {
		l->cap = 2 * (l->len + len);
		l->data = realloc(l->data, l->cap);
		if (!l->data)
			exit(fail("no memory"));
	}
	memcpy(l->data + l->len, data, len);
	l->len += len;
}

bool tagger_write(struct tagger *t, int rank, int stream, const char *data, size_t len)
{
	struct line *l = &t->line[rank][stream];
	const char *nl;
	bool ok = true;
	size_t n;

	while (len && ok) {
		nl = memchr(data, '\n', len);
		n = nl ? (size_t)(nl - data) + 1 : len;
		keep(l, data, n);
		if (nl || l->len >= MAX_LINE) {
			ok = emit(rank, stream, l->data, l->len);
			l->len = 0;
		}
		data += n;
		len -= n;
	}
	return ok;
}

void tagger_free(struct tagger *t)
{
	int i, s;

	if (!t)
		return;
	for (i = 0; i < t->nranks; i++)
		for (s = 0; s < 2; s++) {
			if (t->line[i][s].len)
				emit(i, s, t->line[i][s].data, t->line[i][s].len);
			free(t->line[i][s].data);
		}
	free(t->line);
	free(t);
}
