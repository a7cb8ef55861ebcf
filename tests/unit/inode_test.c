/* SPDX-License-Identifier: MIT */
#include "inode.h"

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/sysmacros.h>

#include <cmocka.h>

#define S 1000000000ull /* ns */
#define ROOT_FSID 0x801u

static struct nfs3_fh handle(const char *text)
{
	struct nfs3_fh fh = {.len = (uint32_t)strlen(text)};

	memcpy(fh.data, text, fh.len);
	return fh;
}

static struct nfs3_attr attr_of(enum nfs3_type type, uint64_t fileid)
{
	return (struct nfs3_attr){.type = type,
				  .mode = 0750,
				  .nlink = 2,
				  .uid = 10,
				  .gid = 20,
				  .size = 4097,
				  .used = 8192,
				  .fsid = ROOT_FSID,
				  .fileid = fileid,
				  .atime = {1, 2},
				  .mtime = {3, 4},
				  .ctime = {5, 6}};
}

static struct inode_table *table_new(void)
{
	const struct attr_limits limits = {
		.reg_min_ns = 3 * S, .reg_max_ns = 60 * S, .dir_min_ns = 30 * S, .dir_max_ns = 60 * S};
	struct nfs3_fh fh = handle("root");
	struct nfs3_attr attr = attr_of(NFS3_DIR, 2);
	struct inode_table *table;

	assert_int_equal(inode_table_create(&limits, &table), 0);
	assert_int_equal(inode_table_set_root(table, &fh, &attr, 0), 0);
	return table;
}

static struct inode *get(struct inode_table *table, const char *fh_text, struct nfs3_attr attr,
			 uint64_t now_ns)
{
	struct nfs3_fh fh = handle(fh_text);
	struct inode *inode = inode_get(table, &fh, &attr, now_ns, now_ns, NULL);

	assert_non_null(inode);
	return inode;
}

static void the_root_has_the_number_that_the_kernel_knows(void **state)
{
	struct inode_table *table = table_new();

	assert_int_equal(inode_number(inode_root(table)), INODE_ROOT_NUMBER);
	assert_ptr_equal(inode_of(table, INODE_ROOT_NUMBER), inode_root(table));
	inode_forget(inode_root(table), 12345); /* never lost */
	assert_int_equal(inode_count(table), 1);
	inode_table_destroy(table);
}

static void a_handle_is_one_inode(void **state)
{
	struct inode_table *table = table_new();
	struct inode *a = get(table, "a", attr_of(NFS3_REG, 7), 0);

	assert_ptr_equal(get(table, "a", attr_of(NFS3_REG, 7), 1), a);
	assert_ptr_equal(inode_of(table, inode_number(a)), a);
	assert_int_equal(a->fileid, 7);
	inode_table_destroy(table);
}

static void a_fileid_used_again_is_another_inode_with_another_generation(void **state)
{
	struct inode_table *table = table_new();
	struct inode *old = get(table, "handle-1", attr_of(NFS3_REG, 7), 0);
	struct inode *new = get(table, "handle-2", attr_of(NFS3_REG, 7), 0);

	assert_ptr_not_equal(old, new);
	assert_true(inode_number(old) != inode_number(new));
	assert_true(old->generation != new->generation);
	inode_table_destroy(table);
}

static void a_handle_that_means_another_file_now_leaves_the_old_inode_alone(void **state)
{
	struct inode_table *table = table_new();
	struct inode *file = get(table, "a", attr_of(NFS3_REG, 7), 0);
	struct inode *dir = get(table, "a", attr_of(NFS3_DIR, 8), 1);
	struct stat st;
	uint64_t valid_ns;

	assert_ptr_not_equal(file, dir);
	assert_ptr_equal(get(table, "a", attr_of(NFS3_DIR, 8), 2), dir);
	assert_true(inode_stat(file, 2, &st, &valid_ns));
	assert_true(S_ISREG(st.st_mode));
	inode_unref(file); /* its last */
	inode_table_destroy(table);
}

static void attributes_of_another_file_are_refused(void **state)
{
	struct inode_table *table = table_new();
	struct inode *a = get(table, "a", attr_of(NFS3_REG, 7), 0);
	struct nfs3_attr other = attr_of(NFS3_REG, 8);

	assert_int_equal(inode_take_attr(a, &other, 1, 1), -ESTALE);
	inode_change_begin(a);
	assert_int_equal(
		inode_change_end(a, &(struct nfs3_wcc){.after = {.present = true, .attr = other}}, 1, 1),
		-ESTALE);
	inode_table_destroy(table);
}

