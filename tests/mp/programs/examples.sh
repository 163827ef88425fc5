#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The short examples do what they say.
. "${TT_SRC:-.}/tests/sh.inc"
suite examples

# example RANKS TRANSPORT PROGRAM TEXT
example()
{
	TUTTI_TRANSPORT=$2 timeout 60 ./tutti_run -n "$1" "./$3" >"$tmp/out" 2>&1 &&
		grep -q "$4" "$tmp/out" || { cat "$tmp/out"; exit 1; }
}

run hello example 3 shm hello 'the average is 1$'
run halo_shm example 4 shm halo 'heat 300.000 of 300.000'
run halo_alone example 1 shm halo 'heat 0.000 of 0.000'
finish
