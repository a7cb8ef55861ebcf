/* SPDX-License-Identifier: MIT
 *
 * NFSv3 as it stands in RFC 1813: numbers, and the arguments of each procedure as plain structures. The
 * decoders are pure: they read the message through the bounded reader and touch nothing else. What they hand
 * out points into the message.
 */
#ifndef EXPORTD_NFS3_H
#define EXPORTD_NFS3_H

#include "handle.h"
#include "xdr.h"

#include <stdbool.h>
#include <stdint.h>

#define NFS_PROGRAM 100003
#define NFS_V3 3
#define NFSACL_PROGRAM 100227
#define NFSACL_V3 3
#define MOUNT_PROGRAM 100005
#define MOUNT_V3 3

#define NFS3_NAME_MAX_BYTES 255
#define NFS3_LINK_MAX_BYTES 4095 /* PATH_MAX without its NUL: what symlink(2) takes */
#define NFS3_IO_MAX_BYTES (1024 * 1024)
#define NFS3_VERF_BYTES 8

enum nfs3_status {
	NFS3_OK = 0,
	NFS3ERR_PERM = 1,
	NFS3ERR_NOENT = 2,
	NFS3ERR_IO = 5,
	NFS3ERR_NXIO = 6,
	NFS3ERR_ACCES = 13,
	NFS3ERR_EXIST = 17,
	NFS3ERR_XDEV = 18,
	NFS3ERR_NODEV = 19,
	NFS3ERR_NOTDIR = 20,
	NFS3ERR_ISDIR = 21,
	NFS3ERR_INVAL = 22,
	NFS3ERR_FBIG = 27,
	NFS3ERR_NOSPC = 28,
	NFS3ERR_ROFS = 30,
	NFS3ERR_MLINK = 31,
	NFS3ERR_NAMETOOLONG = 63,
	NFS3ERR_NOTEMPTY = 66,
	NFS3ERR_DQUOT = 69,
	NFS3ERR_STALE = 70,
	NFS3ERR_REMOTE = 71,
	NFS3ERR_BADHANDLE = 10001,
	NFS3ERR_NOT_SYNC = 10002,
	NFS3ERR_BAD_COOKIE = 10003,
	NFS3ERR_NOTSUPP = 10004,
	NFS3ERR_TOOSMALL = 10005,
	NFS3ERR_SERVERFAULT = 10006,
	NFS3ERR_BADTYPE = 10007,
};

enum nfs3_proc {
	NFS3_NULL,
	NFS3_GETATTR,
	NFS3_SETATTR,
	NFS3_LOOKUP,
	NFS3_ACCESS,
	NFS3_READLINK,
	NFS3_READ,
	NFS3_WRITE,
	NFS3_CREATE,
	NFS3_MKDIR,
	NFS3_SYMLINK,
	NFS3_MKNOD,
	NFS3_REMOVE,
	NFS3_RMDIR,
	NFS3_RENAME,
	NFS3_LINK,
	NFS3_READDIR,
	NFS3_READDIRPLUS,
	NFS3_FSSTAT,
	NFS3_FSINFO,
	NFS3_PATHCONF,
	NFS3_COMMIT,
	NFS3_PROCS,
};

enum nfsacl_proc {
	NFSACL_NULL,
	NFSACL_GETACL,
	NFSACL_SETACL,
	NFSACL_PROCS,
};

#define ACL_ENTRIES_MAX 1024  /* of one ACL: as the kernel's server and client have it */
#define NFSACL_ENTRY_BYTES 12 /* type, id, permissions */
#define NFSACL_DEFAULT 0x1000 /* in the types of a default ACL */

/* What a call is about, and what a reply holds. */
enum nfsacl_mask {
	NFSACL_ACCESS = 1,
	NFSACL_ACCESS_COUNT = 2,
	NFSACL_DFLT = 4,
	NFSACL_DFLT_COUNT = 8,
	NFSACL_MASK_ALL = 15,
};

enum nfs3_type {
	NF3REG = 1,
	NF3DIR,
	NF3BLK,
	NF3CHR,
	NF3LNK,
	NF3SOCK,
	NF3FIFO,
};

