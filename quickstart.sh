#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# sh quickstart.sh		install what is needed, build, run the main job
# sh quickstart.sh check	the same, then the tests of every feature; the last line counts them
# sh quickstart.sh check full	all tests: long fault runs, sanitizers, fuzzers, distcheck
#
# For Debian 12, as root or with sudo. Everything made is in build/: the programs and the library in
# build/install, data in build/data, logs in build/log.
set -u
cd "$(dirname "$0")" || exit 1

build_packages="gcc g++ make autoconf automake libtool pkg-config libsodium-dev libxxhash-dev
	libjansson-dev libnuma-dev libfabric-dev libibverbs-dev librdmacm-dev zlib1g-dev"
check_packages="libcunit1-dev mandoc valgrind strace iproute2 nftables procps cpio
	gnuplot-nox qemu-system-x86 busybox-static rdma-core perftest util-linux xz-utils
	mpich libmpich-dev openmpi-bin libopenmpi-dev clang clang-format libclang-rt-14-dev
	libreadline8 jq python3-numpy python3-pytest python3-setuptools python3-wheel python3-pip
	cmake abigail-tools"
full_packages="gcc-aarch64-linux-gnu qemu-user gfortran python3-mpi4py hpcc lammps
	python3-torch libtorch-dev python3-dev pybind11-dev"

say()
{
	echo "== $*"
}

# One sentence on what is wrong, and the end; check must still end with its counts.
die()
{
	echo "quickstart: $*" >&2
	[ "$mode" != check ] || echo "0 passed, 1 failed, 0 skipped"
	exit 1
}

as_root()
{
	if [ "$(id -u)" = 0 ]; then
		env DEBIAN_FRONTEND=noninteractive "$@"
	else
		sudo env DEBIAN_FRONTEND=noninteractive "$@"
	fi
}

# step LOG WHAT COMMAND...: runs it with its output in build/log/LOG.
step()
{
	log=build/log/$1.log what=$2
	shift 2
	say "$what (log: $log)"
	"$@" >"$log" 2>&1 </dev/null && return 0
	tail -n 20 "$log" >&2
	return 1
}

check_system()
{
	command -v apt-get >/dev/null && command -v dpkg-query >/dev/null ||
		die "this system has no apt-get; install by hand what README.md lists, then ./autogen.sh, ./configure, make"
	. /etc/os-release
	[ "${ID:-}-${VERSION_ID:-}" = debian-12 ] ||
		say "this is ${PRETTY_NAME:-an unknown system}, not Debian 12: untested, trying anyway"
}

