/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Measured tables: written and read, damaged in every way, found; what tutti_explain says of one.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/error.h"
#include "lib/plan/tune.h"
#include "tests/test.h"

static char path[64];

static struct tt_tune *table(const char *hosts, int nhosts, int nranks)
{
	static const struct tt_point points[] = {
		{.coll = TT_COLL_ALLREDUCE, .algo = "ring", .bytes = 8, .time = 5e6},
		{.coll = TT_COLL_ALLREDUCE,
		 .algo = "ring",
		 .bytes = 1 << 20,
		 .lanes = 1,
		 .time = 1e5},
		{.coll = TT_COLL_ALLREDUCE, .algo = "dbt", .bytes = 8, .time = 12345.5},
		{.coll = TT_COLL_BCAST, .algo = "chain", .bytes = 8, .time = 100}};
	struct tt_tune *t = calloc(1, sizeof(*t));
	size_t i;

	snprintf(t->hosts, sizeof(t->hosts), "%s", hosts);
	t->nhosts = nhosts;
	t->nranks = nranks;
	t->gamma = 0.125;
	t->copy = 0.25;
	t->cache = nhosts == 1 ? (12 << 20) + 1 : 0;
	t->nlinks[0] = t->nlinks[1] = 1;
	t->links[0][0] = (struct tt_link_costs){"shm", {300, 0.1}, 150};
	t->links[1][0] = (struct tt_link_costs){"ofi", {20000, 8.5}, 4000};
	for (i = 0; t && i < sizeof(points) / sizeof(points[0]); i++)
		t = tt_tune_add(t, &points[i]);
	return t;
}

/* A file of two tables. */
static bool write_file(void)
{
	struct tt_tunes tunes = {0};
	bool good;

	snprintf(path, sizeof(path), "/tmp/tt_tune_%d.json", (int)getpid());
	good = !tt_tunes_put(&tunes, table("a,b", 2, 4)) &&
	       !tt_tunes_put(&tunes, table("c", 1, 2)) && !tt_tunes_save(path, &tunes);
	tt_tunes_free(&tunes);
	return good;
}

static bool same(const struct tt_tune *a, const struct tt_tune *b)
{
	int i;

	if (strcmp(a->hosts, b->hosts) != 0 || a->nhosts != b->nhosts || a->nranks != b->nranks ||
	    a->gamma != b->gamma || a->copy != b->copy || a->cache != b->cache ||
	    a->npoints != b->npoints || memcmp(a->nlinks, b->nlinks, sizeof(a->nlinks)) != 0 ||
	    memcmp(a->links, b->links, sizeof(a->links)) != 0)
		return false;
	for (i = 0; i < a->npoints; i++)
		if (a->points[i].coll != b->points[i].coll ||
		    strcmp(a->points[i].algo, b->points[i].algo) != 0 ||
		    a->points[i].bytes != b->points[i].bytes ||
		    a->points[i].lanes != b->points[i].lanes ||
		    a->points[i].time != b->points[i].time)
			return false;
	return true;
}

static void test_round_trip(void)
{
	struct tt_tune *t = table("a,b", 2, 4);
	struct tt_tunes tunes;

	TT_REQUIRE(write_file());
	TT_REQUIRE(!tt_tunes_load(path, &tunes));
	TT_CHECK(tunes.n == 2 && same(tunes.tune[0], t));
	TT_CHECK(!tunes.tune[0]->cache && tunes.tune[1]->cache == (12 << 20) + 1);
	TT_CHECK(tt_tunes_find(&tunes, "a,b", 4) == tunes.tune[0]);
	TT_CHECK(tt_tunes_find(&tunes, "a,b", 2) == tunes.tune[0]); /* what messages cost */
	TT_CHECK(tt_tunes_find(&tunes, "c", 2) == tunes.tune[1]);
	TT_CHECK(!tt_tunes_find(&tunes, "b,a", 4) && !tt_tunes_find(&tunes, "a", 4));
	TT_CHECK(!tt_tunes_put(&tunes, t) && tunes.n == 2 && tunes.tune[0] == t); /* replaced */
	tt_tunes_free(&tunes);
	unlink(path);
	TT_CHECK(tt_tunes_load(path, &tunes) == -ENOENT);
	TT_CHECK(strstr(tt_fail_text(-ENOENT), path) != NULL);
}

