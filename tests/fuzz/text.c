/* SPDX-License-Identifier: MIT
 *
 * What people and the kernel write: mount options, SERVER:/EXPORT, whole command lines, lines of
 * /proc/self/mountinfo; ACLs as extended attributes. Input: which, 1 byte; the text, in which a newline
 * separates the words of a command line.
 */
#include "acl.h"
#include "mountinfo.h"
#include "options.h"

#include "fuzz.h"

#include <errno.h>

static void check_verdict(int ret, const char *err)
{
	size_t len = strnlen(err, OPTIONS_ERR_SIZE);
	require(ret == 0 || ret == -EINVAL);
	if (ret == 0)
		return;
	require(len > 0 && len < OPTIONS_ERR_SIZE);
	require(!memchr(err, '\n', len));
}

/* What the rest of the program relies on. */
static void check_options(const struct options *o)
{
	require(o->nconnect >= 1 && o->nconnect <= 16);
	require(o->rsize > 0 && o->wsize > 0 && o->rsize <= 1048576 && o->wsize <= 1048576);
	require(o->credits >= 1 && o->credits <= 256);
	require(o->local_lock != LOCAL_LOCK_UNSAID);
	require(o->server[0] && o->export[0] == '/');
	require(strnlen(o->server, sizeof o->server) < sizeof o->server);
	require(strnlen(o->export, sizeof o->export) < sizeof o->export);
	require(strnlen(o->mountpoint, sizeof o->mountpoint) < sizeof o->mountpoint);
}

static void try_command_line(char *text, struct options *o, char *err)
{
	char *argv[18] = {(char *)(uintptr_t) "nfsrdma"}, *save = NULL;
	int argc = 1;
	for (char *word = strtok_r(text, "\n", &save); word && argc < 17; word = strtok_r(NULL, "\n", &save))
		argv[argc++] = word;
	int ret = options_parse(o, argc, argv, true, err);
	check_verdict(ret, err);
	if (ret == 0 && o->action == OPTIONS_MOUNT)
		check_options(o);
}

static void try_source(const char *text, struct options *o, char *err)
{
	options_defaults(o, false);
	int ret = options_parse_source(o, text, err);
	check_verdict(ret, err);
	if (ret == 0)
		require(o->server[0] && o->export[0] == '/');
}

static void try_list(const char *text, struct options *o, char *err)
{
	options_defaults(o, true);
	check_verdict(options_parse_list(o, text, err), err);
}

/* The path has room for as many bytes as the text's first says, so that too little is tried too. */
static void try_mountinfo(char *text)
{
	struct mountinfo info;
	size_t size = 1 + (uint8_t)text[0];
	char *path = malloc(size);
	memset(path, 0, size);
	if (mountinfo_parse(text, path, size, &info)) {
		require(strnlen(path, size) < size);
		require(strnlen(info.type, sizeof info.type) < sizeof info.type);
		require(strnlen(info.source, sizeof info.source) < sizeof info.source);
	}
	free(path);
}

static void try_acl(const void *value, size_t len)
{
	static struct acl acl;
	int err = acl_from_xattr(&acl, value, len);
	require(err == 0 || err == -EINVAL || err == -EOPNOTSUPP || err == -E2BIG);
	if (err == 0 && acl.count)
		require(acl_valid(&acl));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct xdr_reader in = xdr_reader(data, len);
	uint8_t kind = take_u8(&in) % 5;
	size_t n = xdr_left(&in);
	char *text = malloc(n + 1), *err = calloc(1, OPTIONS_ERR_SIZE);
	struct options *o = malloc(sizeof *o);
	if (n)
		memcpy(text, in.pos, n);
	text[n] = 0;
	if (kind == 0)
		try_list(text, o, err);
	else if (kind == 1)
		try_source(text, o, err);
	else if (kind == 2)
		try_command_line(text, o, err);
	else if (kind == 3)
		try_mountinfo(text);
	else
		try_acl(text, n);
	free(o);
	free(err);
	free(text);
	return 0;
}
