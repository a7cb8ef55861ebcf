/* SPDX-License-Identifier: MIT
 *
 * The NFSv3 procedures (RFC 1813 section 3.3) as ONE table, with an encoder of calls and a decoder of replies
 * for each. Behind them stand those of NFSACL, the program beside NFS that carries POSIX ACLs on the same
 * connection; no RFC has it, what it is is what Solaris and Linux do.
 *
 * Who calls it: the lanes, on the hot path. Nothing here allocates, locks, logs, recurses or keeps state, so
 * any thread may call anything at any time.
 *
 * Calls leave as a whole RPC message that starts at the XID (offset 0 of the payload stream of RFC 8166),
 * with one exception: a WRITE's data and a SYMLINK's path are not encoded. The message stops behind their
 * opaque length word, and its length is therefore also the Position of the read chunk (RFC 8166
 * section 3.4.5): in both argument lists the payload comes last, so nothing follows it but padding. Who sends
 * the payload inline appends it and xdr_pad() zero bytes.
 *
 * Replies come from a network and are hostile. Every decoder reads through the bounded reader of xdr.h,
 * checks each maximum, and writes its result only if the whole reply was sound: 0, or -EBADMSG with the
 * result untouched. A sound reply may still be a refusal: then `status` is not NFS3_OK, and only the
 * attributes that a refusal carries are meaningful. Result pointers (names, inline data) point into the
 * message and live as long as it does.
 */
#ifndef NFS3_H
#define NFS3_H

#include "acl.h"

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cred;
struct xdr_reader;

#define NFS3_PROGRAM 100003u
#define NFS3_VERSION 3u
#define NFSACL_PROGRAM 100227
#define NFSACL_VERSION 3u

#define NFS3_FH_MAX 64u		/* NFS3_FHSIZE */
#define NFS3_VERF_SIZE 8u	/* cookie, create and write verifiers alike */
#define NFS3_NAME_MAX 255u	/* a component; NFSv3 sets no limit, Linux and every known server do */
#define NFS3_PATH_MAX 4095u	/* a symbolic link's path: PATH_MAX less its NUL */
#define NFS3_COUNT_MAX 1048576u /* most bytes that one READ or WRITE may carry: what servers accept */

/* ---- sizes on the wire, in bytes, as sums over the structures of RFC 1813 section 2.5 and 2.6 ---- */

enum {
	NFS3_W_STATUS = 4,
	NFS3_W_FATTR = 5 * 4 + 2 * 8 + 2 * 4 + 2 * 8 +
		       3 * 8, /* type..gid, size used, rdev, fsid fileid, three times */
	NFS3_W_POST_ATTR = 4 + NFS3_W_FATTR,
	NFS3_W_PRE_ATTR = 4 + 8 + 8 + 8, /* present, size, mtime, ctime */
	NFS3_W_WCC = NFS3_W_PRE_ATTR + NFS3_W_POST_ATTR,
	NFS3_W_FH = 4 + NFS3_FH_MAX,
	NFS3_W_POST_FH = 4 + NFS3_W_FH,
	NFS3_W_NEW_OBJECT =
		NFS3_W_STATUS + NFS3_W_POST_FH + NFS3_W_POST_ATTR + NFS3_W_WCC, /* CREATE and its like */
	/* READDIR's and READDIRPLUS's count limits the result behind the status word; some servers count a
	 * little differently, and a reply that does not fit is lost with its connection: so room for the head
	 * once more. */
	NFS3_W_DIR_HEAD = NFS3_W_STATUS + NFS3_W_POST_ATTR + NFS3_VERF_SIZE + 156,
	NFS3_W_ACL_HEAD = 4 + 4,			/* count, and the array's own */
	NFS3_W_ACE = 4 + 4 + 4,				/* type, id, permissions */
	NFS3_W_ACLS = 2 * ACL_ENTRIES_MAX * NFS3_W_ACE, /* the most entries that a GETACL may bring */
	/* XID, REPLY, MSG_ACCEPTED, AUTH_NONE verifier (flavor, length 0), SUCCESS (RFC 5531 section 9) */
	NFS3_W_RPC_REPLY = 6 * 4,
	/* XID, CALL, RPC version, program, version, procedure; credential flavor and length; verifier flavor
	   and length */
	NFS3_W_RPC_CALL = 6 * 4 + 2 * 4 + 2 * 4,
};
static_assert(NFS3_W_FATTR == 84 && NFS3_W_POST_ATTR == 88 && NFS3_W_WCC == 116,
	      "RFC 1813: reply chunks would be too short");
