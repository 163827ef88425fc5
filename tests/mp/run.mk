# SPDX-License-Identifier: BSD-3-Clause
dist_check_SCRIPTS += tests/mp/run.sh tests/mp/fake_ssh.sh
TESTS += tests/mp/run.sh
