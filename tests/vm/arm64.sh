#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Builds the tree for arm64 and runs the unit and plan tests under qemu-user. The arm64 packages are
# unpacked into build/arm64/root; the system itself is left as it is. qemu-user on x86 hides weak
# memory ordering: doc/THREADS.md is the review of that.
#
#	sh tests/vm/arm64.sh [TEST...]	default: every unit and plan test that needs no device
. "${TT_SRC:-$(cd "$(dirname "$0")/../.." && pwd)}/tests/sh.inc"
suite arm64
host=aarch64-linux-gnu
work=$TT_BUILD/arm64
root=$work/root
packages="libc6-dev libgcc-12-dev libsodium-dev libxxhash-dev libjansson-dev libnuma-dev
	libfabric-dev
	libibverbs-dev librdmacm-dev zlib1g-dev libcunit1-dev"

command -v $host-gcc >/dev/null || skip_all "there is no $host-gcc (package gcc-aarch64-linux-gnu)"
command -v qemu-aarch64 >/dev/null || skip_all "there is no qemu-aarch64 (package qemu-user)"

# apt with lists, status and archives of its own, for the other architecture
apt_arm64()
{
	apt-get -q -o APT::Architecture=arm64 -o APT::Architectures=arm64 \
		-o Acquire::Languages=none \
		-o APT::Sandbox::User=root -o Dir::State::lists="$work/lists" \
		-o Dir::State::status="$work/status" -o Dir::Cache="$work" -o Debug::NoLocking=1 \
		-o Dir::Etc::sourceparts=- -o Dir::Etc::sourcelist="$work/sources" "$@"
}

# The system's own Debian mirror, and nothing else it may have.
sources()
{
	cat /etc/apt/sources.list /etc/apt/sources.list.d/*.list 2>/dev/null |
		grep -E '^deb .*(bookworm|debian)' | sed 's/\[[^]]*\] //' | grep -v cloud
	sed -n 's/^URIs: *//p' /etc/apt/sources.list.d/debian.sources 2>/dev/null |
		grep -v security | head -n 1 | sed 's/.*/deb & bookworm main/'
}

fetch()
{
	mkdir -p "$work/lists/partial" "$work/archives/partial"
	: >"$work/status"
	sources | sort -u >"$work/sources"
	apt_arm64 update && apt_arm64 install -y --no-install-recommends --download-only $packages
}

unpack()
{
	mkdir -p "$root/usr/lib" "$root/usr/bin" "$root/usr/sbin" && for d in lib bin sbin; do
		ln -sfn usr/$d "$root/$d"
	done
	for p in "$work"/archives/*.deb; do
		dpkg-deb --fsys-tarfile "$p" | tar -C "$root" -x --keep-directory-symlink || return
	done
}

test_root()
{
	[ ! -e "$root/.complete" ] || return 0
	fetch || skip "the arm64 packages cannot be fetched"
	unpack && touch "$root/.complete"
}

test_builds()
{
	mkdir -p "$work/build" && cd "$work/build" || exit 1
	PKG_CONFIG_LIBDIR=$root/usr/lib/$host/pkgconfig:$root/usr/share/pkgconfig
	PKG_CONFIG_SYSROOT_DIR=$root
	export PKG_CONFIG_LIBDIR PKG_CONFIG_SYSROOT_DIR
	[ -f Makefile ] || "$TT_SRC/configure" -q --host=$host --disable-static --enable-werror \
		CC="$host-gcc --sysroot=$root" || exit 1
	make -s -j"$(nproc)" && make -s -j"$(nproc)" $(programs)
}

programs()
{
	[ -z "$asked" ] || echo $asked
	[ "$asked" ] || make -s -C "$work/build" print-tests | tr ' ' '\n' |
		grep -E '^tests/(unit|plan)/test_[a-z_0-9]*$'
}

# What is not run there, and why: spawn.brief needs the usual priority, and CI runs this below it;
# qemu-user orders a store before a later load of the same thread less strictly than arm64 does
# (shm.arming), has no seccomp (shm.no_process_vm), cannot start programs of its own kind
# (tune.explain); the others would take minutes.
left_out="spawn.brief shm.arming shm.no_process_vm tune.explain plan.allreduce_single_master
	plan.allreduce_direct_rsag
	plan.allreduce_recursive_doubling plan.allreduce_halving_doubling plan.allreduce_radix
	plan.allreduce_dbt
	plan.allreduce_circulant_rsag plan.allreduce_node_slots plan.allreduce_node_pull
	plan.many_ranks plan.huge"

emulated()
{
	timeout 300 ./libtool --mode=execute qemu-aarch64 -L "$root" \
		-E LD_LIBRARY_PATH="$PWD/.libs" "$@"
}

# one TEST: its cases, under qemu-user
one()
{
	cd "$work/build" || exit 1
	suite=${1##*/test_}
	cases=
	for c in $(emulated "$1" -l); do
		case " $(echo $left_out) " in *" $suite.${c#"$suite".} "*) ;; *)
			cases="$cases ${c#"$suite".}" ;; esac
	done
	[ "$cases" ] || die "it lists no case"
	emulated "$1" $cases
}

asked=$* only=
run root test_root
[ "$passed" = 1 ] || finish
run builds test_builds
[ "$failed" = 0 ] || finish
for t in $(programs); do
	run "$(basename "$t")" one "$t"
done
finish
