# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=sh
# Roots to install packages in without touching the machine. Sourced as root in a mount namespace.

# root_mounts: what both kinds of root have from the kernel
root_mounts()
{
	mkdir -p "$root/proc" "$root/sys" "$root/dev" "$root/tmp"
	mount -t proc proc "$root/proc"
	mount --rbind /sys "$root/sys"
	mount --rbind /dev "$root/dev"
	mount -t tmpfs tmpfs "$root/tmp"
	chmod 1777 "$root/tmp"
}

# root_over DIR: the machine's files, in which changes are kept apart
root_over()
{
	root=$1/all
	mount -t tmpfs tmpfs "$1"
	mkdir "$1/upper" "$1/work" "$root"
	mount -t overlay overlay "$root" -o "lowerdir=/,upperdir=$1/upper,workdir=$1/work"
	root_mounts
}

# installed PACKAGE...: those, the essential ones and all they depend on, of what is installed
installed()
{
	dpkg-query -W -f '${Package}\t${Essential}\t${Pre-Depends}, ${Depends}\t${Provides}\n' |
		awk -F '\t' -v wanted="$*" '
		function bare(name) { gsub(/ *\([^)]*\)|:[a-z0-9]+| /, "", name); return name }
		{
			depends[$1] = $3
			if ($2 == "yes")
				wanted = wanted " " $1
			n = split($4, list, ",")
			for (i = 1; i <= n; i++)
				provider[bare(list[i])] = $1
		}
		END {
			end = split(wanted, queue, " ")
			for (at = 1; at <= end; at++) {
				name = queue[at]
				if (!(name in depends) && name in provider)
					name = provider[name]
				if (!(name in depends)) {
					print "not installed: " name >"/dev/stderr"
					exit 1
				}
				if (taken[name]++)
					continue
				print name
				n = split(depends[name], list, ",")
				for (i = 1; i <= n; i++) {
					m = split(list[i], ways, "|")
					for (j = 1; j <= m; j++) {
						name = bare(ways[j])
						if (name in depends || name in provider) {
							queue[++end] = name
							break
						}
					}
				}
			}
		}'
}

# root_bare DIR PACKAGE...: files of these packages and of those they depend on, and no others
root_bare()
{
	root=$1/all
	shift
	mount -t tmpfs tmpfs "${root%/all}"
	mkdir "$root"
	chmod 755 "$root"
	installed "$@" >"$root.packages"
	{
		xargs dpkg-query -L <"$root.packages"
		find /etc/alternatives -type l
		awk 'FNR == 2 || /^\/(usr|etc|bin|lib)/' /var/lib/dpkg/alternatives/*
		ls -d /etc/passwd /etc/group /etc/hosts /etc/nsswitch.conf /etc/ld.so.conf
	} | grep -v -e '^/\.$' -e '^[^/]' | sort -u |
		while read -r file; do [ ! -e "$file" ] || echo "$file"; done >"$root.files"
	for link in /bin /lib* /sbin; do
		mkdir -p "$root$(realpath "$link")"
		[ ! -L "$link" ] || cp -a "$link" "$root/"
	done
	tar -C / --no-recursion -cf - -T "$root.files" 2>"$root.tar" | tar -C "$root" -xpf -
	root_mounts
	mkdir -p "$root/var/lib/dpkg/info" "$root/var/lib/dpkg/updates"
	cp /var/lib/dpkg/diversions /var/lib/dpkg/statoverride "$root/var/lib/dpkg/"
	xargs dpkg-query -s <"$root.packages" >"$root/var/lib/dpkg/status"
	while read -r package; do
		cp /var/lib/dpkg/info/"$package".* /var/lib/dpkg/info/"$package":*.* \
			"$root/var/lib/dpkg/info/" 2>/dev/null || :
	done <"$root.packages"
	chroot "$root" ldconfig
}

# root_packages: what was built, without symbols for debuggers, in the root's /tmp
root_packages()
{
	mkdir "$root/tmp/deb"
	cp "$WORK"/*.deb "$root/tmp/deb"
	rm -f "$root"/tmp/deb/*-dbgsym_*
	mkdir "$root/tmp/source"
	cp -r "$WORK"/tutti-*/debian "$root/tmp/source"
}

in_root()
{
	chroot "$root" env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
		HOME=/root LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive "$@"
}
