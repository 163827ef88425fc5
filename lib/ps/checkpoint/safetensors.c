/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reads and writes safetensors files: the length of the header (8 bytes, little-endian), the header
 * (JSON: type, shape, begin and end of every tensor), the data. A file may contain anything, so
 * everything is checked.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/ps/checkpoint/safetensors.h"

#define FORMAT "2"
#define LOCK_TRIES 3
#define HEADER_MAX ((uint64_t)100 << 20)

static const char *dtype_of(enum tutti_datatype type)
{
	static const char *const name[] = {
		[TUTTI_INT8] = "I8",	  [TUTTI_UINT8] = "U8",	   [TUTTI_INT32] = "I32",
		[TUTTI_UINT32] = "U32",	  [TUTTI_INT64] = "I64",   [TUTTI_UINT64] = "U64",
		[TUTTI_FLOAT16] = "F16",  [TUTTI_FLOAT32] = "F32", [TUTTI_FLOAT64] = "F64",
		[TUTTI_BFLOAT16] = "BF16"};

	return name[type];
}

/* ---- tables and tensors ---- */

static void name_it(struct tt_ps_tensor *tensor, const struct tutti_ps_table *t, const char *suffix)
{
	snprintf(tensor->name, sizeof(tensor->name), "%s%s", t->name, suffix);
}

static void held_tensors(const struct tutti_ps_table *t, uint64_t rows, struct tt_ps_tensor *tensor)
{
	uint64_t states = (uint64_t)tt_codec_states(t->coder);

	tensor[TT_PS_HELD] =
		(struct tt_ps_tensor){.dtype = "F32",
				      .elem = sizeof(float),
				      .dims = 2,
				      .shape = {t->rows ? rows : (uint64_t)t->ps->nworkers,
						states * (t->rows ? t->width : t->count)}};
	name_it(&tensor[TT_PS_HELD], t, ".held");
	if (!t->rows)
		return;
	tensor[TT_PS_HELD_KEYS] = (struct tt_ps_tensor){
		.dtype = "U64", .elem = sizeof(uint64_t), .dims = 2, .shape = {rows, 2}};
	name_it(&tensor[TT_PS_HELD_KEYS], t, ".held_keys");
}

/*
 * The tensors of a table. rows: of a row table; held: rows that workers hold back; blocks: of a
 * dense table, the unit of its step counts.
 */
static void list_tensors(const struct tutti_ps_table *t, uint64_t rows, uint64_t held,
			 uint64_t blocks, struct tt_ps_tensor *tensor)
{
	struct tt_ps_tensor values = {.dtype = dtype_of(t->datatype),
				      .elem = t->elem,
				      .dims = t->rows ? 2 : 1,
				      .shape = {t->rows ? rows : t->count, t->rows ? t->width : 1}};
	int i, states = tt_rule_states(t->opt.rule);

	memset(tensor, 0, TT_PS_TENSORS * sizeof(*tensor));
	tensor[TT_PS_VALUES] = values;
	name_it(&tensor[TT_PS_VALUES], t, "");
	if (t->rows) {
		tensor[TT_PS_ROW_KEYS] = (struct tt_ps_tensor){
			.dtype = "U64", .elem = 8, .dims = 1, .shape = {rows, 1}};
		name_it(&tensor[TT_PS_ROW_KEYS], t, ".keys");
	}
	if (t->coder)
		held_tensors(t, held, tensor);
	for (i = 0; i < states; i++) {
		tensor[TT_PS_STATE1 + i] = values;
		tensor[TT_PS_STATE1 + i].elem = tt_ps_state_size(t->datatype);
		tensor[TT_PS_STATE1 + i].dtype = t->datatype == TUTTI_FLOAT64 ? "F64" : "F32";
		name_it(&tensor[TT_PS_STATE1 + i], t, i ? ".state2" : ".state1");
	}
	if (!states)
		return;
	tensor[TT_PS_STEPS] =
		(struct tt_ps_tensor){.dtype = "U64",
				      .elem = 8,
				      .dims = t->rows ? 1 : 2,
				      .shape = {t->rows ? rows : blocks, t->rows ? 1 : 2}};
	name_it(&tensor[TT_PS_STEPS], t, ".steps");
}