static void an_inode_lives_while_the_kernel_remembers_or_somebody_holds_it(void **state)
{
	struct inode_table *table = table_new();
	struct nfs3_fh fh = handle("a");
	struct inode *a = get(table, "a", attr_of(NFS3_REG, 7), 0);

	inode_remember(a);
	inode_remember(a);
	inode_unref(a);
	assert_int_equal(inode_count(table), 2);
	inode_forget(a, 1);
	assert_int_equal(inode_count(table), 2);
	inode_ref(a);
	inode_forget(a, 1);
	assert_int_equal(inode_count(table), 2);
	inode_unref(a);
	assert_int_equal(inode_count(table), 1);
	assert_null(inode_find(table, &fh));
	inode_table_destroy(table);
}

static void forgetting_many_at_once_counts(void **state)
{
	struct inode_table *table = table_new();
	struct inode *a = get(table, "a", attr_of(NFS3_REG, 7), 0);

	for (int i = 0; i < 9; i++)
		inode_remember(a);
	inode_unref(a);
	inode_forget(a, 8);
	assert_int_equal(inode_count(table), 2);
	inode_forget(a, 1);
	assert_int_equal(inode_count(table), 1);
	inode_table_destroy(table);
}

static void find_does_not_make_one(void **state)
{
	struct inode_table *table = table_new();
	struct nfs3_fh fh = handle("a");

	assert_null(inode_find(table, &fh));
	struct inode *a = get(table, "a", attr_of(NFS3_REG, 7), 0);
	assert_ptr_equal(inode_find(table, &fh), a);
	inode_table_destroy(table);
}

static void the_table_grows_and_finds_all(void **state)
{
	struct inode_table *table = table_new();
	char name[32];

	for (uint64_t i = 0; i < 5000; i++) {
		snprintf(name, sizeof name, "fh%llu", (unsigned long long)i);
		get(table, name, attr_of(NFS3_REG, i), 0);
	}
	assert_int_equal(inode_count(table), 5001);
	for (uint64_t i = 0; i < 5000; i++) {
		snprintf(name, sizeof name, "fh%llu", (unsigned long long)i);
		assert_int_equal(get(table, name, attr_of(NFS3_REG, i), 0)->fileid, i);
	}
	assert_int_equal(inode_count(table), 5001);
	inode_table_destroy(table);
}

static void only_a_directory_of_another_fsid_is_foreign(void **state)
{
	struct inode_table *table = table_new();
	struct nfs3_attr dir = attr_of(NFS3_DIR, 9), file = attr_of(NFS3_REG, 10);

	assert_false(get(table, "d", dir, 0)->foreign);
	dir.fsid = file.fsid = 0x999;
	assert_true(get(table, "e", dir, 0)->foreign);
	assert_false(get(table, "f", file, 0)->foreign);
	inode_table_destroy(table);
}

static void files_of_other_file_systems_have_numbers_of_their_own(void **state)
{
	struct inode_table *table = table_new();
	struct nfs3_attr ours = attr_of(NFS3_REG, 10), theirs = ours, others = ours;
	struct stat st[3];
	uint64_t valid_ns;

	theirs.fsid = 0x999;
	others.fsid = 0x99a;
	inode_stat(get(table, "a", ours, 0), 0, &st[0], &valid_ns);
	inode_stat(get(table, "b", theirs, 0), 0, &st[1], &valid_ns);
	inode_stat(get(table, "c", others, 0), 0, &st[2], &valid_ns);
	assert_int_equal(st[0].st_ino, 10);
	assert_true(st[1].st_ino != 10 && st[2].st_ino != 10 && st[1].st_ino != st[2].st_ino);
	inode_table_destroy(table);
}

static void an_open_of_a_file_without_names_is_sent_back_once(void **state)
{
	struct inode_table *table = table_new();
	struct nfs3_attr attr = attr_of(NFS3_REG, 10);

	attr.nlink = 0;
	struct inode *inode = get(table, "a", attr, 0);

	inode_told(inode);
	assert_true(inode_kernel_is_behind(inode, 77));
	assert_false(inode_kernel_is_behind(inode, 77));
	inode_table_destroy(table);
}

