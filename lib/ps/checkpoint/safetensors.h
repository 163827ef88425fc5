/* SPDX-License-Identifier: BSD-3-Clause */
/* safetensors.c: safetensors files, see tutti_ps_save(3) */
#ifndef TT_SAFETENSORS_H
#define TT_SAFETENSORS_H

#include "lib/ps/ps.h"

enum tt_ps_tensor_of {
	TT_PS_VALUES,
	TT_PS_ROW_KEYS,
	TT_PS_STATE1,
	TT_PS_STATE2,
	TT_PS_STEPS,
	TT_PS_HELD,	 /* what workers hold back: the state of each, or of each row */
	TT_PS_HELD_KEYS, /* rows: of each its worker + 1, and its key */
	TT_PS_TENSORS
};

struct tt_ps_tensor {
	char name[TT_PS_NAME + 16]; /* "": the table has no such tensor */
	const char *dtype;
	size_t elem;
	int dims;
	uint64_t shape[2];
	uint64_t at; /* offset in the file */
};

/* The rows of a table that workers hold back: all, and those in front of this worker's. */
struct tt_ps_held_rows {
	uint64_t all, before;
};

struct tt_ps_file {
	int fd;
	char path[1040];
	void *header;	     /* json_t */
	char *text;	     /* the same, as it is in the file */
	uint64_t data, size; /* offset of the data; size of the file */
};

/*
 * Create the file, write and sync its header, and extend it to its final size. rows, held: by
 * table. The file stays open and locked; a file left by a killed save has no lock.
 */
int tt_ps_file_create(struct tutti_ps *ps, const char *path, const uint64_t *rows,
		      const struct tt_ps_held_rows *held, const struct tt_ps_reply *clocks,
		      struct tt_ps_file *file);
/* Remove what a killed save has left, unless another process is writing it. */
void tt_ps_file_sweep(const char *path);
int tt_ps_file_open(const char *path, bool write, struct tt_ps_file *file);
int tt_ps_file_close(struct tt_ps_file *file, bool sync);
/* Fill in the offsets of a table's tensors, and first dimensions that are not known. */
int tt_ps_file_find(const struct tt_ps_file *file, const struct tutti_ps_table *t,
		    struct tt_ps_tensor *tensor);
/* Check that the file has exactly the tables that exist here; read the clocks. */
int tt_ps_file_check(const struct tt_ps_file *file, const struct tutti_ps *ps,
		     struct tt_ps_order *order);
/* How many workers saved it; 0: more than TT_PS_CLOCKS. */
int tt_ps_file_workers(const struct tt_ps_file *file, uint64_t *workers);
int tt_ps_file_write(const struct tt_ps_file *file, const void *from, uint64_t len, uint64_t at);
int tt_ps_file_read(const struct tt_ps_file *file, void *to, uint64_t len, uint64_t at);

/* file_sums.c: of the header, and of `parts` parts of the data */
int tt_ps_sums_reserve(void *meta, int parts); /* in the metadata, a json_t */
int tt_ps_part_sum(const struct tt_ps_file *file, uint64_t part, uint64_t parts, uint64_t *sum);
int tt_ps_file_seal(const char *path, const uint64_t *sum, size_t n);
int tt_ps_header_check(const struct tt_ps_file *file);
/* Check the parts first, first + step and so on. */
int tt_ps_parts_check(const struct tt_ps_file *file, int first, int step);

/*
 * held_file.c: what workers hold back. Each worker writes its state to the new file. A restore
 * reads it first, by table, and uses it in the end.
 */
struct tt_ps_residuals;
bool tt_ps_held_any(const struct tutti_ps *ps);
int tt_ps_held_write(const struct tutti_ps *ps, const char *path,
		     const struct tt_ps_held_rows *rows);
int tt_ps_held_read(const struct tutti_ps *ps, const struct tt_ps_reply *met, const char *path,
		    struct tt_ps_residuals **held);
void tt_ps_held_free(struct tt_ps_residuals *held, uint32_t tables);

/* restore.c: reads a server's part of a table into its pending values. */
struct tt_ps_store;
int tt_ps_pending_read_dense(struct tt_ps_store *s, const struct tt_ps_file *file,
			     const struct tt_ps_tensor *tensor);
int tt_ps_pending_read_rows(struct tt_ps_store *s, const struct tt_ps_file *file,
			    const struct tt_ps_tensor *tensor);

#endif
