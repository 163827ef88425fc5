#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Builds the packages of debian/ from what make dist would pack, and tries them: lintian; installed
# in an overlay of the file system, with the tests of debian/tests; installed in a root that has
# nothing but what they depend on, whose files packaging/root.sh copies: no package is fetched.
# Where buildah and debootstrap are installed, the Containerfile is built, too, which fetches some.
only=$*
. "${TT_SRC:-.}/tests/sh.inc"
suite package
work=$TT_BUILD/package
packages="libtutti0 libtutti-dev tutti-bin tutti-doc python3-tutti"
packages="$packages python3-tutti-torch tutti-openmpi tutti-mpich"

# contains PACKAGE PATTERN...: each is in the name of a file of it
contains()
{
	dpkg-deb -c "$work/$1"_*.deb >"$tmp/list" || die "no $1"
	package=$1
	shift
	for pattern in "$@"; do
		grep -qE "$pattern" "$tmp/list" || die "no $pattern in $package: $(cat "$tmp/list")"
	done
}

test_build()
{
	cd "$work"/tutti-* || die "make package-check makes $work"
	rm -f ../*.deb ../*.changes
	DEB_BUILD_OPTIONS=parallel=$(nproc) dpkg-buildpackage -us -uc -b >"$work/build.log" 2>&1 ||
		die "$(tail -n 30 "$work/build.log")"
	grep -q '^# colls: [1-9][0-9]* passed, 0 failed' "$work/build.log" &&
		grep -q '^rank 3 of 4: the average is 1.5$' "$work/build.log" ||
		die "the build did not run its check"
	lib='usr/lib/[a-z0-9_-]+'
	contains libtutti0 "$lib/libtutti.so.0 -> " "$lib/libtutti_train.so.0 -> "
	contains libtutti-dev "usr/include/tutti/tutti.h" "$lib/libtutti.so -> " \
		"$lib/pkgconfig/tutti_train.pc" "$lib/cmake/tutti/tuttiConfig.cmake" \
		"man3/tutti_allreduce.3.gz"
	contains tutti-bin usr/bin/tutti_run "man1/tutti_run.1.gz" "man7/tutti_mpi.7.gz"
	! grep -E 'bin/(train|hello|halo)' "$tmp/list" || die "a demo is in bin"
	contains tutti-doc doc/tutti-doc/examples/hello.c doc/tutti-doc/README.md
	contains python3-tutti dist-packages/tutti/__init__.py dist-packages/tutti/py.typed
	contains python3-tutti-torch 'dist-packages/tutti/_torch[^/]*\.so'
	contains tutti-openmpi "$lib/libtutti_mpi_openmpi.so"
	contains tutti-mpich "$lib/libtutti_mpi_mpich.so"
}

test_lintian()
{
	lintian --allow-root --fail-on error,warning "$work"/tutti_*.changes >"$tmp/lintian" 2>&1 ||
		die "$(cat "$tmp/lintian")"
	cat "$tmp/lintian" >"$work/lintian.log"
}

# apart SECONDS COMMANDS: with mounts, processes and a network of its own, which end with it
apart()
{
	[ "$(id -u)" = 0 ] && unshare -mnpf true 2>/dev/null || skip "an overlay needs root"
	mkdir -p "$tmp/root"
	TMP=$tmp WORK=$work PACKAGES=$packages SRC=$TT_SRC timeout "$1" \
		unshare -mnpf --kill-child --mount-proc sh -ec "ip link set lo up
			. \"\$SRC/packaging/root.sh\"
			$2" >"$tmp/out" 2>&1 || die "$(tail -n 60 "$tmp/out")"
}

# dpkg over the machine's packages: install, upgrade, the tests of debian/tests, remove, install
# again, purge, after which no file is left.
test_installed()
{
	# shellcheck disable=SC2016
	apart 1000 '
		root_over "$TMP/root"
		root_packages
		in_root sh -ec "cd /; dpkg -i /tmp/deb/*.deb; dpkg -i /tmp/deb/*.deb"
		for test in $(sed -n "s/^Tests: //p" "$root/tmp/source/debian/tests/control"); do
			in_root /tmp/source/debian/tests/$test
		done
		in_root sh -ec "cd /; dpkg -r $PACKAGES; dpkg -i /tmp/deb/*.deb; dpkg -P $PACKAGES"
		left=$(in_root find /usr /etc /var/lib -path "*tutti*" ! -type d)
		[ -z "$left" ] || { echo "left: $left"; exit 1; }
	'
	grep -q 'rank 3 of 4: the average is 1.5' "$tmp/out" || die "$(cat "$tmp/out")"
}

# autopkgtest itself, which installs the packages with what each test names.
test_autopkgtest()
{
	command -v autopkgtest >/dev/null || skip "autopkgtest is missing"
	# shellcheck disable=SC2016
	apart 1000 '
		root_over "$TMP/root"
		root_packages
		status=0
		in_root sh -c "cd /; autopkgtest --no-built-binaries --summary-file /tmp/summary \
			/tmp/deb/*.deb /tmp/source -- null" || status=$?
		sed "s/^/summary: /" "$root/tmp/summary"
		exit $status
	'
	[ "$(grep -c '^summary: [a-z]* *PASS$' "$tmp/out")" = "$(grep -c '^Tests:' \
		"$TT_SRC/debian/tests/control")" ] || die "$(cat "$tmp/out")"
}

# The packages need no more than they depend on; the first test also a compiler.
test_bare()
{
	for deb in "$work"/*.deb; do
		case $deb in *-dbgsym_* | *-torch_*) ;; *) dpkg-deb -f "$deb" Depends ;; esac
	done | tr ',' '\n' | sed 's/ *|.*//; s/ *(.*//; s/:any//; s/ //g' |
		grep -v tutti | sort -u >"$tmp/depends"
	# shellcheck disable=SC2016
	apart 1000 '
		root_bare "$TMP/root" gcc libc6-dev pkg-config $(cat "$TMP/depends")
		root_packages
		rm "$root"/tmp/deb/*-torch_*
		in_root sh -ec "cd /; dpkg -i /tmp/deb/*.deb"
		in_root /tmp/source/debian/tests/hello
		in_root /tmp/source/debian/tests/python
	'
}

# The Containerfile on a base that debootstrap makes, as there may be no registry.
test_container()
{
	for program in buildah debootstrap; do
		command -v $program >/dev/null || skip "$program is missing"
	done
	[ "$(id -u)" = 0 ] || skip "debootstrap needs root"
	buildah="buildah --root $tmp/images --runroot $tmp/run --storage-driver vfs"
	{
		debootstrap --variant=minbase bookworm "$tmp/base" &&
			base=$($buildah from scratch) && $buildah copy "$base" "$tmp/base" / &&
			$buildah commit --rm "$base" docker.io/library/debian:12 &&
			cd "$work"/tutti-* &&
			$buildah build --isolation chroot -f packaging/Containerfile -t tutti . &&
			made=$($buildah from localhost/tutti)
	} >"$tmp/out" 2>&1 </dev/null || die "$(tail -n 30 "$tmp/out")"
	$buildah run --isolation chroot "$made" -- tutti_run -n 4 /usr/local/libexec/tutti/hello \
		>"$tmp/out" 2>&1 </dev/null || die "$(cat "$tmp/out")"
	[ "$(grep -c '^rank [0-3] of 4: the average is 1.5$' "$tmp/out")" = 4 ] ||
		die "$(cat "$tmp/out")"
}

command -v dpkg-buildpackage >/dev/null && command -v dh >/dev/null ||
	skip_all "packages dpkg-dev and debhelper are missing"
missing=$(cd "$TT_SRC" && dpkg-checkbuilddeps 2>&1) ||
	skip_all "${missing##*error: }; install them with 'apt-get build-dep .' in the source"
run container test_container # needs sources that are not configured, which the build does
run build test_build
if command -v lintian >/dev/null; then
	run lintian test_lintian
else
	run lintian skip "lintian is missing"
fi
for t in installed autopkgtest bare; do
	run $t test_$t
done
finish
