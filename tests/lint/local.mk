# SPDX-License-Identifier: BSD-3-Clause
dist_check_SCRIPTS += tests/lint/lint.sh tests/lint/language.sh tests/lint/man_examples.sh
TESTS += tests/lint/lint.sh tests/lint/language.sh tests/lint/man_examples.sh
EXTRA_DIST += tests/lint/terms