static_assert(NFS3_W_DIR_HEAD == 256, "slack of a directory listing");

/* What of a procedure may travel by RDMA (RFC 8267 section 4), and where its reply's variable part comes
 * from. */
enum nfs3_payload {
	NFS3_PAYLOAD_NONE, /* call and reply are short */
	NFS3_PAYLOAD_CALL, /* the call's last item: read chunk */
	NFS3_PAYLOAD_DATA, /* the reply's last item: write chunk */
	NFS3_PAYLOAD_LIST, /* the reply is long and not reducible: reply chunk */
};

/*
 * X(number, NAME, name, argument type, largest reply behind the RPC reply header and without variable
 * payload, payload, idempotent: may be sent again with a new XID without harm)
 */
#define NFS3_PROCS(X)                                                                                        \
	X(0, NULL, null, void, 0, NFS3_PAYLOAD_NONE, true)                                                   \
	X(1, GETATTR, getattr, struct nfs3_fh, NFS3_W_STATUS + NFS3_W_FATTR, NFS3_PAYLOAD_NONE, true)        \
	X(2, SETATTR, setattr, struct nfs3_setattr_args, NFS3_W_STATUS + NFS3_W_WCC, NFS3_PAYLOAD_NONE,      \
	  false)                                                                                             \
	X(3, LOOKUP, lookup, struct nfs3_dirop, NFS3_W_STATUS + NFS3_W_FH + 2 * NFS3_W_POST_ATTR,            \
	  NFS3_PAYLOAD_NONE, true)                                                                           \
	X(4, ACCESS, access, struct nfs3_access_args, NFS3_W_STATUS + NFS3_W_POST_ATTR + 4,                  \
	  NFS3_PAYLOAD_NONE, true)                                                                           \
	X(5, READLINK, readlink, struct nfs3_fh, NFS3_W_STATUS + NFS3_W_POST_ATTR + 4, NFS3_PAYLOAD_DATA,    \
	  true)                                                                                              \
	X(6, READ, read, struct nfs3_read_args, NFS3_W_STATUS + NFS3_W_POST_ATTR + 4 + 4 + 4,                \
	  NFS3_PAYLOAD_DATA, true)                                                                           \
	X(7, WRITE, write, struct nfs3_write_args, NFS3_W_STATUS + NFS3_W_WCC + 4 + 4 + NFS3_VERF_SIZE,      \
	  NFS3_PAYLOAD_CALL, true)                                                                           \
	X(8, CREATE, create, struct nfs3_create_args, NFS3_W_NEW_OBJECT, NFS3_PAYLOAD_NONE, false)           \
	X(9, MKDIR, mkdir, struct nfs3_mkdir_args, NFS3_W_NEW_OBJECT, NFS3_PAYLOAD_NONE, false)              \
	X(10, SYMLINK, symlink, struct nfs3_symlink_args, NFS3_W_NEW_OBJECT, NFS3_PAYLOAD_CALL, false)       \
	X(11, MKNOD, mknod, struct nfs3_mknod_args, NFS3_W_NEW_OBJECT, NFS3_PAYLOAD_NONE, false)             \
	X(12, REMOVE, remove, struct nfs3_dirop, NFS3_W_STATUS + NFS3_W_WCC, NFS3_PAYLOAD_NONE, false)       \
	X(13, RMDIR, rmdir, struct nfs3_dirop, NFS3_W_STATUS + NFS3_W_WCC, NFS3_PAYLOAD_NONE, false)         \
	X(14, RENAME, rename, struct nfs3_rename_args, NFS3_W_STATUS + 2 * NFS3_W_WCC, NFS3_PAYLOAD_NONE,    \
	  false)                                                                                             \
	X(15, LINK, link, struct nfs3_link_args, NFS3_W_STATUS + NFS3_W_POST_ATTR + NFS3_W_WCC,              \
	  NFS3_PAYLOAD_NONE, false)                                                                          \
	X(16, READDIR, readdir, struct nfs3_readdir_args, NFS3_W_DIR_HEAD, NFS3_PAYLOAD_LIST, true)          \
	X(17, READDIRPLUS, readdirplus, struct nfs3_readdirplus_args, NFS3_W_DIR_HEAD, NFS3_PAYLOAD_LIST,    \
	  true)                                                                                              \
	X(18, FSSTAT, fsstat, struct nfs3_fh, NFS3_W_STATUS + NFS3_W_POST_ATTR + 6 * 8 + 4,                  \
	  NFS3_PAYLOAD_NONE, true)                                                                           \
	X(19, FSINFO, fsinfo, struct nfs3_fh, NFS3_W_STATUS + NFS3_W_POST_ATTR + 7 * 4 + 8 + 8 + 4,          \
	  NFS3_PAYLOAD_NONE, true)                                                                           \
	X(20, PATHCONF, pathconf, struct nfs3_fh, NFS3_W_STATUS + NFS3_W_POST_ATTR + 2 * 4 + 4 * 4,          \
	  NFS3_PAYLOAD_NONE, true)                                                                           \
	X(21, COMMIT, commit, struct nfs3_commit_args, NFS3_W_STATUS + NFS3_W_WCC + NFS3_VERF_SIZE,          \
	  NFS3_PAYLOAD_NONE, true)

