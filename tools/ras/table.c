/* SPDX-License-Identifier: BSD-3-Clause */
/* The picture of --watch: a summary, the waits, and a line for each rank. */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tools/ras/watch.h"

#define LINE 640
#define WAITS_MAX 100 /* without a screen */

enum colour { PLAIN, BOLD, RED, YELLOW };

static const char *const mood_names[MOODS] = {"stopped", "gone",    "silent",  "failed",
					      "late",	 "waiting", "running", "?"};
static const enum colour mood_colours[MOODS] = {
	[STOPPED] = RED, [GONE] = RED, [SILENT] = RED, [FAILED] = RED, [LATE] = YELLOW};

struct page {
	const struct terminal *t;
	int lines; /* so far */
};

static int room(const struct page *p)
{
	return p->t->rows ? p->t->rows - p->lines : 1 << 30;
}

/* Cut at the right; with a screen, the rest of the line is cleared. */
static void put_line(struct page *p, enum colour colour, const char *text)
{
	static const char *const start[] = {"", "\033[1m", "\033[31m", "\033[33m"};
	int width = p->t->columns ? p->t->columns : LINE;

	if (room(p) <= 0)
		return;
	if (p->t->screen && p->lines)
		printf("\r\n");
	p->lines++;
	printf("%s%.*s%s", p->t->colours ? start[colour] : "", width, text,
	       p->t->colours && colour ? "\033[0m" : "");
	printf(p->t->screen ? (int)strlen(text) < width ? "\033[K" : "" : "\n");
}

static void line(struct page *p, enum colour colour, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
static void line(struct page *p, enum colour colour, const char *fmt, ...)
{
	char text[LINE];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	put_line(p, colour, text);
}

/* "0-3,7"; what does not fit is "..". Returns buf. */
static const char *list_text(const int *rank, int n, char *buf, size_t size)
{
	int i, k;
	size_t len;

	for (*buf = 0, i = 0; i < n; i = k) {
		for (k = i + 1; k < n && rank[k] == rank[k - 1] + 1; k++)
			;
		len = strlen(buf);
		if (len + 26 > size) {
			snprintf(buf + len, size - len, ",..");
			break;
		}
		snprintf(buf + len, size - len, k - i > 1 ? "%s%d-%d" : "%s%d", i ? "," : "",
			 rank[i], rank[k - 1]);
	}
	return buf;
}

/* "12.3M", in powers of 1000; "-": not known. */
static const char *rate_text(double rate, char buf[16])
{
	static const char unit[] = " kMGTP";
	int i = 0;

	for (; rate >= 999.5 && i < 5; i++)
		rate /= 1000;
	if (rate < 0)
		snprintf(buf, 16, "-");
	else if (!i)
		snprintf(buf, 16, "%.0f", rate);
	else
		snprintf(buf, 16, rate < 99.95 ? "%.1f%c" : "%.0f%c", rate, unit[i]);
	return buf;
}

/* ---- summary ---- */

static int count_hosts(const struct view *v)
{
	int r, q, n = 0;

	for (r = 0; r < v->nranks && r < 4096; r++) {
		for (q = 0; q < r && strcmp(view_host(v, q), view_host(v, r)); q++)
			;
		n += q == r && *view_host(v, r);
	}
	return n;
}

static void put_head(struct page *p, const struct view *v)
{
	time_t now = time(NULL);
	int hosts = count_hosts(v);
	char clock[16] = "";
	struct tm tm;

	if (localtime_r(&now, &tm))
		strftime(clock, sizeof(clock), "%H:%M:%S", &tm);
	line(p, BOLD, "%s  job %s: %d ranks on %d host%s, every %g s%s", clock, v->job, v->nranks,
	     hosts, hosts == 1 ? "" : "s", v->w->interval, p->t->keys ? "; q ends" : "");
}

/* "2 running, 1 waiting; stopped: rank 2" */
static void put_summary(struct page *p, const struct view *v)
{
	int *rank = calloc((size_t)v->nranks, sizeof(*rank)), n, r;
	char text[LINE] = "", bad[LINE] = "", buf[120];
	enum colour colour = PLAIN;
	enum mood m;

	for (m = 0; rank && m < MOODS; m++) {
		for (r = n = 0; r < v->nranks; r++)
			if (v->seen[r].mood == m)
				rank[n++] = r;
		if (!n)
			continue;
		if (m <= LATE) {
			snprintf(bad + strlen(bad), sizeof(bad) - strlen(bad), "%s%s: rank%s %s",
				 *bad ? "; " : "", mood_names[m], n > 1 ? "s" : "",
				 list_text(rank, n, buf, sizeof(buf)));
			colour = colour == RED ? RED : mood_colours[m];
		} else {
			snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%d %s",
				 *text ? ", " : "", n, m == UNKNOWN ? "unknown" : mood_names[m]);
		}
	}
	free(rank);
	line(p, colour, "%s%s%s", bad, *bad && *text ? "; " : "", text);
}

