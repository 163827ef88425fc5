/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * forbid_vm COMMAND...: runs it without process_vm_readv and process_vm_writev, which end in EPERM
 * as they do in many containers and under ptrace_scope. What the command starts inherits this.
 */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 2, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_writev, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
	};
	struct sock_fprog prog = {sizeof(code) / sizeof(code[0]), code};

	if (argc < 2)
		return fprintf(stderr, "usage: forbid_vm COMMAND...\n"), 2;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog))
		return perror("forbid_vm: no filter"), 1;
	execvp(argv[1], argv + 1);
	return perror(argv[1]), 127;
}