/* NFSACL's, numbered on behind: what is procedure n there is NFSPROC3_COMMIT + n here. A reply's variable
 * part is both lists of entries. */
#define NFSACL_PROCS(X)                                                                                      \
	X(22, GETACL, getacl, struct nfs3_getacl_args,                                                       \
	  NFS3_W_STATUS + NFS3_W_POST_ATTR + 4 + 2 * NFS3_W_ACL_HEAD, NFS3_PAYLOAD_LIST, true)               \
	X(23, SETACL, setacl, struct nfs3_setacl_args, NFS3_W_STATUS + NFS3_W_POST_ATTR, NFS3_PAYLOAD_NONE,  \
	  false)

#define ALL_PROCS(X) NFS3_PROCS(X) NFSACL_PROCS(X)

enum nfs3_proc {
#define X(number, NAME, name, args, reply, payload, idempotent) NFSPROC3_##NAME = number,
	ALL_PROCS(X)
#undef X
		NFSPROC3_COUNT
};
static_assert(NFSPROC3_COMMIT == 21, "RFC 1813 section 3.3: procedures 0 to 21");
static_assert(NFSPROC3_SETACL - NFSPROC3_COMMIT == 2, "NFSACL: GETACL is 1, SETACL is 2");

static inline bool nfs3_is_acl_proc(enum nfs3_proc proc)
{
	return proc > NFSPROC3_COMMIT;
}

struct nfs3_proc_info {
	const char *name; /* as RFC 1813 spells it: for traces and counters */
	uint32_t reply_bytes;
	enum nfs3_payload payload;
	bool idempotent;
};
extern const struct nfs3_proc_info nfs3_procs[NFSPROC3_COUNT];

/* Largest reply in bytes, RPC header included, when its variable part (data, path, listing) is at most
 * `variable_bytes`. */
uint32_t nfs3_reply_max(enum nfs3_proc proc, uint32_t variable_bytes);

/* ---- plain data ---- */

enum nfs3_type { NFS3_REG = 1, NFS3_DIR, NFS3_BLK, NFS3_CHR, NFS3_LNK, NFS3_SOCK, NFS3_FIFO };
enum nfs3_stable { NFS3_UNSTABLE, NFS3_DATA_SYNC, NFS3_FILE_SYNC };
enum nfs3_create_mode { NFS3_UNCHECKED, NFS3_GUARDED, NFS3_EXCLUSIVE };
enum nfs3_time_how { NFS3_TIME_KEEP, NFS3_TIME_SERVER, NFS3_TIME_CLIENT };

enum {
	NFS3_ACCESS_READ = 0x01,
	NFS3_ACCESS_LOOKUP = 0x02,
	NFS3_ACCESS_MODIFY = 0x04,
	NFS3_ACCESS_EXTEND = 0x08,
	NFS3_ACCESS_DELETE = 0x10,
	NFS3_ACCESS_EXECUTE = 0x20,
};

