/* image - a loaded tokenizer as one file that is mapped, to load in less than 1 ms.
 *
 *   header             what it is an image of, and a hash of all that follows
 *   struct tokenizer   as it lies in memory, without its pointers
 *   arrays             those of the vocabulary and of the merges, each from a multiple of
 *                      64 bytes on, in the order of the table below
 *   added tokens       struct added_token and the content, end to end
 *
 * Nothing is converted: reading is to map the file, to check it and to set the pointers;
 * the few added tokens alone are added anew. So an image fits one program only, and its
 * header says which: the build id, a hash of the program's own content that the linker
 * makes, changes with every change of a table's form or meaning.
 *
 * Pages are mapped privately: what is written to them (a token's flags) is copied by the
 * system and stays in this process. Arrays that have to grow are copied first
 * (vocab_add). */
#include "tokenizer/image.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tokenizer/hash.h"
#include "tokenizer/image_check.h"

#define MAGIC 0x3147414D494B4F54u /* "TOKIMAG1" */
enum { ALIGNMENT = 64, BLOCK = 1 << 16 };

struct header {
    uint64_t magic, build, source, body; /* body: hash of what follows the header */
    uint64_t bytes;                      /* of the file */
    uint64_t added;
    uint64_t unused[2];
};

static const struct {
    size_t pointer; /* where it is in struct tokenizer */
    size_t item_bytes;
} arrays[] = {
    {offsetof(struct tokenizer, vocab.entries), sizeof(struct vocab_entry)},
    {offsetof(struct tokenizer, vocab.pieces), sizeof(struct vocab_piece)},
    {offsetof(struct tokenizer, vocab.shorts), sizeof(struct vocab_short)},
    {offsetof(struct tokenizer, vocab.slots), sizeof(struct vocab_slot)},
    {offsetof(struct tokenizer, vocab.text.data), 1},
    {offsetof(struct tokenizer, vocab.bytes.data), 1},
    {offsetof(struct tokenizer, bpe.merges), sizeof(struct bpe_merge)},
    {offsetof(struct tokenizer, bpe.pairs), sizeof(uint32_t)},
    {offsetof(struct tokenizer, bpe.byte_pairs), sizeof(uint32_t)},
};
enum { ARRAYS = sizeof arrays / sizeof *arrays };

static void *get_array(const struct tokenizer *t, int i) {
    void *array;
    memcpy(&array, (const char *)t + arrays[i].pointer, sizeof array);
    return array;
}

static void set_array(struct tokenizer *t, int i, const void *array) {
    memcpy((char *)t + arrays[i].pointer, &array, sizeof array);
}

/* How many items each array has, in the order of the table. */
static void count_items(const struct tokenizer *t, size_t counts[ARRAYS]) {
    const struct vocab *v = &t->vocab;
    const size_t size = (size_t)v->size;
    const size_t all[ARRAYS] = {size,
                                size,
                                size,
                                v->slot_count,
                                v->text.length + 1,
                                v->bytes.length + VOCAB_SLACK,
                                t->bpe.merge_count,
                                t->bpe.pair_slots,
                                t->facts.missing_bytes ? 0 : BPE_BYTE_PAIRS};
    memcpy(counts, all, sizeof all);
}

/* ---- which program, which files, which folder ---- */

/* The build id of the program itself, which the dynamic linker lists first. */
static int find_build_id(struct dl_phdr_info *info, size_t size, void *result) {
    (void)size;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        if (p->p_type != PT_NOTE)
            continue;
        const char *at = (const char *)(uintptr_t)(info->dlpi_addr + p->p_vaddr);
        const char *end = at + p->p_memsz;
        while (at + sizeof(ElfW(Nhdr)) <= end) {
            ElfW(Nhdr) note;
            memcpy(&note, at, sizeof note);
            const char *id = at + sizeof note + (note.n_namesz + 3) / 4 * 4;
            if (note.n_type == NT_GNU_BUILD_ID)
                *(uint64_t *)result = hash_bytes(id, note.n_descsz) | 1;
            at = id + (note.n_descsz + 3) / 4 * 4;
        }
    }
    return 1;
}

/* 0: the program has none. */
static uint64_t build_id(void) {
    uint64_t id = 0;
    dl_iterate_phdr(find_build_id, &id);
    return id;
}

