/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Names of codecs by their hashes. Fields of calls have the hash, which is short; texts about calls
 * that differ need the name. Rank 0 sends the names with its verdict.
 */
#include <pthread.h>
#include <stdio.h>

#include "lib/comm/comm.h"

#define NAMES 16

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
	uint64_t hash;
	char name[TT_CODEC_NAME];
} names[NAMES];
static unsigned next;

static int find(uint64_t hash)
{
	int i;

	for (i = 0; i < NAMES && names[i].hash != hash; i++)
		;
	return i;
}

void tt_codec_name_add(uint64_t hash, const char *name)
{
	unsigned i;

	if (!hash || !*name)
		return;
	pthread_mutex_lock(&lock);
	if (find(hash) == NAMES) {
		i = next++ % NAMES;
		names[i].hash = hash;
		snprintf(names[i].name, sizeof(names[i].name), "%s", name);
	}
	pthread_mutex_unlock(&lock);
}

const char *tt_codec_name_text(uint64_t hash, char name[TT_CODEC_NAME])
{
	int i;

	name[0] = 0;
	if (!hash)
		return name;
	pthread_mutex_lock(&lock);
	i = find(hash);
	snprintf(name, TT_CODEC_NAME, "%s", i < NAMES ? names[i].name : "an unknown codec");
	pthread_mutex_unlock(&lock);
	return name;
}