enum {
	NFS3_FSF_LINK = 0x01,
	NFS3_FSF_SYMLINK = 0x02,
	NFS3_FSF_HOMOGENEOUS = 0x08,
	NFS3_FSF_CANSETTIME = 0x10
};

/* libnfs has these very names and values: a file that needs both headers includes libnfs's first. */
#ifndef _NFS_H_RPCGEN
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
	NFS3ERR_JUKEBOX = 10008,
};
#endif

/*
 * The one translation of nfsstat3: 0 or -errno. JUKEBOX ("not now": the file is on its way from slow storage)
 * is -EAGAIN, and nothing else is: whoever gets it waits and sends the call again with a new XID; it never
 * reaches an application. Statuses that the RFC does not list are -EIO.
 */
int nfs3_errno(uint32_t status);

struct nfs3_fh {
	uint32_t len; /* 1..64 */
	uint8_t data[NFS3_FH_MAX];
};

struct nfs3_time {
	uint32_t sec; /* since 1970; unsigned on the wire: to 2106 */
	uint32_t nsec;
};

struct nfs3_attr {
	enum nfs3_type type;
	uint32_t mode; /* permission bits with setuid, setgid and sticky (07777), without the file type */
	uint32_t nlink;
	uint32_t uid;
	uint32_t gid;
	uint32_t rdev_major;
	uint32_t rdev_minor;
	uint64_t size;
	uint64_t used;
	uint64_t fsid;
	uint64_t fileid;
	struct nfs3_time atime;
	struct nfs3_time mtime;
	struct nfs3_time ctime;
};

struct nfs3_post_attr {
	bool present;
	struct nfs3_attr attr;
};

struct nfs3_post_fh {
	bool present;
	struct nfs3_fh fh;
};

struct nfs3_pre_attr {
	bool present;
	uint64_t size;
	struct nfs3_time mtime;
	struct nfs3_time ctime;
};

struct nfs3_wcc {
	struct nfs3_pre_attr before;
	struct nfs3_post_attr after;
};

struct nfs3_sattr {
	bool set_mode;
	bool set_uid;
	bool set_gid;
	bool set_size;
	uint32_t mode;
	uint32_t uid;
	uint32_t gid;
	uint64_t size;
	enum nfs3_time_how atime_how;
	enum nfs3_time_how mtime_how;
	struct nfs3_time atime; /* with NFS3_TIME_CLIENT */
	struct nfs3_time mtime;
};

/* ---- arguments: handles and names are lent for the call ---- */

struct nfs3_dirop {
	const struct nfs3_fh *dir;
	const char *name; /* one component of 1 to 255 bytes, NUL at its end */
};

struct nfs3_setattr_args {
	const struct nfs3_fh *object;
	struct nfs3_sattr attr;
	bool guard; /* only if the object's ctime is still guard_ctime */
	struct nfs3_time guard_ctime;
};

struct nfs3_access_args {
	const struct nfs3_fh *object;
	uint32_t access; /* NFS3_ACCESS_* */
};

struct nfs3_read_args {
	const struct nfs3_fh *file;
	uint64_t offset;
	uint32_t count;
};

struct nfs3_write_args {
	const struct nfs3_fh *file;
	uint64_t offset;
	uint32_t count; /* bytes of payload, which travels apart */
	enum nfs3_stable stable;
};

struct nfs3_create_args {
	struct nfs3_dirop where;
	enum nfs3_create_mode mode;
	struct nfs3_sattr attr;	      /* UNCHECKED and GUARDED */
	uint8_t verf[NFS3_VERF_SIZE]; /* EXCLUSIVE */
};

struct nfs3_mkdir_args {
	struct nfs3_dirop where;
	struct nfs3_sattr attr;
};

struct nfs3_symlink_args {
	struct nfs3_dirop where;
	struct nfs3_sattr attr;
	uint32_t path_len; /* bytes of payload, which travels apart: 1..NFS3_PATH_MAX */
};

