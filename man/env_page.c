/* SPDX-License-Identifier: BSD-3-Clause */
/* Build-time program: writes man page tutti_env(7) from the table of variables. */
#include <stdio.h>
#include <string.h>

#define TT_ENV_KINDS X(text) X(flag) X(count) X(size) X(time) X(choice)
enum kind {
#define X(kind) KIND_##kind,
	TT_ENV_KINDS
#undef X
};

struct variable {
	const char *name;
	enum kind kind;
	const char *def;
	long long lo, hi;
	const char *choices, *help;
};

static const struct variable table[] = {
#define TT_ENV(field, name, kind, def, lo, hi, help) {name, KIND_##kind, def, lo, hi, NULL, help},
#define TT_ENV_CHOICE(field, name, def, choices, help)                                             \
	{name, KIND_choice, def, 0, 0, choices, help},
#include "lib/base/env.def"
};

/* Text for troff: minus signs and backslashes escaped, no line that starts as a request. */
static void put(const char *s)
{
	if (*s == '.' || *s == '\'')
		fputs("\\&", stdout);
	for (; *s; s++) {
		if (*s == '\\')
			fputs("\\e", stdout);
		else if (*s == '-')
			fputs("\\-", stdout);
		else
			putchar(*s);
	}
}

static void put_range(const struct variable *v)
{
	switch (v->kind) {
	case KIND_text:
		fputs("Text", stdout);
		break;
	case KIND_flag:
		fputs("0 or 1", stdout);
		break;
	case KIND_choice:
		fputs("One of ", stdout);
		put(v->choices);
		break;
	case KIND_count:
		fputs("A number from ", stdout);
		break;
	case KIND_size:
		fputs("A size in bytes (suffixes K, M, G) from ", stdout);
		break;
	case KIND_time:
		fputs("A time in milliseconds (suffixes ms, s, m) from ", stdout);
		break;
	}
	if (v->kind == KIND_count || v->kind == KIND_size || v->kind == KIND_time) {
		if (v->lo < 0)
			printf("\\-%lld to %lld", -v->lo, v->hi);
		else
			printf("%lld to %lld", v->lo, v->hi);
	}
	if (*v->def) {
		fputs("; default ", stdout);
		put(v->def);
	}
	puts(".");
}

static const char head[] =
	".\\\" SPDX-License-Identifier: BSD-3-Clause\n"
	".\\\" Made from the library's own table of variables.\n"
	".TH TUTTI_ENV 7 2026-11-21 \"tutti 0.1\" \"tutti manual\"\n"
	".SH NAME\n"
	"tutti_env \\- environment variables of tutti\n"
	".SH DESCRIPTION\n"
	"These variables are read once, by\n"
	".BR tutti_init (3).\n"
	"A program can set each of them in code, as an option of\n"
	".IR \"struct tutti_config\" .\n"
	"Fields of that struct go before its options, and options before the\n"
	"environment.\n"
	"A value that is malformed or out of range fails\n"
	".BR tutti_init (3)\n"
	"with a text that names it; a variable that begins with\n"
	".I TUTTI_\n"
	"and is not listed here is warned about, with the nearest name.\n"
	".BR tutti_info (1)\n"
	"prints the current values and where they come from.\n"
	".PP\n"
	"Numbers are decimal, in variables as in the options of all programs:\n"
	".I 0x10\n"
	"is refused, and\n"
	".I 010\n"
	"is ten.\n"
	"A space or a sign + before them is refused.\n"
	"Sizes are bytes; they may end in K, M or G for powers of 1024, then in\n"
	"B, in upper or lower case.\n"
	"Numbers that need not be whole may have a point and a decimal exponent.\n"
	"Times are whole in variables; in options they may have a point.\n"
	".SH ENVIRONMENT\n";

int main(void)
{
	size_t i;

	fputs(head, stdout);
	for (i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		printf(".TP\n.B %s\n", table[i].name);
		put(table[i].help);
		puts(".");
		put_range(&table[i]);
	}
	puts(".SH SEE ALSO\n.BR tutti_info (1),\n.BR tutti_run (1),\n.BR tutti (7)");
	return fflush(stdout) || ferror(stdout);
}
