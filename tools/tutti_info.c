/* SPDX-License-Identifier: BSD-3-Clause */
/* tutti_info: what the library can use on this machine and how it is configured. */
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tutti/info.h>

#include "tools/cli.h"

#define PROG "tutti_info"

static const struct option options[] = {
	{"json", no_argument, NULL, 'j'}, {"version", no_argument, NULL, 'V'},
	{"help", no_argument, NULL, 'h'}, {0}};

static const char usage[] =
	"usage: tutti_info [--json]\n"
	"Print the version, the transports with their devices and why each is usable or not, what counts\n"
	"as the same host, and every TUTTI_ variable with its default, range, value and source.\n"
	"\n"
	"      --json     the same as a JSON object: section, name, key, value\n"
	"      --version  print the version\n"
	"  -h, --help     print this\n"
	"See tutti_info(1).\n";

/* The text printed so far, to know where a section or a thing begins. */
struct place {
	char section[32], name[160];
};

static void print_fact(const char *section, const char *name, const char *key, const char *value,
		       void *arg)
{
	struct place *at = arg;
	bool single = !strcmp(key, "value") && strcmp(section, "variable") != 0;

	if (strcmp(at->section, section)) {
		printf("%s%s\n", at->section[0] ? "\n" : "", section);
		at->name[0] = 0;
	}
	if (single)
		printf("  %-20s %s\n", name, value);
	else if (strcmp(at->name, name))
		printf("  %s\n", name);
	if (!single)
		printf("      %-8s %s\n", key, *value ? value : "(none)");
	snprintf(at->section, sizeof(at->section), "%s", section);
	snprintf(at->name, sizeof(at->name), "%s", name);
}

static json_t *child(json_t *parent, const char *name)
{
	json_t *o = json_object_get(parent, name);

	if (!o) {
		o = json_object();
		json_object_set_new(parent, name, o);
	}
	return o;
}

static void add_fact(const char *section, const char *name, const char *key, const char *value,
		     void *arg)
{
	json_t *o = child(child(arg, section), name);

	json_object_set_new(o, key, json_string(value));
}

static int print_json(void)
{
	json_t *root = json_object();
	int err = root ? tutti_describe(add_fact, root) : -1;

	if (!err) {
		err = json_dumpf(root, stdout, JSON_INDENT(2));
		putchar('\n');
	}
	json_decref(root);
	return err;
}

static int take(void *json, int option, char *value)
{
	(void)option, (void)value;
	*(bool *)json = true;
	return 0;
}

int main(int argc, char **argv)
{
	static const struct cli cli = {PROG, usage, ":h", options, take};
	struct place at = {.section = ""};
	bool json = false;
	int err = cli_options(&cli, argc, argv, &json);

	if (err)
		return err < 0;
	if (optind < argc) {
		fprintf(stderr, PROG ": unexpected argument %s; " PROG " --help\n", argv[optind]);
		return 1;
	}
	err = json ? print_json() : tutti_describe(print_fact, &at);
	if (!err && (fflush(stdout) || ferror(stdout)))
		err = -1;
	if (err)
		fprintf(stderr, PROG ": cannot describe this machine: %s\n", tutti_strerror(err));
	return err ? 1 : 0;
}
