#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# What listens while a job runs, as ss(8) sees it: no process of it on all addresses, over any
# protocol and any of the transports; with TUTTI_IF=lo none beyond this host.
only=$*
. "${TT_SRC:-$(dirname "$0")/../..}/tests/sh.inc"
suite listen
cd "$TT_BUILD" || exit 1
[ -x tutti_run ] && [ -x tutti_perf ] || skip_all "tutti_run and tutti_perf were not built"
command -v ss >/dev/null || skip_all "ss is missing (package iproute2)"

# listeners PID: "ADDRESS:PORT" of whatever it and its children have open to strangers.
listeners()
{
	pids=$(echo "$1" $(pgrep -P "$1") | tr ' ' '|')
	ss -H -l -n -p -t -u -w -0 | grep -E "pid=($pids)[,)]" | awk '{ print $1 " " $5 }'
}

# The same of rdma_cm, whose listeners are no sockets.
cm_listeners()
{
	pids=$(echo $(pgrep -P "$1") | tr ' ' '|')
	rdma resource show cm_id 2>/dev/null | grep -i ' state LISTEN ' | grep -E " pid ($pids) " |
		sed -n 's/.* src-addr \([^ ]*\) .*/cm_id \1/p'
}

# once ITERATIONS VARIABLE=VALUE...: runs a job; what listens meanwhile is added to $tmp/all
once()
{
	iterations=$1
	shift
	env TUTTI_LOG=info "$@" timeout 60 ./tutti_run -n 2 ./tutti_perf allreduce \
		-b 64K -e 64K -n "$iterations" >"$tmp/log" 2>&1 &
	limited=$!
	while kill -0 $limited 2>/dev/null; do
		for launcher in $(pgrep -P $limited); do
			listeners "$launcher"
			cm_listeners "$launcher"
		done >>"$tmp/all"
		looks=$((looks + 1))
	done
	wait $limited || die "the job failed: $(cat "$tmp/log")"
}

# job VARIABLE=VALUE...: all that listens during a job is in $tmp/seen, with how often it was seen.
# On a busy machine a look takes long, and the job must last longer.
job()
{
	: >"$tmp/all"
	looks=0
	for n in 200 2000 20000; do
		once $n "$@"
		[ $looks -lt 8 ] || break
	done
	sort "$tmp/all" | uniq -c >"$tmp/seen"
	cat "$tmp/seen"
	[ -s "$tmp/seen" ] || die "nothing was seen that listens, not even the control tree"
}

none_wild()
{
	! grep -E ' (0\.0\.0\.0|\*|\[?::\]?)(%[^:]*)?:[^:]*$' "$tmp/seen" ||
		die "listens on all addresses"
}

none_beyond()
{
	none_wild
	! grep -vE ' (127\.[0-9.]*|\[::1\]|\[::ffff:127\.[0-9.]*\]):[^:]*$' "$tmp/seen" ||
		die "listens beyond this host"
}

shm()
{
	job TUTTI_IF=lo TUTTI_TRANSPORT=shm
	none_beyond
}

ofi()
{
	./tutti_info 2>/dev/null | grep -q '^ *ofi:' || skip "no transport ofi here"
	job TUTTI_IF=lo TUTTI_TRANSPORT=ofi
	[ "$(wc -l <"$tmp/seen")" -ge 3 ] || die "the transport's own listeners were not seen"
	none_beyond
	job TUTTI_IF=lo TUTTI_TRANSPORT=ofi TUTTI_OFI_EP=rdm
	none_beyond
}

# The interface is the library's choice.
chosen()
{
	job TUTTI_TRANSPORT=shm,ofi
	none_wild
}

verbs()
{
	./tutti_info 2>/dev/null | grep -q '^ *verbs:.*/1' ||
		skip "there is no RDMA device; tests/vm/verbs.sh runs this in its guest"
	job TUTTI_TRANSPORT=verbs TUTTI_VERBS_CM=rdmacm
	grep -q ' cm_id ' "$tmp/seen" || die "rdma_cm listens and was not seen"
	none_wild
}

# What this test looks for it would find.
found()
{
	command -v perl >/dev/null || skip "perl is missing"
	for p in tcp:0.0.0.0 udp:0.0.0.0 tcp::: udp:::; do
		rm -f "$tmp/there" # of the one before, whose place the next takes when it pleases
		perl -MSocket -e 'my ($t, $a) = split /:/, $ARGV[0], 2; my $six = $a eq "::";
			socket(my $s, $six ? AF_INET6 : AF_INET,
				$t eq "tcp" ? SOCK_STREAM : SOCK_DGRAM, 0) or exit 77;
			bind($s, $six ? pack_sockaddr_in6(0, Socket::inet_pton(AF_INET6, $a)) :
				pack_sockaddr_in(0, inet_aton($a))) or exit 77;
			listen($s, 1) if $t eq "tcp"; print "there\n"; close(STDOUT); sleep 30' \
				"$p" >"$tmp/there" &
		perl=$! i=0
		until [ -s "$tmp/there" ] || [ $i = 100 ]; do sleep 0.05; i=$((i + 1)); done
		listeners $perl | uniq -c >"$tmp/seen"
		kill $perl
		wait $perl
		[ -s "$tmp/there" ] || continue # no IPv6 here
		(none_wild >/dev/null) && die "$p was not found: $(cat "$tmp/seen")"
	done
	return 0
}

run found found
run shm shm
run ofi ofi
run chosen chosen
run verbs verbs
finish
