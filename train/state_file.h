/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Files of optimizer states, in the format safetensors: 8 bytes with the length of the header, the
 * header in JSON, the vectors. Vector v (1 or 2) of tensor i is called "i.statev". What encodings
 * of a rank have left out (residuals, vectors after the states) is a row of "i.residualv", which
 * has a row for each rank that saved it. The header's metadata has a checksum of its numbers, the
 * places of the vectors, and all bytes behind the header. A file may contain anything, so
 * everything that is read is checked.
 */
#ifndef TT_TRAIN_STATE_FILE_H
#define TT_TRAIN_STATE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <tutti/coll.h>

struct tt_state_file {
	const char *path;
	int fd;
	bool writing; /* a file beside path */
	size_t n, elem;
	const size_t *counts;
	int states, rule;
	int residuals, ranks; /* vectors for each rank that saves; 0: none */
	enum tutti_datatype datatype;
	uint64_t steps;
	uint64_t data, end, sum; /* the vectors, when written their end, the checksum's digits */
	uint64_t *place; /* of vector v of tensor i: place[v * n + i], from the start of the file;
			    residuals follow states */
};

/* 0, or a negative code with a text; closed by tt_state_file_close, also after a failure. */
int tt_state_file_create(struct tt_state_file *f); /* writes a file beside path */
int tt_state_file_open(struct tt_state_file *f);   /* reads steps, residuals and ranks, checks
						      everything else */
/* row: of a residual, the rank; else 0 */
int tt_state_file_write(struct tt_state_file *f, int v, int row, size_t tensor, const void *data);
int tt_state_file_read(struct tt_state_file *f, int v, int row, size_t tensor, void *data);
/* commit: the file that was created takes path's place. */
int tt_state_file_close(struct tt_state_file *f, bool commit);

#endif
