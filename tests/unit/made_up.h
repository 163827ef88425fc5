/* SPDX-License-Identifier: BSD-3-Clause */
/* A made-up machine: a tree of files as in /sys and /proc. */
#ifndef TT_UNIT_MADE_UP_H
#define TT_UNIT_MADE_UP_H

extern char made_up_root[64];

void made_up_start(void); /* an empty tree at a new made_up_root */
/* Writes text to root/path and makes the folders on the way; "": only the folders. */
void made_up_put(const char *path, const char *text);
void made_up_remove(void);

#endif
