/* SPDX-License-Identifier: BSD-3-Clause */
/* The directory in which new processes find the job that they join (TUTTI_BOOT_DIR). */
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/run/run.h"

static char made[200];

char *gate_dir(void)
{
	char *told = getenv("TUTTI_BOOT_DIR"), *tmp = getenv("TMPDIR");

	if (told && *told)
		return told;
	snprintf(made, sizeof(made), "%.160s/tutti-run-XXXXXX", tmp && *tmp ? tmp : "/tmp");
	if (mkdtemp(made))
		return made;
	fail("cannot make a directory for --replace in %s: %s", tmp && *tmp ? tmp : "/tmp",
	     strerror(errno));
	made[0] = 0;
	return NULL;
}

const char *gate_made(void)
{
	return made[0] ? made : NULL;
}

/* A leader that was killed has left its file there. */
void gate_remove(const char *gate)
{
	DIR *dir = gate ? opendir(gate) : NULL;
	char path[PATH_MAX + NAME_MAX];
	struct dirent *e;

	while (dir && (e = readdir(dir))) {
		snprintf(path, sizeof(path), "%s/%s", gate, e->d_name);
		unlink(path);
	}
	if (dir)
		closedir(dir);
	if (gate)
		rmdir(gate);
}
