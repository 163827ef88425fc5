/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Checksums of checkpoint files. The metadata has one of the header, and one of each part of the
 * data: as many parts, of equal length, as there were servers at the save. Servers compute those,
 * each over its share of the parts, after all have written. A file may contain anything.
 */
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "lib/ps/checkpoint/safetensors.h"

#define PARTS "xxh3"
#define HEADER "xxh3_header"
#define DIGITS 16
#define PIECE ((size_t)1 << 20)

static json_t *blank(int sums)
{
	char *text = malloc((size_t)sums * DIGITS);
	json_t *value = NULL;

	if (text) {
		memset(text, '0', (size_t)sums * DIGITS);
		value = json_stringn(text, (size_t)sums * DIGITS);
	}
	free(text);
	return value;
}

int tt_ps_sums_reserve(void *meta, int parts)
{
	return json_object_set_new(meta, PARTS, blank(parts)) |
	       json_object_set_new(meta, HEADER, blank(1));
}

static void print_sum(char *to, uint64_t sum)
{
	char text[DIGITS + 1];

	snprintf(text, sizeof(text), "%0*" PRIx64, DIGITS, sum);
	memcpy(to, text, DIGITS);
}

/* The digits of a field within the header; NULL: there are none. */
static char *find_sums(const struct tt_ps_file *file, const char *field, size_t *sums)
{
	const json_t *meta = json_object_get(file->header, "__metadata__");
	size_t len = json_string_length(json_object_get(meta, field));
	char key[32], *at;

	*sums = len / DIGITS;
	snprintf(key, sizeof(key), "\"%s\":\"", field);
	at = len && len % DIGITS == 0 ? strstr(file->text, key) : NULL;
	if (!at)
		return NULL;
	at += strlen(key);
	return strspn(at, "0123456789abcdef") == len ? at : NULL;
}

static int no_sums(const struct tt_ps_file *file)
{
	return tt_fail(-EBADMSG,
		       "%s: its header has no checksums: it is damaged, or not a file of "
		       "tutti_ps_save",
		       file->path);
}

int tt_ps_part_sum(const struct tt_ps_file *file, uint64_t part, uint64_t parts, uint64_t *sum)
{
	uint64_t bytes = file->size - file->data, each = bytes / parts + 1, at = part * each;
	uint64_t end = bytes < at + each ? bytes : at + each;
	XXH3_state_t *state = XXH3_createState();
	char *buf = malloc(PIECE);
	size_t len;
	int err = 0;

	if (state && buf)
		XXH3_64bits_reset(state);
	else
		err = tt_fail(-ENOMEM, "%s: no memory for its checksum", file->path);
	for (; at < end && !err; at += len) {
		len = end - at < PIECE ? (size_t)(end - at) : PIECE;
		err = tt_ps_file_read(file, buf, len, file->data + at);
		if (!err)
			XXH3_64bits_update(state, buf, len);
	}
	if (!err)
		*sum = XXH3_64bits_digest(state);
	free(buf);
	XXH3_freeState(state);
	return err;
}

int tt_ps_parts_check(const struct tt_ps_file *file, int first, int step)
{
	char have[DIGITS + 1] = "";
	uint64_t part, sum;
	size_t parts;
	const char *want = find_sums(file, PARTS, &parts);
	int err = want ? 0 : no_sums(file);

	for (part = (uint64_t)first; part < parts && !err; part += (uint64_t)step) {
		err = tt_ps_part_sum(file, part, parts, &sum);
		if (err)
			return err;
		print_sum(have, sum);
		if (memcmp(have, want + part * DIGITS, DIGITS))
			err = tt_fail(-EBADMSG,
				      "%s is damaged: part %" PRIu64 " of %zu of its data has "
				      "checksum %s, its header says %.16s; restore another file",
				      file->path, part, parts, have, want + part * DIGITS);
	}
	return err;
}

/* Of the header without its own checksum. */
static void sum_header(const struct tt_ps_file *file, char *own, char sum[DIGITS + 1])
{
	char old[DIGITS];

	memcpy(old, own, DIGITS);
	memset(own, '0', DIGITS);
	print_sum(sum, XXH3_64bits(file->text, (size_t)file->data - 8));
	memcpy(own, old, DIGITS);
}

int tt_ps_header_check(const struct tt_ps_file *file)
{
	char have[DIGITS + 1] = "";
	size_t one;
	char *own = find_sums(file, HEADER, &one);

	if (!own || one != 1)
		return no_sums(file);
	sum_header(file, own, have);
	if (memcmp(have, own, DIGITS))
		return tt_fail(-EBADMSG,
			       "%s is damaged: its header has checksum %s, and says %.16s; restore "
			       "another file",
			       file->path, have, own);
	return 0;
}

/* Read anew: servers have written to the file since. */
int tt_ps_file_seal(const char *path, const uint64_t *sum, size_t n)
{
	struct tt_ps_file file;
	char have[DIGITS + 1], *at, *own;
	int err = tt_ps_file_open(path, true, &file), end;
	size_t parts, one, i;

	if (err)
		return err;
	at = find_sums(&file, PARTS, &parts);
	own = find_sums(&file, HEADER, &one);
	if (!at || !own || parts != n || one != 1)
		err = no_sums(&file);
	for (i = 0; i < n && !err; i++)
		print_sum(at + i * DIGITS, sum[i]);
	if (!err) {
		sum_header(&file, own, have);
		memcpy(own, have, DIGITS);
		err = tt_ps_file_write(&file, file.text, file.data - 8, 8);
	}
	end = tt_ps_file_close(&file, !err);
	return err ? err : end;
}