struct nfs3_mknod_args {
	struct nfs3_dirop where;
	enum nfs3_type type; /* CHR, BLK, SOCK or FIFO */
	struct nfs3_sattr attr;
	uint32_t major; /* CHR and BLK */
	uint32_t minor;
};

struct nfs3_rename_args {
	struct nfs3_dirop from;
	struct nfs3_dirop to;
};

struct nfs3_link_args {
	const struct nfs3_fh *file;
	struct nfs3_dirop link;
};

struct nfs3_readdir_args {
	const struct nfs3_fh *dir;
	uint64_t cookie;
	uint8_t verf[NFS3_VERF_SIZE];
	uint32_t count;
};

struct nfs3_readdirplus_args {
	const struct nfs3_fh *dir;
	uint64_t cookie;
	uint8_t verf[NFS3_VERF_SIZE];
	uint32_t dircount;
	uint32_t maxcount;
};

struct nfs3_commit_args {
	const struct nfs3_fh *file;
	uint64_t offset;
	uint32_t count; /* 0: to the end of the file */
};

enum {
	NFS3_ACL_ACCESS = 0x1,
	NFS3_ACL_ACCESS_COUNT = 0x2,
	NFS3_ACL_DEFAULT = 0x4,
	NFS3_ACL_DEFAULT_COUNT = 0x8,
};

#define NFS3_ACL_DEFAULT_TYPES 0x1000u /* in the types of a default ACL's entries */

struct nfs3_getacl_args {
	const struct nfs3_fh *object;
	uint32_t mask; /* NFS3_ACL_* */
};

/* Replaces the ACLs that are sent; a directory's default ACL is taken away when it is not sent. */
struct nfs3_setacl_args {
	const struct nfs3_fh *object;
	uint32_t owner, group;	  /* the object's: they stand in the entries USER_OBJ and GROUP_OBJ */
	const struct acl *access; /* valid */
	const struct acl *dflt;	  /* NULL: no directory; count 0: none */
};

/*
 * Encodes a call into buf (4-byte aligned): RPC header with XID, program and procedure, AUTH_SYS credential
 * and AUTH_NONE verifier, then the arguments; `args` is the type that the table names. Returns the length in
 * bytes, or
 *	-EMSGSIZE      it does not fit into size_bytes; NFS3_CALL_MAX always does, but for SETACL: there
 *		       NFS3_W_ACE more for each entry
 *	-EINVAL        a handle length of 0 or over 64, an empty name, a type or count that the protocol lacks
 *	-ENAMETOOLONG  a name over 255 bytes
 * Nothing is ever written behind size_bytes.
 */
int nfs3_encode(void *buf, size_t size_bytes, uint32_t xid, const struct cred *cred, enum nfs3_proc proc,
		const void *args);

/* The same, with the argument type checked: nfs3_encode_lookup(buf, size, xid, cred, &(struct
 * nfs3_dirop){...}). */