static void put_text(const char *text, size_t len)
{
	FILE *f = fopen(path, "w");

	TT_REQUIRE(f && fwrite(text, 1, len, f) == len && !fclose(f));
}

/* Cut off anywhere (we try many), it is refused, and the file is named. */
static void test_truncated(void)
{
	struct tt_tunes tunes;
	char text[16384];
	size_t len, i;
	FILE *f;

	TT_REQUIRE(write_file());
	f = fopen(path, "r");
	TT_REQUIRE(f != NULL);
	len = fread(text, 1, sizeof(text), f);
	fclose(f);
	while (len && text[len - 1] != '}')
		len--;
	TT_REQUIRE(len > 100);
	for (i = 0; i < len; i += i + 32 < len ? 29 : 1) {
		put_text(text, i);
		TT_CHECK(tt_tunes_load(path, &tunes) == -EINVAL && !tunes.n);
		TT_CHECK(strstr(tt_fail_text(-EINVAL), path) != NULL);
	}
	for (i = 0; i < len; i += 41) { /* damaged: refused, or read as another table, no more */
		text[i] ^= 4;
		put_text(text, len);
		if (!tt_tunes_load(path, &tunes))
			tt_tunes_free(&tunes);
		text[i] ^= 4;
	}
	unlink(path);
}

static bool refused(const char *text, const char *says)
{
	struct tt_tunes tunes;
	int err;

	put_text(text, strlen(text));
	err = tt_tunes_load(path, &tunes);
	if (err == -EINVAL && strstr(tt_fail_text(err), says))
		return true;
	printf("  %s: %d, %s\n", text, err, err ? tt_fail_text(err) : "accepted");
	return false;
}

#define TABLE(ranks, links, points)                                                                \
	"{\"tutti_tune\": 1, \"tables\": [{\"hosts\": \"a\", \"ranks\": " ranks                    \
	", \"gamma_ns_per_byte\": 0.1, \"copy_ns_per_byte\": 0.1, \"inside\": [" links             \
	"], \"between\": [], \"measured\": [" points "]}]}"

static void test_bad(void)
{
	snprintf(path, sizeof(path), "/tmp/tt_tune_%d.json", (int)getpid());
	TT_CHECK(refused("", "not a valid tuning table"));
	TT_CHECK(refused("hello", "not a valid tuning table"));
	TT_CHECK(refused("[1, 2]", "\"tutti_tune\": 1"));
	TT_CHECK(refused("{\"tutti_tune\": 2, \"tables\": []}", "of this version"));
	TT_CHECK(refused("{\"tutti_tune\": 1}", "needs a list of at most"));
	TT_CHECK(refused("{\"tutti_tune\": 1, \"tables\": [5]}", "hosts is missing"));
	TT_CHECK(refused(TABLE("0", "", ""), "ranks is missing or out of range"));
	TT_CHECK(refused(TABLE("2.5", "", ""), "ranks is not a whole number"));
	TT_CHECK(refused(TABLE("1e300", "", ""), "ranks"));
	TT_CHECK(refused(TABLE("2", "7", ""), "transport is missing"));
	TT_CHECK(refused(TABLE("2", "{\"transport\": \"shm\", \"alpha_ns\": -1}", ""), "alpha_ns"));
	TT_CHECK(refused(TABLE("2",
			       "{\"transport\": \"shm\", \"alpha_ns\": 1, "
			       "\"beta_ns_per_byte\": 0}",
			       ""),
			 "beta_ns_per_byte"));
	TT_CHECK(refused(TABLE("2", "",
			       "{\"collective\": \"alreduce\", \"algorithm\": \"ring\", "
			       "\"bytes\": 8, \"ns\": 5}"),
			 "unknown collective"));
	TT_CHECK(refused(TABLE("2", "",
			       "{\"collective\": \"bcast\", \"algorithm\": \"ring\", "
			       "\"bytes\": 8, \"ns\": \"5\"}"),
			 "ns is missing"));
	TT_CHECK(refused(TABLE("2", "",
			       "{\"collective\": \"allreduce\", \"algorithm\": \"ring\", "
			       "\"bytes\": 8, \"ns\": 5, \"lanes\": 0}"),
			 "lanes is missing or out of range"));
	TT_CHECK(refused(TABLE("2, \"cache_bytes\": 0", "", ""),
			 "cache_bytes is 0; it must be from 4096 to 1099511627776, or missing"));
	TT_CHECK(refused(
		TABLE("2, \"cache_bytes\": \"8M\"", "", ""),
		"cache_bytes is \"8M\"; it must be from 4096 to 1099511627776, or missing"));
	TT_CHECK(refused(TABLE("2, \"cache_bytes\": 2e12", "", ""),
			 "cache_bytes is 2000000000000.0; it must be from 4096 to 1099511627776, "
			 "or missing"));
	unlink(path);
}

