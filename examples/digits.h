/* SPDX-License-Identifier: BSD-3-Clause */
/* The handwritten digits of scikit-learn: 8x8 pixels of 0 to 16, and which digit it is. */
#ifndef DIGITS_H
#define DIGITS_H

#include <stdint.h>

#define DIGIT_PIXELS 64
#define DIGIT_CLASSES 10

struct digit {
	uint8_t pixels[DIGIT_PIXELS];
	uint8_t label;
};

/*
 * Read digits.csv or digits.csv.gz: 64 pixels and the label on each line. path NULL: search for
 * the file. Returns the number of digits, or -1 after printing the error; free *digits.
 */
int digits_load(const char *path, struct digit **digits);

#endif
