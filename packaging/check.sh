#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Builds the packages of debian/ from what make dist would pack, and tries them: lintian, then
# installed in an overlay of the file system, where debian/tests/hello runs.
only=$*
. "${TT_SRC:-.}/tests/sh.inc"
suite package
work=$TT_BUILD/package

test_build()
{
	cd "$work"/tutti-* || die "make package-check makes $work"
	rm -f ../*.deb ../*.changes
	DEB_BUILD_OPTIONS=parallel=$(nproc) dpkg-buildpackage -us -uc -b >"$work/build.log" 2>&1 ||
		die "$(tail -n 30 "$work/build.log")"
	for package in libtutti0 libtutti-dev tutti-bin tutti-doc python3-tutti; do
		ls "$work/${package}"_*.deb >/dev/null || die "no $package"
	done
	! dpkg-deb -c "$work"/tutti-bin_*.deb | grep -E 'bin/(train|hello|halo)' ||
		die "a demo is in bin"
	dpkg-deb -c "$work"/tutti-doc_*.deb | grep -q 'doc/tutti-doc/examples/hello.c' ||
		die "no examples"
}

test_lintian()
{
	lintian --allow-root --fail-on error "$work"/tutti_*.changes >"$tmp/lintian" 2>&1 ||
		die "$(cat "$tmp/lintian")"
	cat "$tmp/lintian" >"$work/lintian.log"
}

test_installed()
{
	[ "$(id -u)" = 0 ] && unshare -mpf true 2>/dev/null || skip "an overlay needs root"
	# shellcheck disable=SC2016
	TMP=$tmp WORK=$work timeout 200 unshare -mpf --kill-child --mount-proc sh -c '
		set -e
		mkdir "$TMP/root"
		mount -t tmpfs tmpfs "$TMP/root"
		cd "$TMP/root"
		mkdir upper work all
		mount -t overlay overlay all -o lowerdir=/,upperdir=upper,workdir=work
		mount -t tmpfs tmpfs all/tmp
		mount -t proc proc all/proc
		mount --rbind /dev all/dev
		mkdir all/tmp/deb
		cp "$WORK"/*.deb all/tmp/deb
		rm -f all/tmp/deb/*-dbgsym_*
		cp -r "$WORK"/tutti-*/debian/tests all/tmp/tests
		chroot all sh -c "dpkg -i /tmp/deb/*.deb && sh /tmp/tests/hello && cd / &&
			/usr/bin/python3 -c \"import tutti; print(tutti.__file__)\" && dpkg -P \
			libtutti-dev tutti-bin tutti-doc python3-tutti \
			libtutti0"' >"$tmp/out" 2>&1 ||
		die "$(tail -n 30 "$tmp/out")"
	grep -q '^/usr/lib/python3/dist-packages/tutti/' "$tmp/out" || die "$(cat "$tmp/out")"
	grep -q 'rank 3 of 4: the average is 1.5' "$tmp/out" || die "$(cat "$tmp/out")"
}

command -v dpkg-buildpackage >/dev/null && command -v dh >/dev/null ||
	skip_all "packages dpkg-dev and debhelper are missing"
run build test_build
if command -v lintian >/dev/null; then
	run lintian test_lintian
else
	run lintian skip "lintian is missing"
fi
run installed test_installed
finish