enum nfs3_access {
	ACCESS3_READ = 0x01,
	ACCESS3_LOOKUP = 0x02,
	ACCESS3_MODIFY = 0x04,
	ACCESS3_EXTEND = 0x08,
	ACCESS3_DELETE = 0x10,
	ACCESS3_EXECUTE = 0x20,
};

enum nfs3_time_how { DONT_CHANGE, SET_TO_SERVER_TIME, SET_TO_CLIENT_TIME };
enum nfs3_stable { UNSTABLE, DATA_SYNC, FILE_SYNC };
enum nfs3_create_how { UNCHECKED, GUARDED, EXCLUSIVE };

struct nfs3_time {
	uint32_t sec, nsec;
};

struct nfs3_sattr {
	bool set_mode, set_uid, set_gid, set_size;
	uint32_t mode, uid, gid;
	uint64_t size;
	enum nfs3_time_how atime_how, mtime_how;
	struct nfs3_time atime, mtime;
};

struct nfs3_name {
	const uint8_t *bytes; /* not terminated */
	uint32_t len_bytes;
};

/* Payload of a call: in the message, or in a buffer of the transport when it came by DDP. */
struct nfs3_data {
	const uint8_t *bytes;
	uint32_t len_bytes;
};

struct nfs3_acl {
	const uint8_t *entries; /* len times NFSACL_ENTRY_BYTES, in the message */
	uint32_t len;
};

/* All procedures but NULL begin with a handle. One structure for all: the table of procedures says which of
 * it counts. */
struct nfs3_args {
	struct fh fh, fh2;	      /* fh2: RENAME's target directory, LINK's directory */
	struct nfs3_name name, name2; /* name2: RENAME's */
	struct nfs3_sattr attr;
	bool guarded; /* SETATTR */
	struct nfs3_time guard;
	uint32_t access;
	uint64_t offset, cookie;
	uint32_t count, dircount;
	enum nfs3_stable stable;
	struct nfs3_data data; /* WRITE, SYMLINK */
	enum nfs3_create_how how;
	uint8_t verf[NFS3_VERF_BYTES]; /* CREATE's, READDIR's */
	enum nfs3_type type;	       /* MKNOD */
	uint32_t major, minor;
	uint32_t mask; /* of GETACL and SETACL; SETACL: an ACL that it leaves out is empty */
	struct nfs3_acl acl, default_acl;
};

/* Where a call's payload lies when the transport has taken it out of the message (RFC 8267 §4). */
struct nfs3_ddp {
	const uint8_t *msg; /* the start of the RPC message: data_pos counts from here */
	const uint8_t *data;
	uint32_t data_len_bytes;
	uint32_t data_pos;
};

typedef bool nfs3_decode(struct xdr_reader *r, const struct nfs3_ddp *ddp, struct nfs3_args *args);

nfs3_decode nfs3_decode_fh; /* GETATTR, READLINK, FSSTAT, FSINFO, PATHCONF */
nfs3_decode nfs3_decode_setattr;
nfs3_decode nfs3_decode_dirop; /* LOOKUP, REMOVE, RMDIR */
nfs3_decode nfs3_decode_access;
nfs3_decode nfs3_decode_read;
nfs3_decode nfs3_decode_write;
nfs3_decode nfs3_decode_create;
nfs3_decode nfs3_decode_mkdir;
nfs3_decode nfs3_decode_symlink;
nfs3_decode nfs3_decode_mknod;
nfs3_decode nfs3_decode_rename;
nfs3_decode nfs3_decode_link;
nfs3_decode nfs3_decode_readdir;
nfs3_decode nfs3_decode_readdirplus;
nfs3_decode nfs3_decode_commit;
nfs3_decode nfs3_decode_getacl;
nfs3_decode nfs3_decode_setacl;

/* The one place where errno becomes a status; err is positive. What has no counterpart is NFS3ERR_IO. */
enum nfs3_status nfs3_status_of(int err);
enum nfs3_type nfs3_type_of(uint32_t st_mode);

#endif
