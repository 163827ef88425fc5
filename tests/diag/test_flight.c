/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The flight recorder from below: what readers see while it is written, whose memory it is, dumps
 * by signal while recorders come and go and on small stacks, and JSON that runs out of room.
 */
#include <fcntl.h>
#include <jansson.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <tutti/tutti.h>
#include <unistd.h>

#include "lib/base/clock.h"
#include "lib/observe/dump.h"
#include "lib/observe/json.h"
#include "tests/test.h"

static char dir[] = "/tmp/tutti-flight-XXXXXX";

static const char *prefix(void)
{
	static char text[64];

	snprintf(text, sizeof(text), "%s/d", dir);
	return text;
}

/* ---- JSON ---- */

static void nested(struct tt_json *j)
{
	int i, k;

	for (i = 0; i < 12; i++) {
		tt_json_open(j, i % 2 ? "array" : "object", i % 2 ? '[' : '{');
		for (k = 0; k < 3; k++)
			tt_json_i64(j, i % 2 ? NULL : (const char *[]){"a", "b", "c"}[k], -k);
		tt_json_str(j, i % 2 ? NULL : "text", "\"\\\n\xff");
		if (i % 4 == 3) { /* an element of the array, and its end */
			tt_json_close(j, ']');
			tt_json_close(j, '}');
		} else if (i % 4 == 1) {
			tt_json_close(j, ']');
		}
	}
	for (i = 0; i < 3; i++)
		tt_json_close(j, '}');
}

/* Members that do not fit are left out; the rest is an object. */
static void json_full(void)
{
	char buf[1024];
	struct tt_json j;
	size_t cap, full = 0;
	json_t *v;

	for (cap = 80; cap < sizeof(buf); cap++) {
		tt_json_begin(&j, buf, cap);
		tt_json_u64(&j, "first", 1);
		nested(&j);
		tt_json_end(&j);
		full += j.full;
		TT_REQUIRE(j.len <= cap);
		v = json_loadb(buf, j.len, 0, NULL);
		if (!json_is_object(v))
			printf("  %zu bytes: %.*s\n", cap, (int)j.len, buf);
		TT_REQUIRE(json_is_object(v) &&
			   json_integer_value(json_object_get(v, "first")) == 1);
		json_decref(v);
	}
	TT_CHECK(full > 100 && !j.full);
}

/* The time of an end may have been read for others, before this operation began. */
static void no_end_before_start(void)
{
	struct tt_flight_op op = {.peer = -1, .tag = -1};
	uint64_t early = tt_ticks(), n;
	struct tt_flight_rec r;
	struct tt_flight f;

	TT_REQUIRE(!tt_flight_open(&f, -1));
	n = tt_flight_begin(&f, &op, 0);
	tt_flight_end(&f, n, 0, early);
	TT_REQUIRE(tt_flight_read(&f, n, &r));
	TT_CHECK(r.start >= early && r.end == r.start);
	tt_flight_close(&f);
}

/* ---- reading while it is written ---- */

struct writer {
	struct tt_flight f;
	atomic_bool stop;
};

static void *write_records(void *arg)
{
	struct writer *w = arg;
	struct tt_flight_op op = {.peer = -1, .tag = -1};
	uint64_t n;

	while (!atomic_load(&w->stop)) {
		n = atomic_load(&w->f.head->last) + 1;
		op.comm = n;
		op.count = n * 3;
		op.of = (uint32_t)n;
		n = tt_flight_begin(&w->f, &op, 0);
		tt_flight_end(&w->f, n, 0, tt_ticks());
	}
	return NULL;
}

static void torn(void)
{
	uint64_t deadline = tt_deadline_ms(300), hang = tt_deadline_ms(30000);
	uint64_t last, read = 0, bad = 0;
	struct writer w = {.stop = false};
	struct tt_flight_rec r;
	pthread_t thread;

	TT_REQUIRE(!tt_flight_open(&w.f, -1));
	pthread_create(&thread, NULL, write_records, &w);
	/* the writer may come to run late */
	while (!tt_passed(deadline) || (read < 1000 && !tt_passed(hang))) {
		/* The one that is overwritten next. */
		last = atomic_load(&w.f.head->last);
		last = last > TT_FLIGHT_RECORDS ? last - TT_FLIGHT_RECORDS + 1 : last;
		if (!tt_flight_read(&w.f, last, &r))
			continue;
		read++;
		bad += r.comm != last || r.count != last * 3 || r.of != (uint32_t)last;
	}
	atomic_store(&w.stop, true);
	pthread_join(thread, NULL);
	printf("  %llu of %llu operations read, %llu torn\n", (unsigned long long)read,
	       (unsigned long long)atomic_load(&w.f.head->last), (unsigned long long)bad);
	TT_CHECK(read >= 1000 && bad == 0);
	tt_flight_close(&w.f);
}

/* ---- whose it is ---- */

static ino_t inode(int fd)
{
	struct stat st;

	return fstat(fd, &st) ? 0 : st.st_ino;
}