static void stat_shows_what_the_server_said(void **state)
{
	struct nfs3_attr attr = attr_of(NFS3_CHR, 0xfedcba9876543210u);
	struct stat st;

	attr.rdev_major = 300;
	attr.rdev_minor = 70000;
	attr.mtime = (struct nfs3_time){4000000000u, 999999999};
	attr_to_stat(&attr, &st);
	assert_true(st.st_ino == 0xfedcba9876543210u);
	assert_int_equal(st.st_mode, S_IFCHR | 0750);
	assert_int_equal(st.st_nlink, 2);
	assert_int_equal(st.st_uid, 10);
	assert_int_equal(st.st_gid, 20);
	assert_int_equal(st.st_size, 4097);
	assert_int_equal(st.st_blocks, 16);
	assert_int_equal(major(st.st_rdev), 300);
	assert_int_equal(minor(st.st_rdev), 70000);
	assert_int_equal(st.st_mtim.tv_sec, 4000000000u);
	assert_int_equal(st.st_mtim.tv_nsec, 999999999);
	assert_int_equal(st.st_ctim.tv_sec, 5);
	assert_int_equal(st.st_atim.tv_nsec, 2);
}

static void absurd_attributes_stay_within_what_stat_can_hold(void **state)
{
	struct nfs3_attr attr = attr_of(NFS3_REG, 1);
	struct stat st;

	attr.size = attr.used = UINT64_MAX;
	attr.mtime.nsec = UINT32_MAX;
	attr.mode = UINT32_MAX;
	attr_to_stat(&attr, &st);
	assert_int_equal(st.st_size, INT64_MAX);
	assert_true(st.st_blocks > 0);
	assert_int_equal(st.st_mtim.tv_nsec, 999999999);
	assert_int_equal(st.st_mode, S_IFREG | 07777);
}

static void a_silly_renamed_file_has_one_link_less(void **state)
{
	struct inode_table *table = table_new();
	struct inode *a = get(table, "a", attr_of(NFS3_REG, 7), 0);
	struct stat st;
	uint64_t valid_ns;

	a->silly = (struct silly *)(void *)a; /* only whether there is one matters */
	assert_true(inode_stat(a, 0, &st, &valid_ns));
	assert_int_equal(st.st_nlink, 1);
	inode_table_destroy(table);
}

static void a_removed_name_makes_older_attributes_doubtful(void **state)
{
	struct inode_table *table = table_new();
	struct nfs3_attr attr = attr_of(NFS3_REG, 7);
	struct inode *a = get(table, "a", attr, 10);
	struct stat st;
	uint64_t valid_ns;

	inode_names_changed(table, 20);
	assert_true(inode_stat(a, 21, &st, &valid_ns));
	assert_int_equal(valid_ns, 0);
	inode_take_attr(a, &attr, 20, 22);
	assert_true(inode_stat(a, 23, &st, &valid_ns));
	assert_true(valid_ns > 0);
	inode_table_destroy(table);
}

static void a_removed_name_leaves_other_names_good(void **state)
{
	struct inode_table *table = table_new();

	inode_names_changed(table, 20);
	assert_int_equal(inode_names_valid_ns(inode_root(table), 0), 30 * S);
	inode_table_destroy(table);
}

static void the_kernel_is_behind_once_per_foreign_change_and_thread(void **state)
{
	struct inode_table *table = table_new();
	struct nfs3_attr attr = attr_of(NFS3_REG, 7);
	struct inode *a = get(table, "a", attr, 0);

	assert_false(inode_kernel_is_behind(a, 1));
	attr.size++;
	assert_int_equal(inode_take_attr(a, &attr, 1, 1), ATTR_FOREIGN);
	assert_true(inode_kernel_is_behind(a, 1));
	assert_false(inode_kernel_is_behind(a, 1)); /* nobody told it, but the open must end some time */
	assert_true(inode_kernel_is_behind(a, 2));
	inode_told(a);
	assert_false(inode_kernel_is_behind(a, 3));
	inode_table_destroy(table);
}

