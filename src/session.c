/* SPDX-License-Identifier: MIT
 *
 * The FUSE session. What the kernel may cache, and what it leaves to us, is chosen here, each capability with
 * its reason.
 */
#include "session.h"
#include "fs.h"
#include "lane_priv.h"
#include "log.h"
#include "mount.h"
#include "mountinfo.h"
#include "notify.h"
#include "options.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static void on_init(void *userdata, struct fuse_conn_info *conn)
{
	struct nfs_mount *mount = userdata;
	unsigned int want = FUSE_CAP_ASYNC_READ | /* several READs of a file at once, in any order: read-ahead
						     fills the link */
			    FUSE_CAP_ASYNC_DIO |  /* the same for O_DIRECT */
			    FUSE_CAP_PARALLEL_DIROPS |	   /* lookups and listings of one directory at once */
			    FUSE_CAP_EXPLICIT_INVAL_DATA | /* we say when pages are stale: our own writes
							      change the mtime, too */
			    FUSE_CAP_HANDLE_KILLPRIV |	   /* the server clears set-user-id on a write: a
							      writer who is not the owner may not */
			    FUSE_CAP_READDIRPLUS |     /* a listing brings the attributes that ls -l wants */
			    FUSE_CAP_READDIRPLUS_AUTO; /* but not for those who only want names */
	/* Not wanted, and why:
	 * SPLICE_*: a WRITE's payload is read straight into registered memory, and a READ's is written from
	 * there. WRITEBACK_CACHE: the kernel would stop believing the server's size and times; others change
	 * files, too. AUTO_INVAL_DATA: would drop our pages at each write of our own, see
	 * EXPLICIT_INVAL_DATA. ATOMIC_O_TRUNC: the kernel sends SETATTR of the size after the OPEN instead,
	 * which waits for WRITEs in its own place.
	 * NO_OPEN_SUPPORT, NO_OPENDIR_SUPPORT: each open asks the server. IOCTL_DIR: there is none.
	 * EXPORT_SUPPORT: a node id that the kernel has forgotten means nothing to us.
	 * CACHE_SYMLINKS: a link's text would stay after others have replaced it under the same file id. */
	if (mount->acls) {
		want |= FUSE_CAP_DONT_MASK; /* a directory's default ACL takes the umask's place: NFSv3 knows
					       neither, and only we can ask which it is */
		if (mount->opts->default_permissions)
			want |= FUSE_CAP_POSIX_ACL; /* where the kernel checks, too, it checks ACLs: or it
						       would refuse what only an ACL grants */
	}
	if (options_posix_locks_are_servers(mount->opts))
		want |= FUSE_CAP_POSIX_LOCKS; /* fcntl(2) locks are the server's to give; without it, the
						 kernel's */
	if (options_flocks_are_servers(mount->opts))
		want |= FUSE_CAP_FLOCK_LOCKS; /* the same for flock(2) */
	if (!mount->opts->ac || mount->opts->acregmax == 0)
		want = (want & ~(unsigned int)FUSE_CAP_EXPLICIT_INVAL_DATA) |
		       FUSE_CAP_AUTO_INVAL_DATA; /* noac: each read(2) asks for the attributes first. Others:
						    see revalidate.h */
	if (!mount->opts->rdirplus)
		want &= ~(unsigned int)(FUSE_CAP_READDIRPLUS | FUSE_CAP_READDIRPLUS_AUTO);
	/* Needs no wanting. In an older kernel a name can only be dropped, with whatever is mounted on it. */
	mount->expires_names = conn->capable & FUSE_CAP_EXPIRE_ONLY;
	conn->want = want & conn->capable;
	fuse_channel_want(conn);
	conn->max_write = mount->wsize;
	conn->max_read = mount->rsize;
	conn->max_readahead = UINT_MAX; /* as much as the kernel allows; more by read_ahead_kb */
	conn->max_background = 256;	/* 12 by default: fewer than one lane's credits */
	conn->congestion_threshold = 192;
	mount->ready = true;
	lane_wake(mount->lanes[0]);
}

static const struct fuse_lowlevel_ops operations = {
	.access = fs_access,
	.create = fs_create,
	.flock = fs_flock,
	.flush = fs_flush,
	.forget = fs_forget,
	.forget_multi = fs_forget_multi,
	.fsync = fs_fsync,
	.getattr = fs_getattr,
	.getlk = fs_getlk,
	.getxattr = fs_getxattr,
	.init = on_init,
	.link = fs_link,
	.listxattr = fs_listxattr,
	.lookup = fs_lookup,
	.mkdir = fs_mkdir,
	.mknod = fs_mknod,
	.open = fs_open,
	.opendir = fs_opendir,
	.read = fs_read,
	.readdir = fs_readdir,
	.readdirplus = fs_readdirplus,
	.readlink = fs_readlink,
	.release = fs_release,
	.releasedir = fs_releasedir,
	.removexattr = fs_removexattr,
	.rename = fs_rename,
	.rmdir = fs_rmdir,
	.setattr = fs_setattr,
	.setlk = fs_setlk,
	.setxattr = fs_setxattr,
	.statfs = fs_statfs,
	.symlink = fs_symlink,
	.unlink = fs_unlink,
	.write = fs_write,
};

