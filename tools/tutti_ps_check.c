/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tutti_ps_check: proves, from the traces of all workers of a parameter server, that no read was
 * older than the staleness bound allows.
 */
#include <errno.h>
#include <inttypes.h>
#include <search.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tutti/tutti.h>

#include "tools/cli.h"

#define MOST (1 << 24) /* workers */
#define TABLES 1024

struct tick {
	uint64_t clock, time;
};

struct worker {
	const char *path;  /* NULL: not given */
	struct tick *tick; /* the clocks it told, in order */
	size_t ticks, room;
	uint64_t left; /* when it said good-bye; UINT64_MAX: never */
	int of;	       /* how many there were when it began, or when it was last told */
	bool gone;     /* it left while the others went on */
	bool dead; /* reported by another worker: it left after its last line, which may be cut off
		    */
	uint64_t last; /* time of that */
	unsigned long cut;
};

struct check {
	struct worker *worker;
	int workers, staleness;
	bool times;
	uint64_t reads, pushes, clocks, oldest, ages, wrong;
	bool codecs;	   /* there are pushes that travel encoded */
	double held, lost; /* the most that a worker held back of a table; that dead ones did */
	/* where we are */
	const char *path;
	unsigned long line;
	int me;
	double now_held[TABLES]; /* by table, at the last clock */
};

/* The last publication that a worker has seen of a block. */
struct block {
	uint64_t table, server, block, sequence;
};

static int compare(const void *a, const void *b)
{
	return memcmp(a, b, offsetof(struct block, sequence));
}

static void wrong(struct check *c, const char *what, uint64_t found, uint64_t wanted)
{
	c->wrong++;
	if (c->wrong <= 20)
		printf("%s:%lu: %s: %" PRIu64 ", must be at least %" PRIu64 "\n", c->path, c->line,
		       what, found, wanted);
}

static int bad_line(const struct check *c, const char *line)
{
	fprintf(stderr, "tutti_ps_check: %s:%lu: not a line of a trace: %.60s\n", c->path, c->line,
		line);
	return 1;
}

/* ---- first: the workers, and when each reported which clock ---- */

static int more_workers(struct check *c, int of)
{
	struct worker *w = of < MOST ? realloc(c->worker, (size_t)of * sizeof(*w)) : NULL;

	errno = ENOMEM;
	if (!w)
		return perror("tutti_ps_check"), 1;
	memset(w + c->workers, 0, (size_t)(of - c->workers) * sizeof(*w));
	c->worker = w;
	c->workers = of;
	return 0;
}

static int read_head(struct check *c, FILE *f)
{
	int version, me, of, staleness;

	c->line = 2;
	if (fscanf(f, "tutti_ps_trace %d worker %d of %d, staleness %d\n", &version, &me, &of,
		   &staleness) != 4 ||
	    version != 1 || of < 1 || me < 0 || me >= of) {
		fprintf(stderr, "tutti_ps_check: %s is not a trace\n", c->path);
		return 1;
	}
	if (!c->worker)
		c->staleness = staleness;
	if (of > c->workers && more_workers(c, of))
		return 1;
	if (staleness != c->staleness || c->worker[me].path) {
		fprintf(stderr,
			"tutti_ps_check: %s is of another run, or worker %d appears twice\n",
			c->path, me);
		return 1;
	}
	c->me = me;
	c->worker[me].path = c->path;
	c->worker[me].of = of;
	c->worker[me].left = UINT64_MAX;
	return 0;
}

static int add_tick(struct check *c, uint64_t clock, uint64_t time)
{
	struct worker *w = &c->worker[c->me];

	if (w->ticks && clock < w->tick[w->ticks - 1].clock)
		wrong(c, "the clock", clock, w->tick[w->ticks - 1].clock);
	if (w->ticks == w->room) {
		struct tick *t = realloc(w->tick, (w->room * 2 + 64) * sizeof(*t));

		if (!t)
			return perror("tutti_ps_check"), 1;
		w->tick = t;
		w->room = w->room * 2 + 64;
	}
	w->tick[w->ticks++] = (struct tick){clock, time};
	return 0;
}

static int learn(struct check *c, FILE *f)
{
	struct worker *w = &c->worker[c->me];
	uint64_t clock;
	char line[256];
	int other;

	while (fgets(line, sizeof(line), f)) {
		c->line++;
		if (!strchr(line, '\n')) {
			w->cut = c->line;
		} else if (sscanf(line, "tick %" SCNu64 " %" SCNu64, &clock, &w->last) == 2) {
			if (add_tick(c, clock, w->last))
				return 1;
		} else if (sscanf(line, "join %" SCNu64 " %" SCNu64, &clock, &w->last) == 2) {
			if (add_tick(c, clock, 0)) /* nothing before it is of this worker */
				return 1;
		} else if (sscanf(line, "resize %d %" SCNu64, &other, &w->last) == 2) {
			if (other < w->of)
				return bad_line(c, line);
			if (other > c->workers && more_workers(c, other))
				return 1;
			w = &c->worker[c->me];
			w->of = other;
		} else if (sscanf(line, "bye %" SCNu64, &w->left) == 1 ||
			   sscanf(line, "leave %" SCNu64, &w->left) == 1) {
			w->gone = *line == 'l';
			w->last = w->left;
		} else if (sscanf(line, "dead %d", &other) == 1 && other >= 0 &&
			   other < c->workers) {
			c->worker[other].dead = true;
		} else {
			sscanf(line, "read %*u %*u %*u %*u %*u %*u %*u %" SCNu64, &w->last);
		}
	}
	return 0;
}