/* A second refusal of the same open would come to its caller as ESTALE. */
static void an_open_is_sent_back_once_whatever_others_do_meanwhile(void **state)
{
	struct inode_table *table = table_new();
	struct nfs3_attr attr = attr_of(NFS3_REG, 7);
	struct inode *a = get(table, "a", attr, 0);

	attr.size++;
	assert_int_equal(inode_take_attr(a, &attr, 1, 1), ATTR_FOREIGN);
	assert_true(inode_kernel_is_behind(a, 1));
	assert_true(inode_kernel_is_behind(a, 2));
	attr.size++;
	assert_int_equal(inode_take_attr(a, &attr, 2, 2), ATTR_FOREIGN);
	assert_false(inode_kernel_is_behind(a, 1));
	assert_false(inode_kernel_is_behind(a, 2));
	assert_true(inode_kernel_is_behind(a, 1)); /* another open */
	inode_sent_back(table, 3);
	assert_false(inode_kernel_is_behind(a, 3));
	assert_true(inode_kernel_is_behind(a, 3));
	inode_table_destroy(table);
}

static void access_answers_are_kept_with_the_inode(void **state)
{
	struct inode_table *table = table_new();
	struct nfs3_attr attr = attr_of(NFS3_REG, 7);
	struct inode *a = get(table, "a", attr, 0);
	struct cred cred;
	uint32_t granted;

	cred_init(&cred, NULL, 1, 1, NULL, 0);
	assert_false(inode_access_known(a, &cred, NFS3_ACCESS_READ, 1, &granted));
	inode_access_store(a, &attr, &cred, NFS3_ACCESS_READ, NFS3_ACCESS_READ);
	assert_true(inode_access_known(a, &cred, NFS3_ACCESS_READ, 1, &granted));
	assert_int_equal(granted, NFS3_ACCESS_READ);
	inode_table_destroy(table);
}

/* Two threads that find, hold and drop the same few inodes: none may vanish under the other. */
static void *churn(void *arg)
{
	struct inode_table *table = arg;

	for (unsigned int i = 0; i < 20000; i++) {
		struct nfs3_fh fh = {.len = 1, .data = {(uint8_t)('a' + i % 3)}};
		struct nfs3_attr attr = attr_of(NFS3_REG, i % 3);
		struct inode *inode = inode_get(table, &fh, &attr, i, i, NULL);

		if (!inode || inode->fh.data[0] != fh.data[0])
			return table;
		inode_remember(inode);
		inode_unref(inode);
		inode_forget(inode, 1);
	}
	return NULL;
}

static void lanes_may_find_and_drop_one_inode_at_once(void **state)
{
	struct inode_table *table = table_new();
	pthread_t thread;
	void *failed;

	assert_int_equal(pthread_create(&thread, NULL, churn, table), 0);
	assert_null(churn(table));
	assert_int_equal(pthread_join(thread, &failed), 0);
	assert_null(failed);
	assert_int_equal(inode_count(table), 1);
	inode_table_destroy(table);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_root_has_the_number_that_the_kernel_knows),
		cmocka_unit_test(a_handle_is_one_inode),
		cmocka_unit_test(a_fileid_used_again_is_another_inode_with_another_generation),
		cmocka_unit_test(a_handle_that_means_another_file_now_leaves_the_old_inode_alone),
		cmocka_unit_test(attributes_of_another_file_are_refused),
		cmocka_unit_test(an_inode_lives_while_the_kernel_remembers_or_somebody_holds_it),
		cmocka_unit_test(forgetting_many_at_once_counts),
		cmocka_unit_test(find_does_not_make_one),
		cmocka_unit_test(the_table_grows_and_finds_all),
		cmocka_unit_test(only_a_directory_of_another_fsid_is_foreign),
		cmocka_unit_test(files_of_other_file_systems_have_numbers_of_their_own),
		cmocka_unit_test(an_open_of_a_file_without_names_is_sent_back_once),
		cmocka_unit_test(stat_shows_what_the_server_said),
		cmocka_unit_test(absurd_attributes_stay_within_what_stat_can_hold),
		cmocka_unit_test(a_silly_renamed_file_has_one_link_less),
		cmocka_unit_test(a_removed_name_makes_older_attributes_doubtful),
		cmocka_unit_test(a_removed_name_leaves_other_names_good),
		cmocka_unit_test(the_kernel_is_behind_once_per_foreign_change_and_thread),
		cmocka_unit_test(an_open_is_sent_back_once_whatever_others_do_meanwhile),
		cmocka_unit_test(access_answers_are_kept_with_the_inode),
		cmocka_unit_test(lanes_may_find_and_drop_one_inode_at_once),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
