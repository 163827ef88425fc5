/* SPDX-License-Identifier: BSD-3-Clause */
/* A file of an optimizer's state, as tutti_sharded_restore reads it at rank 0. */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <tutti/ps.h>
#include <unistd.h>

#include "tests/fuzz/fuzz.h"
#include "train/state_file.h"

#define TENSORS 3

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const size_t counts[TENSORS] = {3, 0, 5};
	struct tt_state_file f = {.fd = -1,
				  .n = TENSORS,
				  .elem = sizeof(float),
				  .counts = counts,
				  .states = 2,
				  .rule = TUTTI_PS_ADAM,
				  .datatype = TUTTI_FLOAT32};
	int fd = memfd_create("state", MFD_CLOEXEC), err, v, row;
	char path[64];
	float room[5];
	size_t i;

	if (fd < 0 || write(fd, data, size) != (ssize_t)size)
		abort();
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	f.path = path;
	err = tt_state_file_open(&f);
	assert(err == 0 || err == -EINVAL);
	for (v = 0; !err && v < f.states + f.residuals; v++)
		for (row = 0; row == 0 || (v >= f.states && row < f.ranks); row++)
			for (i = 0; i < TENSORS; i++) /* all that was accepted can be read */
				if (tt_state_file_read(&f, v, row, i, room))
					abort();
	tt_state_file_close(&f, false);
	close(fd);
	return 0;
}