/* Check that all traces are there and whole; the trace of a dead worker may be cut off. */
static int all_whole(struct check *c)
{
	int i;

	for (i = 0; i < c->workers; i++) {
		struct worker *w = &c->worker[i];

		if (!w->path) {
			fprintf(stderr, "tutti_ps_check: the trace of worker %d of %d is missing\n",
				i, c->workers);
			return 1;
		}
		if (w->of != c->workers && !w->dead && !w->gone) {
			fprintf(stderr,
				"tutti_ps_check: %s is of another run: of %d workers, not %d\n",
				w->path, w->of, c->workers);
			return 1;
		}
		if (w->cut && !w->dead) {
			fprintf(stderr, "tutti_ps_check: %s:%lu: the trace is cut off\n", w->path,
				w->cut);
			return 1;
		}
		if (w->dead && w->left == UINT64_MAX)
			w->left = w->last;
	}
	return 0;
}

/* ---- second: is every line true ---- */

/*
 * A read says that all updates of clocks before min were in it: so every worker had told min, or
 * left.
 */
static void check_promise(struct check *c, uint64_t min, uint64_t time)
{
	size_t lo, hi, mid;
	int i;

	for (i = 0; i < c->workers; i++) {
		struct worker *w = &c->worker[i];

		for (lo = 0, hi = w->ticks; lo < hi;) {
			mid = (lo + hi) / 2;
			if (w->tick[mid].clock < min)
				lo = mid + 1;
			else
				hi = mid;
		}
		if (min == 0 || (lo < w->ticks && (!c->times || w->tick[lo].time <= time)) ||
		    (w->left != UINT64_MAX && (!c->times || w->left <= time)))
			continue;
		c->wrong++;
		if (c->wrong <= 20)
			printf("%s:%lu: a clock of %" PRIu64
			       " is claimed, which worker %d had not told\n",
			       c->path, c->line, min, i);
	}
}

static uint64_t needed(const struct check *c, uint64_t clock)
{
	return c->staleness >= 0 && clock > (uint64_t)c->staleness ? clock - (uint64_t)c->staleness
								   : 0;
}

static int check_block(struct check *c, void **blocks, const struct block *key)
{
	struct block *b = malloc(sizeof(*b)), **found;

	if (!b)
		return perror("tutti_ps_check"), 1;
	*b = *key;
	found = tsearch(b, blocks, compare);
	if (!found)
		return perror("tutti_ps_check"), 1;
	if (*found == b)
		return 0;
	free(b);
	if (key->sequence < (*found)->sequence)
		wrong(c, "an older publication than before was read", key->sequence,
		      (*found)->sequence);
	(*found)->sequence = key->sequence;
	return 0;
}

/* A worker announces a clock, and holds this back. */
static int check_held(struct check *c, const char *line)
{
	uint64_t table, clock, flush, since, elements;
	double sum;

	if (sscanf(line, "held %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %lf",
		   &table, &clock, &flush, &since, &elements, &sum) != 6 ||
	    table >= TABLES)
		return bad_line(c, line);
	c->codecs = true;
	c->now_held[table] = sum;
	c->held = sum > c->held ? sum : c->held;
	if (flush && since + flush <= clock)
		wrong(c, "an update is held back for longer than flush allows; since clock", since,
		      clock - flush + 1);
	return 0;
}

/* A worker that leaves has flushed. */
static void check_nothing_held(struct check *c)
{
	int t;

	for (t = 0; t < TABLES; t++) {
		if (c->now_held[t] == 0)
			continue;
		c->wrong++;
		if (c->wrong <= 20)
			printf("%s:%lu: the worker leaves, and holds back %g of table %d\n",
			       c->path, c->line, c->now_held[t], t);
	}
}

