/* SPDX-License-Identifier: MIT
 *
 * nfsrdma-exportd's request side: RPC calls, MOUNT and NFS, on a real export in $TMPDIR that is made anew for
 * each input. Input: 1 byte (enum how), 1 byte (how many bytes come at a time, HOW_STREAM), and up to
 * CALLS_MAX calls: length, 2 bytes; with HOW_APART the length of the data that came by RDMA, 2 bytes, and its
 * position in the call in words, 2 bytes (0xffff: its end); the call; that data. With HOW_STREAM, records of
 * a TCP connection instead.
 *
 * No fuzzer guesses a handle: a word 0xffffff00 + k of a call stands for the whole handle of enum object k.
 *
 * Whatever is asked for, nothing beside the export changes.
 */
#include "record.h"
#include "rpc.h"
#include "server.h"

#include "fuzz.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

enum how {
	HOW_STREAM = 1,
	HOW_APART = 2,
	HOW_NO_PAYLOAD = 4, /* the client has no room for a payload of its own */
	HOW_SHORT_REPLIES = 8,
	HOW_NO_SQUASH = 16,
	HOW_READ_ONLY = 32,
};

enum object { ROOT, DIRECTORY, FILE_, LINK, INNER, UNKNOWN, OBJECTS };

#define CALLS_MAX 6u
#define CALL_MAX_BYTES 8192u
#define PAYLOAD_MAX_BYTES (64u << 10)
#define PLACEHOLDER 0xffffff00u
#define NODES 64u
#define AT_THE_END (4u * 0xffff)

static struct server srv;
static char base[PATH_MAX];
static int base_fd, root_fd;
static struct fh handles[OBJECTS];
static struct stat outside_before;
static uint64_t inputs; /* each comes from an address of its own: its XIDs have not been seen */
static uint8_t *head;

/* ---- one call ---- */

static uint8_t *payload;

static uint8_t *payload_buffer(struct call *call, uint32_t len)
{
	require(!payload && len <= call->payload_max_bytes);
	payload = malloc(len);
	return payload;
}

static bool serve(uint8_t how, const uint8_t *msg, size_t len, const uint8_t *data, size_t data_len,
		  uint32_t data_pos, struct xdr_reader *reply)
{
	struct call call = {
		.srv = &srv,
		.msg = msg,
		.msg_len_bytes = (uint32_t)len,
		.data = data,
		.data_len_bytes = (uint32_t)data_len,
		.data_pos = data_pos,
		.reply_max_bytes = how & HOW_SHORT_REPLIES ? 1024 : REPLY_HEAD_MAX_BYTES,
		.payload_max_bytes = how & HOW_NO_PAYLOAD ? 0 : PAYLOAD_MAX_BYTES,
		.payload_buffer = payload_buffer,
		.head = xdr_writer(head, REPLY_HEAD_MAX_BYTES),
	};
	memcpy(call.peer, &inputs, sizeof inputs);
	call_waits_for_disk(msg, (uint32_t)len);
	bool answered = serve_call(&call);
	if (answered) {
		require(!call.head.stuck && xdr_written(&call.head) >= 20);
		require(call.payload_len_bytes <= call.payload_max_bytes);
		touch(head, xdr_written(&call.head));
		if (call.payload_len_bytes)
			touch(call.payload, call.payload_len_bytes);
	}
	free(payload);
	payload = NULL;
	*reply = xdr_reader(head, xdr_written(&call.head));
	return answered;
}

/* ---- the export ---- */

static void put_call(struct xdr_writer *w, uint32_t program, uint32_t proc)
{
	const uint32_t words[] = {1, 0, 2, program, 3, proc, 1, 20, 0, 0, 0, 0, 0, 0, 0};
	for (size_t i = 0; i < sizeof words / sizeof *words; i++)
		xdr_put_u32(w, words[i]);
}