/* Goes on from `hash` over a file; one that cannot be read counts as not there. */
static void hash_file(const char *path, char *block, struct image *image) {
    struct stat info;
    struct error err;
    int file;
    if (file_open(&file, &info, path, &err) != OK) {
        image->source = hash_mix(image->source, 0);
        return;
    }
    size_t filled = 0;
    ssize_t n;
    do {
        n = read(file, block + filled, BLOCK - filled);
        filled += n > 0 ? (size_t)n : 0;
        image->source_bytes += n > 0 ? (uint64_t)n : 0;
        if (filled == BLOCK || n == 0) {
            image->source = hash_mix(image->source, hash_long(block, filled));
            filled = 0;
        }
    } while (n > 0 || (n < 0 && errno == EINTR));
    image->source = hash_mix(image->source, n < 0 ? 2 : 1);
    close(file);
}

static bool hash_sources(struct image *image, const char *const *paths, int count) {
    char *block = malloc(BLOCK);
    image->source = (uint64_t)count;
    image->source_bytes = 0;
    for (int i = 0; block && i < count; i++)
        hash_file(paths[i], block, image);
    free(block);
    return block && image->source_bytes >= IMAGE_LEAST_SOURCE;
}

static bool cache_folder(char path[PATH_BYTES]) {
    static const struct {
        const char *variable, *below;
    } places[] = {{"NORMGLUE_CACHE", ""},
                  {"XDG_CACHE_HOME", "/normglue"},
                  {"HOME", "/.cache/normglue"}};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        const char *folder = getenv(places[i].variable);
        if (!folder)
            continue;
        const int n = snprintf(path, PATH_BYTES, "%s%s", folder, places[i].below);
        return *folder && n < PATH_BYTES;
    }
    return false;
}

bool image_find(struct image *image, const char *const *paths, int count) {
    char name[64];
    struct error err;
    image->build = build_id();
    if (!cache_folder(image->folder) || !image->build ||
        !hash_sources(image, paths, count))
        return false;
    snprintf(name, sizeof name, "tokenizer-%016llx.image",
             (unsigned long long)hash_mix(image->source, image->build));
    return file_join(image->path, image->folder, name, &err) == OK;
}

/* ---- reading ---- */

/* Mapped for reading first: that brings all pages in without copying them. */
static bool map(struct mapping *m, const char *path) {
    int file;
    struct stat info;
    struct error err;
    if (file_open(&file, &info, path, &err) != OK)
        return false;
    const size_t size = (size_t)info.st_size;
    void *data = MAP_FAILED;
    if (size > sizeof(struct header) + sizeof(struct tokenizer))
        data = mmap(NULL, size, PROT_READ, MAP_PRIVATE | MAP_POPULATE, file, 0);
    close(file);
    if (data == MAP_FAILED)
        return false;
    *m = (struct mapping){data, size};
    if (mprotect(data, size, PROT_READ | PROT_WRITE) == 0)
        return true;
    file_unmap(m);
    return false;
}

static bool header_fits(const struct mapping *m, const struct image *image) {
    const struct header *h = (const struct header *)m->data;
    return h->magic == MAGIC && h->build == image->build && h->source == image->source &&
           h->bytes == m->size &&
           h->body == hash_long(m->data + sizeof *h, m->size - sizeof *h);
}

