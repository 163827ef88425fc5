#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Stands in for ssh: notes the host it was asked for and runs the command here.
echo "$$ $*" >>"$TUTTI_TEST_SSH_LOG"
host=$1
shift
case $host in
refused) exit 255 ;;
noisy) echo "Welcome to this host" ;;
esac
SSH_CONNECTION="127.0.0.1 1111 127.0.0.1 22"
TUTTI_TEST_HOST=$host
export SSH_CONNECTION TUTTI_TEST_HOST
cd / || exit 1
exec sh -c "$*"