/* In a child: does the descriptor that it has inherited become its recorder? */
static bool child_takes(int fd)
{
	struct tt_flight f;
	int status;
	pid_t pid = fork();

	if (!pid) {
		if (tt_flight_open(&f, dup(fd)))
			_exit(2);
		_exit(inode(f.fd) == inode(fd) ? 0 : 1);
	}
	TT_CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) < 2);
	return !WEXITSTATUS(status);
}

static void inherited(void)
{
	struct tt_flight_op op = {.comm = 5};
	int fd = tt_flight_memfd();
	struct tt_flight f;

	TT_REQUIRE(fd >= 0);
	TT_CHECK(ftruncate(fd, 0) && ftruncate(fd, 1 << 20)); /* its reader must not lose it */
	TT_CHECK(child_takes(fd));			      /* no process has it */
	TT_CHECK(child_takes(fd));			      /* who had it has ended */
	TT_REQUIRE(!tt_flight_open(&f, dup(fd)));
	tt_flight_begin(&f, &op, 0);
	TT_CHECK(!child_takes(fd)); /* ours */
	TT_CHECK(f.head->pid == getpid() && atomic_load(&f.head->last) == 1 && f.rec[1].comm == 5);
	tt_flight_close(&f);
	close(fd);
}

static uint64_t operations(int fd)
{
	struct tt_flight f;
	uint64_t last;

	if (tt_flight_attach(&f, fd))
		return UINT64_MAX;
	last = atomic_load(&f.head->last);
	tt_flight_close(&f);
	return last;
}

static bool told(int fd)
{
	struct tt_flight f;
	bool all;

	if (tt_flight_attach(&f, fd))
		return false;
	all = atomic_load(&f.head->dumped) == atomic_load(&f.head->last) + 1;
	tt_flight_close(&f);
	return all;
}

static void calls(struct tutti_context *ctx, int n)
{
	float x = 1;

	while (n--)
		TT_CHECK(!tutti_allreduce(TUTTI_IN_PLACE, &x, 1, TUTTI_FLOAT32, TUTTI_SUM,
					  tutti_world(ctx)));
}

/* The launcher reads the first context's record, then that of the remaining context. */
static void handed_on(void)
{
	struct tutti_context *a, *b, *c;
	uint64_t of_a, of_b;
	int fd = tt_flight_memfd();
	char text[16];

	TT_REQUIRE(fd >= 0);
	snprintf(text, sizeof(text), "%d", fd);
	setenv("TUTTI_FLIGHT_FD", text, 1);
	TT_REQUIRE(!tutti_init(NULL, &a) && !tutti_init(NULL, &b));
	of_a = operations(fd);
	calls(b, 30);
	TT_CHECK(operations(fd) == of_a);
	calls(a, 3);
	TT_CHECK(operations(fd) == of_a + 3);
	TT_CHECK(!tutti_finalize(a));
	of_b = operations(fd);
	TT_CHECK(of_b == of_a + 30 && !told(fd));
	calls(b, 2);
	TT_CHECK(operations(fd) == of_b + 2);
	TT_CHECK(!tutti_finalize(b));
	TT_CHECK(told(fd)); /* nothing is left for the launcher to say */
	TT_REQUIRE(!tutti_init(NULL, &c));
	TT_CHECK(operations(fd) == of_a && !told(fd));
	TT_CHECK(!tutti_finalize(c));
	unsetenv("TUTTI_FLIGHT_FD");
	close(fd);
}

/* ---- dumps ---- */

/* Line `at` of the dump, from 0, and how many there are. */
static json_t *dump_line(int at, int *lines)
{
	char path[80], line[4096];
	json_t *wanted = NULL, *j;
	FILE *file;

	snprintf(path, sizeof(path), "%s.0", prefix());
	file = fopen(path, "r");
	*lines = 0;
	while (file && fgets(line, sizeof(line), file)) {
		j = json_loads(line, 0, NULL);
		if (!json_is_object(j)) {
			printf("  not JSON: %s", line);
			*lines = -1;
			break;
		}
		if ((*lines)++ == at)
			wanted = j;
		else
			json_decref(j);
	}
	if (file)
		fclose(file);
	unlink(path);
	return wanted;
}

/* A text that is too long is left out, and nothing else. */
static void long_text(void)
{
	struct tt_flight_comm *c;
	const int world[] = {0, 1};
	struct tt_flight f;
	json_t *line;
	int lines;

	TT_REQUIRE(!tt_flight_open(&f, -1));
	c = tt_flight_comm(&f, 7, 1, 0, 2, world);
	c->code = -TUTTI_EPEER;
	memset(c->text, 0xff, sizeof(c->text) - 1);
	c->nlate = 1;
	c->late[0] = 1;
	TT_CHECK(!tt_dump_file(prefix(), &f, "error", false));
	line = dump_line(1, &lines);
	TT_CHECK(lines == 2 && json_integer_value(json_object_get(line, "error")) == -TUTTI_EPEER);
	TT_CHECK(json_array_size(json_object_get(line, "late")) == 1 &&
		 !json_object_get(line, "error_text"));
	json_decref(line);
	tt_flight_close(&f);
}