static int check_line(struct check *c, const char *line, uint64_t *now, void **blocks)
{
	uint64_t v[9], clock, min;
	struct block b;

	if (sscanf(line,
		   "read %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64
		   " %" SCNu64 " %" SCNu64,
		   &v[0], &v[1], &v[2], &v[3], &v[4], &v[5], &v[6], &v[7]) == 8) {
		clock = v[3];
		min = v[4];
		c->reads++;
		c->ages += clock > min ? clock - min : 0;
		if (clock > min && clock - min > c->oldest)
			c->oldest = clock - min;
		if (min < needed(c, clock))
			wrong(c, "the min clock of a read", min, needed(c, clock));
		if (v[5] < v[6])
			wrong(c, "its own push is not in the publication read", v[5], v[6]);
		check_promise(c, min, v[7]);
		b = (struct block){v[0], v[1], v[2], v[5]};
		return check_block(c, blocks, &b);
	}
	if (sscanf(line, "clock %" SCNu64 " %" SCNu64, &clock, &min) == 2) {
		c->clocks++;
		if (min < needed(c, clock))
			wrong(c, "the min clock when a worker went on", min, needed(c, clock));
	} else if (sscanf(line, "tick %" SCNu64, &clock) == 1) {
		*now = clock;
	} else if (sscanf(line, "push %*u %*u %*u %" SCNu64, &clock) == 1) {
		c->pushes++;
		if (clock > *now) /* an earlier one, if it had to wait for room */
			wrong(c, "the clock when a push was made", *now, clock);
	} else if (!strncmp(line, "resize ", 7)) {
		tdestroy(*blocks, free); /* there are others now */
		*blocks = NULL;
	} else if (sscanf(line, "join %" SCNu64, &clock) == 1) {
		*now = clock;
	} else if (!strncmp(line, "held ", 5)) {
		return check_held(c, line);
	} else if (!strncmp(line, "bye ", 4)) {
		check_nothing_held(c);
	} else if (strncmp(line, "leave ", 6) && strncmp(line, "dead ", 5)) {
		return bad_line(c, line);
	}
	return 0;
}

static int prove(struct check *c, FILE *f, const char *path)
{
	const struct worker *w = c->worker;
	void *blocks = NULL;
	char line[256];
	uint64_t now = 0;
	int err = 0, t;

	while (w->path != path)
		w++;
	memset(c->now_held, 0, sizeof(c->now_held));
	while (!err && fgets(line, sizeof(line), f)) {
		c->line++;
		if (c->line > 2 && c->line != w->cut)
			err = check_line(c, line, &now, &blocks);
	}
	tdestroy(blocks, free);
	for (t = 0; t < TABLES && w->dead && !w->gone && w->left == w->last; t++)
		c->lost += c->now_held[t];
	return err;
}

static int each(struct check *c, char **paths, bool first)
{
	int err = 0;
	FILE *f;

	for (; *paths && !err; paths++) {
		c->path = *paths;
		c->line = 0;
		f = fopen(*paths, "r");
		if (!f) {
			fprintf(stderr, "tutti_ps_check: can't read %s: %s\n", *paths,
				strerror(errno));
			return 1;
		}
		if (first)
			err = read_head(c, f) || learn(c, f);
		else
			err = prove(c, f, *paths);
		fclose(f);
	}
	return err;
}

static int check_all(struct check *c, char **paths)
{
	if (each(c, paths, true) || all_whole(c) || each(c, paths, false))
		return 1;
	printf("%d workers, staleness %d: %" PRIu64 " reads, %" PRIu64 " pushes, %" PRIu64
	       " clocks; oldest read %" PRIu64 ", mean age %.2f\n",
	       c->workers, c->staleness, c->reads, c->pushes, c->clocks, c->oldest,
	       c->reads ? (double)c->ages / (double)c->reads : 0.0);
	if (c->codecs)
		printf("held back: at most %.6g of a table by a worker\n", c->held);
	if (c->lost > 0)
		printf("lost with dead workers: %.6g\n", c->lost);
	if (!c->wrong)
		printf("the bound holds\n");
	else
		printf("%" PRIu64 " violations\n", c->wrong);
	return c->wrong != 0;
}

static const struct option options[] = {{"hosts", no_argument, NULL, 'H'},
					{"help", no_argument, NULL, 'h'},
					{"version", no_argument, NULL, 'V'},
					{NULL, 0, NULL, 0}};

static const char usage[] =
	"usage: tutti_ps_check [--hosts] TRACE...\n"
	"  --hosts    the workers' hosts have different clocks: leave times out\n"
	"  --version  show the version\n"
	"TRACE: what all workers wrote under TUTTI_PS_TRACE.\n";

static int take(void *check, int option, char *value)
{
	(void)option, (void)value;
	((struct check *)check)->times = false;
	return 0;
}

int main(int argc, char **argv)
{
	static const struct cli cli = {"tutti_ps_check", usage, ":h", options, take, NULL};
	struct check c = {.times = true};
	int i, status = cli_options(&cli, argc, argv, &c);

	if (status)
		return cli_end_parsing(cli.prog, status);
	if (optind == argc) {
		fprintf(stderr, "tutti_ps_check: no trace was given; see tutti_ps_check --help\n");
		return CLI_WRONG_STATUS;
	}
	status = check_all(&c, argv + optind);
	for (i = 0; i < c.workers; i++)
		free(c.worker[i].tick);
	free(c.worker);
	return cli_flush(cli.prog) ? 1 : status;
}
