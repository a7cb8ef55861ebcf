/* SPDX-License-Identifier: MIT
 *
 * Files of counters as a reader may find them: good, of another version, damaged, made up.
 */
#include "snapshot.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define LANES 2u

struct file {
	struct stats_header header;
	struct lane_stats lanes[LANES];
};

static struct file good;
static struct snapshot shot;
static char err[SNAPSHOT_ERR_SIZE];

static int setup(void **state)
{
	(void)state;
	memset(&good, 0, sizeof good);
	memcpy(good.header.magic, STATS_MAGIC, sizeof good.header.magic);
	good.header.version = STATS_VERSION;
	good.header.layout = stats_layout();
	good.header.nlanes = LANES;
	good.header.lane_offset = sizeof(struct stats_header);
	good.header.lane_bytes = sizeof(struct lane_stats);
	strcpy(good.header.source, "server:/export");
	strcpy(good.header.mountpoint, "/mnt");
	err[0] = '\0';
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	snapshot_free(&shot);
	shot = (struct snapshot){0};
	return 0;
}

/* A file in memory alone, of the first `bytes` of `good`. */
static int as_file(size_t bytes)
{
	int fd = memfd_create("counters", MFD_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, &good, bytes), bytes);
	return fd;
}

static int take(size_t bytes)
{
	int fd = as_file(bytes), ret = snapshot_take(fd, &shot, err);

	close(fd);
	return ret;
}

static void refused(size_t bytes, const char *why)
{
	assert_int_equal(take(bytes), -1);
	assert_non_null(strstr(err, why));
}

static void lanes_are_added_up(void **state)
{
	(void)state;
	good.lanes[0].rpcrdma.calls = 3;
	good.lanes[1].rpcrdma.calls = 4;
	good.lanes[0].procs[NFSPROC3_READ].rpc.sent_bytes = 10;
	good.lanes[1].procs[NFSPROC3_READ].rpc.sent_bytes = 20;
	latency_add(&good.lanes[0].procs[NFSPROC3_READ].rpc.rtt, 5000);
	latency_add(&good.lanes[1].procs[NFSPROC3_READ].rpc.rtt, 7000);
	good.lanes[0].fuse.kept_since_ns = 50;
	good.lanes[1].fuse.kept_since_ns = 40;
	good.lanes[1].oldest.since_ns = 30;
	assert_int_equal(take(sizeof good), 0);
	assert_int_equal(shot.nlanes, LANES);
	assert_int_equal(shot.total.rpcrdma.calls, 7);
	assert_int_equal(shot.total.procs[NFSPROC3_READ].rpc.sent_bytes, 30);
	assert_int_equal(latency_count(&shot.total.procs[NFSPROC3_READ].rpc.rtt), 2);
	assert_int_equal(shot.total.procs[NFSPROC3_READ].rpc.rtt.sum_ns, 12000);
	assert_int_equal(shot.total.procs[NFSPROC3_READ].rpc.rtt.max_ns, 7000);
	assert_int_equal(shot.total.fuse.kept_since_ns, 40);
	assert_int_equal(shot.oldest_lane, 1);
}

static void another_version_is_refused(void **state)
{
	(void)state;
	good.header.version = STATS_VERSION - 1;
	refused(sizeof good, "another version");
	good.header.version = STATS_VERSION;
	good.header.layout++;
	refused(sizeof good, "another version");
	good.header.layout--;
	good.header.lane_offset = 0;
	refused(sizeof good, "another version");
}

static void what_is_no_such_file_is_refused(void **state)
{
	(void)state;
	refused(0, "not a file of counters");
	refused(sizeof good.header - 1, "not a file of counters");
	good.header.magic[0] = 'x';
	refused(sizeof good, "not a file of counters");
}

static void a_damaged_file_is_refused(void **state)
{
	(void)state;
	refused(sizeof good - 1, "cut short");
	refused(sizeof good.header, "cut short");
	good.header.nlanes = 0;
	refused(sizeof good, "impossible number of lanes");
	good.header.nlanes = UINT32_MAX;
	refused(sizeof good, "impossible number of lanes");
	good.header.nlanes = STATS_LANES_MAX;
	refused(sizeof good, "cut short");
}