/* Sends what w holds, and takes the handle from behind the status of the reply. */
static void ask_handle(struct xdr_writer *w, struct fh *fh)
{
	struct xdr_reader reply;
	require(serve(0, w->start, xdr_written(w), NULL, 0, 0, &reply));
	xdr_bytes(&reply, RPC_REPLY_HEAD_BYTES);
	require(xdr_u32(&reply) == NFS3_OK);
	const uint8_t *bytes = xdr_opaque(&reply, FH_MAX_BYTES, &fh->len_bytes);
	require(bytes);
	memcpy(fh->bytes, bytes, fh->len_bytes);
}

static void mount_root(void)
{
	uint8_t buf[PATH_MAX + 128];
	struct xdr_writer w = xdr_writer(buf, sizeof buf);
	put_call(&w, MOUNT_PROGRAM, 1);
	xdr_put_opaque(&w, srv.exports->path, (uint32_t)strlen(srv.exports->path));
	ask_handle(&w, &handles[ROOT]);
}

static void look_up(enum object in, const char *name, enum object as)
{
	uint8_t buf[512];
	struct xdr_writer w = xdr_writer(buf, sizeof buf);
	put_call(&w, NFS_PROGRAM, NFS3_LOOKUP);
	xdr_put_opaque(&w, handles[in].bytes, handles[in].len_bytes);
	xdr_put_opaque(&w, name, (uint32_t)strlen(name));
	ask_handle(&w, &handles[as]);
}

