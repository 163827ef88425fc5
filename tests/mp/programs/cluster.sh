#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Jobs started by OpenSSH and by Slurm, on a cluster of two nodes that are network namespaces of
# this machine.
#
# Nothing is installed: quickstart.sh has fetched the packages (build/data/cluster), and they are
# unpacked into an overlay of the file system, in memory. Daemons, namespaces and overlay are gone
# when the outer process ends, however that happens, 4 minutes later at most: they live in a
# process namespace of its own. No address of the machine is used.
only=$*
. "${TT_SRC:-$(dirname "$0")/../..}/tests/sh.inc"
suite cluster
packages=${TT_CLUSTER:-$TT_BUILD/data/cluster}
nodes='node0 node1'

# ---- outside: make the machine ----

# cluster ROOT: what is in the overlay is as if it was installed
cluster()
{
	root=$1
	mount -t tmpfs tmpfs "$root" && mkdir "$root/upper" "$root/work" "$root/all" &&
		mount -t overlay overlay "$root/all" \
			-o "lowerdir=/,upperdir=$root/upper,workdir=$root/work" || return 77
	root=$root/all
	# dpkg -x would put folders in the place of links such as /lib.
	for deb in "$packages"/*.deb; do
		dpkg-deb --fsys-tarfile "$deb" | tar -x --keep-directory-symlink -C "$root" ||
			return 1
	done
	mount -t tmpfs tmpfs "$root/tmp" && mount -t tmpfs tmpfs "$root/run" &&
		mount -t proc proc "$root/proc" &&
		mount --rbind /dev "$root/dev" && mount --rbind /sys "$root/sys" || return 77
	mount -t tmpfs tmpfs "$root/dev/shm" || return 77
	for dir in "$TT_SRC" "$TT_BUILD"; do # may be mounts of their own, or in /tmp
		mkdir -p "$root/$dir" && mount --rbind "$dir" "$root/$dir" || return 77
	done
	TT_INSIDE=1 chroot "$root" sh "$TT_SRC/tests/mp/programs/cluster.sh" $only
}

if [ -z "${TT_INSIDE:-}" ]; then
	if [ -n "${TT_OVERLAY:-}" ]; then
		trap - EXIT
		rm -rf "$tmp"
		cluster "$TT_OVERLAY"
		exit
	fi
	grep -q '^TT_CFLAGS.*-fsanitize' "$TT_BUILD/Makefile" &&
		skip_all "launched programs are not run under sanitizers"
	[ -x "$TT_BUILD/hello" ] || skip_all "examples/hello was not built"
	ls "$packages"/*.deb >/dev/null 2>&1 ||
		skip_all "no packages in $packages: sh quickstart.sh check fetches them"
	[ "$(id -u)" = 0 ] || skip_all "namespaces and an overlay of the file system need root"
	unshare -mnpuf true 2>/dev/null ||
		skip_all "unshare does not work here: no rights, or no util-linux"
	TT_OVERLAY=$tmp TT_SRC=$TT_SRC TT_BUILD=$TT_BUILD timeout -k 5 240 \
		unshare -mnpuf --kill-child --mount-proc sh "$TT_SRC/tests/mp/programs/cluster.sh" \
		$only >"$tmp/log" 2>&1
	status=$?
	cat "$tmp/log"
	grep -q '^# cluster: ' "$tmp/log" || { [ $status = 77 ] &&
		skip_all "$(tail -n 1 "$tmp/log")"; }
	exit $status
fi

# ---- inside: start the daemons ----

PATH=/usr/sbin:/usr/bin:/sbin:/bin
export PATH
unset TUTTI_IF

# on NODE COMMAND...: there
on()
{
	where=$1
	shift
	if [ "$where" = node0 ]; then
		"$@"
	else
		nsenter --net=/run/netns/node1 unshare -u sh -c 'hostname node1; exec "$@"' sh "$@"
	fi
}

start_network()
{
	hostname node0
	printf '127.0.0.1 localhost\n10.99.0.1 node0\n10.99.0.2 node1\n10.99.0.9 silent\n' \
		>/etc/hosts
	ip netns add node1 && ip link add e0 type veth peer name e0 netns node1 &&
		ip link set lo up &&
		ip link set e0 up && ip addr add 10.99.0.1/24 dev e0 &&
		ip -n node1 link set lo up &&
		ip -n node1 link set e0 up && ip -n node1 addr add 10.99.0.2/24 dev e0
}

start_ssh()
{
	grep -q '^sshd:' /etc/passwd ||
		echo 'sshd:x:65533:65534::/run/sshd:/usr/sbin/nologin' >>/etc/passwd
	rm -rf /root/.ssh /etc/ssh/ssh_host_* && mkdir -p -m 700 /run/sshd /root/.ssh /etc/ssh &&
		ssh-keygen -q -t ed25519 -N '' -f /etc/ssh/ssh_host_ed25519_key &&
		ssh-keygen -q -t ed25519 -N '' -f /root/.ssh/id_ed25519 &&
		cp /root/.ssh/id_ed25519.pub /root/.ssh/authorized_keys || return 1
	printf 'UsePAM no\nPermitRootLogin yes\nStrictModes no\nPidFile none\n' \
		>/etc/ssh/sshd_config
	# no host answers for the silent one; a busy one may take longer
	printf 'Host silent\n ConnectTimeout 1\nHost *\n ConnectTimeout 20\n' >/root/.ssh/config
	for node in $nodes; do
		echo "$node $(cut -d ' ' -f 1,2 /etc/ssh/ssh_host_ed25519_key.pub)" \
			>>/root/.ssh/known_hosts
		on $node /usr/sbin/sshd -o "ListenAddress=$(getent hosts $node |
			cut -d ' ' -f 1)" || return 1
	done
	for node in $nodes; do # a daemon goes to the background before it listens
		for _ in $(seq 100); do ssh -n $node true && continue 2; sleep 0.1; done
		return 1
	done
}

start_slurm()
{
	for p in slurmctld slurmd slurmstepd; do # Debian's alternatives
		[ -e /usr/sbin/$p ] || ln -s $p-wlm /usr/sbin/$p
	done
	mkdir -p /run/tmp.node0 /run/tmp.node1 # the two nodes would meet in /tmp
	mkdir -p /run/munge /etc/munge /var/lib/munge /var/log/munge /etc/slurm /var/spool/slurmctld
	head -c 64 /dev/urandom >/etc/munge/munge.key && chmod 600 /etc/munge/munge.key &&
		chmod 755 /run/munge &&
		munged --force 2>/dev/null || return 1
	cat >/etc/slurm/slurm.conf <<-'END'
		ClusterName=test
		SlurmctldHost=node0
		SlurmUser=root
		AuthType=auth/munge
		ProctrackType=proctrack/linuxproc
		TaskPlugin=task/none
		SelectType=select/cons_tres
		SlurmdParameters=config_overrides
		StateSaveLocation=/var/spool/slurmctld
		SlurmdSpoolDir=/var/spool/slurmd.%n
		SlurmctldPidFile=/run/slurmctld.pid
		SlurmdPidFile=/run/slurmd.%n.pid
		SlurmctldLogFile=/var/log/slurmctld.log
		SlurmdLogFile=/var/log/slurmd.%n.log
		MpiDefault=none
		TmpFS=/run/tmp.%n
		NodeName=node[0-1] CPUs=4 State=UNKNOWN
		PartitionName=all Nodes=node[0-1] Default=YES State=UP
	END
	slurmctld || return 1
	for node in $nodes; do
		on $node slurmd || return 1
	done
	for _ in $(seq 100); do
		[ "$(timeout 5 sinfo -h -t idle -o %D 2>/dev/null)" != 2 ] || return 0
		sleep 0.1
	done
	tail -n 5 /var/log/slurm*.log
	return 1
}

# start WHAT: its daemons, or the end
start()
{
	start_$1 >"$tmp/start" 2>&1 && return
	only=
	run "start_$1" die "it does not start: $(cat "$tmp/start")"
	finish
}

# averages FILE N: each of N ranks has found the same
averages()
{
	mean=$(awk -v n="$2" 'BEGIN { print (n - 1) / 2 }')
	[ "$(grep -c "^rank [0-9]* of $2: the average is $mean\$" "$1")" = "$2" ] ||
		die "$(cat "$1")"
}

# ---- ssh ----

ssh_hosts()
{
	timeout 30 ./tutti_run -H node0:2,node1:2 ./hello >"$tmp/out" 2>&1 ||
		die "status $?: $(cat "$tmp/out")"
	averages "$tmp/out" 4
	timeout 30 ./tutti_run -H node0:2,node1:2 sh -c 'echo $TUTTI_RANK $(hostname)' \
		>"$tmp/out" || die "status $?"
	[ "$(sort "$tmp/out" | paste -sd,)" = '0 node0,1 node0,2 node1,3 node1' ] ||
		die "$(cat "$tmp/out")"
}

ssh_hostfile()
{
	printf 'node1 slots=3\nnode0\n' >"$tmp/hosts"
	timeout 30 ./tutti_run --hostfile "$tmp/hosts" ./hello >"$tmp/out" 2>&1 ||
		die "status $?: $(cat "$tmp/out")"
	averages "$tmp/out" 4
}

# A rank on the other node fails: its status is the launcher's.
ssh_status()
{
	timeout 30 ./tutti_run -H node0:1,node1:1 sh \
		-c 'test $TUTTI_RANK = 0 && exec sleep 20; exit 9' >"$tmp/out" 2>&1
	status=$?
	[ $status = 9 ] || die "status $status: $(cat "$tmp/out")"
}

ssh_silent()
{
	timeout 30 ./tutti_run -H node0:1,silent:1 ./hello >"$tmp/out" 2>&1
	status=$?
	[ $status != 0 ] && [ $status != 124 ] || die "status $status: $(cat "$tmp/out")"
	grep -q silent "$tmp/out" || die "the host is not named: $(cat "$tmp/out")"
}

# Nothing is left on the other node of a launcher that was killed.
ssh_killed()
{
	./tutti_run -H node0:1,node1:2 sh -c 'sleep 123; true' >"$tmp/out" 2>&1 &
	pid=$!
	for _ in $(seq 100); do [ "$(pgrep -fc '^sleep 123$')" != 3 ] || break; sleep 0.1; done
	[ "$(pgrep -fc '^sleep 123$')" = 3 ] || die "ranks did not start: $(cat "$tmp/out")"
	kill -9 $pid
	for _ in $(seq 100); do pgrep -f '^sleep 123$' >/dev/null || return 0; sleep 0.1; done
	die "ranks outlive a killed launcher"
}

# ---- Slurm ----

# job [OPTION...] COMMAND...: in each of 8 ranks on both nodes
job()
{
	TUTTI_BOOT_DIR=$tmp/boot timeout 60 srun -n 8 "$@"
}

slurm_directory()
{
	job ./hello >"$tmp/out" 2>&1 || die "status $?: $(cat "$tmp/out")"
	averages "$tmp/out" 8
	[ "$(job hostname | sort | uniq -c | awk '{ print $1 $2 }' |
		paste -sd,)" = 4node0,4node1 ] || die "not 4 and 4"
}

slurm_perf()
{
	job ./tutti_perf allreduce -b 8 -e 1M -f 64 -n 5 >"$tmp/out" 2>&1 ||
		die "status $?: $(cat "$tmp/out")"
	grep -q '1048576 ' "$tmp/out" || die "$(cat "$tmp/out")"
}

# Two jobs at the same time in one directory
slurm_two()
{
	TUTTI_BOOT_DIR=$tmp/boot timeout 60 srun -n 4 ./hello >"$tmp/out" 2>&1 &
	TUTTI_BOOT_DIR=$tmp/boot timeout 60 srun -n 3 ./hello >"$tmp/out2" 2>&1 ||
		die "status $?: $(cat "$tmp/out2")"
	wait $! || die "status $?: $(cat "$tmp/out")"
	averages "$tmp/out" 4
	averages "$tmp/out2" 3
}

# alone STATUS COMMAND...: without TUTTI_BOOT_DIR; STATUS 0: jobs of one rank, 1: none is
alone()
{
	wanted=$1
	shift
	TUTTI_INIT_TIMEOUT=5s timeout 60 "$@" >"$tmp/out" 2>&1
	status=$?
	if [ $wanted = 0 ]; then
		[ $status = 0 ] && grep -q 'rank 0 of 1' "$tmp/out" ||
			die "$*: status $status: $(cat "$tmp/out")"
	else
		[ $status != 0 ] && ! grep -q 'of 1:' "$tmp/out" &&
			grep -q 'SLURM_PROCID\|PMI_RANK' "$tmp/out" &&
			grep -q 'TUTTI_BOOT_DIR' "$tmp/out" ||
			die "$*: status $status: $(cat "$tmp/out")"
	fi
}

has_pmix()
{
	srun --mpi=list 2>&1 | grep -qw pmix
}

# plain MPI: no variable of tutti's, ranks on both nodes, and then on one; two jobs at once
plain()
{
	timeout 60 srun -n 8 --mpi=$1 ./hello >"$tmp/out" 2>&1 ||
		die "status $?: $(cat "$tmp/out")"
	averages "$tmp/out" 8
	timeout 60 srun -N 1 -n 3 --mpi=$1 ./hello >"$tmp/out" 2>&1 &
	timeout 60 srun -n 2 --mpi=$1 ./hello >"$tmp/out2" 2>&1 ||
		die "status $?: $(cat "$tmp/out2")"
	wait $! || die "status $?: $(cat "$tmp/out")"
	averages "$tmp/out" 3
	averages "$tmp/out2" 2
}

slurm_pmi2()
{
	plain pmi2
	# the second program of each task
	! timeout 60 srun -n 4 --mpi=pmi2 sh -c './hello && ./hello' >"$tmp/out" 2>&1 ||
		die "PMI-1 served two programs of a task: $(cat "$tmp/out")"
	averages "$tmp/out" 4
	[ "$(grep -c 'PMI_FD=.* is closed: .*; set TUTTI_BOOT_DIR' "$tmp/out")" = 4 ] ||
		die "$(cat "$tmp/out")"
	TUTTI_BOOT_DIR=$tmp/boot timeout 60 srun -n 4 --mpi=pmi2 sh -c \
		'./hello >/dev/null && ./hello' >"$tmp/out" 2>&1 ||
		die "status $?: $(cat "$tmp/out")"
	averages "$tmp/out" 4
}

slurm_pmix()
{
	has_pmix || skip "this Slurm has no plugin for PMIx"
	(plain pmix) || die "$(tail -n 20 /var/log/slurmd.node*.log)"
}

# A step of several processes is no job of one; the script of a batch job and a step of one are.
slurm_not_alone()
{
	alone 1 srun -n 4 ./hello
	alone 1 srun -n 4 --mpi=pmi2 env -u PMI_FD ./hello
	! has_pmix || alone 1 srun -n 4 --mpi=pmix env -u PMIX_NAMESPACE ./hello
	alone 0 srun -n 1 ./hello
	alone 0 srun -n 4 env TUTTI_RANK=0 TUTTI_NRANKS=1 ./hello
	printf '#!/bin/sh\n./hello\n' >"$tmp/batch"
	sbatch -W -n 4 -o "$tmp/batch.out" "$tmp/batch" >"$tmp/out" 2>&1 ||
		die "$(cat "$tmp/out" "$tmp/batch.out")"
	grep -q 'rank 0 of 1' "$tmp/batch.out" || die "$(cat "$tmp/batch.out")"
	job --mpi=pmi2 ./hello >"$tmp/out" 2>&1 || die "status $?: $(cat "$tmp/out")"
	averages "$tmp/out" 8
}

# A rank is killed: Slurm is not asked to end the others, so that they must find out themselves.
slurm_death()
{
	# shellcheck disable=SC2016
	job --kill-on-bad-exit=0 sh -c '
		test $SLURM_PROCID = 7 || exec ./tutti_perf allreduce -b 64K -e 64K -n 1000000
		./tutti_perf allreduce -b 64K -e 64K -n 1000000 &
		until grep -q algbw "$0"; do sleep 0.1; done # all have joined
		sleep 0.5; kill -9 $!' "$tmp/out" >"$tmp/out" 2>&1
	status=$?
	[ $status != 0 ] && [ $status != 124 ] || die "status $status: $(cat "$tmp/out")"
	[ "$(grep -o 'tutti\[[0-6]\]: error: .*rank 7' "$tmp/out" | cut -d : -f 1 | sort -u |
		wc -l)" = 7 ] || die "not all name rank 7: $(cat "$tmp/out")"
}

# A job that is cancelled leaves no process and no shared memory.
slurm_cancel()
{
	job ./tutti_perf allreduce -b 64K -e 64K -n 1000000 >"$tmp/out" 2>&1 &
	for _ in $(seq 100); do [ "$(pgrep -xc tutti_perf)" != 8 ] || break; sleep 0.1; done
	[ "$(pgrep -xc tutti_perf)" = 8 ] || die "ranks did not start: $(cat "$tmp/out")"
	scancel -u root
	for _ in $(seq 100); do pgrep -x tutti_perf >/dev/null || break; sleep 0.1; done
	! pgrep -x tutti_perf >/dev/null || die "ranks outlive scancel"
	[ -z "$(ls /dev/shm)" ] || die "left in /dev/shm: $(ls /dev/shm)"
	job ./hello >"$tmp/out" 2>&1 || die "the next job fails: $(cat "$tmp/out")"
	averages "$tmp/out" 8
}

# ---- MPI programs under the libraries of tutti_mpi(7) ----

# preloaded FLAVOR COMMAND...: with the library, in 3 ranks on both nodes, through ssh
preloaded()
{
	flavor=$1 with=$PWD/.libs/libtutti_mpi_$1.so
	shift
	case $flavor in
	openmpi) set -- mpirun.openmpi --allow-run-as-root -H node0:2,node1:1 -x TUTTI_MPI_TAKE \
		-x TUTTI_MPI_SUMMARY -x OMPI_MCA_mpi_yield_when_idle -x LD_PRELOAD="$with" "$@" ;;
	mpich) set -- mpirun.mpich -hosts node0:2,node1:1 -genv LD_PRELOAD "$with" "$@" ;;
	esac
	TUTTI_MPI_TAKE=all TUTTI_MPI_SUMMARY=1 timeout 60 "$@" >"$tmp/out" 2>&1
}

# Ranks on fewer cores; the launchers do not see that.
OMPI_MCA_mpi_yield_when_idle=1 OMPI_MCA_plm_rsh_args='-o ConnectTimeout=20'
export OMPI_MCA_mpi_yield_when_idle OMPI_MCA_plm_rsh_args

# The cases for an MPI; fails if it is not installed.
build_cases()
{
	[ -e ".libs/libtutti_mpi_$1.so" ] && command -v mpicc.$1 mpirun.$1 >/dev/null &&
		mpicc.$1 -D_GNU_SOURCE -I"$TT_SRC" "$TT_SRC"/tests/mp/programs/mpi_[a-z]*.c \
			-o "$tmp/colls.$1" -lpthread
}

# taken NAME COUNTS: what the summary says of a collective: taken, by size, by type/op, by comm
taken()
{
	of=$(awk -v n="$1" '$1 == "tutti_mpi:" && $2 == n { print $3, $5, $6, $7 }' "$tmp/out")
	[ "$of" = "$2" ] || die "$1: '$of' instead of '$2': $(cat "$tmp/out")"
}

# passes FLAVOR CASE [SETTING]: a case of mpi_colls.c; on node1 with a setting in the environment
passes()
{
	# shellcheck disable=SC2016
	preloaded $1 sh -c '[ "$(hostname)" = node0 ] || export "$2"; exec "$0" "$1"' \
		"$tmp/colls.$1" $2 "${3:-NONE=}" || die "status $?: $(cat "$tmp/out")"
	grep -q "^case $2 passed" "$tmp/out" || die "$(cat "$tmp/out")"
}

# Ranks of both nodes, then settings of one node with which nothing can be taken.
preload()
{
	passes $1 comms
	taken allreduce "120 0 0 60" # rank 1 is alone in its half, on node0
	taken bcast "180 0 0 0"
	passes $1 hang TUTTI_IF=nonsense
	taken allreduce "0 0 0 15"
	grep -q 'tutti_mpi: tutti_init failed: .*rank 2 on node1 cannot start: TUTTI_IF=nonsense' \
		"$tmp/out" && grep -q 'the MPI makes all calls$' "$tmp/out" ||
		die "no reason: $(cat "$tmp/out")"
	passes $1 hang TUTTI_IF=lo
	taken allreduce "0 0 0 15"
	grep -q 'a communicator of 3 ranks cannot be set up; the MPI makes all' "$tmp/out" ||
		die "$(cat "$tmp/out")"
}

# Slurm as the launcher of the MPIs: the protocol that each of them speaks.
slurm_preload()
{
	[ -x "$tmp/colls.mpich" ] || [ -x "$tmp/colls.openmpi" ] || skip "there is no MPI"
	for flavor in mpich openmpi; do
		protocol=pmi2 with=$PWD/.libs/libtutti_mpi_$flavor.so
		[ $flavor = mpich ] || protocol=pmix
		[ -x "$tmp/colls.$flavor" ] || continue
		TUTTI_MPI_TAKE=all TUTTI_MPI_SUMMARY=1 LD_PRELOAD=$with timeout 60 srun \
			-N 2 -n 3 --mpi=$protocol "$tmp/colls.$flavor" hang >"$tmp/out" 2>&1 ||
			die "status $?: $(cat "$tmp/out")"
		taken allreduce "15 0 0 0"
	done
}

# Only on request, as it takes a minute: cluster.sh seconds prints them.
seconds()
{
	HOSTS='node0 node1' TT_BUILD=$TT_BUILD timeout 200 salloc -N 2 -n 8 --quiet \
		sh "$TT_SRC/perf/launchers" >&3
}

cd "$TT_BUILD" || exit 1
start_network >"$tmp/start" 2>&1 || { cat "$tmp/start"; echo "no network of two nodes"; exit 77; }
start ssh
for t in ssh_hosts ssh_hostfile ssh_status ssh_silent ssh_killed; do
	run $t $t
done
for flavor in openmpi mpich; do
	! build_cases $flavor || run preload_$flavor preload $flavor
done
start slurm
mkdir "$tmp/boot"
for t in slurm_directory slurm_two slurm_pmi2 slurm_pmix slurm_preload slurm_not_alone \
	slurm_perf slurm_death slurm_cancel; do
	run $t $t
done
case " $only " in *' seconds '*) run seconds seconds 3>&1 ;; esac
finish