static uint64_t bytes_of(const struct tt_ps_tensor *tensor)
{
	return tensor->shape[0] * tensor->shape[1] * tensor->elem;
}

static uint64_t all_blocks(const struct tutti_ps_table *t)
{
	uint64_t n = 0;
	int k;

	for (k = 0; k < t->ps->nservers; k++)
		n += t->part[k].blocks;
	return n;
}

/* ---- writing ---- */

static int add_tensor(json_t *root, const struct tt_ps_tensor *tensor, uint64_t *at)
{
	uint64_t end = *at + bytes_of(tensor);
	json_t *shape, *entry;

	if (json_object_get(root, tensor->name))
		return tt_fail(-EEXIST, "two tensors of the file would be called '%s'",
			       tensor->name);
	shape = tensor->dims == 1 ? json_pack("[I]", (json_int_t)tensor->shape[0])
				  : json_pack("[II]", (json_int_t)tensor->shape[0],
					      (json_int_t)tensor->shape[1]);
	entry = json_pack("{s:s, s:o, s:[II]}", "dtype", tensor->dtype, "shape", shape,
			  "data_offsets", (json_int_t)*at, (json_int_t)end);
	if (!entry || json_object_set_new(root, tensor->name, entry))
		return tt_fail(-EINVAL, "the name '%s' can't be written: it is not UTF-8",
			       tensor->name);
	*at = end;
	return 0;
}

/* Tensors of long elements first, so that every tensor is aligned. */
static int add_tables(json_t *root, const struct tutti_ps *ps, const uint64_t *rows,
		      const struct tt_ps_held_rows *held, uint64_t *at)
{
	struct tt_ps_tensor tensor[TT_PS_TENSORS];
	size_t elem;
	uint32_t i;
	int j, err;

	for (elem = 8; elem; elem /= 2)
		for (i = 0; i < ps->ntables; i++) {
			if (held[i].all > INT32_MAX)
				return tt_fail(-ENOSPC,
					       "workers hold back %" PRIu64 " rows of table '%s', "
					       "and a file has at most %d; call tutti_ps_flush "
					       "first",
					       held[i].all, ps->table[i]->name, INT32_MAX);
			list_tensors(ps->table[i], rows[i], held[i].all, all_blocks(ps->table[i]),
				     tensor);
			for (j = 0; j < TT_PS_TENSORS; j++) {
				if (!tensor[j].name[0] || tensor[j].elem != elem)
					continue;
				err = add_tensor(root, &tensor[j], at);
				if (err)
					return err;
			}
		}
	return 0;
}

/* Strings only, as the format requires. */
static int add_metadata(json_t *root, const struct tutti_ps *ps, const struct tt_ps_reply *clocks)
{
	int n = ps->nworkers <= TT_PS_CLOCKS ? ps->nworkers : 0;
	char *list = calloc((size_t)n + 1, 21), number[24], name[TT_PS_NAME + 8];
	json_t *meta = json_object();
	size_t len = 0;
	int w, bad;
	uint32_t i;

	if (!list || !meta) {
		free(list);
		json_decref(meta);
		return tt_fail(-ENOMEM, "no memory for a file's header");
	}
	for (w = 0; w < n; w++)
		len += (size_t)sprintf(list + len, "%s%" PRIu64, w ? "," : "", clocks->clock[w]);
	snprintf(number, sizeof(number), "%" PRIu64, clocks->min_clock);
	bad = json_object_set_new(meta, "tutti_ps", json_string(FORMAT)) |
	      json_object_set_new(meta, "min_clock", json_string(number)) |
	      json_object_set_new(meta, "clocks", json_string(list));
	free(list);
	for (i = 0; i < ps->ntables; i++) {
		snprintf(name, sizeof(name), "%s.rule", ps->table[i]->name);
		bad |= json_object_set_new(meta, name,
					   json_string(tt_rule_name(ps->table[i]->opt.rule)));
	}
	bad |= tt_ps_sums_reserve(meta, ps->nservers);
	bad |= json_object_set_new(root, "__metadata__", meta);
	return bad ? tt_fail(-EINVAL, "a table's name can't be written: it is not UTF-8") : 0;
}

