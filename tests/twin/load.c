/*
 * The load generator of the judge, for the guest.
 *
 *   load DEVICE FILE LATER
 *
 * FILE has one process a line, as words KEY=NUMBER. Each process does what a job of a plain fio file
 * does: it keeps `depth` I/Os in flight, one system call each, for `runtime` after its own start, and
 * reaps what is still in flight at the end. A process that slept for a completion goes on between
 * `wake` and `wake + spread` later. So workers of the kernel run before it, as they do on a machine
 * with several CPUs, and no two processes stay in step for ever.
 *
 * All begins LATER nanoseconds later than it would.
 *
 * It prints a line for each process, in the order of FILE:
 *
 *   P INDEX ios=N p50=NS p90=NS p99=NS mean=NS first=NS last=NS errors=N
 *
 * Offsets are drawn as crates/elevon-workload/src/chance.rs draws them for a job of that number, with
 * `base` as the base of its seeds.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <linux/fs.h>
#include <linux/io_uring.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MOST_PROCESSES = 64, MOST_DEPTH = 256, ALIGNMENT = 4096 };

/* A tick of user-mode Linux, in nanoseconds. */
static const uint64_t TICK = 10000000;
/* A system call that takes longer has slept, in nanoseconds. */
static const uint64_t SLEPT = 15000;
/* A timer of user-mode Linux is late by this in the mean, in nanoseconds. */
static const uint64_t LATE = 300;

enum engine { PSYNC, LIBAIO, IO_URING };

struct process {
	uint64_t class, level, write, trim, random, engine, depth, bs, dsync, fsync, start, runtime, think,
		think_blocks, offset, size, job, base, seed, wake, spread, submit, step,
		direct;
	char cgroup[128];
};

struct result {
	uint64_t ios, p50, p90, p99, mean, first, last, errors;
};

static uint64_t now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void sleep_until(uint64_t at)
{
	at -= LATE;
	struct timespec t = { .tv_sec = (time_t)(at / 1000000000u), .tv_nsec = (long)(at % 1000000000u) };
	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR)
		;
}

static void fail(const char *what)
{
	printf("load: %s: %s\n", what, strerror(errno));
	fflush(stdout);
	_exit(1);
}

/* The stream of offsets of a job: SplitMix64 and xoshiro256++. */

