/* SPDX-License-Identifier: BSD-3-Clause */
/* Finds, reads and shuffles the data. */
#define _POSIX_C_SOURCE 200809L
#include "examples/digits.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#define FILE_NAME "digits.csv.gz"
#define PATH_SIZE 4096

static int exists(char *path, const char *dir, const char *below)
{
	int len = snprintf(path, PATH_SIZE, "%s%s/" FILE_NAME, dir, below);

	return len < PATH_SIZE && !access(path, R_OK);
}

/* The directory of the running program, "" if it is not known. */
static void program_dir(char *dir)
{
	ssize_t len = readlink("/proc/self/exe", dir, PATH_SIZE - 1);
	char *slash;

	dir[len > 0 ? len : 0] = 0;
	slash = strrchr(dir, '/');
	if (slash)
		*slash = 0;
}

/*
 * Places of the file: the environment's, the installation's, near the program (in a build tree,
 * whose programs may be in .libs, and in an install tree inside it), the current directory.
 */
static const char *find(char *path)
{
	static const char *const near_program[] = {"/../share/tutti", "/data", "/../data",
						   "/../../data", "/../../../data"};
	const char *named = getenv("DIGITS_CSV");
	char dir[PATH_SIZE];
	unsigned int i;

	if (named && *named)
		return named;
	if (exists(path, PKGDATADIR, ""))
		return path;
	program_dir(dir);
	for (i = 0; *dir && i < sizeof(near_program) / sizeof(near_program[0]); i++)
		if (exists(path, dir, near_program[i]))
			return path;
	if (exists(path, "build/data", "") || exists(path, ".", ""))
		return path;
	return NULL;
}

/* One line into *digit; 0 if it is not 64 pixels and a label. */
static int parse(const char *line, struct digit *digit)
{
	char *end;
	long value;
	int i;

	for (i = 0; i <= DIGIT_PIXELS; i++) {
		value = strtol(line, &end, 10);
		if (end == line || value < 0 || value > (i < DIGIT_PIXELS ? 16 : DIGIT_CLASSES - 1))
			return 0;
		if (i < DIGIT_PIXELS)
			digit->pixels[i] = (uint8_t)value;
		else
			digit->label = (uint8_t)value;
		if (*end != (i < DIGIT_PIXELS ? ',' : '\n') && *end != '\r')
			return 0;
		line = end + 1;
	}
	return 1;
}

static int read_all(gzFile file, const char *path, struct digit **digits)
{
	struct digit *all = NULL, *bigger;
	int n = 0, room = 0;
	char line[1024];

	while (gzgets(file, line, sizeof(line))) {
		if (n == room) {
			room = room ? 2 * room : 1024;
			bigger = realloc(all, (size_t)room * sizeof(*all));
			if (!bigger) {
				fprintf(stderr, "train_digits: no memory for %d digits\n", room);
				goto free_all;
			}
			all = bigger;
		}
		if (!parse(line, &all[n])) {
			fprintf(stderr,
				"train_digits: %s, line %d: expected 64 pixels of 0 to 16 and a "
				"label of 0 to 9, separated by commas\n",
				path, n + 1);
			goto free_all;
		}
		n++;
	}
	if (n && gzeof(file)) {
		*digits = all;
		return n;
	}
	fprintf(stderr, "train_digits: %s is %s\n", path, n ? "damaged" : "empty or damaged");
free_all:
	free(all);
	return -1;
}

int digits_load(const char *path, struct digit **digits)
{
	char found[PATH_SIZE];
	gzFile file;
	int n;

	if (!path)
		path = find(found);
	if (!path) {
		fprintf(stderr, "train_digits: " FILE_NAME
				" was not found; get it with 'sh quickstart.sh' in "
				"the source of tutti, or name a copy with --data FILE\n");
		return -1;
	}
	file = gzopen(path, "rb");
	if (!file) {
		fprintf(stderr,
			"train_digits: cannot read %s: %s; get it with 'sh quickstart.sh' in the "
			"source of tutti\n",
			path, strerror(errno));
		return -1;
	}
	n = read_all(file, path, digits);
	gzclose(file);
	return n;
}
