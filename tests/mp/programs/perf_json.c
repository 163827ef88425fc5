/* SPDX-License-Identifier: BSD-3-Clause */
/* perf_json FILE ROWS: checks a file of tutti_perf --json: ROWS rows, none wrong. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
	json_t *root, *results, *wrong, *bounds;
	json_error_t error;
	size_t rows;

	if (argc != 3)
		return 2;
	root = json_load_file(argv[1], 0, &error);
	if (!root)
		return fprintf(stderr, "%s:%d: %s\n", argv[1], error.line, error.text), 1;
	results = json_object_get(root, "results");
	wrong = json_object_get(root, "wrong");
	bounds = json_object_get(root, "out_of_bounds");
	rows = json_array_size(results);
	printf("%zu rows\n", rows);
	if (!json_is_integer(wrong) || json_integer_value(wrong) || !json_is_integer(bounds) ||
	    json_integer_value(bounds) || rows != strtoul(argv[2], NULL, 10))
		return 1;
	json_decref(root);
	return 0;
}