missing_packages()
{
	for package in $*; do
		[ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" = installed \
			] ||
			echo "$package"
	done
}

update_lists()
{
	step apt-update "updating the package lists" as_root apt-get update ||
		die "apt-get update failed: is there a network, and is /etc/apt/sources.list right?"
}

install_packages()
{
	missing=$(missing_packages "$@" | tr '\n' ' ')
	[ -n "$missing" ] || return 0
	[ "$(id -u)" = 0 ] || command -v sudo >/dev/null ||
		die "these packages are missing: $missing- and neither are you root nor is there sudo to install them"
	rm -f build/.options # configure again: it looks for what comes now
	install="as_root apt-get install -y --no-install-recommends $missing"
	step apt-install "installing $missing" $install && return
	update_lists
	step apt-install "installing $missing" $install ||
		die "apt-get could not install: $missing- see build/log/apt-install.log"
}

build()
{
	options="--prefix=$PWD/build/install --disable-static"
	[ "${CI:-}" != true ] || options="$options --enable-werror"
	[ -x configure ] && [ -f Makefile.in ] || step autogen "making configure" ./autogen.sh ||
		die "autogen.sh failed; see build/log/autogen.log"
	if [ ! -f build/Makefile ] || [ "$options" != "$(cat build/.options 2>/dev/null)" ]; then
		step configure "configuring" sh -c "cd build && ../configure -q $options" ||
			die "configure failed; see build/log/configure.log and build/config.log"
		echo "$options" >build/.options
	fi
	step build "building" make -C build -j"$(nproc)" ||
		die "the build failed; see build/log/build.log"
	step install "installing into build/install" make -C build install ||
		die "the installation failed; see build/log/install.log"
}

# The digits are a file of a Debian package that is unpacked here and not installed.
fetch_digits()
{
	[ -s build/data/digits.csv.gz ] && return
	rm -rf build/data/unpack
	mkdir -p build/data/unpack
	(cd build/data/unpack && apt-get download python3-sklearn) >build/log/digits.log 2>&1 || {
		update_lists
		(cd build/data/unpack &&
			apt-get download python3-sklearn) >build/log/digits.log 2>&1
	} || die "apt-get download python3-sklearn failed (no network?); see build/log/digits.log"
	say "unpacking the handwritten digits"
	dpkg -x build/data/unpack/python3-sklearn_*.deb build/data/unpack ||
		die "dpkg -x could not unpack what apt-get downloaded: is the disk full?"
	mv "$(find build/data/unpack -path '*sklearn/datasets/data/digits.csv.gz')" build/data/ ||
		die "this version of python3-sklearn has no sklearn/datasets/data/digits.csv.gz"
	rm -rf build/data/unpack
}

# unpack PACKAGE...: into build/data/unpack
unpack()
{
	rm -rf build/data/unpack
	mkdir -p build/data/unpack
	(cd build/data/unpack && apt-get download "$@" && for deb in *.deb; do dpkg -x "$deb" . ||
		exit 1; done) \
		>build/log/texts.log 2>&1
}

# Texts that examples and their tests learn from; without them the tests are skipped.
fetch_texts()
{
	if [ ! -s build/data/ReutersCorn-train.arff ]; then
		unpack weka &&
			mv build/data/unpack/usr/share/doc/weka/examples/Reuters*.arff \
			build/data/ ||
			say "apt-get download weka failed: the test that learns from news will be skipped"
	fi
	if [ ! -s build/data/bible.txt ]; then # a verse a line, without its number
		unpack bible-kjv bible-kjv-text &&
			build/data/unpack/usr/bin/bible -p build/data/unpack/usr/lib -f \
			gen1:1-rev22:21 2>>build/log/texts.log </dev/null |
			sed 's/^[^ ]* //' >build/data/bible.txt
		[ -s build/data/bible.txt ] ||
			say "no text from package bible-kjv (build/log/texts.log): the test of word vectors will be skipped"
	fi
	rm -rf build/data/unpack
}

# What tests start jobs with, and what that needs: fetched, not installed, as these packages bring
# daemons.
fetch_cluster()
{
	[ -d build/data/cluster ] && return
	rm -rf build/data/unpack
	mkdir -p build/data/unpack/partial
	step cluster "fetching OpenSSH and Slurm" as_root apt-get install \
		-y --no-install-recommends --download-only \
		-o "Dir::Cache::archives=$PWD/build/data/unpack" openssh-server openssh-client \
		slurmctld slurmd slurm-client \
		slurm-wlm-basic-plugins munge && mv build/data/unpack build/data/cluster ||
		say "no OpenSSH and Slurm: the tests that start jobs with them will be skipped"
}

main_job()
{
	PATH=$PWD/build/install/bin:$PATH
	export PATH
	demo=build/install/libexec/tutti/train_digits
	say "tutti_run -n 4 $demo"
	tutti_run -n 4 $demo || die "the training failed"
	say "tutti_run -n 2 tutti_perf allreduce -b 8 -e 64M -f 2"
	tutti_run -n 2 tutti_perf allreduce -b 8 -e 64M -f 2 || die "tutti_perf failed"
	say "done; the programs are in build/install/bin"
}

mode=${1:-run} extent=${2:-}
case $extent in
'' | full) ;;
*) die "usage: sh quickstart.sh [check [full]]" ;;
esac
case $mode in
run) packages=$build_packages ;;
check) packages="$build_packages $check_packages ${extent:+$full_packages}" ;;
*) die "usage: sh quickstart.sh [check [full]]" ;;
esac
mkdir -p build/log build/data || die "cannot write to $PWD/build"
check_system
install_packages $packages
build
fetch_digits
fetch_texts
if [ "$mode" = check ]; then
	fetch_cluster
	[ "$extent" != full ] || exec sh tests/ci.sh
	exec sh tests/ci.sh quick
fi
main_job
