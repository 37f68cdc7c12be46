#!/bin/sh
# shellcheck shell=dash
# Runs as the guest's init in the machine's root, which initrd-init.sh made ready: runs /job/cmd, leaves its exit status
# in /job/rc and the kernel log in /job/dmesg, powers off. /job/env holds the run's settings, quoted for the shell.
set -a
# shellcheck source=/dev/null
. /job/env
HOME=/root LC_ALL=C.UTF-8 PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
set +a

# Shortly before the harness ends a stuck run: says what is blocked, where the harness finds it.
tell_before_timeout() {
  sleep "$((GUEST_TIMEOUT_S > 40 ? GUEST_TIMEOUT_S - 20 : GUEST_TIMEOUT_S / 2))"
  echo w > /proc/sysrq-trigger
  ps -eo pid,ppid,stat,wchan:30,args > /job/processes
  dmesg > /job/dmesg
}

run_interactive() {
  stty -F /dev/ttyS1 sane rows "${GUEST_ROWS:-24}" cols "${GUEST_COLUMNS:-80}"
  setsid -c -w bash -i < /dev/ttyS1 > /dev/ttyS1 2>&1
}

# Output goes through a pipe: the port may be opened once only, and programs may open /dev/stdout again.
run_command() {
  for _ in 1 2 3 4 5 6 7 8 9 10; do # the driver makes the port a moment after it is loaded
    port=$(echo /dev/vport*p1)
    [ -c "$port" ] && break
    sleep 0.1
  done
  mkfifo /dev/guest-out
  cat < /dev/guest-out > "$port" &
  cat_pid=$!
  exec 3> /dev/guest-out
  setsid -w bash /job/cmd < /dev/null > /dev/guest-out 2>&1 3>&-
  status=$?
  exec 3>&-
  (sleep 2; kill "$cat_pid") 2> /dev/null & # something left running may hold the pipe
  wait "$cat_pid"
  return "$status"
}

finish() {
  dmesg > /job/dmesg
  echo "$1" > /job/rc.new
  mv /job/rc.new /job/rc
  busybox sync & # may never end where a device is stuck
  sync_pid=$!
  for _ in 1 2 3 4 5 6 7 8 9 10 11 12; do
    kill -0 "$sync_pid" 2> /dev/null || break
    busybox sleep 0.2
  done
  exec busybox poweroff -f
}

ulimit -n 1048576
ulimit -l unlimited
cd "$GUEST_CWD" 2> /dev/null || cd /
[ "$UBLKD_ICOUNT" = 1 ] || tell_before_timeout > /dev/null 2>&1 &
if [ "$GUEST_INTERACTIVE" = 1 ]; then run_interactive; else run_command; fi
finish $?
