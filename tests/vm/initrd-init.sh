#!/bin/busybox sh
# shellcheck shell=dash
# The guest's first process. Mounts the machine's root (9p, read-only) under a tmpfs overlay, the kernel's modules, the
# run's job folder and its shares, then becomes what `guestinit=` on the kernel command line names.
#
# All that can be done here is done here: busybox from memory starts ten times faster than programs over 9p.
/bin/busybox --install -s /bin
export PATH=/bin
mount -t proc proc /proc
mount -t devtmpfs devtmpfs /dev
mount -t sysfs sysfs /sys
for module in virtio_pci 9pnet_virtio 9p overlay; do modprobe -q "$module"; done

o=trans=virtio,version=9p2000.L,msize=512000
die() {
  echo "guest: $*" > /dev/console
  poweroff -f
}

mkdir -p /job /layer /sysroot
mount -t 9p -o "$o" job /job || die "cannot mount the job folder"
: > /job/started # from here on the harness never boots this run a second time
# shellcheck source=/dev/null
. /job/env

mount_root() {
  mount -t tmpfs -o size=50% layer /layer
  mkdir -p /layer/root /layer/up /layer/work
  mount -t 9p -o "$o,cache=loose,ro" root /layer/root || die "cannot mount the machine's root"
  mount -t overlay -o lowerdir=/layer/root,upperdir=/layer/up,workdir=/layer/work overlay /sysroot ||
    die "cannot mount the overlay"
  cd /sysroot || die "no root"
  mkdir -p dev sys proc job tmp run var/tmp mnt usr/lib/modules
  for folder in tmp run var/tmp mnt; do mount -t tmpfs -o mode=1777 tmpfs "$folder"; done
  mount -t 9p -o "$o,cache=loose,ro" modules usr/lib/modules || die "cannot mount the modules"
}

mount_system() {
  mkdir -p /dev/shm /dev/pts
  mount -t tmpfs -o mode=1777 tmpfs /dev/shm
  mount -t devpts -o gid=5,mode=620,ptmxmode=666 devpts /dev/pts
  ln -sfn /proc/self/fd /dev/fd
  ln -sfn fd/0 /dev/stdin
  ln -sfn fd/1 /dev/stdout
  ln -sfn fd/2 /dev/stderr
  modprobe -q configfs
  mount -t configfs configfs /sys/kernel/config
  mount -t debugfs debugfs /sys/kernel/debug
  mount -t tracefs tracefs /sys/kernel/tracing
  mount -t cgroup2 cgroup2 /sys/fs/cgroup
}

# Lines of /job/shares: TAG OPTIONS PATH, parents before children.
mount_shares() {
  while read -r tag options path; do
    mkdir -p "/sysroot$path" 2> /dev/null
    mount -t 9p -o "$o,$options" "$tag" "/sysroot$path" || die "cannot mount $path"
  done < /job/shares
}

set_limits() {
  ip link set lo up
  hostname guest
  if [ "$UBLKD_ICOUNT" = 0 ]; then # under icount an idle guest's clock leaps: such limits mean nothing
    echo 10 > /proc/sys/kernel/hung_task_check_interval_secs
    echo 30 > /proc/sys/kernel/hung_task_timeout_secs
  fi
  echo 30 > /proc/sys/kernel/watchdog_thresh # a busy machine may keep a virtual CPU waiting for long
}

load_modules() {
  modprobe -q virtio_console
  if [ "$GUEST_DRIVES" != 0 ]; then modprobe -qa nvme virtio_blk; fi
  if [ "$GUEST_UBLK" = 1 ]; then modprobe ublk_drv || echo "guest: no ublk_drv in this kernel" > /dev/console; fi
}

mount_root
mount_system 2> /dev/null
mount_shares
set_limits 2> /dev/null
load_modules
for folder in dev sys proc job; do mount -o move "/$folder" "/sysroot/$folder"; done
init=$(sed 's/.*guestinit=\([^ ]*\).*/\1/' /sysroot/proc/cmdline)
exec switch_root /sysroot /bin/sh "$init"
