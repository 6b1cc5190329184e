/* A disk that fails when it is told to, and that remembers what a power failure would take.
 *
 * Loaded with LD_PRELOAD. It looks at files below FAULTY_DISK_ROOT only, and not at SQLite's, which has tests of its own.
 * FAULTY_DISK_CONTROL is a file that holds `struct control`: a test changes it while the process runs.
 * FAULTY_DISK_JOURNAL is a file to which a line is added for whatever a power failure can undo; see faulty_disk.py.
 * FAULTY_DISK_KEEP is a folder where files that lose their name are kept under another one.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

struct control {
    int32_t write_error;    /* an errno, 0 for none */
    int32_t writes_before;  /* so many writes succeed first */
    int32_t writes_failing; /* so many fail then, -1 for all */
    int32_t torn_bytes;     /* of the first that fails so many bytes get through */
    int32_t sync_error;
    int32_t syncs_before;
    int32_t syncs_failing;
    int32_t sync_ms;        /* how long a sync takes at least */
    int32_t writes;         /* how many there were */
    int32_t syncs;
    char matching[256];     /* only files whose path holds this; empty for all */
};

static struct control *control;
static char root[PATH_MAX];
static const char *keep;
static int journal = -1;
static int kept;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

#define REAL(name) ((__typeof__(&name))real(#name))

static void *real(const char *name) { return dlsym(RTLD_NEXT, name); }

