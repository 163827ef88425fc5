/* SPDX-License-Identifier: BSD-3-Clause */
/* A user's program, built against an installed libtutti_train: C11 and C++11 alike. */
#include <stdio.h>
#include <string.h>
#include <tutti/train.h>

int main(void)
{
	printf("%s\n", tutti_train_version());
	return strcmp(tutti_train_version(), tutti_version()) != 0;
}