/* ---- waits ---- */

static void put_wait(struct page *p, const struct view *v, const struct wait *w)
{
	char who[40], whom[60], how[24] = "";
	const struct seen *s;

	list_text(w->rank, w->nranks, who, sizeof(who));
	list_text(w->target, w->ntargets, whom, sizeof(whom));
	s = w->ntargets && w->target[0] >= 0 && w->target[0] < v->nranks ? &v->seen[w->target[0]]
									 : NULL;
	if (s && s->mood < LATE)
		snprintf(how, sizeof(how), " (%s)", mood_names[s->mood]);
	snprintf(whom + strlen(whom), sizeof(whom) - strlen(whom), "%s", how);
	line(p, s ? mood_colours[s->mood] : PLAIN, "%8.1f s  %-14s %-16s %s, %s", w->since, who,
	     w->ntargets ? whom : "-", w->call, w->comm);
}

static void put_waits(struct page *p, const struct view *v)
{
	int most = p->t->rows ? (p->t->rows - 4) / 2 : WAITS_MAX, i;

	if (!v->nwaits || most < 1)
		return;
	line(p, PLAIN, "%s", "");
	line(p, BOLD, "%10s  %-14s %-16s %s", "FOR", "RANKS", "WAIT FOR", "IN");
	for (i = 0; i < v->nwaits && i < most; i++)
		put_wait(p, v, &v->wait[i]);
	if (i < v->nwaits)
		line(p, PLAIN, "%10s  and %d more", "", v->nwaits - i);
}

/* ---- ranks ---- */

static void put_rank(struct page *p, const struct view *v, int r)
{
	const struct seen *s = &v->seen[r];
	char rate[4][16], state[32], pid[16] = "-";
	double read = view_rate(s, "got_bytes"), pulled = view_rate(s, "pulled_bytes");

	snprintf(state, sizeof(state), "%s", mood_names[s->mood]);
	if ((s->mood == SILENT || s->mood == STOPPED) && s->answered > 0)
		snprintf(state + strlen(state), sizeof(state) - strlen(state), " %.0f s",
			 v->looked - s->answered);
	if (s->pid)
		snprintf(pid, sizeof(pid), "%d", s->pid);
	line(p, mood_colours[s->mood], "%5d  %-14s %8s  %-13s %7s %7s %7s %7s", r,
	     *view_host(v, r) ? view_host(v, r) : "-", pid, state,
	     rate_text(view_rate(s, "operations"), rate[0]),
	     rate_text(view_rate(s, "put_bytes"), rate[1]),
	     rate_text(read < 0 ? read : read + pulled, rate[2]),
	     rate_text(view_rate(s, "copied_bytes"), rate[3]));
}

/* If not all ranks fit: the worst ones. */
static void put_ranks(struct page *p, const struct view *v)
{
	int shown = 0, r, last;
	bool all;
	enum mood m;

	line(p, PLAIN, "%s", "");
	line(p, BOLD, "%5s  %-14s %8s  %-13s %7s %7s %7s %7s", "RANK", "HOST", "PID", "STATE",
	     "CALLS/S", "PUT B/S", "READ", "COPIED");
	all = v->nranks <= room(p);
	last = all ? 0 : 1; /* for the number of those that are left out */
	for (r = 0; all && r < v->nranks; r++)
		put_rank(p, v, r);
	for (m = 0; !all && m < MOODS; m++)
		for (r = 0; r < v->nranks && room(p) > last; r++)
			if (v->seen[r].mood == m) {
				put_rank(p, v, r);
				shown++;
			}
	if (!all)
		line(p, PLAIN, "%5s  and %d more ranks", "", v->nranks - shown);
}

void table_show(const struct view *v, const struct terminal *t)
{
	struct page p = {.t = t};

	if (t->screen)
		printf("\033[H");
	put_head(&p, v);
	put_summary(&p, v);
	put_waits(&p, v);
	put_ranks(&p, v);
	printf(t->screen ? "\033[J" : "\n");
	fflush(stdout);
}
