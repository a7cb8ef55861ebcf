/* SPDX-License-Identifier: MIT
 *
 * The OPTIONS section of nfsrdma(8) against the option table: the same options, arguments and defaults, both
 * ways round. In the page each option is a paragraph that opens with ".TP" and ".B name" or ".B
 * name=ARGUMENT".
 */
#include "options.h"

#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define PARAGRAPHS_MAX 200

struct paragraph {
	char head[100];
	char text[2000];
};
static struct paragraph paragraphs[PARAGRAPHS_MAX];
static size_t count;

static void add_line(struct paragraph *p, const char *line)
{
	size_t len = strlen(p->text);
	snprintf(p->text + len, sizeof p->text - len, "\n%s", line);
}

/* Reads the paragraphs of the OPTIONS section. */
static int read_page(void **state)
{
	char line[1000];
	bool inside = false, after_tp = false;
	FILE *f = fopen(MAN_PAGE, "r");
	if (!f)
		return -1;
	while (fgets(line, sizeof line, f)) {
		line[strcspn(line, "\n")] = 0;
		if (strncmp(line, ".SH ", 4) == 0)
			inside = strcmp(line, ".SH OPTIONS") == 0;
		if (!inside)
			continue;
		if (after_tp && count < PARAGRAPHS_MAX)
			snprintf(paragraphs[count++].head, sizeof paragraphs[0].head, "%.99s", line);
		else if (count)
			add_line(&paragraphs[count - 1], line);
		after_tp = strcmp(line, ".TP") == 0;
	}
	fclose(f);
	return 0;
}

static void head_of(const struct options_entry *e, char *head, size_t size)
{
	snprintf(head, size, ".B %s%s%s", e->name, e->arg ? "=" : "", e->arg ? e->arg : "");
}

static const struct paragraph *find(const struct options_entry *e)
{
	char head[100];
	head_of(e, head, sizeof head);
	for (size_t i = 0; i < count; i++) {
		if (strcmp(paragraphs[i].head, head) == 0)
			return &paragraphs[i];
	}
	return NULL;
}

static void every_option_is_in_the_page(void **state)
{
	struct options_entry e;
	for (size_t i = 0; options_entry(i, &e); i++) {
		if (!find(&e))
			fail_msg("%s is not in the man page, or with another argument", e.name);
	}
}

static void everything_in_the_page_is_an_option(void **state)
{
	struct options_entry e;
	assert_true(count > 0);
	for (size_t p = 0; p < count; p++) {
		char head[100];
		bool found = false;
		for (size_t i = 0; !found && options_entry(i, &e); i++) {
			head_of(&e, head, sizeof head);
			found = strcmp(head, paragraphs[p].head) == 0;
		}
		if (!found)
			fail_msg("the man page has '%s', the table has not", paragraphs[p].head);
	}
}

static void defaults_in_the_page_are_the_table_s(void **state)
{
	struct options_entry e;
	for (size_t i = 0; options_entry(i, &e); i++) {
		const struct paragraph *p = find(&e);
		char want[64];
		assert_non_null(p);
		if (e.by_default && *e.by_default && e.arg) {
			snprintf(want, sizeof want, "\nDefault: %s.", e.by_default);
			if (!strstr(p->text, want))
				fail_msg("%s: the man page does not say%s", e.name, want);
		} else {
			assert_null(strstr(p->text, "\nDefault:"));
		}
		bool on = e.by_default && !*e.by_default;
		if (on != (strstr(p->text, "\nThis is the default.") != NULL))
			fail_msg("%s: is it the default?", e.name);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_option_is_in_the_page),
		cmocka_unit_test(everything_in_the_page_is_an_option),
		cmocka_unit_test(defaults_in_the_page_are_the_table_s),
	};
	return cmocka_run_group_tests(tests, read_page, NULL);
}