__attribute__((constructor)) static void begin(void) {
    const char *at = getenv("FAULTY_DISK_ROOT");
    if (at == NULL || realpath(at, root) == NULL) return;
    const char *path = getenv("FAULTY_DISK_CONTROL");
    if (path != NULL) {
        int descriptor = REAL(open)(path, O_RDWR | O_CLOEXEC);
        if (descriptor >= 0) {
            void *mapped = mmap(NULL, sizeof *control, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
            if (mapped != MAP_FAILED) control = mapped;
            close(descriptor);
        }
    }
    keep = getenv("FAULTY_DISK_KEEP");
    path = getenv("FAULTY_DISK_JOURNAL");
    if (path != NULL) journal = REAL(open)(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
}

static int is_ours(const char *path) {
    size_t length = strlen(root);
    if (length == 0 || strncmp(path, root, length) != 0 || (path[length] != '/' && path[length] != 0)) return 0;
    return strstr(path, ".sqlite") == NULL;
}

static int path_of(int descriptor, char *path) {
    char name[64];
    snprintf(name, sizeof name, "/proc/self/fd/%d", descriptor);
    ssize_t length = readlink(name, path, PATH_MAX - 1);
    if (length < 0) return 0;
    path[length] = 0;
    return is_ours(path);
}

static int absolute(int folder, const char *path, char *found) {
    char parent[PATH_MAX];
    if (root[0] == 0) return 0;
    if (path[0] == '/') {
        snprintf(found, PATH_MAX, "%s", path);
    } else if (folder != AT_FDCWD) {
        char name[64];
        snprintf(name, sizeof name, "/proc/self/fd/%d", folder);
        ssize_t length = readlink(name, parent, PATH_MAX - 1);
        if (length < 0) return 0;
        parent[length] = 0;
        if (strlen(parent) + strlen(path) + 2 > PATH_MAX) return 0;
        strcpy(found, parent);
        strcat(found, "/");
        strcat(found, path);
    } else {
        if (getcwd(parent, sizeof parent) == NULL || strlen(parent) + strlen(path) + 2 > PATH_MAX) return 0;
        strcpy(found, parent);
        strcat(found, "/");
        strcat(found, path);
    }
    return is_ours(found);
}

static void note(const char *format, ...) {
    char line[3 * PATH_MAX];
    if (journal < 0) return;
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    if (length > 0 && REAL(write)(journal, line, length) != length) abort();
}

/* Keeps a file that is about to lose its name; the number it is kept under, 0 where there is none. */
static int keep_file(const char *path) {
    char name[PATH_MAX];
    if (journal < 0 || keep == NULL) return 0;
    int number = __atomic_add_fetch(&kept, 1, __ATOMIC_SEQ_CST);
    snprintf(name, sizeof name, "%s/%d-%d", keep, (int)getpid(), number);
    return REAL(link)(path, name) == 0 ? number : 0;
}

static int applies(const char *path) { return control->matching[0] == 0 || strstr(path, control->matching) != NULL; }

/* Whether one of a kind of calls is to fail now. */
static int is_due(int32_t *before, int32_t *failing) {
    int due = 0;
    pthread_mutex_lock(&lock);
    if (*before > 0) {
        --*before;
    } else if (*failing != 0) {
        if (*failing > 0) --*failing;
        due = 1;
    }
    pthread_mutex_unlock(&lock);
    return due;
}

/* The error that a write to the descriptor is to meet, 0 for none. */
static int write_error(int descriptor) {
    char path[PATH_MAX];
    if (control == NULL || !path_of(descriptor, path)) return 0;
    __atomic_add_fetch(&control->writes, 1, __ATOMIC_SEQ_CST);
    int error = control->write_error;
    if (error == 0 || !applies(path) || !is_due(&control->writes_before, &control->writes_failing)) return 0;
    return error;
}

static ssize_t fail_write(int descriptor, const struct iovec *parts, int count, off_t offset, int error) {
    size_t left = control->torn_bytes > 0 ? (size_t)control->torn_bytes : 0;
    control->torn_bytes = 0;
    for (int index = 0; index < count && left > 0; index++) {
        size_t size = parts[index].iov_len < left ? parts[index].iov_len : left;
        ssize_t written = offset < 0 ? REAL(write)(descriptor, parts[index].iov_base, size)
                                     : REAL(pwrite)(descriptor, parts[index].iov_base, size, offset);
        if (written < 0) break;
        if (offset >= 0) offset += written;
        left -= written;
    }
    errno = error;
    return -1;
}

#define WRITES(name, declared, passed, parts, count, offset)                       \
    ssize_t name declared {                                                         \
        int error = write_error(descriptor);                                        \
        if (error != 0) return fail_write(descriptor, parts, count, offset, error); \
        return REAL(name) passed;                                                   \
    }

#define ONE (&(struct iovec){(void *)data, size}), 1

#define WRITES_ONE(name, declared, passed, offset)                                \
    ssize_t name declared {                                                        \
        int error = write_error(descriptor);                                       \
        if (error != 0) return fail_write(descriptor, ONE, offset, error);         \
        return REAL(name) passed;                                                  \
    }

WRITES_ONE(write, (int descriptor, const void *data, size_t size), (descriptor, data, size), -1)
WRITES_ONE(pwrite, (int descriptor, const void *data, size_t size, off_t at), (descriptor, data, size, at), at)
WRITES_ONE(pwrite64, (int descriptor, const void *data, size_t size, off64_t at), (descriptor, data, size, at), at)
WRITES(writev, (int descriptor, const struct iovec *parts, int count), (descriptor, parts, count), parts, count, -1)
WRITES(pwritev, (int descriptor, const struct iovec *parts, int count, off_t at), (descriptor, parts, count, at), parts,
       count, at)
WRITES(pwritev64, (int descriptor, const struct iovec *parts, int count, off64_t at), (descriptor, parts, count, at),
       parts, count, at)
WRITES(pwritev2, (int descriptor, const struct iovec *parts, int count, off_t at, int flags),
       (descriptor, parts, count, at, flags), parts, count, at)
WRITES(pwritev64v2, (int descriptor, const struct iovec *parts, int count, off64_t at, int flags),
       (descriptor, parts, count, at, flags), parts, count, at)

static int sync_with(int (*call)(int), int descriptor) {
    char path[PATH_MAX];
    struct stat before;
    int is_ours = path_of(descriptor, path);
    if (is_ours && control != NULL) {
        __atomic_add_fetch(&control->syncs, 1, __ATOMIC_SEQ_CST);
        if (applies(path)) {
            int wait_ms = control->sync_ms;
            if (wait_ms > 0) nanosleep(&(struct timespec){wait_ms / 1000, wait_ms % 1000 * 1000000L}, NULL);
            int error = control->sync_error;
            if (error != 0 && is_due(&control->syncs_before, &control->syncs_failing)) {
                errno = error;
                return -1;
            }
        }
    }
    /* What is written while the sync runs need not be in it. */
    int is_known = is_ours && fstat(descriptor, &before) == 0;
    int result = call(descriptor);
    if (result == 0 && is_known) {
        if (S_ISDIR(before.st_mode))
            note("folder\t%s\n", path);
        else
            note("content\t%llu\t%lld\n", (unsigned long long)before.st_ino, (long long)before.st_size);
    }
    return result;
}

int fsync(int descriptor) { return sync_with(REAL(fsync), descriptor); }
int fdatasync(int descriptor) { return sync_with(REAL(fdatasync), descriptor); }

static void note_cut(const char *path, long long size) {
    struct stat found;
    if (stat(path, &found) == 0 && S_ISREG(found.st_mode) && found.st_size > size)
        note("cut\t%llu\t%lld\n", (unsigned long long)found.st_ino, size);
}

#define CUTS(name, type)                                            \
    int name(int descriptor, type size) {                           \
        char path[PATH_MAX];                                        \
        if (path_of(descriptor, path)) note_cut(path, size);        \
        return REAL(name)(descriptor, size);                        \
    }
CUTS(ftruncate, off_t)
CUTS(ftruncate64, off64_t)

#define CUTS_PATH(name, type)                                       \
    int name(const char *path, type size) {                         \
        char found[PATH_MAX];                                       \
        if (absolute(AT_FDCWD, path, found)) note_cut(found, size); \
        return REAL(name)(path, size);                              \
    }
CUTS_PATH(truncate, off_t)
CUTS_PATH(truncate64, off64_t)

/* Opening makes a file, or empties one. */
static void note_open(int folder, const char *path, int flags, int descriptor, int existed) {
    char found[PATH_MAX];
    if (descriptor >= 0 && (flags & O_CREAT) && !existed && absolute(folder, path, found)) note("made\t%s\n", found);
}

static int before_open(int folder, const char *path, int flags) {
    char found[PATH_MAX];
    struct stat there;
    if (!(flags & (O_CREAT | O_TRUNC)) || journal < 0 || !absolute(folder, path, found)) return 1;
    if (stat(found, &there) != 0) return 0;
    if (flags & O_TRUNC) note_cut(found, 0);
    return 1;
}

static mode_t mode_of(int flags, va_list arguments) { return flags & O_CREAT ? va_arg(arguments, mode_t) : 0; }

#define OPENS(name)                                              \
    int name(const char *path, int flags, ...) {                 \
        va_list arguments;                                       \
        va_start(arguments, flags);                              \
        mode_t mode = mode_of(flags, arguments);                 \
        va_end(arguments);                                       \
        int existed = before_open(AT_FDCWD, path, flags);        \
        int descriptor = REAL(name)(path, flags, mode);          \
        note_open(AT_FDCWD, path, flags, descriptor, existed);   \
        return descriptor;                                       \
    }
OPENS(open)
OPENS(open64)

#define OPENS_AT(name)                                           \
    int name(int folder, const char *path, int flags, ...) {     \
        va_list arguments;                                       \
        va_start(arguments, flags);                              \
        mode_t mode = mode_of(flags, arguments);                 \
        va_end(arguments);                                       \
        int existed = before_open(folder, path, flags);          \
        int descriptor = REAL(name)(folder, path, flags, mode);  \
        note_open(folder, path, flags, descriptor, existed);     \
        return descriptor;                                       \
    }
OPENS_AT(openat)
OPENS_AT(openat64)

static int note_rename(int result, const char *from, const char *to, int number, int are_ours) {
    if (result == 0 && are_ours) note("renamed\t%s\t%s\t%d-%d\n", from, to, (int)getpid(), number);
    return result;
}

int rename(const char *old, const char *new) {
    char from[PATH_MAX], to[PATH_MAX];
    int are_ours = absolute(AT_FDCWD, old, from) && absolute(AT_FDCWD, new, to);
    return note_rename(REAL(rename)(old, new), from, to, are_ours ? keep_file(to) : 0, are_ours);
}

int renameat(int old_folder, const char *old, int new_folder, const char *new) {
    char from[PATH_MAX], to[PATH_MAX];
    int are_ours = absolute(old_folder, old, from) && absolute(new_folder, new, to);
    return note_rename(REAL(renameat)(old_folder, old, new_folder, new), from, to, are_ours ? keep_file(to) : 0, are_ours);
}

static int note_removal(int result, const char *path, int number, int is_ours) {
    if (result == 0 && is_ours) note("removed\t%s\t%d-%d\n", path, (int)getpid(), number);
    return result;
}

int unlink(const char *path) {
    char found[PATH_MAX];
    int is_ours = absolute(AT_FDCWD, path, found);
    int number = is_ours ? keep_file(found) : 0;
    return note_removal(REAL(unlink)(path), found, number, is_ours);
}

int unlinkat(int folder, const char *path, int flags) {
    char found[PATH_MAX];
    int is_ours = absolute(folder, path, found);
    int number = is_ours && !(flags & AT_REMOVEDIR) ? keep_file(found) : 0;
    return note_removal(REAL(unlinkat)(folder, path, flags), found, number, is_ours);
}

int mkdir(const char *path, mode_t mode) {
    char found[PATH_MAX];
    int result = REAL(mkdir)(path, mode);
    if (result == 0 && absolute(AT_FDCWD, path, found)) note("made\t%s\n", found);
    return result;
}
