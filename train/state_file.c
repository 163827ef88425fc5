/* SPDX-License-Identifier: BSD-3-Clause */
/* Files of optimizer states. */
#include "train/state_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <tutti/ps.h>
#include <unistd.h>
#include <xxhash.h>

#include "train/train_fail.h"

#define FORMAT "tutti_sharded 2"
#define HEADER_MAX ((uint64_t)100 << 20)
#define SUM_KEY "xxh3"
#define NO_SUM "0000000000000000" /* as long as a sum */
#define SUM_LEN (sizeof(NO_SUM) - 1)
#define RESIDUALS_MAX 2 /* of a codec */
#define RANKS_MAX ((uint64_t)1 << 20)

static const char *dtype(const struct tt_state_file *f)
{
	return f->datatype == TUTTI_FLOAT64 ? "F64" : "F32";
}

static int fail_system(const struct tt_state_file *f, const char *what)
{
	int err = errno ? errno : EIO;

	return tt_train_fail(-err, "%s: %s: %s", f->path, what, strerror(err));
}

static void name_part(const struct tt_state_file *f, char *name, size_t size)
{
	snprintf(name, size, "%s.part", f->path);
}

/* All of len bytes at offset, or an error. */
static int move(struct tt_state_file *f, void *data, size_t len, uint64_t offset, bool out)
{
	ssize_t n;

	while (len) {
		errno = 0;
		n = out ? pwrite(f->fd, data, len, (off_t)offset)
			: pread(f->fd, data, len, (off_t)offset);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return fail_system(f, out ? "cannot be written" : "cannot be read");
		data = (char *)data + n;
		offset += (uint64_t)n;
		len -= (size_t)n;
	}
	return 0;
}

/* The header's numbers and the places of the vectors, in a fixed order. */
static void sum_up_header(const struct tt_state_file *f, XXH3_state_t *state)
{
	const uint64_t numbers[] = {(uint64_t)f->rule, f->steps, f->n, (uint64_t)f->residuals,
				    f->residuals ? (uint64_t)f->ranks : 0};
	size_t i, vectors = (size_t)(f->states + f->residuals) * f->n;
	uint64_t at;

	XXH3_64bits_update(state, numbers, sizeof(numbers));
	for (i = 0; i < vectors; i++) {
		at = f->place[i] - f->data;
		XXH3_64bits_update(state, &at, sizeof(at));
	}
}

/* The checksum of the header's numbers and all data, which ends at byte `end`, in digits. */
static int sum_up(struct tt_state_file *f, uint64_t end, char sum[SUM_LEN + 1])
{
	XXH3_state_t *state = XXH3_createState();
	const size_t piece = (size_t)1 << 20;
	char *buf = malloc(piece);
	uint64_t at = f->data;
	int err = 0;

	if (!state || !buf)
		err = tt_train_fail(-ENOMEM, "%s: no memory for its checksum", f->path);
	if (!err) {
		XXH3_64bits_reset(state);
		sum_up_header(f, state);
	}
	while (!err && at < end) {
		size_t len = end - at < piece ? (size_t)(end - at) : piece;

		err = move(f, buf, len, at, false);
		if (!err)
			XXH3_64bits_update(state, buf, len);
		at += len;
	}
	if (!err)
		snprintf(sum, SUM_LEN + 1, "%016" PRIx64, (uint64_t)XXH3_64bits_digest(state));
	free(buf);
	XXH3_freeState(state);
	return err;
}

static void name_vector(const struct tt_state_file *f, int v, size_t tensor, char *name,
			size_t size)
{
	if (v < f->states)
		snprintf(name, size, "%zu.state%d", tensor, v + 1);
	else
		snprintf(name, size, "%zu.residual%d", tensor, v - f->states + 1);
}

static uint64_t rows_of(const struct tt_state_file *f, int v)
{
	return v < f->states ? 1 : (uint64_t)f->ranks;
}

static uint64_t place_of(const struct tt_state_file *f, int v, int row, size_t tensor)
{
	return f->place[(size_t)v * f->n + tensor] + (uint64_t)row * f->counts[tensor] * f->elem;
}

/* ---- writing ---- */

static json_t *describe_metadata(const struct tt_state_file *f)
{
	char rule[16], steps[32], tensors[32], residuals[16], ranks[16];

	snprintf(rule, sizeof(rule), "%d", f->rule);
	snprintf(steps, sizeof(steps), "%" PRIu64, f->steps);
	snprintf(tensors, sizeof(tensors), "%zu", f->n);
	snprintf(residuals, sizeof(residuals), "%d", f->residuals);
	snprintf(ranks, sizeof(ranks), "%d", f->residuals ? f->ranks : 0);
	return json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s}", "format", FORMAT, "rule", rule,
			 "steps", steps, "tensors", tensors, "residuals", residuals, "ranks", ranks,
			 SUM_KEY, NO_SUM);
}

