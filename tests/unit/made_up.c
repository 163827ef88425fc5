/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/unit/made_up.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "tests/test.h"

char made_up_root[64];

void made_up_start(void)
{
	snprintf(made_up_root, sizeof(made_up_root), "/tmp/tutti-made-up-XXXXXX");
	TT_REQUIRE(mkdtemp(made_up_root) != NULL);
}

void made_up_put(const char *path, const char *text)
{
	char full[256], *slash;
	FILE *f;

	snprintf(full, sizeof(full), "%s/%s", made_up_root, path);
	for (slash = full + strlen(made_up_root) + 1; (slash = strchr(slash, '/')) != NULL;
	     *slash++ = '/') {
		*slash = 0;
		mkdir(full, 0700);
	}
	if (!*text)
		return;
	f = fopen(full, "w");
	TT_REQUIRE(f != NULL);
	fputs(text, f);
	fclose(f);
}

static int remove_entry(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
	return remove(path);
}

void made_up_remove(void)
{
	TT_CHECK(!nftw(made_up_root, remove_entry, 8, FTW_DEPTH | FTW_PHYS));
}