/* Sets the pointers of the arrays; false: the file is too short. *at: what follows. */
static bool take_arrays(struct tokenizer *t, const struct mapping *m, size_t *at) {
    size_t counts[ARRAYS];
    if (t->vocab.size < 0 || t->vocab.text.length >= m->size ||
        t->vocab.bytes.length >= m->size)
        return false;
    count_items(t, counts);
    *at = sizeof(struct header) + sizeof *t;
    for (int i = 0; i < ARRAYS; i++) {
        *at = (*at + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
        if (*at > m->size || counts[i] > (m->size - *at) / arrays[i].item_bytes)
            return false;
        set_array(t, i, counts[i] ? m->data + *at : NULL);
        *at += counts[i] * arrays[i].item_bytes;
    }
    return true;
}

static bool take_added(struct tokenizer *t, const struct mapping *m, size_t at) {
    const struct header *h = (const struct header *)m->data;
    struct error err;
    for (uint64_t i = 0; i < h->added; i++) {
        struct added_token token;
        if (m->size - at < sizeof token)
            return false;
        memcpy(&token, m->data + at, sizeof token);
        at += sizeof token;
        token.content = (char *)(uintptr_t)(m->data + at);
        if (token.length >= m->size - at || token.content[token.length] ||
            !image_check_added(&token) || !vocab_has(&t->vocab, token.id) ||
            added_add(&t->added, &token, &err) != OK)
            return false;
        at += token.length + 1;
    }
    return at == m->size && tokenizer_add_tokens(t, NULL, 0, &err) == OK;
}

bool image_read(const struct image *image, struct tokenizer *t) {
    struct mapping m;
    struct tokenizer empty = *t;
    size_t at;
    if (!map(&m, image->path))
        return false;
    if (header_fits(&m, image)) {
        memcpy(t, m.data + sizeof(struct header), sizeof *t);
        t->image = m;
        t->vocab.is_mapped = t->bpe.is_mapped = true;
        t->bpe.joined = (struct buffer){0};
        t->added = (struct added){0};
        t->words = (struct words){&t->bpe, &t->vocab};
        if (take_arrays(t, &m, &at) && image_check(t) && take_added(t, &m, at))
            return true;
        added_free(&t->added);
        *t = empty;
    }
    file_unmap(&m);
    return false;
}

/* ---- writing ---- */

static enum status add_aligned(struct buffer *b, const void *bytes, size_t length,
                               struct error *err) {
    static const char zeros[ALIGNMENT];
    const size_t over = b->length % ALIGNMENT;
    TRY(buffer_add(b, zeros, over ? ALIGNMENT - over : 0, err));
    return buffer_add(b, bytes, length, err);
}

/* Capacities are what is there: growing begins with copying. */
static struct tokenizer without_pointers(const struct tokenizer *t) {
    struct tokenizer bare = *t;
    for (int i = 0; i < ARRAYS; i++)
        set_array(&bare, i, NULL);
    bare.vocab.is_mapped = bare.bpe.is_mapped = true;
    bare.vocab.capacity = t->vocab.size;
    bare.vocab.text.capacity = t->vocab.text.length + 1;
    bare.vocab.bytes.capacity = t->vocab.bytes.length + VOCAB_SLACK;
    bare.bpe.merge_capacity = t->bpe.merge_count;
    bare.bpe.joined = (struct buffer){0};
    bare.added = (struct added){0};
    bare.words = (struct words){0};
    bare.image = (struct mapping){0};
    return bare;
}

static enum status add_added(struct buffer *b, const struct added *added,
                             struct error *err) {
    for (size_t i = 0; i < added->count; i++) {
        struct added_token token = added->tokens[i];
        token.content = NULL;
        TRY(buffer_add(b, &token, sizeof token, err));
        TRY(buffer_add(b, added->tokens[i].content, token.length + 1, err));
    }
    return OK;
}

static enum status fill(struct buffer *b, const struct image *image,
                        const struct tokenizer *t, struct error *err) {
    struct header h = {.magic = MAGIC, .build = image->build, .source = image->source};
    const struct tokenizer bare = without_pointers(t);
    size_t counts[ARRAYS];
    count_items(t, counts);
    TRY(buffer_add(b, &h, sizeof h, err));
    TRY(buffer_add(b, &bare, sizeof bare, err));
    for (int i = 0; i < ARRAYS; i++)
        TRY(add_aligned(b, get_array(t, i), counts[i] * arrays[i].item_bytes, err));
    TRY(add_added(b, &t->added, err));
    h.added = t->added.count;
    h.bytes = b->length;
    h.body = hash_long(b->data + sizeof h, b->length - sizeof h);
    memcpy(b->data, &h, sizeof h);
    return OK;
}

/* Removes the oldest images until there is room for one more. */
static void make_room(const char *folder) {
    for (;;) {
        char oldest[PATH_BYTES] = "", path[PATH_BYTES];
        time_t least = 0;
        int count = 0;
        struct dirent *entry;
        struct stat info;
        struct error err;
        DIR *list = opendir(folder);
        while (list && (entry = readdir(list))) {
            if (strncmp(entry->d_name, "tokenizer-", 10) != 0 ||
                file_join(path, folder, entry->d_name, &err) != OK ||
                stat(path, &info) != 0)
                continue;
            if (!count++ || info.st_mtime < least) {
                memcpy(oldest, path, sizeof oldest);
                least = info.st_mtime;
            }
        }
        if (list)
            closedir(list);
        if (count < IMAGE_MOST || unlink(oldest) != 0)
            return;
    }
}

void image_write(const struct image *image, const struct tokenizer *t,
                 const char *const *paths, int count) {
    struct image now;
    struct buffer bytes = {0};
    struct error err;
    if (!image_find(&now, paths, count) || now.source != image->source)
        return;
    if (file_make_directory(image->folder, &err) == OK &&
        fill(&bytes, image, t, &err) == OK) {
        make_room(image->folder);
        /* A cache that cannot be written is no failure of the work at hand. */
        (void)!file_write(image->path, bytes.data, bytes.length, &err);
    }
    buffer_free(&bytes);
}