#define X(number, NAME, name, args_type, reply, payload, idempotent)                                         \
	static inline int nfs3_encode_##name(void *buf, size_t size_bytes, uint32_t xid,                     \
					     const struct cred *cred, const args_type *args)                 \
	{                                                                                                    \
		return nfs3_encode(buf, size_bytes, xid, cred, NFSPROC3_##NAME, args);                       \
	}
ALL_PROCS(X)
#undef X

/* The longest call (RENAME): header, largest credential (cred.h), two handles and two names. */
#define NFS3_CRED_BODY_MAX 148u
#define NFS3_CALL_MAX (NFS3_W_RPC_CALL + NFS3_CRED_BODY_MAX + 2 * (NFS3_W_FH + 4 + 256))

/* ---- results ---- */

struct nfs3_attr_res { /* GETATTR */
	uint32_t status;
	struct nfs3_attr attr;
};

struct nfs3_wcc_res { /* SETATTR, REMOVE, RMDIR: in refusals too */
	uint32_t status;
	struct nfs3_wcc wcc;
};

struct nfs3_lookup_res {
	uint32_t status;
	struct nfs3_fh fh;
	struct nfs3_post_attr attr;
	struct nfs3_post_attr dir_attr; /* in refusals too */
};

struct nfs3_access_res {
	uint32_t status;
	struct nfs3_post_attr attr; /* in refusals too */
	uint32_t access;	    /* of the bits that were asked for, those granted */
};

struct nfs3_readlink_res {
	uint32_t status;
	struct nfs3_post_attr attr; /* in refusals too */
	uint32_t len;		    /* 1..NFS3_PATH_MAX */
	const char *path;	    /* in the message, no NUL at its end; NULL when it was placed by RDMA */
};

struct nfs3_read_res {
	uint32_t status;
	struct nfs3_post_attr attr; /* in refusals too */
	uint32_t count;		    /* bytes read: at most what was asked, fewer is legal */
	bool eof;
	const uint8_t *data; /* in the message; NULL when it was placed by RDMA or count is 0 */
};

struct nfs3_write_res {
	uint32_t status;
	struct nfs3_wcc wcc; /* in refusals too */
	uint32_t count;	     /* bytes written: at most what was asked, fewer is legal */
	enum nfs3_stable committed;
	uint8_t verf[NFS3_VERF_SIZE];
};

struct nfs3_create_res { /* CREATE, MKDIR, SYMLINK, MKNOD */
	uint32_t status;
	struct nfs3_post_fh fh;
	struct nfs3_post_attr attr;
	struct nfs3_wcc dir_wcc; /* in refusals too */
};

struct nfs3_rename_res { /* in refusals too */
	uint32_t status;
	struct nfs3_wcc from_wcc;
	struct nfs3_wcc to_wcc;
};

struct nfs3_link_res { /* in refusals too */
	uint32_t status;
	struct nfs3_post_attr attr;
	struct nfs3_wcc dir_wcc;
};

struct nfs3_fsstat_res {
	uint32_t status;
	struct nfs3_post_attr attr; /* in refusals too */
	uint64_t total_bytes;
	uint64_t free_bytes;
	uint64_t avail_bytes; /* to the caller */
	uint64_t total_files;
	uint64_t free_files;
	uint64_t avail_files;
	uint32_t invarsec; /* seconds for which the server expects no change */
};

/* Sizes as the server said them: 0 and absurd values are possible, the caller clamps. */
struct nfs3_fsinfo_res {
	uint32_t status;
	struct nfs3_post_attr attr; /* in refusals too */
	uint32_t rtmax, rtpref, rtmult;
	uint32_t wtmax, wtpref, wtmult;
	uint32_t dtpref;
	uint64_t maxfilesize;
	struct nfs3_time time_delta;
	uint32_t properties; /* NFS3_FSF_* */
};

struct nfs3_pathconf_res {
	uint32_t status;
	struct nfs3_post_attr attr; /* in refusals too */
	uint32_t linkmax;
	uint32_t name_max;
	bool no_trunc;
	bool chown_restricted;
	bool case_insensitive;
	bool case_preserving;
};

struct nfs3_commit_res {
	uint32_t status;
	struct nfs3_wcc wcc; /* in refusals too */
	uint8_t verf[NFS3_VERF_SIZE];
};

struct nfs3_getacl_res {
	uint32_t status;
	struct nfs3_post_attr attr; /* in refusals too */
	/* What was asked for: each valid, or empty. */
	struct acl access;
	struct acl dflt;
};

struct nfs3_setacl_res {
	uint32_t status;
	struct nfs3_post_attr attr; /* in refusals too */
};

/*
 * Reads the RPC reply header (RFC 5531 section 9) and leaves r at the result. The caller has matched the XID.
 * 0, or
 *	-EBADMSG          not an RPC reply, or cut short
 *	-EACCES           the server refuses our credential (any auth_stat)
 *	-EPROTONOSUPPORT  it does not serve that program, or not RPC version 2
 *	-EOPNOTSUPP       it lacks this procedure
 *	-EIO              it could not decode our call (GARBAGE_ARGS), or failed (SYSTEM_ERR)
 */
int nfs3_reply_header(struct xdr_reader *r);

int nfs3_decode_getattr(struct xdr_reader *r, struct nfs3_attr_res *res);
int nfs3_decode_setattr(struct xdr_reader *r, struct nfs3_wcc_res *res);
int nfs3_decode_lookup(struct xdr_reader *r, struct nfs3_lookup_res *res);
int nfs3_decode_access(struct xdr_reader *r, uint32_t asked, struct nfs3_access_res *res);

/* nfs3_decode_getattr(), with a refusal of the server's as an error, too (nfs3_errno()). */
int nfs3_getattr_verdict(struct xdr_reader *r, struct nfs3_attr_res *res);

/*
 * READLINK and READ: placed_bytes is what the server put into our memory by RDMA Write, as its returned write
 * chunk says; then the length word in the message must say the same, and no bytes follow it. 0: not reduced,
 * the bytes are in the message. A READ reply must be consistent: data length == count <= asked.
 */
int nfs3_decode_readlink(struct xdr_reader *r, uint32_t placed_bytes, struct nfs3_readlink_res *res);
int nfs3_decode_read(struct xdr_reader *r, uint32_t asked, uint32_t placed_bytes, struct nfs3_read_res *res);

int nfs3_decode_write(struct xdr_reader *r, uint32_t asked, struct nfs3_write_res *res);
int nfs3_decode_create(struct xdr_reader *r, struct nfs3_create_res *res); /* also MKDIR, SYMLINK, MKNOD */
int nfs3_decode_remove(struct xdr_reader *r, struct nfs3_wcc_res *res);	   /* also RMDIR */
int nfs3_decode_rename(struct xdr_reader *r, struct nfs3_rename_res *res);
int nfs3_decode_link(struct xdr_reader *r, struct nfs3_link_res *res);
int nfs3_decode_fsstat(struct xdr_reader *r, struct nfs3_fsstat_res *res);
int nfs3_decode_fsinfo(struct xdr_reader *r, struct nfs3_fsinfo_res *res);
int nfs3_decode_pathconf(struct xdr_reader *r, struct nfs3_pathconf_res *res);
int nfs3_decode_commit(struct xdr_reader *r, struct nfs3_commit_res *res);
/* asked: the mask of the call. A reply that lacks some of it is bad. */
int nfs3_decode_getacl(struct xdr_reader *r, uint32_t asked, struct nfs3_getacl_res *res);
int nfs3_decode_setacl(struct xdr_reader *r, struct nfs3_setacl_res *res);

/* A path that a symbolic link may hold: 1..NFS3_PATH_MAX bytes without NUL. For a path that was placed by
 * RDMA. */
bool nfs3_path_ok(const char *path, uint32_t len_bytes);

/*
 * Directory listings (READDIR and READDIRPLUS) are read in place, one entry at a time:
 *
 *	err = nfs3_list_begin(&list, &r, plus, &head);
 *	while (!err && head.status == NFS3_OK && (err = nfs3_list_next(&list, &entry)) == 1)
 *		use(&entry);
 *	if (!err && list.eof) the directory ends here; else go on from list.cookie
 */
struct nfs3_list_head {
	uint32_t status;
	struct nfs3_post_attr dir_attr; /* in refusals too */
	uint8_t verf[NFS3_VERF_SIZE];
};

struct nfs3_entry {
	uint64_t fileid;
	uint64_t cookie;
	const char *name; /* in the message, no NUL at its end */
	uint32_t name_len;
	bool dot;		    /* "." or "..": passed through, never to be looked up */
	struct nfs3_post_attr attr; /* READDIRPLUS */
	struct nfs3_post_fh fh;	    /* READDIRPLUS */
};

struct nfs3_list {
	const uint8_t *pos; /* what is left of the message */
	const uint8_t *end;
	bool plus;
	bool done;	  /* the end of the list was read, or the list is broken */
	bool eof;	  /* meaningful once nfs3_list_next() returned 0 */
	uint32_t skipped; /* entries left out: names that are empty, over 255 bytes, or hold '/' or NUL */
	uint64_t cookie;  /* of the last entry read, skipped ones too: where the next call goes on */
};

/* Initialises list in every case; a list whose head was bad or a refusal has no entries. */
int nfs3_list_begin(struct nfs3_list *list, struct xdr_reader *r, bool plus, struct nfs3_list_head *head);

/* 1 with an entry, 0 at the end, -EBADMSG (from then on for ever) if the list is broken. */
int nfs3_list_next(struct nfs3_list *list, struct nfs3_entry *entry);

#endif
