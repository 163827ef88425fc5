# SPDX-License-Identifier: BSD-3-Clause
EXTRA_DIST += tests/vm/init.sh
dist_check_SCRIPTS += tests/vm/guest.sh tests/vm/inside.sh tests/vm/verbs.sh
TESTS += tests/vm/verbs.sh
