/* SPDX-License-Identifier: BSD-3-Clause */
/* The terminal of --watch. It is as before when this program ends or is suspended. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "tools/ras/watch.h"

#define CTRL_D 4

volatile sig_atomic_t ras_stop;
static volatile sig_atomic_t suspended;
static struct termios saved;

static void on_end(int signo)
{
	(void)signo;
	ras_stop = 1;
}

static void on_suspend(int signo)
{
	(void)signo;
	suspended = 1;
}

static void on_resize(int signo)
{
	(void)signo; /* ends the wait for keys, so that the table is drawn again */
}

static void catch_one(int signo, void (*handler)(int))
{
	struct sigaction action = {.sa_handler = handler};

	sigaction(signo, &action, NULL);
}

/* A background process must not change the terminal. */
static bool may_read_keys(void)
{
	return isatty(0) && tcgetpgrp(0) == getpgrp();
}

static void enter(struct terminal *t)
{
	struct termios raw;

	t->keys = may_read_keys() && !tcgetattr(0, &saved);
	if (t->keys) {
		raw = saved;
		raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
		raw.c_cc[VMIN] = 1;
		raw.c_cc[VTIME] = 0;
		tcsetattr(0, TCSANOW, &raw);
	}
	if (t->screen)
		printf("\033[?25l\033[2J"); /* no cursor, an empty screen */
}

static void leave(struct terminal *t)
{
	if (t->screen)
		printf("\033[?25h\n");
	fflush(stdout);
	if (t->keys)
		tcsetattr(0, TCSANOW, &saved);
}

static int number_of(const char *variable)
{
	const char *text = getenv(variable);
	long n = text ? strtol(text, NULL, 10) : 0;

	return n > 0 && n < 10000 ? (int)n : 0;
}

void terminal_size(struct terminal *t)
{
	struct winsize size;

	if (!t->screen)
		return;
	t->rows = number_of("LINES");
	t->columns = number_of("COLUMNS");
	if (!ioctl(1, TIOCGWINSZ, &size) && size.ws_row && size.ws_col) {
		t->rows = size.ws_row;
		t->columns = size.ws_col;
	}
	t->rows = t->rows ? t->rows : 24;
	t->columns = t->columns ? t->columns : 80;
}

void terminal_begin(struct terminal *t)
{
	const char *plain = getenv("NO_COLOR"), *term = getenv("TERM");

	*t = (struct terminal){.screen = isatty(1) && (!term || strcmp(term, "dumb"))};
	t->colours = t->screen && !(plain && *plain);
	catch_one(SIGINT, on_end);
	catch_one(SIGTERM, on_end);
	catch_one(SIGHUP, on_end);
	catch_one(SIGWINCH, on_resize);
	if (t->screen)
		catch_one(SIGTSTP, on_suspend);
	enter(t);
}

static void suspend(struct terminal *t)
{
	suspended = 0;
	leave(t);
	raise(SIGSTOP);
	enter(t);
}

/* Whether the user ends it. */
static bool read_key(struct terminal *t)
{
	char key;
	ssize_t n = read(0, &key, 1);

	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return false;
	if (n <= 0) {
		t->keys = false; /* the terminal is gone */
		return true;
	}
	return key == 'q' || key == 'Q' || key == CTRL_D;
}

bool terminal_wait(struct terminal *t, double until)
{
	struct pollfd p = {.fd = t->keys ? 0 : -1, .events = POLLIN};
	double left = until - seconds_now();
	int n;

	if (suspended) {
		suspend(t);
		return false;
	}
	n = left > 0 && !ras_stop ? poll(&p, 1, (int)(left * 1e3) + 1) : 0;
	return ras_stop || (n > 0 && read_key(t));
}

void terminal_end(struct terminal *t)
{
	leave(t);
}
