/* SPDX-License-Identifier: MIT */
#include "nfs3.h"

#include <errno.h>
#include <sys/stat.h>

static const struct {
	int err;
	enum nfs3_status status;
} statuses[] = {
	{0, NFS3_OK},
	{EPERM, NFS3ERR_PERM},
	{ENOENT, NFS3ERR_NOENT},
	{EIO, NFS3ERR_IO},
	{ENXIO, NFS3ERR_NXIO},
	{EACCES, NFS3ERR_ACCES},
	{EEXIST, NFS3ERR_EXIST},
	{EXDEV, NFS3ERR_XDEV},
	{ENODEV, NFS3ERR_NODEV},
	{ENOTDIR, NFS3ERR_NOTDIR},
	{EISDIR, NFS3ERR_ISDIR},
	{EINVAL, NFS3ERR_INVAL},
	{EFBIG, NFS3ERR_FBIG},
	{ENOSPC, NFS3ERR_NOSPC},
	{EROFS, NFS3ERR_ROFS},
	{EMLINK, NFS3ERR_MLINK},
	{ENAMETOOLONG, NFS3ERR_NAMETOOLONG},
	{ENOTEMPTY, NFS3ERR_NOTEMPTY},
	{EDQUOT, NFS3ERR_DQUOT},
	{ESTALE, NFS3ERR_STALE},
	{EBADF, NFS3ERR_BADHANDLE}, /* fh_unseal(): not the form of a handle */
	{EOPNOTSUPP, NFS3ERR_NOTSUPP},
	{EBUSY, NFS3ERR_ACCES}, /* a mount point in the way; version 3 has no better word */
	{ETXTBSY, NFS3ERR_ACCES},
	{ELOOP, NFS3ERR_INVAL}, /* a link where openat2 wanted a directory */
	{EOVERFLOW, NFS3ERR_SERVERFAULT},
	{ENOMEM, NFS3ERR_SERVERFAULT},
	{EMFILE, NFS3ERR_SERVERFAULT},
	{ENFILE, NFS3ERR_SERVERFAULT},
};

enum nfs3_status nfs3_status_of(int err)
{
	for (size_t i = 0; i < sizeof statuses / sizeof *statuses; i++)
		if (statuses[i].err == err)
			return statuses[i].status;
	return NFS3ERR_IO;
}

enum nfs3_type nfs3_type_of(uint32_t st_mode)
{
	switch (st_mode & S_IFMT) {
	case S_IFDIR:
		return NF3DIR;
	case S_IFBLK:
		return NF3BLK;
	case S_IFCHR:
		return NF3CHR;
	case S_IFLNK:
		return NF3LNK;
	case S_IFSOCK:
		return NF3SOCK;
	case S_IFIFO:
		return NF3FIFO;
	default:
		return NF3REG;
	}
}
