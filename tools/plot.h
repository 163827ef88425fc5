/* SPDX-License-Identifier: BSD-3-Clause */
/* Figures of the tools: gnuplot reads commands from a pipe and writes a file. */
#ifndef TUTTI_PLOT_H
#define TUTTI_PLOT_H

#include <stdbool.h>
#include <stdio.h>

#define PLOT_FORMATS ".png, .svg or .pdf"

/* Whether the name ends in one of PLOT_FORMATS. */
bool plot_can(const char *path);
/* Whether a gnuplot is in PATH. */
bool plot_has_gnuplot(void);
/* Starts gnuplot, with so many panels below each other. NULL: errno has the reason. */
FILE *plot_begin(const char *path, int panels);
/* Writes a text in single quotes. */
void plot_quote(FILE *g, const char *text);
/* 0, or the text of an error, without the name of the option. */
const char *plot_end(FILE *g);

#endif