static const char *mountpoint_advice(int error)
{
	switch (error) {
	case ENOENT:
		return ": make the directory first";
	case ENOTDIR:
		return ": it must be a directory";
	case ENOTCONN:
		return ": a mount whose daemon has ended is still there: unmount it first";
	default:
		return "";
	}
}

int session_check_mountpoint(const char *mountpoint, const char *source, char *path, size_t path_size,
			     char *err)
{
	char real[PATH_MAX];
	struct stat st;
	struct mountinfo info;
	int error = 0;
	if (!realpath(mountpoint, real) || stat(real, &st))
		error = errno;
	else if (!S_ISDIR(st.st_mode))
		error = ENOTDIR;
	else if (strlen(real) >= path_size)
		error = ENAMETOOLONG;
	if (error) {
		snprintf(err, SESSION_ERR_SIZE, "mount point %.600s: %s%s", mountpoint, strerror(error),
			 mountpoint_advice(error));
		return -error;
	}
	if (mountinfo_find(real, &info) && strcmp(info.source, source) == 0 &&
	    strcmp(info.type, "fuse.nfsrdma") == 0) {
		snprintf(err, SESSION_ERR_SIZE, "mount point %.400s: busy, %.400s is mounted there already",
			 real, source);
		return -EBUSY;
	}
	strcpy(path, real);
	return 0;
}

static void add_option(char *list, size_t size, const char *name)
{
	size_t at = strlen(list);
	snprintf(list + at, size - at, "%s%s", at ? "," : "", name);
}

/* What libfuse and the kernel want to know at mount time. Commas in a name are libfuse's to escape: "\,". */
void session_options(const struct nfs_mount *mount, char *list)
{
	size_t size = SESSION_OPTIONS_MAX;
	const struct options *o = mount->opts;
	char text[2 * PATH_MAX], *to = text;
	list[0] = '\0';
	to += sprintf(to, "fsname=");
	for (const char *s = mount->source; *s && to < text + sizeof text - 3; s++) {
		if (*s == ',' || *s == '\\')
			*to++ = '\\';
		*to++ = *s;
	}
	*to = '\0';
	add_option(list, size, text);
	add_option(list, size, "subtype=nfsrdma");
	snprintf(text, sizeof text, "max_read=%u", mount->rsize);
	add_option(list, size, text);
	if (o->allow_other)
		add_option(list, size, "allow_other");
	if (o->default_permissions)
		add_option(list, size, "default_permissions");
	if (o->ro)
		add_option(list, size, "ro");
	if (!o->exec)
		add_option(list, size, "noexec");
	if (o->atime == ATIME_NOATIME)
		add_option(list, size, "noatime");
	if (o->dirsync && mount->by_root)
		add_option(list, size, "dirsync");
	add_option(list, size, o->suid && mount->by_root ? "suid" : "nosuid");
	add_option(list, size, o->dev && mount->by_root ? "dev" : "nodev");
}

/* The kernel's first message, and only then anything else, comes to lane 0. */
static int wait_for_init(struct nfs_mount *mount)
{
	struct lane *lane = mount->lanes[0];
	int err = fuse_channel_open(lane, fuse_session_fd(mount->session));
	if (err)
		return err;
	lane_enter(lane);
	while (!mount->ready && !fuse_session_exited(mount->session) && !atomic_load(&lane->unmounted))
		lane_turn(lane);
	lane_enter(NULL);
	return mount->ready ? 0 : -ENODEV;
}

/* Read-ahead is 128 KiB for a FUSE mount whatever INIT says; for root, sysfs has more. Found without touching
 * the mount. */
static void set_readahead(const struct nfs_mount *mount, const struct mountinfo *info)
{
	char path[128], text[32];
	snprintf(path, sizeof path, "/sys/class/bdi/%u:%u/read_ahead_kb", info->major, info->minor);
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return; /* not root, or no sysfs: slower, that is all */
	int n = snprintf(text, sizeof text, "%u", 4 * mount->rsize / 1024); /* four READs ahead */
	ssize_t wrote = write(fd, text, (size_t)n);
	(void)wrote;
	close(fd);
}

/* libfuse and fusermount3 say on standard error why they could not mount, in one line or two: ours shall be
 * the only one, with their reason in it. */
