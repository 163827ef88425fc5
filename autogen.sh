#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Make configure out of configure.ac; needs autoconf, automake, libtool, pkg-config.
set -e
cd "$(dirname "$0")"
mkdir -p m4 config
exec autoreconf --install --force
