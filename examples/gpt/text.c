/* SPDX-License-Identifier: BSD-3-Clause */
/* The text that the model learns, read by every rank, and the text that it writes at the end. */
#define _POSIX_C_SOURCE 200809L
#include "examples/gpt/gpt.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

uint64_t text_mix(uint64_t a, uint64_t b)
{
	uint64_t x = a * 0x9e3779b97f4a7c15ull + b + 0x632be59bd9b4e019ull;

	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull; /* splitmix64 */
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
	return x ^ (x >> 31);
}

static int read_all(struct gpt *g, FILE *f)
{
	struct stat st;
	long size;

	if (!fstat(fileno(f), &st) && S_ISDIR(st.st_mode))
		return -EISDIR;
	if (fseek(f, 0, SEEK_END) || (size = ftell(f)) < 0 || fseek(f, 0, SEEK_SET))
		return -errno;
	g->text_len = (size_t)size;
	g->text = malloc(g->text_len + 1);
	if (!g->text)
		return -ENOMEM;
	return fread(g->text, 1, g->text_len, f) == g->text_len ? 0 : -EIO;
}

int text_load(struct gpt *g)
{
	FILE *f = fopen(g->o.text, "rb");
	int err = f ? read_all(g, f) : -errno, rank = tutti_comm_rank(g->world);

	g->doing = "reading the text";
	if (f)
		fclose(f);
	g->told = err != 0;
	if (err && !rank)
		fprintf(stderr,
			"gpt: %s: %s; sh quickstart.sh fetches build/data/bible.txt, and --text "
			"names any other file\n",
			g->o.text, strerror(-err));
	if (!err && g->text_len < (size_t)g->o.length + 2) {
		err = -EINVAL;
		g->told = 1;
		if (!rank)
			fprintf(stderr, "gpt: %s has %zu bytes: too few for sequences of %d\n",
				g->o.text, g->text_len, g->o.length);
	}
	return err;
}

const uint8_t *text_sequence(const struct gpt *g, int i)
{
	uint64_t random = text_mix((uint64_t)g->o.seed + 1,
				   (uint64_t)g->step * (uint64_t)g->o.batch + (uint64_t)i);

	return g->text + random % (g->text_len - (size_t)g->o.length);
}

/* A byte drawn from the softmax of the logits. */
static uint8_t draw(const real *logits, uint64_t random)
{
	double top = -INFINITY, sum = 0, at = (double)(random >> 11) / 9007199254740992.0;
	int i;

	for (i = 0; i < VOCAB; i++)
		if ((double)logits[i] > top)
			top = (double)logits[i];
	for (i = 0; i < VOCAB; i++)
		sum += exp((double)logits[i] - top);
	for (i = 0, at *= sum; i < VOCAB - 1; i++) {
		at -= exp((double)logits[i] - top);
		if (at < 0)
			break;
	}
	return (uint8_t)i;
}

static void print(const struct gpt *g, const uint8_t *text, int n)
{
	int i;

	printf("the model writes: ");
	for (i = 0; i < n; i++)
		putchar((text[i] >= ' ' && text[i] < 127) || text[i] == '\n' ? text[i] : '?');
	putchar('\n');
}

/* The first replica writes; the last stage draws each byte, the others get it from there. */
int text_write(struct gpt *g)
{
	static const char start[] = "And God said, ";
	int n = (int)strlen(start), all = n + g->o.write, from, err = 0;
	int last = g->o.dims[PIPELINE] - 1;
	real logits[VOCAB];
	uint8_t *text;

	g->doing = "writing text";
	if (!g->o.write || g->at[DATA])
		return 0;
	text = malloc((size_t)all);
	if (!text)
		return -ENOMEM;
	memcpy(text, start, (size_t)n);
	for (; n < all && !err; n++) {
		from = n > g->o.length ? n - g->o.length : 0;
		err = stage_infer(g, text + from, n - from, logits);
		if (!err && g->last)
			text[n] = draw(logits, text_mix((uint64_t)g->o.seed + 2, (uint64_t)n));
		if (!err)
			err = tutti_bcast(text + n, 1, TUTTI_UINT8, last, g->comm[PIPELINE]);
	}
	if (!err && !tutti_comm_rank(g->world))
		print(g, text, all);
	free(text);
	return err;
}
