/* SPDX-License-Identifier: BSD-3-Clause */
/* Options of train_digits and train_elastic; a misspelt one is answered with the nearest. */
#include "examples/train_options.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tutti/tutti.h>

#include "examples/arguments.h"

/* clang-format off */
static const struct option all_options[] = {
	{"kill", required_argument, NULL, 'k'},
	{"wait", required_argument, NULL, 'w'},
	{"epochs", required_argument, NULL, 'e'},
	{"batch", required_argument, NULL, 'b'},
	{"hidden", required_argument, NULL, 'H'},
	{"lr", required_argument, NULL, 'l'},
	{"momentum", required_argument, NULL, 'm'},
	{"seed", required_argument, NULL, 's'},
	{"data", required_argument, NULL, 'd'},
	{"csv", required_argument, NULL, 'c'},
	{"codec", required_argument, NULL, 'C'},
	{"no-feedback", no_argument, NULL, 'F'},
	{"advise", no_argument, NULL, 'A'},
	{"power-sgd", required_argument, NULL, 'P'},
	{"quiet", no_argument, NULL, 'q'},
	{"help", no_argument, NULL, 'h'},
	{"version", no_argument, NULL, 'V'},
	{NULL, 0, NULL, 0},
};
/* clang-format on */

static const struct option *options; /* those of the program */

const struct train_program train_digits_program = {
	.name = "train_digits",
	.common = 2,
	.fixed = 1,
	.help = "usage: tutti_run -n RANKS train_digits [OPTION]...\n"
		"Train a two-hidden-layer perceptron on 1,797 handwritten digits, "
		"data-parallel.\n\n"
		"  --advise        train without the codec first, and tell whether it pays\n"
		"  --power-sgd R   gradients travel as approximations of rank R "
		"(tutti_power_sgd_create(3))\n"};

const struct train_program train_elastic_program = {
	.name = "train_elastic",
	.help = "usage: tutti_run -n RANKS --replace N train_elastic [OPTION]...\n"
		"train_digits, whose ranks may be killed at any moment, and others join.\n\n"
		"  --kill R:S,...  rank R ends itself by SIGKILL before step S\n"
		"  --wait MS       how long new ranks are waited for at the end of an epoch "
		"(default 5000)\n"};

static const char help[] =
	"  --epochs N      passes over the training set (default 25)\n"
	"  --batch N       samples of a step, over all ranks (default 64)\n"
	"  --hidden N      width of each hidden layer (default 128)\n"
	"  --lr RATE       learning rate (default 0.04)\n"
	"  --momentum M    momentum (default 0.9)\n"
	"  --seed N        of the split, the weights and the order (default 42)\n"
	"  --data FILE     digits.csv or digits.csv.gz (default: $DIGITS_CSV, else where\n"
	"                  quickstart.sh or make install put it)\n"
	"  --csv FILE      write epoch,loss,accuracy there\n"
	"  --codec NAME    gradients travel encoded, with feedback: int8, onebit, ...\n"
	"                  (tutti_codec(7); none: in float32; default: in float64)\n"
	"  --no-feedback   drop what the codec leaves out\n"
	"  -q, --quiet     print the last epoch only\n"
	"  -h, --help      show this\n"
	"  -V, --version   show the version\n";

/* Levenshtein distance of short words. */
static int distance(const char *a, const char *b)
{
	int row[32], la = (int)strlen(a), lb = (int)strlen(b), i, j, diagonal, above, best;

	if (la > 31 || lb > 31)
		return 32;
	for (j = 0; j <= lb; j++)
		row[j] = j;
	for (i = 1; i <= la; i++) {
		diagonal = row[0];
		row[0] = i;
		for (j = 1; j <= lb; j++) {
			above = row[j];
			best = diagonal + (a[i - 1] != b[j - 1]);
			if (above + 1 < best)
				best = above + 1;
			if (row[j - 1] + 1 < best)
				best = row[j - 1] + 1;
			row[j] = best;
			diagonal = above;
		}
	}
	return row[lb];
}

static void unknown(const char *word, char *message, int size)
{
	const char *nearest = NULL;
	int i, d, best = 4;
	char name[32];

	snprintf(name, sizeof(name), "%.*s", (int)strcspn(word + 2, "="), word + 2);
	for (i = 0; options[i].name; i++) {
		d = distance(name, options[i].name);
		if (d < best && d < (int)strlen(options[i].name)) {
			best = d;
			nearest = options[i].name;
		}
	}
	if (nearest)
		snprintf(message, (size_t)size, "unknown option '--%s'; did you mean '--%s'?", name,
			 nearest);
	else
		snprintf(message, (size_t)size, "unknown option '--%s'", name);
}

#define RANGE 64 /* room for "it is from ... to ..." */

/* The next three: 0, or -1 with the values that the option can have in range. */
static int to_int(const char *text, int least, int most, int *number, char *range)
{
	snprintf(range, RANGE, "it is a whole number from %d to %d", least, most);
	return parse_integer(text, least, most, number);
}

