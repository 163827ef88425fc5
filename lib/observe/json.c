/* SPDX-License-Identifier: BSD-3-Clause */
/* Formats JSON without snprintf; see json.h. */
#include "lib/observe/json.h"

#include <string.h>

#define END 64 /* kept free for what closes the object */

static void put(struct tt_json *j, const char *s, size_t n, size_t keep)
{
	if (j->full || j->cap - j->len < n + keep) {
		j->full = true;
		return;
	}
	memcpy(j->buf + j->len, s, n);
	j->len += n;
}

static void put_text(struct tt_json *j, const char *s)
{
	put(j, s, strlen(s), END);
}

static void put_u64(struct tt_json *j, uint64_t v, int width)
{
	char digits[24];
	int n = sizeof(digits);

	do {
		digits[--n] = (char)('0' + v % 10);
		v /= 10;
		width--;
	} while (v || width > 0);
	put(j, digits + n, sizeof(digits) - (size_t)n, END);
}

static void put_quoted(struct tt_json *j, const char *s)
{
	static const char hex[] = "0123456789abcdef";
	char esc[7] = "\\u00";

	put_text(j, "\"");
	for (; *s && !j->full; s++) { /* so text without an end is not read far beyond the limit */
		unsigned char c = (unsigned char)*s;

		if (c == '"' || c == '\\') {
			esc[1] = (char)c;
			put(j, esc, 2, END);
			esc[1] = 'u';
		} else if (c < 0x20 || c >= 0x7f) { /* bytes that are not ASCII may not be UTF-8 */
			esc[4] = hex[c >> 4];
			esc[5] = hex[c & 15];
			put(j, esc, 6, END);
		} else {
			put(j, s, 1, END);
		}
	}
	put_text(j, "\"");
}

/* The object's length before this member. */
static size_t member(struct tt_json *j, const char *key)
{
	size_t at = j->len;

	if (j->comma)
		put_text(j, ",");
	if (key) {
		put_quoted(j, key);
		put_text(j, ":");
	}
	j->comma = true;
	return at;
}

static void settle(struct tt_json *j, size_t at)
{
	if (j->full)
		j->len = at;
}

void tt_json_begin(struct tt_json *j, char *buf, size_t cap)
{
	*j = (struct tt_json){.buf = buf, .cap = cap};
	put_text(j, "{");
}

void tt_json_end(struct tt_json *j)
{
	bool full = j->full;

	j->full = false;
	put(j, "}\n", 2, 0);
	j->full = full;
}

void tt_json_u64(struct tt_json *j, const char *key, uint64_t v)
{
	size_t at = member(j, key);

	put_u64(j, v, 0);
	settle(j, at);
}

void tt_json_i64(struct tt_json *j, const char *key, int64_t v)
{
	size_t at = member(j, key);

	if (v < 0)
		put_text(j, "-");
	put_u64(j, v < 0 ? -(uint64_t)v : (uint64_t)v, 0);
	settle(j, at);
}

void tt_json_str(struct tt_json *j, const char *key, const char *v)
{
	size_t at = member(j, key);

	put_quoted(j, v);
	settle(j, at);
}

static void put_fixed(struct tt_json *j, const char *key, uint64_t v, uint64_t unit, int digits)
{
	size_t at = member(j, key);

	put_u64(j, v / unit, 0);
	put_text(j, ".");
	put_u64(j, v % unit, digits);
	settle(j, at);
}

void tt_json_time(struct tt_json *j, const char *key, uint64_t ns)
{
	put_fixed(j, key, ns, 1000000000u, 9);
}

void tt_json_us(struct tt_json *j, const char *key, uint64_t ns)
{
	put_fixed(j, key, ns, 1000u, 3);
}

void tt_json_open(struct tt_json *j, const char *key, char open)
{
	size_t at = member(j, key);

	put(j, &open, 1, END);
	settle(j, at);
	j->unopened += j->full;
	j->comma = false;
}

void tt_json_close(struct tt_json *j, char close)
{
	bool full = j->full;

	if (j->unopened) { /* that one was left out */
		j->unopened--;
		return;
	}
	j->full = false; /* the closing must not be missing: room was kept for it */
	put(j, &close, 1, 8);
	j->full = full;
	j->comma = true;
}