/* A process that has gone mad may leave anything; the launcher must live. */
static void garbage(void)
{
	struct tt_flight f;
	json_t *head;
	int lines, i;

	TT_REQUIRE(!tt_flight_open(&f, -1));
	for (i = 0; i < 50; i++) {
		memset(f.head, '1' + i, sizeof(*f.head)); /* no string has an end */
		memset(f.rec, i, TT_FLIGHT_RECORDS * sizeof(*f.rec));
		f.head->rank = 0;
		f.head->ticks0 = f.head->real0 = 0;
		atomic_store(&f.head->last, 2000);
		atomic_store(&f.rec[2000 % TT_FLIGHT_RECORDS].number, 2000);
		TT_CHECK(!tt_dump_file(prefix(), &f, "garbage", false));
		head = dump_line(0, &lines);
		TT_REQUIRE(lines >= 2 &&
			   json_integer_value(json_object_get(head, "tutti_dump")) == 1);
		json_decref(head);
	}
	tt_flight_close(&f);
}

static void *send_signals(void *arg)
{
	atomic_bool *stop = arg;

	while (!atomic_load(stop)) {
		raise(SIGUSR2);
		usleep(50);
	}
	return NULL;
}

/* Until the handler has written the first recorder's file: the thread may come to run late. */
static void await_dump(void)
{
	uint64_t hang = tt_deadline_ms(30000);
	char path[80];

	snprintf(path, sizeof(path), "%s.0", prefix());
	while (access(path, F_OK) && !tt_passed(hang))
		usleep(1000);
}

/* Recorders come and go while a thread is in the handler again and again. */
static void by_signal(void)
{
	struct sigaction sa = {.sa_handler = SIG_IGN}, now;
	struct tt_flight keep, f;
	atomic_bool stop = false;
	pthread_t thread;
	json_t *head;
	int i, lines;

	TT_REQUIRE(!tt_flight_open(&keep, -1));
	tt_dump_arm(&keep, prefix(), SIGUSR2);
	pthread_create(&thread, NULL, send_signals, &stop);
	await_dump();
	for (i = 0; i < 300; i++) {
		if (tt_flight_open(&f, -1))
			break;
		f.head->rank = 1;
		tt_dump_arm(&f, prefix(), SIGUSR2);
		usleep((useconds_t)(i % 7) * 30);
		TT_CHECK(tt_dump_disarm(&f));
		tt_flight_close(&f);
	}
	atomic_store(&stop, true);
	pthread_join(thread, NULL);
	TT_CHECK(i == 300);
	head = dump_line(0, &lines);
	TT_REQUIRE(lines == 1);
	TT_CHECK(!strcmp(json_string_value(json_object_get(head, "reason")), "signal"));
	json_decref(head);
	/* A handler that the program has set since is its own. */
	sigaction(SIGUSR2, &sa, NULL);
	TT_CHECK(tt_dump_disarm(&keep));
	TT_CHECK(!sigaction(SIGUSR2, NULL, &now) && now.sa_handler == SIG_IGN);
	signal(SIGUSR2, SIG_DFL);
	tt_flight_close(&keep);
}

static void *raise_once(void *arg)
{
	(void)arg;
	raise(SIGUSR2);
	return NULL;
}

/* A signal takes whichever thread it finds. */
static void small_stack(void)
{
	pthread_attr_t attr;
	struct tt_flight f;
	pthread_t thread;
	json_t *head;
	int lines;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	TT_SKIP("sanitizers need more of a stack");
#endif
	TT_REQUIRE(!tt_flight_open(&f, -1));
	tt_dump_arm(&f, prefix(), SIGUSR2);
	pthread_attr_init(&attr);
	TT_CHECK(!pthread_attr_setstacksize(&attr, 16384));
	TT_REQUIRE(!pthread_create(&thread, &attr, raise_once, NULL));
	pthread_attr_destroy(&attr);
	pthread_join(thread, NULL);
	head = dump_line(0, &lines);
	TT_CHECK(lines == 1);
	json_decref(head);
	TT_CHECK(tt_dump_disarm(&f));
	tt_flight_close(&f);
}

int main(int argc, char **argv)
{
	static const struct tt_test tests[] = {{"json_full", json_full},
					       {"no_end_before_start", no_end_before_start},
					       {"torn", torn},
					       {"inherited", inherited},
					       {"handed_on", handed_on},
					       {"garbage", garbage},
					       {"long_text", long_text},
					       {"by_signal", by_signal},
					       {"small_stack", small_stack},
					       {NULL, NULL}};
	char path[80];
	int status;

	if (!mkdtemp(dir))
		return 1;
	status = tt_test_main("flight", tests, argc, argv);
	snprintf(path, sizeof(path), "%s.1", prefix());
	unlink(path);
	rmdir(dir);
	return status;
}
