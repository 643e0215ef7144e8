/* pieces - a text cut into added tokens and what lies between.
 *
 *   source      "x <raw> \u00C5 <norm> y"
 *   round 1     "x "  <raw>  " \u00C5 <norm> y"        as the text stands
 *   normalise                " a\u030A <norm> y"       e.g. NFD: only what lies between
 *   round 2                  " a\u030A "  <norm>  " y"
 *
 * The second round works on bytes that the source does not have; `origins` lead back.
 * Without a normalizer the text is not copied and both rounds look at the source itself.
 */
#include "tokenizer/pieces.h"

struct origin piece_origin(const struct piece *p, size_t start, size_t end) {
    if (!p->origins)
        return (struct origin){(uint32_t)(p->start + start), (uint32_t)(p->start + end)};
    return (struct origin){(uint32_t)p->start + p->origins[start].start,
                           (uint32_t)p->start + p->origins[end - 1].end};
}

/* The second round, over one piece of the first. */
static enum status cut_normalized(const struct added *added, const struct piece *whole,
                                  struct piece_sink sink, struct error *err) {
    struct added_scan scan = {.added = added,
                              .set = &added->normalized,
                              .text = whole->text,
                              .length = whole->length};
    struct added_piece found;
    while (added_next(&scan, &found)) {
        struct piece p = {.token = found.token,
                          .text = whole->text + found.start,
                          .length = found.end - found.start,
                          .start = whole->start};
        if (whole->origins)
            p.origins = whole->origins + found.start;
        else
            p.start += found.start;
        TRY(sink.take(sink.self, &p, err));
    }
    return OK;
}

enum status pieces_cut(const struct added *added, const struct normalizer *normalizer,
                       const unsigned char *text, size_t length, struct piece_sink sink,
                       struct error *err) {
    struct added_scan scan = {
        .added = added, .set = &added->raw, .text = text, .length = length};
    struct added_piece found;
    struct normalized normal = {0};
    enum status status = OK;
    while (status == OK && added_next(&scan, &found)) {
        struct piece p = {.token = found.token,
                          .text = text + found.start,
                          .length = found.end - found.start,
                          .start = found.start};
        if (p.token) {
            status = sink.take(sink.self, &p, err);
            continue;
        }
        if (normalizer->count) {
            status = normalizer_apply(normalizer, p.text, p.length, &normal, err);
            p.text = (const unsigned char *)normal.text.data;
            p.length = normal.text.length;
            p.origins = normal.origins;
        }
        if (status == OK)
            status = cut_normalized(added, &p, sink, err);
    }
    normalized_free(&normal);
    return status;
}
