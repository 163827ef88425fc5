# SPDX-License-Identifier: BSD-3-Clause
dist_check_SCRIPTS += tests/lint/lint.sh
TESTS += tests/lint/lint.sh