static void test_hosts(void)
{
	const char *names[] = {"node2", "node10", "node1", "node2"};
	char hosts[64];

	TT_CHECK(!tt_tune_hosts(names, 4, hosts, sizeof(hosts)));
	TT_CHECK(!strcmp(hosts, "node1,node10,node2,node2"));
	TT_CHECK(tt_tune_hosts(names, 4, hosts, 20) == -EINVAL);
}

/* A line of tutti_explain shows the chooser's choice. */
static bool says_so(const char *line, const struct tt_chooser *c, enum tt_coll coll, int n,
		    const struct tt_hosts *hosts, bool node)
{
	struct tt_plan_args a = {
		.coll = coll, .nranks = n, .elem = 4, .node = node, .hosts = hosts};
	char algo[32];
	size_t bytes, chunk;
	int lanes;

	if (sscanf(line, "* %zu %31s %zu %d", &bytes, algo, &chunk, &lanes) != 4)
		return false;
	a.count = bytes / 4;
	return !strcmp(tt_choose(c, &a)->name, algo) && a.chunk == chunk && a.lanes == lanes;
}

static void check_explained(enum tt_coll coll, const struct tt_tune *t, int hosts, int n)
{
	struct tt_chooser_params p = {.rules = "",
				      .chunk = 256 << 10,
				      .lanes = 4,
				      .nranks = n,
				      .layout = {hosts, (n + hosts - 1) / hosts, 2},
				      .inside = "shm",
				      .between = "ofi",
				      .tune = t};
	struct tt_chooser *c;
	char command[256], line[512];
	struct tt_hosts *h;
	int taken = 0;
	FILE *f;

	TT_REQUIRE(!tt_hosts_blocks(n, p.layout.ranks_per_host, &h));
	TT_REQUIRE(!tt_chooser_by_table(&p, &c));
	snprintf(command, sizeof(command),
		 "./tutti_explain %s -n %d -H %d -c 2 -t ofi -b 8 -e 64M -f 8 -T %s",
		 tt_coll_name(coll), n, hosts, t ? path : "none");
	f = popen(command, "r");
	TT_REQUIRE(f != NULL);
	while (fgets(line, sizeof(line), f))
		if (line[0] == '*') {
			TT_CHECK(says_so(line, c, coll, n, h, hosts == 1));
			taken++;
		}
	TT_CHECK(!pclose(f) && taken == 8);
	tt_chooser_free(c);
	free(h);
}

static void test_explain(void)
{
	struct tt_tunes tunes;

	if (access("./tutti_explain", X_OK))
		TT_SKIP("tutti_explain is not here");
	TT_REQUIRE(write_file() && !tt_tunes_load(path, &tunes));
	check_explained(TT_COLL_ALLREDUCE, NULL, 4, 16);
	check_explained(TT_COLL_BCAST, NULL, 1, 5);
	check_explained(TT_COLL_ALLGATHER, NULL, 3, 7);
	check_explained(TT_COLL_GATHERV, NULL, 2, 8);
	check_explained(TT_COLL_ALLREDUCE, tunes.tune[0], 2, 4);
	check_explained(TT_COLL_ALLREDUCE, tunes.tune[1], 1, 2);
	tt_tunes_free(&tunes);
	unlink(path);
}

static const struct tt_test tests[] = {
	{"round_trip", test_round_trip}, {"truncated", test_truncated}, {"bad", test_bad},
	{"hosts", test_hosts},		 {"explain", test_explain},	{NULL, NULL}};

int main(int argc, char **argv)
{
	return tt_test_main("tune", tests, argc, argv);
}
