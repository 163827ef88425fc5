# SPDX-License-Identifier: BSD-3-Clause
EXTRA_DIST += tests/install/program.c tests/install/train_program.c
dist_check_SCRIPTS += tests/install/install.sh
TESTS += tests/install/install.sh packaging/abi.sh