static void a_file_that_changes_its_mind_is_refused(void **state)
{
	(void)state;
	int fd = as_file(sizeof good);
	assert_int_equal(snapshot_take(fd, &shot, err), 0);
	good.header.nlanes = 1;
	assert_int_equal(pwrite(fd, &good, sizeof good, 0), sizeof good);
	assert_int_equal(snapshot_take(fd, &shot, err), -1);
	assert_int_equal(ftruncate(fd, 10), 0);
	assert_int_equal(snapshot_take(fd, &shot, err), -1);
	close(fd);
}

static void texts_end_and_are_clean(void **state)
{
	(void)state;
	memset(good.header.source, 'x', sizeof good.header.source);
	strcpy(good.header.mountpoint, "a\nb\x1b[2J\x7f\xc3\xa9 \xff\xc3( \xed\xa0\x80 \xe2\x82\xac");
	assert_int_equal(take(sizeof good), 0);
	assert_int_equal(strlen(shot.header.source), sizeof shot.header.source - 1);
	assert_string_equal(shot.header.mountpoint, "a?b?[2J?\xc3\xa9 ?"
						    "?( ?"
						    "?? \xe2\x82\xac");
}

static char *printed(void (*print)(FILE *out, const struct snapshot *s))
{
	char *text;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	assert_non_null(out);
	print(out, &shot);
	fclose(out);
	return text;
}

/* Every number that a file may hold has to be printed somehow, without harm. */
static void every_format_bears_any_number(void **state)
{
	void (*const formats[])(FILE *, const struct snapshot *) = {print_text, print_counters, print_json,
								    print_prometheus};

	(void)state;
	memset(good.lanes, 0xff, sizeof good.lanes);
	memset(&good.header.pid, 0xff, sizeof good.header.pid);
	good.header.started_s = good.header.inodes = good.header.arena_bytes = UINT64_MAX;
	assert_int_equal(take(sizeof good), 0);
	for (unsigned int i = 0; i < sizeof formats / sizeof formats[0]; i++) {
		char *text = printed(formats[i]);

		assert_true(strlen(text) > 1000);
		free(text);
	}
}

static void prometheus_text_has_the_numbers(void **state)
{
	(void)state;
	strcpy(good.header.mountpoint, "/m \"\\x");
	good.lanes[1].rpcrdma.calls = 42;
	good.lanes[1].procs[NFSPROC3_WRITE].rpc.calls = 2;
	latency_add(&good.lanes[1].procs[NFSPROC3_WRITE].rpc.rtt, 4095);
	latency_add(&good.lanes[1].procs[NFSPROC3_WRITE].rpc.rtt, 4096);
	assert_int_equal(take(sizeof good), 0);
	char *text = printed(print_prometheus);
	static const char *const wanted[] = {
		"\n# TYPE nfsrdma_rpcrdma_calls_total counter\n",
		"\nnfsrdma_rpcrdma_calls_total{mountpoint=\"/m \\\"\\\\x\",lane=\"1\"} 42\n",
		"procedure=\"WRITE\",le=\"4.096e-06\"} 1\n",
		"procedure=\"WRITE\",le=\"8.192e-06\"} 2\n",
		"procedure=\"WRITE\",le=\"+Inf\"} 2\n",
		"_round_trip_seconds_sum{mountpoint=\"/m \\\"\\\\x\",procedure=\"WRITE\"} 0.000008191\n",
	};
	for (unsigned int i = 0; i < sizeof wanted / sizeof wanted[0]; i++)
		assert_non_null(strstr(text, wanted[i]));
	free(text);
}

static void numbers_for_people(void **state)
{
	(void)state;
	assert_string_equal(human_bytes(0), "0 B");
	assert_string_equal(human_bytes(1023), "1023 B");
	assert_string_equal(human_bytes(1536), "1.5 KiB");
	assert_string_equal(human_bytes(300.0 * (1 << 20)), "300 MiB");
	assert_string_equal(human_ms(1234567), "1.235");
	assert_string_equal(human_ms(12345678901.0), "12346");
	assert_string_equal(proc_name(UINT64_MAX), "?");
	assert_string_equal(state_name(2), "up");
	assert_string_equal(waits_name(17), "?");
}

#define WITH(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		WITH(lanes_are_added_up),
		WITH(another_version_is_refused),
		WITH(what_is_no_such_file_is_refused),
		WITH(a_damaged_file_is_refused),
		WITH(a_file_that_changes_its_mind_is_refused),
		WITH(texts_end_and_are_clean),
		WITH(every_format_bears_any_number),
		WITH(prometheus_text_has_the_numbers),
		WITH(numbers_for_people),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
