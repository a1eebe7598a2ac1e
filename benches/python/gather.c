/* The limit that loaders are compared with: every chosen row copied once, by memcpy, into a buffer that is used again.
 * Built at run time by gather.py with `cc -O3 -march=native`. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <time.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif

enum { CHUNK = 8 }; /* rows a thread takes at a time: a helper that wakes late finds less left to do */

typedef struct {
    const char *source;
    char *target;
    size_t row_bytes;
} field;

static struct {
    const field *fields;
    size_t field_count;
    const int64_t *indices;
    size_t count;
    atomic_size_t next;
} job;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static unsigned long asked, answered;
static int helper_started;

/* A row size known at compile time becomes a few vector moves instead of a call. */
#define COPY_ROWS(SIZE)                                                                                     \
    for (size_t i = from; i < to; i++)                                                                      \
    memcpy(f->target + i * (SIZE), f->source + (size_t)indices[i] * (SIZE), (SIZE))

static void copy_rows(const field *f, const int64_t *indices, size_t from, size_t to) {
    switch (f->row_bytes) {
    case 8: COPY_ROWS(8); break;
    case 32: COPY_ROWS(32); break;
    default: COPY_ROWS(f->row_bytes);
    }
}

static void copy_chunks(void) {
    for (;;) {
        size_t from = atomic_fetch_add_explicit(&job.next, CHUNK, memory_order_relaxed);
        if (from >= job.count) return;
        size_t to = from + CHUNK < job.count ? from + CHUNK : job.count;
        for (size_t i = 0; i < job.field_count; i++) copy_rows(&job.fields[i], job.indices, from, to);
    }
}

static void *help(void *unused) {
    (void)unused;
    unsigned long seen = 0;
    for (;;) {
        pthread_mutex_lock(&lock);
        while (asked == seen) pthread_cond_wait(&changed, &lock);
        seen = asked;
        pthread_mutex_unlock(&lock);
        copy_chunks();
        pthread_mutex_lock(&lock);
        answered = seen;
        pthread_cond_broadcast(&changed);
        pthread_mutex_unlock(&lock);
    }
    return NULL;
}

/* Copies `count` rows of every field; with `threads` 2 a helper thread that lives on takes part. Returns 0 or an errno. */
int gather(const field *fields, size_t field_count, const int64_t *indices, size_t count, int threads) {
    if (threads < 2) {
        for (size_t i = 0; i < field_count; i++) copy_rows(&fields[i], indices, 0, count);
        return 0;
    }
    if (!helper_started) {
        pthread_t helper;
        int failed = pthread_create(&helper, NULL, help, NULL);
        if (failed) return failed;
        pthread_detach(helper);
        helper_started = 1;
    }
    pthread_mutex_lock(&lock);
    job.fields = fields;
    job.field_count = field_count;
    job.indices = indices;
    job.count = count;
    atomic_store_explicit(&job.next, 0, memory_order_relaxed);
    asked++;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    copy_chunks();
    pthread_mutex_lock(&lock);
    while (answered != asked) pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
    return 0;
}

enum { SPIN_NS = 40000 }; /* the kernel wakes a sleeper some 25 us late: sleep less, and spin for the rest */

static int64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* Waits like for a busy device: sleeps until shortly before the end, so that the time is exact to 1 us. */
void wait_for(int64_t nanoseconds) {
    int64_t end = now_ns() + nanoseconds;
    if (nanoseconds > SPIN_NS) {
#ifdef __linux__
        static _Thread_local int slack_set;
        if (!slack_set) slack_set = prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0) == 0 ? 1 : -1;
#endif
        int64_t asleep = nanoseconds - SPIN_NS;
        struct timespec pause = {asleep / 1000000000, asleep % 1000000000};
        nanosleep(&pause, NULL);
    }
    while (now_ns() < end) {}
}