static int to_double(const char *text, double most, double *number, char *range)
{
	snprintf(range, RANGE, "it is a number from 0 to %g", most);
	return parse_real(text, 0, most, number);
}

static int to_seed(const char *text, uint64_t *seed, char *range)
{
	snprintf(range, RANGE, "it is a whole number from 0 to %llu",
		 (unsigned long long)UINT64_MAX);
	return parse_seed(text, seed);
}

static int take(struct train_options *opt, int option, char *range)
{
	switch (option) {
	case 'e':
		return to_int(optarg, 1, 1000000, &opt->epochs, range);
	case 'b':
		return to_int(optarg, 1, 1000000, &opt->batch, range);
	case 'H':
		return to_int(optarg, 1, 4096, &opt->hidden, range);
	case 'l':
		return to_double(optarg, 100, &opt->rate, range);
	case 'm':
		return to_double(optarg, 1, &opt->momentum, range);
	case 's':
		return to_seed(optarg, &opt->seed, range);
	case 'd':
		opt->data = optarg;
		return 0;
	case 'k':
		opt->kill = optarg;
		return 0;
	case 'w':
		return to_int(optarg, 1, 3600000, &opt->wait_ms, range);
	case 'c':
		opt->csv = optarg;
		return 0;
	case 'C':
		opt->coding.codec = optarg;
		return 0;
	case 'F':
		opt->coding.no_feedback = 1;
		return 0;
	case 'A':
		opt->advise = 1;
		return 0;
	case 'P':
		return to_int(optarg, 1, TUTTI_POWER_SGD_RANK_MAX, &opt->coding.power_sgd, range);
	default:
		opt->quiet = 1;
		return 0;
	}
}

enum parsed { RUN, HELP, VERSION, WRONG };

static enum parsed parse(struct train_options *opt, int argc, char **argv, char *message, int size)
{
	int option, index = 0;
	char range[RANGE];

	*opt = (struct train_options){.epochs = 25,
				      .batch = 64,
				      .wait_ms = 5000,
				      .hidden = 128,
				      .rate = 0.04,
				      .momentum = 0.9,
				      .seed = 42};
	opterr = 0;
	while ((option = getopt_long(argc, argv, ":qhV", options, &index)) != -1) {
		if (option == 'h')
			return HELP;
		if (option == 'V')
			return VERSION;
		if (option == ':')
			snprintf(message, (size_t)size, "option '%s' needs a value",
				 argv[optind - 1]);
		else if (option == '?' && !strncmp(argv[optind - 1], "--", 2))
			unknown(argv[optind - 1], message, size);
		else if (option == '?')
			snprintf(message, (size_t)size, "unknown option '-%c'", optopt);
		else if (take(opt, option, range))
			snprintf(message, (size_t)size, "--%s cannot be '%s': %s",
				 options[index].name, optarg, range);
		else
			continue;
		return WRONG;
	}
	if (optind == argc)
		return RUN;
	snprintf(message, (size_t)size, "'%s' is too much", argv[optind]);
	return WRONG;
}

/* Before tutti_init the launcher's variables give the rank; only one rank prints the error. */
static int first_rank(void)
{
	const char *rank = getenv("TUTTI_RANK");

	if (!rank)
		rank = getenv("RANK");
	return !rank || !strcmp(rank, "0");
}

/* Options that do not fit together. */
static int check(const struct train_options *opt, const struct train_program *program,
		 char *message, int size)
{
	const struct coding *coding = &opt->coding;

	if ((opt->advise || coding->power_sgd) && !program->fixed)
		return snprintf(message, (size_t)size, "there is no --%s here: ranks come and go",
				opt->advise ? "advise" : "power-sgd");
	if (coding->power_sgd && coding->codec)
		return snprintf(message, (size_t)size, "--codec does not go with --power-sgd");
	if (coding->no_feedback && !coding->codec)
		return snprintf(message, (size_t)size, "--no-feedback needs --codec");
	if (opt->advise && !coding->codec && !coding->power_sgd)
		return snprintf(message, (size_t)size, "--advise needs --codec or --power-sgd");
	return 0;
}

int train_options(struct train_options *opt, const struct train_program *program, int argc,
		  char **argv)
{
	char message[256];
	enum parsed parsed;

	options = all_options + program->common;
	parsed = parse(opt, argc, argv, message, sizeof(message));
	if (parsed == RUN && check(opt, program, message, sizeof(message)))
		parsed = WRONG;
	if (parsed != RUN && !first_rank())
		return parsed == WRONG ? -1 : 1;
	if (parsed == WRONG)
		fprintf(stderr, "%s: %s\nTry '%s --help'.\n", program->name, message,
			program->name);
	else if (parsed == HELP)
		printf("%s%s", program->help, help);
	else if (parsed == VERSION)
		printf("%s %s\n", program->name, tutti_version());
	if (parsed == RUN)
		return 0;
	return train_flush(program) || parsed == WRONG ? -1 : 1;
}

int train_flush(const struct train_program *program)
{
	if (!fflush(stdout) && !ferror(stdout))
		return 0;
	fprintf(stderr, "%s: cannot write to standard output\n", program->name);
	return -1;
}
