# SPDX-License-Identifier: BSD-3-Clause
dist_check_SCRIPTS += tests/mp/programs/run.sh tests/mp/programs/fake_ssh.sh
TESTS += tests/mp/programs/run.sh