static int put_header(struct tt_ps_file *file, const char *text, size_t len, uint64_t bytes)
{
	uint64_t whole = (len + 7) / 8 * 8, i;
	unsigned char head[8];
	char *pad = malloc(whole);
	int err;

	if (!pad)
		return tt_fail(-ENOMEM, "no memory for a file's header");
	memset(pad, ' ', whole);
	memcpy(pad, text, len);
	for (i = 0; i < 8; i++)
		head[i] = (unsigned char)(whole >> 8 * i);
	file->data = 8 + whole;
	file->size = file->data + bytes;
	err = tt_ps_file_write(file, head, 8, 0);
	if (!err)
		err = tt_ps_file_write(file, pad, whole, 8);
	free(pad);
	if (!err && ftruncate(file->fd, (off_t)file->size))
		err = tt_fail(-errno, "cannot extend %s to %" PRIu64 " bytes: %s", file->path,
			      file->size, strerror(errno));
	if (!err && fsync(file->fd))
		err = tt_fail(-errno, "can't write %s: %s", file->path, strerror(errno));
	return err;
}

/*
 * Whether the open file still has this name: its writer may have renamed it before it was locked.
 */
static bool has_name(int fd, const char *path)
{
	struct stat a, b;

	return !fstat(fd, &a) && !stat(path, &b) && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

/* A file left by a killed save is overwritten; a file that another process is writing is not. */
static int open_locked(const char *path, struct tt_ps_file *file)
{
	int i;

	for (i = 0; i < LOCK_TRIES; i++) {
		file->fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
		if (file->fd < 0)
			return tt_fail(-errno, "can't write %s: %s", path, strerror(errno));
		if ((!flock(file->fd, LOCK_EX | LOCK_NB) || errno != EWOULDBLOCK) &&
		    has_name(file->fd, path)) {
			if (!ftruncate(file->fd, 0))
				return 0;
			return tt_fail(-errno, "can't write %s: %s", path, strerror(errno));
		}
		close(file->fd);
		file->fd = -1;
	}
	return tt_fail(
		-EBUSY,
		"can't write %s: another save to it is under way; wait for it, or use another path",
		path);
}

int tt_ps_file_create(struct tutti_ps *ps, const char *path, const uint64_t *rows,
		      const struct tt_ps_held_rows *held, const struct tt_ps_reply *clocks,
		      struct tt_ps_file *file)
{
	json_t *root = json_object();
	uint64_t bytes = 0;
	char *text = NULL;
	int err;

	memset(file, 0, sizeof(*file));
	snprintf(file->path, sizeof(file->path), "%s", path);
	err = root ? add_metadata(root, ps, clocks)
		   : tt_fail(-ENOMEM, "no memory for a file's header");
	if (!err)
		err = add_tables(root, ps, rows, held, &bytes);
	if (!err) {
		text = json_dumps(root, JSON_COMPACT);
		err = text ? 0 : tt_fail(-ENOMEM, "no memory for a file's header");
	}
	json_decref(root);
	if (err)
		return err;
	err = open_locked(path, file);
	if (!err)
		err = put_header(file, text, strlen(text), bytes);
	free(text);
	if (err && file->fd >= 0) {
		unlink(path);
		close(file->fd);
	}
	return err;
}

/* Some network file systems have no locks. Without a lock the file may be in use, so it stays. */
void tt_ps_file_sweep(const char *path)
{
	int fd = open(path, O_RDWR | O_CLOEXEC);

	if (fd < 0)
		return;
	if (!flock(fd, LOCK_EX | LOCK_NB) && has_name(fd, path))
		unlink(path);
	close(fd);
}

int tt_ps_file_write(const struct tt_ps_file *file, const void *from, uint64_t len, uint64_t at)
{
	const char *p = from;
	ssize_t n;

	for (; len; len -= (uint64_t)n, at += (uint64_t)n, p += n) {
		n = pwrite(file->fd, p, len < 1 << 30 ? len : 1 << 30, (off_t)at);
		if (n < 0 && errno == EINTR)
			n = 0;
		else if (n <= 0)
			return tt_fail(n ? -errno : -EIO, "can't write %s: %s", file->path,
				       n ? strerror(errno) : "nothing was written");
	}
	return 0;
}

/* ---- reading ---- */

int tt_ps_file_read(const struct tt_ps_file *file, void *to, uint64_t len, uint64_t at)
{
	char *p = to;
	ssize_t n;

	for (; len; len -= (uint64_t)n, at += (uint64_t)n, p += n) {
		n = pread(file->fd, p, len < 1 << 30 ? len : 1 << 30, (off_t)at);
		if (n < 0 && errno == EINTR)
			n = 0;
		else if (n < 0)
			return tt_fail(-errno, "can't read %s: %s", file->path, strerror(errno));
		else if (!n)
			return tt_fail(-EBADMSG, "%s is truncated: it ends at byte %" PRIu64,
				       file->path, at);
	}
	return 0;
}

static int get_header(struct tt_ps_file *file)
{
	unsigned char head[8];
	json_error_t why;
	uint64_t len = 0;
	char *text;
	int i, err;

	if (file->size < 8)
		return tt_fail(-EBADMSG,
			       "%s is truncated: it has %" PRIu64 " bytes, less than the length "
			       "of a header",
			       file->path, file->size);
	err = tt_ps_file_read(file, head, 8, 0);
	for (i = 0; i < 8; i++)
		len |= (uint64_t)head[i] << 8 * i;
	if (!err && len > HEADER_MAX)
		err = tt_fail(-EBADMSG,
			      "%s is not a safetensors file: a header of %" PRIu64 " bytes",
			      file->path, len);
	if (!err && len > file->size - 8)
		err = tt_fail(-EBADMSG,
			      "%s is truncated: its header has %" PRIu64
			      " bytes, the file %" PRIu64,
			      file->path, len, file->size);
	if (err)
		return err;
	file->data = 8 + len;
	text = file->text = calloc(len + 1, 1);
	if (!text)
		return tt_fail(-ENOMEM, "no memory for a header of %" PRIu64 " bytes", len);
	err = tt_ps_file_read(file, text, len, 8);
	if (!err) {
		file->header = json_loadb(text, len, JSON_REJECT_DUPLICATES, &why);
		if (!json_is_object((json_t *)file->header))
			err = tt_fail(-EBADMSG, "%s: its header is not a JSON object: %s",
				      file->path, file->header ? "it is something else" : why.text);
	}
	return err;
}

int tt_ps_file_open(const char *path, bool write, struct tt_ps_file *file)
{
	struct stat st;
	int err;

	memset(file, 0, sizeof(*file));
	snprintf(file->path, sizeof(file->path), "%s", path);
	/* a pipe may have no writer */
	file->fd = open(path, (write ? O_RDWR : O_RDONLY) | O_CLOEXEC | O_NONBLOCK);
	if (file->fd < 0)
		return tt_fail(-errno, "can't open %s: %s%s", path, strerror(errno),
			       write ? " (workers and servers must see the same files)" : "");
	if (fstat(file->fd, &st)) {
		err = tt_fail(-errno, "can't read %s: %s", path, strerror(errno));
	} else if (!S_ISREG(st.st_mode)) {
		err = tt_fail(-EINVAL, "%s is no regular file, so not a checkpoint", path);
	} else {
		file->size = (uint64_t)st.st_size;
		err = get_header(file);
	}
	if (err)
		tt_ps_file_close(file, false);
	return err;
}

int tt_ps_file_close(struct tt_ps_file *file, bool sync)
{
	int err = 0;

	if (sync && fsync(file->fd))
		err = tt_fail(-errno, "can't write %s: %s", file->path, strerror(errno));
	json_decref(file->header);
	free(file->text);
	if (close(file->fd) && sync && !err)
		err = tt_fail(-errno, "can't write %s: %s", file->path, strerror(errno));
	return err;
}

static bool get_u64(const json_t *array, size_t i, uint64_t *value)
{
	const json_t *v = json_array_get(array, i);

	if (!json_is_integer(v) || json_integer_value(v) < 0)
		return false;
	*value = (uint64_t)json_integer_value(v);
	return true;
}

/* first: the first dimension is not known here. */
static int find_one(const struct tt_ps_file *file, struct tt_ps_tensor *want, bool first)
{
	const json_t *entry = json_object_get(file->header, want->name), *shape, *offsets;
	const char *dtype = json_string_value(json_object_get(entry, "dtype"));
	uint64_t begin, end, dim[2] = {0, 1};
	int i;

	if (!entry)
		return tt_fail(-EINVAL, "%s has no tensor '%s'", file->path, want->name);
	if (!dtype || strcmp(dtype, want->dtype))
		return tt_fail(-EINVAL, "%s: dtype of '%s' is %s, not %s", file->path, want->name,
			       dtype ? dtype : "missing", want->dtype);
	shape = json_object_get(entry, "shape");
	if (json_array_size(shape) != (size_t)want->dims)
		return tt_fail(-EINVAL, "%s: shape of '%s' has %zu dimensions, not %d", file->path,
			       want->name, json_array_size(shape), want->dims);
	for (i = 0; i < want->dims; i++)
		if (!get_u64(shape, (size_t)i, &dim[i]))
			return tt_fail(-EBADMSG, "%s: shape of '%s' is not made of numbers",
				       file->path, want->name);
	if (first && dim[0] <= INT32_MAX) /* bounds for tensors of either kind whose first dimension
					     is unknown */
		want->shape[0] = dim[0];
	for (i = 0; i < want->dims; i++)
		if (dim[i] != want->shape[i])
			return tt_fail(-EINVAL,
				       "%s: shape of '%s' is %" PRIu64
				       " in dimension %d, not %" PRIu64,
				       file->path, want->name, dim[i], i, want->shape[i]);
	offsets = json_object_get(entry, "data_offsets");
	if (json_array_size(offsets) != 2 || !get_u64(offsets, 0, &begin) ||
	    !get_u64(offsets, 1, &end) || end < begin || end - begin != bytes_of(want))
		return tt_fail(-EBADMSG,
			       "%s: data_offsets of '%s' are not those of its %" PRIu64 " bytes",
			       file->path, want->name, bytes_of(want));
	if (end > file->size - file->data)
		return tt_fail(-EBADMSG,
			       "%s is truncated: '%s' ends at byte %" PRIu64
			       ", the file at %" PRIu64,
			       file->path, want->name, file->data + end, file->size);
	want->at = file->data + begin;
	return 0;
}

int tt_ps_file_find(const struct tt_ps_file *file, const struct tutti_ps_table *t,
		    struct tt_ps_tensor *tensor)
{
	int j, err = 0;

	list_tensors(t, 0, 0, 0, tensor);
	if (t->rows) { /* all tensors have as many rows as there are keys */
		err = find_one(file, &tensor[TT_PS_ROW_KEYS], true);
		if (!err && t->coder)
			err = find_one(file, &tensor[TT_PS_HELD_KEYS], true);
		if (err)
			return err;
		list_tensors(t, tensor[TT_PS_ROW_KEYS].shape[0], tensor[TT_PS_HELD_KEYS].shape[0],
			     0, tensor);
	}
	for (j = 0; j < TT_PS_TENSORS && !err; j++)
		if (tensor[j].name[0])
			err = find_one(file, &tensor[j],
				       !t->rows && (j == TT_PS_STEPS || j == TT_PS_HELD));
	if (!err && t->rows && tensor[TT_PS_ROW_KEYS].shape[0] > t->count)
		err = tt_fail(-ENOSPC,
			      "%s: '%s' has %" PRIu64 " rows, and the table room for %" PRIu64,
			      file->path, t->name, tensor[TT_PS_ROW_KEYS].shape[0], t->count);
	return err;
}

/* ---- does the file fit these tables? ---- */

static int meta_text(const struct tt_ps_file *file, const char *field, const char **text)
{
	*text = json_string_value(
		json_object_get(json_object_get(file->header, "__metadata__"), field));
	return *text ? 0
		     : tt_fail(-EINVAL,
			       "%s: __metadata__ has no '%s': not a checkpoint of a parameter "
			       "server",
			       file->path, field);
}

static int bad_list(const struct tt_ps_file *file, const char *field, const char *text)
{
	return tt_fail(-EBADMSG, "%s: '%s' of __metadata__ is not a list of numbers: '%.40s'",
		       file->path, field, text);
}

/* At least `least` numbers and at most `most`, separated by commas. */
static int numbers(const struct tt_ps_file *file, const char *field, uint64_t *out, uint64_t least,
		   uint64_t most, uint64_t *n)
{
	const char *list, *text;
	char *end = NULL;
	int err = meta_text(file, field, &list);

	*n = 0;
	for (text = list; !err && (*text || end); text = end + 1) {
		uint64_t value;

		errno = 0;
		value = strtoull(text, &end, 10);
		if (end == text || *text == '-' || errno || value > INT64_MAX ||
		    (*end && *end != ','))
			return bad_list(file, field, text);
		if (*n < most)
			out[*n] = value;
		++*n;
		if (!*end)
			break;
	}
	if (!err && (*n < least || *n > most))
		err = tt_fail(-EBADMSG,
			      "%s: '%s' of __metadata__ has %" PRIu64 " numbers, not %" PRIu64
			      " to %" PRIu64,
			      file->path, field, *n, least, most);
	return err;
}

int tt_ps_file_workers(const struct tt_ps_file *file, uint64_t *workers)
{
	uint64_t clock[TT_PS_CLOCKS];

	return numbers(file, "clocks", clock, 0, TT_PS_CLOCKS, workers);
}

/* The state of each worker is there; workers 0: there were too many to list their clocks. */
static int check_held(const struct tt_ps_file *file, const struct tt_ps_tensor *held,
		      uint64_t workers)
{
	if (workers ? held->shape[0] == workers : held->shape[0] > TT_PS_CLOCKS)
		return 0;
	return tt_fail(-EBADMSG,
		       "%s: '%s' has the states of %" PRIu64
		       " workers, and 'clocks' of __metadata__ the clocks of %" PRIu64
		       " (none only if there are more than %d)",
		       file->path, held->name, held->shape[0], workers, (int)TT_PS_CLOCKS);
}

static int check_table(const struct tt_ps_file *file, const struct tutti_ps_table *t,
		       uint64_t workers, size_t *tensors)
{
	struct tt_ps_tensor tensor[TT_PS_TENSORS];
	char field[TT_PS_NAME + 8];
	const char *rule;
	int j, err;

	snprintf(field, sizeof(field), "%s.rule", t->name);
	err = tt_ps_file_find(file, t, tensor);
	if (!err)
		err = meta_text(file, field, &rule);
	if (!err && strcmp(rule, tt_rule_name(t->opt.rule)))
		err = tt_fail(-EINVAL, "%s: '%s' is %s, and the table's rule is %s", file->path,
			      field, rule, tt_rule_name(t->opt.rule));
	if (!err && t->coder && !t->rows)
		err = check_held(file, &tensor[TT_PS_HELD], workers);
	for (j = 0; j < TT_PS_TENSORS && !err; j++)
		*tensors += tensor[j].name[0] != 0;
	return err;
}

/* Where a tensor lies in the data. */
struct span {
	uint64_t begin, end;
	const char *name;
};

static int by_begin(const void *a, const void *b)
{
	const struct span *x = a, *y = b;

	if (x->begin != y->begin)
		return x->begin < y->begin ? -1 : 1;
	return (x->end > y->end) - (x->end < y->end);
}

static int check_spans(const struct tt_ps_file *file, const struct span *span, size_t n)
{
	uint64_t at = 0;
	size_t i;

	for (i = 0; i < n; at = span[i++].end)
		if (span[i].begin != at)
			return tt_fail(-EBADMSG,
				       "%s: data_offsets of '%s' begin at byte %" PRIu64
				       ", not %" PRIu64 ", the end of %s: there must be no gap and "
				       "no overlap",
				       file->path, span[i].name, span[i].begin, at,
				       i ? span[i - 1].name : "the header");
	if (at != file->size - file->data)
		return tt_fail(-EBADMSG,
			       "%s: its data has %" PRIu64 " bytes, and data_offsets, up to those "
			       "of '%s', end at byte %" PRIu64,
			       file->path, file->size - file->data, n ? span[n - 1].name : "", at);
	return 0;
}

/* The tensors, whose offsets are right each, lie one after the other and fill the file. */
static int check_layout(const struct tt_ps_file *file)
{
	struct span *span = calloc(json_object_size(file->header) + 1, sizeof(*span));
	const char *name;
	json_t *entry;
	size_t n = 0;
	int err;

	if (!span)
		return tt_fail(-ENOMEM, "%s: no memory to check its header", file->path);
	json_object_foreach((json_t *)file->header, name, entry)
	{
		const json_t *offsets = json_object_get(entry, "data_offsets");

		if (offsets && get_u64(offsets, 0, &span[n].begin) &&
		    get_u64(offsets, 1, &span[n].end))
			span[n++].name = name;
	}
	qsort(span, n, sizeof(*span), by_begin);
	err = check_spans(file, span, n);
	free(span);
	return err;
}

int tt_ps_file_check(const struct tt_ps_file *file, const struct tutti_ps *ps,
		     struct tt_ps_order *order)
{
	size_t tensors = 1; /* the metadata */
	const char *version;
	uint64_t one;
	uint32_t i;
	int err = meta_text(file, "tutti_ps", &version);

	if (!err && strcmp(version, FORMAT))
		return tt_fail(-TUTTI_EVERSION,
			       "%s: 'tutti_ps' of __metadata__ is '%.20s'; this library "
			       "reads version " FORMAT ", which has checksums",
			       file->path, version);
	if (!err)
		err = numbers(file, "min_clock", &order->min_clock, 1, 1, &one);
	if (!err)
		err = numbers(file, "clocks", order->clock, 0, TT_PS_CLOCKS, &order->workers);
	for (i = 0; i < ps->ntables && !err; i++)
		err = check_table(file, ps->table[i], order->workers, &tensors);
	if (!err && json_object_size(file->header) != tensors)
		err = tt_fail(-EINVAL,
			      "%s has %zu tensors, and the tables here %zu: there are tables in it "
			      "that were not made",
			      file->path, json_object_size(file->header) - 1, tensors - 1);
	if (!err)
		err = check_layout(file);
	return err ? err : tt_ps_header_check(file);
}