static int kernel_mount(struct nfs_mount *mount, char *err)
{
	char said[SESSION_ERR_SIZE / 2] = "";
	int aside = dup(STDERR_FILENO), catch = memfd_create("mount", MFD_CLOEXEC);
	if (aside >= 0 && catch >= 0)
		dup2(catch, STDERR_FILENO);
	int failed = fuse_session_mount(mount->session, mount->mountpoint);
	if (aside >= 0 && catch >= 0) {
		dup2(aside, STDERR_FILENO);
		ssize_t n = pread(catch, said, sizeof said - 1, 0);
		said[n > 0 ? n : 0] = '\0';
		said[strcspn(said, "\n")] = '\0';
	}
	if (aside >= 0)
		close(aside);
	if (catch >= 0)
		close(catch);
	if (failed)
		snprintf(err, SESSION_ERR_SIZE, "mount point %.400s: cannot mount: %s%s", mount->mountpoint,
			 said[0] ? said : "permission denied or no FUSE in the kernel",
			 mount->by_root ? "" : " (mount as root, or as you are on a directory of your own)");
	return failed;
}

int session_mount(struct nfs_mount *mount, char *err)
{
	char list[SESSION_OPTIONS_MAX], program[] = "nfsrdma", dash_o[] = "-o";
	char *argv[] = {program, dash_o, list, NULL};
	struct fuse_args args = FUSE_ARGS_INIT(3, argv);
	struct mountinfo info;

	session_options(mount, list);
	mount->session = fuse_session_new(&args, &operations, sizeof operations, mount);
	fuse_opt_free_args(&args);
	if (!mount->session) {
		snprintf(err, SESSION_ERR_SIZE, "%.600s: libfuse does not start a session",
			 mount->mountpoint);
		return -EINVAL;
	}
	if (kernel_mount(mount, err))
		return -EPERM;
	int error = fuse_session_custom_io(mount->session, &fuse_channel_io, fuse_session_fd(mount->session));
	if (!error)
		error = wait_for_init(mount);
	for (unsigned int i = 1; !error && i < mount->nlanes; i++)
		error = fuse_channel_open(mount->lanes[i], fuse_session_fd(mount->session));
	if (!error)
		error = notify_start(mount->session, NULL, NULL, &mount->notify);
	if (error) {
		snprintf(err, SESSION_ERR_SIZE, "%.600s: cannot start the FUSE session: %s",
			 mount->mountpoint, strerror(-error));
		fuse_session_unmount(mount->session);
		mount->lanes[0]->fuse_fd = -1; /* was the session's */
		return error;
	}
	mount->mounted = true;
	if (mountinfo_find(mount->mountpoint, &info)) {
		mount->connection = info.minor;
		mount->unpublished = stats_publish(mount->stats, info.major, info.minor);
		set_readahead(mount, &info);
	}
	return 0;
}

void session_unmount(struct nfs_mount *mount)
{
	char fusermount[] = "fusermount3", u[] = "-u", z[] = "-z", q[] = "-q", dashes[] = "--";
	char *argv[] = {fusermount, u, z, q, dashes, (char *)(uintptr_t)mount->mountpoint, NULL};
	pid_t pid;
	if (!mount->mounted)
		return;
	mount->mounted = false;
	if (mount->by_root)
		umount2(mount->mountpoint, MNT_DETACH | UMOUNT_NOFOLLOW);
	else if (posix_spawnp(&pid, fusermount, NULL, NULL, argv, environ) == 0)
		waitpid(pid, NULL, 0);
}

void session_abort(struct nfs_mount *mount)
{
	char path[64];
	if (!mount->connection)
		return;
	snprintf(path, sizeof path, "/sys/fs/fuse/connections/%u/abort", mount->connection);
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return; /* no fusectl here */
	ssize_t wrote = write(fd, "1", 1);
	(void)wrote;
	close(fd);
}

bool session_was_unmounted(const struct nfs_mount *mount)
{
	for (unsigned int i = 0; i < mount->nlanes; i++)
		if (mount->lanes[i] && atomic_load(&mount->lanes[i]->unmounted))
			return true;
	return false;
}

/* Ends the connection to the kernel of a mount that was unmounted lazily and is still in use, and leaves in
 * its place a descriptor that polls like that of one that is gone: a pipe without a reader. */
static bool sever(const struct nfs_mount *mount)
{
	int ends[2];
	if (pipe2(ends, O_CLOEXEC))
		return false;
	close(ends[0]);
	bool done = dup2(ends[1], fuse_session_fd(mount->session)) >= 0;
	close(ends[1]);
	return done;
}

void session_destroy(struct nfs_mount *mount)
{
	if (!mount->session)
		return;
	/* Only to free what libfuse keeps: it unmounts nothing when the connection is over. Of one that is
	 * not, it would take away whatever has been mounted there since. */
	if (session_was_unmounted(mount) || sever(mount))
		fuse_session_unmount(mount->session);
	fuse_session_destroy(mount->session);
	mount->session = NULL;
}
