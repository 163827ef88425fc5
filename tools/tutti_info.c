/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tutti_info shows what the library can use on this machine and how it is configured.
 * info/summary.c prints the summary.
 */
#include <errno.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tutti/info.h>

#include "tools/cli.h"
#include "tools/info/info.h"

#define PROG "tutti_info"

static const struct option options[] = {
	{"config", no_argument, NULL, 'c'}, {"devices", no_argument, NULL, 'd'},
	{"json", no_argument, NULL, 'j'},   {"version", no_argument, NULL, 'V'},
	{"help", no_argument, NULL, 'h'},   {0}};

static const char usage[] =
	"usage: tutti_info [--devices] [--config] | [--json]\n"
	"Print which transports and devices are usable here and why, which are used, and which\n"
	"TUTTI_ variables are set.\n"
	"\n"
	"      --devices  all that is known of versions, transports, devices, this host, codecs\n"
	"      --config   every TUTTI_ variable with its default, range, value and source\n"
	"      --json     everything as a JSON object: section, name, key, value\n"
	"      --version  print the version\n"
	"  -h, --help     print this\n"
	"See tutti_info(1).\n";

struct wish {
	bool config, devices, json;
};

/* The text printed so far, to know where a section or a thing begins. */
struct place {
	char section[32], name[160];
};

static void print_fact(struct place *at, const char *section, const char *name, const char *key,
		       const char *value)
{
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

static void print_sections(const struct wish *w, const struct facts *facts)
{
	struct place at = {.section = ""};
	const struct fact *f;
	int i;

	for (i = 0; i < facts->n; i++) {
		f = &facts->fact[i];
		if (strcmp(f->section, "variable") ? w->devices : w->config)
			print_fact(&at, f->section, f->name, f->key, f->value);
	}
}

static void add_fact(const char *section, const char *name, const char *key, const char *value,
		     void *arg)
{
	struct facts *facts = arg;
	struct fact *more, f;

	more = facts->n % 64 ? facts->fact
			     : realloc(facts->fact, ((size_t)facts->n + 64) * sizeof(*more));
	if (!more) {
		facts->failed = true;
		return;
	}
	facts->fact = more;
	f = (struct fact){strdup(section), strdup(name), strdup(key), strdup(value)};
	facts->failed |= !f.section || !f.name || !f.key || !f.value;
	more[facts->n++] = f;
}

static void free_facts(struct facts *facts)
{
	int i;

	for (i = 0; i < facts->n; i++) {
		free(facts->fact[i].section);
		free(facts->fact[i].name);
		free(facts->fact[i].key);
		free(facts->fact[i].value);
	}
	free(facts->fact);
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

static void print_json(const struct facts *facts)
{
	json_t *root = json_object();
	const struct fact *f;
	int i;

	for (i = 0; i < facts->n; i++) {
		f = &facts->fact[i];
		json_object_set_new(child(child(root, f->section), f->name), f->key,
				    json_string(f->value));
	}
	json_dumpf(root, stdout, JSON_INDENT(2));
	putchar('\n');
	json_decref(root);
}

static int take(void *into, int option, char *value)
{
	struct wish *w = into;

	(void)value;
	w->config |= option == 'c';
	w->devices |= option == 'd';
	w->json |= option == 'j';
	return 0;
}

static void print_all(const struct wish *w, const struct facts *facts)
{
	if (w->json)
		print_json(facts);
	else if (w->config || w->devices)
		print_sections(w, facts);
	else
		print_summary(facts);
}

int main(int argc, char **argv)
{
	static const struct cli cli = {PROG, usage, ":h", options, take, NULL};
	struct facts facts = {0};
	struct wish w = {0};
	int err = cli_options(&cli, argc, argv, &w);

	if (err)
		return cli_end_parsing(PROG, err);
	if (optind < argc) {
		fprintf(stderr, PROG ": unexpected argument %s; " PROG " --help\n", argv[optind]);
		return CLI_WRONG_STATUS;
	}
	err = tutti_describe(add_fact, &facts);
	if (!err && facts.failed)
		err = -ENOMEM;
	if (err)
		fprintf(stderr, PROG ": cannot describe this machine: %s\n", tutti_strerror(err));
	else
		print_all(&w, &facts);
	free_facts(&facts);
	return cli_end(PROG, err);
}
