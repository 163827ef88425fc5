/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Without libFuzzer: PROGRAM N FILE... runs each file, then N inputs made from them by small
 * changes, which depend on nothing but N.
 */
#include "tests/fuzz/fuzz.h"

#include <stdio.h>
#include <stdlib.h>

#include "lib/base/hash.h"

#define INPUT_MAX 65536

struct input {
	uint8_t *data;
	size_t size;
};

static struct input read_input(const char *path)
{
	struct input in = {malloc(INPUT_MAX), 0};
	FILE *f = fopen(path, "rb");

	if (f && in.data)
		in.size = fread(in.data, 1, INPUT_MAX, f);
	else
		fprintf(stderr, "%s can't be read\n", path);
	if (f)
		fclose(f);
	return in;
}

static void change(struct input *to, const struct input *from, uint64_t *rng)
{
	int n = 1 + (int)(tt_random(rng) % 6);

	memcpy(to->data, from->data, from->size);
	to->size = from->size;
	while (n-- && to->size) {
		size_t at = tt_random(rng) % to->size;

		switch (tt_random(rng) % 4) {
		case 0:
			to->data[at] ^= (uint8_t)(1u << tt_random(rng) % 8);
			break;
		case 1:
			to->data[at] = (uint8_t)tt_random(rng);
			break;
		case 2:
			to->data[at] = tt_random(rng) & 1 ? 0xff : 0;
			break;
		default:
			to->size = tt_random(rng) % 4 ? to->size : at;
			break;
		}
	}
}

int main(int argc, char **argv)
{
	long runs = argc > 1 ? strtol(argv[1], NULL, 10) : 0, k;
	int n = argc > 2 ? argc - 2 : 0, i;
	struct input *in = calloc((size_t)n + 1, sizeof(*in)), out = {malloc(INPUT_MAX), 0};
	uint64_t rng = 1;

	if (!in || !out.data)
		return 1;
	for (i = 0; i < n; i++) {
		in[i] = read_input(argv[i + 2]);
		LLVMFuzzerTestOneInput(in[i].data, in[i].size);
	}
	for (k = 0; n && k < runs; k++) {
		change(&out, &in[k % n], &rng);
		LLVMFuzzerTestOneInput(out.data, out.size);
	}
	for (i = 0; i < n; i++)
		free(in[i].data);
	free(in);
	free(out.data);
	printf("%ld inputs\n", n + (n ? runs : 0));
	return 0;
}
