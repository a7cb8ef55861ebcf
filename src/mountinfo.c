/* SPDX-License-Identifier: MIT */
#include "mountinfo.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* \040 and the like, in place. */
static void unescape(char *text)
{
	char *to = text;
	for (; *text; text++) {
		if (text[0] == '\\' && text[1] >= '0' && text[1] <= '3' && text[2] >= '0' && text[2] <= '7' &&
		    text[3] >= '0' && text[3] <= '7') {
			*to++ = (char)((text[1] - '0') * 64 + (text[2] - '0') * 8 + (text[3] - '0'));
			text += 3;
		} else {
			*to++ = *text;
		}
	}
	*to = '\0';
}

/* proc_pid_mountinfo(5): "36 35 98:0 /root /mnt options optional... - type source superoptions" */
bool mountinfo_parse(char *line, char *path, size_t path_size, struct mountinfo *info)
{
	char *save = NULL, *field = strtok_r(line, " \n", &save);
	for (int i = 0; field && i < 6; i++, field = strtok_r(NULL, " \n", &save)) {
		if (i == 2 && sscanf(field, "%u:%u", &info->major, &info->minor) != 2)
			return false;
		if (i == 4) {
			unescape(field);
			if (strlen(field) >= path_size)
				return false;
			strcpy(path, field);
		}
	}
	while (field && strcmp(field, "-") != 0)
		field = strtok_r(NULL, " \n", &save);
	char *type = field ? strtok_r(NULL, " \n", &save) : NULL;
	char *source = type ? strtok_r(NULL, " \n", &save) : NULL;
	if (!source)
		return false;
	unescape(source);
	snprintf(info->type, sizeof info->type, "%s", type);
	snprintf(info->source, sizeof info->source, "%s", source);
	return true;
}

bool mountinfo_find(const char *path, struct mountinfo *info)
{
	FILE *f = fopen("/proc/self/mountinfo", "re");
	char *line = NULL, at[PATH_MAX];
	size_t size = 0;
	bool found = false;
	struct mountinfo one;
	if (!f)
		return false;
	while (getline(&line, &size, f) > 0) {
		if (!mountinfo_parse(line, at, sizeof at, &one) || strcmp(at, path) != 0)
			continue;
		*info = one; /* a later line is mounted over an earlier one */
		found = true;
	}
	free(line);
	fclose(f);
	return found;
}