static void make_file(int dir, const char *name, const char *text)
{
	int fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
	require(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
	close(fd);
}

static int remove_one(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
	return ftw->level == 0 ? 0 : remove(path);
}

static void become_server(void)
{
	static const struct cred root;
	if (cred_can_switch())
		require(cred_become(&root) == 0);
}

static void make_tree(void)
{
	become_server();
	fchmod(root_fd, 0777);
	require(mkdirat(root_fd, "dir", 0777) == 0);
	make_file(root_fd, "file", "some text in a file");
	make_file(root_fd, "dir/inner", "");
	require(symlinkat("../outside", root_fd, "link") == 0);
	inputs++;
	mount_root();
	look_up(ROOT, "dir", DIRECTORY);
	look_up(ROOT, "file", FILE_);
	look_up(ROOT, "link", LINK);
	look_up(DIRECTORY, "inner", INNER);
	handles[UNKNOWN] = handles[FILE_];
	handles[UNKNOWN].bytes[10] ^= 1;
	inputs++;
}

static void remove_tree(void)
{
	become_server();
	for (unsigned int i = 0; i < OBJECTS; i++)
		nodes_forget(srv.nodes, &handles[i]);
	nftw(srv.exports->path, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static void check_outside(void)
{
	struct stat st;
	require(fstatat(base_fd, "outside", &st, AT_SYMLINK_NOFOLLOW) == 0);
	require(st.st_ino == outside_before.st_ino && st.st_mode == outside_before.st_mode &&
		st.st_uid == outside_before.st_uid && st.st_nlink == 1 &&
		st.st_size == outside_before.st_size && st.st_mtim.tv_nsec == outside_before.st_mtim.tv_nsec);
	require(fstat(base_fd, &st) == 0 && st.st_nlink == 3);
}

static void leave(void)
{
	become_server();
	nftw(base, remove_one, 8, FTW_DEPTH | FTW_PHYS);
	rmdir(base);
}

static void enter(void)
{
	const char *tmp = getenv("TMPDIR");
	char path[PATH_MAX + 8];
	umask(0);
	cred_init();
	snprintf(base, sizeof base, "%s/fuzz_exportd.XXXXXX", tmp ? tmp : "/tmp");
	require(mkdtemp(base) && (base_fd = open(base, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) >= 0);
	require(chmod(base, 0755) == 0);
	make_file(base_fd, "outside", "not for clients");
	require(fstatat(base_fd, "outside", &outside_before, 0) == 0);
	snprintf(path, sizeof path, "%s/export", base);
	require(mkdir(path, 0777) == 0 && (root_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) >= 0);
	require(node_init() == 0);
	srv.drc = drc_create(64);
	srv.nodes = nodes_create(NODES);
	srv.mounts = mounts_create();
	srv.exports = calloc(1, sizeof *srv.exports);
	require(export_open(srv.exports, path, srv.key) == 0);
	srv.exports_len = 1;
	head = malloc(REPLY_HEAD_MAX_BYTES);
	atexit(leave);
}

/* ---- calls ---- */

/* With handles for the words that stand for them; what does not fit is cut off. */
static size_t expand(const uint8_t *from, size_t len, uint8_t *to)
{
	struct xdr_reader r = xdr_reader(from, len);
	struct xdr_writer w = xdr_writer(to, CALL_MAX_BYTES);
	while (xdr_left(&r) >= 4 && !w.stuck) {
		uint32_t word = xdr_u32(&r);
		if (word >= PLACEHOLDER && word < PLACEHOLDER + OBJECTS)
			xdr_put_opaque(&w, handles[word - PLACEHOLDER].bytes,
				       handles[word - PLACEHOLDER].len_bytes);
		else
			xdr_put_u32(&w, word);
	}
	size_t left = xdr_left(&r);
	uint8_t *rest = xdr_reserve(&w, left);
	if (rest && left)
		memcpy(rest, xdr_bytes(&r, left), left);
	return xdr_written(&w);
}

static void serve_one(uint8_t how, const uint8_t *msg, size_t len, const uint8_t *data, size_t data_len,
		      uint32_t data_pos)
{
	struct xdr_reader reply;
	uint8_t *whole = malloc(CALL_MAX_BYTES);
	size_t whole_len = expand(msg, len, whole);
	whole = realloc(whole, whole_len ? whole_len : 1);
	if (data_pos == AT_THE_END)
		data_pos = (uint32_t)whole_len;
	serve(how, whole, whole_len, data, data_len, data_pos, &reply);
	free(whole);
}

static void serve_calls(uint8_t how, struct xdr_reader *in)
{
	for (unsigned int i = 0; i < CALLS_MAX && xdr_left(in); i++) {
		size_t len = take_u16(in), data_len = 0;
		uint32_t data_pos = 0;
		uint8_t *data = NULL;
		if (how & HOW_APART) {
			data_len = take_u16(in);
			data_pos = 4u * take_u16(in);
		}
		uint8_t *msg = take_copy(in, len, &len);
		if (how & HOW_APART)
			data = take_copy(in, data_len, &data_len);
		serve_one(how, msg, len, data, data_len, data_pos);
		free(data);
		free(msg);
	}
}

static void serve_stream(uint8_t how, size_t at_a_time, struct xdr_reader *in)
{
	uint8_t *buf = malloc(CALL_MAX_BYTES);
	struct record_buf r;
	unsigned int calls = 0;
	int ret = 0;
	record_init(&r, buf, CALL_MAX_BYTES);
	while (ret >= 0 && xdr_left(in) && calls < CALLS_MAX) {
		size_t room, len;
		const uint8_t *msg;
		uint8_t *to = record_room(&r, &room);
		require(room > 0 && to >= buf && to + room <= buf + CALL_MAX_BYTES);
		size_t n = at_a_time && room > at_a_time ? at_a_time : room;
		n = n < xdr_left(in) ? n : xdr_left(in);
		memcpy(to, xdr_bytes(in, n), n);
		record_filled(&r, n);
		while ((ret = record_next(&r, &msg, &len)) == 1 && calls++ < CALLS_MAX)
			serve_one(how, msg, len, NULL, 0, 0);
	}
	free(buf);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct xdr_reader in = xdr_reader(data, len);
	if (!head)
		enter();
	srv.root_squash = true;
	srv.read_only = false;
	make_tree();
	uint8_t how = take_u8(&in);
	size_t at_a_time = take_u8(&in);
	srv.root_squash = !(how & HOW_NO_SQUASH);
	srv.read_only = how & HOW_READ_ONLY;
	if (how & HOW_STREAM)
		serve_stream(how, at_a_time, &in);
	else
		serve_calls(how, &in);
	remove_tree();
	check_outside();
	return 0;
}
