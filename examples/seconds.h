/* SPDX-License-Identifier: BSD-3-Clause */
/* The time that programs measure and sleep. */
#ifndef SECONDS_H
#define SECONDS_H

double now(void); /* seconds since a fixed time */
void sleep_ms(double ms);

#endif