static json_t *describe(struct tt_state_file *f)
{
	json_t *root = json_object(), *shape;
	uint64_t at = 0, end;
	char name[64];
	size_t i;
	int v;

	json_object_set_new(root, "__metadata__", describe_metadata(f));
	for (v = 0; v < f->states + f->residuals; v++)
		for (i = 0; i < f->n; i++) {
			name_vector(f, v, i, name, sizeof(name));
			end = at + rows_of(f, v) * f->counts[i] * f->elem;
			shape = v < f->states
					? json_pack("[I]", (json_int_t)f->counts[i])
					: json_pack("[iI]", f->ranks, (json_int_t)f->counts[i]);
			json_object_set_new(root, name,
					    json_pack("{s:s, s:o, s:[II]}", "dtype", dtype(f),
						      "shape", shape, "data_offsets",
						      (json_int_t)at, (json_int_t)end));
			f->place[(size_t)v * f->n + i] = at;
			at = end;
		}
	f->end = at;
	return root;
}

static int write_header(struct tt_state_file *f)
{
	json_t *root = describe(f);
	char *text = json_dumps(root, JSON_COMPACT), *whole;
	size_t len = text ? strlen(text) : 0, padded = (len + 7) / 8 * 8, i;
	int err = -ENOMEM;

	json_decref(root);
	whole = malloc(padded + 8);
	if (text && whole) {
		for (i = 0; i < 8; i++)
			whole[i] = (char)((uint64_t)padded >> 8 * i);
		memset(whole + 8, ' ', padded);
		memcpy(whole + 8, text, len);
		err = move(f, whole, padded + 8, 0, true);
		f->data = padded + 8;
		f->end += f->data;
		f->sum = 8 + (uint64_t)(strstr(text, NO_SUM) - text);
		for (i = 0; i < (size_t)(f->states + f->residuals) * f->n; i++)
			f->place[i] += f->data;
	}
	free(text);
	free(whole);
	return err;
}

/* Only a regular file may be replaced. */
static int check_path(const struct tt_state_file *f)
{
	struct stat st;

	if (!*f->path)
		return tt_train_fail(-EINVAL, "tutti_sharded_save: path is empty");
	if (!lstat(f->path, &st) && !S_ISREG(st.st_mode))
		return tt_train_fail(-EINVAL,
				     "%s: it exists and is no regular file; name a file that may "
				     "be replaced",
				     f->path);
	return 0;
}