static uint64_t mix(uint64_t z)
{
	z += 0x9e3779b97f4a7c15u;
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

struct stream {
	uint64_t s[4];
};

static struct stream stream_of(uint64_t base, uint64_t job)
{
	const uint64_t words[3] = { job, 0, 1 };
	uint64_t mixed = mix(base);
	struct stream stream;
	for (int i = 0; i < 3; i++)
		mixed = mix(mixed ^ (words[i] * 0xd1342543de82ef95u));
	for (int i = 0; i < 4; i++) {
		stream.s[i] = mix(mixed);
		mixed += 0x9e3779b97f4a7c15u;
	}
	return stream;
}

static uint64_t rotate(uint64_t x, int by)
{
	return (x << by) | (x >> (64 - by));
}

static uint64_t scaled(uint64_t drawn, uint64_t bound)
{
	return (uint64_t)(((unsigned __int128)drawn * bound) >> 64);
}

static uint64_t below(struct stream *stream, uint64_t bound)
{
	uint64_t *s = stream->s;
	uint64_t drawn = rotate(s[0] + s[3], 23) + s[0];
	uint64_t t = s[1] << 17;
	s[2] ^= s[0];
	s[3] ^= s[1];
	s[1] ^= s[2];
	s[0] ^= s[3];
	s[2] ^= t;
	s[3] = rotate(s[3], 45);
	return scaled(drawn, bound);
}

/* What a process has in flight. */

struct state {
	const struct process *p;
	int fd;
	char *buffers;
	struct stream stream;
	uint64_t origin, at, wakes, position, started[MOST_DEPTH], *latencies, done, room, first, last, errors;
	unsigned unused[MOST_DEPTH], unused_count;
	aio_context_t aio;
	struct iocb iocbs[MOST_DEPTH];
	int ring;
	struct io_uring_params params;
	char *sq, *cq;
	struct io_uring_sqe *sqes;
};

/*
 * What a process does, it does at multiples of `step` after its start. A clock of user-mode Linux
 * moves on by 256 ns with each reading. This lateness must not add up: after a second two processes
 * would be in another order than in Elevon, where nothing is late.
 */
static uint64_t whole_steps(const struct process *p, uint64_t time)
{
	return p->step ? time / p->step * p->step : time;
}

static uint64_t on_step(const struct state *s, uint64_t at)
{
	return s->origin + whole_steps(s->p, at - s->origin);
}

/*
 * Goes on `wake` to `wake + spread` after it was woken, drawn as crates/elevon-sim/src/simulation.rs
 * draws it for a process of that number.
 */
static void wake_up(struct state *s)
{
	const struct process *p = s->p;
	uint64_t drawn = mix(mix(p->seed ^ mix(0x51b10000u + p->job)) ^ ++s->wakes);
	if (!p->wake || !p->direct)
		return;
	s->at = on_step(s, now()) + whole_steps(p, p->wake + scaled(drawn, p->spread + 1));
	sleep_until(s->at);
}

/*
 * Takes so much time. What system calls and reads of the clock have taken since the last time is a part
 * of it, unless a call has slept.
 */
static void spend(struct state *s, uint64_t time)
{
	uint64_t at = now();
	if (!time)
		return;
	s->at = (at > s->at + SLEPT ? at : s->at) + time;
	sleep_until(s->at);
}

static uint64_t next_offset(struct state *s)
{
	const struct process *p = s->p;
	if (p->random)
		return p->offset + below(&s->stream, p->size / p->bs) * p->bs;
	if (s->position + p->bs > p->size)
		s->position = 0;
	s->position += p->bs;
	return p->offset + s->position - p->bs;
}

static void record(struct state *s, unsigned token, int64_t answer)
{
	uint64_t at = now();
	if (answer != (int64_t)s->p->bs)
		s->errors++;
	if (s->done == s->room) {
		s->room = s->room ? 2 * s->room : 4096;
		s->latencies = realloc(s->latencies, s->room * sizeof *s->latencies);
	}
	if (!s->done)
		s->first = at;
	s->last = at;
	s->latencies[s->done++] = at - s->started[token];
	s->unused[s->unused_count++] = token;
}

static void open_ring(struct state *s)
{
	memset(&s->params, 0, sizeof s->params);
	s->ring = (int)syscall(SYS_io_uring_setup, (unsigned)s->p->depth, &s->params);
	if (s->ring < 0)
		fail("io_uring_setup");
	size_t sq = s->params.sq_off.array + s->params.sq_entries * sizeof(unsigned);
	size_t cq = s->params.cq_off.cqes + s->params.cq_entries * sizeof(struct io_uring_cqe);
	int both = PROT_READ | PROT_WRITE;
	s->sq = mmap(NULL, sq, both, MAP_SHARED | MAP_POPULATE, s->ring, IORING_OFF_SQ_RING);
	s->cq = mmap(NULL, cq, both, MAP_SHARED | MAP_POPULATE, s->ring, IORING_OFF_CQ_RING);
	s->sqes = mmap(NULL, s->params.sq_entries * sizeof *s->sqes, both, MAP_SHARED | MAP_POPULATE,
		       s->ring, IORING_OFF_SQES);
	if (s->sq == MAP_FAILED || s->cq == MAP_FAILED || s->sqes == MAP_FAILED)
		fail("mmap of a ring");
}

static void submit_to_ring(struct state *s, unsigned token, char *buffer, uint64_t offset)
{
	unsigned *tail = (unsigned *)(s->sq + s->params.sq_off.tail);
	unsigned index = *tail & (s->params.sq_entries - 1);
	struct io_uring_sqe *sqe = &s->sqes[index];
	memset(sqe, 0, sizeof *sqe);
	sqe->opcode = s->p->write ? IORING_OP_WRITE : IORING_OP_READ;
	sqe->fd = s->fd;
	sqe->addr = (uintptr_t)buffer;
	sqe->len = (unsigned)s->p->bs;
	sqe->off = offset;
	sqe->user_data = token;
	((unsigned *)(s->sq + s->params.sq_off.array))[index] = index;
	__atomic_store_n(tail, *tail + 1, __ATOMIC_RELEASE);
	if (syscall(SYS_io_uring_enter, s->ring, 1, 0, 0, NULL, 0) != 1)
		fail("io_uring_enter");
}

static void submit(struct state *s)
{
	const struct process *p = s->p;
	unsigned token = s->unused[--s->unused_count];
	char *buffer = s->buffers + token * p->bs;
	uint64_t offset = next_offset(s);
	spend(s, p->submit);
	s->started[token] = now();
	if (p->engine == IO_URING) {
		submit_to_ring(s, token, buffer, offset);
	} else if (p->engine == LIBAIO) {
		struct iocb *iocb = &s->iocbs[token];
		memset(iocb, 0, sizeof *iocb);
		iocb->aio_data = token;
		iocb->aio_lio_opcode = p->write ? IOCB_CMD_PWRITE : IOCB_CMD_PREAD;
		iocb->aio_fildes = (unsigned)s->fd;
		iocb->aio_buf = (uintptr_t)buffer;
		iocb->aio_nbytes = p->bs;
		iocb->aio_offset = (int64_t)offset;
		if (syscall(SYS_io_submit, s->aio, 1L, &iocb) != 1)
			fail("io_submit");
	} else if (p->trim) {
		uint64_t range[2] = { offset, p->bs };
		int64_t answer = ioctl(s->fd, BLKDISCARD, range) ? -1 : (int64_t)p->bs;
		wake_up(s);
		record(s, token, answer);
	} else {
		int64_t answer = p->write ? pwrite(s->fd, buffer, p->bs, (off_t)offset)
					  : pread(s->fd, buffer, p->bs, (off_t)offset);
		wake_up(s);
		record(s, token, answer);
	}
}

/* Takes one completion if there is one. */
static int take(struct state *s)
{
	if (s->p->engine == LIBAIO) {
		struct io_event event;
		struct timespec none = { 0, 0 };
		if (syscall(SYS_io_getevents, s->aio, 1L, 1L, &event, &none) != 1)
			return 0;
		record(s, (unsigned)event.data, event.res);
		return 1;
	}
	unsigned *head = (unsigned *)(s->cq + s->params.cq_off.head);
	unsigned tail = __atomic_load_n((unsigned *)(s->cq + s->params.cq_off.tail), __ATOMIC_ACQUIRE);
	if (*head == tail)
		return 0;
	struct io_uring_cqe *cqes = (struct io_uring_cqe *)(s->cq + s->params.cq_off.cqes);
	struct io_uring_cqe cqe = cqes[*head & (s->params.cq_entries - 1)];
	__atomic_store_n(head, *head + 1, __ATOMIC_RELEASE);
	record(s, (unsigned)cqe.user_data, cqe.res);
	return 1;
}

/* Waits for a completion, which stays to be taken. */
static void await(struct state *s)
{
	if (s->p->engine == LIBAIO) {
		struct io_event event;
		if (syscall(SYS_io_getevents, s->aio, 1L, 1L, &event, NULL) != 1)
			fail("io_getevents");
		wake_up(s);
		record(s, (unsigned)event.data, event.res);
		return;
	}
	if (syscall(SYS_io_uring_enter, s->ring, 0, 1, IORING_ENTER_GETEVENTS, NULL, 0) < 0)
		fail("io_uring_enter");
	wake_up(s);
	take(s);
}

static int by_value(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
	return (x > y) - (x < y);
}

static uint64_t percentile(const struct state *s, unsigned percent)
{
	uint64_t rank = (s->done * percent + 99) / 100;
	return s->latencies[rank ? rank - 1 : 0];
}

static void report(struct state *s, struct result *result)
{
	uint64_t sum = 0;
	result->ios = s->done;
	result->errors = s->errors;
	if (!s->done)
		return;
	qsort(s->latencies, s->done, sizeof *s->latencies, by_value);
	for (uint64_t i = 0; i < s->done; i++)
		sum += s->latencies[i];
	result->p50 = percentile(s, 50);
	result->p90 = percentile(s, 90);
	result->p99 = percentile(s, 99);
	result->mean = sum / s->done;
	result->first = s->first;
	result->last = s->last;
}

static void prepare(struct state *s, const char *device)
{
	const struct process *p = s->p;
	int flags = p->write || p->trim ? O_RDWR : O_RDONLY;
	if (p->cgroup[0]) {
		char path[256];
		snprintf(path, sizeof path, "%s/cgroup.procs", p->cgroup);
		int fd = open(path, O_WRONLY);
		if (fd < 0 || write(fd, "0", 1) != 1)
			fail(path);
		close(fd);
	}
	prctl(PR_SET_TIMERSLACK, 1UL);
	if (p->class && syscall(SYS_ioprio_set, 1, 0, (int)(p->class << 13 | p->level)))
		fail("ioprio_set");
	s->fd = open(device, flags | (p->direct ? O_DIRECT : 0) | (p->dsync ? O_DSYNC : 0));
	if (s->fd < 0)
		fail(device);
	if (posix_memalign((void **)&s->buffers, ALIGNMENT, p->bs * p->depth))
		fail("buffers");
	memset(s->buffers, 1, p->bs * p->depth);
	s->stream = stream_of(p->base, p->job);
	if (p->engine == LIBAIO && syscall(SYS_io_setup, MOST_DEPTH, &s->aio))
		fail("io_setup");
	if (p->engine == IO_URING)
		open_ring(s);
	while (s->unused_count < p->depth) {
		s->unused[s->unused_count] = (unsigned)(p->depth - 1 - s->unused_count);
		s->unused_count++;
	}
}

static void run(struct state *s, uint64_t begin, struct result *result)
{
	const struct process *p = s->p;
	uint64_t end = begin + p->start + p->runtime, unsynced = 0, unthought = 0;
	s->origin = s->at = begin + p->start;
	sleep_until(s->origin);
	while (now() < end) {
		if (s->unused_count) {
			if (p->fsync && unsynced >= p->fsync) {
				fsync(s->fd);
				unsynced = 0;
				continue;
			}
			submit(s);
			unsynced += p->write;
		} else {
			if (!take(s))
				await(s);
		}
		if (p->think && s->unused_count == p->depth && ++unthought >= p->think_blocks) {
			uint64_t until = on_step(s, now()) + p->think;
			s->at = until < end ? until : end;
			sleep_until(s->at);
			unthought = 0;
		}
	}
	while (s->unused_count < p->depth)
		if (!take(s))
			await(s);
	report(s, result);
}

static void set(struct process *p, const char *word)
{
	static const struct {
		const char *key;
		size_t at;
	} keys[] = {
#define KEY(name) { #name, offsetof(struct process, name) }
		KEY(class), KEY(level), KEY(write), KEY(trim), KEY(random), KEY(engine), KEY(depth), KEY(bs),
		KEY(dsync), KEY(fsync), KEY(start), KEY(runtime), KEY(think), KEY(think_blocks),
		KEY(offset), KEY(size), KEY(job), KEY(base), KEY(seed), KEY(wake), KEY(spread), KEY(submit), KEY(step),
		KEY(direct),
#undef KEY
	};
	const char *equals = strchr(word, '=');
	size_t length = equals ? (size_t)(equals - word) : 0;
	for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
		if (strlen(keys[i].key) == length && !strncmp(keys[i].key, word, length)) {
			*(uint64_t *)((char *)p + keys[i].at) = strtoull(equals + 1, NULL, 10);
			return;
		}
	if (length == 6 && !strncmp(word, "cgroup", 6)) {
		snprintf(p->cgroup, sizeof p->cgroup, "%s", equals + 1);
		return;
	}
	errno = EINVAL;
	fail(word);
}

int main(int argc, char **argv)
{
	static struct process processes[MOST_PROCESSES];
	char line[1024];
	unsigned count = 0;
	FILE *file = argc == 4 ? fopen(argv[2], "r") : NULL;
	if (!file)
		fail("usage: load DEVICE FILE LATER");
	while (count < MOST_PROCESSES && fgets(line, sizeof line, file)) {
		for (char *word = strtok(line, " \n"); word; word = strtok(NULL, " \n"))
			set(&processes[count], word);
		count++;
	}
	struct result *results = mmap(NULL, sizeof *results * MOST_PROCESSES, PROT_READ | PROT_WRITE,
				      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	/* Ticks of the kernel's clock are in step with the run, as in Elevon. */
	uint64_t begin = (now() / TICK + 2) * TICK + strtoull(argv[3], NULL, 10);
	fflush(stdout);
	for (unsigned i = 0; i < count; i++) {
		if (fork())
			continue;
		static struct state state;
		state.p = &processes[i];
		prepare(&state, argv[1]);
		run(&state, begin, &results[i]);
		_exit(0);
	}
	while (wait(NULL) > 0)
		;
	for (unsigned i = 0; i < count; i++) {
		struct result *r = &results[i];
		printf("P %u ios=%lu p50=%lu p90=%lu p99=%lu mean=%lu first=%lu last=%lu errors=%lu\n", i,
		       r->ios, r->p50, r->p90, r->p99, r->mean, r->first ? r->first - begin : 0,
		       r->last ? r->last - begin : 0, r->errors);
	}
	return 0;
}
