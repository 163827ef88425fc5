/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Writes JSON objects into a buffer, using async-signal-safe functions only. When the buffer is
 * full, it keeps its state from before the member that did not fit, and json.full is set.
 */
#ifndef TT_JSON_H
#define TT_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tt_json {
	char *buf;
	size_t len, cap;
	bool full;
	bool comma;   /* the next member follows another one */
	int unopened; /* objects and arrays that did not fit, and are not closed yet */
};

void tt_json_begin(struct tt_json *j, char *buf, size_t cap); /* "{" */
void tt_json_end(struct tt_json *j);			      /* "}\n" */
/* key NULL: an element of an array. */
void tt_json_u64(struct tt_json *j, const char *key, uint64_t v);
void tt_json_i64(struct tt_json *j, const char *key, int64_t v);
void tt_json_str(struct tt_json *j, const char *key, const char *v);
/* Nanoseconds as seconds with nine digits. */
void tt_json_time(struct tt_json *j, const char *key, uint64_t ns);
/* Nanoseconds as microseconds with three. */
void tt_json_us(struct tt_json *j, const char *key, uint64_t ns);
/* open is '{' or '[', close '}' or ']'. */
void tt_json_open(struct tt_json *j, const char *key, char open);
void tt_json_close(struct tt_json *j, char close);

#endif