int tt_state_file_create(struct tt_state_file *f)
{
	size_t len = strlen(f->path) + 8;
	char *part;
	int err = check_path(f);

	if (err)
		return err;
	part = malloc(len);
	f->fd = -1;
	f->place = malloc((2 + RESIDUALS_MAX) * f->n * sizeof(*f->place));
	if (!part || !f->place) {
		free(part);
		return tt_train_fail(-ENOMEM, "%s: no memory for its header", f->path);
	}
	name_part(f, part, len);
	unlink(part); /* of a save that was interrupted; whatever it is, nothing is written to it */
	f->fd = open(part, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
	if (f->fd < 0)
		err = tt_train_fail(-errno, "%s: cannot be created: %s", part, strerror(errno));
	f->writing = !err;
	free(part);
	return err ? err : write_header(f);
}

int tt_state_file_write(struct tt_state_file *f, int v, int row, size_t tensor, const void *data)
{
	return move(f, (void *)data, f->counts[tensor] * f->elem, place_of(f, v, row, tensor),
		    true);
}

/* Writes the checksum of what has been written. */
static int seal(struct tt_state_file *f)
{
	char sum[SUM_LEN + 1];
	int err = sum_up(f, f->end, sum);

	return err ? err : move(f, sum, SUM_LEN, f->sum, true);
}

/* ---- reading ---- */

static int read_number(const struct tt_state_file *f, json_t *meta, const char *key,
		       uint64_t *number)
{
	const char *text = json_string_value(json_object_get(meta, key));
	char *end;

	*number = text ? strtoull(text, &end, 10) : 0;
	if (!text || !*text || *end)
		return tt_train_fail(-EINVAL, "%s: its header has no number %s", f->path, key);
	return 0;
}

static int check_tensors(const struct tt_state_file *f, json_t *meta)
{
	uint64_t have;
	int err = read_number(f, meta, "tensors", &have);

	if (err || have == f->n)
		return err;
	return tt_train_fail(-EINVAL,
			     "%s: it was saved with %" PRIu64 " tensors, this optimizer has %zu; "
			     "restore the state of the same model",
			     f->path, have, f->n);
}

static const char *rule_name(uint64_t rule)
{
	static const char *const name[] = {
		[TUTTI_PS_SGD] = "sgd",		  [TUTTI_PS_MOMENTUM] = "momentum",
		[TUTTI_PS_NESTEROV] = "nesterov", [TUTTI_PS_ADAGRAD] = "adagrad",
		[TUTTI_PS_RMSPROP] = "rmsprop",	  [TUTTI_PS_ADAM] = "adam",
		[TUTTI_PS_ADAMW] = "adamw"};

	return rule < sizeof(name) / sizeof(name[0]) && name[rule] ? name[rule] : "unknown";
}

static int check_rule(const struct tt_state_file *f, json_t *meta)
{
	uint64_t have;
	int err = read_number(f, meta, "rule", &have);

	if (err || have == (uint64_t)f->rule)
		return err;
	return tt_train_fail(-EINVAL,
			     "%s: it was saved with rule %s, this optimizer has rule %s; restore "
			     "with the rule of the file",
			     f->path, rule_name(have), rule_name((uint64_t)f->rule));
}

static int read_residuals(struct tt_state_file *f, json_t *meta)
{
	uint64_t residuals = 0, ranks = 0;
	int err = read_number(f, meta, "residuals", &residuals);

	if (!err)
		err = read_number(f, meta, "ranks", &ranks);
	if (!err && (residuals > RESIDUALS_MAX || ranks > RANKS_MAX || !residuals != !ranks))
		err = tt_train_fail(-EINVAL,
				    "%s: its header has %" PRIu64 " residuals of %" PRIu64
				    " ranks; the file is damaged",
				    f->path, residuals, ranks);
	f->residuals = (int)residuals;
	f->ranks = (int)ranks;
	return err;
}

static int check_meta(struct tt_state_file *f, json_t *root)
{
	json_t *meta = json_object_get(root, "__metadata__");
	const char *format = json_string_value(json_object_get(meta, "format"));
	const char *steps = json_string_value(json_object_get(meta, "steps"));
	char *end;
	int err;

	if (!format || strcmp(format, FORMAT))
		return tt_train_fail(-EINVAL, "%s: not a state of tutti_sharded_save", f->path);
	err = check_tensors(f, meta);
	if (!err)
		err = check_rule(f, meta);
	if (!err)
		err = read_residuals(f, meta);
	if (err)
		return err;
	f->steps = steps ? strtoull(steps, &end, 10) : 0;
	if (!steps || !*steps || *end || f->steps > (uint64_t)1 << 62)
		return tt_train_fail(-EINVAL, "%s: its header has no number steps", f->path);
	return 0;
}

/* As many rows and elements as they must be: [count], or [rows, count]. */
static bool read_shape(const struct tt_state_file *f, int v, json_t *shape, json_int_t *count)
{
	json_int_t rows = 1;

	if (v < f->states)
		return !json_unpack(shape, "[I!]", count);
	return !json_unpack(shape, "[II!]", &rows, count) && rows == f->ranks;
}

/* One vector: its type, its length, and that it is within the file's data. */
static int check_vector(struct tt_state_file *f, json_t *root, int v, size_t i, uint64_t size)
{
	const uint64_t data = f->data;
	json_int_t count = -1, begin = -1, end = -1;
	const char *type = "";
	json_t *entry, *shape;
	char name[64];

	name_vector(f, v, i, name, sizeof(name));
	entry = json_object_get(root, name);
	shape = json_object_get(entry, "shape");
	if (!entry || !read_shape(f, v, shape, &count) ||
	    json_unpack(entry, "{s:s, s:o, s:[II!]}", "dtype", &type, "shape", &shape,
			"data_offsets", &begin, &end))
		return tt_train_fail(-EINVAL, "%s: it has no vector %s%s", f->path, name,
				     !shape	     ? ""
				     : v < f->states ? " of one dimension"
						     : " of a row for each rank");
	if ((uint64_t)count != f->counts[i] || count < 0)
		return tt_train_fail(-EINVAL,
				     "%s: tensor %zu has %lld elements, that of this optimizer "
				     "has %zu; restore the state of the same model",
				     f->path, i, (long long)count, f->counts[i]);
	if (strcmp(type, dtype(f)))
		return tt_train_fail(-EINVAL, "%s: %s is of type %s, not %s", f->path, name, type,
				     dtype(f));
	if (begin < 0 || end < begin || (uint64_t)end > size - data ||
	    (uint64_t)(end - begin) / rows_of(f, v) != f->counts[i] * f->elem ||
	    (uint64_t)(end - begin) % rows_of(f, v))
		return tt_train_fail(-EINVAL,
				     "%s: %s is at bytes %lld to %lld of %" PRIu64 "; the file is "
				     "damaged",
				     f->path, name, (long long)begin, (long long)end, size - data);
	f->place[(size_t)v * f->n + i] = data + (uint64_t)begin;
	return 0;
}

/* Last: it reads the whole file. */
static int check_sum(struct tt_state_file *f, json_t *root, uint64_t size)
{
	json_t *meta = json_object_get(root, "__metadata__");
	const char *want = json_string_value(json_object_get(meta, SUM_KEY));
	char sum[SUM_LEN + 1];
	int err = sum_up(f, size, sum);

	if (!err && (!want || strcmp(want, sum)))
		return tt_train_fail(
			-EINVAL, "%s: its checksum is %s, its header says %s; the file is damaged",
			f->path, sum, want ? want : "none");
	return err;
}

static int check_header(struct tt_state_file *f, const char *text, uint64_t len, uint64_t size)
{
	json_t *root = json_loadb(text, (size_t)len, JSON_REJECT_DUPLICATES, NULL);
	size_t i;
	int err, v;

	if (!root)
		return tt_train_fail(-EINVAL, "%s: its header is not JSON", f->path);
	f->data = len + 8;
	err = check_meta(f, root);
	for (v = 0; !err && v < f->states + f->residuals; v++)
		for (i = 0; !err && i < f->n; i++)
			err = check_vector(f, root, v, i, size);
	if (!err)
		err = check_sum(f, root, size);
	json_decref(root);
	return err;
}

int tt_state_file_open(struct tt_state_file *f)
{
	unsigned char length[8];
	struct stat st;
	uint64_t len = 0;
	char *text;
	int i, err;

	f->place = malloc((2 + RESIDUALS_MAX) * f->n * sizeof(*f->place));
	f->fd = open(f->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a pipe may have no writer */
	if (f->fd < 0)
		return fail_system(f, "cannot be opened");
	if (fstat(f->fd, &st))
		return fail_system(f, "cannot be examined");
	if (!S_ISREG(st.st_mode) || st.st_size < 8)
		return tt_train_fail(-EINVAL, "%s: not a safetensors file", f->path);
	err = move(f, length, 8, 0, false);
	if (err)
		return err;
	for (i = 0; i < 8; i++)
		len |= (uint64_t)length[i] << 8 * i;
	if (len > HEADER_MAX || len > (uint64_t)st.st_size - 8)
		return tt_train_fail(-EINVAL,
				     "%s: its header would have %" PRIu64 " bytes; not a "
				     "safetensors file",
				     f->path, len);
	text = malloc((size_t)len + 1);
	if (!text || !f->place) {
		free(text);
		return tt_train_fail(-ENOMEM, "%s: no memory for its header", f->path);
	}
	err = move(f, text, (size_t)len, 8, false);
	if (!err)
		err = check_header(f, text, len, (uint64_t)st.st_size);
	free(text);
	return err;
}

int tt_state_file_read(struct tt_state_file *f, int v, int row, size_t tensor, void *data)
{
	return move(f, data, f->counts[tensor] * f->elem, place_of(f, v, row, tensor), false);
}

/* Whether part is the file that has been written, not that of another save to the same path. */
static bool is_own(const struct tt_state_file *f, const char *part)
{
	struct stat own, now;

	return !fstat(f->fd, &own) && !lstat(part, &now) && own.st_dev == now.st_dev &&
	       own.st_ino == now.st_ino;
}

static int commit_part(struct tt_state_file *f, const char *part)
{
	int err = seal(f);

	if (!err && fsync(f->fd))
		err = fail_system(f, "cannot be written");
	if (!err && !is_own(f, part))
		err = tt_train_fail(-EBUSY,
				    "%s: another save to it is under way; save to another path",
				    f->path);
	if (!err && rename(part, f->path))
		err = fail_system(f, "cannot be replaced");
	return err;
}

int tt_state_file_close(struct tt_state_file *f, bool commit)
{
	size_t len = strlen(f->path) + 8;
	char *part = malloc(len);
	int err = 0;

	if (part)
		name_part(f, part, len);
	if (commit && f->fd >= 0)
		err = part ? commit_part(f, part) : -ENOMEM;
	if (f->writing && part && (err || !commit) && is_own(f, part))
		unlink(part);
	if (f->fd >= 0)
		close(f->fd);
	free(part);
	free(f->place);
	return err;
}
