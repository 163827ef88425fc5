/* SPDX-License-Identifier: BSD-3-Clause */
/* Random layouts, and loops over their elements to compare with. */
#ifndef TT_MP_LAYOUTS_H
#define TT_MP_LAYOUTS_H

#include <tutti/tutti.h>

#define MP_LAYOUT_BLOCKS 300

struct mp_layout {
	struct tutti_layout l;
	size_t first; /* bytes from the begin of the room to the buffer's address */
	size_t blocks[MP_LAYOUT_BLOCKS];
	ptrdiff_t displs[MP_LAYOUT_BLOCKS];
};

struct tutti_layout mp_layout_vector(enum tutti_datatype datatype, size_t count, size_t block,
				     ptrdiff_t stride);

/*
 * elems elements without overlap in a room of so many bytes, which has at least twice the bytes of
 * the elements. l points into *out, which must stay where it is.
 */
void mp_layout_draw(unsigned *seed, enum tutti_datatype datatype, size_t elems, size_t room,
		    struct mp_layout *out);
/* The first `bytes` bytes of the message that l describes at base, or NULL: at base itself. */
void mp_layout_read(const struct tutti_layout *l, const char *base, char *stream, size_t bytes);
void mp_layout_write(const struct tutti_layout *l, char *base, const char *stream, size_t bytes);

#endif
